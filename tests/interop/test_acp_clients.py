"""The official SDKs of ACP drive polylect: turns, rights, sessions and the end."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dialects.acp import published_schema
from engine_process import Place, Sleepers
from interop.acp_clients import CLIENTS, SDK, Client, Connect, Json, Refused, Stage, choose, story, words
from interop.claude_hosts import play
from interop.claude_model import REFUSE_KEY, WAIT, Model, Step, text, thinking, use
from machine import within

pytestmark = pytest.mark.interop
Talk = Callable[[Stage], Awaitable[None]]
TOUCH = use("c1", "Bash", command="touch made", description="make it")
MAKE: dict[str, list[Step]] = {"MAKE": [[text("I make it."), TOUCH], [text("That was it.")]]}
HELLO: dict[str, list[Step]] = {"HELLO": [[thinking("hm"), text("Hi there.")]]}
TEXTS = ("title", "description", "x-docs-ignore")
REFUSE: Step = [{"type": "refuse", "status": 400}]


@pytest.fixture(params=CLIENTS)
def connect(request: pytest.FixtureRequest) -> Connect:
    return CLIENTS[request.param]


def run(place: Path, script: dict[str, list[Step]], talk: Talk) -> None:
    """A conversation, after which all that we wrote is held against the schema."""

    async def main(model: Model) -> None:
        stage = Stage(place, model)
        await talk(stage)
        stage.check()

    play(script, main)


async def opened(client: Client, stage: Stage) -> str:
    await client.request("initialize", protocolVersion=1)
    return await another(client, stage)


async def another(client: Client, stage: Stage) -> str:
    return str((await client.request("session/new", cwd=str(stage.work), mcpServers=[]))["sessionId"])


async def prompt(client: Client, session: str, said: str) -> str:
    """Why the turn ended."""
    return str((await client.request("session/prompt", sessionId=session, prompt=words(said)))["stopReason"])


async def until(fits: Callable[[], bool]) -> None:
    """For updates that no answer follows; bounded by the whole conversation."""
    while not fits():  # noqa: ASYNC110  (the SDKs have no event for it)
        await asyncio.sleep(0.01)


def test_the_schemas_in_the_tree_are_those_of_the_sdk() -> None:
    for name, theirs in {
        "v1": "v1/schema.json",
        "v1-unstable": "v1/schema.unstable.json",
        "v2": "v2/schema.json",
        "v2-unstable": "v2/schema.unstable.json",
    }.items():
        published = json.loads((SDK / "@agentclientprotocol/sdk/schema" / theirs).read_text())
        assert json.loads((published_schema.FOLDER / f"{name}.json").read_text()) == without_texts(published)


def without_texts(node: Any) -> Any:
    match node:
        case dict():
            read = {key: value for key, value in node.items() if key not in TEXTS or isinstance(value, dict)}
            return {key: without_texts(value) for key, value in read.items()}
        case list():
            return [without_texts(one) for one in node]
        case _:
            return node


# Turns.


def test_a_text_is_asked_and_answered(tmp_path: Path, connect: Connect) -> None:
    async def talk(stage: Stage) -> None:
        async with connect(stage, choose("allow_once")) as client:
            session = await opened(client, stage)
            result = await client.request("session/prompt", sessionId=session, prompt=words("HELLO"))
            assert result["stopReason"] == "end_turn"
            assert result["usage"] == {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17}
            assert story(client.updates) == ["agent_thought: hm", "agent_message: Hi there."]
            assert "available_commands_update" in [update["sessionUpdate"] for _, update in client.updates]

    run(tmp_path, HELLO, talk)


def test_a_call_is_allowed(tmp_path: Path, connect: Connect) -> None:
    async def talk(stage: Stage) -> None:
        async with connect(stage, choose("allow_once")) as client:
            session = await opened(client, stage)
            assert await prompt(client, session, "MAKE") == "end_turn"
        assert (stage.work / "made").exists()
        assert story(client.updates) == [
            "agent_message: I make it.",
            "tool_call c1 pending",
            "tool_call_update c1 in_progress",
            "tool_call_update c1 completed",
            "agent_message: That was it.",
        ]

    run(tmp_path, MAKE, talk)


def test_a_call_is_denied(tmp_path: Path, connect: Connect) -> None:
    requested: list[Json] = []

    async def no(method: str, params: Json) -> Json:
        requested.append(params)
        return await choose("reject_once")(method, params)

    async def talk(stage: Stage) -> None:
        async with connect(stage, no) as client:
            session = await opened(client, stage)
            assert await prompt(client, session, "MAKE") == "end_turn"
        assert not (stage.work / "made").exists()
        assert story(client.updates) == [
            "agent_message: I make it.",
            "tool_call c1 pending",
            "tool_call_update c1 failed",
            "agent_message: That was it.",
        ]
        [request] = requested
        assert (request["toolCall"]["kind"], request["toolCall"]["rawInput"]) == ("execute", TOUCH["input"])
        assert [option["kind"] for option in request["options"]] == [
            *("allow_once", "allow_always", "reject_once", "reject_always")
        ]

    run(tmp_path, MAKE, talk)


Sleeping = Callable[[Client, str, asyncio.Task[str]], Awaitable[None]]
"""What happens in a session while a command runs in its turn."""


def run_sleeping(place: Path, connect: Connect, talk: Sleeping) -> None:
    """After `talk` the command has ended."""
    sleepers = Sleepers(Place(place))
    sleep = use("c1", "Bash", command=sleepers.command(), description="sleep")

    async def main(stage: Stage) -> None:
        async with connect(stage, choose("allow_once")) as client:
            session = await opened(client, stage)
            turn = asyncio.create_task(prompt(client, session, "SLEEP"))
            await asyncio.to_thread(sleepers.wait_until_started)
            await talk(client, session, turn)
            await asyncio.to_thread(sleepers.wait_until_gone)

    run(place, {"SLEEP": [[sleep]], **HELLO}, main)


def test_a_call_is_cancelled_while_it_runs(tmp_path: Path, connect: Connect) -> None:
    async def cancel(client: Client, session: str, turn: asyncio.Task[str]) -> None:
        with within(1.0):
            await client.notify("session/cancel", sessionId=session)
            assert await turn == "cancelled"
        assert story(client.updates) == [
            "tool_call c1 pending",
            "tool_call_update c1 in_progress",
            "tool_call_update c1 failed",
        ]
        assert await prompt(client, session, "HELLO") == "end_turn"

    run_sleeping(tmp_path, connect, cancel)


def test_a_question_that_nobody_answers_is_cancelled(tmp_path: Path, connect: Connect) -> None:
    async def talk(stage: Stage) -> None:
        requested = asyncio.Event()

        async def never(method: str, params: Json) -> Json:
            requested.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with connect(stage, never) as client:
            session = await opened(client, stage)
            turn = asyncio.create_task(prompt(client, session, "MAKE"))
            await requested.wait()
            with within(1.0):
                await client.notify("session/cancel", sessionId=session)
                assert await turn == "cancelled"
            assert await prompt(client, session, "HELLO") == "end_turn"
        withdrawn = [message for message, _ in stage.written() if message.get("method") == "$/cancel_request"]
        assert len(withdrawn) == 1

    run(tmp_path, {**MAKE, **HELLO}, talk)


@pytest.mark.parametrize(
    ("refusal", "code", "why"), [(REFUSE, -32603, "that is too much"), (REFUSE_KEY, -32000, "credentials were refused")]
)
def test_a_provider_that_refuses_is_an_error(
    tmp_path: Path, connect: Connect, refusal: Step, code: int, why: str
) -> None:
    async def talk(stage: Stage) -> None:
        async with connect(stage, choose("allow_once")) as client:
            session = await opened(client, stage)
            with pytest.raises(Refused, match=why) as raised:
                await prompt(client, session, "REFUSE")
            assert raised.value.code == code
            assert await prompt(client, session, "HELLO") == "end_turn"

    run(tmp_path, {"REFUSE": [refusal], **HELLO}, talk)


def test_a_message_is_added_while_a_call_runs(tmp_path: Path, connect: Connect) -> None:
    async def talk(stage: Stage) -> None:
        result: list[Json] = []

        async def add(method: str, params: Json) -> Json:
            result.append(await client.request("_session/steering", sessionId=session, prompt=words("OTHER")))
            return await choose("allow_once")(method, params)

        idle = {"steering": {"idleBehavior": "promptRequired"}}
        async with connect(stage, add) as client:
            session = await opened(client, stage)
            assert await prompt(client, session, "MAKE") == "end_turn"
            result.append(
                await client.request("_session/steering", sessionId=session, prompt=words("OTHER"), _meta=idle)
            )
        assert result == [{"outcome": "injected"}, {"outcome": "promptRequired", "reason": "noRunningTurn"}]
        assert "OTHER" in json.dumps(stage.model.asked[-1]["messages"])
        assert story(client.updates)[-1] == "agent_message: As you say."

    run(tmp_path, {**MAKE, "OTHER": [[text("As you say.")]]}, talk)


# Sessions.


def test_two_sessions_at_once(tmp_path: Path, connect: Connect) -> None:
    async def talk(stage: Stage) -> None:
        async with connect(stage, choose("allow_once")) as client:
            one = await opened(client, stage)
            two = await another(client, stage)
            slow = asyncio.create_task(prompt(client, one, "SLOW"))
            await until(lambda: story(client.updates, one) == ["agent_message: First."])
            assert await prompt(client, two, "MAKE") == "end_turn"
            assert story(client.updates, one) == ["agent_message: First."]
            stage.model.go.set()
            assert await slow == "end_turn"
            assert story(client.updates, one) == ["agent_message: First.Second."]
            assert story(client.updates, two)[0] == "agent_message: I make it."

    run(tmp_path, {"SLOW": [[text("First."), WAIT, text("Second.")]], **MAKE}, talk)


def test_a_session_is_gone_on_with_in_another_process(tmp_path: Path, connect: Connect) -> None:
    async def talk(stage: Stage) -> None:
        async with connect(stage, choose("allow_once")) as client:
            session = await opened(client, stage)
            await prompt(client, session, "MAKE")
        where = {"sessionId": session, "cwd": str(stage.work), "mcpServers": []}
        async with connect(stage, choose("reject_once")) as client:
            await client.request("initialize", protocolVersion=1)
            await client.request("session/load", **where)
            assert story(client.updates) == [
                "user_message: MAKE",
                "agent_message: I make it.",
                "tool_call c1 completed",
                "agent_message: That was it.",
            ]
            assert await prompt(client, session, "HELLO") == "end_turn"
            assert "MAKE" in json.dumps(stage.model.asked[-1]["messages"])
        async with connect(stage, choose("reject_once")) as client:
            await client.request("initialize", protocolVersion=1)
            await client.request("session/resume", **where)
            assert story(client.updates) == []
            assert await prompt(client, session, "HELLO") == "end_turn"
            assert "MAKE" in json.dumps(stage.model.asked[-1]["messages"])
            forked = (await client.request("session/fork", **where))["sessionId"]
            assert forked != session
            assert await prompt(client, forked, "HELLO") == "end_turn"
            assert "MAKE" in json.dumps(stage.model.asked[-1]["messages"])

    run(tmp_path, {**MAKE, **HELLO}, talk)


def test_sessions_are_listed_closed_and_deleted(tmp_path: Path, connect: Connect) -> None:
    async def talk(stage: Stage) -> None:
        async def listed(**where: str) -> list[str]:
            actual = (await client.request("session/list", **where))["sessions"]
            assert all(one["cwd"] == str(stage.work) for one in actual)
            return [one["sessionId"] for one in actual]

        async with connect(stage, choose("allow_once")) as client:
            one = await opened(client, stage)
            two = await another(client, stage)
            for session in (one, two):
                await prompt(client, session, "HELLO")
            assert sorted(await listed()) == sorted(await listed(cwd=str(stage.work))) == sorted([one, two])
            assert await listed(cwd=str(stage.place)) == []
            await client.request("session/close", sessionId=one)
            with pytest.raises(Refused) as raised:
                await prompt(client, one, "HELLO")
            assert (raised.value.code, raised.value.data["sessionId"]) == (-32002, one)
            assert one in await listed()
            if connect is CLIENTS["python"]:
                return  # this SDK has no method for the rest
            for _ in range(2):
                await client.request("session/delete", sessionId=one)
            assert await listed() == [two]
            with pytest.raises(Refused) as raised:
                await client.request("session/load", sessionId=one, cwd=str(stage.work), mcpServers=[])
            assert (raised.value.code, raised.value.data["sessionId"]) == (-32002, one)

    run(tmp_path, HELLO, talk)


def test_a_session_is_closed_while_it_works(tmp_path: Path, connect: Connect) -> None:
    async def close(client: Client, session: str, turn: asyncio.Task[str]) -> None:
        await client.request("session/close", sessionId=session)
        assert await turn == "cancelled"

    run_sleeping(tmp_path, connect, close)


def test_a_mode_is_set(tmp_path: Path, connect: Connect) -> None:
    async def talk(stage: Stage) -> None:
        async with connect(stage, choose("reject_once")) as client:
            session = await opened(client, stage)
            await client.request("session/set_mode", sessionId=session, modeId="force")
            assert await prompt(client, session, "MAKE") == "end_turn"
            assert (stage.work / "made").exists()
            with pytest.raises(Refused) as raised:
                await client.request("session/set_mode", sessionId=session, modeId="other")
            assert raised.value.code == -32602

    run(tmp_path, MAKE, talk)


# The end.


def test_the_client_goes_away_while_a_call_runs(tmp_path: Path, connect: Connect) -> None:
    sleepers = Sleepers(Place(tmp_path))
    sleep = use("c1", "Bash", command=sleepers.command(), description="sleep")

    async def talk(stage: Stage) -> None:
        async with connect(stage, choose("allow_once")) as client:
            session = await opened(client, stage)
            turn = asyncio.create_task(prompt(client, session, "SLEEP"))
            await asyncio.to_thread(sleepers.wait_until_started)
        turn.cancel()
        await asyncio.to_thread(sleepers.wait_until_gone)

    run(tmp_path, {"SLEEP": [[sleep]]}, talk)
