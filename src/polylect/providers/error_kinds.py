"""Sorts the errors of model services: what kind, whether to try again, and what the user can change.

Vendors and compatible servers word the same error in many ways, so status, codes and phrases of the body are matched
here. Every provider uses it, and everything becomes a `ProviderError` with a sentence that says what to do.
"""

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from polylect.http.errors import HttpError, HttpFault
from polylect.vocab.errors import ProviderError, fault_of_status
from polylect.vocab.ports import ProviderFault

_OVERFLOW = (
    "prompt is too long",
    "context_length_exceeded",
    "context length",
    "context limit",
    "context window",
    "exceed_context_size",
    "exceeds the available context",
    "input is too long",
    "too many tokens",
    "input token count",
    "prompt token count",
    "maximum prompt length",
    "maximum model length",
    "model token limit",
)
"""How services say it, each in its own words, in lower case."""

_SECRET = 8
"""Shorter keys are `x`, `none` or `ollama`: no secrets, and parts of other words."""
_LONGEST = 2000
"""Characters of an error's text that are of use to anybody."""
_SPENT = ("insufficient_quota", "credit balance", "billing", "exceeded your current quota")


class Service(Struct, frozen=True):
    """Who answers, and how a person gives it credentials."""

    name: str
    credentials: str
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Service({self.name!r})"

    def without_secrets(self, error: ProviderError) -> ProviderError:
        """The same without our credentials, and not too long: some servers repeat what they were sent."""
        text = str(error)
        for secret in self.secrets:
            if len(secret) >= _SECRET:
                text = text.replace(secret, "[secret]")
        error.args = (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...",)
        return error


_WITHOUT_ANSWER: dict[HttpFault, tuple[ProviderFault, bool, str]] = {
    "address": ("bad_request", False, ": check --base-url and the API key"),
    "proxy": ("bad_request", False, ""),
    "proxy_refused": ("network", False, ""),
    "certificate": ("network", False, ""),
    "connect": ("network", True, ": check the network, HTTPS_PROXY and --base-url"),
    "connect_timeout": ("timeout", True, ": check the network and --base-url"),
    "lost": ("network", True, ""),
    "silent": ("timeout", True, " (stream_timeout)"),
    "not_http": ("protocol", False, ": check --base-url"),
    "encoding": ("protocol", False, ""),
}
"""By what went wrong: the kind, whether to try again, and the end of the sentence."""


def without_answer(error: HttpError) -> ProviderError:
    """A request that got no answer, or not all of it, as the error of its service."""
    kind, retryable, advice = _WITHOUT_ANSWER[error.kind]
    return ProviderError(kind, f"{error}{advice}", retryable=retryable)


def refusal(service: Service, model: str, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """A status that is not 200, as the error it is."""
    message = message_in(body)
    low = body.decode("utf-8", "replace").lower()
    kind, retryable = fault_of_status(status)
    if kind in ("bad_request", "server") and any(phrase in low for phrase in _OVERFLOW):
        kind, retryable = "overflow", False
    if any(phrase in low for phrase in _SPENT) and status in (400, 402, 403, 429):
        kind, retryable = "rate_limit", False
    if headers.get("x-should-retry") in ("true", "false"):
        retryable = headers["x-should-retry"] == "true"
    text = f"{service.name}: {_advice(service, model, status, kind, headers)}"
    # Some vendors repeat parts of a refused key: what they say about keys is not passed on.
    text = text if kind == "auth" or not message else f"{text}: {message}"
    return ProviderError(kind, text, retryable=retryable, status=status, retry_after=_retry_after(headers))


def not_a_model(service: Service, kind: str) -> ProviderError:
    return ProviderError(
        "protocol", f"{service.name}: the server answered {kind}, not a model's reply: check --base-url"
    )


def _advice(service: Service, model: str, status: int, kind: ProviderFault, headers: Mapping[str, str]) -> str:
    if 300 <= status < 400:
        return f"the server redirects to {headers.get('location', 'nowhere')}: set --base-url to where it really is"
    match kind:
        case "auth":
            return f"the credentials were refused ({status}): set {service.credentials}"
        case "rate_limit":
            return f"the limit of this account is reached ({status})"
        case "overflow":
            return f"the conversation is too long for the model {model!r} ({status})"
        case "overloaded":
            return f"the service is overloaded ({status})"
        case "bad_request" if status == 404:
            return f"no such model or address ({status}): check --model {model!r} and --base-url"
        case "bad_request":
            return f"the request was refused ({status})"
        case _:
            return f"the service failed ({status})"


def message_in(body: bytes) -> str:
    """The sentence in an error's body, whoever wrote it."""
    try:
        return _one_line(_sentence(msgspec.json.decode(body)))
    except (msgspec.DecodeError, RecursionError):
        text = body.decode("utf-8", "replace")
        return "" if "<html" in text.lower() or "<!doctype" in text.lower() else _one_line(text)


def _sentence(value: Any) -> str:
    if isinstance(value, list) and value:
        return _sentence(value[0])
    if isinstance(value, dict):
        inner = next((value[key] for key in ("error", "message", "Message", "detail", "errors") if value.get(key)), "")
        return _sentence(inner)
    return value if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return max(0.0, float(milliseconds) / 1000)
        return max(0.0, float(headers["retry-after"]))
    except KeyError:
        return None
    except ValueError:
        return _until(headers.get("retry-after", ""))


def _until(date: str) -> float | None:
    from email.utils import parsedate_to_datetime  # 10 ms, and most servers say seconds

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
