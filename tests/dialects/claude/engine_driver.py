"""Drives the engine side of the codec: frames of a host go in, frames of the engine come out, both as objects."""

import json
from itertools import count
from typing import Any

from polylect.dialects.base import Env
from polylect.dialects.claude.engine.codec import EngineSide
from polylect.vocab.commands import Command, Prompt
from polylect.vocab.events import Event, Reply


class Clock:
    def __init__(self) -> None:
        self.now = 0


class EngineDriver:
    """`frames` are the frames written since it was last read; `names` the same, each by its kind."""

    def __init__(self, **options: Any) -> None:
        self.clock, numbers = Clock(), count(1)
        env = Env(now=lambda: self.clock.now, new_id=lambda: f"id-{next(numbers)}")
        self.codec = EngineSide(env, **{"session": "s", "cwd": "/w", "model": "m", **options})

    def receive(self, *frames: dict[str, Any] | bytes) -> list[Command]:
        lines = [frame if isinstance(frame, bytes) else json.dumps(frame).encode() for frame in frames]
        return self.codec.receive(b"".join(line + b"\n" for line in lines))

    def prompt(self, text: Any = "go", **fields: Any) -> str:
        """The host prompts and the engine accepts: the name of the turn."""
        [prompt] = self.receive(user(text, **fields))
        assert isinstance(prompt, Prompt)
        self.codec.send(Reply(prompt.ref))
        return prompt.turn

    def request(self, subtype: str, id: str = "r", **fields: Any) -> list[Command]:
        return self.receive({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **fields}})

    def respond(self, id: str, payload: Any = None, error: str = "") -> list[Command]:
        how = {"subtype": "error", "error": error} if error else {"subtype": "success", "response": payload}
        return self.receive({"type": "control_response", "response": {"request_id": id, **how}})

    def send(self, *events: Event) -> list[Command]:
        return [command for event in events for command in self.codec.send(event)]

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.codec.data_to_send().splitlines()]

    @property
    def names(self) -> list[str]:
        return [name(frame) for frame in self.frames]


def user(text: Any = "go", **fields: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None, **fields}


def name(frame: dict[str, Any]) -> str:
    """The kind of a frame, and of a message what is in it; with a star if it is a sub-agent's."""
    star = "*" if frame.get("parent_tool_use_id") else ""
    match frame:
        case {"type": "assistant", "message": {"content": [{"type": kind}]}}:
            aborted = " aborted" if frame.get("aborted") else ""
            return f"assistant {kind}{star}{aborted}"
        case {"type": "user", "message": {"content": [{"type": "text", "text": str(text)}]}} if text.startswith("["):
            return text
        case {"type": "user", "message": {"content": [{"type": kind}]}}:
            return f"user {kind}{star}"
        case {"type": "system", "subtype": "status", "status": status}:
            more = next((key for key in ("compact_result", "permissionMode") if key in frame), "")
            return f"status {status or more}"
        case {"type": "system", "subtype": subtype} | {"type": "result", "subtype": subtype}:
            return f"{frame['type']}/{subtype}"
        case {"type": "stream_event", "event": event}:
            return str(event["type"])
        case {"type": "control_request", "request": {"subtype": subtype}}:
            return f"control_request/{subtype}"
        case {"type": "command_lifecycle", "state": state}:
            return f"lifecycle {state}"
        case _:
            return str(frame["type"])
