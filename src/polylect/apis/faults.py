"""Faults that the streams of all vendors share.

The stream parsers decode into types. What does not fit them is the server's fault and becomes a `ProviderError`:
`UNREADABLE` lists what decoding hostile input raises, `Tokens` is a count that can be added and stored, `FAULTS` has
the kind of each error that a vendor names.
"""

from typing import Annotated, Any

from msgspec import Meta, MsgspecError

from polylect.apis.arguments import MOST_CALLS
from polylect.vocab.errors import FAULTS_BY_STATUS, ProviderError
from polylect.vocab.ports import ProviderFault

UNREADABLE = (MsgspecError, RecursionError)
Tokens = Annotated[int, Meta(ge=0, le=10**12)]
"""A negative count would lower the cost of a turn, and one beyond 64 bits cannot be stored."""


FAULTS: dict[str, tuple[ProviderFault, bool]] = {
    **{str(status): fault for status, fault in FAULTS_BY_STATUS.items()},
    # Both vendors.
    "authentication_error": ("auth", False),
    "overloaded_error": ("overloaded", True),
    "invalid_request_error": ("bad_request", False),
    # Anthropic.
    "permission_error": ("auth", False),
    "billing_error": ("auth", False),
    "rate_limit_error": ("rate_limit", True),
    "api_error": ("server", True),
    "timeout_error": ("timeout", True),
    "request_too_large": ("overflow", False),
    "not_found_error": ("bad_request", False),
    # OpenAI, and servers that copy it.
    "invalid_api_key": ("auth", False),
    "insufficient_quota": ("rate_limit", False),
    "rate_limit_exceeded": ("rate_limit", True),
    "context_length_exceeded": ("overflow", False),
    "exceed_context_size_error": ("overflow", False),
    "invalid_prompt": ("bad_request", False),
    "content_policy_violation": ("refused", False),
    "server_is_overloaded": ("overloaded", True),
    "timeout": ("timeout", True),
}
"""The kind of an error, and whether another attempt may help, by its HTTP status or by its name in a stream that began
with status 200."""


def fault_of(error: Any) -> ProviderError:
    """The fault that an OpenAI stream reports. `error` is an object with code, type and message, or only a sentence."""
    if not isinstance(error, dict):
        return ProviderError("server", f"the model's service failed: {error}", retryable=True)
    names = (str(error.get("code") or ""), str(error.get("type") or ""), str(error.get("status") or ""))
    kind, retryable = next((FAULTS[name] for name in names if name in FAULTS), ("server", True))
    text = error.get("message") or next(filter(None, names), "no reason given")
    return ProviderError(kind, f"the model's service failed: {text}", retryable=retryable)


def unreadable(error: Exception) -> ProviderError:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return ProviderError("protocol", f"the model server sent what cannot be read: {reason}")


def cut_off() -> ProviderError:
    return ProviderError("network", "the model's reply was cut off", retryable=True)


def too_many_calls() -> ProviderError:
    return ProviderError("protocol", f"the model's reply asks for more than {MOST_CALLS} calls")
