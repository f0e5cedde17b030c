"""Frames to events, as they mean it; the Completer makes them grammatical. Responses are the host side's business."""

from collections.abc import Callable
from typing import Any, Literal

from polylect.dialects.base import Env
from polylect.dialects.omp.host import answers as host_answers
from polylect.dialects.omp.host.agent_stream import FRAMES, Lane
from polylect.dialects.omp.host.dialogs import Dialogs
from polylect.dialects.omp.host.fields import Found, amount, flag, number, rows, table, text, texts
from polylect.dialects.omp.host.messages import STOPS, usage_of
from polylect.dialects.omp.host.runs import Runs
from polylect.dialects.omp.host.subagents import Agents
from polylect.vocab import events as e
from polylect.vocab.content import Failure, PlanItem

Reason = Literal["end", "cancelled", "length", "refused", "limit", "error"]
Owner = Literal["host", "user", "provider", "tool", "engine"]
Cause = Literal["threshold", "overflow", "manual", "idle"]

_REASONS: dict[str, Reason] = {
    "completed": "end", "aborted": "cancelled", "end": "end", "cancelled": "cancelled", "length": "length",
    "refused": "refused", "limit": "limit", "error": "error",
}  # fmt: skip
_OWNERS: dict[str, Owner] = {
    "host": "host", "user": "user", "provider": "provider", "tool": "tool", "engine": "engine",
}  # fmt: skip
_CAUSES: dict[str, Cause] = {"overflow": "overflow", "manual": "manual", "idle": "idle"}
_STATUSES: dict[str, Literal["in_progress", "completed"]] = {"in_progress": "in_progress", "completed": "completed"}
_BEGINNINGS = ("turn_start", "message_update", "tool_execution_start")
"""What shows that a run is under way, to somebody who came late."""
_SETTINGS = {"session": "sessionId", "thinking": "thinkingLevel", "name": "sessionName"}


class EventReader:
    def __init__(self, env: Env) -> None:
        self.runs = Runs(env.new_id)
        self.lane = Lane()
        self.agents = Agents()
        self.dialogs = Dialogs(env.now)
        self.host_calls: dict[str, e.HostCall] = {}
        """Work that the host was asked to do and has not answered, by id."""
        self.provider = ""
        """Who serves the model in use."""
        self.curious = False
        """Something changed that only a `get_state` tells."""
        self.compacted = False
        """The end of a compaction was told since this was last cleared."""
        self._settings: dict[str, str] = {}

    def knows(self, kind: str) -> bool:
        return kind in _FRAMES or kind in FRAMES or kind in _AGENTS

    def read(self, kind: str, found: Found) -> list[e.Event]:
        """Raises ValueError for a field that makes no sense."""
        if kind in FRAMES:
            return [*self._begun(kind, found), *self._say(kind, found)]
        if kind in _AGENTS:
            told = self.agents.read(kind, found, self.runs.turn)
            self.runs.spent(self.agents.take_spent())
            return told
        return _FRAMES[kind](self, found)

    # Runs.

    def _begun(self, kind: str, found: Found) -> list[e.Event]:
        """A turn whose beginning nobody here has heard."""
        replies = kind == "message_start" and table(found, "message").get("role") == "assistant"
        return self._agent_start(found) if not self.runs.turn and (replies or kind in _BEGINNINGS) else []

    def _say(self, kind: str, found: Found) -> list[e.Event]:
        told = self.lane.read(kind, found)
        if kind == "turn_start":
            self.runs.step()
        self.runs.spent(self.lane.take_spent())
        return told

    def _agent_start(self, found: Found) -> list[e.Event]:
        events = self.runs.begin()
        self.lane.last = {}
        for event in events:
            if isinstance(event, e.TurnStarted):
                self.lane.begin(event.turn, prompted=event.cause == "prompt")
        return events

    def _agent_end(self, found: Found) -> list[e.Event]:
        """How it ended is said only by the last reply; if the loop itself broke, that is in here alone."""
        said = [message for message in rows(found, "messages") if message.get("role") == "assistant"]
        last = self.lane.last or (said[-1] if said else {})
        terminal = found.get("isTerminal")
        return self.runs.end(self._ended(last), terminal=terminal if isinstance(terminal, bool) else None)

    def _ended(self, last: Found) -> e.TurnEnded:
        match STOPS.get(text(last, "stopReason")):
            case "error":
                message = text(last, "errorMessage") or "the model's service failed"
                return e.TurnEnded("error", failure=Failure("provider_error", message, "provider"))
            case "cancelled":
                return e.TurnEnded("cancelled")
            case "length":
                return e.TurnEnded("length")
            case "calls" | None if self.runs.stopped:
                return e.TurnEnded("cancelled")
            case _:
                return e.TurnEnded("end")

    def _prompt_result(self, found: Found) -> list[e.Event]:
        """One for each accepted prompt (18.3), and with all that a turn's end says (polylect)."""
        reason = _REASONS.get(text(found, "reason")) or _REASONS.get(text(found, "status"), "end")
        error, usage = table(found, "error"), table(found, "usage")
        failure = _failure(error) if error else None
        ended = e.TurnEnded(reason, usage_of(usage), number(found, "steps"), failure)
        settled = self._settled(found) if flag(found, "sessionSettled") else []
        return [*self.runs.result(text(found, "id"), ended), *settled]

    def _settled(self, found: Found) -> list[e.Event]:
        return [*self.runs.settled(), e.Settled()]

    # What happens around a turn.

    def _retry_start(self, found: Found) -> list[e.Event]:
        self.runs.goes_on()
        attempt, most, delay = (number(found, key) for key in ("attempt", "maxAttempts", "delayMs"))
        return [e.RetryStarted(attempt, most, delay, text(found, "errorMessage"), turn=self.runs.turn)]

    def _retry_end(self, found: Found) -> list[e.Event]:
        success = flag(found, "success")
        if not success:
            self.runs.maybe_over()
        turn, error = self.runs.turn, text(found, "finalError")
        return [e.RetryEnded(success, number(found, "attempt"), error, turn=turn)]

    def _compaction_start(self, found: Found) -> list[e.Event]:
        self.runs.goes_on()
        return [e.CompactionStarted(_CAUSES.get(text(found, "reason"), "threshold"), turn=self.runs.turn)]

    def _compaction_end(self, found: Found) -> list[e.Event]:
        self.compacted = True
        if not flag(found, "willRetry"):
            self.runs.maybe_over()
        return [self.compaction(table(found, "result"), found)]

    def compaction(self, result: Found, found: Found) -> e.CompactionEnded:
        """Of its own frame, or of the response to `compact`."""
        error = text(found, "errorMessage") or text(found, "error") or ("cancelled" if flag(found, "aborted") else "")
        return e.CompactionEnded(
            bool(result) and not error,
            text(result, "summary"),
            number(result, "tokensBefore"),
            kept=text(result, "firstKeptEntryId"),
            error=error,
            turn=self.runs.turn,
        )

    def _todo_reminder(self, found: Found) -> list[e.Event]:
        return [e.PlanChanged(tuple(map(_plan_item, rows(found, "todos"))))]

    def _todo_clear(self, found: Found) -> list[e.Event]:
        return [e.PlanChanged(())]

    def _queue_update(self, found: Found) -> list[e.Event]:
        return [e.QueueChanged(soon=texts(found, "steering"), last=texts(found, "followUp"))]

    def _notice(self, found: Found) -> list[e.Event]:
        level: Literal["info", "warning"] = "info" if text(found, "level") in ("", "info") else "warning"
        return [e.Notice(text(found, "message") or text(found, "text"), level, turn=self.runs.turn)]

    def _extension_error(self, found: Found) -> list[e.Event]:
        """Where a path should be, ours say whose fault it was."""
        owner = _OWNERS.get(text(found, "extensionPath"), "engine")
        return [e.Failed(Failure(text(found, "event") or "extension", text(found, "error"), owner))]

    def _alive(self, found: Found) -> list[e.Event]:
        return [e.Alive(text(found, "toolCallId"), text(found, "toolName"), turn=self.runs.turn)]

    def _frame_error(self, found: Found) -> list[e.Event]:
        return [e.Failed(Failure("frame", text(found, "error") or text(found, "message"), "engine"))]

    def _extra(self, found: Found) -> list[e.Event]:
        data = {key: value for key, value in found.items() if key != "type"}
        return [e.Extra(text(found, "type"), data, turn=self.runs.turn)]

    # Dialogs and host calls.

    def _dialog(self, found: Found) -> list[e.Event]:
        agent = text(found, "agent") or self.agents.caller(text(found, "toolCallId"))
        return self.dialogs.read(found, self.runs.turn, agent)

    def _command_output(self, found: Found) -> list[e.Event]:
        return [e.Display("command_output", {"text": text(found, "text")}, turn=self.runs.turn)]

    def _tool_stream(self, found: Found) -> list[e.Event]:
        said = text(found, "text") or text(found, "delta")
        return [e.ToolOutput(text(found, "toolCallId"), said, **self.lane.place)]

    def _host_tool(self, found: Found) -> list[e.Event]:
        params = {
            "name": text(found, "toolName"),
            "args": table(found, "arguments"),
            "call": text(found, "toolCallId"),
        }
        return self._host_call(found, "tool", params)

    def _host_uri(self, found: Found) -> list[e.Event]:
        return self._host_call(found, "uri", {key: value for key, value in found.items() if key not in ("type", "id")})

    def _host_call(self, found: Found, method: str, params: dict[str, Any]) -> list[e.Event]:
        call = e.HostCall(text(found, "id"), method, params, turn=self.runs.turn)
        self.host_calls[call.call] = call
        return [call]

    def _host_cancel(self, found: Found) -> list[e.Event]:
        call = self.host_calls.pop(text(found, "targetId"), None)
        return [e.HostCallEnded(call.call, turn=call.turn)] if call else []

    # Settings.

    def _told(self, key: str, value: str, *, whole: bool = False) -> list[e.SettingChanged]:
        """Nothing said is no news, unless everything was."""
        if self._settings.get(key, "") == value or not (value or whole):
            return []
        self._settings[key] = value
        return [e.SettingChanged(key, value)]

    def settings(self, found: Found, *, whole: bool = False) -> list[e.SettingChanged]:
        """Those that are new."""
        model = found.get("model")
        if isinstance(model, dict):
            self.provider = text(model, "provider") or self.provider
            model = text(model, "id")
        told = self._told("model", model if isinstance(model, str) else "")
        for key, name in _SETTINGS.items():
            told += self._told(key, text(found, name), whole=whole)
        return told

    def _model_changed(self, found: Found) -> list[e.Event]:
        """omp itself does not say to which."""
        self.curious = "model" not in found
        return [*self.settings(found)]

    def _level_changed(self, found: Found) -> list[e.Event]:
        return [*self._told("thinking", text(found, "thinkingLevel") or text(found, "level"))]

    def _session_info(self, found: Found) -> list[e.Event]:
        name = text(found, "sessionName") or text(found, "title") or text(found, "name")
        return [*self._told("session", text(found, "sessionId")), *self._told("name", name)]

    def _config_update(self, found: Found) -> list[e.Event]:
        told = table(found, "config") or found
        others = {key: value for key, value in told.items() if key not in ("type", "model", *_SETTINGS.values())}
        return [*self.settings(told), *[e.SettingChanged(key, value) for key, value in others.items()]]

    def _commands(self, found: Found) -> list[e.Event]:
        return [e.SettingChanged("commands", host_answers.commands(found))]


def _failure(error: Found) -> Failure:
    owner = _OWNERS.get(text(error, "owner"), "provider")
    code, status = text(error, "code"), amount(error, "httpStatus")
    named = code or (f"http_{status:g}" if status else "provider_error")
    return Failure(named, text(error, "message"), owner, flag(error, "retryable"))


def _plan_item(todo: Found) -> PlanItem:
    return PlanItem(text(todo, "content"), _STATUSES.get(text(todo, "status"), "pending"), id=text(todo, "id"))


_AGENTS = ("subagent_lifecycle", "subagent_progress", "subagent_event")
_EXTRAS = (
    "ttsr_triggered", "retry_fallback_applied", "retry_fallback_succeeded", "irc_message", "goal_updated",
    "advisor_cost_changed", "advisor_yielded", "config_warnings_changed",
)  # fmt: skip
_FRAMES: dict[str, Callable[[EventReader, Found], list[e.Event]]] = {
    "agent_start": EventReader._agent_start,
    "agent_end": EventReader._agent_end,
    "prompt_result": EventReader._prompt_result,
    "session_settled": EventReader._settled,
    "agent_settled": EventReader._settled,
    "auto_retry_start": EventReader._retry_start,
    "auto_retry_end": EventReader._retry_end,
    "auto_compaction_start": EventReader._compaction_start,
    "auto_compaction_end": EventReader._compaction_end,
    "compaction_start": EventReader._compaction_start,
    "compaction_end": EventReader._compaction_end,
    "todo_reminder": EventReader._todo_reminder,
    "todo_auto_clear": EventReader._todo_clear,
    "queue_update": EventReader._queue_update,
    "notice": EventReader._notice,
    "alive": EventReader._alive,
    "extension_error": EventReader._extension_error,
    "rpc_frame_error": EventReader._frame_error,
    "extension_ui_request": EventReader._dialog,
    "command_output": EventReader._command_output,
    "tool_stream_update": EventReader._tool_stream,
    "host_tool_call": EventReader._host_tool,
    "host_uri_request": EventReader._host_uri,
    "host_tool_cancel": EventReader._host_cancel,
    "host_uri_cancel": EventReader._host_cancel,
    "model_changed": EventReader._model_changed,
    "thinking_level_changed": EventReader._level_changed,
    "session_info_update": EventReader._session_info,
    "session_info_changed": EventReader._session_info,
    "config_update": EventReader._config_update,
    "available_commands_update": EventReader._commands,
    **dict.fromkeys(_EXTRAS, EventReader._extra),
}
