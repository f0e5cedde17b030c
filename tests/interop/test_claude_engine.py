"""The real `claude`, from the PyPI package that carries it, driven by our host side against a model on loopback."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from engine_process import eventually
from grammar_check import Grammar
from interop.claude_model import WAIT, Model, Step, agent, text, thinking, use
from machine import PATIENCE
from polylect.dialects.claude.dialect import DIALECT
from polylect.host import Agent, Ask, connect, tool
from polylect.vocab import events as e
from polylect.vocab.answers import ContextReport
from polylect.vocab.content import Text, Thinking

pytestmark = pytest.mark.interop
CLAUDE = Path(os.environ["POLYLECT_INTEROP_CLAUDE"]) / "claude_agent_sdk" / "_bundled" / "claude"
FLAGS = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")
OFFLINE = {
    "ANTHROPIC_API_KEY": "none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "CLAUDE_CODE_MAX_RETRIES": "1",
    "IS_SANDBOX": "1",
}
partials = pytest.mark.parametrize("flags", [(), ("--include-partial-messages",)], ids=["whole", "partial"])
T = TypeVar("T")


def run(
    place: Path, script: dict[str, list[Step]], talk: Callable[[Agent, Model], Awaitable[T]], *flags: str, **how: Any
) -> T:
    """Talk to a claude of its own, in a folder of its own. All that is heard has to be grammatical."""

    async def main() -> T:
        workspace = place / "work"
        workspace.mkdir()
        async with Model(script) as model:
            stored = {"PATH": os.environ["PATH"], "HOME": str(place), "CLAUDE_CONFIG_DIR": str(place / "config")}
            env = {**stored, **OFFLINE, "ANTHROPIC_BASE_URL": model.url}
            argv = [str(CLAUDE), *FLAGS, "--permission-prompt-tool", "stdio", *flags]
            async with connect(
                argv, dialect="claude", cwd=str(workspace), env=env, ready_within=PATIENCE, **how
            ) as claude:
                return await talk(claude, model)

    return asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


async def listen(claude: Agent, prompt: str, verdict: Callable[[Ask], Awaitable[Any]] | None = None) -> list[e.Event]:
    """A turn, with each ask answered."""
    received = []
    async for event in claude.prompt(prompt):
        received.append(event)
        if isinstance(event, Ask):
            await (verdict(event) if verdict else event.allow())
    return received


def check(events: list[e.Event]) -> list[e.Event]:
    grammar = Grammar()
    for event in events:
        result = {name: getattr(event, name) for name in e.Ask.__struct_fields__} if isinstance(event, Ask) else {}
        grammar.check(e.Ask(**result) if result else event)  # the SDK's asks can do more
    return events


def blocks(events: list[e.Event]) -> list[tuple[str, str]]:
    """Every block and every result of a call, with its lane."""
    result = []
    for event in events:
        match event:
            case e.BlockEnded(Text(words) | Thinking(words)):
                result.append((event.agent, words))
            case e.ToolCalled(call):
                result.append((event.agent, call))
            case e.ToolFinished(call, outcome=outcome):
                result.append((event.agent, f"{call} {outcome}"))
    return result


def of(events: list[e.Event], kind: type[T]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


@partials
def test_thinking_and_text_are_told_once(tmp_path: Path, flags: tuple[str, ...]) -> None:
    script = {"WHY": [[thinking("let me see"), text("Because of the rain.")]]}
    received = check(run(tmp_path, script, lambda claude, model: listen(claude, "WHY"), *flags))
    assert blocks(received) == [("", "let me see"), ("", "Because of the rain.")]
    assert "".join(event.text for event in of(received, e.TextDelta)) == "Because of the rain."
    assert len(of(received, e.TextDelta)) == (2 if flags else 1)
    [ended] = of(received, e.TurnEnded)
    assert (ended.reason, ended.steps, ended.usage.input, ended.usage.output) == ("end", 1, 10, 7)


@partials
def test_of_two_calls_at_once_one_is_allowed_and_one_denied(tmp_path: Path, flags: tuple[str, ...]) -> None:
    both = [
        text("I will."),
        use("c1", "Bash", command="touch one; echo hi", description="one"),
        use("c2", "Bash", command="touch two", description="two"),
    ]

    async def verdict(ask: Ask) -> None:
        await (ask.allow() if ask.call == "c1" else ask.deny("not two"))

    script = {"BOTH": [both, [text("One is there.")]]}
    received = check(run(tmp_path, script, lambda claude, model: listen(claude, "BOTH", verdict), *flags))
    assert sorted(blocks(received)) == sorted(
        [("", "I will."), ("", "c1"), ("", "c2"), ("", "c1 ok"), ("", "c2 denied"), ("", "One is there.")]
    )
    assert [event.output for event in of(received, e.ToolFinished)] == ["hi", "not two"]
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["one"]


@partials
def test_two_agents_at_once_have_lanes_of_their_own(tmp_path: Path, flags: tuple[str, ...]) -> None:
    def child(name: str) -> list[Step]:
        call = use(f"{name}-call", "Bash", command=f"touch {name.lower()}; echo done", description="x")
        return [[thinking(f"{name} thinks"), text("Let me search."), call], [text(f"{name} is done.")]]

    script = {
        "DELEGATE": [[agent("k1", "FIRST"), agent("k2", "SECOND")], [text("Both are done.")]],
        "FIRST": child("FIRST"),
        "SECOND": child("SECOND"),
    }
    received = check(run(tmp_path, script, lambda claude, model: listen(claude, "DELEGATE"), *flags))
    for lane, name in (("k1", "FIRST"), ("k2", "SECOND")):
        assert [words for agent, words in blocks(received) if agent == lane] == [
            f"{name} thinks",
            "Let me search.",
            f"{name}-call",
            f"{name}-call ok",
            f"{name} is done.",
        ]
    main = [words for agent, words in blocks(received) if not agent]
    assert sorted(main) == ["Both are done.", "k1", "k1 ok", "k2", "k2 ok"]
    assert {(event.agent, event.call, event.name) for event in of(received, e.AgentStarted)} == {
        ("k1", "k1", "general-purpose"),
        ("k2", "k2", "general-purpose"),
    }
    assert all(event.ok for event in of(received, e.AgentEnded))
    [ended] = of(received, e.TurnEnded)
    assert ended.usage.input == 60, "the agents' requests are counted too"


def test_an_agent_in_the_background_ends_in_a_turn_that_nobody_asked_for(tmp_path: Path) -> None:
    script = {
        "LAUNCH": [[agent("k1", "WATCH", background=True)], [text("Launched.")]],
        "WATCH": [[WAIT, text("Seen.")]],
    }

    async def talk(claude: Agent, model: Model) -> list[e.Event]:
        received: list[e.Event] = []
        async for event in claude.events():
            received.append(event)
            if isinstance(event, e.TurnEnded):
                model.go.set()
                if len(of(received, e.TurnEnded)) == 2:
                    return received
        raise AssertionError("it ended")

    async def both(claude: Agent, model: Model) -> list[e.Event]:
        listening = asyncio.ensure_future(talk(claude, model))
        await asyncio.sleep(0)
        await listen(claude, "LAUNCH")
        return await listening

    received = check(run(tmp_path, script, both))
    assert [event.cause for event in of(received, e.TurnStarted)] == ["prompt", "engine"]
    assert ("k1", "Seen.") in blocks(received)
    [ended] = of(received, e.AgentEnded)
    assert (
        received.index(of(received, e.TurnEnded)[0])
        < received.index(ended)
        < received.index(of(received, e.TurnEnded)[1])
    )


@partials
def test_a_reply_is_interrupted_and_the_next_prompt_answered(tmp_path: Path, flags: tuple[str, ...]) -> None:
    script = {"LONG": [[text("First."), WAIT, text("Second.")]], "SHORT": [[text("Here.")]]}

    async def talk(claude: Agent, model: Model) -> tuple[list[e.Event], list[e.Event]]:
        received = []
        async for event in claude.prompt("LONG"):
            received.append(event)
            if isinstance(event, e.BlockEnded):
                await claude.cancel()
        return received, await listen(claude, "SHORT")

    cut, after = run(tmp_path, script, talk, *flags)
    assert blocks(check(cut)) == [("", "First.")]
    assert [event.reason for event in of(cut, e.TurnEnded)] == ["cancelled"]
    assert blocks(after) == [("", "Here.")]


def test_a_tool_is_interrupted(tmp_path: Path) -> None:
    running = tmp_path / "running"
    os.mkfifo(running)
    command = f"echo yes > '{running}'; sleep 600"
    script = {"SLEEP": [[use("c1", "Bash", command=command, description="sleep")], [text("Slept.")]]}

    async def talk(claude: Agent, model: Model) -> list[e.Event]:
        listening = asyncio.ensure_future(listen(claude, "SLEEP"))
        await asyncio.to_thread(running.read_text)
        await claude.cancel()
        return await listening

    received = check(run(tmp_path, script, talk))
    assert blocks(received) == [("", "c1"), ("", "c1 cancelled")]
    assert [event.reason for event in of(received, e.TurnEnded)] == ["cancelled"]


def test_prompts_that_pile_up_have_a_turn_each(tmp_path: Path) -> None:
    script = {word: [[text(f"{word} it is.")]] for word in ("ONE", "TWO", "THREE")}

    async def talk(claude: Agent, model: Model) -> list[list[e.Event]]:
        return await asyncio.gather(*(listen(claude, word) for word in script))

    for word, received in zip(script, run(tmp_path, script, talk), strict=True):
        assert blocks(received) == [("", f"{word} it is.")]
        assert [event.reason for event in of(received, e.TurnEnded)] == ["end"]


def test_a_question_is_answered_by_its_label(tmp_path: Path) -> None:
    options = [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]
    question = {"question": "Which?", "header": "Colour", "multiSelect": False, "options": options}
    script = {"ASK": [[use("c1", "AskUserQuestion", questions=[question])], [text("Blue it is.")]]}

    async def verdict(ask: Ask) -> None:
        assert (ask.kind, ask.title, [option.id for option in ask.options]) == ("choice", "Which?", ["red", "blue"])
        await ask.answer("blue")

    received = check(run(tmp_path, script, lambda claude, model: listen(claude, "ASK", verdict)))
    assert '"Which?"="blue"' in of(received, e.ToolFinished)[0].output


def test_a_tool_of_the_host_is_called_by_the_model(tmp_path: Path) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    script = {"SUM": [[use("c1", "mcp__host__add", a=2, b=3)], [text("Five.")]]}
    received = check(run(tmp_path, script, lambda claude, model: listen(claude, "SUM"), tools=[tool(add)]))
    assert [(event.output, event.outcome) for event in of(received, e.ToolFinished)] == [("5", "ok")]


def test_settings_questions_and_context(tmp_path: Path) -> None:
    script = {"HELLO": [[text("Hi.")]]}

    async def talk(claude: Agent, model: Model) -> None:
        assert claude.ready.version == DIALECT.versions[0]
        await claude.add_context("The password is swordfish.")
        await listen(claude, "HELLO")
        assert "swordfish" in str(model.asked[-1]["messages"])
        await claude.configure(mode="auto_edit", model="sonnet")
        assert claude.settings["mode"] == "auto_edit"
        assert claude.settings["model"] != "sonnet", "it says what it made of it"
        report = await claude.query("context")
        assert isinstance(report, ContextReport)
        assert 0 < report.used < report.size
        assert await claude.query("servers") == ()
        assert {card.name for card in await claude.query("models")} >= {"default", "opus"}
        assert await claude.query("version") == DIALECT.versions[0]
        assert (await claude.state()).mode == "auto_edit"

    run(tmp_path, script, talk)


HOST = """
import asyncio, json, sys
from polylect.host import TextDelta, connect
async def main():
    async with connect(json.loads(sys.argv[1]), dialect="claude") as claude:
        async for event in claude.prompt("slow"):
            if isinstance(event, TextDelta):
                print(claude.pid, flush=True)
asyncio.run(main())
"""


def test_it_ends_when_its_host_is_killed_though_the_model_still_writes(tmp_path: Path) -> None:
    argv = json.dumps([str(CLAUDE), *FLAGS, "--include-partial-messages"])

    async def main() -> None:
        async with Model({"slow": [[text("a"), WAIT]]}) as model:
            place = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "config")}
            host = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", HOST, argv),
                cwd=tmp_path,
                env={**place, **OFFLINE, "ANTHROPIC_BASE_URL": model.url},
                stdout=asyncio.subprocess.PIPE,
            )
            assert host.stdout
            pid = int(await host.stdout.readline())
            host.kill()
            await host.wait()
            await asyncio.to_thread(eventually, lambda: not Path(f"/proc/{pid}").exists())

    asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))
