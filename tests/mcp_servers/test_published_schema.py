"""The check that all tests of this folder rest on refuses what the published schemas do not have."""

from typing import Any

import pytest
from jsonschema import ValidationError

from mcp_servers.published_schema import REVISIONS, VERSION, Side, Wire, check, names_of

META = {VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("side", "message"),
    [
        ("client", request("tools/call", name="echo", colour="red")),
        ("client", request("tools/call")),
        ("client", request("tools/paint")),
        ("client", request("sampling/createMessage", messages=[], maxTokens=1)),
        ("server", request("tools/list")),
        ("client", {"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}),
        ("client", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "extra": 1}),
        ("client", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}),
        ("client", {"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "y"}}),
        ("client", {"jsonrpc": "2.0", "id": 1, "result": {}}),
    ],
)
def test_a_message_that_is_not_as_published_is_refused(side: Side, message: dict[str, Any], revision: str) -> None:
    if "params" in message and side == "client" and revision == "2026-07-28" and "id" in message:
        message = {**message, "params": {**message["params"], "_meta": META}}
    with pytest.raises((ValidationError, AssertionError)):
        check(message, side, revision)


def test_a_request_of_the_newest_revision_names_its_revision() -> None:
    check({**request("tools/list", _meta=META)}, "client", "2026-07-28")
    with pytest.raises(ValidationError):
        check(request("tools/list"), "client", "2026-07-28")


def test_an_answer_is_held_against_the_shape_of_its_method() -> None:
    wire = Wire()
    wire.note({"jsonrpc": "2.0", "id": 7, "method": "roots/list"}, "server")
    wire.check({"jsonrpc": "2.0", "id": 7, "result": {"roots": [{"uri": "file:///a"}]}}, "client")
    with pytest.raises(ValidationError):
        wire.check({"jsonrpc": "2.0", "id": 7, "result": {"action": "accept"}}, "client")


def test_the_revision_is_the_one_that_the_server_answers_with() -> None:
    wire = Wire()
    info = {"name": "a", "version": "1"}
    wire.check(request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info), "client")
    wire.check(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info},
        },
        "server",
    )
    assert wire.revision == "2025-06-18"
    assert wire.methods == {"client": ["initialize"], "server": []}


def test_the_unions_of_the_schema_are_known() -> None:
    assert "ToolListChangedNotification" in names_of("ServerNotification", "2026-07-28")
