"""What an engine leaves behind, and engines that are gone while something else keeps their pipes."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from engine_process import eventually
from machine import PATIENCE, within
from peers.programs import path_with
from polylect.host import Agent, EngineDied, SessionInUse, ToolStarted, allow_all, connect

READY = '{"type":"ready","version":"0.2.0","session_id":"s","capabilities":{}}'


def child(code: str, tmp_path: Path) -> Agent:
    return connect([sys.executable, "-c", code], dialect="jsonstream", cwd=str(tmp_path))


def test_an_engine_that_is_gone_is_noticed_though_its_child_keeps_its_stdout(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        f"print('{READY}', flush=True)\nsys.stdin.readline()\nos._exit(3)"
    )

    async def talk() -> None:
        async with child(code, tmp_path) as agent:
            with within(7.5), pytest.raises(EngineDied) as caught:
                await agent.ask("hello")
            assert caught.value.code == 3

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are found under /proc")
def test_what_an_engine_started_and_sent_away_ends_with_it_p1(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        "away = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        f"open({str(mark)!r}, 'w').write(str(away.pid))\n"
        f"print('{READY}', flush=True)\nsys.stdin.read()"
    )

    async def talk() -> None:
        async with child(code, tmp_path):
            pass

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))
    eventually(lambda: _gone(int(mark.read_text())))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are found under /proc")
@pytest.mark.parametrize("command", ["setsid sleep 600 & echo $! > pid; wait", "sleep 600 & echo $! > pid; wait"])
def test_what_runs_when_an_engine_is_told_to_stop_ends_with_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aionrs kills the shell of its command, and what that had started belongs to nobody then."""
    monkeypatch.setenv("PATH", path_with("aionrs", tmp_path / "bin"))
    mark = tmp_path / "pid"

    async def talk() -> None:
        async with connect("aionrs", cwd=tmp_path, approve=allow_all) as agent:
            async for event in agent.prompt(f"run {command}"):
                if isinstance(event, ToolStarted):
                    await asyncio.to_thread(eventually, lambda: mark.exists() and mark.read_text().strip())
                    break

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))
    eventually(lambda: _gone(int(mark.read_text())))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are found under /proc")
def test_what_an_engine_that_is_killed_has_left_is_ended_p1(tmp_path: Path) -> None:
    """claude 2.1.197 and pi 0.73 run commands in sessions of their own, which are below nobody once they are dead."""
    mark = tmp_path / "pid"
    code = (
        "import os, signal, subprocess, sys\n"
        f"print('{READY}', flush=True)\nsys.stdin.readline()\n"
        "away = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        f"open({str(mark)!r}, 'w').write(str(away.pid))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )

    async def talk() -> None:
        async with child(code, tmp_path) as agent:
            with pytest.raises(EngineDied):
                await agent.ask("hello")
            await asyncio.to_thread(eventually, lambda: _gone(int(mark.read_text())))

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are found under /proc")
def test_what_an_engine_leaves_that_ends_with_its_input_is_ended_when_its_host_is_killed_p1(tmp_path: Path) -> None:
    engine, command = tmp_path / "engine", tmp_path / "pid"
    engine.write_text(f"#!/bin/sh\nsetsid sleep 600 &\necho $! > '{command}'\necho '{READY}'\nread line\n")
    engine.chmod(0o755)
    host = (
        "import asyncio\nfrom polylect.host import connect\n"
        "async def main():\n"
        f"    async with connect([{str(engine)!r}], dialect='jsonstream') as agent:\n"
        "        print(agent.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", host], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        pids = [int(process.stdout.readline()), int(command.read_text())]
        process.kill()
    try:
        eventually(lambda: all(map(_gone, pids)))
    finally:
        with suppress(ProcessLookupError):
            os.kill(pids[1], signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are found under /proc")
@pytest.mark.parametrize("in_thread", [False, True])
def test_an_engine_is_terminated_with_its_family_when_its_host_is_killed_p1(in_thread: bool, tmp_path: Path) -> None:
    """As claude, aionrs and wayland-core do, this engine goes on with a turn though its input has ended. As aionrs
    does, it leaves its command behind when it ends."""
    engine, program, mark = tmp_path / "engine", tmp_path / "engine.py", tmp_path / "mark"
    command = tmp_path / "pid"
    engine.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{program}'\n")  # the path of Python may hold a space
    engine.chmod(0o755)
    program.write_text(
        "import signal, subprocess, sys\n"
        "away = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"open({str(command)!r}, 'w').write(str(away.pid))\n"
        f"def leave(*_):\n    open({str(mark)!r}, 'w').write('terminated')\n    sys.exit()\n"
        f"signal.signal(signal.SIGTERM, leave)\nprint('{READY}', flush=True)\n"
        "while True:\n    signal.pause()\n"
    )
    host = (
        "import asyncio, threading\nfrom polylect.host import connect\n"
        "async def main():\n"
        f"    async with connect([{str(engine)!r}], dialect='jsonstream') as agent:\n"
        "        print(agent.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        f"{'threading.Thread(target=asyncio.run, args=[main()]).start()' if in_thread else 'asyncio.run(main())'}\n"
    )
    with subprocess.Popen([sys.executable, "-c", host], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        process.kill()
    pids = [pid, int(command.read_text())]
    try:
        eventually(lambda: all(map(_gone, pids)))
    finally:
        for each in pids:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
    assert mark.read_text() == "terminated"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are found under /proc")
def test_nothing_watches_over_an_engine_that_was_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_with("aionrs", tmp_path / "bin"))

    async def talk() -> tuple[set[str], set[str]]:
        async with connect("aionrs", cwd=tmp_path) as agent:
            running = _children()
            assert str(agent.pid) in running
        return running, _children()

    before = _children()
    running, after = asyncio.run(asyncio.wait_for(talk(), PATIENCE))
    assert (len(running - before), after - before) == (2, set()), "the engine and its watcher"


def test_the_session_of_a_host_that_is_killed_is_free_soon(tmp_path: Path) -> None:
    """Our engine stops its turn when nobody is there any more, so that another program can go on with the session."""
    script = tmp_path / "script.toml"
    script.write_text(
        '[[reply]]\nwhen.prompt = "go"\nsay = ["I wait.", { hang = true }]\n\n[[reply]]\ntext = "Here."\n'
    )
    options = f"provider='scripted', script={str(script)!r}, cwd={str(tmp_path)!r}"
    host = (
        "import asyncio\nfrom polylect.host import TextDelta, connect\n"
        "async def main():\n"
        f"    async with connect('polylect', {options}, session='one') as agent:\n"
        "        async for event in agent.prompt('go'):\n"
        "            if isinstance(event, TextDelta):\n"
        "                print('waiting', flush=True)\n"
        "asyncio.run(main())\n"
    )
    env = {**os.environ, "POLYLECT_HOME": str(tmp_path / "state")}
    with subprocess.Popen([sys.executable, "-c", host], stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout
        assert process.stdout.readline() == "waiting\n"
        process.kill()

    async def go_on() -> str:
        while True:
            try:
                async with connect(
                    "polylect", provider="scripted", script=script, cwd=tmp_path, resume="one", env=env
                ) as agent:
                    return (await agent.ask("again")).text
            except SessionInUse:  # it is being ended
                await asyncio.sleep(0)

    with within(5.0):
        assert asyncio.run(asyncio.wait_for(go_on(), PATIENCE)) == "Here."


def _children() -> set[str]:
    """The processes that this one has started."""
    return {pid for tasks in Path("/proc/self/task").glob("*/children") for pid in tasks.read_text().split()}


def _gone(pid: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
