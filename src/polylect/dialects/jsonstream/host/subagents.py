"""Reads `sub_agent_event` frames: what a sub-agent did, as events with the sub-agent's id.

A frame holds an inner frame as the sub-agent would have sent it itself. The wire has no frames for the start and the
end of a sub-agent, so `AgentStarted` comes with its first frame and `AgentEnded` with its `stream_end`, or with the
`terminal_state` that later engines add. Used by `decode.EventReader`; `engine/subagents.py` is the other end.
"""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec.structs import replace

from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames.optional import SubAgentEvent
from polylect.dialects.jsonstream.frames.read import Bad, Unknown, read_inner
from polylect.vocab import events as e

_CHILD_EVENTS = (
    e.TextDelta, e.ThinkingDelta, e.ToolCalled, e.Ask, e.AskClosed, e.ToolStarted, e.ToolOutput, e.ToolFinished,
    e.Alive, e.Notice, e.Failed,
)  # fmt: skip
"""Events of a sub-agent that are passed on. Its settings, for example, are not those of the session."""
_FINAL_FRAMES = (shapes.Info, shapes.Error, shapes.StreamEnd)
"""Frames that may come after the end of a sub-agent: they do not start a new one."""
_STATES = {"succeeded": True, "failed": False}
"""`terminal_state` of later engines: whether the sub-agent succeeded."""


class Reader(Protocol):
    asks: dict[str, e.Ask]

    def read(self, frame: shapes.Frame, fields: dict[str, Any]) -> list[e.Event]: ...

    def knows(self, call: str) -> bool: ...


class _Subagent:
    def __init__(self, id: str, reader: Reader) -> None:
        self.id = id
        self.reader = reader
        self.remark = ""
        """A notice that is held back, because it may be the summary of the sub-agent."""


class SubagentReader:
    """The sub-agents that run, by parent call and name. Each has a reader of its own."""

    def __init__(self, reader: Callable[[], Reader]) -> None:
        self._reader = reader
        self._agents: dict[tuple[str, str], _Subagent] = {}

    def clear(self) -> None:
        """The turn is over. A sub-agent that goes on runs in the background."""
        self._agents.clear()

    def read(self, frame: SubAgentEvent, fields: dict[str, Any], turn: str) -> list[e.Event]:
        key = (frame.parent_call_id, frame.agent_name)
        received = read_inner(frame.inner)
        if isinstance(received, Bad | Unknown):
            return []
        agent = self._agents.get(key) or _Subagent(self._id(frame), self._reader())
        events: list[e.Event] = []
        if key not in self._agents and not isinstance(received[0], _FINAL_FRAMES):
            events.append(self._started(frame, agent.id, turn))
            self._agents[key] = agent
        for event in agent.reader.read(*received):
            events += self._inner_calls(event, key, agent)
        if (ok := _STATES.get(str(fields.get("terminal_state")))) is not None:
            events += self._ended(key, agent)
            events = [replace(event, ok=ok) if isinstance(event, e.AgentEnded) else event for event in events]
        events = [replace(event, agent=agent.id, turn=turn) for event in events]
        agent.reader.asks.update({event.ask: event for event in events if isinstance(event, e.Ask)})
        return events

    def _id(self, frame: SubAgentEvent) -> str:
        """Its name, if nobody else has it just now."""
        in_use = any(agent.id == frame.agent_name for agent in self._agents.values())
        return f"{frame.parent_call_id}/{frame.agent_name}" if in_use or not frame.agent_name else frame.agent_name

    def _started(self, frame: SubAgentEvent, id: str, turn: str) -> e.AgentStarted:
        call = frame.parent_call_id
        parent = next((agent.id for agent in self._agents.values() if agent.reader.knows(call)), "")
        return e.AgentStarted(parent, call, frame.agent_name, background=not turn, agent=id)

    def _inner_calls(self, event: e.Event, key: tuple[str, str], agent: _Subagent) -> list[e.Event]:
        match event:
            case e.Notice(text, turn="") if key in self._agents and not agent.remark:
                agent.remark = text
                return []
            case e.TurnEnded(reason, failure=failure):
                return self._ended(key, agent, ok=reason != "error", why=failure.message if failure else "")
            case _ if not isinstance(event, _CHILD_EVENTS):
                return []
        remark, agent.remark = agent.remark, ""
        return [*([e.Notice(remark)] if remark else []), event]

    def _ended(self, key: tuple[str, str], agent: _Subagent, *, ok: bool = True, why: str = "") -> list[e.Event]:
        if self._agents.pop(key, None) is None:
            return []
        return [e.AgentEnded(ok, why or agent.remark)]
