"""JSON-RPC 2.0 as lines: requests, notifications and responses, which both peers of a connection may send. Pure.

`read` turns a line into one of four values and never raises. The other functions make lines. Ids are echoed as they
came, whatever their type. Batches are refused, as the protocols that use this module want it.

    {"jsonrpc": "2.0", "id": 1, "method": "add", "params": {"a": 1}}    a request, which gets one response
    {"jsonrpc": "2.0", "method": "note"}                                a notification, which gets none
    {"jsonrpc": "2.0", "id": 1, "result": 2}                            a response, or one with "error"
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from polylect.wire import jsonl

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id = int | str | float | None
"""The id of a request. The sender chooses it; null is allowed and unwise."""


class Request(Struct, frozen=True):
    """A request of the peer. It gets exactly one response with its `id`."""

    id: Id
    method: str
    params: Any = None


class Notification(Struct, frozen=True):
    """A message of the peer that is never answered."""

    method: str
    params: Any = None


class Error(Struct, frozen=True, omit_defaults=True):
    """Why a request has failed: a `code`, a `message` for people, and `data` of any form."""

    code: int
    message: str
    data: Any = UNSET


class Response(Struct, frozen=True):
    """The answer to a request of ours: a `result`, or an `error`."""

    id: Id
    result: Any = None
    error: Error | None = None


class Invalid(Struct, frozen=True):
    """A line that is none of these.

    Attributes:
        error: The answer to it, with the `id` that could be read.
        may_answer: Whether it has an id and no method, so that the peer may mean it as a response.
    """

    line: bytes
    error: Error
    id: Id = None
    may_answer: bool = False


Incoming = Request | Notification | Response | Invalid


class Envelope(Struct, frozen=True):
    """A message of any kind whose content is still JSON, so that a long one can be decoded in parts, or not at all."""

    jsonrpc: Any = None
    id: Id | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


def read(line: bytes | jsonl.TooLong) -> Incoming:
    """What a line of the peer is."""
    if isinstance(line, jsonl.TooLong):
        return Invalid(line.start, Error(INVALID_REQUEST, f"The line is longer than {line.limit} bytes"))
    try:
        fields = jsonl.parse(line)
    except jsonl.NotAnObject:
        why = "Expected one JSON-RPC object on a line; send the requests of a batch one by one"
        return Invalid(line, Error(INVALID_REQUEST, why))
    except ValueError as error:
        return Invalid(line, Error(PARSE_ERROR, f"Parse error: {error}"))
    method, id = fields.get("method", UNSET), fields.get("id", UNSET)
    if fields.get("jsonrpc") != "2.0":
        return _invalid(line, id, 'The message has no "jsonrpc": "2.0"', method)
    if isinstance(id, bool | dict | list):
        return _invalid(line, UNSET, 'The "id" has to be a string or a number')
    if isinstance(method, str):
        params = fields.get("params")
        return Notification(method, params) if id is UNSET else Request(id, method, params)
    if method is UNSET and id is not UNSET and ("result" in fields or "error" in fields):
        return Response(id, fields.get("result"), read_error(fields["error"]) if fields.get("error") else None)
    return _invalid(line, id, 'The message has no "method" that is a string', method)


def open_envelope(line: bytes) -> Envelope:
    """The fields of a message. Raises ValueError or RecursionError if it is none. Nothing more is checked."""
    return msgspec.json.decode(line, type=Envelope)


def request(id: Id, method: str, params: object) -> bytes:
    """The line of a request."""
    return jsonl.dump(_Request(id=id, method=method, params=params))


def notification(method: str, params: object) -> bytes:
    """The line of a notification."""
    return jsonl.dump(_Notification(method=method, params=params))


def result(id: Id, value: object) -> bytes:
    """The line of the response to a request that has succeeded."""
    return jsonl.dump(_Result(id=id, result=value))


def error(id: Id, error: Error) -> bytes:
    """The line of the response to a request that has failed."""
    return jsonl.dump(_Failure(id=id, error=error))


def _invalid(line: bytes, id: object, why: str, method: object = UNSET) -> Invalid:
    known = id if isinstance(id, int | str | float) and not isinstance(id, bool) else None
    error = Error(INVALID_REQUEST, f"Invalid request: {why}")
    return Invalid(line, error, known, may_answer=known is not None and not isinstance(method, str))


def read_error(fields: object) -> Error:
    """The error of a peer, whatever its form: any code is taken, and a text in the place of the object."""
    if not isinstance(fields, dict):
        return Error(INTERNAL_ERROR, str(fields))
    code, message = fields.get("code"), fields.get("message")
    whole = code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR
    return Error(whole, message if isinstance(message, str) else "", fields.get("data", UNSET))


class _Request(Struct, frozen=True, kw_only=True):
    jsonrpc: str = "2.0"
    id: Id
    method: str
    params: Any


class _Notification(Struct, frozen=True, kw_only=True):
    jsonrpc: str = "2.0"
    method: str
    params: Any


class _Result(Struct, frozen=True, kw_only=True):
    jsonrpc: str = "2.0"
    id: Id
    result: Any


class _Failure(Struct, frozen=True, kw_only=True):
    jsonrpc: str = "2.0"
    id: Id
    error: Error
