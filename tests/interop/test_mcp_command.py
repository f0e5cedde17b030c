"""`polylect mcp` with a server that people use: it is added, tried, counted, called, and left to the search."""

import json
from pathlib import Path

from bench import peers

from engine_process import Place

PROGRAM = peers.installed("mcp filesystem") / "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
SCRIPT = """
[[reply]]
when.step = 1
say = [{ call = "ToolSearch", id = "c1", args = { query = "read text file" } }]

[[reply]]
when.step = 2
say = [{ call = "read_text_file", id = "c2", args = { path = "PATH" } }]

[[reply]]
text = "It says: {result}"
"""


def test_the_filesystem_server_is_added_tried_and_called(tmp_path: Path) -> None:
    place = Place(tmp_path)
    note = place.workspace / "note.txt"
    note.write_text("tea\n")
    added = place.run("mcp", "add", "files", "--", "node", str(PROGRAM), str(place.workspace))
    assert (added.code, added.errors) == (0, "")
    shown = json.loads(place.run("mcp", "test", "files", "--json").out)
    assert (shown["state"], shown["revision"], shown["capabilities"]) == ("ready", "2025-11-25", ["tools"])
    tools = json.loads(place.run("mcp", "tools", "files", "--json").out)
    [row] = json.loads(place.run("mcp", "list", "--json").out)
    assert (row["tools"], row["found_by_search"]) == (len(tools), False)
    assert row["tokens"] == sum(tool["tokens"] for tool in tools) > 1000
    assert place.run("mcp", "call", "files", "read_text_file", f"path={note}").out == b"tea\n\n"
    refused = place.run("mcp", "call", "files", "read_text_file", "path=/etc/passwd")
    assert (refused.code, "outside allowed directories" in refused.errors) == (1, True)
    wrong = place.run("mcp", "call", "files", "read_text_file", "head=1")
    assert (wrong.code, "path" in wrong.errors) == (2, True)


def test_tools_of_the_filesystem_server_are_found_by_search_beyond_the_budget(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        note = place.workspace / "note.txt"
        note.write_text("tea\n")
        place.configure("[mcp]\nsearch_above_tokens = 1000\n")
        place.run("mcp", "add", "files", "--", "node", str(PROGRAM), str(place.workspace))
        [row] = json.loads(place.run("mcp", "list", "--json").out)
        assert row["found_by_search"] is True
        engine = place.started("--force", script=SCRIPT.replace("PATH", str(note)))
        engine.send({"type": "message", "msg_id": "m1", "content": "What does the note say?"})
        text = "".join(frame["text"] for frame in engine.until("stream_end") if frame["type"] == "text_delta")
        assert text == "It says: tea\n"
        assert engine.finish()[1] == 0
