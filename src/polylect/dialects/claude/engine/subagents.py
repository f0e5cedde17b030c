"""Frames about sub-agents, which this wire calls tasks.

An agent is announced by `task_started`, reports `task_progress`, and ends with `task_updated` and
`task_notification`. `background_tasks_changed` lists the agents that no turn waits for, whenever one starts or ends.
An agent's own messages carry the call that started it as `parent_tool_use_id`. The text of an agent that the turn
waits for is shown only if the host asks for it (`--forward-subagent-text`). `EventWriter` is the caller.
"""

from typing import Any

from msgspec import UNSET, Struct

from polylect.dialects.claude.engine.block_stream import BlockStream, usage_of
from polylect.dialects.claude.engine.line_writer import LineWriter
from polylect.dialects.claude.frames import notices
from polylect.dialects.claude.frames import turn as shapes
from polylect.vocab.content import Usage
from polylect.vocab.events import AgentEnded, AgentProgress, AgentStarted, ToolCalled, ToolFinished

Object = dict[str, Any]


class Task(Struct):
    """A sub-agent that runs. `parent` is the `parent_tool_use_id` of its frames."""

    id: str
    parent: str
    kind: str
    description: str
    prompt: str
    depth: int
    detached: bool
    """Whether its parent does not wait for it."""
    background: bool
    """Whether the turn does not wait for it: it, or an agent above it, is detached."""
    at: int
    stream: BlockStream
    calls: int = 0
    last_progress: tuple[str, int] = ("", 0)
    """Text and number of calls of the last progress frame, so that none is written twice."""
    usage: Usage = Usage()
    last_tool: str = ""
    stopped: bool = False


class Tasks:
    def __init__(self, out: LineWriter) -> None:
        self._out = out
        self._running: dict[str, Task] = {}
        self._ended: dict[str, Task] = {}
        """Agents that the turn waits for and whose call has no result yet, by that call."""
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
        if task.detached:
            self.write_background()
        self._out.write_new(
            notices.TaskStarted,
            subtype="task_started",
            task_id=task.id,
            tool_use_id=event.call,
            description=task.description,
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
            if task.depth == 1 and not task.detached:
                self._ended[task.parent] = task
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
        if task and task.detached:
            self.write_background()

    def write_background(self) -> None:
        """Write the list of all agents in the background. Older versions of the wire have no such frame."""
        kind = {"task_type": "local_agent"}
        rows = [
            {"task_id": task.id, **kind, "description": task.description, "subagent_type": task.kind}
            for task in self._running.values()
            if task.detached
        ]
        if self._out.newer and "background_tasks_changed" not in self._out.relayed:
            self._out.write_new(notices.BackgroundTasks, subtype="background_tasks_changed", tasks=rows)

    def result(self, event: ToolFinished) -> Object | None:
        """The `tool_use_result` of a call that has started an agent; None for others, and if the call failed."""
        task = self._ended.pop(event.call, None)
        if event.outcome != "ok":
            return None
        if task is None:
            running = [task for task in self._running.values() if task.parent == event.call]
            return _launched(running[0]) if running else None
        return {
            "status": "completed",
            "agentId": task.id,
            "agentType": task.kind,
            "prompt": task.prompt,
            "content": [{"type": "text", "text": event.output}],
            "totalToolUseCount": task.calls,
            "totalDurationMs": self._took(task),
            "totalTokens": task.usage.tokens,
            "usage": usage_of(task.usage),
        }

    def spent(self, agent: str, usage: Usage) -> None:
        if task := self._running.get(agent):
            task.usage += usage

    def _new(self, event: AgentStarted, kind: str) -> Task:
        above = self._running.get(event.parent)
        background = event.background or (above.background if above else False)
        kind, description = kind or event.name, event.name or event.task[:80]
        marks: shapes.Marks = {"agent_id": event.agent, "subagent_type": kind, "task_description": description}
        parent = event.call or event.agent
        return Task(
            event.agent,
            parent,
            kind,
            description,
            event.task,
            above.depth + 1 if above else 1,
            event.background,
            background,
            self._out.now(),
            BlockStream(self._out, parent=parent, partial=False, shown=background or self.forward, marks=marks),
        )

    def _took(self, task: Task | None) -> int:
        return max(self._out.now() - task.at, 0) if task else 0

    def _usage(self, task: Task | None) -> dict[str, int]:
        tokens, calls = (task.usage.tokens, task.calls) if task else (0, 0)
        return {"total_tokens": tokens, "tool_uses": calls, "duration_ms": self._took(task)}


def _launched(task: Task) -> Object:
    return {
        "status": "async_launched",
        "isAsync": True,
        "agentId": task.id,
        "description": task.description,
        "prompt": task.prompt,
        "outputFile": "",
    }
