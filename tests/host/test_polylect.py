"""`connect("polylect")` can do all that the vocabulary has: each of it with a real engine."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine_process import Place
from machine import PATIENCE
from polylect.host import (
    Agent,
    AgentStarted,
    Ask,
    InvalidType,
    InvalidValue,
    Limits,
    QueueChanged,
    ReplyEnded,
    SchemaNotMet,
    Server,
    ServerFailed,
    TextDelta,
    ToolFinished,
    UserMessage,
    connect,
)
from polylect.vocab import answers, commands
from polylect.vocab.content import Image, Text

ECHO = '[[reply]]\ntext = "{prompt}"\n'
SLOW = f"""
[[reply]]
when.prompt = "wait"
when.step = 1
say = ["so", {{ call = "Bash", args = {{ command = "true" }} }}]

{ECHO}"""
PIXEL = Image("image/gif", "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
SERVERS = Path(__file__).parents[1] / "mcp_servers"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def talk(place: Place, script: str, do: Callable[[Agent], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        arguments = {"cwd": str(place.workspace), "env": place.env, "provider": "scripted", "mode": "force", **options}
        async with connect("polylect", script=place.script(script)[-1], **arguments) as agent:
            await do(agent)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_running_turn_is_steered(place: Place) -> None:
    async def do(agent: Agent) -> None:
        turn = agent.prompt("wait")
        seen = []
        async for event in turn:
            if isinstance(event, TextDelta) and event.text == "so":
                await agent.steer("faster")
                await agent.follow_up("and tell me")
            seen.append(event)
        messages = [(event.text, event.origin) for event in seen if isinstance(event, UserMessage)]
        assert messages == [("wait", "prompt"), ("faster", "steer"), ("and tell me", "follow_up")]
        assert any(isinstance(event, QueueChanged) for event in seen)

    talk(place, SLOW, do)


def test_the_conversation_is_compacted_forked_and_rewound(place: Place) -> None:
    async def do(agent: Agent) -> None:
        first = agent.session
        for number in range(3):
            await agent.ask(f"{number} " + "word " * 2000)
        points = await agent.query("fork_points")
        assert [point.text[:1] for point in points] == ["0", "1", "2"]
        opened = await agent.fork(points[1].entry)
        assert isinstance(opened, answers.SessionOpened)
        assert opened.text.startswith("1 ")
        assert agent.session == opened.session != first
        assert (await agent.query("stats")).users == 1
        await agent.resume(first)
        await agent.compact()
        items = await agent.query("messages")
        assert [item.kind for item in items][:1] == ["summary"]
        assert (await agent.new_session()).session not in (first, opened.session)

    talk(place, ECHO, do)


def test_a_command_of_the_user_runs_and_the_state_is_told(place: Place) -> None:
    async def do(agent: Agent) -> None:
        result = await agent.shell("echo out; exit 3")
        assert (result.output, result.code) == ("out\n", 3)
        state = await agent.state()
        assert (state.provider, state.mode, state.busy) == ("scripted", "force", False)
        await agent.configure(mode="plan", name="A talk")
        state = await agent.state()
        assert (state.mode, state.name) == ("plan", "A talk")

    talk(place, ECHO, do)


QUERIES = {
    "state": answers.State,
    "stats": answers.Stats,
    "queue": answers.Queue,
    "cost": answers.Ledger,
    "context": answers.ContextReport,
    "models": answers.ModelCard,
    "messages": answers.Item,
    "commands": answers.CommandCard,
    "sessions": answers.SessionCard,
    "fork_points": answers.ForkPoint,
    "thinking_levels": str,
    "tools": str,
    "servers": answers.ServerCard,
    "agents": answers.AgentCard,
    "rules": None,
    "skills": answers.CommandCard,
    "personas": answers.CommandCard,
}


def test_every_query_is_answered_in_its_type(place: Place) -> None:
    async def do(agent: Agent) -> None:
        await agent.ask("hello")
        for what, kind in QUERIES.items():
            answer = await agent.query(what)
            values = answer if isinstance(answer, tuple) else (answer,)
            assert all(kind is None or isinstance(value, kind) for value in values), (what, answer)
        assert await agent.query("last_text") == "hello"
        assert isinstance(await agent.query("version"), str)

    talk(place, ECHO, do)


def test_pictures_and_files_go_with_a_prompt(place: Place) -> None:
    (place.workspace / "notes.txt").write_text("remember the milk")

    async def do(agent: Agent) -> None:
        await agent.ask("look", attachments=[PIXEL], files=[place.workspace / "notes.txt"])
        (first, *_) = await agent.query("messages")
        assert [type(block).__name__ for block in first.message.content] == ["Text", "Document", "Image"]

    talk(place, ECHO, do)


def test_functions_of_the_host_are_tools_once(place: Place) -> None:
    def add(one: int, two: int) -> int:
        """Adds two numbers."""
        return one + two

    script = '[[reply]]\nwhen.step = 1\nsay = [{ call = "add", args = { one = 2, two = 3 } }]\n\n' + ECHO

    async def do(agent: Agent) -> None:
        assert [name for name in await agent.query("tools") if "add" in name] == ["add"]
        finished = [event async for event in agent.prompt("sum") if isinstance(event, ToolFinished)]
        assert [(event.name, event.output) for event in finished] == [("add", "5")]

    talk(place, script, do, tools=[add])


def test_a_server_is_added_at_any_time_or_the_reason_is_raised(place: Place) -> None:
    async def do(agent: Agent) -> None:
        await agent.ask("hello")
        await agent.add_server(Server("team", command=sys.executable, args=(str(SERVERS / "plain.py"), "Works")))
        assert [(card.name, card.status) for card in await agent.query("servers")] == [("team", "connected")]
        with pytest.raises(ServerFailed, match="MCP server broken"):
            await agent.add_server(Server("broken", command="/no/such/program"))

    talk(place, ECHO, do)


def test_the_engine_tells_what_it_has(place: Place) -> None:
    async def do(agent: Agent) -> None:
        await agent.ask("hello")
        assert agent.settings["cwd"] == str(place.workspace)
        assert "Bash" in agent.settings["tools"]
        assert all(isinstance(card, answers.CommandCard) for card in agent.settings["commands"])

    talk(place, ECHO, do)


def test_sub_agents_are_seen(place: Place) -> None:
    script = (
        '[[reply]]\nwhen.prompt = "delegate"\nwhen.step = 1\n'
        'say = [{ call = "Spawn", args = { tasks = [{ name = "scout", prompt = "look" }] } }]\n\n' + ECHO
    )

    async def do(agent: Agent) -> None:
        events = [event async for event in agent.prompt("delegate")]
        assert any(isinstance(event, AgentStarted) for event in events)

    talk(place, script, do)


class Sum(msgspec.Struct):
    total: int


SAYS = '[[reply]]\nsay = [{ call = "StructuredOutput", args = { total = 3 } }]\n'
CORRECTED = '''
[[reply]]
when.step = 1
say = [{ call = "StructuredOutput", args = { total = "three" } }]

[[reply]]
text = """
```json
{"total": 4}
```
"""
'''


@pytest.mark.parametrize(("script", "total"), [(SAYS, 3), (CORRECTED, 4)], ids=["call", "text"])
def test_the_engine_itself_sees_to_it_that_an_answer_fits(place: Place, script: str, total: int) -> None:
    async def do(agent: Agent) -> None:
        result = await agent.ask("How many?", schema=Sum)
        assert result.value == Sum(total)
        (first, *_) = await agent.query("messages")
        assert first.message.content == (Text("How many?"),), "the schema is not in the prompt"

        assert (await agent.prompt("Once more", schema=Sum)).value == {"total": total}, "a prompt has plain data"

    talk(place, script, do)


def test_an_answer_that_never_fits_raises(place: Place) -> None:
    async def do(agent: Agent) -> None:
        with pytest.raises(SchemaNotMet, match="no answer that fits the schema after 5 attempts"):
            await agent.ask("How many?", schema=Sum)
        with pytest.raises(InvalidValue, match="has to be that of an object"):
            agent.prompt("How many?", schema={"type": "array"})
        with pytest.raises(InvalidValue, match="a schema is a type that msgspec knows or a JSON Schema, not 5"):
            agent.prompt("How many?", schema=5)
        assert (await agent.ask("7", schema=int)).value == 7, "what is no object is asked for in words"

    talk(place, ECHO.replace("{prompt}", "7"), do)


def test_a_permission_is_never_given_by_an_answer(place: Place) -> None:
    script = '[[reply]]\nwhen.step = 1\nsay = [{ call = "Bash", args = { command = "touch made" } }]\n\n' + ECHO

    async def do(agent: Agent) -> None:
        async for event in agent.prompt("go"):
            if isinstance(event, Ask):
                for value in ("no", False, True):
                    with pytest.raises(InvalidValue, match=r"ask\.deny"):
                        await event.answer(value)
                with pytest.raises(InvalidType, match="always is True, False or a Rule"):
                    await event.allow(always="no")  # type: ignore[arg-type]
                await event.deny("no")
        assert not (place.workspace / "made").exists()

    talk(place, script, do, mode="default")


@pytest.mark.parametrize("limits", [Limits(cost=0.3), Limits(tokens=25_000)], ids=["dollars", "tokens"])
def test_the_engine_keeps_the_caps_of_a_prompt_while_the_program_is_busy(place: Place, limits: Limits) -> None:
    script = """
[price]
input = 10.0
output = 10.0

[[reply]]
say = [{ call = "Glob", args = { pattern = "*" } }]
usage = { input = 10000, output = 0 }
"""

    async def do(agent: Agent) -> None:
        reading = agent.prompt("go", limits=limits)
        requests = 0
        async for event in reading:
            requests += isinstance(event, ReplyEnded)
            time.sleep(0.05)  # noqa: ASYNC251  (as a program does that forgets the loop)
        assert reading.result.reason == "limit"
        assert requests == 3

    talk(place, script, do)


def test_it_says_which_modes_it_has_and_what_it_lacks(place: Place) -> None:
    async def do(agent: Agent) -> None:
        assert agent.ready.abilities.modes == ("default", "auto_edit", "force", "plan", "dont_ask")
        assert [word for word in ("steer", "authenticate", "close_session") if agent.can(word)] == ["steer"]

    talk(place, ECHO, do)


def test_a_turn_that_has_ended_is_not_cancelled_in_the_place_of_another(place: Place) -> None:
    async def do(agent: Agent) -> None:
        await agent.ask("first")
        running = agent.prompt("wait")
        async for event in running:
            if isinstance(event, Ask):
                await agent.send(commands.Cancel(target="of an earlier turn", queued="keep"))
                await event.allow()
        assert running.result.ok

    talk(place, SLOW, do, mode="default")
