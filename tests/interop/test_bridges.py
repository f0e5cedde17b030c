"""Bridges between real programs: hosts of one vendor before engines of another, on a model on loopback."""

import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interop import claude_hosts, omp_peers
from interop.acp_clients import Client, Stage, choose, processes, python_client, story, words
from interop.claude_hosts import play
from interop.claude_model import WAIT, Model, Step, text, use
from interop.claude_sdk import blocks, marks, result, sdk

pytestmark = marks
Talk = Callable[[Stage], Awaitable[None]]
ENGINES = ("claude", "omp 13", "pi", "polylect")
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
    "PI_OFFLINE": "1",
}


class Behind(Stage):
    """A stage whose agent is a bridge to another engine."""

    def __init__(self, place: Path, model: Model, engine: str) -> None:
        super().__init__(place, model)
        self.engine = engine
        if self.omp:
            omp_peers.configure(omp_peers.peer(self.omp), model.url, place)

    @property
    def omp(self) -> str:
        """The version of omp or pi; empty for another engine."""
        return self.engine if self.engine == "pi" else self.engine.removeprefix("omp ") if " " in self.engine else ""

    @property
    def env(self) -> dict[str, str]:
        binary = Path(os.environ["POLYLECT_INTEROP_CLAUDE"]) / "claude_agent_sdk" / "_bundled"
        agent = {"PI_CODING_AGENT_DIR": str(self.place / "agent"), "CLAUDE_CONFIG_DIR": str(self.place / "claude")}
        return {**super().env, **QUIET, **agent, "PATH": f"{binary}{os.pathsep}{os.environ['PATH']}"}

    def words(self, front: str) -> list[str]:
        """The command line of the bridge."""
        start = [sys.executable, "-m", "polylect", "bridge", "--front", front]
        if not self.omp:
            return [*start, "--engine", self.engine]
        peer = omp_peers.peer(self.omp)
        engine = shlex.join([*peer.argv, "--mode", "rpc", "--model", "mock/one"])
        return [*start, "--engine", engine, "--wire", f"omp:{peer.version}"]

    def launcher(self, *flags: str) -> str:
        path = self.place / "bridge"
        path.write_text(f"#!/bin/sh\nexec {shlex.join([*self.words('acp'), *flags])}\n")
        path.chmod(0o755)
        return str(path)

    def program(self) -> Path:
        """What the Agent SDK takes for claude."""
        path = self.place / "claude-bridge"
        path.write_text(f'#!/bin/sh\nexec {shlex.join(self.words("claude"))} "$@"\n')
        path.chmod(0o755)
        return path


def run(place: Path, engine: str, script: dict[str, list[Step]], talk: Callable[[Behind], Awaitable[None]]) -> None:
    async def main(model: Model) -> None:
        await talk(Behind(place, model, engine))
        assert processes(place) == []

    play(script, main)


def bash(engine: str, command: str) -> list[Step]:
    name = "bash" if engine.startswith(("omp", "pi")) else "Bash"
    return [[text("So."), use("c1", name, command=command, description="d")], [text("That was it.")]]


async def opened(client: Client, stage: Stage) -> str:
    await client.request("initialize", protocolVersion=1)
    return str((await client.request("session/new", cwd=str(stage.work), mcpServers=[]))["sessionId"])


async def prompt(client: Client, session: str, said: str) -> str:
    return str((await client.request("session/prompt", sessionId=session, prompt=words(said)))["stopReason"])


@pytest.mark.parametrize("engine", ENGINES)
def test_the_official_client_of_acp_drives_it(engine: str, tmp_path: Path) -> None:
    async def talk(stage: Behind) -> None:
        async with python_client(stage, choose("allow_once")) as client:
            session = await opened(client, stage)
            assert await prompt(client, session, "HELLO") == "end_turn"
            assert "agent_message: Hi there." in story(client.updates)
            assert await prompt(client, session, "MAKE") == "end_turn"
            assert story(client.updates)[-1] == "agent_message: That was it."
        assert (stage.work / "made").exists()

    run(tmp_path, engine, {"HELLO": [[text("Hi there.")]], "MAKE": bash(engine, "touch made")}, talk)


@pytest.mark.parametrize("engine", ["claude", "polylect"])
def test_a_call_that_is_denied_does_not_run(engine: str, tmp_path: Path) -> None:
    """omp 13 and pi ask nobody."""

    async def talk(stage: Behind) -> None:
        async with python_client(stage, choose("reject_once")) as client:
            session = await opened(client, stage)
            assert await prompt(client, session, "MAKE") == "end_turn"
        assert not (stage.work / "made").exists()

    run(tmp_path, engine, {"MAKE": bash(engine, "touch made")}, talk)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_turn_is_cancelled(engine: str, tmp_path: Path) -> None:
    async def talk(stage: Behind) -> None:
        async with python_client(stage, choose("allow_once")) as client:
            session = await opened(client, stage)
            requested = asyncio.create_task(prompt(client, session, "LONG"))
            while not client.updates or "agent_message" not in str(client.updates):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await client.notify("session/cancel", sessionId=session)
            assert await requested == "cancelled"

    run(tmp_path, engine, {"LONG": [[text("I begin."), WAIT]]}, talk)


@pytest.mark.parametrize("engine", ["polylect", "polylect-omp", "omp 13"])
def test_the_agent_sdk_drives_it(engine: str, tmp_path: Path) -> None:
    async def talk(stage: Behind) -> None:
        env = {**claude_hosts.env(stage.place, stage.model), **stage.env}
        options = sdk.ClaudeAgentOptions(cli_path=stage.program(), cwd=stage.work, env=env)
        received = [message async for message in sdk.query(prompt="HELLO", options=options)]
        assert sdk.TextBlock("Hi there.") in blocks(received)
        assert (result(received).subtype, result(received).result) == ("success", "Hi there.")

    run(tmp_path, engine, {"HELLO": [[text("Hi there.")]]}, talk)
