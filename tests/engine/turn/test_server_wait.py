"""A turn waits for MCP servers that are still starting: once for each, bounded, and never inside another turn."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from doubles import Talk, run
from polylect.engine.turn import server_wait
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Cancel, Configure, Prompt, Query
from polylect.vocab.events import AgentEnded, Notice, Reply, StepStarted, TurnEnded, TurnStarted


class Starting:
    """Stands for servers: `slow` is starting until somebody says that it is up. Counts how often it is asked for."""

    def __init__(self, age: float = 0.0) -> None:
        self.age = age
        self.asked = 0
        self.up = asyncio.Event()
        self.waited_for = asyncio.Event()

    def starting(self) -> dict[str, float]:
        self.asked += 1
        return {} if self.up.is_set() else {"slow": self.age}

    async def wait_for_change(self, timeout: float) -> None:
        self.waited_for.set()
        await self.up.wait()

    def status(self) -> list[Any]:
        return []

    def commands(self) -> list[Any]:
        return []

    async def close(self) -> None:
        pass


def starting(talk: Talk, age: float = 0.0) -> Starting:
    servers = Starting(age)
    talk.engine.context.servers.current = servers  # type: ignore[assignment]
    return servers


def test_commands_are_answered_while_a_prompt_waits_and_a_stop_ends_it(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        servers = starting(talk)
        talk.send(Prompt("t1", "go"))
        await servers.waited_for.wait()
        talk.send(Query("tools", ref="q"), Configure({"mode": "plan"}, ref="c"))
        assert [reply.failure for reply in talk.of(Reply)] == [None, None]
        assert talk.of(StepStarted) == []
        talk.send(Cancel())
        await talk.engine.turns.settled()
        servers.up.set()
        talk.send(Prompt("t2", "go"))

    talk = run(conversation, tmp_path, Scripted.in_order("hi"))
    assert [event.turn for event in talk.of(TurnStarted)] == ["t1", "t2"]
    assert [event.reason for event in talk.of(TurnEnded)] == ["cancelled", "end"]


def test_a_prompt_that_comes_after_the_bound_does_not_wait(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        starting(talk, age=31.0)
        talk.send(Prompt("t1", "go"))

    talk = run(conversation, tmp_path, Scripted.in_order("hi"))
    assert ([event.reason for event in talk.of(TurnEnded)], talk.of(Notice)) == (["end"], [])


def test_a_prompt_that_asks_for_nothing_does_not_wait_and_neither_does_one_with_the_wait_off(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        servers = starting(talk)
        talk.send(Prompt("t1", "to know", query=False))
        await talk.engine.turns.settled()
        talk.engine.agent.settings = replace(talk.engine.settings, mcp_wait=0.0)
        talk.send(Prompt("t2", "go"))
        await talk.engine.turns.settled()
        assert servers.asked == 0

    talk = run(conversation, tmp_path, Scripted.in_order("unused", "hi"))
    assert [event.reason for event in talk.of(TurnEnded)] == ["end", "end"]


def test_a_sub_agent_does_not_wait_inside_the_turn_that_has(tmp_path: Path) -> None:
    tasks = [{"name": "one", "prompt": "do one"}]
    model = Scripted.from_values(
        {
            "reply": [
                {"when": {"prompt": "do one"}, "say": ["I am one"]},
                {"when": {"step": 1}, "say": [{"call": "Spawn", "id": "s1", "args": {"tasks": tasks}}]},
                {"say": ["done"]},
            ]
        }
    )

    async def conversation(talk: Talk) -> None:
        servers = starting(talk)
        talk.send(Prompt("t1", "go"))
        await servers.waited_for.wait()
        servers.up.set()
        await talk.until(StepStarted)
        requested, servers.up = servers.asked, asyncio.Event()  # another server is starting from now on
        await talk.engine.turns.settled()
        assert servers.asked == requested

    talk = run(conversation, tmp_path, model, mode="force")
    assert len(talk.of(AgentEnded)) == 1


def test_the_host_is_told_for_whom_a_prompt_waits_and_without_whom_it_goes_on() -> None:
    async def work() -> list[str]:
        said: list[Any] = []
        servers = Starting()
        clock = asyncio.get_running_loop().time

        async def pass_time(timeout: float) -> None:
            """Time that passes in steps: no test has to wait for it."""
            assert 0 < timeout <= server_wait.NOTICE_INTERVAL
            servers.age += 10.0
            await asyncio.sleep(0)

        servers.wait_for_change = pass_time  # type: ignore[method-assign]
        before = clock()
        await server_wait.wait_for_servers(servers, 30.0, said.append)  # type: ignore[arg-type]
        assert clock() - before < 5
        return [event.text for event in said]

    late = "Going on without MCP server slow: not up after 30 s. The tools can be used once it is up."
    assert asyncio.run(work()) == [late]
