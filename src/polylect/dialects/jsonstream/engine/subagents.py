"""Writes what sub-agents do as `sub_agent_event` frames.

Each event of a sub-agent is encoded as if the sub-agent were the main agent, and the frames are put inside:

    TextDelta("hi", agent="a1")
    {"type":"sub_agent_event", ..., "inner":{"type":"text_delta","text":"hi","msg_id":"a1"}}

The agent's id is the inner `msg_id`, so that a host that shows inner frames like any other does not mix them with the
text of the turn. Used by `encode.EventWriter`; `host/subagents.py` is the other end.
"""

from collections.abc import Callable
from itertools import chain, count
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from polylect.dialects.jsonstream.frames.optional import SubAgentEvent
from polylect.vocab import events as e
from polylect.vocab.content import Failure

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Writer(Protocol):
    def write(self, event: e.Event) -> None: ...

    def data_to_send(self) -> bytes: ...


class SubagentWriter:
    """Each agent has a writer of its own, and the call and the name by which hosts tell it from others."""

    def __init__(self, writer: Callable[[], Writer]) -> None:
        self._writer = writer
        self._agents: dict[str, tuple[str, str, Writer]] = {}

    def frames(self, event: e.Event) -> list[SubAgentEvent]:
        call, name, writer = self._agents.get(event.agent) or self._open(event)
        for own in _as_main_agent(event):
            writer.write(own)
        inner = [_decode(line) for line in writer.data_to_send().splitlines()]
        if isinstance(event, e.AgentEnded):
            del self._agents[event.agent]
            inner[-1].pop("usage")  # what children used is counted with the turn
        frames = [SubAgentEvent(call, name, frame) for frame in inner]
        if _is_stopped(event):
            frames[-1] = replace(frames[-1], terminal_state="failed")
        return frames

    def _open(self, event: e.Event) -> tuple[str, str, Writer]:
        call, name = (event.call, event.name) if isinstance(event, e.AgentStarted) else ("", "")
        name = name or event.agent
        names_in_use = {used for other, used, _ in self._agents.values() if other == call}
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        agent = (call, next(name for name in names if name not in names_in_use), self._writer())
        self._agents[event.agent] = agent
        return agent


def _is_stopped(event: e.Event) -> bool:
    return isinstance(event, e.AgentEnded) and event.failure is not None and event.failure.code == "cancelled"


def _as_main_agent(event: e.Event) -> list[e.Event]:
    turn = event.agent
    match event:
        case e.AgentStarted():
            return [e.TurnStarted(turn=turn)]
        case e.AgentProgress():
            return []
        case e.AgentEnded(ok, summary) if ok or _is_stopped(event):
            return [*([e.Notice(summary)] if summary else []), e.TurnEnded("end" if ok else "cancelled", turn=turn)]
        case e.AgentEnded(summary=summary, failure=failure):
            unsaid = Failure("sub_agent_error", summary or "the sub-agent failed", "engine")
            return [e.TurnEnded("error", failure=failure or unsaid, turn=turn)]
        case _:
            return [replace(event, agent="", turn=turn)]
