"""Version 2 of ACP with real programs: the official TypeScript SDK drives polylect, polylect drives agents.

The client of the SDK has its own types for every message, and drops or refuses what does not fit them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from interop.acp_clients import Client, Json, Refused, Stage, choose, typescript_client, words
from interop.claude_hosts import play
from interop.claude_model import WAIT, Model, Step, text, thinking, use

pytestmark = pytest.mark.interop
TOUCH = use("c1", "Bash", command="touch made; echo out", description="make it")
MAKE: dict[str, list[Step]] = {"MAKE": [[text("I make it."), TOUCH], [text("That was it.")]]}
HELLO: dict[str, list[Step]] = {"HELLO": [[thinking("hm"), text("Hi there.")]]}
Talk = Callable[[Stage, Client], Awaitable[None]]


def run(place: Path, script: dict[str, list[Step]], talk: Talk, kind: str = "allow_once") -> None:
    """A conversation with the SDK's client, after which all that we wrote is held against the schema."""

    async def main(model: Model) -> None:
        stage = Stage(place, model, 2)
        async with typescript_client(stage, choose(kind)) as client:
            await talk(stage, client)
        stage.check()

    play(script, main)


async def opened(client: Client, stage: Stage) -> str:
    info = {"name": "driver", "version": "1"}
    result = await client.request("initialize", protocolVersion=2, info=info, capabilities={})
    assert result["protocolVersion"] == 2
    return str((await client.request("session/new", cwd=str(stage.work), mcpServers=[]))["sessionId"])


async def prompt(client: Client, session: str, said: str) -> str:
    """The id of the message."""
    return str((await client.request("session/prompt", sessionId=session, prompt=words(said)))["messageId"])


async def idle(client: Client, session: str) -> Json:
    """The end of the turn; bounded by the whole conversation."""
    while not (ends := [one for one in of(client, "state_update", session) if one["state"] == "idle"]):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return ends[-1]


def of(client: Client, kind: str, session: str) -> list[Any]:
    return [update for owner, update in client.updates if owner == session and update["sessionUpdate"] == kind]


def test_a_text_is_asked_and_answered(tmp_path: Path) -> None:
    async def talk(stage: Stage, client: Client) -> None:
        session = await opened(client, stage)
        message = await prompt(client, session, "HELLO")
        end = await idle(client, session)
        assert (end["stopReason"], end["usage"]["totalTokens"]) == ("end_turn", 17)
        assert [one["messageId"] for one in of(client, "user_message", session)] == [message]
        said = [one["content"]["text"] for one in of(client, "agent_message_chunk", session)]
        assert "".join(said) == "Hi there."
        assert of(client, "available_commands_update", session)

    run(tmp_path, HELLO, talk)


@pytest.mark.parametrize("kind", ["allow_once", "reject_once"])
def test_a_call_is_asked_for(tmp_path: Path, kind: str) -> None:
    async def talk(stage: Stage, client: Client) -> None:
        session = await opened(client, stage)
        await prompt(client, session, "MAKE")
        assert (await idle(client, session))["stopReason"] == "end_turn"
        allowed = kind == "allow_once"
        assert (stage.work / "made").exists() == allowed
        last = of(client, "tool_call_update", session)[-1]
        assert last["status"] == ("completed" if allowed else "failed")
        assert bool(of(client, "terminal_output_chunk", session)) == allowed
        states = [one["state"] for one in of(client, "state_update", session)]
        assert states == ["running", "requires_action", "running", "idle"]

    run(tmp_path, MAKE, talk, kind)


def test_a_turn_is_cancelled_and_a_prompt_that_waits_with_it(tmp_path: Path) -> None:
    async def talk(stage: Stage, client: Client) -> None:
        session = await opened(client, stage)
        await prompt(client, session, "WAIT")
        waiting = asyncio.create_task(prompt(client, session, "WAIT"))
        await asyncio.sleep(0)
        await client.notify("session/cancel", sessionId=session)
        assert (await idle(client, session))["stopReason"] == "cancelled"
        with pytest.raises(Refused) as refused:
            await waiting
        assert refused.value.code == -32800

    run(tmp_path, {"WAIT": [[WAIT]]}, talk)


def test_a_failing_service_is_an_error_of_the_state(tmp_path: Path) -> None:
    async def talk(stage: Stage, client: Client) -> None:
        session = await opened(client, stage)
        await prompt(client, session, "BAD")
        end = await idle(client, session)
        assert (end["stopReason"], end["error"]["code"]) == ("error", -32603)

    run(tmp_path, {"BAD": [[{"type": "refuse", "status": 400}]]}, talk)


def test_a_session_is_resumed_listed_forked_and_deleted(tmp_path: Path) -> None:
    async def talk(stage: Stage, client: Client) -> None:
        session = await opened(client, stage)
        await prompt(client, session, "HELLO")
        await idle(client, session)
        await client.request("session/close", sessionId=session)
        client.updates.clear()
        where = {"cwd": str(stage.work), "mcpServers": []}
        await client.request("session/resume", sessionId=session, **where, replayFrom={"type": "start"})
        assert [one["content"]["text"] for one in of(client, "user_message_chunk", session)] == ["HELLO"]
        assert (await idle(client, session))["state"] == "idle"
        fork = (await client.request("session/fork", sessionId=session, **where))["sessionId"]
        listed = (await client.request("session/list"))["sessions"]
        assert {session} <= {one["sessionId"] for one in listed} <= {session, fork}
        for one in (fork, session):
            await client.request("session/delete", sessionId=one)
        with pytest.raises(Refused) as refused:
            await client.request("session/resume", sessionId=session, **where)
        assert refused.value.code == -32002

    run(tmp_path, HELLO, talk)
