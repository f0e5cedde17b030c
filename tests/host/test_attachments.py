"""Files that go with a prompt."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from engine_process import PATIENCE, Place
from polylect.embed import open_engine
from polylect.host import connect
from polylect.providers.scripted import Scripted


def test_files_are_meant_from_where_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "notes.md").write_text("buy bolts")
    monkeypatch.chdir(tmp_path)

    async def talk() -> str:
        engine = open_engine(Scripted.in_order("seen"), workspace=tmp_path / "work")
        async with asyncio.timeout(PATIENCE), engine as agent:
            return (await agent.ask("Look", files=[Path("notes.md")])).text

    assert asyncio.run(talk()) == "seen"


def test_a_picture_goes_over_a_wire_that_has_only_pictures(tmp_path: Path) -> None:
    place, picture = Place(tmp_path), tmp_path / "dot.png"
    picture.write_bytes(b"no picture")
    sent = bytearray()

    def tap(way: Literal["in", "out"], data: bytes) -> None:
        sent.extend(data if way == "in" else b"")

    async def talk() -> None:
        how: dict[str, Any] = {"cwd": place.workspace, "env": place.env, "provider": "scripted"}
        async with asyncio.timeout(PATIENCE), connect("polylect-omp", tap=tap, **how) as agent:
            assert (agent.can("images"), agent.can("files")) == (True, False)
            assert "image" in str((await agent.prompt("Look", files=[picture])).failure)

    asyncio.run(talk())
    assert b"bm8gcGljdHVyZQ==" in sent


def test_there_is_no_word_that_an_engine_in_this_process_lacks_but_what_is_none() -> None:
    async def talk() -> None:
        async with open_engine(Scripted.in_order("hi")) as agent:
            assert agent.can("files", "images", "steer", "query:sessions")
            with pytest.raises(LookupError, match="there is no word 'telepathy'"):
                agent.can("telepathy")

    asyncio.run(talk())
