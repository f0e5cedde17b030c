"""An engine side and the frames it writes, as short conversations."""

from itertools import count
from typing import Any

import msgspec

from polylect.dialects.base import Env
from polylect.dialects.omp.engine.codec import EngineSide
from polylect.vocab.commands import Command
from polylect.vocab.content import Failure
from polylect.vocab.events import Event, Reply
from polylect.wire import jsonl

Frame = dict[str, Any]


class EngineTalk:
    """The clock stands still unless a test moves it."""

    def __init__(self, version: str = "13", **options: Any) -> None:
        numbers = count(1)
        self.now = 1000
        env = Env(now=lambda: self.now, new_id=lambda: f"new-{next(numbers)}")
        self.side = EngineSide(env, version=version, **options)
        self.commands: list[Command] = []
        """What the last lines meant."""

    def receive(self, *frames: Frame | bytes) -> list[Frame]:
        """The host says this: the frames that the codec answers by itself."""
        lines = [frame if isinstance(frame, bytes) else jsonl.dump(frame).rstrip() for frame in frames]
        self.commands = self.side.receive(b"".join(line + b"\n" for line in lines))
        return self.frames()

    def send(self, *events: Event) -> list[Frame]:
        """The engine says this: the frames that came of it."""
        self.commands = [command for event in events for command in self.side.send(event)]
        return self.frames()

    def ask(self, frame: Frame, data: Any = None, failure: Failure | None = None) -> list[Frame]:
        """One command and the engine's reply to it."""
        answered = self.receive(frame)
        result = self.commands
        for command in result:
            answered += self.send(Reply(command.ref, data, failure))
        self.commands = result
        return answered

    def frames(self) -> list[Frame]:
        return [msgspec.json.decode(line) for line in self.side.data_to_send().splitlines()]


def kinds(frames: list[Frame]) -> list[str]:
    """Types in order; messages with their role, updates with what they update."""
    return [_kind(frame) for frame in frames]


def _kind(frame: Frame) -> str:
    match frame:
        case {"type": "message_update", "assistantMessageEvent": {"type": inner}}:
            return str(inner)
        case {"type": "message_start" | "message_end" as kind, "message": {"role": role}}:
            return f"{kind} {role}"
        case {"type": "response", "command": command, "success": success}:
            return f"response {command}" if success else f"response {command} failed"
        case _:
            return str(frame["type"])
