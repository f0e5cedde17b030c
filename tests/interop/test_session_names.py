"""Sessions of real engines have the name that a program likes, and are resumed by it."""

import asyncio
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from interop import omp_peers
from interop.claude_model import Model, Step, text
from interop.script_engines import _ENVIRONMENT, MODEL, READY_WITHIN
from machine import PATIENCE
from polylect.host import NoSuchSession, SessionExists, connect, list_sessions

NAME = "Fix the login"
SCRIPT: dict[str, list[Step]] = {word: [[text(f"You said {word}.")]] for word in ("ONE", "TWO", "THREE")}


@pytest.mark.parametrize("engine", ["claude", "omp 18", "omp 18.3", "pi", "pi 0.87", "pi 1.5"])
def test_a_session_is_resumed_by_its_name(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with Model(SCRIPT) as model:
            async with asyncio.timeout(3 * PATIENCE):
                options = _options(engine, model, tmp_path, monkeypatch)
                name = engine.split()[0]
                with pytest.raises(NoSuchSession):
                    async with connect(name, resume=NAME, **options):
                        pass
                async with connect(name, session=NAME, **options) as agent:
                    assert (await agent.ask("ONE")).session_id == NAME
                with pytest.raises(SessionExists):
                    async with connect(name, session=NAME, **options):
                        pass
                async with connect(name, resume=NAME, **options) as agent:
                    before = len(model.asked)
                    result = await agent.ask("TWO")
                    assert (agent.session_id, result.session_id) == (NAME, NAME)
                    assert "ONE" in str(model.asked[before:])
                [card] = await list_sessions(name, cwd=options["cwd"], env=options["env"])
                assert (card.first, card.messages) == ("ONE", 4)
                async with connect(name, resume=card.id, **options) as agent:
                    assert agent.settings["session"] == card.id
                async with connect(name, resume="latest", **options) as agent:
                    before = len(model.asked)
                    await agent.ask("THREE")
                    assert "ONE" in str(model.asked[before:])

    asyncio.run(main())


def _options(engine: str, model: Model, place: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How `connect` finds and starts it by its name."""
    programs, work = place / "bin", place / "work"
    programs.mkdir()
    work.mkdir()
    env = {**_ENVIRONMENT, "HOME": str(place), "POLYLECT_HOME": str(place / "state")}
    around: dict[str, Any] = {"cwd": str(work), "ready_within": READY_WITHIN}
    if engine == "claude":
        argv: tuple[str, ...] = (f"{os.environ['POLYLECT_INTEROP_CLAUDE']}/claude_agent_sdk/_bundled/claude",)
        env |= {"ANTHROPIC_BASE_URL": model.url, "CLAUDE_CONFIG_DIR": str(place / "claude")}
        around["model"] = MODEL
    else:
        peer = omp_peers.peer(engine.removeprefix("omp "))
        omp_peers.configure(peer, model.url, place)
        argv = peer.argv
        env["PI_CODING_AGENT_DIR"] = str(place / "agent")
        around["model"] = "mock/one"
    launcher = programs / engine.split()[0]
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return {**around, "env": {**env, "PATH": os.environ["PATH"]}}
