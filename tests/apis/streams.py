"""Feeding parsers in tests."""

from typing import Any, Protocol

import msgspec

from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelEvent


class Parser(Protocol):
    done: bool
    fault: ProviderError | None

    def feed(self, payloads: list[bytes]) -> list[ModelEvent]: ...
    def end(self) -> list[ModelEvent]: ...


def heard(parser: Parser, *payloads: Any) -> list[ModelEvent]:
    """All that a parser makes of a stream, up to its end. Payloads are values, or bytes that stand for themselves."""
    data = [payload if isinstance(payload, bytes) else msgspec.json.encode(payload) for payload in payloads]
    return parser.feed(data) + parser.end()
