"""The client's end of a connection: makes the lines of requests, and reads the lines of the server into values. Pure.

`ClientCodec` numbers the requests and remembers which method waits for an answer, because the shape of an answer
depends on it. It says what the handshake is made of; `mcp/connection.py` runs it. A line of the server becomes values:

    {"id": 3, "result": {"content": []}}                      Answer(3, "tools/call", CallToolResult(...))
    {"id": 3, "error": {"code": -32602, "message": "no"}}     Refusal(3, "tools/call", Error(-32602, "no"))
    {"id": "a", "method": "roots/list"}                       ServerRequest("a", "roots/list", None)
    {"method": "notifications/message", "params": {...}}      ServerNotification(...)
    Listening on port 3000                                    NoMessage(b"Listening ...", "no JSON-RPC message")

An answer that does not follow the protocol is a Refusal with PARSE_ERROR, so that nobody waits for another one.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from polylect.mcp.protocol import frames
from polylect.mcp.protocol.lenient import Malformed, decode, mended, read, read_entries
from polylect.mcp.protocol.revisions import NEWEST, NEWEST_WITH_HANDSHAKE, Revision, newest_of, revision
from polylect.mcp.transports.base import Outgoing
from polylect.wire import jsonrpc
from polylect.wire.jsonl import TooLong
from polylect.wire.jsonrpc import Error, Id

MOST_UNEXPECTED = 1024 * 1024
"""Bytes of a message that is not the result of a request: a notification, a request, an error."""
_MOST_IN_BATCH = 1000
_MOST_PAGES = 5
"""Pages to open that one error may require."""
_ANSWER = re.compile(rb'\{[^{}\[\]]*?"id"\s*:\s*"?(\d{1,15})"?\s*,\s*"(?:result|error)"')
"""The start of an answer that cannot be read as a whole."""
_LIST_CHANGED = {f"notifications/{kind}/list_changed": kind for kind in ("tools", "prompts", "resources")}


class Answer(Struct, frozen=True):
    """The result of a request of ours, in the shape that its method has."""

    id: Id
    method: str
    result: Any


class Refusal(Struct, frozen=True):
    """A request of ours that failed at the server, or whose answer cannot be read."""

    id: Id
    method: str
    error: Error


class ServerRequest(Struct, frozen=True):
    """A request of the server, which has to be answered. `params` has the shape of its method."""

    id: Id
    method: str
    params: Any = None


class WrongRequest(Struct, frozen=True):
    """A request of the server that we do not know or cannot read. `error` is the answer to it."""

    id: Id
    error: Error


class ServerNotification(Struct, frozen=True):
    """Something that the server tells. `params` has the shape of its method."""

    method: str
    params: Any = None


class ListChanged(Struct, frozen=True):
    """A list of the server's has changed: "tools", "prompts" or "resources"."""

    kind: str


class StrayAnswer(Struct, frozen=True):
    """An answer to a request that nobody waits for."""

    id: Id


class NoMessage(Struct, frozen=True):
    """A line that is no message."""

    line: bytes
    why: str


Incoming = Answer | Refusal | ServerRequest | WrongRequest | ServerNotification | ListChanged | StrayAnswer | NoMessage


def _shape(shape: type[Struct]) -> Callable[[Raw], Any]:
    return lambda data: read(data, shape)


def _page(key: str, shape: type[Struct]) -> Callable[[Raw], Any]:
    return lambda data: frames.read_page(data, key, shape)


_RESULTS: dict[str, Callable[[Raw], Any]] = {
    "initialize": _shape(frames.InitializeResult),
    "server/discover": _shape(frames.DiscoverResult),
    "tools/list": frames.read_tools_page,
    "tools/call": frames.read_call_result,
    "prompts/list": _page("prompts", frames.Prompt),
    "prompts/get": frames.read_prompt_result,
    "resources/list": _page("resources", frames.Resource),
    "resources/templates/list": _page("resourceTemplates", frames.ResourceTemplate),
    "resources/read": frames.read_resource_result,
    "completion/complete": _shape(frames.CompleteResult),
}
"""How results are read. Those of other methods say only that it worked."""

_REQUESTS: dict[str, Callable[[Raw], Any] | None] = {
    "ping": None,
    "roots/list": None,
    "elicitation/create": _shape(frames.ElicitRequestParams),
    "sampling/createMessage": _shape(frames.CreateMessageRequestParams),
}
_NOTIFICATIONS: dict[str, type[Struct]] = {
    "notifications/cancelled": frames.CancelledNotificationParams,
    "notifications/progress": frames.ProgressNotificationParams,
    "notifications/message": frames.LoggingMessageNotificationParams,
    "notifications/resources/updated": frames.ResourceUpdatedNotificationParams,
    "notifications/elicitation/complete": frames.ElicitationCompleteNotificationParams,
    "notifications/subscriptions/acknowledged": frames.SubscriptionsAcknowledgedNotificationParams,
}


class ClientCodec:
    """One connection. `revision` is the one that both ends speak, once the handshake is done."""

    def __init__(self, info: frames.Implementation, capabilities: frames.ClientCapabilities) -> None:
        self.revision: Revision = NEWEST_WITH_HANDSHAKE
        self.server_info = frames.Implementation()
        self.server_capabilities = frames.ServerCapabilities()
        self.instructions = ""
        self._info = info
        self._capabilities = capabilities
        self._pending: dict[Id, str] = {}
        """The requests without an answer: the method by the id."""
        self._last_id = 0
        self._log_level: str | None = None

    # The handshake.

    def initialize(self) -> Outgoing:
        params = frames.InitializeRequestParams(
            protocol_version=NEWEST_WITH_HANDSHAKE.version, capabilities=self._capabilities, client_info=self._info
        )
        return self.request("initialize", msgspec.to_builtins(params))

    def initialized(self, result: frames.InitializeResult) -> Outgoing:
        """Apply the answer to `initialize`, and make the notification that ends the handshake. Raises Malformed."""
        chosen = revision(result.protocol_version)
        if chosen is None or not chosen.handshake:
            raise Malformed(f"the server speaks version {result.protocol_version[:40]!r}, which is not supported")
        self.revision = chosen
        self._apply(result.server_info, result)
        return self.notification("notifications/initialized", {})

    def discover(self) -> Outgoing:
        """The first request to a server that has no handshake."""
        self.revision = NEWEST
        return self.request("server/discover", {})

    def discovered(self, result: frames.DiscoverResult) -> None:
        """Apply the answer to `server/discover`. Raises Malformed."""
        chosen = newest_of(result.supported_versions, handshake=False)
        if chosen is None:
            offered = ", ".join(result.supported_versions)[:80]
            raise Malformed(f"the server speaks only versions that are not supported: {offered}")
        self.revision = chosen
        self._apply(result.server_info, result)

    def _apply(self, info: frames.Implementation, result: frames.InitializeResult | frames.DiscoverResult) -> None:
        self.server_info = info
        self.server_capabilities = result.capabilities
        self.instructions = result.instructions or ""

    # Lines for the server.

    def request(self, method: str, params: dict[str, Any], *, name: str = "", progress: bool = False) -> Outgoing:
        """A request with an id of its own. With `progress` the server may send notifications with that id as token."""
        self._last_id += 1
        id = self._last_id
        self._pending[id] = method
        meta: dict[str, Any] = {"progressToken": id} if progress else {}
        if not self.revision.handshake:
            meta |= {
                frames.PROTOCOL_VERSION: self.revision.version,
                frames.CLIENT_INFO: self._info,
                frames.CLIENT_CAPABILITIES: self._capabilities,
            }
            if self._log_level:
                meta[frames.LOG_LEVEL] = self._log_level
        if meta:
            params = {**params, "_meta": meta}
        return Outgoing(jsonrpc.request(id, method, params)[:-1], id, method, name)

    def notification(self, method: str, params: dict[str, Any]) -> Outgoing:
        return Outgoing(jsonrpc.notification(method, params)[:-1], None, method)

    def cancel(self, id: Id, reason: str = "") -> Outgoing | None:
        """Nobody waits for this request any more. None if it has been answered, or must not be cancelled."""
        method = self._pending.pop(id, None)
        if method is None or method == "initialize":
            return None
        params = {"requestId": id, **({"reason": reason} if reason else {})}
        return self.notification("notifications/cancelled", params)

    def answer(self, id: Id, result: object) -> Outgoing:
        return Outgoing(jsonrpc.result(id, result)[:-1])

    def refuse(self, id: Id, error: Error) -> Outgoing:
        return Outgoing(jsonrpc.error(id, error)[:-1])

    def set_log_level(self, level: str) -> Outgoing | None:
        """The request for log messages of this level and above. None where each request asks for them (2026-07-28)."""
        self._log_level = level
        return self.request("logging/setLevel", {"level": level}) if self.revision.handshake else None

    # Lines of the server.

    def receive(self, line: bytes | TooLong) -> list[Incoming]:
        """What a line is: one value, or one for each message of a batch. Never raises."""
        if isinstance(line, TooLong):
            return [self._unreadable(line.start, f"longer than {line.limit} bytes")]
        if line.startswith(b"[") and (batch := _batch(line)):
            return [self._message(bytes(message)) for message in batch]
        return [self._message(line)]

    def fail(self, id: Id) -> None:
        """The transport has given this request up: no answer will come."""
        self._pending.pop(id, None)

    def _message(self, line: bytes) -> Incoming:
        try:
            envelope = _opened(line)
        except (ValueError, RecursionError):
            return self._unreadable(line, "no JSON-RPC message" if len(line) <= MOST_UNEXPECTED else "too long")
        if isinstance(envelope.method, str):
            return self._from_server(envelope.method, envelope, line)
        if envelope.id is UNSET:
            return NoMessage(line, "no JSON-RPC message")
        id = _own_id(envelope.id)
        if id not in self._pending and not (_size(envelope.result) or _size(envelope.error)):
            return NoMessage(line, "no JSON-RPC message")
        return self._answer(id, envelope)

    def _unreadable(self, line: bytes, why: str) -> Incoming:
        """A line that cannot be read. If it begins like an answer to a request of ours, that request has failed."""
        start = _ANSWER.match(line[:300])
        id = int(start[1]) if start else None
        method = self._pending.pop(id, None)
        if method is None:
            return NoMessage(line, why)
        return Refusal(
            id, method, Error(jsonrpc.PARSE_ERROR, f"the server's answer does not follow the protocol: {why}")
        )

    def _answer(self, id: Id, envelope: jsonrpc.Envelope) -> Incoming:
        method = self._pending.pop(id, None)
        if method is None:
            return StrayAnswer(id)
        try:
            if _size(envelope.error) and envelope.error != Raw(b"null"):
                return Refusal(id, method, _read_error(envelope.error))
            return Answer(id, method, _RESULTS.get(method, _shape(frames.EmptyResult))(envelope.result))
        except Malformed as error:
            why = f"the server's answer does not follow the protocol: {error}"
            return Refusal(id, method, Error(jsonrpc.PARSE_ERROR, why))

    def _from_server(self, method: str, envelope: jsonrpc.Envelope, line: bytes) -> Incoming:
        if envelope.jsonrpc != "2.0":
            return NoMessage(line, "no JSON-RPC message")
        if envelope.id is UNSET:
            return _notification(method, envelope.params, line)
        if not self.revision.handshake:
            return NoMessage(line, f"a request, which servers of {self.revision.version} must not make")
        if method not in _REQUESTS:
            return WrongRequest(envelope.id, Error(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {method[:100]}"))
        reader = _REQUESTS[method]
        try:
            if len(line) > MOST_UNEXPECTED:
                raise Malformed(f"a request of {len(line)} bytes is too long")
            return ServerRequest(envelope.id, method, reader(_params(envelope.params)) if reader else None)
        except Malformed as error:
            return WrongRequest(envelope.id, Error(jsonrpc.INVALID_PARAMS, f"Invalid params: {error}"))


def read_input_request(data: Raw) -> ServerRequest:
    """A request inside an `input_required` result. Raises Malformed."""
    envelope = decode(data, jsonrpc.Envelope)
    method = str(envelope.method)
    if method not in _REQUESTS or method == "ping":
        raise Malformed(f"the server requires {method[:40]!r}, which is not supported")
    reader = _REQUESTS[method]
    return ServerRequest(None, method, reader(_params(envelope.params)) if reader else None)


def required_pages(error: Error) -> list[frames.ElicitRequestParams]:
    """The pages that a person has to open before a request can be done; none for other errors."""
    data = error.data if error.code == frames.URL_ELICITATION_REQUIRED and isinstance(error.data, dict) else {}
    try:
        listed = msgspec.json.encode(data.get("elicitations", []))
        rows = read_entries(listed, _shape(frames.ElicitRequestParams), _MOST_PAGES).items
    except Malformed:
        return []
    return [row for row in rows if row.mode == "url" and row.url]


def _opened(line: bytes) -> jsonrpc.Envelope:
    try:
        return jsonrpc.open_envelope(line)
    except msgspec.ValidationError:
        raise
    except ValueError:
        if not line.startswith(b"{"):
            raise
        return jsonrpc.open_envelope(mended(line))


def _batch(line: bytes) -> list[Raw]:
    """The messages of a batch; empty if the array holds anything else."""
    try:
        messages = decode(line, list[Raw])[:_MOST_IN_BATCH]
    except Malformed:
        return []
    return messages if all(bytes(message).startswith(b"{") for message in messages) else []


def _size(data: Raw) -> int:
    return memoryview(data).nbytes


def _params(params: Raw) -> Raw:
    """Parameters that are missing, or null, are none."""
    return Raw(b"{}") if bytes(params) in (b"", b"null") else params


def _own_id(id: Any) -> Id:
    """Our ids are whole numbers. Some servers answer with the same digits as a string."""
    return int(id) if isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 16 else id


def _read_error(data: Raw) -> Error:
    if _size(data) > MOST_UNEXPECTED:
        raise Malformed(f"an error of {_size(data)} bytes is too long")
    error = jsonrpc.read_error(msgspec.json.decode(data))
    return error if error.message else Error(error.code, f"the server reports error {error.code}", error.data)


def _notification(method: str, params: Raw, line: bytes) -> Incoming:
    if kind := _LIST_CHANGED.get(method):
        return ListChanged(kind)
    if len(line) > MOST_UNEXPECTED:
        return NoMessage(line, "too long")
    shape = _NOTIFICATIONS.get(method)
    if shape is None:
        return ServerNotification(method)
    try:
        return ServerNotification(method, read(_params(params), shape))
    except Malformed:
        return NoMessage(line, f"wrong {method}")
