"""Turns the `subagent_*` frames into events: start, progress and end of each sub-agent, and what it does.

Each sub-agent has an `AgentStream` of its own, which reads the frames inside `subagent_event`. Used by `decode`.
"""

from collections.abc import Callable

from polylect.dialects.omp.host.agent_stream import FRAMES, AgentStream
from polylect.dialects.omp.host.fields import Fields, flag, number, table, text
from polylect.dialects.omp.host.messages import usage_of
from polylect.vocab import events as e
from polylect.vocab.content import Usage


class Agents:
    """Engines name the call that asked for an agent `parentToolCallId` (omp) or `toolCallId` (polylect)."""

    def __init__(self) -> None:
        self._streams: dict[str, AgentStream] = {}

    def read(self, kind: str, frame: Fields, turn: str) -> list[e.Event]:
        return _HANDLERS[kind](self, table(frame, "payload"), turn)

    def pop_usage(self) -> Usage:
        """What agents used since the last time."""
        return sum((stream.pop_usage() for stream in self._streams.values()), Usage())

    def caller(self, call: str) -> str:
        """Which agent made a call; the main one, if none did."""
        return next((agent for agent, stream in self._streams.items() if call in stream), "")

    @property
    def open_calls(self) -> list[e.ToolCalled]:
        return [call for stream in self._streams.values() for call in stream.open_calls]

    def _lifecycle(self, payload: Fields, turn: str) -> list[e.Event]:
        agent, status = text(payload, "id"), text(payload, "status")
        if status == "started":
            return [self._started(agent, payload, turn)]
        self._streams.pop(agent, None)
        summary = text(payload, "summary")
        return [e.AgentEnded(status == "completed", summary, agent=agent, turn=turn)]

    def _started(self, agent: str, payload: Fields, turn: str) -> e.Event:
        self._streams[agent] = AgentStream(agent)
        return e.AgentStarted(
            text(payload, "parentId"),
            text(payload, "toolCallId") or text(payload, "parentToolCallId"),
            text(payload, "agent"),
            text(payload, "task") or text(payload, "description"),
            background=flag(payload, "background") or flag(payload, "detached"),
            agent=agent,
            turn=turn,
        )

    def _progress(self, payload: Fields, turn: str) -> list[e.Event]:
        progress = table(payload, "progress") or payload
        agent = text(payload, "id") or text(progress, "id")
        usage = progress.get("usage")
        body = text(progress, "text") or text(progress, "lastIntent") or text(progress, "currentTool")
        spent = usage_of(usage) if isinstance(usage, dict) else Usage()
        return [e.AgentProgress(body, spent, number(progress, "toolCount"), agent=agent, turn=turn)]

    def _event(self, payload: Fields, turn: str) -> list[e.Event]:
        agent, event = text(payload, "id"), table(payload, "event")
        kind = text(event, "type")
        if kind not in FRAMES:
            return []
        stream = self._streams.setdefault(agent, AgentStream(agent))
        stream.place["turn"] = turn
        return stream.read(kind, event)


_HANDLERS: dict[str, Callable[[Agents, Fields, str], list[e.Event]]] = {
    "subagent_lifecycle": Agents._lifecycle,
    "subagent_progress": Agents._progress,
    "subagent_event": Agents._event,
}
