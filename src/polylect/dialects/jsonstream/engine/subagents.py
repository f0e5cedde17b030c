"""Sub-agents as `sub_agent_event`: what a child says travels inside, as it would have said it itself.

A lane is a turn of its own there, with the agent's id for its `msg_id`: a host that shows what is inside like any other
frame must not mix it with the words of the turn.
"""

from collections.abc import Callable
from itertools import chain, count
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames.families import SubAgentEvent
from polylect.dialects.jsonstream.frames.read import Bad, Unknown, read_inner
from polylect.vocab.content import Failure
from polylect.vocab.events import (
    AgentEnded,
    AgentProgress,
    AgentStarted,
    Alive,
    Ask,
    AskClosed,
    Event,
    Failed,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

_OF_A_CHILD = (
    TextDelta, ThinkingDelta, ToolCalled, Ask, AskClosed, ToolStarted, ToolOutput, ToolFinished, Alive, Notice, Failed,
)  # fmt: skip
"""What counts inside another event. All else is inert there: a setting of a child is none of ours."""
_LAST_WORDS = (shapes.Info, shapes.Error, shapes.StreamEnd)
"""What may come when the child is gone already: it opens no lane."""
_STATES = {"succeeded": True, "failed": False}
"""How a child ended, where later engines say it outright."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


# Saying.


class Writer(Protocol):
    def write(self, event: Event) -> None: ...

    def take(self) -> bytes: ...


class Relay:
    """Each lane has a writer of its own, and the call and the name by which hosts tell it from others."""

    def __init__(self, writer: Callable[[], Writer]) -> None:
        self._writer = writer
        self._lanes: dict[str, tuple[str, str, Writer]] = {}

    def frames(self, event: Event) -> list[SubAgentEvent]:
        call, name, writer = self._lanes.get(event.agent) or self._open(event)
        for said in _as_its_own(event):
            writer.write(said)
        inner = [_decode(line) for line in writer.take().splitlines()]
        if isinstance(event, AgentEnded):
            del self._lanes[event.agent]
            inner[-1].pop("usage")  # what children used is counted with the turn
        frames = [SubAgentEvent(call, name, frame) for frame in inner]
        if _is_stopped(event):
            frames[-1] = replace(frames[-1], terminal_state="failed")
        return frames

    def _open(self, event: Event) -> tuple[str, str, Writer]:
        call, name = (event.call, event.name) if isinstance(event, AgentStarted) else ("", "")
        name = name or event.agent
        taken = {known for other, known, _ in self._lanes.values() if other == call}
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        lane = (call, next(name for name in names if name not in taken), self._writer())
        self._lanes[event.agent] = lane
        return lane


def _is_stopped(event: Event) -> bool:
    return isinstance(event, AgentEnded) and event.failure is not None and event.failure.code == "cancelled"


def _as_its_own(event: Event) -> list[Event]:
    turn = event.agent
    match event:
        case AgentStarted():
            return [TurnStarted(turn=turn)]
        case AgentProgress():
            return []
        case AgentEnded(ok=True, summary=summary):
            return [*([Notice(summary)] if summary else []), TurnEnded("end", turn=turn)]
        case AgentEnded(summary=summary) if _is_stopped(event):
            return [*([Notice(summary)] if summary else []), TurnEnded("cancelled", turn=turn)]
        case AgentEnded(failure=Failure() as failure):
            return [TurnEnded("error", failure=failure, turn=turn)]
        case AgentEnded(summary=summary):
            failure = Failure("sub_agent_error", summary or "the sub-agent failed", "engine")
            return [TurnEnded("error", failure=failure, turn=turn)]
        case _:
            return [replace(event, agent="", turn=turn)]


# Reading.


class Reader(Protocol):
    asks: dict[str, Ask]

    def read(self, frame: shapes.Frame, found: dict[str, Any]) -> list[Event]: ...

    def knows(self, call: str) -> bool: ...


class _Lane:
    def __init__(self, id: str, reader: Reader) -> None:
        self.id = id
        self.reader = reader
        self.remark = ""
        """Said by the child, and perhaps its last word."""


class Lanes:
    """The lanes that are open, by what hosts tell them apart by. Each has a reader of its own."""

    def __init__(self, reader: Callable[[], Reader]) -> None:
        self._reader = reader
        self._lanes: dict[tuple[str, str], _Lane] = {}

    def clear(self) -> None:
        """The turn is over. A child that goes on speaks from the background."""
        self._lanes.clear()

    def read(self, frame: SubAgentEvent, found: dict[str, Any], turn: str) -> list[Event]:
        key = (frame.parent_call_id, frame.agent_name)
        heard = read_inner(frame.inner)
        if isinstance(heard, Bad | Unknown):
            return []
        lane = self._lanes.get(key) or _Lane(self._id(frame), self._reader())
        events: list[Event] = []
        if key not in self._lanes and not isinstance(heard[0], _LAST_WORDS):
            events.append(self._started(frame, lane.id, turn))
            self._lanes[key] = lane
        for event in lane.reader.read(*heard):
            events += self._inside(event, key, lane)
        if (ok := _STATES.get(str(found.get("terminal_state")))) is not None:
            events += self._ended(key, lane)
            events = [replace(event, ok=ok) if isinstance(event, AgentEnded) else event for event in events]
        events = [replace(event, agent=lane.id, turn=turn) for event in events]
        lane.reader.asks.update({event.ask: event for event in events if isinstance(event, Ask)})
        return events

    def _id(self, frame: SubAgentEvent) -> str:
        """Its name, if nobody else has it just now."""
        taken = any(lane.id == frame.agent_name for lane in self._lanes.values())
        return f"{frame.parent_call_id}/{frame.agent_name}" if taken or not frame.agent_name else frame.agent_name

    def _started(self, frame: SubAgentEvent, id: str, turn: str) -> AgentStarted:
        call = frame.parent_call_id
        parent = next((lane.id for lane in self._lanes.values() if lane.reader.knows(call)), "")
        return AgentStarted(parent, call, frame.agent_name, background=not turn, agent=id)

    def _inside(self, event: Event, key: tuple[str, str], lane: _Lane) -> list[Event]:
        match event:
            case Notice(text, turn="") if key in self._lanes and not lane.remark:
                lane.remark = text
                return []
            case TurnEnded(reason, failure=failure):
                return self._ended(key, lane, ok=reason != "error", why=failure.message if failure else "")
            case _ if not isinstance(event, _OF_A_CHILD):
                return []
        remark, lane.remark = lane.remark, ""
        return [*([Notice(remark)] if remark else []), event]

    def _ended(self, key: tuple[str, str], lane: _Lane, *, ok: bool = True, why: str = "") -> list[Event]:
        if self._lanes.pop(key, None) is None:
            return []
        return [AgentEnded(ok, why or lane.remark)]
