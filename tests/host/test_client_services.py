"""Files and terminals that the SDK serves to an engine: inside the workspace, with limits, leaving nothing behind."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place, Sleepers
from machine import PATIENCE
from native_editor import calls
from polylect.host import Event, HostCall, ToolFinished, TurnEnded, Unsupported, connect
from polylect.host.client_services.faults import ServiceFault
from polylect.host.client_services.services import ClientServices
from polylect.host.client_services.terminals import MOST_TERMINALS
from polylect.host.client_services.text_files import MOST_BYTES
from polylect.vocab.commands import Cancel

Work = Callable[[ClientServices], Awaitable[None]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Path(os.path.realpath(tmp_path)))


def serve(place: Place, work: Work, **options: Any) -> None:
    async def main() -> None:
        arguments: dict[str, Any] = {"files": True, "terminal": True, "env": place.env, **options}
        services = ClientServices(str(place.workspace), **arguments)
        try:
            async with asyncio.timeout(PATIENCE):
                await work(services)
        finally:
            await services.close()

    asyncio.run(main())


async def fault(services: ClientServices, method: str, **params: Any) -> str:
    """The code with which this is refused."""
    with pytest.raises(ServiceFault) as raised:
        await services.handle(method, params)
    return raised.value.code


async def run(services: ClientServices, **params: Any) -> dict[str, Any]:
    """A command to its end: what it printed, and how it ended."""
    terminal = await services.handle("create_terminal", params)
    ended = await services.handle("wait_for_terminal_exit", terminal)
    shown = await services.handle("terminal_output", terminal)
    await services.handle("release_terminal", terminal)
    assert {key: shown[key] for key in ended} == ended
    assert shown["running"] is False
    return shown


# Files.


def test_a_file_is_read_whole_or_by_lines(place: Place) -> None:
    path = place.workspace / "a.txt"
    path.write_bytes("one\r\ntwo\u2028\nthrée".encode())

    async def work(services: ClientServices) -> None:
        async def read(**params: Any) -> str:
            return str((await services.handle("read_text_file", {"path": str(path), **params}))["content"])

        assert await read() == "one\r\ntwo\u2028\nthrée"
        assert await read(line=None, limit=None) == "one\r\ntwo\u2028\nthrée"
        assert await read(line=2, limit=1) == "two\u2028\n"
        assert await read(line=3) == "thrée"
        assert await read(line=9) == ""
        assert await read(limit=0) == ""

    serve(place, work)


def test_a_file_is_created_with_its_folders_or_replaced_with_its_permissions(place: Place) -> None:
    new, old = place.workspace / "x" / "y" / "new.txt", place.workspace / "old.sh"
    old.write_text("old")
    old.chmod(0o755)

    async def work(services: ClientServices) -> None:
        for path in (new, old):
            assert await services.handle("write_text_file", {"path": str(path), "content": "né\n"}) == {}

    serve(place, work)
    assert (new.read_text(), old.read_text(), old.stat().st_mode & 0o777) == ("né\n", "né\n", 0o755)
    assert sorted(path.name for path in place.workspace.rglob("*")) == ["new.txt", "old.sh", "x", "y"]


def test_paths_are_absolute_and_inside_after_links_are_resolved(place: Place) -> None:
    outside = place.folder / "outside.txt"
    outside.write_text("secret")
    (place.workspace / "link").symlink_to(outside)
    (place.workspace / "up").symlink_to(place.folder)
    beside = place.folder / "workspace-2"
    beside.mkdir()
    (beside / "a.txt").write_text("beside")

    async def work(services: ClientServices) -> None:
        paths = [outside, place.workspace / "link", place.workspace / "up" / "outside.txt", beside / "a.txt"]
        for path in [*map(str, paths), f"{place.workspace}/../outside.txt"]:
            assert await fault(services, "read_text_file", path=path) == "outside", path
            assert await fault(services, "write_text_file", path=path, content="x") == "outside", path
        for path in ("a.txt", "./a.txt", "", "~/a.txt"):
            assert await fault(services, "read_text_file", path=path) == "bad_params"
            assert await fault(services, "write_text_file", path=path, content="x") == "bad_params"

    serve(place, work)
    assert outside.read_text() == "secret"


def test_further_folders_count_too(place: Place) -> None:
    more = place.folder / "more"
    more.mkdir()

    async def work(services: ClientServices) -> None:
        await services.handle("write_text_file", {"path": str(more / "a.txt"), "content": "a"})
        assert (await run(services, command="cat a.txt", cwd=str(more)))["output"] == "a"

    serve(place, work, folders=[str(more)])


def test_a_missing_file_has_its_own_code_also_outside(place: Place) -> None:
    (place.workspace / "file").write_text("")

    async def work(services: ClientServices) -> None:
        for path in (place.workspace / "none", place.workspace / "file" / "x", place.folder / "AGENTS.md"):
            assert await fault(services, "read_text_file", path=str(path)) == "missing"

    serve(place, work)


def test_the_switch_for_gemini_answers_with_an_empty_text(place: Place) -> None:
    async def work(services: ClientServices) -> None:
        result = await services.handle("read_text_file", {"path": str(place.workspace / "none")})
        assert result == {"content": ""}

    serve(place, work, missing_as_empty=True)


def test_what_is_no_text_or_too_large_is_refused(place: Place) -> None:
    workspace = place.workspace
    (workspace / "binary").write_bytes(b"\xff\xfe")
    with open(workspace / "large", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    os.mkfifo(workspace / "pipe")

    async def work(services: ClientServices) -> None:
        for name, code in {"binary": "not_text", "large": "too_large", "pipe": "failed", ".": "failed"}.items():
            assert await fault(services, "read_text_file", path=str(workspace / name)) == code
        for content, code in {"x" * (MOST_BYTES + 1): "too_large", "\ud800": "bad_params"}.items():
            assert await fault(services, "write_text_file", path=str(workspace / "new"), content=content) == code
        assert await fault(services, "write_text_file", path=str(workspace / "pipe"), content="x") == "failed"
        assert await fault(services, "write_text_file", path=str(workspace / "new")) == "bad_params"
        assert await fault(services, "read_text_file", path=5) == "bad_params"
        assert await fault(services, "read_text_file", path=str(workspace), line=-1) == "bad_params"

    serve(place, work)
    assert not (workspace / "new").exists()


def test_what_is_switched_off_is_refused(place: Place) -> None:
    async def work(services: ClientServices) -> None:
        assert services.offers() == {}
        assert await fault(services, "read_text_file", path=str(place.workspace)) == "unsupported"
        assert await fault(services, "create_terminal", command="true") == "unsupported"

    serve(place, work, files=False, terminal=False)


# Terminals.


def test_a_command_without_arguments_is_a_line_for_a_shell(place: Place) -> None:
    async def work(services: ClientServices) -> None:
        line = await run(services, command="echo shell | tr a-z A-Z; echo err >&2; exit 3")
        assert sorted(line["output"].split()) == ["SHELL", "err"]
        assert (line["exit_code"], line["signal"]) == (3, None)
        words = await run(services, command="printf", args=["%s|", "a b", "$HOME", ""])
        assert (words["output"], words["exit_code"]) == ("a b|$HOME||", 0)
        none = await run(services, command="no-such-program", args=["x"])
        assert none["exit_code"] == 127
        assert "no-such-program" in none["output"]

    serve(place, work)


def test_folder_variables_and_input_are_those_that_were_asked_for(place: Place) -> None:
    (place.workspace / "sub").mkdir()
    env = {**place.env, "MY_TOKEN": "secret", "LANG": "C"}

    async def work(services: ClientServices) -> None:
        line = 'pwd; echo "$ONE$MY_TOKEN$LANG"; cat'
        sub = str(place.workspace / "sub")
        assert (await run(services, command=line, cwd=sub, env={"ONE": "1"}))["output"] == f"{sub}\n1C\n"
        assert (await run(services, command="pwd", cwd=""))["output"] == f"{place.workspace}\n"
        for cwd, code in {"sub": "bad_params", str(place.folder): "outside", f"{sub}/none": "missing"}.items():
            assert await fault(services, "create_terminal", command="true", cwd=cwd) == code

    serve(place, work, env=env)


def test_the_id_comes_at_once_and_is_valid_after_a_kill_but_not_after_a_release(place: Place) -> None:
    sleepers = Sleepers(place)

    async def work(services: ClientServices) -> None:
        terminal = await services.handle("create_terminal", {"command": f"echo begun; {sleepers.command()}"})
        waiting = asyncio.ensure_future(services.handle("wait_for_terminal_exit", terminal))
        await asyncio.to_thread(sleepers.wait_until_started)
        shown = await services.handle("terminal_output", terminal)
        assert shown == {"output": "begun\n", "truncated": False, "running": True, "exit_code": None, "signal": None}
        assert await services.handle("kill_terminal", terminal) == {}
        assert await waiting == {"exit_code": None, "signal": "SIGKILL"}
        assert (await services.handle("terminal_output", terminal))["output"] == "begun\n"
        assert await services.handle("kill_terminal", terminal) == {}
        assert await services.handle("release_terminal", terminal) == {}
        for method in ("terminal_output", "wait_for_terminal_exit", "kill_terminal", "release_terminal"):
            assert await fault(services, method, **terminal) == "bad_params"

    serve(place, work)
    assert sleepers.pids() == []


@pytest.mark.parametrize("how", ["release", "close", "forget", "end"])
def test_nothing_is_left_behind(place: Place, how: str) -> None:
    sleepers = Sleepers(place)

    async def work(services: ClientServices) -> None:
        terminal = await services.handle("create_terminal", {"command": sleepers.command()})
        await asyncio.to_thread(sleepers.wait_until_started)
        match how:
            case "release":
                await services.handle("release_terminal", terminal)
            case "forget":
                services.forget_terminals()
                assert await fault(services, "terminal_output", **terminal) == "bad_params"
            case "end":
                services.end_terminals()
                assert (await services.handle("wait_for_terminal_exit", terminal))["signal"] == "SIGKILL"
                return sleepers.wait_until_gone()
            case _:
                await services.close()
        await asyncio.to_thread(sleepers.wait_until_gone)

    serve(place, work)


def test_nothing_is_left_behind_by_a_program_that_is_killed(place: Place) -> None:
    sleepers = Sleepers(place)
    program = f"""
import asyncio
from polylect.host.client_services.services import ClientServices

async def main():
    services = ClientServices({str(place.workspace)!r}, files=False, terminal=True)
    await services.handle("create_terminal", {{"command": {sleepers.command()!r}}})
    await asyncio.Event().wait()

asyncio.run(main())
"""
    child = subprocess.Popen([sys.executable, "-c", program], env=place.env, cwd=place.workspace)
    try:
        sleepers.wait_until_started()
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    sleepers.wait_until_gone()


@pytest.mark.parametrize(("limit", "expected"), [(5, "xéé"), (4, "éé"), (3, "é"), (2, "é"), (1, ""), (0, "")])
def test_output_is_cut_from_the_front_between_characters(place: Place, limit: int, expected: str) -> None:
    async def work(services: ClientServices) -> None:
        shown = await run(services, command="printf 'xx\\303\\251\\303\\251'", limit=limit)
        assert (shown["output"], shown["truncated"]) == (expected, True)

    serve(place, work)


def test_a_command_that_prints_for_ever_costs_no_more_than_its_limit(place: Place) -> None:
    async def work(services: ClientServices) -> None:
        shown = await run(services, command="head -c 20000000 /dev/zero | tr '\\0' x; echo end", limit=10**9)
        assert (len(shown["output"]), shown["truncated"]) == (4 * 1024 * 1024, True)
        assert shown["output"].endswith("xend\n")

    serve(place, work)


def test_the_number_of_terminals_is_limited(place: Place) -> None:
    async def work(services: ClientServices) -> None:
        first = await services.handle("create_terminal", {"command": "true"})
        for _ in range(MOST_TERMINALS - 1):
            await services.handle("create_terminal", {"command": "true"})
        assert await fault(services, "create_terminal", command="true") == "too_many"
        await services.handle("release_terminal", first)
        await services.handle("create_terminal", {"command": "true"})

    serve(place, work)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"command": ""},
        {"command": 5},
        {"command": "a\0b"},
        {"command": "a", "args": "b"},
        {"command": "a", "args": [5]},
        {"command": "a", "env": ["A=1"]},
        {"command": "a", "env": {"A": 1}},
        {"command": "a", "env": {"A=": "1"}},
        {"command": "a", "limit": -1},
        {"command": "a", "limit": "many"},
        {"command": "a", "cwd": 5},
    ],
)
def test_wrong_fields_are_refused(place: Place, params: dict[str, Any]) -> None:
    async def work(services: ClientServices) -> None:
        assert await fault(services, "create_terminal", **params) == "bad_params"

    serve(place, work)


# With an engine.

READ_AND_WRITE = calls(
    [("Read", {"file_path": "a.txt"})],
    [("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})],
    [("Write", {"file_path": "new/b.txt", "content": "b\n"})],
    [("Bash", {"command": "cat a.txt new/b.txt; exit 4"})],
)


def arguments(place: Place, script: str) -> dict[str, Any]:
    place.configure('[client]\nterminal = "auto"\n')
    where = {"cwd": str(place.workspace), "env": place.env}
    return {**where, "provider": "scripted", "mode": "force", "script": place.script(script)[-1]}


READ, WRITE = "read_text_file", "write_text_file"


@pytest.mark.parametrize("engine", ["polylect", "polylect-acp"])
def test_an_engine_that_asks_its_host_is_served(place: Place, engine: str) -> None:
    (place.workspace / "a.txt").write_text("one\n")

    async def main() -> list[Event]:
        supplied = arguments(place, READ_AND_WRITE)
        async with connect(engine, files=True, terminal=True, **supplied) as agent:
            seen = agent.events()
            await agent.ask("go")
            events = []
            async for event in seen:
                events.append(event)
                if isinstance(event, TurnEnded):
                    return events
        return events

    events = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    read, edited, written, ran = [event.output for event in events if isinstance(event, ToolFinished)]
    assert read == "     1\tone"
    assert "two" in edited
    assert "new/b.txt" in written
    assert "two\nb\n" in ran
    shows_before = [READ] if engine == "polylect-acp" else []  # what Write replaces, for the diff
    assert [event.method for event in events if isinstance(event, HostCall)] == [
        *(READ, READ, WRITE, READ, *shows_before, WRITE),
        *("create_terminal", "wait_for_terminal_exit", "terminal_output", "release_terminal"),
    ]
    assert ((place.workspace / "a.txt").read_text(), (place.workspace / "new" / "b.txt").read_text()) == (
        "two\n",
        "b\n",
    )


def test_without_the_switch_nothing_is_offered(place: Place) -> None:
    (place.workspace / "a.txt").write_text("one\n")
    requested: list[bytes] = []

    async def main() -> None:
        tap = lambda way, data: requested.append(data)  # noqa: E731
        async with connect("polylect", tap=tap, **arguments(place, READ_AND_WRITE)) as agent:
            await agent.ask("go")

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert b"host_call" not in b"".join(requested)


@pytest.mark.parametrize("engine", ["polylect", "polylect-acp"])
@pytest.mark.parametrize("how", ["cancel", "leave", "kill"])
def test_a_turn_that_ends_early_leaves_no_command(place: Place, how: str, engine: str) -> None:
    sleepers = Sleepers(place)

    async def main() -> None:
        supplied = arguments(place, calls([("Bash", {"command": sleepers.command()})]))
        async with connect(engine, terminal=True, **supplied) as agent:
            turn = agent.prompt("go")
            running = asyncio.ensure_future(_read(turn))
            await asyncio.to_thread(sleepers.wait_until_started)
            if how == "cancel":
                await turn.cancel()
            elif how == "kill":
                os.kill(agent.pid, signal.SIGKILL)
            if how != "leave":
                await asyncio.to_thread(sleepers.wait_until_gone)
                await running
        await asyncio.to_thread(sleepers.wait_until_gone)
        running.cancel()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


CARELESS = """
import json, sys

def say(**event):
    print(json.dumps(event), flush=True)

say(type="ready", protocol="polylect-native", protocol_version="1.0", stream="s", session="x")
for line in sys.stdin:
    command = json.loads(line)
    kind, turn = command["type"], "t"
    refused = kind == "host_reply" and "refuse" in sys.argv
    if refused:
        open(sys.argv[2]).read()  # until the command runs
    failure = {"failure": {"code": "unknown_call", "message": "late", "owner": "host"}} if refused else {}
    if "ref" in command:
        say(type="reply", ref=command["ref"], **failure)
    if kind == "prompt":
        turn = command["turn"]
        say(type="turn_started", turn=turn)
        say(type="host_call", call="h1", method="create_terminal", params={"command": command["text"]}, turn=turn)
    elif kind == "cancel":
        say(type="turn_ended", reason="cancelled", turn=turn)
"""


@pytest.mark.parametrize("how", ["cancel", "refuse"])
def test_terminals_that_an_engine_leaves_are_ended(place: Place, how: str) -> None:
    """goose ends a cancelled turn and leaves its terminal. One that no engine waits for any more has no other owner."""
    sleepers = Sleepers(place)
    engine = place.folder / "careless.py"
    engine.write_text(CARELESS)
    begun = place.folder / "begun"
    os.mkfifo(begun)

    async def main() -> None:
        argv = [sys.executable, str(engine), how, str(begun)]
        where = {"cwd": str(place.workspace), "env": place.env}
        async with connect(argv, dialect="native", terminal=True, **where) as agent:
            turn = agent.prompt(sleepers.command())
            running = asyncio.ensure_future(_read(turn))
            await asyncio.to_thread(sleepers.wait_until_started)
            if how == "cancel":
                await agent.send(Cancel())
            else:
                await asyncio.to_thread(begun.write_text, "")
            await asyncio.to_thread(sleepers.wait_until_gone)
            running.cancel()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def _read(turn: Any) -> None:
    async for _ in turn:
        pass


def test_a_wire_without_such_calls_says_so(place: Place) -> None:
    async def main() -> None:
        async with connect("polylect-claude", files=True, cwd=str(place.workspace), env=place.env):
            pass

    with pytest.raises(Unsupported, match="no files and terminals"):
        asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_the_switches_are_true_or_false() -> None:
    wrong: Any = ["a.txt"]
    with pytest.raises(TypeError, match="files of connect is True or False"):
        connect("polylect", files=wrong)


def test_the_path_of_a_program_may_hold_a_space(place: Place) -> None:
    program = place.workspace / "my program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)

    async def work(services: ClientServices) -> None:
        assert (await run(services, command=str(program)))["output"] == "ran\n"
        assert (await run(services, command="./my program", args=["x"]))["output"] == "ran\n"

    serve(place, work)
