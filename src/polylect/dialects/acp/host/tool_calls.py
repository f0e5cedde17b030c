"""The tool calls of a turn, put together from whatever an agent says of each.

A call may first be seen in a `tool_call`, in an update or in a permission request; each leads to the same call, once.
Later mentions change the fields that they name. `ToolCalled` is emitted when the arguments are known: claude, opencode
and qwen announce a call before the model has written them. What an agent leaves open is closed when its prompt is
answered.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from polylect.dialects.acp.host.content import call_images, call_output, has_diff, raw_text, terminals
from polylect.dialects.lenient import Object, inner, objects, text, whole
from polylect.vocab.content import Category, Form, Outcome
from polylect.vocab.events import Event, ToolCalled, ToolFinished, ToolOutput, ToolStarted

_CATEGORIES: dict[str, Category] = {
    **dict.fromkeys(("read", "search", "think", "fetch", "switch_mode"), "info"),
    **dict.fromkeys(("edit", "delete", "move"), "edit"),
    "execute": "exec",
}
_KINDS = (*_CATEGORIES, "other")
_OUR_CATEGORIES: dict[str, Category] = {name: name for name in ("info", "edit", "exec", "mcp")}
_OUTCOMES: dict[str, Outcome] = {name: name for name in ("ok", "error", "denied", "cancelled", "skipped")}
_FORMS: dict[str, Form] = {"diff": "diff", "image": "image"}
_STATUSES = ("pending", "in_progress", "completed", "failed")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_PLACE = {"cwd"}
"""An argument that opencode names before all others, which the model does not write."""
_START_MS = 250
"""How long a call may run by its agent's word until that counts; agents that ask do it at once."""
UNSAID = "the agent did not say how it ended"


class BadFrame(ValueError):
    """A message of the agent that lacks what it is about."""


class Call(Struct):
    """What is known of one call. The last ones say which events were emitted for it, and what was asked.

    `waits` is when its agent said that it runs. codex, opencode and kimi say so before they ask whether it may.
    """

    id: str
    title: str = ""
    first_title: str = ""
    name: str = ""
    kind: str = ""
    status: str = "pending"
    args: dict[str, Any] = {}
    content: list[Object] = []
    locations: list[Object] = []
    raw_output: Any = None
    own: Object = {}
    called: bool = False
    started: bool = False
    finished: bool = False
    waits: int | None = None
    asks: int = 0
    approved: bool = False
    denied: str | None = None
    printed: str = ""
    preview: str = ""

    @property
    def category(self) -> Category:
        """What the tool may do. What is not known counts as the most dangerous."""
        if self.tool.startswith("mcp__"):
            return "mcp"
        return _OUR_CATEGORIES.get(text(self.own, "category")) or _CATEGORIES.get(self.kind, "exec")

    @property
    def tool(self) -> str:
        """The name of the tool. gemini has it in the id of the call, opencode and kimi in the first title; others only
        say what kind of tool it is."""
        in_id = self.id.partition("__")[0] if "__" in self.id and not self.id.startswith("mcp__") else ""
        word = (
            self.first_title if _WORD.fullmatch(self.first_title) and self.first_title not in _texts(self.args) else ""
        )
        return self.name or in_id or word or (self.kind if self.kind not in ("", "other") else self.title)

    @property
    def complete(self) -> bool:
        """Whether the model has written the arguments, as far as one can tell."""
        if self.status in ("completed", "failed") or self.args.keys() - _PLACE:
            return True
        return self.status == "in_progress" and not _begins_object(self.content)


class ToolCalls:
    """The calls of one agent in one turn. `now` is the clock, in milliseconds."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.ours = False
        """Whether the agent is polylect, whose calls are complete when they are announced."""
        self.cancelled = False
        """Whether the host has cancelled the turn."""
        self._calls: dict[str, Call] = {}
        self._terminals: dict[str, Object] = {}
        """What was last said of terminals that the host runs: `output` and `exit_code`."""

    def reset(self) -> None:
        """A new turn begins. Agents may use the ids of earlier calls again."""
        self._calls.clear()
        self._terminals.clear()
        self.cancelled = False

    def get(self, id: str) -> Call | None:
        return self._calls.get(id)

    @property
    def open(self) -> bool:
        """Whether a call was made that has not finished."""
        return any(not call.finished for call in self._calls.values())

    @property
    def any(self) -> bool:
        return bool(self._calls)

    def update(self, fields: Object) -> list[Event]:
        """News of a call, known or not. Raises BadFrame if it is not said of which."""
        call = self._find(fields)
        if call.finished:
            return []
        _merge(call, fields)
        if call.status in ("completed", "failed") and not isinstance(fields.get("content"), list):
            _drop_preview(call)
        return self._advance(call, inner(fields, "_meta"))

    def ask(self, fields: Object) -> tuple[Call, list[Event]]:
        """A permission request is about this call. Raises BadFrame."""
        call = self._find(fields)
        call.asks += 1
        events = self.update(fields)
        call.preview = call_output(call.content, None)
        return call, [*events, *(self._announce(call) if not call.finished else [])]

    def _find(self, fields: Object) -> Call:
        id = text(fields, "toolCallId")
        if not id:
            raise BadFrame("toolCallId: expected the id of a tool call")
        return self._calls.setdefault(id, Call(id))

    def answered(self, id: str, *, denied: str | None) -> list[Event]:
        """A permission request for this call was answered; `denied` is the reason of a no."""
        call = self._calls.get(id)
        if call is None or call.finished:
            return []
        call.asks -= 1
        call.approved, call.denied = denied is None, denied
        return self._advance(call, {}) if denied is None else []

    def note_terminal(self, terminal: str, answer: Object) -> None:
        """The agent was told this of a terminal that the host runs for it."""
        known = self._terminals.setdefault(terminal, {})
        known.update({key: value for key in ("output", "exit_code") if (value := answer.get(key)) is not None})

    def before_text(self) -> list[Event]:
        """The model goes on: calls are complete now, and gemini says nothing more of a call that was denied."""
        events: list[Event] = []
        for call in self._calls.values():
            events += [*self._announce(call), *self._start(call)]
            if call.denied is not None and not call.finished:
                events += self._finish(call, "denied", call.denied)
        return events

    def close(self) -> list[Event]:
        """The prompt is answered: what is open will not be heard of any more."""
        events: list[Event] = []
        for call in self._calls.values():
            if not call.finished:
                outcome: Outcome = "cancelled" if call.denied is None else "denied"
                events += [*self._announce(call), *self._start(call)]
                events += self._finish(call, outcome, call.denied or UNSAID)
        return events

    def due(self) -> int | None:
        """Milliseconds until `wake` has to be called; None if no start is held back."""
        waits = [call.waits for call in self._calls.values() if call.waits is not None and not call.asks]
        return max(0, min(waits) + _START_MS - self._now()) if waits else None

    def wake(self) -> list[Event]:
        """No question has come for calls that run by their agent's word: they do."""
        waiting = [(call, call.waits) for call in self._calls.values() if call.waits is not None and not call.asks]
        over = [call for call, since in waiting if since + _START_MS <= self._now()]
        return [event for call in over for event in self._start(call)]

    def _advance(self, call: Call, meta: Object) -> list[Event]:
        """The events that follow from what is known now."""
        if not (self.ours or call.called or call.complete):
            return []
        events = self._announce(call)
        if call.status in ("completed", "failed"):
            return [*events, *self._start(call), *self._finish(call, *self._ending(call))]
        if call.asks:
            return events
        printed = _terminal_output(meta)
        mentioned = call.waits is not None
        if call.status == "in_progress" and not call.started and call.denied is None:
            call.waits = self._now() if call.waits is None else call.waits
        if self.ours or call.approved or mentioned or printed:
            events += self._start(call)
        if printed:
            events.append(ToolOutput(call.id, printed))
        elif call.started:
            events += _news(call)
        return events

    def _start(self, call: Call) -> list[Event]:
        """The start of a call that was held back, because a question might have followed."""
        held, call.waits = call.waits is not None, None
        if not held or call.started or call.finished or call.denied is not None:
            return []
        call.started = True
        return [ToolStarted(call.id, call.tool)]

    def _announce(self, call: Call) -> list[Event]:
        if call.called:
            return []
        call.called, call.name = True, call.tool  # codex names the tool only later
        return [ToolCalled(call.id, call.tool, call.args, call.category, call.title)]

    def _ending(self, call: Call) -> tuple[Outcome, str]:
        if outcome := _OUTCOMES.get(text(call.own, "outcome")):
            return outcome, text(call.own, "reason")
        if call.status == "completed":
            return "ok", ""
        if call.denied is not None:
            return "denied", call.denied
        return ("cancelled" if self.cancelled else "error"), ""

    def _finish(self, call: Call, outcome: Outcome, reason: str) -> list[Event]:
        call.finished = True
        images = call_images(call.content)
        if self.ours:
            output, form, metadata = _our_result(call)
        else:
            shown = next((self._terminals.get(id, {}) for id in terminals(call.content)), {})
            call.own = {**shown, **call.own}
            output = call_output(call.content, call.raw_output) or text(shown, "output")
            metadata = _metadata(call)
            form = "diff" if has_diff(call.content) else "image" if images and not output else "text"
        return [ToolFinished(call.id, call.tool, output, outcome, form, reason, metadata, images)]


def _merge(call: Call, fields: Object) -> None:
    """Fields that are absent, null or not understood change nothing; lists replace those before."""
    call.title = text(fields, "title") or call.title
    call.first_title = call.first_title or call.title
    if not call.called:
        call.name = text(fields, "name") or _tool_name(inner(fields, "_meta")) or call.name
    call.kind = kind if (kind := text(fields, "kind")) in _KINDS else call.kind
    call.status = status if (status := text(fields, "status")) in _STATUSES else call.status
    if isinstance(fields.get("content"), list):
        call.content = objects(fields, "content")
        if not call.called and not call.args:
            call.args = _arguments(call.content)
    if isinstance(fields.get("locations"), list):
        call.locations = objects(fields, "locations")
    if (raw_input := fields.get("rawInput")) is not None:
        call.args = raw_input if isinstance(raw_input, dict) else {"input": raw_input}
    if (raw_output := fields.get("rawOutput")) is not None:
        call.raw_output = raw_output
    call.own = call.own | inner(inner(fields, "_meta"), "polylect")
    ended = inner(inner(fields, "_meta"), "terminal_exit")
    if isinstance(ended.get("exit_code"), int):
        call.own = call.own | {"exit_code": whole(ended, "exit_code")}


def _begins_object(content: list[Object]) -> bool:
    """Whether the content is the beginning of JSON: kimi shows the arguments so while the model writes them."""
    return call_output(content, None).startswith("{")


def _arguments(content: list[Object]) -> dict[str, Any]:
    """The arguments that the content shows; empty if it does not."""
    try:
        return msgspec.json.decode(call_output(content, None), type=dict[str, Any]) if _begins_object(content) else {}
    except msgspec.DecodeError:
        return {}


def _texts(args: dict[str, Any]) -> list[Any]:
    return [value for value in args.values() if isinstance(value, str)]


def _drop_preview(call: Call) -> None:
    """claude shows the description of a command as content, and its result only as `rawOutput`."""
    if raw_text(call.raw_output) and not has_diff(call.content):
        call.content = []


def _tool_name(meta: Object) -> str:
    """Where agents have put the tool's name before there was a field for it."""
    return (
        text(inner(meta, "claudeCode"), "toolName")
        or text(meta, "toolName")
        or text(inner(inner(meta, "goose"), "toolCall"), "toolName")
    )


def _terminal_output(meta: Object) -> str:
    """Output of a terminal that the agent owns, which codex sends whether or not it was asked for."""
    return text(inner(meta, "terminal_output"), "data") or text(inner(meta, "terminal_output_delta"), "data")


def _news(call: Call) -> list[Event]:
    """What the content of a running call has that was not there before."""
    output, before = call_output(call.content, None), call.printed
    if output in (before, call.preview) or (call.args and _arguments(call.content) == call.args):
        return []
    call.printed = output
    if before and not output.startswith(before):
        return [ToolOutput(call.id, output, replace=True)]
    return [ToolOutput(call.id, output[len(before) :])]


def _our_result(call: Call) -> tuple[str, Form, dict[str, Any] | None]:
    """The result of a call of polylect: `rawOutput` has the metadata, and the output where a diff is shown."""
    raw = call.raw_output if isinstance(call.raw_output, dict) else {}
    output = text(raw, "output") or call_output([item for item in call.content if text(item, "type") != "diff"], None)
    metadata = {key: value for key, value in raw.items() if key != "output"}
    return output, _FORMS.get(text(call.own, "form"), "text"), metadata or None


def _metadata(call: Call) -> dict[str, Any] | None:
    """What a host may want to know of a result beside its text."""
    known = {"raw_output": call.raw_output, "locations": call.locations, "exit_code": call.own.get("exit_code")}
    return {key: value for key, value in known.items() if value not in (None, [])} or None
