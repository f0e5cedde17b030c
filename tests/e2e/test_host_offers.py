"""What a host can do for the engine, through the real process: a server and a hook inside it, and a form to fill in."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine_process import Engine, Frame, Place

SCRIPT = """
[[reply]]
when = { step = 1 }
say = [{ call = "mcp__calc__add", args = { a = 1, b = 2 } }]
[[reply]]
say = ["done"]
"""
STREAMS = ("--output-format", "stream-json", "--input-format", "stream-json", "--verbose")
CALC = '{"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}}'
TOOL = {"name": "add", "description": "Adds.", "inputSchema": {"type": "object", "properties": {}}}
INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "calc", "version": "1"},
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def started(place: Place, *flags: str) -> Engine:
    path = place.folder / "script.toml"
    path.write_text(SCRIPT)
    env = {**place.env, "POLYLECT_PROVIDER": "scripted", "POLYLECT_SCRIPT": str(path)}
    engine = Engine([sys.executable, "-m", "polylect", *STREAMS, *flags], place.workspace, env)
    place.keep(engine)
    return engine


def served(message: Frame) -> Frame:
    """What the server inside the host says to a message."""
    if "id" not in message:
        return {"jsonrpc": "2.0", "result": {}}
    results: dict[str, Any] = {
        "initialize": INITIALIZED,
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "3"}]},
    }
    if message["method"] not in results:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}


def until(engine: Engine, kind: str) -> list[Frame]:
    """Frames up to this kind; the host does what it is asked meanwhile."""
    frames: list[Frame] = []
    while not frames or frames[-1]["type"] != kind:
        frames.append(frame := engine.frame())
        if frame["type"] == "control_request":
            request = frame["request"]
            mcp = request["subtype"] == "mcp_message"
            answer = {"mcp_response": served(request["message"])} if mcp else {}
            result = {"subtype": "success", "request_id": frame["request_id"], "response": answer}
            engine.send({"type": "control_response", "response": result})
    return frames


def test_a_server_and_a_hook_inside_the_host_are_used(place: Place) -> None:
    engine = started(place, "--mcp-config", CALC, "--permission-mode", "bypassPermissions")
    hooks = {"PreToolUse": [{"matcher": "mcp__.*", "hookCallbackIds": ["hook_0"]}]}
    request = {"subtype": "initialize", "hooks": hooks}
    engine.send({"type": "control_request", "request_id": "r1", "request": request})
    before = until(engine, "control_response")
    requested = [frame["request"]["message"]["method"] for frame in before[:-1]]
    assert requested[:3] == ["initialize", "notifications/initialized", "tools/list"]
    engine.send({"type": "user", "message": {"role": "user", "content": "add"}})
    frames = until(engine, "result")
    assert "mcp__calc__add" in next(frame for frame in frames if frame["type"] == "system")["tools"]
    [hook] = [frame["request"] for frame in frames if frame.get("request", {}).get("subtype") == "hook_callback"]
    assert (hook["callback_id"], hook["input"]["tool_name"]) == ("hook_0", "mcp__calc__add")
    [result] = [frame["message"]["content"][0] for frame in frames if frame["type"] == "user"]
    assert (result["content"], result["is_error"]) == ([{"type": "text", "text": "3"}], False)
    engine.close_input()
    assert engine.wait() == 0


def test_a_schema_that_is_none_keeps_the_engine_from_starting(place: Place) -> None:
    schema = '{"properties": {"a": {"type": "text"}}}'
    done = place.run("--provider", "scripted", "-p", "who?", "--output-format", "json", "--json-schema", schema)
    assert done.code == 1
    assert "--json-schema is not a valid JSON Schema: at $.properties.a.type" in done.errors
