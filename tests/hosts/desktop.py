"""Wayland Desktop, as far as an engine can tell: how it starts one, what it sends when, and what it cannot bear."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from engine_process import PATIENCE, Engine, Frame, Place
from machine import within

WITHIN = 30.0
"""How long it waits for `ready`."""
LONGEST = 1024 * 1024
"""Longer lines it takes, up to eight times this, but slowly."""


_WITH_PIPE = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.execvp(sys.argv[2], sys.argv[2:])"


class Fault(AssertionError):
    """Here the real one shows an error and kills the engine."""


def environment(place: Place, programs: Path, **more: str) -> dict[str, str]:
    """Filtered: nothing of Python's, of a virtual environment or of XDG; no locale either."""
    system = os.environ.get("PATH", os.defpath)
    home = {"HOME": str(place.folder), "WAYLAND_HOME": str(place.folder / "wayland")}
    return {"PATH": f"{programs}{os.pathsep}{system}", **home, "WAYLAND_ALLOW_WIRE_FORCE": "1", **more}


class Desktop(Engine):
    """Starts the engine by its name, with a pipe at descriptor 3, and holds every line to its rules."""

    def __init__(self, place: Place, programs: Path, *flags: str, name: str = "wayland-core", **env: str) -> None:
        self.starting = True
        self.ends: Counter[str] = Counter()
        self.open: set[str] = set()
        """Requests that nothing has closed yet: its watchdog rests for them."""
        self._own, theirs = os.pipe()
        argv = ["--json-stream", "--provider", "scripted", "--model", "m", *flags, "--assistant", "wayland-desktop"]
        started = [sys.executable, "-I", "-S", "-c", _WITH_PIPE, str(theirs), name, *argv]
        super().__init__(started, place.workspace, environment(place, programs, **env), keep=(theirs,))
        os.close(theirs)
        place.keep(self)

    def opened(self) -> "Desktop":
        self.ready = self.frame(within=WITHIN)
        return self

    def frame(self, within: float = WITHIN) -> Frame:
        line = self.line(within)
        if not line:
            raise Fault(f"the engine has ended, or said an empty line; on stderr: {self.errors}")
        frame = read(line)
        self._hold(frame)
        return frame

    def rest(self) -> list[Frame]:
        frames = [read(line) for line in iter(self.line, b"")]
        for frame in frames:
            self._hold(frame)
        return frames

    def _hold(self, frame: Frame) -> None:
        if self.starting != (frame["type"] == "ready"):
            raise Fault(f"`ready` comes first, and once: {frame}")
        self.starting = False
        if self.ends[frame.get("msg_id") or ""]:
            raise Fault(f"something of a turn after its end: {frame}")
        match frame["type"]:
            case "stream_end":
                self.ends[frame["msg_id"]] += 1
            case "tool_request":
                self.open.add(frame["call_id"])
            case "tool_result" | "tool_cancelled":
                self.open.discard(frame["call_id"])

    def turn(self, text: str, msg_id: str, **more: Any) -> list[Frame]:
        """Send a message and hear its whole turn; requests are allowed at once, as Autopilot does."""
        self.send({"type": "message", "msg_id": msg_id, "content": text, **more})
        frames = [self.frame()]
        while not self.ends[msg_id]:
            if frames[-1]["type"] == "tool_request":
                self.send({"type": "tool_approve", "call_id": frames[-1]["call_id"], "scope": "once"})
            frames.append(self.frame())
        return frames

    def end(self) -> None:
        super().end()
        os.close(self._own)


def read(line: bytes) -> Frame:
    """One line as it reads them: strict UTF-8, strict JSON, and every member that it looks at has to be there."""
    if len(line) > LONGEST:
        raise Fault(f"a line of {len(line)} bytes")
    try:
        frame = json.loads(line.decode(), parse_constant=_refuse)
        kind = frame["type"]
        if kind == "tool_request":
            tool = frame["tool"]
            complete = all(isinstance(tool[key], str) for key in ("name", "category", "description"))
            command = tool["args"].get("command", "")
            whole = complete and isinstance(tool["args"], dict) and isinstance(command, str)
        elif kind == "error":
            whole = isinstance(frame["error"]["message"], str)
        else:
            whole = isinstance(kind, str) and kind != ""
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Fault(f"{error!r}: {line[:500]!r}") from None
    if not whole:
        raise Fault(f"a member is missing: {line[:500]!r}")
    actual: Frame = frame
    return actual


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def run(place: Place, programs: Path, *words: str, name: str = "wayland-core") -> subprocess.CompletedProcess[bytes]:
    """To its end, as for `--version`."""
    env = environment(place, programs)
    argv = ["/usr/bin/env", name, *words]
    with within(5):
        return subprocess.run(argv, cwd=place.workspace, env=env, capture_output=True, timeout=PATIENCE, check=False)
