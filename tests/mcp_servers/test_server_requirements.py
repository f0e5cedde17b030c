"""What docs/mcp-requirements.md says of the server's end: every line it writes is held against the closed schemas."""

import json
from typing import Any

import pytest

from mcp_servers.published_schema import REVISIONS, VERSION, Wire, definitions
from mcp_servers.schema_instances import largest
from polylect.mcp.protocol import frames
from polylect.mcp.protocol.server import ClientAnswer, ClientCancelled, ClientRequest, ServerCodec
from polylect.wire.jsonrpc import Error

INFO = {"name": "client", "version": "1"}
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META = {VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 7}
OFFERS = frames.ServerCapabilities(
    tools=frames.ListCapability(list_changed=True),
    prompts=frames.ListCapability(list_changed=True),
    resources=frames.ListCapability(list_changed=True, subscribe=True),
    logging={},
    completions={},
)
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


class Client:
    """The other end: sends messages, and checks every line that the codec writes."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.codec = ServerCodec(frames.Implementation(name="ours", version="1"), OFFERS, "Be kind.")
        self.wire = Wire()
        self._last_id = 0
        if version < "2026":
            params = {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}
            self.handshake = self.answers("initialize", params)[0]
            self.codec.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def sends(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> list[Any]:
        """Send a request. Returns what the codec makes of it."""
        self._last_id += 1
        params = params or {}
        if self.version >= "2026":
            params = {"_meta": {**META, **meta}, **params}
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self.wire.note(message, "client")
        return list(self.codec.receive(json.dumps(message).encode()))

    def lines(self) -> list[dict[str, Any]]:
        messages = [json.loads(line) for line in self.codec.lines_to_send()]
        for message in messages:
            if self.version >= "2026":
                self.wire.revision = self.version
            self.wire.check(message, "server")
        return messages

    def answers(self, method: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Send a request that the codec answers itself."""
        assert self.sends(method, params) == []
        return self.lines()


def error(line: bytes) -> tuple[Any, int]:
    codec = ServerCodec(frames.Implementation(name="ours"), OFFERS)
    assert codec.receive(line) == []
    [answer] = codec.lines_to_send()
    message = json.loads(answer)
    return message["id"], message["error"]["code"]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_client_gets_the_version_that_it_asks_for(version: str) -> None:
    """Requirement 66."""
    client = Client(version)
    result = client.handshake["result"]
    assert (result["protocolVersion"], result["instructions"]) == (version, "Be kind.")
    assert result["serverInfo"] == {"name": "ours", "version": "1"}
    assert client.answers("ping")[0]["result"] == {}


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "2099-01-01", ""])
def test_a_client_with_an_unknown_version_gets_the_newest_with_a_handshake(version: str) -> None:
    """Requirement 66."""
    codec = ServerCodec(frames.Implementation(name="ours"), OFFERS)
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}
    codec.receive(json.dumps({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params}).encode())
    [line] = codec.lines_to_send()
    assert json.loads(line)["id"] == "a"
    assert json.loads(line)["result"]["protocolVersion"] == "2025-11-25"


def test_lines_that_are_no_requests_get_an_error() -> None:
    """Requirements 6, 7 and 67."""
    assert error(b"{") == (None, -32700)
    assert error(b'{"jsonrpc":"2.0","id":null,"method":"ping"}')[1] == -32600
    assert error(b'{"jsonrpc":"2.0","id":"x","method":"tools/list"}') == ("x", -32600)
    client = Client("2025-11-25")
    for method, params, code in (
        ("tools/explode", {}, -32601),
        ("subscriptions/listen", {"notifications": {}}, -32601),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": 5}, -32602),
        ("resources/read", {"uri": None}, -32602),
    ):
        assert client.answers(method, params)[0]["error"]["code"] == code, method


def test_notifications_are_never_answered() -> None:
    """Requirement 5."""
    client = Client("2025-11-25")
    for method in (
        "notifications/unknown",
        "notifications/cancelled",
        "notifications/roots/list_changed",
        "tools/list",
    ):
        client.codec.receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": {"requestId": 99}}).encode())
    assert client.lines() == []


def test_a_client_without_the_handshake_is_told_of_all_versions() -> None:
    """Requirement 68."""
    client = Client("2026-07-28")
    [answer] = client.answers("server/discover")
    assert {*HANDSHAKE, "2026-07-28"} >= set(answer["result"]["supportedVersions"]) >= {"2026-07-28"}
    unknown = {**META, VERSION: "2099-01-01"}
    line = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": unknown}}
    codec = ServerCodec(frames.Implementation(name="ours"), OFFERS)
    assert codec.receive(json.dumps(line).encode()) == []
    refused = json.loads(codec.lines_to_send()[0])["error"]
    assert (refused["code"], refused["data"]["requested"]) == (-32022, "2099-01-01")
    assert "2026-07-28" in refused["data"]["supported"]
    for params in ({"_meta": {}}, {"_meta": {**META, LOG_LEVEL: "loud"}}):
        assert client.answers("tools/list", params)[0]["error"]["code"] == -32602


RESULTS = {
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "completion/complete": "CompleteResult",
}


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize("method", RESULTS)
def test_results_are_as_the_revision_has_them(method: str, version: str) -> None:
    """Requirements 69 and 70: with every field of the request, and of the result."""
    client = Client(version)
    name = RESULTS[method].removesuffix("Result") + "Request"
    params = largest(name, version)["params"]
    params.pop("_meta", None)
    params.pop("task", None)
    [request] = client.sends(method, params)
    assert isinstance(request, ClientRequest)
    result = largest(RESULTS[method], version)
    for key in ("resultType", "ttlMs", "cacheScope", "_meta"):
        result.pop(key, None)
    client.codec.answer(request.id, result)
    [message] = client.lines()
    assert ("resultType" in message["result"]) is (version >= "2026")
    client.codec.answer(request.id, result)
    assert client.lines() == []


@pytest.mark.parametrize("version", REVISIONS)
def test_what_a_server_sends_by_itself_is_as_the_revision_has_it(version: str) -> None:
    """Requirement 70."""
    client = Client(version)
    if version >= "2026":
        notifications = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["a:b"]}
        client.answers("subscriptions/listen", {"notifications": notifications})
    [request] = client.sends("tools/call", {"name": "add"}, **{LOG_LEVEL: "info"})
    client.codec.progress(7, 0)
    client.codec.progress("seven", 0.5, 1, "half")
    client.codec.log("info", {"rows": 5}, "db")
    client.codec.log("emergency", "fire")
    if version >= "2026":
        client.codec.log("debug", "nobody wants it")
    for kind in ("tools", "prompts", "resources"):
        client.codec.list_changed(kind)
    client.codec.resource_updated("a:b")
    methods = [message["method"] for message in client.lines()]
    assert methods.count("notifications/progress") == methods.count("notifications/message") == 2
    assert ("notifications/resources/list_changed" in methods) is (version < "2026")
    client.codec.refuse(request.id, Error(-32603, "no"))
    assert client.lines()[0]["error"]["code"] == -32603
    if version >= "2026":
        client.codec.log("emergency", "nobody waits for it")
        assert client.lines() == []


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("name", ["CreateMessageRequest", "ElicitRequest", "ListRootsRequest"])
def test_requests_of_a_server_are_as_the_revision_has_them(name: str, version: str) -> None:
    """Requirements 7 and 70."""
    client = Client(version)
    definition = definitions(version)[name]["properties"]
    params = {} if name == "ListRootsRequest" else largest(name, version)["params"]
    params.pop("task", None)
    id = client.codec.request(definition["method"]["const"], params)
    [message] = client.lines()
    assert message["id"] == id
    answer = {"jsonrpc": "2.0", "id": id, "result": {"roots": []}}
    [heard] = client.codec.receive(json.dumps(answer).encode())
    assert isinstance(heard, ClientAnswer)
    assert heard.result == {"roots": []}
    assert client.codec.receive(json.dumps(answer).encode()) == []


def test_what_is_required_of_a_client_is_in_the_result() -> None:
    """Requirements 21 and 70."""
    client = Client("2026-07-28")
    with pytest.raises(ValueError, match="require_input"):
        client.codec.request("roots/list", {})
    [request] = client.sends("tools/call", {"name": "add"})
    client.codec.require_input(request.id, {"where": {"method": "roots/list"}}, "state")
    [message] = client.lines()
    assert message["result"]["requestState"] == "state"


def test_a_cancelled_request_is_not_answered() -> None:
    """Requirement 51."""
    client = Client("2025-11-25")
    [request] = client.sends("tools/call", {"name": "add"})
    line = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request.id}}
    assert client.codec.receive(json.dumps(line).encode()) == [ClientCancelled(request.id)]
    client.codec.answer(request.id, {"content": []})
    client.codec.refuse(request.id, Error(1, "no"))
    assert client.lines() == []
