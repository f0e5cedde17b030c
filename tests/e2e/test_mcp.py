"""MCP servers through the real process: from settings and from the host, before the first message and after it."""

import sys
from pathlib import Path

from engine_process import Place

SERVER = Path(__file__).parents[1] / "mcp_servers" / "plain.py"
SCRIPT = """
[[reply]]
when.step = 1
say = [{ call = "echo", id = "c1", args = { a = 2, b = 3 } }]

[[reply]]
text = "It is {result}."
"""


def test_l5_a_configured_server_is_connected_after_ready_and_its_tools_can_be_called(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        place.configure(f'[mcp.servers.sums]\ncommand = "{sys.executable}"\nargs = ["{SERVER}", "Works"]')
        engine = place.start(script=SCRIPT)
        ready = engine.frame()
        assert ready["capabilities"]["mcp"] is True
        up = engine.until("mcp_ready")[-1]
        assert up["name"] == "sums"
        assert up["tools"] == ["echo"]
        engine.send({"type": "message", "msg_id": "m1", "content": "2 + 3?"})
        requested = engine.until("tool_request")[-1]
        assert requested["tool"]["category"] == "mcp"
        assert requested["tool"]["description"] == 'MCP sums/echo: {"a":2,"b":3}'
        engine.send({"type": "tool_approve", "call_id": "c1"})
        result = "".join(frame["text"] for frame in engine.until("stream_end") if frame["type"] == "text_delta")
        assert result == 'It is {"a": 2, "b": 3}.'
        assert engine.finish()[1] == 0


def test_a_host_adds_servers_until_its_first_message_and_each_is_answered(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        engine = place.started(script=SCRIPT)
        add = {"type": "add_mcp_server", "name": "sums", "transport": "stdio", "command": sys.executable}
        engine.send({**add, "args": [str(SERVER), "Works"]}, {"type": "ping"})
        assert engine.until("mcp_ready")[-1]["tools"] == ["echo"]
        engine.send({**add, "name": "gone", "command": "/nowhere/at/all"})
        assert engine.until("mcp_failed")[-1]["name"] == "gone"
        engine.send({"type": "set_mode", "mode": "force"}, {"type": "message", "msg_id": "m1", "content": "2 + 3?"})
        engine.until("stream_end")
        engine.send({**add, "name": "late"})
        late = [engine.frame(), engine.frame()]
        assert sorted(frame["type"] for frame in late) == ["error", "mcp_failed"]
        assert "before the first prompt" in str(late)


def test_p1_servers_end_with_the_engine(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        place.configure(f'[mcp.servers.sums]\ncommand = "{sys.executable}"\nargs = ["{SERVER}", "Works"]')
        engine = place.started()
        engine.until("mcp_ready")
        engine.close_input()
        assert engine.wait(3) == 0


def test_a_server_that_makes_no_sense_is_refused_before_ready(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        place.configure('[mcp.servers.sums]\ntransport = "pigeon"')
        outcome = place.run("--json-stream")
        assert (outcome.code, outcome.out) == (1, b"")
        assert "choose stdio, sse or streamable-http" in outcome.errors


SEARCH = """
[[reply]]
when.step = 1
say = [{ call = "ToolSearch", id = "c1", args = { query = "select:echo" } }]

[[reply]]
when.step = 2
say = [{ call = "echo", id = "c2", args = { a = 2 } }]

[[reply]]
text = "It is {result}."
"""


def test_tools_beyond_the_budget_are_found_by_search_and_can_be_called_then(tmp_path: Path) -> None:
    server = f'[mcp.servers.sums]\ncommand = "{sys.executable}"\nargs = ["{SERVER}", "Works"]\n'
    with Place(tmp_path) as place:
        place.configure(f"[mcp]\nsearch_above_tokens = 0\n{server}")
        engine = place.started("--force", script=SEARCH)
        engine.send({"type": "message", "msg_id": "m1", "content": "2?"})
        frames = engine.until("stream_end")
        results = [frame for frame in frames if frame["type"] == "tool_result"]
        assert [(frame["tool_name"], frame["status"]) for frame in results] == [
            ("ToolSearch", "success"),
            ("echo", "success"),
        ]
        assert '"name":"echo"' in results[0]["output"]
        assert engine.finish()[1] == 0
