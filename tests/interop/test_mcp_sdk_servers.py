"""Servers of the official SDKs and of FastMCP, over each transport: everything that they can do arrives."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from bench import peers

from doubles_mcp import Stage, on_stage
from interop.mcp_features import Transport, everything_works, open_connection, reached, requests_are_answered
from polylect.vocab.content import Server

HERE = Path(__file__).parent
NODE = ("node", str(HERE / "mcp_typescript_server.mjs"), str(peers.installed("mcp sdk") / "node_modules"))
PYTHON = (sys.executable, str(HERE / "mcp_python_server.py"))
PATH = {"PATH": os.environ["PATH"]}
FASTMCP = {**PATH, "PYTHONPATH": os.environ["POLYLECT_INTEROP_FASTMCP"], "FASTMCP_CHECK_FOR_UPDATES": "off"}


def use(workspace: Path, server: Server, *, completes: bool = True) -> str:
    """Use everything that a server has. Returns the revision that was spoken."""

    async def talk() -> str:
        async with open_connection(server, workspace) as connection:
            await requests_are_answered(connection, completes=completes)
            return connection.protocol

    on_stage(workspace, lambda stage: everything_works(stage, server))
    return asyncio.run(talk())


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
def test_a_server_of_the_typescript_sdk_can_be_used(tmp_path: Path, transport: Transport) -> None:
    with reached(NODE, transport, PATH) as server:
        assert use(tmp_path, server) == "2025-11-25"


@pytest.mark.parametrize("transport", ["stdio", "http", "sse", "modern"])
def test_a_server_of_the_python_sdk_can_be_used(tmp_path: Path, transport: Transport) -> None:
    with reached((*PYTHON, "mcp"), transport, PATH) as server:
        assert use(tmp_path, server) == ("2026-07-28" if transport == "modern" else "2025-11-25")


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_server_of_fastmcp_can_be_used(tmp_path: Path, transport: Transport) -> None:
    with reached((*PYTHON, "fastmcp"), transport, FASTMCP) as server:
        assert use(tmp_path, server, completes=False) == "2025-11-25"


def test_the_filesystem_server_can_be_used(tmp_path: Path) -> None:
    """It reads the folders that it may use from our roots."""
    program = peers.installed("mcp filesystem") / "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    (tmp_path / "note.txt").write_text("one\ntwo\n")

    async def work(stage: Stage) -> None:
        stage.servers.add(Server("files", command="node", args=(str(program), str(tmp_path))))
        ready = await stage.received("files")
        assert {"read_text_file", "write_file", "list_directory"} <= set(ready.tools)
        path = str(tmp_path / "note.txt")
        assert (await stage.call("read_text_file", {"path": path})).output == "one\ntwo\n"
        assert (await stage.call("list_directory", {"path": str(tmp_path)})).output == "[FILE] note.txt"
        new = {"path": str(tmp_path / "new.txt"), "content": "three"}
        assert (await stage.call("write_file", new)).ok
        assert (tmp_path / "new.txt").read_text() == "three"
        outside = await stage.call("read_text_file", {"path": "/etc/passwd"})
        assert not outside.ok
        assert "outside allowed directories" in outside.output
        assert stage.workspace.resolve().as_posix() in (await stage.call("list_allowed_directories")).output

    on_stage(tmp_path, work)
