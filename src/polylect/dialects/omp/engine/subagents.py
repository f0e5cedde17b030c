"""Sub-agents: each has a lane of its own, whose frames travel inside `subagent_event`."""

from collections.abc import Callable

from polylect.dialects.omp.engine.agent_stream import Lane
from polylect.dialects.omp.engine.line_writer import Pen
from polylect.dialects.omp.engine.objects import Speaker, spent
from polylect.dialects.omp.frames import events as shapes
from polylect.vocab.events import AgentEnded, AgentProgress, AgentStarted, Event
from polylect.wire import jsonl

_ROOM = 512
"""What a frame needs around it to be one of another's."""


class Agents:
    def __init__(
        self,
        pen: Pen,
        speaker: Callable[[], Speaker],
        now: Callable[[], int],
        write: Callable[[Lane, Event], None],
    ) -> None:
        self.level = "events"
        """How much the host wants to hear: off, progress or events."""
        self._pen = pen
        self._speaker = speaker
        self._now = now
        self._write = write
        self._lanes: dict[str, tuple[Lane, Pen]] = {}
        self._calls: dict[str, tuple[str, str]] = {}
        """The call of the main agent that an agent works for, and its name."""

    def hear(self, event: Event, main: Lane) -> None:
        match event:
            case AgentStarted():
                self._started(event, main)
            case AgentProgress(text, usage, calls):
                payload = {"id": event.agent, "text": text, "usage": spent(usage), "toolCount": calls}
                self._tell(shapes.SubagentProgress(payload))
                self._remark(event.agent, text, main)
            case AgentEnded(ok, summary):
                self._ended(event, main, ok=ok, summary=summary)
            case _:
                self._inside(event)

    def due(self) -> int | None:
        waits = (lane.due() for lane, _ in self._lanes.values())
        return min((wait for wait in waits if wait is not None), default=None)

    def flush(self) -> None:
        for agent, (lane, pen) in self._lanes.items():
            lane.flush()
            self._pass_on(agent, pen)

    def _started(self, event: AgentStarted, main: Lane) -> None:
        told = {"parentId": event.parent, "toolCallId": event.call, "agent": event.name, "task": event.task}
        known = {key: value for key, value in told.items() if value}
        background = {"background": True} if event.background else {}
        self._tell(shapes.SubagentLifecycle({"id": event.agent, "status": "started", **known, **background}))
        self._calls[event.agent] = (event.call, event.name or event.agent)
        self._remark(event.agent, event.task or "started", main)

    def _ended(self, event: AgentEnded, main: Lane, *, ok: bool, summary: str) -> None:
        lane, pen = self._lane(event.agent)
        lane.flush()
        self._pass_on(event.agent, pen)
        told = {"summary": summary} if summary else {}
        self._tell(shapes.SubagentLifecycle({"id": event.agent, "status": "completed" if ok else "failed", **told}))
        self._remark(event.agent, "done" if ok else "failed", main)
        del self._lanes[event.agent]
        self._calls.pop(event.agent, None)

    def _inside(self, event: Event) -> None:
        lane, pen = self._lane(event.agent)
        self._write(lane, event)
        self._pass_on(event.agent, pen)

    def _lane(self, agent: str) -> tuple[Lane, Pen]:
        if agent not in self._lanes:
            pen = Pen(self._pen.limit - _ROOM - len(jsonl.dump(agent)))
            pen.lost = self._pen.lost
            self._lanes[agent] = (Lane(pen, self._speaker, self._now, slim=True, runs=False), pen)
        return self._lanes[agent]

    def _pass_on(self, agent: str, pen: Pen) -> None:
        lines = pen.take().split(b"\n")[:-1]
        if self.level != "events":
            return
        for line in lines:
            payload = (
                b'{"type":"subagent_event","payload":{"id":' + jsonl.dump(agent)[:-1] + b',"event":' + line + b"}}\n"
            )
            self._pen.write("subagent_event", payload)

    def _tell(self, frame: shapes.Frame) -> None:
        if self.level != "off":
            self._pen.say(frame)

    def _remark(self, agent: str, text: str, main: Lane) -> None:
        call, name = self._calls.get(agent, ("", ""))
        main.executions.remark(call, agent, f"{name}: {text}")
