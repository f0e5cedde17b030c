"""Unpacks the stream of Amazon Bedrock: AWS event stream messages with JSON that holds Anthropic's events in base64.

The output has the form of server-sent event data, so `anthropic_messages.StreamParser` reads it. Exceptions of the
service become Anthropic's `error` events. The provider `bedrock` uses it.
"""

import msgspec
from msgspec import Struct

from polylect.apis.faults import UNREADABLE
from polylect.wire import eventstream

_FAULTS = {
    "throttlingException": "rate_limit_error",
    "serviceQuotaExceededException": "rate_limit_error",
    "modelStreamErrorException": "api_error",
    "internalServerException": "api_error",
    "serviceUnavailableException": "overloaded_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
    "accessDeniedException": "permission_error",
}


class _Chunk(Struct):
    event: bytes = msgspec.field(default=b"", name="bytes")


class _Exception(Struct):
    message: str = ""


_chunk = msgspec.json.Decoder(_Chunk).decode


class Frames:
    """Bytes of a response body to the payloads of Anthropic's events."""

    def __init__(self) -> None:
        self._parser = eventstream.Parser()

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that are complete now. Raises ValueError if the bytes are not such a stream."""
        return [payload for message in self._parser.feed(data) if (payload := _payload(message))]

    def end(self) -> list[bytes]:
        return []


def _event(payload: bytes) -> bytes:
    try:
        return _chunk(payload).event
    except UNREADABLE as error:
        raise ValueError(f"an event cannot be read: {error}") from None


def _payload(message: eventstream.Message) -> bytes:
    if message.headers.get(":message-type") == "event":
        return _event(message.payload)
    name = message.headers.get(":exception-type") or message.headers.get(":error-code") or "internalServerException"
    try:
        text = msgspec.json.decode(message.payload, type=_Exception).message
    except UNREADABLE:
        text = message.headers.get(":error-message", "")
    error = {"type": _FAULTS.get(name, "api_error"), "message": text or name}
    return msgspec.json.encode({"type": "error", "error": error})
