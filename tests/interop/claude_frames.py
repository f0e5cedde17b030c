"""A host that speaks Claude's wire line by line, to whichever program it is given."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

Frame = dict[str, Any]
FLAGS = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")
_LONGEST = 1 << 24


class Program:
    """One that was started. `frames` is all it has said; permission is given by `verdict`."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str], verdict: Callable[[Frame], Frame]) -> None:
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._verdict = verdict
        self.frames: list[Frame] = []

    async def __aenter__(self) -> Self:
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        self._process = await asyncio.create_subprocess_exec(
            *self._argv, cwd=self._cwd, env=self._env, limit=_LONGEST, **pipes
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()

    def send(self, frame: Frame) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(frame).encode() + b"\n")

    def request(self, subtype: str, **fields: Any) -> None:
        self.send({"type": "control_request", "request_id": subtype, "request": {"subtype": subtype, **fields}})

    def prompt(self, text: str, **fields: Any) -> None:
        message = {"role": "user", "content": text}
        self.send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "", **fields})

    async def until(self, actual: Callable[[Frame], bool]) -> Frame:
        """The first frame for which that holds; what it asks for on the way is allowed or not."""
        async for frame in self._received():
            if actual(frame):
                return frame
        raise AssertionError(f"it ended after {[name(frame) for frame in self.frames]}")

    async def end(self) -> int:
        """No more input: what it still says, and how it exits."""
        assert self._process.stdin
        self._process.stdin.close()
        async for _ in self._received():
            pass
        return await self._process.wait()

    async def _received(self) -> Any:
        assert self._process.stdout
        while line := await self._process.stdout.readline():
            frame = json.loads(line)
            self.frames.append(frame)
            if frame["type"] == "control_request":
                result = {"subtype": "success", "request_id": frame["request_id"], "response": self._verdict(frame)}
                self.send({"type": "control_response", "response": result})
            yield frame


def name(frame: Frame) -> str:
    """What kind of frame it is, and whether a sub-agent's."""
    result = frame
    match frame:
        case {"type": "assistant" | "user" as kind, "message": {"content": [{"type": block}]}}:
            result = f"{kind}/{block}"
        case {"type": "control_request", "request": {"subtype": subtype}}:
            result = f"control_request/{subtype}"
        case {"type": "stream_event", "event": {"type": kind}}:
            result = f"stream_event/{kind}"
        case {"type": kind, "subtype": subtype}:
            result = f"{kind}/{subtype}"
        case {"type": kind}:
            result = kind
    return f"{result} of an agent" if frame.get("parent_tool_use_id") else result
