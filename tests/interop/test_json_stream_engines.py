"""The real aionrs and wayland-core, where they are on PATH: they are no packages, so nothing here installs them.

`tests/host/test_aionrs.py` and `tests/host/test_wayland_core.py` drive scripted peers with the same quirks.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place, Sleepers, eventually
from interop.claude_model import REFUSE, REFUSE_KEY, WAIT, Model, Step, text, use
from machine import PATIENCE
from peers.programs import allowed_turn
from polylect.host import Agent, Ask, EngineDied, Event, Server, TextDelta, ToolFinished, ToolStarted, connect

pytestmark = pytest.mark.interop
COMMANDS = {"aionrs": ("ExecCommand", "cmd"), "wayland-core": ("Bash", "command")}
"""The tool that runs commands, and its argument."""
SERVER = str(Path(__file__).parents[1] / "mcp_servers" / "plain.py")
HELLO: list[Step] = [[text("Hi")]]


@pytest.fixture(params=COMMANDS)
def engine(request: pytest.FixtureRequest) -> str:
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not on PATH")
    if request.param == "wayland-core" and not shutil.which("bwrap"):
        pytest.skip("wayland-core runs commands only in bubblewrap, which is not on PATH")
    return str(request.param)


def call(engine: str, id: str, line: str) -> dict[str, Any]:
    tool, argument = COMMANDS[engine]
    return use(id, tool, **{argument: line})


def drive(engine: str, script: dict[str, list[Step]], place: Path, conversation: Any, **options: Any) -> None:
    async def main() -> None:
        async with Model(script) as model:
            env = {"PATH": os.environ["PATH"], "HOME": str(place), "ANTHROPIC_API_KEY": "none"}
            service = {"provider": "anthropic", "base_url": model.url, "model": "claude-sonnet-4-5"}
            (place / "work").mkdir(exist_ok=True)
            async with connect(engine, cwd=place / "work", env=env, **service, **options) as agent:
                await conversation(agent)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def asks(events: list[Event]) -> int:
    return len([event for event in events if isinstance(event, Ask)])


def outputs(events: list[Event]) -> list[str]:
    return [event.output for event in events if isinstance(event, ToolFinished)]


def test_turns_calls_and_what_is_allowed_for_good(engine: str, tmp_path: Path) -> None:
    ran = [[call(engine, "c1", "echo one")], [text("ran")]]

    async def talk(agent: Agent) -> None:
        results = [await agent.ask("hello"), await agent.ask("hello")]
        assert [result.text for result in results] == ["Hi", "Hi"]
        assert results[0].usage == results[1].usage
        first, second = [await allowed_turn(agent, "run", always=True) for _ in range(2)]
        assert (asks(first), asks(second)) == (1, 0)
        assert ["one" in output for output in outputs(first + second)] == [True, True]

    drive(engine, {"hello": HELLO, "run": ran}, tmp_path, talk)


def test_a_denial_is_told_and_the_turn_goes_on(engine: str, tmp_path: Path) -> None:
    async def talk(agent: Agent) -> None:
        events = []
        async for event in (turn := agent.prompt("run")):
            events.append(event)
            if isinstance(event, Ask):
                await event.deny("not today")
        finished = [event for event in events if isinstance(event, ToolFinished)]
        assert [(event.outcome, event.reason) for event in finished] == [("denied", "not today")]
        assert turn.result.text == "as you like"

    drive(engine, {"run": [[call(engine, "c1", "echo one")], [text("as you like")]]}, tmp_path, talk)


@pytest.mark.parametrize("at_start", [True, False])
def test_in_the_mode_force_nothing_is_asked(at_start: bool, engine: str, tmp_path: Path) -> None:
    async def talk(agent: Agent) -> None:
        if not at_start:
            await agent.configure(mode="force")
        events = await allowed_turn(agent, "run")
        assert (asks(events), "one" in outputs(events)[0]) == (0, True)
        await agent.configure(mode="default")
        assert asks(await allowed_turn(agent, "run")) == 1

    ran = [[call(engine, "c1", "echo one")], [text("ran")]]
    drive(engine, {"run": ran}, tmp_path, talk, **({"mode": "force"} if at_start else {}))


def test_a_tool_of_a_server_that_was_added(engine: str, tmp_path: Path) -> None:
    async def talk(agent: Agent) -> None:
        await agent.add_server(Server("good", command=sys.executable, args=(SERVER, "Works")))
        assert ["text" in output for output in outputs(await allowed_turn(agent, "echo"))] == [True]

    drive(engine, {"echo": [[use("c1", "echo", text="T")], [text("echoed")]]}, tmp_path, talk)


def test_the_cost_is_that_of_the_session_or_not_known(engine: str, tmp_path: Path) -> None:
    async def talk(agent: Agent) -> None:
        costs = [(await agent.ask("hello")).usage.cost for _ in range(2)]
        if engine == "aionrs":
            assert (costs, agent.cost) == ([None, None], None)
        else:
            assert costs[0]
            assert (costs[0], agent.cost) == (costs[1], pytest.approx(sum(costs)))

    drive(engine, {"hello": HELLO}, tmp_path, talk)


def test_a_stop_while_the_model_writes_and_one_inside_a_call(engine: str, tmp_path: Path) -> None:
    async def talk(agent: Agent) -> None:
        for prompt, moment in (("slow", TextDelta), ("sleep", ToolStarted)):
            turn = agent.prompt(prompt)
            async for event in turn:
                if isinstance(event, Ask):
                    await event.allow()
                if isinstance(event, moment):
                    await turn.cancel()
            assert turn.result.reason == "cancelled"
            assert (await agent.ask("hello")).text == "Hi"

    slept = [[call(engine, "c1", "sleep 600")], [text("slept")]]
    drive(engine, {"hello": HELLO, "slow": [[text("a"), WAIT]], "sleep": slept}, tmp_path, talk)


@pytest.mark.parametrize(
    ("answer", "codes"), [(REFUSE, ("auth", "auth_invalid")), (REFUSE_KEY, ("auth", "auth_required"))]
)
def test_a_refusal_of_the_service_has_its_kind(
    answer: Step, codes: tuple[str, ...], engine: str, tmp_path: Path
) -> None:
    async def talk(agent: Agent) -> None:
        session = agent.session
        failure = (await agent.prompt("no")).failure
        assert failure is not None
        assert failure.code in codes
        assert not failure.retryable
        assert ((await agent.ask("hello")).text, agent.session) == ("Hi", session)

    drive(engine, {"hello": HELLO, "no": [answer]}, tmp_path, talk)


def test_a_start_that_fails_says_why(engine: str, tmp_path: Path) -> None:
    async def nothing(agent: Agent) -> None:
        raise AssertionError("it has started")

    with pytest.raises(EngineDied, match=r"exit code 1; it said: .*(not found|Invalid session ID)[^\n]*$"):
        drive(engine, {}, tmp_path, nothing, resume="nope")


def test_close_leaves_nothing(engine: str, tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        sleepers = Sleepers(place)

        async def talk(agent: Agent) -> None:
            async for event in agent.prompt("sleep"):
                if isinstance(event, Ask):
                    await event.allow()
                if isinstance(event, ToolStarted):
                    await asyncio.to_thread(eventually, lambda: len(sleepers.pids()) > 1)
                    break

        n = sleepers.length
        slept = [[call(engine, "c1", f"setsid sleep {n} & sleep {n}")], [text("slept")]]
        drive(engine, {"sleep": slept}, tmp_path, talk)
        sleepers.wait_until_gone()
