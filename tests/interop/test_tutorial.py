"""docs/tutorial.md prints what the page says, and its host, as it stands there, drives the real claude and pi."""

import asyncio
import os
import shlex
import sys
from pathlib import Path

import pytest

from interop import omp_peers
from interop.claude_model import Model, Step, text, use
from interop.script_engines import _ENVIRONMENT, MODEL
from machine import PATIENCE
from test_docs_pages import TUTORIAL_BLOCKS, follow_tutorial

FILES = {name: content for kind, name, _, content in TUTORIAL_BLOCKS if kind == "file"}
"""Of `host.py` the last one, which is the whole program."""
REPAIRED = FILES["till.py"].replace(" + 1", "")
REPORT = '{"files": ["till.py"], "risk": 1}'


def script(engine: str, work: Path) -> dict[str, list[Step]]:
    """What the model of the page does, in the tools of the engine."""
    path = str(work / "till.py")
    if engine == "claude":
        read, write = use("r", "Read", file_path=path), use("w", "Write", file_path=path, content=REPAIRED)
    else:
        read, write = use("r", "read", path=path), use("w", "write", path=path, content=REPAIRED)
    run = use("b", "Bash" if engine == "claude" else "bash", command="python3 till.py", description="Try it")
    steps = [[text("I look at it."), read], [text("I take that out."), write], [text("I try it."), run]]
    return {"Repair": [*steps, [text("It prints 5 now.")]], "JSON Schema": [[text(REPORT)]]}


PRINTED = {
    "claude": """\
I look at it.
[Read: ok]
I take that out.
[Write: ok]
I try it.
python3 till.py? [y/N]\x20
[Bash: ok]
It prints 5 now.
""",
    "pi": """\
I look at it.
[read: ok]
I take that out.
[write: ok]
I try it.
[bash: ok]
It prints 5 now.
""",
}


def test_all_of_the_tutorial_prints_what_the_page_says(tmp_path: Path) -> None:
    follow_tutorial(tmp_path, TUTORIAL_BLOCKS)


@pytest.mark.parametrize("engine", PRINTED)
def test_the_host_of_the_tutorial_drives_it(engine: str, tmp_path: Path) -> None:
    work = tmp_path / "till"
    work.mkdir()
    for name, content in FILES.items():
        (work / name).write_text(content)

    async def main() -> None:
        async with asyncio.timeout(3 * PATIENCE), Model(script(engine, work)) as model:
            env = installed(engine, model, tmp_path)
            assert await run(engine, work, env, "Repair till.py", "--session", "tuesday") == PRINTED[engine]
            printed = await run(engine, work, env, "What did you change?", "--resume", "tuesday", "--report")
            assert printed == "files: till.py\nrisk: 1\n"
            assert "I take that out." in str(model.asked[-1])

    asyncio.run(main())
    assert (work / "till.py").read_text() == REPAIRED


async def run(engine: str, work: Path, env: dict[str, str], *args: str) -> str:
    """What the host prints, and what it says on stderr. To each question the answer is yes."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore:pi never asks", "host.py", *args, "--engine", engine, "--real"),
        cwd=work,
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    return (await process.communicate(b"y\n"))[0].decode()


def installed(engine: str, model: Model, place: Path) -> dict[str, str]:
    """The environment of somebody who has the engine on PATH, with a model of ours behind it."""
    env = {**_ENVIRONMENT, "HOME": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    if engine == "claude":
        argv: tuple[str, ...] = (f"{os.environ['POLYLECT_INTEROP_CLAUDE']}/claude_agent_sdk/_bundled/claude",)
        env |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_MODEL": MODEL, "CLAUDE_CONFIG_DIR": str(place / "claude")}
    else:
        peer = omp_peers.peer(engine)
        omp_peers.configure(peer, model.url, place)
        argv = (*peer.argv, "--model", "mock/one")
        env["PI_CODING_AGENT_DIR"] = str(place / "agent")
    launcher = place / "bin" / engine
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
    launcher.chmod(0o755)
    return {**env, "PATH": f"{launcher.parent}{os.pathsep}{env['PATH']}"}
