"""A server made with the official SDK, over each transport: everything that it can do arrives."""

import asyncio
import base64
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest

from doubles_mcp import CallContext, Stage, honest_over, on_stage, script
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Answer
from polylect.vocab.content import Image, Server, Text
from polylect.vocab.events import ServerChanged

pytest.importorskip("mcp")

TOOLS = ("add", "fail", "everything", "count", "meet", "paint", "surroundings", "grow", "wait", "regret")


async def everything_works(stage: Stage, server: Server) -> None:
    stage.servers.add(server)
    assert await stage.received("honest") == ServerChanged("honest", "ready", TOOLS)
    await tools_answer(stage)
    await questions_are_asked(stage)
    await a_cancelled_call_is_cancelled_there_too(stage)
    await changed_lists_are_read_again(stage)
    await prompts_and_resources_are_listed(stage)


def test_all_that_a_server_offers_can_be_used_over_stdio(tmp_path: Path) -> None:
    server = script("honest", "stdio", env={"GIVEN": "yes"})
    here = tmp_path.resolve()

    async def work(stage: Stage) -> None:
        await everything_works(stage, server)
        output = (await stage.call("surroundings")).output
        assert f"'{here}'" in output
        assert "'GIVEN', 'HOME', " in output
        assert "OUR_SECRET" not in output

    on_stage(tmp_path, work, env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "OUR_SECRET": "x"})


@pytest.mark.parametrize("transport", ["sse", "http"])
def test_all_that_a_server_offers_can_be_used_over_the_network(
    tmp_path: Path, transport: Literal["sse", "http"]
) -> None:
    with honest_over(transport) as (server, process):

        async def work(stage: Stage) -> None:
            await everything_works(stage, server)
            process.kill()
            assert transport == "sse" or not (await stage.call("add", {"a": 2, "b": 3})).ok
            failed = await stage.received("honest", 3)
            assert failed.status == "failed"
            assert failed.reason.startswith("it crashed and did not come up again: the server cannot be reached: ")
            assert stage.tools == {}

        on_stage(tmp_path, work)


def test_a_server_that_has_forgotten_the_session_is_connected_again(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server, process = stack.enter_context(honest_over("http"))

        async def work(stage: Stage) -> None:
            stage.servers.add(server)
            await stage.received("honest")
            await stage.commands_changed.wait()
            assert (await stage.call("add", {"a": 2, "b": 3})).ok
            process.kill()
            process.wait()
            port = int(server.url.split(":")[2].split("/")[0])
            await asyncio.to_thread(stack.enter_context, honest_over("http", port))
            await stage.call("add", {"a": 2, "b": 3})  # which may be the first to notice
            assert (await stage.received("honest", 2)).status == "ready"
            assert (await stage.call("add", {"a": 2, "b": 3})).output == "5"

        on_stage(tmp_path, work)


async def tools_answer(stage: Stage) -> None:
    added = await stage.call("add", {"a": 2, "b": 3})
    assert (added.ok, added.output, added.metadata) == (True, "5", {"structured": {"result": 5}})
    failed = await stage.call("fail")
    assert not failed.ok
    assert "the oven is cold" in failed.output
    wrong = await stage.call("add", {"a": "x"})
    assert not wrong.ok
    all_kinds = await stage.call("everything")
    assert (
        all_kinds.output
        == "first\n[resource note://1]\na note\n[resource manual at https://manual.example/1: how to]\nlast"
    )
    (picture,) = all_kinds.images
    assert picture.media_type == "image/png"
    assert base64.b64decode(picture.data).startswith(b"\x89PNG")
    context = CallContext(stage.workspace)
    assert (await stage.call("count", {"to": 3}, context)).output == "done"
    assert context.shown == ["at 1 (1/3)\n", "at 2 (2/3)\n", "at 3 (3/3)\n"]


async def questions_are_asked(stage: Stage) -> None:
    context = CallContext(stage.workspace, [Answer("", "allow", {"name": "Ada", "age": 36})])
    assert (await stage.call("meet", {}, context)).output == "accept Person(name='Ada', age=36)"
    (question,) = context.questions
    assert (question.kind, question.title) == ("form", "honest: Who are you?")
    assert set(question.args["properties"]) == {"name", "age"}
    context = CallContext(stage.workspace, [Answer("", "allow", "blue"), Answer("", "deny"), Answer("", "cancelled")])
    assert (await stage.call("paint", {}, context)).output == "accept Colour(colour='blue')"
    assert context.questions[0].kind == "text"
    assert (await stage.call("paint", {}, context)).output == "decline None"
    assert (await stage.call("paint", {}, context)).output == "cancel None"
    output = (await stage.call("surroundings")).output
    assert f"file://{stage.workspace.resolve()}" in output
    assert "ampling" in output


async def a_cancelled_call_is_cancelled_there_too(stage: Stage) -> None:
    context = CallContext(stage.workspace)
    call = asyncio.ensure_future(stage.call("wait", {}, context))
    await context.showing.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await stage.call("regret")).output == "cancelled"


async def changed_lists_are_read_again(stage: Stage) -> None:
    assert (await stage.call("grow")).ok
    assert await stage.received("honest", 2) == ServerChanged("honest", "ready", (*TOOLS, "leaf"))
    assert (await stage.call("leaf")).output == "grown"


async def prompts_and_resources_are_listed(stage: Stage) -> None:
    await stage.commands_changed.wait()
    (command,) = stage.servers.commands()
    assert command == CommandCard("mcp__honest__review", "Review a file.", "<file> <wish>")
    words = await stage.servers.expand("mcp__honest__review", ["a.py", "Be", "kind."])
    assert words == (Text("Please review a.py. Be kind."),)
    (status,) = stage.servers.status()
    assert (status.status, status.version) == ("ready", "honest 1.2.3")
    assert [resource.uri for resource in status.resources] == ["note://all"]
    assert not any(isinstance(word, Image) for word in words)
