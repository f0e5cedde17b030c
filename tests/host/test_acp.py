"""Agents of ACP behind the SDK: our own engine, and a small agent that answers as others do."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from machine import PATIENCE
from polylect.dialects.acp.versions import VERSIONS
from polylect.host import (
    Agent,
    Ask,
    AskClosed,
    EngineDied,
    InvalidValue,
    NoSuchSession,
    NotConfigured,
    Server,
    ToolFinished,
    TurnEnded,
    Unsupported,
    connect,
    list_sessions,
)
from polylect.vocab.events import TextDelta, UserMessage

SMALL = Path(__file__).parent / "acp_agent.py"
SCRIPT = """
[[reply]]
when.prompt = "go"
when.step = 1
say = ["so", { call = "Bash", args = { command = "echo hi" } }]

[[reply]]
when.prompt = "greet"
when.step = 1
say = [{ call = "mcp__host__greet", args = { name = "you" } }]

[[reply]]
when.prompt = "greet"
text = "[{outcome}: {result}]"

[[reply]]
text = "{prompt}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def talk(place: Place, do: Callable[[Agent], Awaitable[None]], **options: Any) -> None:
    """With our own engine."""

    async def main() -> None:
        arguments = {"cwd": str(place.workspace), "env": place.env, "provider": "scripted", **options}
        async with connect("polylect-acp", script=place.script(SCRIPT)[-1], **arguments) as agent:
            await do(agent)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """The version of the protocol that our own engine and the SDK speak."""
    return str(request.param)


def small(kind: str, do: Callable[[Agent], Awaitable[None]], **options: Any) -> None:
    """With an agent that is started by a command line."""

    async def main() -> None:
        async with connect([sys.executable, SMALL, kind], dialect="acp", **options) as agent:
            await do(agent)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


# Our own engine.


def test_tools_of_the_program_are_called_over_the_connection(place: Place) -> None:
    def greet(name: str) -> str:
        """Greets somebody."""
        return f"Hello, {name}."

    async def do(agent: Agent) -> None:
        assert agent.can("tools")
        result = await agent.ask("greet")
        assert result.text == "[ok: Hello, you.]"

    talk(place, do, tools=[greet], mode="force")


def test_tools_of_the_program_are_refused_by_agents_that_do_not_reach_it(place: Place) -> None:
    async def do(agent: Agent) -> None:
        raise AssertionError

    with pytest.raises(Unsupported, match="no tools of the host"):
        small("plain", do, tools=[print_it])


def print_it(text: str) -> str:
    """Prints a text."""
    return text


def test_a_session_gets_a_name(place: Place) -> None:
    async def do(agent: Agent) -> None:
        await agent.ask("hello")
        await agent.configure(name="A title")
        [card] = await list_sessions("polylect-acp", cwd=place.workspace, env=place.env)
        assert (card.name, card.first) == ("A title", "hello")

    talk(place, do)


def test_a_turn_with_a_question(place: Place, version: str) -> None:
    """Requirement 60 of docs/acp.md."""
    lines: list[bytes] = []

    async def do(agent: Agent) -> None:
        events = [event async for event in agent.prompt("go")]
        kinds = [type(event).__name__ for event in events if isinstance(event, Ask | AskClosed | ToolFinished)]
        assert kinds == ["Ask", "AskClosed", "ToolFinished"]
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].usage.tokens > 0

    talk(place, do, version=version, approve=lambda ask: True, tap=lambda way, data: lines.append(data))
    spoken = b"".join(lines)
    assert (b"state_update" in spoken, b"stopReason" in spoken) == (version == "2", True)


def test_a_session_has_the_name_that_a_program_gives_it(place: Place, version: str) -> None:
    sessions: list[str] = []

    async def begin(agent: Agent) -> None:
        assert agent.session_id == "mine"
        await agent.ask("hi")
        sessions.append((await agent.state()).session)

    async def go_on(agent: Agent) -> None:
        (card,) = await agent.query("sessions", cwd=str(place.workspace))
        assert (card.id, card.name) == ((await agent.state()).session, "hi")
        assert card.at > 0
        assert card.id == sessions[0]

    talk(place, begin, version=version, session="mine")
    talk(place, go_on, version=version, resume="mine")
    talk(place, go_on, version=version, resume="latest")


def test_what_the_agent_has_is_known_once_it_is_connected(place: Place, version: str) -> None:
    async def do(agent: Agent) -> None:
        words = (
            "steer",
            "follow_up",
            "new_session",
            "resume",
            "fork",
            "files",
            "images",
            "schema",
            "caps",
            "mode:force",
        )
        assert [word for word in words if not agent.can(word)] == []
        words = ("add_server", "shell", "add_context", "rewind")
        assert [word for word in words if agent.can(word)] == []
        assert agent.can("tools") == (version == "1")
        await agent.configure(mode="force")
        assert agent.settings["mode"] == "force"
        assert (await agent.state()).mode == "force"

    talk(place, do, version=version)


def test_another_session_is_opened_on_the_same_connection(place: Place, version: str) -> None:
    async def do(agent: Agent) -> None:
        await agent.ask("one")
        first = agent.session
        opened = await agent.new_session()
        assert opened.session == agent.session != first
        assert (await agent.ask("two")).text == "two"
        assert (await agent.fork()).session not in (first, opened.session)
        await agent.resume(first)
        assert agent.session == first

    talk(place, do, version=version)


def test_a_session_that_is_not_there(place: Place, version: str) -> None:
    async def do(agent: Agent) -> None:
        raise AssertionError

    with pytest.raises(NoSuchSession, match="not-there"):
        talk(place, do, version=version, resume="not-there")


def test_mcp_servers_are_named_when_the_session_is_opened(place: Place, version: str) -> None:
    """Requirement 15 of docs/acp.md."""
    lines: list[bytes] = []

    async def do(agent: Agent) -> None:
        await agent.ask("hi")

    server = Server("team", command="python3", args=("-c", "pass"))
    talk(
        place, do, version=version, servers=[server], tap=lambda way, data: lines.append(data) if way == "in" else None
    )
    (line,) = [line for line in b"".join(lines).splitlines() if b"session/new" in line]
    assert b'"name":"team"' in line
    assert b'"env":[]' in line
    assert b'/python3"' in line


def test_a_message_that_joins_a_turn_is_told_once(place: Place, version: str) -> None:
    """Requirement 48 of docs/acp.md."""

    async def do(agent: Agent) -> None:
        messages: list[str] = []
        async for event in agent.prompt("go"):
            if isinstance(event, Ask):
                await agent.steer("faster")
                await event.allow()
            if isinstance(event, UserMessage):
                messages.append(event.text)
        assert messages == ["go", "faster"]

    talk(place, do, version=version)


# Agents of others.


def test_an_agent_is_started_by_a_command_line(tmp_path: Path) -> None:
    async def do(agent: Agent) -> None:
        assert agent.session == "s-1"
        assert (await agent.ask("hello")).text == "You say hello."

    small("plain", do, cwd=tmp_path)


def test_a_login_that_is_needed_is_told_with_what_to_run() -> None:
    async def do(agent: Agent) -> None:
        raise AssertionError

    with pytest.raises(NotConfigured, match=r"Authentication required: Sign in \(run the same program login --web"):
        small("login", do)


def test_an_agent_of_another_version_is_ended_with_a_sentence() -> None:
    """Requirement 8 of docs/acp.md."""

    async def do(agent: Agent) -> None:
        raise AssertionError

    with pytest.raises(EngineDied, match="speaks version 2 of the protocol"):
        small("second", do)


def test_the_newest_session_is_resumed() -> None:
    async def do(agent: Agent) -> None:
        assert agent.session == "s-1"

    small("plain", do, resume="latest")


def test_a_replay_that_comes_after_its_answer_is_not_a_part_of_the_first_turn() -> None:
    """Requirement 45 of docs/acp.md."""

    async def do(agent: Agent) -> None:
        turn = agent.prompt("three")
        events = [event async for event in turn]
        assert [event.text for event in events if isinstance(event, UserMessage | TextDelta)] == [
            "three",
            "You say three.",
        ]

    small("gemini", do, resume="s-1")


def test_an_agent_that_never_answers_a_cancel_is_ended_and_another_one_goes_on() -> None:
    """Requirement 37 of docs/acp.md."""

    async def do(agent: Agent) -> None:
        first = agent.pid
        turn = agent.prompt("be deaf")
        async for event in turn:
            if isinstance(event, TextDelta):
                await turn.cancel()
        assert turn.result.reason == "cancelled"
        assert (await agent.ask("hello")).text == "You say hello."
        assert agent.pid != first
        assert agent.session == "s-1"

    small("plain", do)


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(InvalidValue, match="put provider into it"):
        connect(["agent"], dialect="acp", provider="x")
    with pytest.raises(InvalidValue, match="gemini has no mode 'dont_ask'"):
        connect("gemini", mode="dont_ask")
    with pytest.raises(InvalidValue, match="goose cannot be told 'provider'"):
        connect("goose", provider="x")

    async def do(agent: Agent) -> None:
        with pytest.raises(Unsupported, match="cannot fork"):
            await agent.fork()

    small("plain", do)
