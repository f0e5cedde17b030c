"""Errors that OpenAI and compatible servers send inside a stream that began with status 200.

Both wires of OpenAI use it (`openai_chat.py`, `openai_responses.py`). It returns a `ProviderError` of the kind that the
same error has as a status.
"""

from typing import Any

from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ProviderFault

FAULTS: dict[str, tuple[ProviderFault, bool]] = {
    "invalid_api_key": ("auth", False),
    "authentication_error": ("auth", False),
    "401": ("auth", False),
    "403": ("auth", False),
    "insufficient_quota": ("rate_limit", False),
    "rate_limit_exceeded": ("rate_limit", True),
    "429": ("rate_limit", True),
    "context_length_exceeded": ("overflow", False),
    "exceed_context_size_error": ("overflow", False),
    "invalid_request_error": ("bad_request", False),
    "invalid_prompt": ("bad_request", False),
    "400": ("bad_request", False),
    "404": ("bad_request", False),
    "content_policy_violation": ("refused", False),
    "overloaded_error": ("overloaded", True),
    "server_is_overloaded": ("overloaded", True),
    "503": ("overloaded", True),
    "timeout": ("timeout", True),
    "408": ("timeout", True),
}


def fault_of(error: Any) -> ProviderError:
    """The fault. `error` is an object with code, type and message, or only a sentence."""
    if not isinstance(error, dict):
        return ProviderError("server", f"the model's service failed: {error}", retryable=True)
    names = (str(error.get("code") or ""), str(error.get("type") or ""), str(error.get("status") or ""))
    kind, retryable = next((FAULTS[name] for name in names if name in FAULTS), ("server", True))
    text = error.get("message") or next(filter(None, names), "no reason given")
    return ProviderError(kind, f"the model's service failed: {text}", retryable=retryable)
