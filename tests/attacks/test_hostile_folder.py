"""A folder full of traps is opened in every way there is. Nothing in it runs, is imported or is loaded."""

import asyncio
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from engine_process import Engine, Place, launcher
from machine import PATIENCE
from polylect.host import EngineDied, connect
from polylect.host.sessions import list_sessions
from polylect.system.search_paths import absolute_entries, absolute_only, program_on

MODULES = (
    *("asyncio", "json", "tomllib", "msgspec", "httptools", "re", "random", "typing", "logging", "subprocess"),
    *("shutil", "tempfile", "difflib", "prompt_toolkit", "rich", "mcp", "sitecustomize", "usercustomize", "gc"),
)
"""Modules that are imported by us or by Python itself."""
PROGRAMS = ("claude", "omp", "pi", "aionrs", "wayland-core", "node", "bun", "python3", "rg", "bwrap", "bash", "git")
SCRIPT = '[[reply]]\ntext = "{prompt}!"\n'
ENGINES = ("polylect", "polylect-omp", "polylect-claude")
HOSTILE_VARIABLES = {
    "PYTHONPATH": ["", ".", "lib"],
    "PATH": ["", ".", "bin"],
    "LD_LIBRARY_PATH": ["", "."],
}
"""Entries that mean the working folder, as careless shell profiles leave them."""


class Trap(Place):
    """A workspace whose files tell when they are run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = folder / "sprung"
        bait = f"open({str(self.log)!r}, 'a').write(__name__ + chr(10))\n"
        for place in (self.workspace, self.workspace / "lib", self.workspace / "bin"):
            (place / "polylect").mkdir(parents=True, exist_ok=True)
            for name in ("polylect/__init__", "polylect/__main__", *MODULES):
                (place / f"{name}.py").write_text(bait)
            for name in PROGRAMS:
                program = place / name
                program.write_text(f"#!/bin/sh\necho {name} >> '{self.log}'\nexit 1\n")
                program.chmod(0o755)
        self.program = folder / "installed" / "polylect"
        self.program.parent.mkdir()
        self.program.write_text(launcher())
        self.program.chmod(0o755)

    @property
    def sprung(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    @property
    def careless(self) -> dict[str, str]:
        """The environment of somebody whose search paths hold the working folder."""
        own = self.env
        return {
            **own,
            **{
                name: os.pathsep.join([*entries, *filter(None, [own.get(name)])])
                for name, entries in HOSTILE_VARIABLES.items()
            },
            "PYTHONUSERBASE": "lib",
            "PYTHONPYCACHEPREFIX": "lib",
        }

    def polylect(self, *words: str) -> "subprocess.CompletedProcess[bytes]":
        """The installed program, in the hostile folder."""
        return subprocess.run(
            [str(self.program), *words],
            cwd=self.workspace,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    with Trap(tmp_path) as trap:
        yield trap


def script_of(trap: Trap) -> str:
    return trap.script(SCRIPT)[-1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("environment", ["env", "careless"])
def test_an_engine_of_ours_imports_nothing_from_its_workspace(trap: Trap, engine: str, environment: str) -> None:
    async def talk(env: Mapping[str, str]) -> str:
        async with connect(engine, cwd=trap.workspace, env=env, script=script_of(trap), provider="scripted") as agent:
            return (await agent.ask("hello")).text

    assert asyncio.run(asyncio.wait_for(talk(getattr(trap, environment)), PATIENCE)) == "hello!"
    assert trap.sprung == []


@pytest.mark.parametrize("engine", ENGINES)
def test_listing_sessions_imports_nothing_from_the_folder(trap: Trap, engine: str) -> None:
    async def cards() -> int:
        return len(await list_sessions(engine, cwd=trap.workspace, env=trap.careless))

    assert asyncio.run(asyncio.wait_for(cards(), PATIENCE)) == 0
    assert trap.sprung == []


@pytest.mark.parametrize("engine", ENGINES)
def test_polylect_run_imports_nothing_from_the_folder(trap: Trap, engine: str) -> None:
    done = trap.polylect("run", "hello", "--engine", engine, "--provider", "scripted", "--script", script_of(trap))
    assert trap.sprung == []
    assert (done.returncode, done.stdout) == (0, b"hello!\n"), done.stderr


def test_polylect_chat_imports_nothing_from_the_folder(trap: Trap) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [str(trap.program), "chat", "--provider", "scripted", "--script", script_of(trap)],
        cwd=trap.workspace, env={**trap.env, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        seen, deadline = b"", time.monotonic() + PATIENCE
        while b"\xe2\x80\xba" not in seen:  # the sign that asks for a prompt: the engine is there
            assert select.select([ours], [], [], deadline - time.monotonic())[0], seen
            seen += os.read(ours, 65536)
        assert trap.sprung == []
    finally:
        child.kill()
        child.wait()
        os.close(ours)


@pytest.mark.parametrize(
    "words",
    [
        *(["--version"], ["--help"], ["--config-path"], ["--list-sessions"], ["doctor"], ["models"], ["engines"]),
        *(["sessions"], ["sessions", "--here", "--json"], ["link", "claude", "linked"]),
        *(["--json-stream", "--provider", "scripted"], ["--mode", "rpc", "--provider", "scripted"]),
        ["--output-format", "stream-json", "--verbose", "-p", "hello", "--provider", "scripted"],
    ],
    ids=" ".join,
)
def test_no_command_of_ours_imports_or_runs_anything_from_the_folder(trap: Trap, words: list[str]) -> None:
    done = trap.polylect(*words)
    assert b"Traceback" not in done.stderr
    assert trap.sprung == []


def test_python_m_imports_nothing_but_a_package_of_our_name(trap: Trap) -> None:
    """Python imports `polylect` from the folder where `python -m polylect` is typed: docs/threat-model.md says so."""
    for place in (trap.workspace, trap.workspace / "lib"):
        for file in ("__init__", "__main__"):
            (place / "polylect" / f"{file}.py").unlink()
    done = trap.run("run", "hello", "--provider", "scripted", "--script", script_of(trap))
    assert (done.code, done.out) == (0, b"hello!\n"), done.errors
    assert trap.sprung == []


@pytest.mark.parametrize("engine", ["claude", "omp", "pi", "aionrs", "wayland-core"])
def test_an_engine_is_not_looked_for_in_the_folder_it_is_to_work_in(
    trap: Trap, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", ":.:bin")
    monkeypatch.setenv("HOME", str(trap.folder))
    monkeypatch.chdir(trap.workspace)
    if program_on("/usr/local/bin", engine):
        pytest.skip(f"{engine} is installed on this machine")
    env = {**trap.careless, "PATH": ":.:bin"}
    with pytest.raises(EngineDied, match="cannot be started: No such file"):
        asyncio.run(asyncio.wait_for(_start(engine, trap.workspace, env), PATIENCE))
    assert trap.sprung == []


async def _start(engine: str, cwd: Path, env: Mapping[str, str]) -> None:
    async with connect(engine, cwd=cwd, env=env):
        pass


def test_a_command_line_by_name_is_not_looked_for_in_the_folder(trap: Trap) -> None:
    async def start() -> None:
        async with connect(["aionrs", "--json-stream"], dialect="jsonstream", cwd=trap.workspace, env=trap.careless):
            pass

    with pytest.raises(EngineDied, match="cannot be started: No such file"):
        asyncio.run(asyncio.wait_for(start(), PATIENCE))
    assert trap.sprung == []


def test_an_interpreter_named_by_an_engines_first_line_is_not_looked_for_in_the_folder(trap: Trap) -> None:
    engine = trap.folder / "engine"
    engine.write_text("#!/usr/bin/env node\n")
    engine.chmod(0o755)

    async def start() -> None:
        async with connect([engine], dialect="jsonstream", cwd=trap.workspace, env={**trap.careless, "PATH": ".:bin"}):
            pass

    with pytest.raises(EngineDied):
        asyncio.run(asyncio.wait_for(start(), PATIENCE))
    assert trap.sprung == []


def test_commands_do_not_get_the_folder_on_their_search_path(trap: Trap) -> None:
    script = """
[[reply]]
when.step = 1
say = [{ call = "Bash", id = "c1", args = { command = "echo $PATH; git --version" } }]

[[reply]]
text = "done"
"""
    env = {**trap.env, "PATH": os.pathsep.join(["", ".", "bin", trap.env["PATH"]])}
    argv = [str(trap.program), "--json-stream", "--force", *trap.script(script)]
    trap.keep(engine := Engine(argv, trap.workspace, env))
    engine.send({"type": "message", "msg_id": "m1", "content": "go"})
    engine.until("stream_end")
    assert trap.sprung == []


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("", ""),
        (":", ""),
        (".", ""),
        ("bin", ""),
        ("/usr/bin", "/usr/bin"),
        (":/usr/bin:.:/bin:", "/usr/bin:/bin"),
        ("~/bin:/bin", "/bin"),
    ],
)
def test_only_absolute_entries_stay(value: str, kept: str) -> None:
    assert absolute_entries(value) == kept
    assert absolute_only({"PATH": value, "LANG": "C"}) == ({"PATH": kept} if kept else {}) | {"LANG": "C"}


def test_our_own_program_is_found_where_it_is_installed() -> None:
    """-P takes away the working folder and nothing else: an editable install is still found."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "polylect", "--version"],
        cwd="/",
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.startswith(b"polylect ")


# Programs of the user's own that look into their working folder.


SERVER = """
[mcp.servers.loads_from_its_folder]
command = {python!r}
args = ["-c", "import json, asyncio"]
[mcp.servers.by_its_first_line]
command = {script!r}
"""


def test_a_server_of_the_users_own_settings_loads_nothing_from_the_workspace(trap: Trap) -> None:
    script = trap.folder / "server"
    script.write_text("#!/usr/bin/env bash\n")
    script.chmod(0o755)
    trap.configure(SERVER.format(python=sys.executable, script=str(script)))
    env = {**trap.env, "PATH": f"{trap.workspace / 'bin'}{os.pathsep}{trap.env['PATH']}"}
    words = ["run", "hello", "--provider", "scripted", "--script", script_of(trap)]
    done = subprocess.run(
        [str(trap.program), *words],
        cwd=trap.workspace, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"hello!\n"), done.stderr
    assert trap.sprung == []


def test_an_engine_in_the_project_is_not_found_by_its_name(trap: Trap) -> None:
    env = {**trap.env, "PATH": f"{trap.workspace / 'bin'}{os.pathsep}{trap.env['PATH']}"}
    for words in (["engines"], ["run", "hello", "--engine", "claude"], ["run", "hello", "--engine", "omp"]):
        subprocess.run(
            [str(trap.program), *words],
            cwd=trap.workspace, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert trap.sprung == []
