"""Tasks of the engine: sub-agents, whose lanes are called like the calls that asked for them, and other work that is
only a sign of life."""

from polylect.dialects.claude.frames.lenient import Object, inner, text, whole
from polylect.dialects.claude.host.tools import Calls
from polylect.vocab.answers import AgentCard
from polylect.vocab.events import AgentEnded, AgentProgress, AgentStarted, Alive, Event, Extra

_OVER = ("completed", "failed", "killed", "stopped")


class Agents:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._tasks: dict[str, str] = {}
        """By task: the agent's lane, or the call of other work."""
        self.running: dict[str, AgentCard] = {}
        """By lane."""
        self._ended: set[str] = set()

    def lane(self, agent: str) -> str:
        """Of an agent by the name that only tasks and asks use for it."""
        return lane if (lane := self._tasks.get(agent, "")) in self.running else ""

    def task(self, lane: str) -> str:
        """The other way round."""
        return next((task for task, agent in self._tasks.items() if agent == lane), lane)

    def seen(self, found: Object) -> list[Event]:
        """An agent speaks: it has begun, even if no task said so."""
        lane = text(found, "parent_tool_use_id")
        if not lane or lane in self.running or lane in self._ended:
            return []
        return [self._begin(lane, AgentCard(lane, text(found, "subagent_type"), text(found, "task_description")))]

    def started(self, found: Object) -> list[Event]:
        task, call = text(found, "task_id"), text(found, "tool_use_id")
        kind = text(found, "task_type")
        if not text(found, "subagent_type") and "agent" not in kind and "workflow" not in kind:
            self._tasks[task] = call
            return [Alive(call, agent=self._calls.lane(call))]
        lane = call or task
        self._tasks[task] = lane
        if lane in self.running:
            return []
        told = text(found, "prompt") or text(found, "description")
        # The older engines do not say it, but the model did.
        background = found.get("is_backgrounded", self._calls.detached(call)) is True
        return [self._begin(lane, AgentCard(lane, text(found, "subagent_type"), told, background))]

    def progress(self, found: Object) -> list[Event]:
        lane = self._of(found)
        if lane not in self.running:
            return [Alive(lane, agent=self._calls.lane(lane))] if lane and lane not in self._ended else []
        status = text(inner(found, "patch"), "status")
        if status in _OVER:
            return []  # its notification follows
        said = text(found, "description") or status
        return [AgentProgress(said, calls=whole(inner(found, "usage"), "tool_uses"), agent=lane)]

    def ended(self, found: Object) -> list[Event]:
        lane = self._of(found)
        self._tasks.pop(text(found, "task_id"), None)
        if self.running.pop(lane, None) is None:
            told = {key: value for key, value in found.items() if key not in ("type", "subtype", "uuid", "session_id")}
            return [] if lane in self._ended else [Extra("task_notification", told)]
        self._ended.add(lane)
        return [AgentEnded(text(found, "status") == "completed", text(found, "summary"), agent=lane)]

    def turn_ended(self) -> list[str]:
        """Those that did not outlive it."""
        gone = [lane for lane, card in self.running.items() if not card.background]
        for lane in gone:
            del self.running[lane]
        self._ended.update(gone)
        return gone

    def _begin(self, lane: str, card: AgentCard) -> AgentStarted:
        self.running[lane] = card
        self._ended.discard(lane)
        call = lane if self._calls.knows(lane) else ""
        parent = self._calls.lane(lane)
        return AgentStarted(
            parent=parent, call=call, name=card.name, task=card.task, background=card.background, agent=lane
        )

    def _of(self, found: Object) -> str:
        return self._tasks.get(text(found, "task_id")) or text(found, "tool_use_id")
