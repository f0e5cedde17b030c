"""Headers from arguments: which annotations count, which make a tool unusable, and what is sent.

Requirement 38 of docs/mcp-requirements.md.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles_mcp import Stage, on_stage
from mcp_servers.http_double import Exchange, HttpServer, result
from polylect.mcp.protocol.param_headers import header_paths, param_headers
from polylect.vocab.content import Server

REGION = {"type": "string", "x-mcp-header": "Region"}


def paths(**properties: Any) -> dict[tuple[str, ...], str]:
    return header_paths(msgspec.json.encode({"type": "object", "properties": properties}))


def test_annotations_are_found_through_properties_only() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer", "x-mcp-header": "B-1"}}}
    assert paths(region=REGION, a=inner, c={"type": "string"}) == {("region",): "Region", ("a", "b"): "B-1"}
    assert header_paths(b"{}") == {}
    assert header_paths(b'{"x-mcp-header"') == {}


def test_what_is_data_is_no_annotation() -> None:
    data = {"x-mcp-header": 5}
    assert paths(a={"type": "object", "default": data, "const": data, "enum": [data], "examples": [data]}) == {}


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"a": {"type": "number", "x-mcp-header": "A"}}, "x-mcp-header of a, which is not"),
        ({"a": {"type": ["string"], "x-mcp-header": "A"}}, "x-mcp-header of a, which is not"),
        ({"a": {"x-mcp-header": "A"}}, "x-mcp-header of a, which is not"),
        ({"a": {"type": "string", "x-mcp-header": ""}}, "is not the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": "a b"}}, "is not the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": "a\r\nb"}}, "is not the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": "é"}}, "is not the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": 5}}, "is not the name of a header"),
        ({"a": REGION, "b": {"type": "string", "x-mcp-header": "REGION"}}, "twice"),
        ({"a": {"type": "array", "items": REGION}}, "at a place that no argument has"),
        ({"a": {"anyOf": [REGION]}}, "at a place that no argument has"),
        ({"a": {"if": REGION}}, "at a place that no argument has"),
        ({"a": {"$defs": {"b": REGION}}}, "at a place that no argument has"),
        ({"a": {"items": {"properties": {"b": REGION}}}}, "at a place that no argument has"),
    ],
)
def test_a_wrong_annotation_makes_the_tool_unusable(properties: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        paths(**properties)


def test_an_annotation_of_the_whole_is_wrong() -> None:
    with pytest.raises(ValueError, match="no argument has"):
        header_paths(b'{"type":"string","x-mcp-header":"A"}')


def test_arguments_become_headers_where_they_are_there() -> None:
    names = {("a",): "A", ("b", "c"): "C"}
    assert param_headers(names, {"a": "x y", "b": {"c": True}}) == {"mcp-param-a": "x y", "mcp-param-c": "true"}
    assert param_headers(names, {"a": -7, "b": {"c": False}}) == {"mcp-param-a": "-7", "mcp-param-c": "false"}
    assert param_headers(names, {"a": None, "b": 5}) == {}
    assert param_headers(names, {"a": 2**53, "b": {"c": [1]}}) == {}
    assert param_headers(names, {"b": {"c": 1.5}}) == {}


def test_a_call_over_http_has_them_and_tools_with_wrong_marks_are_left_out(tmp_path: Path) -> None:
    tools = [
        {"name": "query", "inputSchema": {"type": "object", "properties": {"region": REGION}}},
        {"name": "wrong", "inputSchema": {"type": "object", "properties": {"a": {**REGION, "type": "number"}}}},
        {"name": "plain", "inputSchema": {"type": "object"}},
    ]

    async def handler(exchange: Exchange) -> None:
        id = exchange.message.get("id")
        match exchange.message.get("method"):
            case "server/discover":
                await exchange.answer(result(id, supportedVersions=["2026-07-28"], capabilities={"tools": {}}))
            case "tools/list":
                await exchange.answer(result(id, tools=tools, resultType="complete"))
            case "tools/call":
                await exchange.answer(result(id, content=[], resultType="complete"))
            case _:
                error = {"code": -32601, "message": "Method not found"}
                await exchange.answer({"jsonrpc": "2.0", "id": id, "error": error}, status=404)

    async def work(stage: Stage) -> None:
        async with HttpServer(handler) as server:
            stage.servers.add(Server("double", "http", url=f"{server.url}/mcp"))
            assert (await stage.received("double")).tools == ("query", "plain")
            for region in ("us-west1", "Zürich", None):
                await stage.call("query", {"region": region})
            calls = [request for request in server.requests if request.message.get("method") == "tools/call"]
            assert [call.headers.get("mcp-param-region") for call in calls] == [
                "us-west1",
                "=?base64?WsO8cmljaA==?=",
                None,
            ]

    on_stage(tmp_path, work)
