"""A host side and what it hears, as short conversations."""

from typing import Any

from msgspec.structs import replace

from dialects.pair import env
from polylect.dialects.omp.host.codec import HostSide
from polylect.vocab.commands import Command
from polylect.vocab.events import Event
from polylect.wire import jsonl

Frame = dict[str, Any]

READY: Frame = {"type": "ready"}
START: Frame = {"type": "agent_start"}
STEP: Frame = {"type": "turn_start"}
STEP_END: Frame = {"type": "turn_end", "message": {}, "toolResults": []}
IDLE = {"isStreaming": False, "isCompacting": False, "sessionId": "s", "model": {"provider": "p", "id": "m"}}
BUSY = {**IDLE, "isStreaming": True}
USAGE = {"input": 10, "output": 5, "cacheRead": 1, "cacheWrite": 2, "totalTokens": 18, "cost": {"total": 0.25}}


def reply(*content: Frame, stop: str = "stop", **more: Any) -> Frame:
    return {"role": "assistant", "content": list(content), "stopReason": stop, "model": "m", "usage": USAGE, **more}


def text(said: str) -> Frame:
    return {"type": "text", "text": said}


def call(id: str, name: str, **args: Any) -> Frame:
    return {"type": "toolCall", "id": id, "name": name, "arguments": args}


def said(message: Frame) -> list[Frame]:
    return [{"type": "message_start", "message": message}, {"type": "message_end", "message": message}]


def user(words: str) -> list[Frame]:
    return said({"role": "user", "content": [text(words)]})


def update(kind: str, **fields: Any) -> Frame:
    return {"type": "message_update", "assistantMessageEvent": {"type": kind, "contentIndex": 0, **fields}}


def end(*messages: Frame, **more: Any) -> Frame:
    return {"type": "agent_end", "messages": list(messages), **more}


def answer(id: str, command: str, data: Any = None, error: str = "") -> Frame:
    frame: Frame = {"type": "response", "command": command, "success": not error}
    return {
        **frame,
        **({"id": id} if id else {}),
        **({"data": data} if data else {}),
        **({"error": error} if error else {}),
    }


class Talk:
    """`sent` is what the host side has written since it was last asked."""

    def __init__(self, version: str = "13", *, ready: bool = True) -> None:
        self.now = 0
        self.side = HostSide(replace(env(), now=lambda: self.now), version=version)
        self.side.start()
        if ready:
            if version != "pi":  # which is ready when it answers
                self.receive(READY)
            self.state(IDLE)

    def receive(self, *frames: Frame, only: type[Any] | tuple[type[Any], ...] = object) -> list[Event]:
        received = self.side.receive(b"".join(map(jsonl.dump, frames)))
        return [event for event in received if isinstance(event, only)]

    def send(self, command: Command) -> list[Event]:
        return self.side.send(command)

    @property
    def sent(self) -> list[Frame]:
        return [jsonl.parse(line) for line in self.side.data_to_send().splitlines()]

    def state(self, data: Frame, *, only: type[Any] | tuple[type[Any], ...] = object) -> list[Event]:
        """The answer to the one question about the state that is under way."""
        [requested] = [frame["id"] for frame in self.sent if frame["type"] == "get_state"]
        return self.receive(answer(requested, "get_state", data), only=only)
