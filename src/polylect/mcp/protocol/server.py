"""The server's end of a connection: reads requests of a client into values, and makes the lines of answers. Pure.

`ServerCodec` speaks every revision that `client.py` speaks. It answers by itself what needs no program behind it: the
handshake, `server/discover`, `ping`, subscriptions, and requests that are unknown, wrong or come too early. Everything
else becomes a value, which the program answers in any order:

    codec.receive(b'{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "add"}}')
    [ClientRequest(3, "tools/call", CallToolRequestParams(name="add"))]
    codec.answer(3, CallToolResult(content=[TextContent(text="5")]))
    codec.lines_to_send()

For servers that a host offers, and for `polylect mcp serve`.
"""

from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct

from polylect.mcp.protocol import frames
from polylect.mcp.protocol.lenient import Malformed, decode_any, read
from polylect.mcp.protocol.revisions import NEWEST_WITH_HANDSHAKE, REVISIONS, Revision, revision
from polylect.wire import jsonrpc
from polylect.wire.jsonl import TooLong
from polylect.wire.jsonrpc import Error, Id

_MOST_SUBSCRIPTIONS = 100
_MOST_LINE = 16 * 1024 * 1024
_LEVELS = get_args(frames.LoggingLevel)
_VERSIONS = [one.version for one in REVISIONS]
_STATELESS = [one.version for one in REVISIONS if not one.handshake]


class ClientRequest(Struct, frozen=True):
    """A request that the program has to answer. With a `progress_token` it may send progress meanwhile."""

    id: Id
    method: str
    params: Any
    progress_token: Id = None


class ClientCancelled(Struct, frozen=True):
    """Nobody waits for the answer to this request any more, and none may be sent."""

    id: Id


class ClientNotification(Struct, frozen=True):
    """Something that the client tells: `notifications/initialized`, `notifications/roots/list_changed`."""

    method: str


class ClientAnswer(Struct, frozen=True):
    """The answer to a request of ours: a `result` as JSON has it, or an `error`."""

    id: Id
    method: str
    result: Any = None
    error: Error | None = None


Incoming = ClientRequest | ClientCancelled | ClientNotification | ClientAnswer

_REQUESTS: dict[str, tuple[str, type[Struct]]] = {
    "tools/list": ("tools", frames.PaginatedRequestParams),
    "tools/call": ("tools", frames.CallToolRequestParams),
    "prompts/list": ("prompts", frames.PaginatedRequestParams),
    "prompts/get": ("prompts", frames.GetPromptRequestParams),
    "resources/list": ("resources", frames.PaginatedRequestParams),
    "resources/templates/list": ("resources", frames.PaginatedRequestParams),
    "resources/read": ("resources", frames.ReadResourceRequestParams),
    "resources/subscribe": ("resources", frames.ResourceRequestParams),
    "resources/unsubscribe": ("resources", frames.ResourceRequestParams),
    "completion/complete": ("completions", frames.CompleteRequestParams),
    "logging/setLevel": ("logging", frames.SetLevelRequestParams),
}
"""For each method: the capability that a server with it has, and the shape of its parameters."""
_OLD_ONLY = ("resources/subscribe", "resources/unsubscribe", "logging/setLevel", "ping")
_CACHEABLE = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")


class ServerCodec:
    """One connection of a server to a client. `revision` is None until the client has named one."""

    def __init__(
        self, info: frames.Implementation, capabilities: frames.ServerCapabilities, instructions: str = ""
    ) -> None:
        self.revision: Revision | None = None
        self.client_info = frames.Implementation()
        self.client_capabilities = frames.ClientCapabilities()
        self._info = info
        self._capabilities = capabilities
        self._instructions = instructions
        self._lines: list[bytes] = []
        self._open: dict[Id, str] = {}
        """Requests of the client without an answer: the method by the id."""
        self._asked: dict[Id, str] = {}
        """Requests of ours without an answer."""
        self._log_levels: dict[Id, int] = {}
        """Of the open requests, those that want log messages (2026-07-28), and from which level on."""
        self._subscriptions: dict[Id, frames.SubscriptionFilter] = {}
        self._last_id = 0

    def lines_to_send(self) -> list[bytes]:
        """The lines for the client, each with its newline, since this was last called."""
        lines, self._lines = self._lines, []
        return lines

    # Lines of the client.

    def receive(self, line: bytes | TooLong) -> list[Incoming]:
        """What a line is. Empty if the codec has answered it, or if it needs no answer. Never raises."""
        if isinstance(line, TooLong) or len(line) > _MOST_LINE:
            self._lines.append(jsonrpc.error(None, Error(jsonrpc.INVALID_REQUEST, "The message is too long")))
            return []
        try:
            envelope = jsonrpc.open_envelope(line)
        except (ValueError, RecursionError):
            self._lines.append(jsonrpc.error(None, Error(jsonrpc.PARSE_ERROR, "Parse error")))
            return []
        if isinstance(envelope.method, str):
            value = self._request(envelope.method, envelope) if envelope.id is not UNSET else self._notified(envelope)
        else:
            value = self._answered(envelope)
        return [value] if value else []

    def _request(self, method: str, envelope: jsonrpc.Envelope) -> Incoming | None:
        id: Any = envelope.id
        try:
            if id is None or id in self._open:
                raise _Refused(jsonrpc.INVALID_REQUEST, "The id is null, or in use")
            meta = read(_object(envelope.params), frames.RequestParams).meta or {}
            if frames.PROTOCOL_VERSION in meta:
                self._apply_meta(meta)
            elif self.revision and not self.revision.handshake:
                raise _Refused(jsonrpc.INVALID_PARAMS, f"Invalid params: _meta has no {frames.PROTOCOL_VERSION}")
            return self._handled(id, method, _object(envelope.params), meta)
        except _Refused as refused:
            self._lines.append(jsonrpc.error(id, refused.error))
        except Malformed as error:
            self._lines.append(jsonrpc.error(id, Error(jsonrpc.INVALID_PARAMS, f"Invalid params: {error}")))
        return None

    def _handled(self, id: Id, method: str, params: Raw, meta: dict[str, Any]) -> ClientRequest | None:
        stateless = self.revision is not None and not self.revision.handshake
        match method:
            case "initialize" if not stateless:
                self._initialize(id, read(params, frames.InitializeRequestParams))
            case "ping" if not stateless:
                self._lines.append(jsonrpc.result(id, {}))
            case "server/discover" if stateless:
                self._discover(id)
            case "subscriptions/listen" if stateless:
                self._listen(id, read(params, frames.SubscriptionsListenRequestParams))
            case _ if self.revision is None:
                raise _Refused(jsonrpc.INVALID_REQUEST, "The first request has to be initialize")
            case _:
                capability, shape = _REQUESTS.get(method, ("", frames.EmptyResult))
                if getattr(self._capabilities, capability, None) is None or (stateless and method in _OLD_ONLY):
                    raise _Refused(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {method[:100]}")
                token = meta.get("progressToken")
                request = ClientRequest(
                    id, method, read(params, shape), token if isinstance(token, int | str) else None
                )
                if stateless and frames.LOG_LEVEL in meta:
                    self._log_levels[id] = _level(meta[frames.LOG_LEVEL])
                self._open[id] = method
                return request
        return None

    def _apply_meta(self, meta: dict[str, Any]) -> None:
        """Apply what a request without a handshake tells of its client. Raises _Refused."""
        version = meta[frames.PROTOCOL_VERSION]
        if version not in _STATELESS:
            data = {"supported": _VERSIONS, "requested": version}
            raise _Refused(frames.UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)
        self.revision = revision(version)
        self.client_info = read(msgspec.json.encode(meta.get(frames.CLIENT_INFO, {})), frames.Implementation)
        declared = msgspec.json.encode(meta.get(frames.CLIENT_CAPABILITIES, {}))
        self.client_capabilities = read(declared, frames.ClientCapabilities)

    def _initialize(self, id: Id, params: frames.InitializeRequestParams) -> None:
        """Agree on the version of the client if we speak it; else name our newest, and the client decides."""
        requested = revision(params.protocol_version)
        self.revision = requested if requested and requested.handshake else NEWEST_WITH_HANDSHAKE
        self.client_info, self.client_capabilities = params.client_info, params.capabilities
        result = frames.InitializeResult(
            protocol_version=self.revision.version,
            capabilities=self._capabilities,
            server_info=self._info,
            instructions=self._instructions or None,
        )
        self._lines.append(jsonrpc.result(id, result))

    def _discover(self, id: Id) -> None:
        result = frames.DiscoverResult(
            supported_versions=_VERSIONS,
            capabilities=self._capabilities,
            instructions=self._instructions or None,
            meta={frames.SERVER_INFO: self._info},
            result_type="complete",
            ttl_ms=0,
            cache_scope="private",
        )
        self._lines.append(jsonrpc.result(id, result))

    def _listen(self, id: Id, params: frames.SubscriptionsListenRequestParams) -> None:
        if len(self._subscriptions) >= _MOST_SUBSCRIPTIONS:
            raise _Refused(jsonrpc.INTERNAL_ERROR, "Too many subscriptions")
        self._subscriptions[id] = params.notifications
        acknowledged = frames.SubscriptionsAcknowledgedNotificationParams(
            notifications=params.notifications, meta={frames.SUBSCRIPTION_ID: id}
        )
        self._lines.append(jsonrpc.notification("notifications/subscriptions/acknowledged", acknowledged))

    def _notified(self, envelope: jsonrpc.Envelope) -> Incoming | None:
        if envelope.method != "notifications/cancelled":
            return ClientNotification(str(envelope.method))
        try:
            id = read(_object(envelope.params), frames.CancelledNotificationParams).request_id
        except Malformed:
            return None
        self._subscriptions.pop(id, None)
        return ClientCancelled(id) if self._close(id) else None

    def _answered(self, envelope: jsonrpc.Envelope) -> ClientAnswer | None:
        id: Any = envelope.id
        method = self._asked.pop(id, None)
        if method is None:
            return None
        try:
            if envelope.error != Raw():
                return ClientAnswer(id, method, error=jsonrpc.read_error(decode_any(envelope.error)))
            return ClientAnswer(id, method, decode_any(envelope.result))
        except Malformed as error:
            return ClientAnswer(id, method, error=Error(jsonrpc.PARSE_ERROR, str(error)))

    # Lines for the client.

    def answer(self, id: Id, result: Struct | dict[str, Any]) -> None:
        """Answer a request. A request that was cancelled, or answered before, gets nothing."""
        method = self._close(id)
        if method is None:
            return
        fields = result if isinstance(result, dict) else msgspec.to_builtins(result)
        if self.revision and not self.revision.handshake:
            fields = {"resultType": "complete", **fields}
            fields["_meta"] = {frames.SERVER_INFO: self._info, **(fields.get("_meta") or {})}
            if method in _CACHEABLE:
                fields = {"ttlMs": 0, "cacheScope": "private", **fields}
        self._lines.append(jsonrpc.result(id, fields))

    def refuse(self, id: Id, error: Error) -> None:
        """Answer a request with an error."""
        if self._close(id):
            self._lines.append(jsonrpc.error(id, error))

    def _close(self, id: Id) -> str | None:
        """The method of a request that is open no more; None if it was not."""
        self._log_levels.pop(id, None)
        return self._open.pop(id, None)

    def require_input(self, id: Id, requests: dict[str, Any], state: str = "") -> None:
        """Answer a request of 2026-07-28 with what is needed first: requests by keys of ours, and a state to return."""
        fields = {"resultType": "input_required", "inputRequests": requests}
        self.answer(id, {**fields, **({"requestState": state} if state else {})})

    def request(self, method: str, params: dict[str, Any]) -> Id:
        """Request something of the client: roots, sampling, elicitation. Only where the revision has a handshake."""
        if self.revision is None or not self.revision.handshake:
            raise ValueError("in this revision a server makes no requests; see require_input")
        self._last_id += 1
        self._asked[self._last_id] = method
        self._lines.append(jsonrpc.request(self._last_id, method, params))
        return self._last_id

    def progress(self, token: Id, progress: float, total: float | None = None, message: str | None = None) -> None:
        params = frames.ProgressNotificationParams(
            progress_token=token, progress=progress, total=total, message=message
        )
        self._lines.append(jsonrpc.notification("notifications/progress", params))

    def log(self, level: frames.LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message. Clients of 2026-07-28 get it only if an open request of theirs wants that level."""
        if (
            self.revision
            and not self.revision.handshake
            and not any(wanted <= _level(level) for wanted in self._log_levels.values())
        ):
            return
        params = {"level": level, **({"logger": logger} if logger else {}), "data": data}
        self._lines.append(jsonrpc.notification("notifications/message", params))

    def list_changed(self, kind: str) -> None:
        """Tell that the "tools", "prompts" or "resources" have changed: everybody, or those who listen for it."""
        self._notify(f"notifications/{kind}/list_changed", {}, lambda one: getattr(one, f"{kind}_list_changed"))

    def resource_updated(self, uri: str) -> None:
        self._notify(
            "notifications/resources/updated", {"uri": uri}, lambda one: uri in (one.resource_subscriptions or ())
        )

    def _notify(self, method: str, params: dict[str, Any], wants: Any) -> None:
        if self.revision and self.revision.handshake:
            self._lines.append(jsonrpc.notification(method, params))
        for id, subscription in self._subscriptions.items():
            if wants(subscription):
                meta = {"_meta": {frames.SUBSCRIPTION_ID: id}}
                self._lines.append(jsonrpc.notification(method, {**params, **meta}))

    def end_subscriptions(self) -> None:
        """Answer every `subscriptions/listen`: the server is about to end."""
        for id in self._subscriptions:
            result = {"resultType": "complete", "_meta": {frames.SUBSCRIPTION_ID: id}}
            self._lines.append(jsonrpc.result(id, result))
        self._subscriptions.clear()


class _Refused(Exception):
    """A request that the codec answers with an error."""

    def __init__(self, code: int, text: str, data: Any = UNSET) -> None:
        super().__init__(text)
        self.error = Error(code, text, data)


def _level(name: Any) -> int:
    if name not in _LEVELS:
        raise _Refused(jsonrpc.INVALID_PARAMS, "Invalid params: there is no such level of logging")
    return _LEVELS.index(name)


def _object(params: Raw) -> Raw:
    return Raw(b"{}") if params in (Raw(), Raw(b"null")) else params
