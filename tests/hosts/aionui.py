"""AionUi, as far as an engine can tell: how it starts one, what it reads, and when it takes a turn for dead."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from engine_process import PATIENCE, Engine, Frame, Place
from machine import within

WITHIN = 30.0
"""How long it waits for `ready`."""
DEAD = 15.0
"""After so long a silence in a run, with nothing to confirm, it ends the run by itself."""


def environment(place: Place, programs: Path, **more: str) -> dict[str, str]:
    """All of the login shell's, whatever that is."""
    system = os.environ.get("PATH", os.defpath)
    odd = {"TERM": "dumb", "NODE_ENV": "production", "ELECTRON_RUN_AS_NODE": "1", "SHELL": "/bin/sh"}
    return {**odd, "PATH": f"{programs}{os.pathsep}{system}", "HOME": str(place.folder), **more}


class AionUi(Engine):
    """Reads tolerantly, as the real one does: a bad line is dropped. These tests look at the lines themselves."""

    def __init__(self, place: Place, programs: Path, *flags: str, provider: str = "scripted", **env: str) -> None:
        self.stopped_being_heard = 0.0
        """The longest silence so far while a run had nothing to confirm."""
        self._confirming: set[str] = set()
        self._received = time.monotonic()
        argv = ["aionrs", "--json-stream", "--provider", provider, "--model", "claude-x", *flags]
        super().__init__(["/usr/bin/env", *argv], place.workspace, environment(place, programs, **env))
        place.keep(self)

    def opened(self) -> "AionUi":
        self.ready = self.frame(within=WITHIN)
        assert self.ready["type"] == "ready"
        return self

    def frame(self, within: float = WITHIN) -> Frame:
        frame = super().frame(within)
        now = time.monotonic()
        if not self._confirming:
            self.stopped_being_heard = max(self.stopped_being_heard, now - self._received)
        self._received = now
        if frame["type"] == "tool_request":
            self._confirming.add(frame["call_id"])
        elif "call_id" in frame:
            self._confirming.discard(frame["call_id"])
        return frame

    def prompt(self, text: str, msg_id: str, key: str = "content", **more: Any) -> None:
        self._received = time.monotonic()
        self.send({"type": "message", "msg_id": msg_id, key: text, **more})

    def turn(self, text: str, msg_id: str, *, allow: bool = True, key: str = "content", **more: Any) -> list[Frame]:
        """A whole run; every card is confirmed, or refused."""
        self.prompt(text, msg_id, key, **more)
        frames = [self.frame()]
        while frames[-1]["type"] != "stream_end":
            if frames[-1]["type"] == "tool_request":
                self.answer(frames[-1], allow=allow)
            frames.append(self.frame())
        return frames

    def answer(self, request: Frame, *, allow: bool = True) -> None:
        call = {"call_id": request["call_id"]}
        if allow:
            self.send({"type": "tool_approve", **call, "scope": "once"})
        else:
            self.send({"type": "tool_deny", **call, "reason": "User cancelled"})


def version(place: Place, programs: Path) -> subprocess.CompletedProcess[str]:
    env = environment(place, programs)
    argv = ["/usr/bin/env", "aionrs", "--version"]
    with within(5):
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def settings_file(place: Place, programs: Path) -> Path:
    """Where its settings page looks for the engine's servers."""
    env = environment(place, programs)
    argv = ["/usr/bin/env", "aionrs", "--config-path"]
    with within(3):
        result = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return Path(result.stdout.strip())
