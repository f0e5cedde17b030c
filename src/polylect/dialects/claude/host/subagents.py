"""Tasks of the engine: sub-agents, and other background work.

A sub-agent is named after the call that started it, because its frames carry that as `parent_tool_use_id`; task ids
are mapped to it. It begins with `task_started` or with its first message, whichever comes first. Other work becomes
`Alive` events. `decode` is the caller.
"""

from polylect.dialects.claude.host.tools import CallRecords
from polylect.dialects.lenient import Object, inner, text, whole
from polylect.vocab.answers import AgentCard
from polylect.vocab.events import AgentEnded, AgentProgress, AgentStarted, Alive, Event, Extra

_OVER = ("completed", "failed", "killed", "stopped")


class Agents:
    def __init__(self, calls: CallRecords) -> None:
        self._calls = calls
        self._tasks: dict[str, str] = {}
        """By task: the agent, or the call of other work."""
        self._runs: dict[str, str] = {}
        """By task: the id of its latest run."""
        self.running: dict[str, AgentCard] = {}
        """By agent."""
        self._ended: set[str] = set()

    def agent_of(self, task: str) -> str:
        """The agent of a task id, which asks use as `agent_id`."""
        return agent if (agent := self._tasks.get(task, "")) in self.running else ""

    def task_of(self, agent: str) -> str:
        """The task id of an agent."""
        return next((task for task, agent_id in self._tasks.items() if agent_id == agent), agent)

    def spoke(self, frame: Object) -> list[Event]:
        """A message of an agent has come: the agent has begun, even without `task_started`."""
        agent = text(frame, "parent_tool_use_id")
        if not agent or agent in self.running or agent in self._ended:
            return []
        return [self._begin(agent, AgentCard(agent, text(frame, "subagent_type"), text(frame, "task_description")))]

    def started(self, frame: Object) -> list[Event]:
        task, call = text(frame, "task_id"), text(frame, "tool_use_id")
        kind = text(frame, "task_type")
        if not text(frame, "subagent_type") and "agent" not in kind and "workflow" not in kind:
            self._tasks[task] = call
            return [Alive(call, agent=self._calls.agent_of(call))]
        agent = call or task
        self._tasks[task] = agent
        self._runs[task] = text(frame, "run_id")
        if agent in self.running:
            return []
        description = text(frame, "prompt") or text(frame, "description")
        # The older engines do not say it, but the model did.
        background = frame.get("is_backgrounded", self._calls.detached(call)) is True
        return [self._begin(agent, AgentCard(agent, text(frame, "subagent_type"), description, background))]

    def _is_late(self, frame: Object) -> bool:
        """Whether it is about an earlier run of a task that was resumed: the ids of runs rise."""
        run = text(frame, "run_id")
        return bool(run) and run < self._runs.get(text(frame, "task_id"), "")

    def progress(self, frame: Object) -> list[Event]:
        if self._is_late(frame):
            return []
        agent = self._agent_of_task(frame)
        if agent not in self.running:
            return [Alive(agent, agent=self._calls.agent_of(agent))] if agent and agent not in self._ended else []
        status = text(inner(frame, "patch"), "status")
        if status in _OVER:
            return []  # its notification follows
        description = text(frame, "description") or status
        return [AgentProgress(description, calls=whole(inner(frame, "usage"), "tool_uses"), agent=agent)]

    def ended(self, frame: Object) -> list[Event]:
        if self._is_late(frame):
            return []
        agent = self._agent_of_task(frame)
        self._tasks.pop(text(frame, "task_id"), None)
        if self.running.pop(agent, None) is None:
            details = {
                key: value for key, value in frame.items() if key not in ("type", "subtype", "uuid", "session_id")
            }
            return [] if agent in self._ended else [Extra("task_notification", details)]
        self._ended.add(agent)
        return [AgentEnded(text(frame, "status") == "completed", text(frame, "summary"), agent=agent)]

    def turn_ended(self) -> list[str]:
        """Ends the agents in the foreground and returns them."""
        gone = [agent for agent, card in self.running.items() if not card.background]
        for agent in gone:
            del self.running[agent]
        self._ended.update(gone)
        return gone

    def _begin(self, agent: str, card: AgentCard) -> AgentStarted:
        self.running[agent] = card
        self._ended.discard(agent)
        call = agent if self._calls.knows(agent) else ""
        parent = self._calls.agent_of(agent)
        return AgentStarted(
            parent=parent, call=call, name=card.name, task=card.task, background=card.background, agent=agent
        )

    def _agent_of_task(self, frame: Object) -> str:
        return self._tasks.get(text(frame, "task_id")) or text(frame, "tool_use_id")
