"""A real engine on real pipes, driven step by step: every wait ends on an event and is bounded."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import IO, Any, Self

from machine import PATIENCE, slowness, within

_SOURCES = str(Path(__file__).parent.parent / "src")
_MAIN = "from polylect.app.main import main\nraise SystemExit(main())\n"
_numbers = count(os.getpid() * 1000)

Frame = dict[str, Any]


def message(text: str, msg_id: str = "m1") -> Frame:
    """Both versions of the wire read this one."""
    return {"type": "message", "msg_id": msg_id, "input": text}


def approve(call_id: str, scope: str = "once") -> Frame:
    return {"type": "tool_approve", "call_id": call_id, "scope": scope}


def launcher() -> str:
    """A program that is polylect, as pip writes it: through sh, so that a path may hold a space."""
    return f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n{_MAIN}"


class Place:
    """Where engines of a test live: their state, the user's settings, a workspace. Ends them all on leaving."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.settings = folder / "config" / "polylect" / "config.toml"
        self.sessions = folder / "state" / "sessions"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self._engines: list[Engine] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for engine in self._engines:
            engine.end()

    @property
    def env(self) -> dict[str, str]:
        """As little as an engine can do with: nothing of the machine's own settings gets in."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "PYTHONPATH": _SOURCES,
            "POLYLECT_HOME": str(self.folder / "state"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "POLYLECT_PROVIDER": "scripted",
        }

    def configure(self, toml: str) -> None:
        self.settings.parent.mkdir(parents=True, exist_ok=True)
        self.settings.write_text(toml)

    def script(self, toml: str) -> list[str]:
        """The flags that make an engine play this."""
        path = self.folder / f"script-{next(_numbers)}.toml"
        path.write_text(toml)
        return ["--provider", "scripted", "--script", str(path)]

    def argv(self, *flags: str, script: str = "") -> list[str]:
        played = self.script(script) if script else ["--provider", "scripted"]
        return [sys.executable, "-m", "polylect", "--json-stream", *played, *flags]

    def start(
        self,
        *flags: str,
        script: str = "",
        env: dict[str, str] | None = None,
        stdin: int | IO[bytes] = subprocess.PIPE,
        stdout: int | IO[bytes] = subprocess.PIPE,
    ) -> "Engine":
        """An engine that is being started; `started` also waits for its `ready`."""
        engine = Engine(self.argv(*flags, script=script), self.workspace, {**self.env, **(env or {})}, stdin, stdout)
        self.keep(engine)
        return engine

    def keep(self, engine: "Engine") -> None:
        """End this one too on leaving."""
        self._engines.append(engine)

    def started(self, *flags: str, script: str = "", env: dict[str, str] | None = None) -> "Engine":
        engine = self.start(*flags, script=script, env=env)
        engine.ready = engine.frame()
        assert engine.ready["type"] == "ready"
        return engine

    def run(self, *words: str, given: bytes = b"", env: dict[str, str] | None = None) -> "Outcome":
        """`polylect` with these words, to its end."""
        argv = [sys.executable, "-m", "polylect", *words]
        result = {**self.env, **(env or {})}
        done = subprocess.run(
            argv, cwd=self.workspace, env=result, input=given, capture_output=True, timeout=PATIENCE, check=False
        )
        return Outcome(done.returncode, done.stdout, done.stderr.decode())


class Outcome:
    def __init__(self, code: int, out: bytes, errors: str) -> None:
        self.code = code
        self.out = out
        self.errors = errors

    @property
    def frames(self) -> list[Frame]:
        return [json.loads(line) for line in self.out.splitlines()]


class Engine:
    """One running engine."""

    def __init__(
        self,
        argv: list[str],
        cwd: Path,
        env: dict[str, str],
        stdin: int | IO[bytes] = subprocess.PIPE,
        stdout: int | IO[bytes] = subprocess.PIPE,
        keep: tuple[int, ...] = (),
    ) -> None:
        self.ready: Frame = {}
        self._cwd = cwd
        self._errors = open(cwd.parent / f"stderr-{next(_numbers)}", "w+b")  # noqa: SIM115  (closed by `end`)
        self._child = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=self._errors, pass_fds=keep
        )
        self._unread = b""

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def errors(self) -> str:
        """What it wrote to stderr so far."""
        return Path(self._errors.name).read_text(errors="replace")

    @property
    def input(self) -> int:
        """The descriptor of our end of its standard input."""
        assert self._child.stdin is not None
        return self._child.stdin.fileno()

    # To the engine.

    def send(self, *frames: Frame | bytes | str) -> None:
        """All in one write. Bytes go as they are; anything else as a line."""
        data = b"".join(_line(frame) for frame in frames)
        assert self._child.stdin is not None
        self._child.stdin.write(data)
        self._child.stdin.flush()

    def close_input(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()

    def close_output(self) -> None:
        """What a host does that goes away."""
        assert self._child.stdout is not None
        self._child.stdout.close()

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    # From the engine.

    def read(self, most: int = 1 << 20, within: float = PATIENCE) -> bytes:
        """Some bytes; none at its end."""
        if self._unread:
            data, self._unread = self._unread[:most], self._unread[most:]
            return data
        assert self._child.stdout is not None
        if not select.select([self._child.stdout], [], [], within)[0]:
            raise AssertionError(f"the engine said nothing for {within} s; on stderr: {self.errors}")
        return os.read(self._child.stdout.fileno(), most)

    def says_something(self, within: float) -> bool:
        """Whether there is something to read, or comes within this time."""
        assert self._child.stdout is not None
        return bool(self._unread or select.select([self._child.stdout], [], [], within)[0])

    def line(self, within: float = PATIENCE) -> bytes:
        """The next line without its end; empty when there are no more."""
        parts = []
        while data := self.read(within=within):
            head, newline, rest = data.partition(b"\n")
            parts.append(head)
            if newline:
                self._unread = rest + self._unread
                break
        return b"".join(parts)

    def frame(self, within: float = PATIENCE) -> Frame:
        line = self.line(within)
        assert line, f"the engine has ended; on stderr: {self.errors}"
        frame: Frame = json.loads(line)
        return frame

    def until(self, kind: str) -> list[Frame]:
        """Everything up to the first frame of this kind, with it."""
        frames = [self.frame()]
        while frames[-1]["type"] != kind:
            frames.append(self.frame())
        return frames

    def rest(self) -> list[Frame]:
        """Everything it still says, to its end."""
        return [json.loads(line) for line in iter(self.line, b"")]

    def talk(self, conversation: str) -> None:
        """Lines with → go to the engine, lines with ← have to come from it, byte for byte."""
        outgoing: list[str] = []
        for turn in conversation.replace("$WORKSPACE", str(self._cwd)).strip().split("\n"):
            arrow, _, said = turn.strip().partition(" ")
            if arrow == "→":
                outgoing.append(said)
                continue
            assert arrow == "←", turn
            if outgoing:
                self.send(*outgoing)
                outgoing = []
            received = self.line().decode()
            assert received == said, f"\nexpected {said}\n     got {received}"
        if outgoing:
            self.send(*outgoing)

    # Its end.

    def wait(self, within: float = PATIENCE) -> int:
        """How it exits, within this time or what that becomes on a machine that has no time for it."""
        try:
            return self._child.wait(within)
        except subprocess.TimeoutExpired:
            return self._child.wait(within * (slowness() - 1))

    def finish(self) -> tuple[list[Frame], int]:
        """No more input: what it still says, and how it exits."""
        self.close_input()
        return self.rest(), self.wait()

    def end(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout, self._errors):
            if pipe:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass  # what was not yet written has nobody to go to

    # What the system says of it.

    @property
    def resident(self) -> int:
        """Bytes of memory in use now."""
        return _status(self.pid, "VmRSS")

    @property
    def peak(self) -> int:
        return _status(self.pid, "VmHWM")

    @property
    def effort(self) -> tuple[str, int]:
        """Whether all of its threads sleep (S) or one has to do, and how many clock ticks it has used."""
        words = _stat(Path(f"/proc/{self.pid}"))
        states = {_stat(thread)[0] for thread in Path(f"/proc/{self.pid}/task").iterdir()}
        return "S" if states == {"S"} else "R", int(words[11]) + int(words[12])

    def wait_until_stuck(self) -> None:
        """Until it has nothing more to do: it sleeps, and has used no time for a while."""
        still, before = 0, ("", 0)

        def stuck() -> bool:
            nonlocal still, before
            now = self.effort
            still, before = (still + 1 if now == before and now[0] == "S" else 0), now
            return still >= 12

        eventually(stuck)


def _line(frame: Frame | bytes | str) -> bytes:
    if isinstance(frame, bytes):
        return frame
    text = frame if isinstance(frame, str) else json.dumps(frame, ensure_ascii=False)
    return text.encode() + b"\n"


def _stat(process: Path) -> list[str]:
    """From its state on; of a thread that has just ended only that."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X"]


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name} for process {pid}")


def eventually(holds: Callable[[], bool], within: float = PATIENCE) -> None:
    """For what nobody announces: looked at again and again until it holds."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        select.select([], [], [], 0.02)


# Processes that engines start.


def say_once(place: Place, argv: list[str], text: str) -> tuple[int, list[str], bytes]:
    """An engine for one message: its exit code, the texts that it said, and its stderr."""
    supplied = json.dumps(message(text)).encode()
    done = subprocess.run(
        argv, input=supplied, env=place.env, cwd=place.workspace, capture_output=True, timeout=4 * PATIENCE, check=False
    )
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, [frame["text"] for frame in frames if "text" in frame], done.stderr


class Sleepers:
    """A length of sleep that nobody else on the machine uses, by which every process of a command can be found."""

    def __init__(self, place: Place) -> None:
        self.length = f"{next(_numbers):015}.5"  # always as long, so that none is part of another
        self._fifo = place.folder / f"fifo-{self.length}"
        os.mkfifo(self._fifo)
        self.go = f"echo go > ../{self._fifo.name}"  # from the workspace: no need to quote, whatever is above it
        """The shell command that says: all is started."""

    def command(self) -> str:
        """Sleepers that do not want to die: plain, in a session of their own, and orphaned twice over."""
        n = self.length
        return f"sleep {n} & setsid sleep {n} & (setsid sleep {n} >/dev/null 2>&1 &); {self.go}; sleep {n}"

    def wait_until_started(self) -> None:
        reader = os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)
        try:
            assert select.select([reader], [], [], PATIENCE)[0], "the command was never started"
        finally:
            os.close(reader)

    def pids(self) -> list[int]:
        return list(self._found())

    def wait_until_gone(self, seconds: float = 5.0) -> None:
        with within(seconds):
            deadline = time.monotonic() + PATIENCE
            while pids := self.pids():
                left = deadline - time.monotonic()
                assert left > 0, f"{len(pids)} processes survived"
                _wait_for_end(pids[0], left)

    def _found(self) -> Iterator[int]:
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    line = Path(f"/proc/{entry}/cmdline").read_bytes()
                except OSError:
                    continue
                if self.length.encode() in line:
                    yield int(entry)


def _wait_for_end(pid: int, within: float) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([process], [], [], within)
    finally:
        os.close(process)
