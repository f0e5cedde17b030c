"""Each transport in the hands of a supervisor: what a server gets of us, and what happens when it goes away.

Servers of the official SDKs, which can do everything, are used by interop/test_mcp_sdk_servers.py.
"""

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest

from doubles_mcp import Stage, on_stage, script
from mcp_servers.test_hostile import http_servers


def test_a_child_process_gets_the_folder_and_few_variables(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Surroundings", env={"GIVEN": "yes"}))
        await stage.received("plain")
        folder, names = json.loads((await stage.call("echo")).output)
        assert folder == str(here)
        assert {"GIVEN", "HOME", "PATH"} <= set(names)
        assert "OUR_SECRET" not in names

    here = tmp_path.resolve()
    on_stage(tmp_path, work, env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "OUR_SECRET": "x"})


@pytest.mark.parametrize(("transport", "way"), [("http", "works"), ("sse", "sse_works")])
def test_a_server_that_is_gone_is_tried_once_more_and_then_reported(
    tmp_path: Path, transport: Literal["http", "sse"], way: str
) -> None:
    with http_servers() as servers:
        server = servers.server(way, transport)
        tool = f"mcp__{server.name}__echo"

        async def work(stage: Stage) -> None:
            stage.servers.add(server)
            assert (await stage.received(server.name)).tools == (tool,)
            assert (await stage.call(tool)).output == "it works"
            await asyncio.to_thread(servers.kill)
            assert transport == "sse" or not (await stage.call(tool)).ok
            failed = await stage.received(server.name, 2)
            assert failed.status == "failed"
            assert failed.reason.startswith("it crashed and did not come up again: the server cannot be reached: ")
            assert stage.tools == {}

        on_stage(tmp_path, work)


def test_a_server_that_has_forgotten_the_session_is_connected_again(tmp_path: Path) -> None:
    """Requirement 31."""
    with ExitStack() as stack:
        servers = stack.enter_context(http_servers())
        server = servers.server("works")
        tool = f"mcp__{server.name}__echo"

        async def work(stage: Stage) -> None:
            stage.servers.add(server)
            await stage.received(server.name)
            assert (await stage.call(tool)).ok
            await asyncio.to_thread(servers.kill)
            await asyncio.to_thread(stack.enter_context, http_servers(servers.port))
            await stage.call(tool)  # which may be the first to notice
            assert (await stage.received(server.name, 2)).status == "ready"
            assert (await stage.call(tool)).output == "it works"

        on_stage(tmp_path, work)
