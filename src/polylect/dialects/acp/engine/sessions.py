"""A session of the connection: its open prompts and turns, and whether its client knows it already.

A prompt of the client is answered at the end of its turn, after everything that the turn reports. A turn that no
open prompt began, such as one that the engine began by itself, has a beginning and an end of its own under `_meta`.

    TurnEnded("end")     ->  {"stopReason": "end_turn", "usage": ...}
    TurnEnded("error")   ->  error -32603 with the failure in `data`, or -32000 if a login is needed
"""

from typing import Any

from msgspec import to_builtins

from polylect.dialects.acp.engine.connection import ClientRequest, Connection
from polylect.dialects.acp.engine.encode import SessionWriter
from polylect.dialects.acp.engine.subagents import Subagents
from polylect.dialects.acp.frames.client import PromptEnded, TurnUsage
from polylect.dialects.acp.frames.content import AnyBlock
from polylect.dialects.acp.frames.own_meta import own_meta
from polylect.dialects.acp.frames.updates import SessionInfoChanged
from polylect.dialects.acp.versions import AUTH_REQUIRED, NOT_FOUND
from polylect.vocab.content import Failure, Reason, Usage
from polylect.vocab.events import Event, TurnEnded, TurnStarted
from polylect.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, Error

_STOP_REASONS: dict[Reason, str] = {
    "end": "end_turn",
    "length": "max_tokens",
    "limit": "max_turn_requests",
    "refused": "refusal",
    "cancelled": "cancelled",
}
_CODES = {
    "auth": AUTH_REQUIRED,
    "not_configured": AUTH_REQUIRED,
    "no_such_session": NOT_FOUND,
    "unknown_session": NOT_FOUND,
    "empty_prompt": INVALID_PARAMS,
    "unknown_model": INVALID_PARAMS,
}
"""Codes of failures that have a code of their own on this wire, beside those that begin with `bad_`."""
_MESSAGE = 500
"""Characters of the message of an error; the whole is in its data."""


class OpenPrompt:
    """A prompt whose turn has not ended, with its blocks. `cancelled`: the client has cancelled it."""

    def __init__(self, request: ClientRequest, content: list[AnyBlock]) -> None:
        self.request = request
        self.content = content
        self.cancelled = False


class Session:
    """A session: `id`, in the folder `cwd`."""

    def __init__(self, connection: Connection, id: str, cwd: str) -> None:
        self.id = id
        self.prompts: dict[str, OpenPrompt] = {}
        """The open prompts of the client, by turn."""
        self.state = "idle"
        """What it is doing, in the words of version 2, which alone tells it."""
        self.closing = False
        """Whether the client has asked for its end."""
        self.writer = SessionWriter(connection, id, cwd)
        self.agents = Subagents(connection, self.writer)

    def turn_started(self, event: TurnStarted) -> None:
        self.writer.turn = event.turn
        if event.turn not in self.prompts:
            self.writer.update(SessionInfoChanged(meta=turn_started(event)))

    def turn_ended(self, event: TurnEnded) -> None:
        self.close_turn(event)
        prompt = self.prompts.pop(event.turn, None)
        if prompt is None:
            self.writer.update(SessionInfoChanged(meta=turn_ended(event)))
        elif event.reason == "error" and not prompt.cancelled:
            prompt.request.fail(turn_error(event))
        else:
            prompt.request.answer(prompt_ended(event))

    def close_turn(self, event: TurnEnded) -> None:
        """End what the running turn has left open."""
        if event.turn == self.writer.turn:
            self.writer.turn = ""
            self.writer.abandon_calls()
            self.writer.explain(event)
            self.writer.end_message()

    def after(self, event: Event) -> None:
        """An event of the session was written; version 2 tells what follows from it."""

    def end(self) -> None:
        """The session is closed: end what is open, and answer all prompts as cancelled."""
        self.agents.end()
        self.writer.abandon_calls()
        for turn in list(self.prompts):
            self.turn_ended(TurnEnded("cancelled", turn=turn))


def error_of(failure: Failure, **own: Any) -> Error:
    """The error for a failure. `own`: what our own host is told besides."""
    of_params = failure.owner == "host" and failure.code.startswith("bad_")
    code = _CODES.get(failure.code) or (INVALID_PARAMS if of_params else INTERNAL_ERROR)
    fields = {"code": failure.code, "owner": failure.owner, "retryable": failure.retryable}
    message = failure.message.strip().partition("\n")[0][:_MESSAGE] or failure.code
    return Error(code, message, {"details": failure.message, "polylect": {**fields, **own}})


def turn_started(event: TurnStarted) -> dict[str, Any] | None:
    """The `_meta` that begins a turn of the engine's own."""
    return own_meta(turn={"id": event.turn, "state": "started", "cause": event.cause})


def turn_ended(event: TurnEnded) -> dict[str, Any] | None:
    """The `_meta` that ends a turn of the engine's own."""
    ended = {"id": event.turn, "state": "ended", "reason": event.reason, **_details(event)}
    return own_meta(turn=ended if event.failure is None else {**ended, "failure": to_builtins(event.failure)})


def turn_error(event: TurnEnded) -> Error:
    """The error for a turn that has failed."""
    return error_of(event.failure or Failure("error", "The turn failed", "engine"), **_details(event))


def prompt_ended(event: TurnEnded) -> PromptEnded:
    """The result for a turn that has ended."""
    usage, failure = event.usage, event.failure
    tokens = TurnUsage(
        total_tokens=usage.tokens,
        input_tokens=usage.input,
        output_tokens=usage.output,
        cached_read_tokens=usage.cache_read or None,
        cached_write_tokens=usage.cache_write or None,
    )
    return PromptEnded(
        stop_reason=_STOP_REASONS.get(event.reason, "cancelled"),
        usage=tokens if usage.tokens else None,
        meta=own_meta(cost=usage.cost, steps=event.steps, failure=failure and to_builtins(failure)),
    )


def _details(event: TurnEnded) -> dict[str, Any]:
    """What a turn took, if anything."""
    usage = {"usage": to_builtins(event.usage)} if event.usage != Usage() else {}
    return usage | ({"steps": event.steps} if event.steps else {})
