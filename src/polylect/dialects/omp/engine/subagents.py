"""Writes what sub-agents do: `subagent_lifecycle`, `subagent_progress` and `subagent_event`.

Each sub-agent has an `AgentStream` of its own, whose lines are put inside `subagent_event` frames. The host chooses by
`set_subagent_subscription` how much it gets: nothing, progress, or all events. Hosts that know none of these frames see
the progress as updates of the call that started the sub-agent. Called by `encode`.
"""

from collections.abc import Callable

from polylect.dialects.omp.engine.agent_stream import AgentStream
from polylect.dialects.omp.engine.line_writer import LineWriter
from polylect.dialects.omp.engine.messages import MessageAuthor, usage_object
from polylect.dialects.omp.frames import events as shapes
from polylect.vocab.events import AgentEnded, AgentProgress, AgentStarted, Event
from polylect.wire import jsonl

_ROOM = 512
"""What a frame needs around it to be one of another's."""


class Agents:
    def __init__(
        self,
        line_writer: LineWriter,
        author: Callable[[], MessageAuthor],
        now: Callable[[], int],
        write: Callable[[AgentStream, Event], None],
    ) -> None:
        self.level = "off" if author().version == "18" else "events"
        """How much the host wants to hear: off, progress or events. Only hosts of 18 can ask for it."""
        self._line_writer = line_writer
        self._author = author
        self._now = now
        self._write = write
        self._streams: dict[str, AgentStream] = {}
        self._calls: dict[str, tuple[str, str]] = {}
        """The call of the main agent that an agent works for, and its name."""

    def write(self, event: Event, main: AgentStream) -> None:
        match event:
            case AgentStarted():
                self._started(event, main)
            case AgentProgress(text, usage, calls):
                payload = {"id": event.agent, "text": text, "usage": usage_object(usage), "toolCount": calls}
                self._write_unless_off(shapes.SubagentProgress(payload))
                self._note_progress(event.agent, text, main)
            case AgentEnded(ok, summary):
                self._ended(event, main, ok=ok, summary=summary)
            case _:
                self._write_inside(event)

    def due(self) -> int | None:
        waits = (stream.due() for stream in self._streams.values())
        return min((wait for wait in waits if wait is not None), default=None)

    def flush(self) -> None:
        for agent, stream in self._streams.items():
            stream.flush()
            self._forward(agent)

    def _started(self, event: AgentStarted, main: AgentStream) -> None:
        optional = {"parentId": event.parent, "toolCallId": event.call, "agent": event.name, "task": event.task}
        present = {key: value for key, value in optional.items() if value}
        background = {"background": True} if event.background else {}
        self._write_unless_off(
            shapes.SubagentLifecycle({"id": event.agent, "status": "started", **present, **background})
        )
        self._calls[event.agent] = (event.call, event.name or event.agent)
        self._note_progress(event.agent, event.task or "started", main)

    def _ended(self, event: AgentEnded, main: AgentStream, *, ok: bool, summary: str) -> None:
        self._stream(event.agent).flush()
        self._forward(event.agent)
        payload = {"id": event.agent, "status": "completed" if ok else "failed"}
        self._write_unless_off(shapes.SubagentLifecycle({**payload, "summary": summary} if summary else payload))
        self._note_progress(event.agent, "done" if ok else "failed", main)
        del self._streams[event.agent]
        self._calls.pop(event.agent, None)

    def _write_inside(self, event: Event) -> None:
        self._write(self._stream(event.agent), event)
        self._forward(event.agent)

    def _stream(self, agent: str) -> AgentStream:
        if agent not in self._streams:
            line_writer = LineWriter(self._line_writer.limit - _ROOM - len(jsonl.dump(agent)))
            line_writer.lost = self._line_writer.lost
            self._streams[agent] = AgentStream(line_writer, self._author, self._now, updates="slim", runs=False)
        return self._streams[agent]

    def _forward(self, agent: str) -> None:
        """Wrap the lines of an agent's own stream in `subagent_event` frames."""
        lines = self._streams[agent].line_writer.data_to_send().split(b"\n")[:-1]
        if self.level != "events":
            return
        head = b'{"type":"subagent_event","payload":{"id":' + jsonl.dump(agent)[:-1] + b',"event":'
        for line in lines:
            self._line_writer.write_line("subagent_event", head + line + b"}}\n")

    def _write_unless_off(self, frame: shapes.Frame) -> None:
        if self.level != "off":
            self._line_writer.write(frame)

    def _note_progress(self, agent: str, text: str, main: AgentStream) -> None:
        call, name = self._calls.get(agent, ("", ""))
        main.executions.note_progress(call, agent, f"{name}: {text}")
