"""A host that starts the process itself: in a container, on another machine, or here."""

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from engine_process import Place
from machine import PATIENCE
from polylect.host import EngineDied, connect
from polylect.host.process import Child


def test_a_host_can_start_the_process_itself(tmp_path: Path) -> None:
    requested: list[tuple[Sequence[str], str]] = []

    def spawn(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> Child:
        requested.append((argv, cwd))
        pipe, around = subprocess.PIPE, ["env", "FROM=elsewhere", *argv]
        return subprocess.Popen(
            around, bufsize=0, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )

    async def talk() -> None:
        place = Place(tmp_path)
        script = place.script('[[reply]]\ntext = "{prompt}!"\n')[-1]
        async with connect("polylect", cwd=str(tmp_path), env=place.env, script=script, spawn=spawn) as agent:
            assert (await agent.ask("hello")).text == "hello!"
            assert agent.pid > 0

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))
    ((argv, cwd),) = requested
    assert "--native" in argv
    assert cwd == str(tmp_path)


def test_a_process_that_cannot_be_started_by_the_host_is_told_as_any_other(tmp_path: Path) -> None:
    def spawn(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> Child:
        raise FileNotFoundError(2, "no such container", "box")

    async def talk() -> None:
        with pytest.raises(EngineDied, match="polylect cannot be started: no such container: box"):
            async with connect("polylect", cwd=str(tmp_path), spawn=spawn):
                pass

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))
