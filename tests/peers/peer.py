"""What the scripted peers share: frames out, commands in, and a model that does what the prompt says.

A scripted peer is a program that behaves as another engine was seen to behave. It needs no model: the last paragraph of
the prompt is its script, with parts that are separated by ` ; `:

    say TEXT       the model writes this
    run COMMAND    the model asks for a shell command, which really runs
    read PATH      the model reads a file, which is not asked for
    recall         the model writes all prompts that it knows
    wait           the model is silent until somebody stops the turn
    fail TEXT      the engine reports this error
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

Frame = dict[str, Any]
_EOF: Frame = {"type": ""}


def emit(**frame: object) -> None:
    """Writes a frame."""
    sys.stdout.write(json.dumps(frame, ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def info(message: str, msg_id: str = "") -> None:
    emit(type="info", msg_id=msg_id, message=message)


def flag(name: str) -> str:
    """The value of a flag on the command line; empty without one."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


def script(content: str) -> list[tuple[str, str]]:
    """The parts of the script in a prompt: their word and the rest."""
    parts = [part.partition(" ") for part in content.rsplit("\n\n", 1)[-1].split(" ; ")]
    return [(word, rest) for word, _, rest in parts]


class Stopped(Exception):
    """The host stopped the turn."""


class Commands:
    """What the host sends, read by a thread; `received` has all of it."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._log(line)
            try:
                frame = json.loads(line)
            except ValueError:
                continue
            self._queue.put(frame)
        self._queue.put(_EOF)

    @staticmethod
    def _log(line: str) -> None:
        if path := os.environ.get("PEER_LOG"):
            with Path(path).open("a") as file:
                file.write(line)

    def put(self, frame: Frame) -> None:
        """Adds something that the peer waits for besides commands."""
        self._queue.put(frame)

    def next(self) -> Frame:
        """The next command; its type is empty at the end of the input."""
        return self._queue.get()

    def next_within(self, seconds: float) -> Frame | None:
        """The next command, if one comes soon."""
        try:
            return self._queue.get(timeout=seconds)
        except queue.Empty:
            return None


class Memory:
    """A session on disk: prompts, messages of a model that was asked, calls without a result, what it has used."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.path = Path(f".peer-sessions/{id}.json")
        self.state: dict[str, Any] = {"prompts": [], "open_calls": 0, "interrupted": False, "used": {}, "messages": []}
        if self.path.exists():
            self.state = json.loads(self.path.read_text())

    def spend(self, usage: Mapping[str, int]) -> None:
        self.save(used=dict(Counter(self.state["used"]) + Counter(usage)))

    def save(self, **changes: object) -> None:
        self.state |= changes
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.state))


def run_command(line: str) -> "subprocess.Popen[str]":
    """A shell in a process group of its own, as engines start commands."""
    return subprocess.Popen(
        ["sh", "-c", line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )


def leave(message: str, code: int) -> NoReturn:
    """Ends before `ready`: the reason goes to stderr."""
    print(message, file=sys.stderr)
    raise SystemExit(code)
