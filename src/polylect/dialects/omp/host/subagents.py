"""Sub-agents: their beginning, progress and end, and what each says, in a lane of its own."""

from collections.abc import Callable

from polylect.dialects.omp.host.agent_stream import FRAMES, Lane
from polylect.dialects.omp.host.fields import Found, flag, number, table, text
from polylect.dialects.omp.host.messages import usage_of
from polylect.vocab import events as e
from polylect.vocab.content import Usage


class Agents:
    """Engines name the call that asked for an agent `parentToolCallId` (omp) or `toolCallId` (polylect)."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}

    def read(self, kind: str, found: Found, turn: str) -> list[e.Event]:
        return _FRAMES[kind](self, table(found, "payload"), turn)

    def take_spent(self) -> Usage:
        """What agents used since the last time."""
        return sum((lane.take_spent() for lane in self._lanes.values()), Usage())

    def caller(self, call: str) -> str:
        """Which agent made a call; the main one, if none did."""
        return next((agent for agent, lane in self._lanes.items() if call in lane), "")

    def _lifecycle(self, payload: Found, turn: str) -> list[e.Event]:
        agent, status = text(payload, "id"), text(payload, "status")
        if status == "started":
            return [self._started(agent, payload, turn)]
        self._lanes.pop(agent, None)
        summary = text(payload, "summary")
        return [e.AgentEnded(status == "completed", summary, agent=agent, turn=turn)]

    def _started(self, agent: str, payload: Found, turn: str) -> e.Event:
        self._lanes[agent] = Lane(agent)
        return e.AgentStarted(
            text(payload, "parentId"),
            text(payload, "toolCallId") or text(payload, "parentToolCallId"),
            text(payload, "agent"),
            text(payload, "task") or text(payload, "description"),
            background=flag(payload, "background") or flag(payload, "detached"),
            agent=agent,
            turn=turn,
        )

    def _progress(self, payload: Found, turn: str) -> list[e.Event]:
        told = table(payload, "progress") or payload
        agent = text(payload, "id") or text(told, "id")
        usage = told.get("usage")
        said = text(told, "text") or text(told, "lastIntent") or text(told, "currentTool")
        spent = usage_of(usage) if isinstance(usage, dict) else Usage()
        return [e.AgentProgress(said, spent, number(told, "toolCount"), agent=agent, turn=turn)]

    def _event(self, payload: Found, turn: str) -> list[e.Event]:
        agent, event = text(payload, "id"), table(payload, "event")
        kind = text(event, "type")
        if kind not in FRAMES:
            return []
        lane = self._lanes.setdefault(agent, Lane(agent))
        lane.place["turn"] = turn
        return lane.read(kind, event)


_FRAMES: dict[str, Callable[[Agents, Found, str], list[e.Event]]] = {
    "subagent_lifecycle": Agents._lifecycle,
    "subagent_progress": Agents._progress,
    "subagent_event": Agents._event,
}
