"""Turns the frames of one agent into events: its steps, messages and calls.

The main agent has an `AgentStream`, and so has each sub-agent. The wire tells some things twice (a call in its block,
at its start and in its result); each becomes one event here. Used by `decode` and `subagents`.
"""

from collections.abc import Callable
from typing import Any, Literal, TypedDict

from polylect.dialects.omp.host.fields import Fields, flag, number, rows, table, text
from polylect.dialects.omp.host.messages import INJECTED, block_of, images, text_of, usage_of
from polylect.dialects.omp.stop_reasons import OUR_STOPS
from polylect.dialects.tool_categories import category
from polylect.vocab import events as e
from polylect.vocab.content import Outcome, Text, Thinking, ToolCall, Usage

_INTENT = "_i"
"""The argument in which omp lets a model say why it makes a call."""
_OUTCOMES: dict[str, Outcome] = {
    "denied": "denied",
    "cancelled": "cancelled",
    "skipped": "skipped",
}
_OUTCOME_PREFIXES: tuple[tuple[str, Outcome], ...] = (
    ("Skipped due to queued user message", "skipped"),
    ("Tool execution was aborted", "cancelled"),
)
"""How the result of a call begins that did not run to its end, where the wire only says that it is an error."""

_MAY_PRECEDE = ("turn_start", "message_start", "message_end")
"""What may come before the prompt that a step answers."""

Origin = Literal["prompt", "steer", "follow_up"]


class _Place(TypedDict):
    turn: str
    agent: str


class AgentStream:
    def __init__(self, agent: str = "") -> None:
        self.place: _Place = {"turn": "", "agent": agent}
        self.steers: list[tuple[str, Origin]] = []
        """What was said to join a turn and has not come back as a message."""
        self.last: Fields = {}
        """The last reply of this run."""
        self._spent = Usage()
        self._prompted = True
        self._begins = False
        """A step has begun, and the prompt that it answers is yet to be told."""
        self._started = False
        """A `message_start` has come, and its `message_end` has not."""
        self._ended: set[int] = set()
        self._args: dict[int, tuple[str, str]] = {}
        self._called: dict[str, e.ToolCalled] = {}
        self._finished: set[str] = set()
        self._outputs: dict[str, str] = {}

    def begin(self, turn: str, *, prompted: bool) -> None:
        """A turn begins; `prompted` if its first message is the prompt."""
        self.place["turn"], self._prompted, self._begins = turn, prompted, False
        for calls in (self._called, self._finished, self._outputs):
            calls.clear()

    def __contains__(self, call: object) -> bool:
        return call in self._called

    @property
    def open_calls(self) -> list[e.ToolCalled]:
        """The calls of this turn that have not finished."""
        return [called for call, called in self._called.items() if call not in self._finished]

    def read(self, kind: str, frame: Fields) -> list[e.Event]:
        begun = [] if kind in _MAY_PRECEDE else self._step()
        return [*begun, *_HANDLERS[kind](self, frame)]

    def pop_usage(self) -> Usage:
        """What was used since the last time."""
        spent, self._spent = self._spent, Usage()
        return spent

    def delta(self, kind: str, body: str) -> list[e.Event]:
        """The plain case, which is nearly all that is ever said."""
        made = e.TextDelta if kind == "text_delta" else e.ThinkingDelta
        events: list[e.Event] = [made(body, **self.place)] if body else []
        return [*self._step(), *events] if self._begins else events

    # Steps and messages.

    def _turn_start(self, frame: Fields) -> list[e.Event]:
        """omp begins the first step before the prompt has entered the context, we begin it after that."""
        self._begins = True
        return [] if self._prompted else self._step()

    def _step(self) -> list[e.Event]:
        begins, self._begins = self._begins, False
        return [e.StepStarted(**self.place)] if begins else []

    def _turn_end(self, frame: Fields) -> list[e.Event]:
        return [e.StepEnded(**self.place)]

    def _message_start(self, frame: Fields) -> list[e.Event]:
        message = table(frame, "message")
        self._started = True
        if message.get("role") != "assistant":
            return self._entered(message)
        self._ended, self._args = set(), {}
        return self._step()

    def _message_end(self, frame: Fields) -> list[e.Event]:
        message = table(frame, "message")
        started, self._started = self._started, False
        match message.get("role"):
            case "assistant":
                return [*self._step(), *self._replied(message)]
            case "toolResult":
                return self._tool_result(message)
            case _:
                return [] if started else self._entered(message)

    def _entered(self, message: Fields) -> list[e.Event]:
        """Words that entered the context. Those of the user's shell did so before, results are the calls' business."""
        role, content = message.get("role"), message.get("content")
        if role == "user" and not flag(message, "synthetic"):
            body = text_of(content)
            return [e.UserMessage(body, self._origin(body), images(content), **self.place), *self._step()]
        if role in ("user", *INJECTED):
            files = "\n".join(text(file, "path") for file in rows(message, "files"))
            return [e.UserMessage(text_of(content) or files, "engine", images(content), **self.place)]
        return []

    def _origin(self, body: str) -> Origin:
        if self._prompted:
            self._prompted = False
            return "prompt"
        for waiting in self.steers:
            if waiting[0] == body:
                self.steers.remove(waiting)
                return waiting[1]
        return "steer"

    def _replied(self, message: Fields) -> list[e.Event]:
        """What no update brought is told now: redacted thinking, a block that broke off, calls."""
        self.last = message
        blocks = enumerate(rows(message, "content"))
        untold = [event for index, block in blocks if index not in self._ended for event in self._block(block)]
        self._ended, self._args = set(), {}
        usage = usage_of(table(message, "usage"))
        self._spent += usage
        stop = OUR_STOPS.get(text(message, "stopReason"), "end")
        model, request = text(message, "model"), text(message, "responseId")
        error = text(message, "errorMessage") if stop in ("error", "cancelled") else ""
        return [*untold, e.ReplyEnded(stop, usage, model, request, error, **self.place)]

    def _block(self, frame: Fields) -> list[e.Event]:
        match block_of(frame):
            case None | Text(""):
                return []
            case ToolCall():
                return self._call_block(frame)
            case block:
                return [e.BlockEnded(block, **self.place)]

    # What a reply is made of, as it comes.

    def _message_update(self, frame: Fields) -> list[e.Event]:
        update = table(frame, "assistantMessageEvent")
        match text(update, "type"):
            case "text_delta" | "thinking_delta" as kind:
                return self.delta(kind, text(update, "delta"))
            case "text_end" | "thinking_end" as kind:
                return self._text_end(kind, update, frame)
            case "toolcall_start":
                block = _block_so_far(update, frame)
                call = text(update, "id") or text(block, "id")  # pi since 0.84 sends no message so far
                self._args[number(update, "contentIndex")] = (call, text(update, "toolName") or text(block, "name"))
                return []
            case "toolcall_delta":
                return self._toolcall_delta(update, frame)
            case "toolcall_end":
                return self._toolcall_end(update, frame)
            case _:
                return []

    def _text_end(self, kind: str, update: Fields, frame: Fields) -> list[e.Event]:
        self._ended.add(number(update, "contentIndex"))
        block = _block_so_far(update, frame)
        if kind == "text_end":
            body = text(update, "content") or text(block, "text")
            return [e.BlockEnded(Text(body), **self.place)] if body else []
        body, signature = text(update, "content") or text(block, "thinking"), text(block, "thinkingSignature")
        return [e.BlockEnded(Thinking(body, signature), **self.place)]

    def _toolcall_delta(self, update: Fields, frame: Fields) -> list[e.Event]:
        """Slim frames do not say whose arguments these are; the call's end has them all."""
        index = number(update, "contentIndex")
        call, name = self._args.get(index, ("", ""))
        if not call:
            block = _block_so_far(update, frame)
            call, name = self._args[index] = text(block, "id"), text(block, "name")
        return [e.ArgsDelta(call, name, text(update, "delta"), **self.place)] if call else []

    def _toolcall_end(self, update: Fields, frame: Fields) -> list[e.Event]:
        self._ended.add(number(update, "contentIndex"))
        return self._call_block(table(update, "toolCall") or _block_so_far(update, frame))

    # Calls.

    def _call_block(self, frame: Fields) -> list[e.Event]:
        call, name, args = text(frame, "id"), text(frame, "name"), table(frame, "arguments")
        called = self._call(call, name, args, text(frame, "intent"))
        return [e.BlockEnded(ToolCall(call, name, args), **self.place), *called] if called else []

    def _call(self, call: str, name: str, args: dict[str, Any], intent: str) -> list[e.Event]:
        if call in self._called:
            return []
        why = args.get(_INTENT)
        arguments = {key: value for key, value in args.items() if key != _INTENT}
        described = intent or (why if isinstance(why, str) else "")
        self._called[call] = e.ToolCalled(call, name, arguments, category(name), described, **self.place)
        return [self._called[call]]

    def _tool_start(self, frame: Fields) -> list[e.Event]:
        call, name = text(frame, "toolCallId"), text(frame, "toolName")
        args = frame.get("args")
        called = self._call(call, name, args if isinstance(args, dict) else {}, text(frame, "intent"))
        return [*called, e.ToolStarted(call, name, **self.place)]

    def _tool_update(self, frame: Fields) -> list[e.Event]:
        """The whole output so far: an extension of the last is a delta. Sub-agents have frames of their own."""
        call, name = text(frame, "toolCallId"), text(frame, "toolName")
        if frame.get("agent"):
            return []
        output, before = text_of(table(frame, "partialResult").get("content")), self._outputs.get(call, "")
        self._outputs[call] = output
        if output == before:
            return [e.Alive(call, name, **self.place)]
        if output.startswith(before):
            return [e.ToolOutput(call, output[len(before) :], **self.place)]
        return [e.ToolOutput(call, output, replace=True, **self.place)]

    def _tool_end(self, frame: Fields) -> list[e.Event]:
        return self._finish(frame, table(frame, "result"))

    def _tool_result(self, message: Fields) -> list[e.Event]:
        """It repeats the call's end, if that was told."""
        call = text(message, "toolCallId")
        return [] if call in self._finished or call not in self._called else self._finish(message, message)

    def _finish(self, frame: Fields, result: Fields) -> list[e.Event]:
        call, output = text(frame, "toolCallId"), text_of(result.get("content"))
        self._finished.add(call)
        details = result.get("details")
        return [
            e.ToolFinished(
                call,
                text(frame, "toolName"),
                output,
                _outcome(frame, output),
                reason=text(frame, "reason"),
                metadata=details if isinstance(details, dict) and details else None,
                images=images(result.get("content")),
                **self.place,
            )
        ]


def _block_so_far(update: Fields, frame: Fields) -> Fields:
    """The block that an update is about, if the frame carries the message so far."""
    message = table(frame, "message") or table(update, "partial")
    blocks, index = message.get("content"), number(update, "contentIndex")
    if not isinstance(blocks, list) or not 0 <= index < len(blocks):
        return {}
    return blocks[index] if isinstance(blocks[index], dict) else {}


def _outcome(frame: Fields, output: str) -> Outcome:
    if outcome := _OUTCOMES.get(text(frame, "outcome")):
        return outcome
    if not flag(frame, "isError"):
        return "ok"
    return next((named for prefix, named in _OUTCOME_PREFIXES if output.startswith(prefix)), "error")


_HANDLERS: dict[str, Callable[[AgentStream, Fields], list[e.Event]]] = {
    "turn_start": AgentStream._turn_start,
    "turn_end": AgentStream._turn_end,
    "message_start": AgentStream._message_start,
    "message_update": AgentStream._message_update,
    "message_end": AgentStream._message_end,
    "tool_execution_start": AgentStream._tool_start,
    "tool_execution_update": AgentStream._tool_update,
    "tool_execution_end": AgentStream._tool_end,
}
FRAMES = frozenset(_HANDLERS)
