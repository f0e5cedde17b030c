"""What a server of others has to be able to do with our client, whatever SDK and transport it uses.

`everything_works` calls each feature once. The servers are those of `mcp_python_server.py` and
`mcp_typescript_server.mjs`; all of them have the same tools.
"""

import asyncio
import base64
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal

import pytest

from doubles_mcp import CallContext, Stage
from machine import PATIENCE
from polylect.mcp.connection import Connection, connected
from polylect.mcp.server_log import ServerLog
from polylect.mcp.values import ServerFault, ServerSetup
from polylect.tools.process.custody import Custody
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server, Text
from polylect.vocab.events import Ask

Transport = Literal["stdio", "http", "sse", "modern"]


@contextmanager
def reached(argv: Sequence[str], transport: Transport, env: dict[str, str]) -> Iterator[Server]:
    """A server whose program takes the transport as its last word, and prints its port if that is not stdio."""
    if transport == "stdio":
        yield Server("feature", command=argv[0], args=(*argv[1:], "stdio"), env=env)
        return
    with subprocess.Popen((*argv, transport), stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout
            port = int(process.stdout.readline())
            url = f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
            yield Server("feature", "sse" if transport == "sse" else "http", url=url)
        finally:
            process.kill()


async def everything_works(stage: Stage, server: Server) -> None:
    stage.servers.add(server)
    ready = await stage.received(server.name)
    assert (ready.status, ready.reason) == ("ready", "")
    await tools_answer(stage)
    await people_are_asked(stage)
    await a_cancelled_call_is_cancelled_there_too(stage)
    await prompts_and_resources_are_listed(stage, server.name)
    if "surroundings" in stage.tools:
        assert f"file://{stage.workspace}" in (await stage.call("surroundings")).output
    if "grow" in stage.tools:
        assert (await stage.call("grow")).ok
        assert "leaf" in (await stage.received(server.name, 2)).tools
        assert (await stage.call("leaf")).output == "grown"


async def requests_are_answered(connection: Connection, *, completes: bool = True) -> None:
    """What hosts and commands use of a connection beside tools."""
    (contents,) = await connection.read_resource("note://all")
    assert contents.text == "one note"
    (template,) = await connection.resource_templates()
    assert template.uri_template == "note://{number}"
    (contents,) = await connection.read_resource("note://7")
    assert contents.text == "note 7"
    with pytest.raises(ServerFault):
        await connection.read_resource("other://7")
    with pytest.raises(ServerFault):
        await connection.prompt("no such prompt", {})
    if completes:
        values = await connection.complete({"type": "ref/prompt", "name": "review"}, "file", "a")
        assert values == ["a.py", "ab.py"]
    if connection.protocol < "2026":
        await connection.ping()


@asynccontextmanager
async def open_connection(server: Server, workspace: Path) -> AsyncIterator[Connection]:
    async def nobody(question: Ask) -> Answer:
        return Answer(question.ask, "cancelled")

    custody = Custody()
    setup = ServerSetup(custody, dict(os.environ), str(workspace), lambda event: None)
    try:
        async with asyncio.timeout(PATIENCE):
            async with connected(server, setup, ServerLog(server), nobody, lambda kind: None) as connection:
                yield connection
    finally:
        await custody.close()


async def tools_answer(stage: Stage) -> None:
    added = await stage.call("add", {"a": 2, "b": 3})
    assert (added.ok, added.output, added.metadata) == (True, "5", {"structured": {"result": 5}})
    failed = await stage.call("fail")
    assert not failed.ok
    assert "the oven is cold" in failed.output
    assert not (await stage.call("add", {"a": "x"})).ok
    all_kinds = await stage.call("everything")
    assert all_kinds.output == (
        "first\n[resource note://1]\na note\n[resource manual at https://manual.example/1: how to]\nlast"
    )
    (picture,) = all_kinds.images
    assert base64.b64decode(picture.data).startswith(b"\x89PNG")
    context = CallContext(stage.workspace)
    assert (await stage.call("count", {"to": 3}, context)).output == "done"
    assert context.shown == ["at 1 (1/3)\n", "at 2 (2/3)\n", "at 3 (3/3)\n"]


async def people_are_asked(stage: Stage) -> None:
    context = CallContext(stage.workspace, [Answer("", "allow", "Ada"), Answer("", "deny"), Answer("", "cancelled")])
    assert (await stage.call("meet", {}, context)).output == "accept Ada"
    assert (await stage.call("meet", {}, context)).output == "decline None"
    assert (await stage.call("meet", {}, context)).output == "cancel None"
    assert context.questions[0].title == "feature: Who are you?"


async def a_cancelled_call_is_cancelled_there_too(stage: Stage) -> None:
    context = CallContext(stage.workspace)
    call = asyncio.ensure_future(stage.call("wait", {}, context))
    await context.showing.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await stage.call("regret")).output == "cancelled"


async def prompts_and_resources_are_listed(stage: Stage, name: str) -> None:
    if not stage.servers.commands():
        await stage.commands_changed.wait()
    (command,) = stage.servers.commands()
    assert command == CommandCard(f"mcp__{name}__review", "Review a file.", "<file> <wish>")
    words = await stage.servers.expand(command.name, ["a.py", "Be", "kind."])
    assert words == (Text("Please review a.py. Be kind."),)
    (status,) = stage.servers.status()
    assert (status.status, status.version) == ("ready", "feature 1.2.3")
    while not stage.servers.status()[0].resources:  # noqa: ASYNC110  (there is no event for it)
        await asyncio.sleep(0.01)
    assert "note://all" in [resource.uri for resource in stage.servers.status()[0].resources]
