"""One conversation that lives through many engines, each killed at a moment of its own; and what must be left of it.

What the host has heard is what was acknowledged. Everything here compares that with the files.
"""

import json
import os
import random
import signal
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

from apis.test_histories import TOOLS, VENDORS
from doubles import check_history
from engine_process import Engine, Frame, Place
from polylect.sessions import log
from polylect.sessions.blobs import named
from polylect.sessions.replay import CUT_OFF, Replay, message_text, missing_results
from polylect.vocab.content import Message, ToolResult
from polylect.vocab.entries import Opened
from polylect.vocab.ports import ModelRequest

SCRIPT = """
[[reply]]
when.step = 1
say = [
    { thinking = "A plan for {prompt}." },
    { text = "one {prompt}" },
    { call = "Write", args.file_path = "{prompt}.txt", args.content = "{prompt}" },
    { call = "Bash", args.command = "seq -s ' {prompt} ' 1 8000; sleep 0.1" },
]

[[reply]]
when.step = 2
say = [{ text = "two {prompt}" }, { call = "Read", args.file_path = "{prompt}.png" }]

[[reply]]
text = "three {prompt} {prompt} {prompt}"
split = "word"
"""
"""Three steps: files are written, an output is too long for the model, a picture is looked at."""
_FRAMES = 16
"""About as many as a turn has."""


class Conversation:
    """A session and all that its host was told."""

    def __init__(self, place: Place, seed: int) -> None:
        self._place = place
        self._random = random.Random(seed)
        self._flags = ["--force", *place.script(SCRIPT)]
        self._folder = place.sessions / "one"
        self._prompts = 0
        self._received: dict[str, str] = {}
        """For each turn whose beginning was told, all its text."""
        self._ended: set[str] = set()
        self.lives = 0

    def live_and_die(self) -> None:
        """Start an engine, give it one prompt or two, kill it, and look at what it leaves."""
        self.lives += 1
        engine = self._started()
        frames = max(0, self._random.randrange(-4, _FRAMES))
        delay = self._random.random() * (0.02 if frames else 0.3)  # before the first frame everything is loaded
        kill = threading.Timer(delay, engine.signal, [signal.SIGKILL])
        self._talk(engine, self._random.choice([1, 1, 2]), _Fuse(frames, kill))
        assert engine.wait() == -signal.SIGKILL, engine.errors
        engine.end()
        self._verify()

    def live_on(self) -> None:
        """After the last crash: everything in order, one more turn, and a quiet end."""
        engine = self._started()
        engine.send({"type": "ping"})
        engine.until("pong")
        self._verify()
        assert self.orphans() == []
        self._talk(engine, 1)
        assert self._ended
        assert engine.wait() == 0
        self._verify()
        assert self.orphans() == []

    def _started(self) -> Engine:
        known = (self._folder / "log.jsonl").exists() and (self._folder / "log.jsonl").stat().st_size
        return self._place.start("--resume" if known else "--session-id", "one", *self._flags)

    def _talk(self, engine: Engine, prompts: int, fuse: "_Fuse | None" = None) -> None:
        try:
            if fuse:
                fuse.burn(0)
            for _ in range(prompts):
                engine.send(self._prompt())
            if not fuse:
                engine.close_input()
        except BrokenPipeError:
            pass  # killed already
        ended = len(self._ended)
        for number, frame in enumerate(_frames(engine), 1):
            self._hear(frame)
            if fuse:
                fuse.burn(number if len(self._ended) < ended + prompts else _FRAMES)

    def _prompt(self) -> Frame:
        self._prompts += 1
        name = f"p{self._prompts}q"
        (self._place.workspace / f"{name}.png").write_bytes(_picture(name))
        return {"type": "message", "msg_id": name, "input": name, "files": [f"{name}.png"]}

    def _hear(self, frame: Frame) -> None:
        turn = frame.get("msg_id") or (list(self._received)[-1] if self._received else "")
        match frame["type"]:
            case "stream_start":
                self._received[turn] = ""
            case "text_delta":
                self._received[turn] += frame["text"]
            case "stream_end":
                assert frame["finish_reason"] == "stop", frame
                self._ended.add(turn)
            case "error":
                raise AssertionError(frame)

    # What is left.

    def _verify(self) -> None:
        if not (self._folder / "log.jsonl").exists():
            assert not self._received
            return
        actual = log.read_path(str(self._folder / "log.jsonl"))
        assert not actual.faults
        assert sum(isinstance(entry.body, Opened) for entry in actual.entries) <= 1
        result = Replay(actual.entries)
        messages = [*result.messages, *filter(None, [missing_results(result.messages)]), *result.waiting.values()]
        check_history(messages)
        for check in VENDORS.values():
            check(ModelRequest("m", "be good", messages, TOOLS))
        for turn in self._received:
            self._verify_turn(turn, messages)

    def _verify_turn(self, turn: str, messages: list[Message]) -> None:
        """Nothing acknowledged is lost: the prompt, every step but the last, and the last one if the turn ended."""
        said = [message_text(message) for message in messages]
        assert said.count(turn) == 1, f"{turn} is there {said.count(turn)} times"
        received = self._received[turn]
        begun = [step for step in (f"one {turn}", f"two {turn}", f"three {turn}") if step in received]
        done = begun if turn in self._ended else begun[:-1]
        for step in done:
            at = next(number for number, text in enumerate(said) if text.startswith(step))
            if step.startswith("three"):
                assert said[at] == f"three {turn} {turn} {turn}"
            else:
                results = [block for block in messages[at + 1].content if isinstance(block, ToolResult)]
                assert results
                assert all(result.output != CUT_OFF for result in results), f"{step}: {results}"

    def orphans(self) -> list[str]:
        """Files of the session that nothing leads to, and drafts in the workspace."""
        text = (self._folder / "log.jsonl").read_text()
        entries = log.read_path(str(self._folder / "log.jsonl")).entries
        known = {"log.jsonl", "lock", "workspace", *(name.removeprefix("sha256:") for name in named(entries))}
        files = [Path(place) / name for place, _, names in os.walk(self._folder) for name in names]
        drafts = list(map(str, self._place.workspace.glob(".polylect-*")))
        return drafts + [str(path) for path in files if path.name not in known and f"/spill/{path.name}" not in text]


def _picture(words: str) -> bytes:
    """One pixel, and words that make it unlike any other."""
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        (b"tEXt", b"Comment\0" + words.encode()),
        (b"IDAT", zlib.compress(b"\0\0\0\0")),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


class _Fuse:
    """Sets off the kill after so many frames."""

    def __init__(self, frames: int, kill: threading.Timer) -> None:
        self._frames = frames
        self._kill = kill
        self._lit = False

    def burn(self, frames: int) -> None:
        if frames >= self._frames and not self._lit:
            self._lit = True
            self._kill.start()


def _frames(engine: Engine) -> Iterator[Frame]:
    """All that it says; a line that its death cut short was never said."""
    for line in iter(engine.line, b""):
        try:
            yield json.loads(line)
        except ValueError:
            return


def survives(place: Place, *, seed: int, kills: int) -> Conversation:
    conversation = Conversation(place, seed)
    for _ in range(kills):
        conversation.live_and_die()
    conversation.live_on()
    return conversation
