"""Frames about sub-agents, which this wire calls tasks.

An agent is announced by `task_started`, reports `task_progress`, and ends with `task_updated` and
`task_notification`. Its own messages carry the call that started it as `parent_tool_use_id`. The text of an agent that
the turn waits for is shown only if the host asks for it (`--forward-subagent-text`). `EventWriter` is the caller.
"""

from typing import Any

from msgspec import UNSET, Struct

from polylect.dialects.claude.engine.block_stream import BlockStream
from polylect.dialects.claude.engine.line_writer import LineWriter
from polylect.dialects.claude.frames import notices
from polylect.dialects.claude.frames import turn as shapes
from polylect.vocab.content import Usage
from polylect.vocab.events import AgentEnded, AgentProgress, AgentStarted, ToolCalled


class Task(Struct):
    """A sub-agent that runs. `parent` is the `parent_tool_use_id` of its frames."""

    id: str
    parent: str
    kind: str
    depth: int
    background: bool
    at: int
    stream: BlockStream
    calls: int = 0
    last_progress: tuple[str, int] = ("", 0)
    """Text and number of calls of the last progress frame, so that none is written twice."""
    tokens: int = 0
    last_tool: str = ""
    stopped: bool = False


class Tasks:
    def __init__(self, out: LineWriter) -> None:
        self._out = out
        self._running: dict[str, Task] = {}
        self.forward = False
        """Whether the text of agents in the foreground is shown. That of background agents always is."""

    def stream(self, agent: str) -> BlockStream:
        """The agent's stream. An agent without `AgentStarted` gets one too."""
        if agent not in self._running:
            self._running[agent] = self._new(AgentStarted(agent=agent), "")
        return self._running[agent].stream

    def start(self, event: AgentStarted, kind: str) -> None:
        """`kind` is the `subagent_type` of the call that started it, if any."""
        task = self._running[event.agent] = self._new(event, kind)
        self._out.write_new(
            notices.TaskStarted,
            subtype="task_started",
            task_id=task.id,
            tool_use_id=event.call,
            description=event.name or event.task[:80],
            task_type="local_agent",
            subagent_type=task.kind,
            prompt=event.task,
            is_backgrounded=event.background if self._out.newer or event.background else UNSET,
            spawn_depth=task.depth,
            parent_task_id=event.parent,
        )

    def progress(self, event: AgentProgress) -> None:
        task = self._running.get(event.agent)
        used = {"total_tokens": event.usage.tokens, "tool_uses": event.calls, "duration_ms": self._took(task)}
        last = (event.text, event.calls)
        if task is None or task.last_progress != last:
            self._progress(event.agent, event.text, used)
        if task:
            task.last_progress = last

    def called(self, event: ToolCalled) -> None:
        """Report an agent's call as progress, unless that was reported already."""
        if task := self._running.get(event.agent):
            task.calls += 1
            task.last_tool = event.name
            progress = (event.description or event.name, task.calls)
            if task.last_progress != progress:
                self._progress(task.id, progress[0], self._usage(task))
            task.last_progress = progress

    def _progress(self, agent: str, text: str, used: dict[str, int]) -> None:
        task = self._running.get(agent)
        self._out.write_new(
            notices.TaskProgress,
            subtype="task_progress",
            task_id=agent,
            tool_use_id=task.parent if task else "",
            description=text,
            usage=used,
            last_tool_name=task.last_tool if task else "",
            subagent_type=task.kind if task else "",
        )

    def stop(self, agent: str | None = None) -> None:
        """The host stops this agent, or without `agent` all in the foreground: they end as killed, not as failed."""
        for task in self._running.values():
            task.stopped |= task.id == agent if agent else not task.background

    def end(self, event: AgentEnded) -> None:
        task = self._running.pop(event.agent, None)
        if task:
            task.stream.finish()
        failed = ("killed", "stopped") if task and task.stopped else ("failed", "failed")
        state, status = ("completed", "completed") if event.ok else failed
        patch: dict[str, Any] = {"status": state, "end_time": self._out.now()}
        self._out.write_new(notices.TaskUpdated, subtype="task_updated", task_id=event.agent, patch=patch)
        self._out.write_new(
            notices.TaskNotification,
            subtype="task_notification",
            task_id=event.agent,
            tool_use_id=task.parent if task else "",
            status=status,
            output_file="",
            summary=event.summary,
            usage=self._usage(task),
        )

    def spent(self, agent: str, usage: Usage) -> None:
        if task := self._running.get(agent):
            task.tokens += usage.tokens

    def _new(self, event: AgentStarted, kind: str) -> Task:
        above = self._running.get(event.parent)
        background = event.background or (above.background if above else False)
        marks: shapes.Marks = {
            "agent_id": event.agent,
            "subagent_type": kind or event.name,
            "task_description": event.name or event.task[:80],
        }
        parent = event.call or event.agent
        stream = BlockStream(self._out, parent=parent, partial=False, shown=background or self.forward, marks=marks)
        depth = above.depth + 1 if above else 1
        return Task(event.agent, parent, kind or event.name, depth, background, self._out.now(), stream)

    def _took(self, task: Task | None) -> int:
        return max(self._out.now() - task.at, 0) if task else 0

    def _usage(self, task: Task | None) -> dict[str, int]:
        tokens, calls = (task.tokens, task.calls) if task else (0, 0)
        return {"total_tokens": tokens, "tool_uses": calls, "duration_ms": self._took(task)}
