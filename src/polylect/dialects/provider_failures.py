"""Recognises failures of the model's service in what engines of others report.

aionrs and wayland-core report a refused key, a rate limit and an overloaded service by the same code and say the rest
in a sentence. A host needs the kind, and whether trying again can help: `polylect run` exits with 75 for that.
"""

import re

from polylect.vocab.content import Failure
from polylect.vocab.errors import fault_of_status
from polylect.vocab.ports import ProviderFault
from polylect.wire.lazy_regex import pattern

_STATUS = pattern(r"\b(?:API error|HTTP(?: status)?|http_|status(?: code)?)[ :_]*([45]\d\d)\b", re.IGNORECASE)
_BARE_STATUS = pattern(r"^([45]\d\d)\b|\(([45]\d\d)\)")
"""As pi and our own engine write it."""
_SERVICE = pattern(r"^(?:LLM )?(?:provider|API|no API key)\b", re.IGNORECASE)
_PHRASES: tuple[tuple[str, ProviderFault, bool], ...] = (
    ("rate limit", "rate_limit", True),
    ("overloaded", "overloaded", True),
    ("prompt too long", "overflow", False),
    ("no api key", "auth", False),
    ("connection error", "network", True),
    ("http error", "network", True),
    ("timed out", "timeout", True),
)
"""What sentences about the service say, in lower case: the kind, and whether trying again can help."""


def provider_failure(message: str, *, certain: bool = False) -> Failure | None:
    """The failure of the model's service that a `message` of an engine reports; None if it is about something else.

    `certain`: it is known to be about the service, so that a bare number is taken for a status.
    """
    if status := _status(message, certain=certain):
        kind, retryable = fault_of_status(status)
        return Failure(kind, message, "provider", retryable)
    low = message.lower()
    about_service = certain or _SERVICE.match(message)
    for phrase, kind, retryable in _PHRASES:
        if about_service and phrase in low:
            return Failure(kind, message, "provider", retryable)
    return Failure("provider_error", message, "provider") if certain else None


def _status(message: str, *, certain: bool) -> int:
    match = _STATUS.search(message) or (_BARE_STATUS.search(message) if certain else None)
    return int(next(filter(None, match.groups()))) if match else 0
