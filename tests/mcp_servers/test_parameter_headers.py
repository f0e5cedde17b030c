"""Requirement 38 of docs/mcp-requirements.md: arguments in headers, as marks in the schema of a tool ask for."""

import json
from pathlib import Path
from typing import Any

import pytest

from doubles_mcp import Stage, on_stage
from mcp_servers.http_double import Exchange, HttpServer, result
from polylect.mcp.protocol.lenient import Malformed
from polylect.mcp.protocol.parameter_headers import marked_parameters, parameter_headers
from polylect.vocab.content import Server

REGION = {"type": "string", "x-mcp-header": "Region"}


def schema(**properties: Any) -> bytes:
    return json.dumps({"type": "object", "properties": properties}).encode()


def test_marked_arguments_are_found_at_their_place() -> None:
    marked = schema(
        region=REGION,
        plain={"type": "string"},
        deep={"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        dry={"type": "boolean", "x-mcp-header": "Dry-Run"},
    )
    paths = marked_parameters(marked)
    assert paths == {"mcp-param-region": ("region",), "mcp-param-n": ("deep", "n"), "mcp-param-dry-run": ("dry",)}
    args = {"region": "ä", "deep": {"n": -7}, "dry": False, "plain": "x"}
    assert parameter_headers(paths, args) == {
        "mcp-param-region": "ä",
        "mcp-param-n": "-7",
        "mcp-param-dry-run": "false",
    }


@pytest.mark.parametrize("args", [{}, {"region": None}, {"region": ["a"]}, {"region": 2**60}, {"region": 1.5}])
def test_an_argument_that_is_missing_or_cannot_be_a_header_has_none(args: dict[str, Any]) -> None:
    assert parameter_headers({"mcp-param-region": ("region",), "mcp-param-x": ("region", "x")}, args) == {}


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {"type": "string", "x-mcp-header": ""}},
        {"a": {"type": "string", "x-mcp-header": "a b"}},
        {"a": {"type": "string", "x-mcp-header": "a\r\nSet-Cookie"}},
        {"a": {"type": "string", "x-mcp-header": "ä"}},
        {"a": {"type": "string", "x-mcp-header": 5}},
        {"a": {"type": "number", "x-mcp-header": "A"}},
        {"a": {"type": "object", "x-mcp-header": "A"}},
        {"a": {"x-mcp-header": "A"}},
        {"a": REGION, "b": {"type": "string", "x-mcp-header": "REGION"}},
        {"a": {"type": "array", "items": REGION}},
        {"a": {"anyOf": [REGION]}},
        {"a": {"type": "object", "additionalProperties": REGION}},
    ],
)
def test_a_wrong_mark_is_refused(properties: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        marked_parameters(schema(**properties))


@pytest.mark.parametrize("rest", [REGION, {"$defs": {"a": REGION}}, {"allOf": [{"properties": {"a": REGION}}]}])
def test_a_mark_that_no_argument_has_is_refused(rest: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        marked_parameters(json.dumps(rest).encode())


@pytest.mark.parametrize("properties", [{}, {"x-mcp-header": {"type": "string"}}, {"a": {"default": REGION}}])
def test_a_schema_without_marks_asks_for_nothing(properties: dict[str, Any]) -> None:
    assert marked_parameters(schema(**properties)) == {}


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
            assert (await stage.heard("double")).tools == ("query", "plain")
            for region in ("us-west1", "Zürich", None):
                await stage.call("query", {"region": region})
            calls = [request for request in server.requests if request.message.get("method") == "tools/call"]
            assert [call.headers.get("mcp-param-region") for call in calls] == [
                "us-west1",
                "=?base64?WsO8cmljaA==?=",
                None,
            ]

    on_stage(tmp_path, work)
