"""Servers that behave badly: each costs only itself, and the reason says what it did."""

import asyncio
import logging
import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from doubles_mcp import CallContext, Stage, on_stage, script
from doubles_tools import processes_with, watched
from engine_process import eventually
from machine import slowness, within
from polylect.tools.standard import standard_tools
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.events import Ask, ServerChanged
from polylect.vocab.ports import ToolReturn

pytestmark = pytest.mark.long

_numbers = count(os.getpid() * 1000 + 700)


def plain(way: str, argument: str = "", **more: Any) -> Server:
    return script("plain", way, argument, server="plain", **more)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (plain("Silent"), "no answer within {} s"),
        (plain("WrongId"), "no answer within {} s (it answered with an id that nobody used (4711))"),
        (plain("Dies"), "the server ended the connection (its last words on stderr: KeyError: 'no database')"),
        (Server("plain", command="no-such-program"), "There is no program 'no-such-program' on this machine."),
        (Server("plain", "http", url="http://127.0.0.1:1/mcp"), "the server cannot be reached: "),
        (Server("plain", "sse", url="http://127.0.0.1:1/sse"), "the server cannot be reached: "),
        (Server("plain", "host"), "this engine cannot reach servers inside its host"),
    ],
    ids=lambda value: (value.args[1:2] or (value.transport,))[0] if isinstance(value, Server) else "",
)
def test_L5_a_server_that_does_not_come_up_is_reported_with_a_reason(
    tmp_path: Path, server: Server, reason: str
) -> None:
    patience = round(slowness())  # whoever starts has to have started by then

    async def work(stage: Stage) -> None:
        stage.servers.add(server)
        failed = await stage.received("plain")
        assert failed.status == "failed"
        assert failed.reason.startswith(reason.format(patience))
        assert stage.servers.status()[0].reason == failed.reason
        assert stage.tools == {}

    on_stage(tmp_path, work, connect_timeout=patience)


@pytest.mark.parametrize(
    ("way", "reason"),
    [("Garbage", "lines to stdout that are not MCP, such as 'garbage'"), ("Endless", "that are not MCP, such as 'xxx")],
)
def test_noise_is_given_up_and_costs_no_memory(tmp_path: Path, way: str, reason: str) -> None:
    """Requirement 23."""

    async def work(stage: Stage) -> None:
        stage.servers.add(plain(way))
        failed = await stage.received("plain")
        assert failed.status == "failed"
        assert reason in failed.reason

    on_stage(tmp_path, work, connect_timeout=3 * slowness())


def test_a_few_words_on_stdout_are_forgiven(tmp_path: Path) -> None:
    """Requirement 23."""

    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Banner"))
        assert await stage.received("plain") == ServerChanged("plain", "ready", ("echo",))
        assert (await stage.call("echo", {"a": 1})).output == '{"a": 1}'

    on_stage(tmp_path, work)


def test_L4_a_flood_on_stderr_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Requirement 22."""
    caplog.set_level(logging.INFO)

    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Floods"))
        await stage.received("plain")
        for _ in range(20):
            assert (await stage.call("echo", {"a": 1})).ok

    on_stage(tmp_path, work)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("polylect.mcp")]
    assert said[0].startswith("MCP server plain: something is going on")
    assert sum(map(len, said)) < 200_000
    assert any("the rest is not shown" in line for line in said)


def test_L4_a_server_that_never_stops_talking_leaves_the_others_their_turn(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Chatters"))
        await stage.received("plain")
        assert (await stage.call("echo")).ok
        with within(3):
            for _ in range(20):
                await asyncio.sleep(0.001)

    on_stage(tmp_path, work)


def test_P5_what_a_server_was_given_as_a_secret_does_not_come_back_in_a_reason(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Dies", env={"THE_TOKEN": "hunter2hunter2"}))
        failed = await stage.received("plain")
        assert failed.reason.endswith("KeyError: 'no database' [removed])")

    on_stage(tmp_path, work)


def test_a_crashed_server_is_started_again_once_and_then_reported(tmp_path: Path) -> None:
    """Requirement 25."""
    crashes = tmp_path / "crashes"
    crashes.write_text("xx")

    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Crashes", str(crashes)))
        await stage.received("plain")
        lost = await stage.call("echo")
        assert (lost.ok, lost.output) == (False, "MCP server plain: the server ended the connection")
        assert (await stage.received("plain", 2)).status == "ready"
        assert not (await stage.call("echo")).ok
        failed = await stage.received("plain", 3)
        assert (failed.status, failed.reason) == (
            "failed",
            "the server ended (its last words on stderr: out of memory)",
        )
        assert stage.tools == {}
        stage.servers.change("plain", "reconnect")
        assert (await stage.received("plain", 4)).status == "ready"
        assert (await stage.call("echo")).ok

    on_stage(tmp_path, work)


def test_a_call_during_a_restart_waits_for_it(tmp_path: Path) -> None:
    crashes = tmp_path / "crashes"
    crashes.write_text("x")

    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Crashes", str(crashes)))
        await stage.received("plain")
        assert not (await stage.call("echo")).ok
        assert (await stage.call("echo")).ok

    on_stage(tmp_path, work)


@pytest.mark.parametrize("way", ["Deaf", "WrongIdInCalls", "Slow"])
def test_a_call_that_takes_too_long_is_an_error(tmp_path: Path, way: str) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(plain(way))
        name = (await stage.received("plain")).tools[0]
        with within(2):
            late = await stage.call(name, {"a": "x" * 200_000})
        message = f"MCP server plain: {name} did not answer within 0.3 s, and the call was cancelled"
        assert late == ToolReturn(message, ok=False)

    on_stage(tmp_path, work, call_timeout=0.3)


def test_a_cancelled_call_is_over_at_once_and_the_server_is_told(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Slow"))
        await stage.received("plain")
        context = CallContext(tmp_path)
        call = asyncio.ensure_future(stage.call("sleep", {}, context))
        await context.showing.wait()
        call.cancel()
        with within(0.2), pytest.raises(asyncio.CancelledError):
            await call
        assert (await stage.call("told")).output == "[true]"
        assert context.shown == ["1\n"]

    on_stage(tmp_path, work)


def test_a_deaf_server_does_not_hold_up_a_cancel(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Deaf"))
        await stage.received("plain")
        call = asyncio.ensure_future(stage.call("echo", {"a": "x" * 1_000_000}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        with within(0.2), pytest.raises(asyncio.CancelledError):
            await call

    on_stage(tmp_path, work)


def test_strange_results_are_told_as_well_as_they_can_be(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Strange"))
        await stage.received("plain")
        for name in ("number", "list", "no_content", "bad_content", "bad_kind"):
            result = await stage.call(name)
            assert not result.ok, name
            assert result.output.startswith("MCP server plain: "), name
        outputs = {name: (await stage.call(name)).output for name in ("bad_image", "drawing", "sound", "empty")}
        assert outputs == {
            "bad_image": "[image: image/png, broken]",
            "drawing": "[image: image/svg+xml, 6 bytes, not shown]",
            "sound": "[audio: audio/wav, not shown]",
            "empty": "(no output)",
        }
        structured = await stage.call("structured")
        assert (structured.output, structured.metadata) == ('{"a":1}', {"structured": {"a": 1}})
        context = CallContext(tmp_path)
        long = await stage.call("long", {}, context)
        assert len(long.output) < 51_000
        assert "; all of it is in /spilled/1.txt] ..." in long.output
        assert context.spilled == ["long " * 100_000]
        assert await stage.call("failed") == ToolReturn("no such row", ok=False)

    on_stage(tmp_path, work, call_timeout=2 * slowness())


def test_names_that_are_taken_or_impossible_are_made_plain(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Works", server="first"))
        await stage.received("first")
        stage.servers.add(plain("Names"))
        names = (await stage.received("plain")).tools
        assert names[:4] == ("mcp__plain__Read", "mcp__plain__echo", "mcp__plain__files_search", "mcp__plain__a_b")
        assert len(set(names)) == 7
        assert all(len(name) <= 64 for name in names)
        assert stage.tools["Read"].category == "info"
        for name in names:
            assert stage.tools[name].spec.name == name
            assert stage.tools[name].category == "mcp"
        assert (await stage.call("mcp__plain__files_search")).output == "files.search"
        assert (await stage.call("echo")).output == "{}"
        described = stage.tools["mcp__plain__Read"].describe({"path": "a\nb", "n": 1})
        assert described == 'MCP plain/Read: {"path":"a\\nb","n":1}'

    on_stage(tmp_path, work, tools=dict(standard_tools()))


def test_a_list_without_end_is_cut(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Pages"))
        assert len((await stage.received("plain")).tools) == 100

    on_stage(tmp_path, work)


def test_changes_that_are_told_a_hundred_times_are_reported_once(tmp_path: Path) -> None:
    """Requirement 48."""

    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Restless"))
        await stage.received("plain")
        await stage.call("echo")
        assert (await stage.received("plain", 2)).tools == ("echo", "other")
        for _ in range(20):
            await stage.call("other")
        assert len(stage.events) == 2

    on_stage(tmp_path, work)


def test_the_time_of_a_call_stands_still_while_a_person_thinks(tmp_path: Path) -> None:
    class Thinker(CallContext):
        async def ask(self, question: Ask) -> Answer:
            await asyncio.sleep(0.6)
            return await super().ask(question)

    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Asks"))
        await stage.received("plain")
        context = Thinker(tmp_path, [Answer("", "allow", {"ok": True, "more": "than asked"})])
        assert (await stage.call("echo", {}, context)).output == '{"action": "accept", "content": {"ok": true}}'
        context = Thinker(tmp_path, [Answer("", "allow", {})])
        assert (await stage.call("echo", {}, context)).output == '{"action": "decline"}'

    on_stage(tmp_path, work, call_timeout=0.3)


def test_a_question_ends_with_the_call_that_it_was_for(tmp_path: Path) -> None:
    question_shown, ended = asyncio.Event(), asyncio.Event()

    class Undecided(CallContext):
        async def ask(self, question: Ask) -> Answer:
            question_shown.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return Answer("", "allow")

    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Asks"))
        await stage.received("plain")
        call = asyncio.ensure_future(stage.call("echo", {}, Undecided(tmp_path)))
        await question_shown.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await ended.wait()

    on_stage(tmp_path, work)


def test_nobody_is_drowned_in_questions(tmp_path: Path) -> None:
    class Slow(CallContext):
        async def ask(self, question: Ask) -> Answer:
            await super().ask(question)
            while len(self.questions) < 5:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await asyncio.sleep(0.2)
            return Answer("", "allow")

    async def work(stage: Stage) -> None:
        stage.servers.add(plain("AsksTooOften"))
        await stage.received("plain")
        context = Slow(tmp_path, [Answer("", "allow")] * 10)
        answered = (await stage.call("echo", {}, context)).output.split()
        assert answered.count("decline") >= 3
        assert len(context.questions) == answered.count("accept")

    on_stage(tmp_path, work)


@pytest.mark.parametrize(("someone", "action"), [(False, "cancel"), (True, "accept")])
def test_a_question_that_belongs_to_no_call_goes_to_the_host_if_there_is_a_way(
    tmp_path: Path, someone: bool, action: str
) -> None:
    async def ask(question: Ask) -> Answer:
        return Answer(question.ask, "allow", {"ok": True})

    async def work(stage: Stage) -> None:
        stage.servers.add(plain("AsksAtOnce"))
        reports = [await stage.received("plain")]
        if reports[-1].tools != (action,):
            reports.append(await stage.received("plain", 2))
        assert reports[-1].tools == (action,)

    on_stage(tmp_path, work, ask=ask if someone else None)


def test_a_server_that_knows_only_the_newest_revision_is_reached_too(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(plain("Modern"))
        assert await stage.received("plain") == ServerChanged("plain", "ready", ("echo",))
        assert (await stage.call("echo", {"a": 1})).output == '{"a": 1}'

    on_stage(tmp_path, work)


def test_P1_no_server_outlives_its_removal_or_the_end(tmp_path: Path) -> None:
    """Requirement 24."""
    lengths = {name: f"{next(_numbers)}.5" for name in ("one", "two")}

    async def work(stage: Stage) -> None:
        for name, length in lengths.items():
            stage.servers.add(script("plain", "Stays", length, server=name))
            await stage.received(name)
            marker = f"sleep {length}"
            await asyncio.to_thread(eventually, lambda marker=marker: len(processes_with(marker)) == 3)
        with watched(processes_with(f"sleep {lengths['one']}")) as all_end_within:
            stage.servers.change("one", "remove")
            assert stage.about("one")[-1] == ServerChanged("one", "removed")
            assert await asyncio.to_thread(all_end_within, 5)
        assert [status.name for status in stage.servers.status()] == ["two"]
        assert list(stage.tools) == ["mcp__two__echo"]
        with within(2):
            await stage.servers.close()
            await stage.custody.close()
        assert processes_with(f"sleep {lengths['two']}") == []

    on_stage(tmp_path, work)
