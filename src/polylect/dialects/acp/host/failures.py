"""Errors of an agent as failures: any code is accepted, and the kind is read from what agents really send.

gemini puts HTTP numbers into `code`. claude names the kind in `data.errorKind`, opencode in `data.errorName`. Most put
the sentence of the model's service into `data.details`, `data.message` or `data` itself.
"""

from typing import get_args

from polylect.dialects.acp.host.handshake import AgentInfo, login_needed
from polylect.dialects.acp.versions import AUTH_REQUIRED, CANCELLED, NOT_FOUND
from polylect.dialects.lenient import Object, inner, text
from polylect.dialects.provider_failures import provider_failure
from polylect.vocab.content import Failure, Owner
from polylect.vocab.errors import fault_of_status
from polylect.wire import jsonrpc

OWNERS: dict[str, Owner] = {name: name for name in get_args(Owner)}
_CODES: dict[int, tuple[str, Owner]] = {
    NOT_FOUND: ("no_such_session", "host"),
    CANCELLED: ("cancelled", "host"),
    jsonrpc.METHOD_NOT_FOUND: ("unsupported", "host"),
    jsonrpc.INVALID_PARAMS: ("bad_params", "host"),
    jsonrpc.INVALID_REQUEST: ("bad_request", "host"),
}
_NO_SESSION = ("session not found", "unknown session", "invalid session", "no previous sessions", "no rollout found")
"""How agents say that a session is not there, where they have no code for it."""
_BUSY = ("turn.agent_busy", "already has active run")


def failure_of(error: jsonrpc.Error, agent: AgentInfo) -> Failure:
    """The failure that an error answer of the agent reports."""
    data: Object = error.data if isinstance(error.data, dict) else {}
    own = inner(data, "polylect")
    message = _message(error, data)
    if owner := OWNERS.get(text(own, "owner")):
        sentence = text(data, "details") or error.message
        return Failure(text(own, "code") or "error", sentence, owner, own.get("retryable") is True)
    if error.code == AUTH_REQUIRED:
        return Failure("auth", login_needed(agent, message, data), "user")
    if 400 <= error.code < 600:
        kind, retryable = fault_of_status(error.code)
        return Failure(kind, message, "provider", retryable)
    if error.code == jsonrpc.INTERNAL_ERROR and any(phrase in message.lower() for phrase in _NO_SESSION):
        return Failure("no_such_session", message, "host")
    if any(word in f"{text(data, 'code')} {message}" for word in _BUSY):
        return Failure("busy", message, "host", retryable=True)
    by_service = bool(text(data, "errorKind") or text(data, "errorName"))
    if failure := provider_failure(f"{message} {text(data, 'errorKind').replace('_', ' ')}", certain=by_service):
        return Failure(failure.code, message, failure.owner, failure.retryable or "server_error" in data.values())
    code, owner = _CODES.get(error.code, ("error", "engine"))
    return Failure(code, message, owner)


def _message(error: jsonrpc.Error, data: Object) -> str:
    """The sentence for people. "Internal error" alone says nothing, so the details follow it, or stand for it."""
    raw = error.data if isinstance(error.data, str) else ""
    details = raw or next((text(data, key) for key in ("details", "message", "error", "reason") if text(data, key)), "")
    message = error.message
    if not details or details in message:
        return message or f"the agent failed with the code {error.code}"
    return details if not message or message in ("Internal error", details) else f"{message}: {details}"
