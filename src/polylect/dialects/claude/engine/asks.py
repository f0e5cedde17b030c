"""Requests of the engine that wait for the host: permission questions, elicitations, hook callbacks, MCP messages.

    Ask, HostCall              -> control_request (can_use_tool, elicitation, hook_callback, mcp_message, ...)
    control_response           -> Answer, HostReply
    AskClosed, HostCallEnded   -> control_cancel_request

Every request is either answered once or cancelled once. Only a clear `allow` allows a call (A1). An answer that comes
after the cancellation is ignored; one for an unknown id is an error. The codec is the only caller.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from polylect.dialects.claude.engine import questions
from polylect.dialects.claude.engine.encode import EventWriter
from polylect.dialects.claude.frames import control
from polylect.dialects.claude.permissions import Updates, suggestions
from polylect.vocab.commands import Answer, Command, HostReply
from polylect.vocab.content import Rule
from polylect.vocab.events import Ask, AskClosed, HostCall, HostCallEnded
from polylect.wire import jsonl

_NOBODY = "nobody is there to ask: the host has no way to answer permission prompts"
_INTERACTIVE = ("ExitPlanMode", questions.QUESTION)


class _OpenAsk(Struct, frozen=True):
    """An ask, and its input as the host received it: a long input is shortened to fit a line."""

    ask: Ask
    input: dict[str, Any]


class PendingAsks:
    def __init__(self, writer: EventWriter, *, prompts: bool) -> None:
        self._writer = writer
        self._out = writer.out
        self._prompts = prompts
        self._asks: dict[str, _OpenAsk] = {}
        self._calls: dict[str, HostCall] = {}
        self._granted: list[Rule] = []
        """Rules that came with answers; `replaceRules` revokes them."""
        self._cancelled: set[str] = set()
        """Requests that were cancelled: a late answer to them is no error."""

    # Events of the engine.

    def ask(self, ask: Ask) -> list[Command]:
        if not self._prompts:
            return [Answer(ask.ask, "deny", reason=_NOBODY, session=ask.session)]
        request = self._tool_request(ask) if ask.kind == "permission" or ask.call else questions.elicitation(ask)
        self._writer.flush(ask)
        self._writer.write_state("requires_action")
        line = self._request(ask.ask, request)
        sent = jsonl.parse(line)["request"].get("input", {}) if isinstance(request, control.CanUseTool) else {}
        self._asks[ask.ask] = _OpenAsk(ask, sent)
        self._writer.asked_calls.add(ask.call)
        return []

    def _tool_request(self, ask: Ask) -> control.CanUseTool:
        permission = ask.kind == "permission"
        name = ask.name if permission else questions.QUESTION
        return control.CanUseTool(
            tool_name=name,
            display_name=name,
            input=ask.args if permission else questions.as_input(ask),
            tool_use_id=ask.call,
            description=ask.title,
            permission_suggestions=suggestions(ask) if permission else [],
            decision_reason=ask.reason,
            agent_id=ask.agent,
            title=ask.title,
            requires_user_interaction=not permission or name in _INTERACTIVE,
        )

    def ask_closed(self, event: AskClosed) -> None:
        open_ask = self._asks.get(event.ask)
        if event.how in ("cancelled", "timeout") and open_ask:
            self._writer.deny(open_ask.ask.call, open_ask.ask.name)
        self._cancel(event.ask, self._asks)
        if not self._asks and self._writer.turn:
            self._writer.write_state("running")

    def host_call(self, event: HostCall) -> list[Command]:
        request = _host_request(event, self._out.new_id)
        if request is None:
            self._out.lost[f"HostCall {event.method}"] += 1
            return [HostReply(event.call, error=f"this host cannot be asked for {event.method}", session=event.session)]
        self._calls[event.call] = event
        self._request(event.call, request)
        return []

    def host_call_ended(self, event: HostCallEnded) -> None:
        self._cancel(event.call, self._calls)

    def withdraw(self) -> None:
        """Cancel the asks of turns. Called for an interrupt, before that is answered."""
        for open_ask in [open_ask for open_ask in self._asks.values() if open_ask.ask.turn]:
            self._writer.deny(open_ask.ask.call, open_ask.ask.name)
            self._cancel(open_ask.ask.ask, self._asks)

    def _cancel(self, id: str, waiting: dict[str, Any]) -> None:
        if waiting.pop(id, None) is not None:
            self._cancelled.add(id)
            self._out.write(control.ControlCancel(request_id=id))

    def _request(self, id: str, request: control.Request) -> bytes:
        return self._out.write(control.ControlRequest(request_id=id, request=msgspec.to_builtins(request)))

    # Frames of the host.

    def answer(self, response: dict[str, Any]) -> list[Command]:
        """The commands that a `control_response` leads to. Raises ValueError if its id is unknown (A1)."""
        id = str(response.get("request_id"))
        if open_ask := self._asks.pop(id, None):
            return self._verdict(open_ask, response)
        if call := self._calls.pop(id, None):
            return [_host_reply(call, response)]
        if id not in self._cancelled:
            raise ValueError(f"nothing that waits was asked under the request_id {id[:80]!r}")
        self._cancelled.discard(id)
        return []

    def _verdict(self, open_ask: _OpenAsk, response: dict[str, Any]) -> list[Command]:
        """Anything but a clear yes denies (A1)."""
        ask, payload = open_ask.ask, response.get("response")
        if response.get("subtype") != "success":
            why = f"Tool permission request failed: {response.get('error') or 'no reason was given'}"
            return [Answer(ask.ask, "deny" if ask.kind == "permission" else "cancelled", reason=why)]
        if ask.kind != "permission" and not ask.call and isinstance(payload, dict):
            return [questions.elicited(ask, payload)]
        match payload if isinstance(payload, dict) else {}:
            case {"behavior": "allow"} as verdict:
                return self._allowed(open_ask, verdict)
            case {"behavior": "deny"} as verdict:
                reason, interrupt = str(verdict.get("message") or ""), verdict.get("interrupt") is True
                return [Answer(ask.ask, "deny", reason=reason, interrupt=interrupt)]
            case _:
                return [Answer(ask.ask, "deny", reason="the answer to the permission request was not valid")]

    def _allowed(self, open_ask: _OpenAsk, verdict: dict[str, Any]) -> list[Command]:
        ask, new_input = open_ask.ask, verdict.get("updatedInput")
        if new_input is not None and not isinstance(new_input, dict):
            return [Answer(ask.ask, "deny", reason="the answer to the permission request had no valid updatedInput")]
        if ask.kind != "permission":
            return [questions.answered(ask, new_input)]
        changed = new_input not in (None, open_ask.input, ask.args)
        if changed and open_ask.input != ask.args:
            return [Answer(ask.ask, "deny", reason="only part of the input was shown, so it cannot be changed")]
        updates = Updates(verdict.get("updatedPermissions"), self._writer.info.cwd, self._granted)
        for problem in updates.problems:
            self._out.inform(problem, "warning")
        answer = Answer(ask.ask, "allow", args=new_input if changed else None, always=updates.always)
        return [*updates.commands, answer]


def _host_request(event: HostCall, new_id: Callable[[], str]) -> control.Request | None:
    params = event.params if isinstance(event.params, dict) else {}
    match event.method, params:
        case "hook", {"callback": str(callback), "input": dict(hook_input)}:
            return control.HookCallback(
                callback_id=callback, input=hook_input, tool_use_id=params.get("call") or new_id()
            )
        case "mcp_message", {"server_name": str(name), "message": dict(message)}:
            return control.McpMessage(server_name=name, message=message)
        case "dialog", {"dialog_kind": str(kind)}:
            return control.UserDialog(dialog_kind=kind, payload=params.get("payload"))
        case "elicitation", {"message": str(message)}:
            return control.Elicitation(
                mcp_server_name=str(params.get("mcp_server_name", "")),
                message=message,
                requested_schema=params.get("requested_schema") or {},
            )
    return None


def _host_reply(call: HostCall, response: dict[str, Any]) -> HostReply:
    result = response.get("response")
    if response.get("subtype") != "success":
        return HostReply(call.call, error=str(response.get("error") or "the host failed"), session=call.session)
    if call.method == "mcp_message":
        result = result.get("mcp_response") if isinstance(result, dict) else None
    return HostReply(call.call, result=result if result is not None else {}, session=call.session)
