"""A session has the name that the program likes, on every engine, and is resumed by it."""

import asyncio
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place, launcher
from machine import PATIENCE
from peers.programs import path_with
from polylect.host import NoSuchSession, NotConfigured, SessionExists, SessionInUse, connect, list_sessions
from polylect.host.sync import connect as sync_connect
from thoroughness import one_in

pytestmark = pytest.mark.long

SCRIPT = '[[reply]]\ntext = "you said {prompt}"\n'
OURS = ("polylect", "polylect-omp", "polylect-claude")
LINKED = ("claude", "omp", "pi")
"""Programs in whose place our engine is started, with their flags."""
NAMES = ("fix-login", "Fix the login, now!", "a/b", "../up")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in LINKED:
        (folder / name).write_text(launcher())
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT)
    place.configure(f'[default]\nprovider = "scripted"\nscript = "{path}"\n')
    return place


def options(place: Place) -> dict[str, Any]:
    return {"cwd": str(place.workspace), "env": place.env}


@pytest.mark.parametrize(("engine", "name"), one_in(3, [*product((*OURS, *LINKED), NAMES)]))
def test_a_session_is_resumed_by_the_name_that_it_was_given(place: Place, engine: str, name: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            async with connect(engine, session=name, **options(place)) as agent:
                result = await agent.ask("one")
                assert (agent.session_id, agent.session, result.session_id) == (name, name, name)
            async with connect(engine, resume=name, **options(place)) as agent:
                result = await agent.ask("two")
                assert (agent.session_id, result.session_id) == (name, name)
        [log] = place.sessions.glob("*/log.jsonl")
        assert [text for text in ('"one"', '"two"') if text in log.read_text()] == ['"one"', '"two"']

    asyncio.run(main())


@pytest.mark.parametrize("engine", [*OURS, *LINKED])
def test_a_name_is_given_once(place: Place, engine: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            async with connect(engine, session="fix login", **options(place)) as agent:
                await agent.ask("one")
            with pytest.raises(SessionExists, match="resume='fix login'"):
                async with connect(engine, session="fix login", **options(place)):
                    pass

    asyncio.run(main())


@pytest.mark.parametrize("name", ["fix-login", "latest"])
@pytest.mark.parametrize("engine", [*OURS, "polylect-jsonstream", *LINKED])
def test_a_session_that_is_not_there_can_be_begun_instead(place: Place, engine: str, name: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(NoSuchSession) as caught:
                async with connect(engine, resume=name, **options(place)):
                    pass
            assert "--" not in str(caught.value)

    asyncio.run(main())


@pytest.mark.parametrize("engine", [*OURS, "polylect-jsonstream"])
def test_a_session_has_one_engine_at_a_time(place: Place, engine: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            async with connect(engine, session="fix login", **options(place)) as agent:
                await agent.ask("one")
                with pytest.raises(SessionInUse):
                    async with connect(engine, resume="fix login", **options(place)):
                        pass

    asyncio.run(main())


@pytest.mark.parametrize("engine", [*OURS, "polylect-jsonstream"])
def test_an_engine_without_a_model_says_what_to_give(place: Place, engine: str) -> None:
    place.configure("")
    env = {name: value for name, value in place.env.items() if name != "POLYLECT_PROVIDER"}

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(NotConfigured, match="give provider=; provider='scripted' plays a script"):
                async with connect(engine, cwd=place.workspace, env=env):
                    pass

    asyncio.run(main())


@pytest.mark.parametrize("engine", [*OURS, *LINKED])
def test_the_last_session_is_resumed_without_a_name(place: Place, engine: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            async with connect(engine, **options(place)) as agent:
                await agent.ask("one")
                session = agent.session_id
            async with connect(engine, resume="latest", **options(place)) as agent:
                assert (await agent.ask("two")).session_id == session

    asyncio.run(main())


@pytest.mark.parametrize("engine", ["polylect-omp", "pi"])
def test_a_running_agent_goes_back_to_a_session_by_its_name(place: Place, engine: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), connect(engine, session="the first", **options(place)) as agent:
            await agent.ask("one")
            await agent.new_session()
            second = (await agent.ask("two")).session_id
            assert second not in ("", "the first")
            await agent.resume("the first")
            assert agent.session_id == "the first"
            await agent.resume(second)
            assert agent.session_id == second

    asyncio.run(main())


@pytest.mark.parametrize(("engine", "name"), one_in(3, [*product(("aionrs", "wayland-core"), NAMES)]))
def test_engines_of_others_that_take_names(tmp_path: Path, monkeypatch: Any, engine: str, name: str) -> None:
    monkeypatch.setenv("PATH", path_with(engine, tmp_path / "bin"))
    (tmp_path / "work").mkdir()

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            async with connect(engine, session=name, cwd=tmp_path / "work") as agent:
                assert (await agent.ask("say one")).session_id == name
            async with connect(engine, resume=name, cwd=tmp_path / "work") as agent:
                assert (await agent.ask("say two")).session_id == name

    asyncio.run(main())


@pytest.mark.parametrize("engine", one_in(2, [*OURS, *LINKED]))
def test_run_takes_and_tells_the_name(place: Place, engine: str) -> None:
    words = ("--engine", engine, "--output", "json")
    first = json.loads(place.run("run", "one", *words, "--session-id", "fix login").out)
    second = json.loads(place.run("run", "two", *words, "--resume", "fix login").out)
    assert (first["session_id"], second["session_id"]) == ("fix login", "fix login")
    assert second["exit_code"] == 0


def test_the_agent_without_asyncio_has_it_too(place: Place) -> None:
    with sync_connect("polylect-claude", session="fix login", **options(place)) as agent:
        result = agent.ask("one")
        assert (agent.session_id, agent.session, result.session_id) == ("fix login",) * 3


def test_a_name_that_is_an_id_is_the_same_session_on_every_wire_of_our_engine(place: Place) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            async with connect("polylect-claude", session="fix-login", **options(place)) as agent:
                await agent.ask("one")
            for engine in OURS:
                async with connect(engine, resume="fix-login", **options(place)) as agent:
                    assert (await agent.ask("two")).session_id == "fix-login"

    asyncio.run(main())


def test_a_name_that_is_taken_is_refused_where_the_engine_makes_ids_and_no_files(place: Place) -> None:
    async def talk(**which: str) -> str:
        options = {"provider": "scripted", "cwd": place.workspace, "env": place.env}
        async with connect("polylect-acp", **options, **which) as agent:
            return (await agent.ask("hello")).text

    asyncio.run(talk(session="my talk"))
    with pytest.raises(SessionExists, match="resume='my talk'"):
        asyncio.run(talk(session="my talk"))
    assert asyncio.run(talk(resume="my talk"))
    with pytest.raises(NoSuchSession):
        asyncio.run(talk(resume="no such talk"))
    [card] = asyncio.run(list_sessions("polylect-acp", cwd=place.workspace, env=place.env))
    assert (card.name, card.first) == ("my talk", "hello")
