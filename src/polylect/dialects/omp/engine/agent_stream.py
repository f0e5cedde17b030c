"""Turns the events of one agent into the runs, turns and messages of the wire.

The words differ. A turn of ours is a run there (`agent_start` to `agent_end`), or several if the model's service is
asked again: a failed attempt ends its run, with the failure as a message. A step of ours is a turn there (`turn_start`
to `turn_end`). What people say before a step comes right after its `turn_start`.

The main agent has an `AgentStream`, and so has each sub-agent. Frames of running calls wait until the reply that
made the calls has ended: `message_end` comes before `tool_execution_start`. Used by `encode` and `subagents`.
"""

from collections.abc import Callable

from msgspec import UNSET

from polylect.dialects.omp.engine.line_writer import LineWriter
from polylect.dialects.omp.engine.message_stream import MessageStream, Updates
from polylect.dialects.omp.engine.messages import MessageAuthor, prompt_content
from polylect.dialects.omp.engine.tool_executions import Executions
from polylect.dialects.omp.frames import events as shapes
from polylect.dialects.omp.frames import messages as m
from polylect.vocab import events as e
from polylect.vocab.content import Stop
from polylect.vocab.text_size import text_size

CANCELLED = "Retry cancelled"
"""How the engine says that a retry was given up before it was made."""
ToolEvent = e.ToolStarted | e.ToolOutput | e.ToolFinished


class AgentStream:
    """Writes the frames of one agent. `runs=False` leaves out `agent_start` and `agent_end`, as for sub-agents."""

    def __init__(
        self,
        line_writer: LineWriter,
        author: Callable[[], MessageAuthor],
        now: Callable[[], int],
        *,
        updates: Updates,
        runs: bool = True,
    ) -> None:
        self.executions = Executions(line_writer, now, timed=author().version == "pi")
        self.line_writer = line_writer
        self._author = author
        self._now = now
        self.updates = updates
        """How much updates of the next reply repeat."""
        self._runs = runs
        self._running = False
        self._messages: list[m.Message] = []
        """The messages of this run, which `agent_end` repeats."""
        self._waiting: list[m.Message] = []
        """Messages of people that are written with the next step."""
        self._step = False
        self._open_message: MessageStream | None = None
        self._assistant: m.AssistantMessage | None = None
        self._results: list[m.ToolResultMessage] = []
        self._step_size = 0
        """Bytes of the texts in the reply and the results of this step."""
        self._held_tool_events: list[ToolEvent] = []
        """Events of calls that came before the reply ended, written after its `message_end`."""
        self._given_up: e.RetryEnded | None = None

    # What is held back.

    def due(self) -> int | None:
        waits = (self._open_message.due() if self._open_message else None, self.executions.due())
        return min((wait for wait in waits if wait is not None), default=None)

    def flush(self) -> None:
        """Write the updates whose time has come."""
        if self._open_message and self._open_message.due() == 0:
            self._open_message.flush()
        self.executions.flush()

    # Runs.

    def begin(self) -> None:
        if not self._running:
            self._running, self._messages, self._results = True, [], []
            if self._runs:
                self.line_writer.write(shapes.AgentStart())

    def end(self, event: e.TurnEnded) -> None:
        stop: Stop = "cancelled" if event.reason == "cancelled" else "error"
        why = event.failure.message if event.failure else ""
        if self._open_message or self._lacks_an_end(event):
            self.reply_ended(e.ReplyEnded(stop, error=why))
        self.step_ended()
        self._write_waiting()
        self._end_run(last=True)
        if self._given_up:
            self._write_given_up()

    def _lacks_an_end(self, event: e.TurnEnded) -> bool:
        """Whether an assistant message has to be added: for an error, or a stop where the model's reply was next."""
        if not self._running:
            return False
        silent = self._step and self._assistant is None
        match event.reason:
            case "error":
                return not self._failed()
            case "cancelled":
                return silent or bool(self._waiting or self._results)
            case _:
                return silent

    def _failed(self) -> bool:
        """Whether the last thing in this run is that the model failed."""
        last = self._messages[-1] if self._running and self._messages else None
        return isinstance(last, m.AssistantMessage) and last.stop_reason == "error"

    def _end_run(self, *, last: bool) -> None:
        if self._running and self._runs:
            version = self._author().version
            yielded, again = (last if version == "18" else UNSET), (not last if version == "pi" else UNSET)
            self.line_writer.write(
                shapes.AgentEnd(self._messages, UNSET if last else False, yielded, again), large=True
            )
        self._running = False

    # Steps.

    def step_started(self) -> None:
        self.begin()
        if not self._step:
            self._step, self._assistant, self._results, self._step_size = True, None, [], 0
            self.line_writer.write(shapes.TurnStart())
            self._write_waiting()

    def step_ended(self) -> None:
        if self._step:
            message = self._assistant or self._author().message([], self._now())
            large = self._step_size > self.line_writer.limit
            self.line_writer.write(shapes.TurnEnd(message, self._results), large=large)
            self._step = False

    def user_message(self, event: e.UserMessage) -> None:
        content, at = prompt_content(event.text, event.attachments), self._now()
        message: m.Message = m.UserMessage(content, at, "user")
        if event.origin == "engine":
            pi = self._author().version == "pi"
            message = m.CustomMessage("reminder", content, True, at) if pi else m.DeveloperMessage(content, at, "agent")
        self._waiting.append(message)
        if self._step:
            self._write_waiting()

    def _write_waiting(self) -> None:
        for message in self._waiting:
            self.line_writer.write_message(message)
        self._messages += self._waiting
        self._waiting = []

    # The model's words.

    def text(self, event: e.TextDelta) -> None:
        self._reply().delta("text", event.text)

    def thinking(self, event: e.ThinkingDelta) -> None:
        self._reply().delta("thinking", event.text)

    def arguments(self, event: e.ArgsDelta) -> None:
        self._reply().delta("toolcall", event.text, event.call, event.name)

    def block_ended(self, event: e.BlockEnded) -> None:
        self._reply().end_block(event.block)

    def tool_called(self, event: e.ToolCalled) -> None:
        self.executions.called(event)
        self._reply().called(m.ToolCall(event.call, event.name, event.args, intent=event.description or UNSET))

    def reply_ended(self, event: e.ReplyEnded) -> None:
        if self._given_up and not self._running and _was_cancelled(self._given_up, event):
            return self._write_given_up()
        reply = self._reply()
        self._assistant, self._open_message = reply.finish(event), None
        self._step_size += reply.text_size
        self._messages.append(self._assistant)
        held, self._held_tool_events = self._held_tool_events, []
        for tool_event in held:
            self.tool_event(tool_event)

    def _reply(self) -> MessageStream:
        if self._open_message is None:
            self.step_started()
            self._open_message = MessageStream(self.line_writer, self._author(), self._now, self.updates)
        return self._open_message

    # Calls.

    def tool_event(self, event: ToolEvent) -> None:
        if self._open_message:
            self._held_tool_events.append(event)
            return
        match event:
            case e.ToolStarted(call, name):
                self.executions.start(call, name)
            case e.ToolOutput():
                self.executions.output(event)
            case e.ToolFinished():
                message = self.executions.finish(event)
                self._step_size += text_size([event.output, event.metadata, [image.data for image in event.images]])
                self._results.append(message)
                self._messages.append(message)

    # Retries.

    def retry_started(self, event: e.RetryStarted) -> None:
        if not self._failed():
            self.reply_ended(e.ReplyEnded("error", error=event.error))
        self.step_ended()
        self._end_run(last=False)
        self.line_writer.write(shapes.AutoRetryStart(event.attempt, event.most, event.delay_ms, event.error))

    def retry_ended(self, event: e.RetryEnded) -> None:
        """A failure is written after the end of the last attempt."""
        if event.ok:
            self.step_started()
            self.line_writer.write(shapes.AutoRetryEnd(True, event.attempt))
        else:
            self._given_up = event

    def _write_given_up(self) -> None:
        if event := self._given_up:
            self.line_writer.write(shapes.AutoRetryEnd(False, event.attempt, event.error or UNSET))
        self._given_up = None


def _was_cancelled(retry: e.RetryEnded, reply: e.ReplyEnded) -> bool:
    """Whether the retry was cancelled while it waited, so that there was no further attempt."""
    return reply.stop == "cancelled" or retry.error == CANCELLED
