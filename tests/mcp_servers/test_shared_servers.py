"""Sessions of one program share a server: one process, and each session gets what is its own."""

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from doubles_mcp import CallContext, Stage, script
from engine_process import eventually
from machine import PATIENCE
from polylect.mcp.shared_servers import SharedServers
from polylect.tools.process.custody import Custody
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.events import ServerChanged

NAMES = ("who", "ask", "hold", "release", "crash", "grow", "where")
READY = ServerChanged("one", "ready", NAMES)


def several(**more: Any) -> Server:
    return script("several", server="one", **more)


def sharing(folder: Path, work: Callable[..., Awaitable[None]], count: int = 2, **options: Any) -> None:
    """Runs `work` with so many sessions that share servers; `options` is for the last of them alone."""

    async def main() -> None:
        shared = SharedServers(Custody)
        async with AsyncExitStack() as stack:
            stages = []
            for number in range(count):
                own = dict(options) if number == count - 1 else {}
                stage = Stage(own.pop("own_folder", folder), shared=shared, **own)
                stack.enter_context(stage.servers.records)
                stack.push_async_callback(close, stage)
                stages.append(stage)
            await asyncio.wait_for(work(*stages), 2 * PATIENCE)

    asyncio.run(main())


async def close(stage: Stage) -> None:
    await stage.servers.close()
    await stage.custody.close()


async def pid(stage: Stage) -> int:
    return int((await stage.call("who")).output)


def is_gone(process: int) -> bool:
    return not os.path.exists(f"/proc/{process}")


async def held(stage: Stage, context: CallContext | None = None) -> asyncio.Task[Any]:
    """A call that the server has begun and holds."""
    context = context or CallContext(stage.workspace)
    task = asyncio.ensure_future(stage.call("hold", context=context))
    await context.showing.wait()
    return task


def test_sessions_share_a_process_which_ends_with_the_last(tmp_path: Path) -> None:
    async def work(one: Stage, two: Stage) -> None:
        for stage in (one, two):
            stage.servers.add(several())
            assert await stage.received("one") == READY
        process = await pid(one)
        assert process == await pid(two)
        await close(one)
        assert one.tools == {}
        assert process == await pid(two)
        await close(two)
        assert is_gone(process)
        assert one.events == two.events == [READY]

    sharing(tmp_path, work)


def test_a_session_that_comes_while_the_server_starts_is_told_once(tmp_path: Path) -> None:
    async def work(one: Stage, two: Stage) -> None:
        one.servers.add(several())
        two.servers.add(several())
        assert [await stage.received("one") for stage in (one, two)] == [READY, READY]
        assert await pid(one) == await pid(two)
        assert one.events == two.events == [READY]

    sharing(tmp_path, work)


def test_sessions_that_differ_in_what_the_server_notices_do_not_share(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    differences: list[dict[str, Any]] = [
        {"own_folder": other},
        {"trusted": False},
        {"env": {**os.environ, "LANG": "xx"}},
        {"call_timeout": 5.0},
    ]

    async def work(one: Stage, two: Stage) -> None:
        for stage in (one, two):
            stage.servers.add(several())
            await stage.received("one")
        assert await pid(one) != await pid(two)

    async def settings(one: Stage, two: Stage) -> None:
        one.servers.add(several())
        two.servers.add(several(env={"A": "1"}))
        for stage in (one, two):
            await stage.received("one")
        assert await pid(one) != await pid(two)

    for difference in differences:
        sharing(tmp_path, work, **difference)
    sharing(tmp_path, settings)


def test_sessions_in_two_folders_share_a_server_that_neither_runs_in_one_nor_is_told_of_it(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()

    async def work(one: Stage, two: Stage, *servers: Server) -> list[int]:
        for stage, server in zip((one, two), servers, strict=True):
            stage.servers.add(server)
            await stage.received("one")
            assert ((await stage.call("where")).output == "null") == (server.extras.get("roots") is False)
        return [await pid(one), await pid(two)]

    async def independent(one: Stage, two: Stage) -> None:
        server = several(extras={"roots": False, "cwd": "private"})
        assert len(set(await work(one, two, server, server))) == 1

    async def in_the_folder(one: Stage, two: Stage) -> None:
        for extras in ({"roots": False}, {"cwd": "private"}, {"roots": False, "cwd": "workspace"}):
            server = several(extras=extras)
            assert len(set(await work(one, two, server, server))) == 2, extras
            for stage in (one, two):
                stage.servers.change("one", "remove")
                stage.events.clear()

    sharing(tmp_path, independent, own_folder=other)
    sharing(tmp_path, in_the_folder, own_folder=other)


def test_progress_and_questions_reach_the_session_whose_call_is_running(tmp_path: Path) -> None:
    async def work(one: Stage, two: Stage) -> None:
        for stage in (one, two):
            stage.servers.add(several())
            await stage.received("one")
        shown, requested = CallContext(tmp_path), CallContext(tmp_path, [Answer("", "allow")])
        hold = await held(one, shown)
        ask = asyncio.ensure_future(two.call("ask", {"text": "Really?"}, requested))
        await requested.showing.wait()
        await one.call("who")  # the question was read before this answer
        assert requested.questions == []  # it is not clear yet who asks
        await one.call("release")
        assert (await hold).output == "released"
        assert '"action": "accept"' in (await ask).output
        assert shown.shown == ["held (1)\n"]
        assert shown.questions == []
        assert [question.title for question in requested.questions] == ["one: Really?"]

    sharing(tmp_path, work)


def test_a_question_is_declined_if_the_call_that_may_have_asked_was_cancelled(tmp_path: Path) -> None:
    async def work(one: Stage, two: Stage) -> None:
        for stage in (one, two):
            stage.servers.add(several())
            await stage.received("one")
        hold = await held(one)
        context = CallContext(tmp_path)
        ask = asyncio.ensure_future(two.call("ask", {"text": "Really?"}, context))
        await context.showing.wait()
        hold.cancel()
        assert '"action": "cancel"' in (await ask).output
        assert context.questions == []

    sharing(tmp_path, work)


def test_roots_are_those_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path.resolve().as_uri()

    async def work(one: Stage, two: Stage) -> None:
        for stage in (one, two):
            stage.servers.add(several())
            await stage.received("one")
            assert folder in (await stage.call("where")).output

    sharing(tmp_path, work)


def test_a_session_that_leaves_ends_its_calls_and_no_others(tmp_path: Path) -> None:
    async def work(one: Stage, two: Stage) -> None:
        for stage in (one, two):
            stage.servers.add(several())
            await stage.received("one")
        tool, mine, theirs = one.tools["who"], await held(one), await held(two)
        one.servers.change("one", "remove")
        assert (await mine).output == "MCP server one: the server was removed"
        assert (await tool.run({}, CallContext(tmp_path))).output == "MCP server one: the server was removed"
        await two.call("release")
        assert (await theirs).output == "released"
        assert one.events == [READY, ServerChanged("one", "removed")]
        assert two.events == [READY]

    sharing(tmp_path, work)


def test_all_sessions_are_told_of_changes_and_of_the_end(tmp_path: Path) -> None:
    async def work(one: Stage, two: Stage) -> None:
        for stage in (one, two):
            stage.servers.add(several())
            await stage.received("one")
        await one.call("grow")
        grown = ServerChanged("one", "ready", (*NAMES, "leaf"))
        assert [await stage.received("one", 2) for stage in (one, two)] == [grown, grown]
        for stage in (one, two):
            assert not (await stage.call("crash")).ok
        assert [(await stage.received("one", number)).status for stage, number in ((one, 4), (two, 4))] == [
            "failed"
        ] * 2
        assert one.tools == two.tools == {}

    sharing(tmp_path, work)


def test_who_reconnects_gets_a_new_process_and_so_do_those_who_come_later(tmp_path: Path) -> None:
    async def work(one: Stage, two: Stage, three: Stage) -> None:
        for stage in (one, two):
            stage.servers.add(several())
            await stage.received("one")
        old = await pid(one)
        two.servers.change("one", "reconnect")
        await two.received("one", 2)
        three.servers.add(several())
        await three.received("one")
        new = await pid(two)
        assert (await pid(one), await pid(three)) == (old, new)
        assert old != new
        one.servers.change("one", "remove")
        await asyncio.to_thread(eventually, lambda: is_gone(old))
        assert await pid(three) == new

    sharing(tmp_path, work, count=3)


def test_a_server_that_failed_is_tried_again_by_the_next_session(tmp_path: Path) -> None:
    async def work(one: Stage, two: Stage) -> None:
        path = tmp_path / "server"
        for stage in (one, two):
            stage.servers.add(Server("one", command=str(path)))
            assert (await stage.received("one")).status == ("failed" if stage is one else "ready")
            path.write_text(f"#!/bin/sh\nexec {shlex.join((several().command, *several().args))}\n")
            path.chmod(0o755)

    sharing(tmp_path, work)
