"""What the HTTP transports have to know of a message: whose answer it is, and what goes into headers. Pure.

Everything else about messages is known to `mcp/connection.py` only.
"""

from binascii import b2a_base64
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from polylect.wire.jsonrpc import Id

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SENTINEL = ("=?base64?", "?=")


class Head(Struct, frozen=True):
    """The parts of a message that tell what it is."""

    id: Any = UNSET
    method: str | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def is_response(self) -> bool:
        return self.method is UNSET and (self.result is not UNSET or self.error is not UNSET)


class _Error(Struct):
    code: int


class _Meta(Struct):
    version: str = msgspec.field(default="", name=_VERSION_KEY)


class _Params(Struct):
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")


class _Request(Struct):
    params: _Params = msgspec.field(default_factory=_Params)


def read_head(message: bytes) -> Head | None:
    """The head of a message; None for anything else."""
    try:
        return msgspec.json.decode(message, type=Head)
    except (msgspec.MsgspecError, RecursionError):
        return None


def split_batch(body: bytes) -> list[bytes]:
    """The messages of a body. Servers of 2025-03-26 may answer with several in an array."""
    if not body.lstrip().startswith(b"["):
        return [body] if body else []
    try:
        return [bytes(raw) for raw in msgspec.json.decode(body, type=list[Raw])]
    except (msgspec.MsgspecError, RecursionError):
        return [body]


def with_id(head: Head, id: Id) -> bytes:
    """The same response with this id. Servers that refuse a request before they read it answer with the id null."""
    body = {"result": head.result} if head.result is not UNSET else {"error": head.error}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, **body})


def error_code(head: Head) -> int | None:
    """The code of an error of the protocol; None for anything else. OAuth has errors, too, in other forms."""
    try:
        return msgspec.json.decode(head.error, type=_Error).code if head.error is not UNSET else None
    except msgspec.MsgspecError:
        return None


def version_in(message: bytes) -> str:
    """The protocol version that a request of 2026-07-28 or later carries in its `_meta`; else nothing."""
    try:
        return msgspec.json.decode(message, type=_Request).params.meta.version
    except (msgspec.MsgspecError, RecursionError):
        return ""


def header_value(text: str) -> str:
    """A text as the value of a header: as it is, or in base64 where a header could not carry it unchanged."""
    begin, end = _SENTINEL
    plain = text.isascii() and text.isprintable() and text == text.strip(" ")
    if plain and not (text.startswith(begin) and text.endswith(end)):
        return text
    return f"{begin}{b2a_base64(text.encode(errors='replace'), newline=False).decode()}{end}"
