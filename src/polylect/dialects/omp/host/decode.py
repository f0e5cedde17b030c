"""Turns frames of an engine into events. `_HANDLERS` says which method reads which frame.

The events are those that the frame itself means; the `Completer` of the codec adds what the engine left out. Responses
are read by `replies`. Raises ValueError for a field that makes no sense, which the codec reports as a malformed event.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

from polylect.dialects.base import Env
from polylect.dialects.omp.frames.table import EXTRAS
from polylect.dialects.omp.host import answers as host_answers
from polylect.dialects.omp.host.agent_stream import FRAMES, AgentStream
from polylect.dialects.omp.host.dialogs import Dialogs
from polylect.dialects.omp.host.fields import Fields, amount, flag, number, rows, table, text, texts
from polylect.dialects.omp.host.messages import usage_of
from polylect.dialects.omp.host.subagents import Agents
from polylect.dialects.omp.host.turn_tracker import TurnTracker
from polylect.dialects.omp.stop_reasons import OUR_REASONS, OUR_STOPS
from polylect.dialects.provider_failures import provider_failure
from polylect.vocab import events as e
from polylect.vocab.content import Failure, Owner, StreamRule
from polylect.vocab.errors import fault_of_status

Cause = Literal["threshold", "overflow", "manual", "idle"]

_OWNERS: dict[str, Owner] = {name: name for name in get_args(Owner)}
_CAUSES: dict[str, Cause] = {"overflow": "overflow", "manual": "manual", "idle": "idle"}
_BEGINNINGS = ("turn_start", "message_update", "tool_execution_start")
"""Frames that show that a run is under way, to a host that connected after its start."""
_SETTINGS = {"session": "sessionId", "thinking": "thinkingLevel", "name": "sessionName"}


class EventReader:
    def __init__(self, env: Env) -> None:
        self.tracker = TurnTracker(env.new_id)
        self.main = AgentStream()
        self.agents = Agents()
        self.dialogs = Dialogs(env.now)
        self.host_calls: dict[str, e.HostCall] = {}
        """Work that the host was asked to do and has not answered, by id."""
        self.provider = ""
        """Who serves the model in use."""
        self.needs_state = False
        """Something changed that only a `get_state` tells."""
        self.compacted = False
        """The end of a compaction was told since this was last cleared."""
        self._settings: dict[str, str] = {}

    def knows(self, kind: str) -> bool:
        return kind in _HANDLERS or kind in FRAMES or kind in _AGENTS

    def read(self, kind: str, frame: Fields) -> list[e.Event]:
        """Raises ValueError for a field that makes no sense."""
        if kind in FRAMES:
            return [*self._begun(kind, frame), *self._read_main(kind, frame)]
        if kind in _AGENTS:
            events = self.agents.read(kind, frame, self.tracker.turn)
            self.tracker.spent(self.agents.pop_usage())
            return events
        return _HANDLERS[kind](self, frame)

    # Runs.

    def _begun(self, kind: str, frame: Fields) -> list[e.Event]:
        """The start of a turn whose `agent_start` did not come."""
        replies = kind == "message_start" and table(frame, "message").get("role") == "assistant"
        return self._agent_start(frame) if not self.tracker.turn and (replies or kind in _BEGINNINGS) else []

    def _read_main(self, kind: str, frame: Fields) -> list[e.Event]:
        events = self.main.read(kind, frame)
        self.tracker.spent(self.main.pop_usage())
        return events

    def _agent_start(self, frame: Fields) -> list[e.Event]:
        events = self.tracker.begin()
        self.main.last = {}
        for event in events:
            if isinstance(event, e.TurnStarted):
                self.main.begin(event.turn, prompted=event.cause == "prompt")
        return events

    def _agent_end(self, frame: Fields) -> list[e.Event]:
        """The last reply says how the run ended. If the loop itself failed, only this frame has that reply."""
        replies = [message for message in rows(frame, "messages") if message.get("role") == "assistant"]
        last = self.main.last or (replies[-1] if replies else {})
        terminal, yielded = frame.get("isTerminal"), frame.get("yielded")
        if not terminal and isinstance(yielded, bool):  # 18.3: work in the background goes on after the turn
            terminal = None if yielded else False
        return self.tracker.end(self._ended(last), terminal=terminal if isinstance(terminal, bool) else None)

    def _ended(self, last: Fields) -> e.TurnEnded:
        match OUR_STOPS.get(text(last, "stopReason")):
            case "error":
                message = text(last, "errorMessage") or "the model's service failed"
                return e.TurnEnded("error", failure=provider_failure(message, certain=True))
            case "cancelled":
                return e.TurnEnded("cancelled")
            case "length":
                return e.TurnEnded("length")
            case "calls" | None if self.tracker.stopped:
                return e.TurnEnded("cancelled")
            case _:
                return e.TurnEnded("end")

    def _prompt_result(self, frame: Fields) -> list[e.Event]:
        """One for each accepted prompt (18.3), and with all that a turn's end says (polylect)."""
        reason = OUR_REASONS.get(text(frame, "reason")) or OUR_REASONS.get(text(frame, "status"), "end")
        error, usage = table(frame, "error"), table(frame, "usage")
        failure = _failure(error) if error else None
        ended = e.TurnEnded(reason, usage_of(usage), number(frame, "steps"), failure)
        settled = self._settled(frame) if flag(frame, "sessionSettled") else []
        return [*self.tracker.result(text(frame, "id"), ended), *settled]

    def _settled(self, frame: Fields) -> list[e.Event]:
        return [*self.tracker.settled(), e.Settled()]

    # What happens around a turn.

    def _retry_start(self, frame: Fields) -> list[e.Event]:
        self.tracker.run_follows()
        attempt, most, delay = (number(frame, key) for key in ("attempt", "maxAttempts", "delayMs"))
        return [e.RetryStarted(attempt, most, delay, text(frame, "errorMessage"), turn=self.tracker.turn)]

    def _retry_end(self, frame: Fields) -> list[e.Event]:
        success = flag(frame, "success")
        if not success:
            self.tracker.maybe_over()
        turn, error = self.tracker.turn, text(frame, "finalError")
        return [e.RetryEnded(success, number(frame, "attempt"), error, turn=turn)]

    def _compaction_start(self, frame: Fields) -> list[e.Event]:
        self.tracker.run_follows()
        return [e.CompactionStarted(_CAUSES.get(text(frame, "reason"), "threshold"), turn=self.tracker.turn)]

    def _compaction_end(self, frame: Fields) -> list[e.Event]:
        self.compacted = True
        if not flag(frame, "willRetry"):
            self.tracker.maybe_over()
        return [self.compaction(table(frame, "result"), frame)]

    def compaction(self, result: Fields, frame: Fields) -> e.CompactionEnded:
        """Of its own frame, or of the response to `compact`."""
        error = text(frame, "errorMessage") or text(frame, "error") or ("cancelled" if flag(frame, "aborted") else "")
        return e.CompactionEnded(
            bool(result) and not error,
            text(result, "summary"),
            number(result, "tokensBefore"),
            first_kept=text(result, "firstKeptEntryId"),
            error=error,
            turn=self.tracker.turn,
        )

    def _todos(self, frame: Fields) -> list[e.Event]:
        """`todo_auto_clear` has none."""
        return [e.PlanChanged(tuple(map(host_answers.plan_item, rows(frame, "todos"))))]

    def _queue_update(self, frame: Fields) -> list[e.Event]:
        return [e.QueueChanged(soon=texts(frame, "steering"), last=texts(frame, "followUp"))]

    def _shell_output(self, frame: Fields) -> list[e.Event]:
        return [e.ShellOutput(text(frame, "id"), text(frame, "delta"))]

    def _notice(self, frame: Fields) -> list[e.Event]:
        level: Literal["info", "warning"] = "info" if text(frame, "level") in ("", "info") else "warning"
        return [e.Notice(text(frame, "message") or text(frame, "text"), level, turn=self.tracker.turn)]

    def _extension_error(self, frame: Fields) -> list[e.Event]:
        """polylect puts the owner of the failure where omp has the path of an extension."""
        owner = _OWNERS.get(text(frame, "extensionPath"), "engine")
        return [e.Failed(Failure(text(frame, "event") or "extension", text(frame, "error"), owner))]

    def _alive(self, frame: Fields) -> list[e.Event]:
        return [e.Alive(text(frame, "toolCallId"), text(frame, "toolName"), turn=self.tracker.turn)]

    def _frame_error(self, frame: Fields) -> list[e.Event]:
        return [e.Failed(Failure("frame", text(frame, "error") or text(frame, "message"), "engine"))]

    def _rules_matched(self, frame: Fields) -> list[e.Event]:
        return [e.RulesMatched(tuple(map(_rule, rows(frame, "rules"))), turn=self.tracker.turn)]

    def _extra(self, frame: Fields) -> list[e.Event]:
        data = {key: value for key, value in frame.items() if key != "type"}
        return [e.Extra(text(frame, "type"), data, turn=self.tracker.turn)]

    # Dialogs and host calls.

    def _dialog(self, frame: Fields) -> list[e.Event]:
        agent = text(frame, "agent") or self.agents.caller(text(frame, "toolCallId"))
        calls = [*self.main.open_calls, *self.agents.open_calls]
        return self.dialogs.read(frame, self.tracker.turn, agent, calls)

    def _command_output(self, frame: Fields) -> list[e.Event]:
        return [e.Display("command_output", {"text": text(frame, "text")}, turn=self.tracker.turn)]

    def _tool_stream(self, frame: Fields) -> list[e.Event]:
        body = text(frame, "text") or text(frame, "delta")
        return [e.ToolOutput(text(frame, "toolCallId"), body, **self.main.place)]

    def _host_tool(self, frame: Fields) -> list[e.Event]:
        params = {
            "name": text(frame, "toolName"),
            "args": table(frame, "arguments"),
            "call": text(frame, "toolCallId"),
        }
        return self._host_call(frame, "tool", params)

    def _host_uri(self, frame: Fields) -> list[e.Event]:
        return self._host_call(frame, "uri", {key: value for key, value in frame.items() if key not in ("type", "id")})

    def _host_call(self, frame: Fields, method: str, params: dict[str, Any]) -> list[e.Event]:
        call = e.HostCall(text(frame, "id"), method, params, turn=self.tracker.turn)
        self.host_calls[call.call] = call
        return [call]

    def _host_cancel(self, frame: Fields) -> list[e.Event]:
        call = self.host_calls.pop(text(frame, "targetId"), None)
        return [e.HostCallEnded(call.call, turn=call.turn)] if call else []

    # Settings.

    def _changed(self, key: str, value: str, *, whole: bool = False) -> list[e.SettingChanged]:
        """A change of this setting. Empty values are ignored in partial updates; in a whole state they clear it."""
        if self._settings.get(key, "") == value or not (value or whole):
            return []
        self._settings[key] = value
        return [e.SettingChanged(key, value)]

    def settings(self, frame: Fields, *, whole: bool = False) -> list[e.SettingChanged]:
        """The settings in this object that have changed."""
        model = frame.get("model")
        if isinstance(model, dict):
            self.provider = text(model, "provider") or self.provider
            model = text(model, "id")
        events = self._changed("model", model if isinstance(model, str) else "")
        for key, name in _SETTINGS.items():
            events += self._changed(key, text(frame, name), whole=whole)
        return events

    def _model_changed(self, frame: Fields) -> list[e.Event]:
        """omp itself does not name the new model; then the state has to be asked for."""
        self.needs_state = "model" not in frame
        return [*self.settings(frame)]

    def _level_changed(self, frame: Fields) -> list[e.Event]:
        return [*self._changed("thinking", text(frame, "thinkingLevel") or text(frame, "level"))]

    def _session_info(self, frame: Fields) -> list[e.Event]:
        name = text(frame, "sessionName") or text(frame, "title") or text(frame, "name")
        return [*self._changed("session", text(frame, "sessionId")), *self._changed("name", name)]

    def _config_update(self, frame: Fields) -> list[e.Event]:
        config = table(frame, "config") or frame
        others = {key: value for key, value in config.items() if key not in ("type", "model", *_SETTINGS.values())}
        return [*self.settings(config), *[e.SettingChanged(key, value) for key, value in others.items()]]

    def _commands(self, frame: Fields) -> list[e.Event]:
        return [e.SettingChanged("commands", host_answers.commands(frame))]


def _failure(error: Fields) -> Failure:
    owner = _OWNERS.get(text(error, "owner"), "provider")
    code, status = text(error, "code"), int(amount(error, "httpStatus"))
    kind, passing = fault_of_status(status) if status else ("provider_error", False)
    retryable = flag(error, "retryable") if "retryable" in error else passing
    return Failure(code or kind, text(error, "message"), owner, retryable)


def _rule(row: Fields) -> StreamRule:
    return StreamRule(text(row, "name"), text(row, "condition"), text(row, "content"), text(row, "path"))


_AGENTS = ("subagent_lifecycle", "subagent_progress", "subagent_event")
_SILENT = (
    "entry_appended", "summarization_retry_scheduled", "summarization_retry_attempt_start",
    "summarization_retry_finished",
)  # fmt: skip
"""Frames of newer pi that say nothing which other frames do not: what is in the session file, retries of a summary."""
_HANDLERS: dict[str, Callable[[EventReader, Fields], list[e.Event]]] = {
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
    "todo_reminder": EventReader._todos,
    "todo_auto_clear": EventReader._todos,
    "queue_update": EventReader._queue_update,
    "bash_execution_update": EventReader._shell_output,
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
    "ttsr_triggered": EventReader._rules_matched,
    **dict.fromkeys(EXTRAS, EventReader._extra),
    **dict.fromkeys(_SILENT, lambda reader, frame: []),
}
