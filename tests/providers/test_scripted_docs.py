"""docs/scripted.md is true: its scripts are played against the conversations below them, its Python is run."""

import asyncio
import itertools
import re
from pathlib import Path

import msgspec
import pytest

from polylect.providers.scripted import Scripted
from polylect.providers.scripted.parse import parse_script
from polylect.vocab.content import Block, Message, Text, ToolCall, ToolResult
from polylect.vocab.ports import BlockDone, ModelRequest

PAGE = (Path(__file__).parents[2] / "docs" / "scripted.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TALKS = [
    (one, two) for (kind, one), (then, two) in itertools.pairwise(BLOCKS) if (kind, then) == ("toml", "conversation")
]


@pytest.mark.parametrize("script", [text for kind, text in BLOCKS if kind == "toml"])
def test_the_scripts_on_the_page_are_good(script: str) -> None:
    parse_script(script)


@pytest.mark.parametrize(("script", "talk"), TALKS)
def test_the_conversations_on_the_page_happen(script: str, talk: str) -> None:
    assert asyncio.run(converse(Scripted.from_text(script), talk.splitlines())) == talk.splitlines()


@pytest.mark.parametrize("code", [text for kind, text in BLOCKS if kind == "python"])
def test_the_python_on_the_page_runs(code: str) -> None:
    exec(compile(code, "scripted.md", "exec"), {})


def test_the_page_has_what_these_tests_look_for() -> None:
    assert len(TALKS) == 4
    assert {kind for kind, _ in BLOCKS} == {"toml", "conversation", "python"}


async def converse(model: Scripted, lines: list[str]) -> list[str]:
    """Plays the lines of the person and of the tools, and writes down all."""
    messages: list[Message] = []
    received: list[str] = []
    waiting: list[ToolCall] = []
    for line in lines:
        who, _, words = line.partition(": ")
        if who == "you":
            messages.append(Message("user", (Text(words),)))
        elif who == "tool":
            call = waiting.pop(0)
            outcome, _, output = words.partition(" ")
            messages.append(Message("tool", (ToolResult(call.call, call.name, output, outcome),)))  # type: ignore[arg-type]
        else:
            continue
        received.append(line)
        if not waiting:
            blocks = await reply(model, messages)
            messages.append(Message("assistant", blocks))
            waiting = [block for block in blocks if isinstance(block, ToolCall)]
            received += [written for block in blocks for written in write(block)]
    return received


async def reply(model: Scripted, messages: list[Message]) -> tuple[Block, ...]:
    events = [event async for batch in model.stream(ModelRequest("m", "", messages)) for event in batch]
    return tuple(event.block for event in events if isinstance(event, BlockDone))


def write(block: Block) -> list[str]:
    match block:
        case Text(text):
            return [f"model: {line}" for line in text.splitlines()]
        case ToolCall():
            return [f"call: {block.name} {msgspec.json.encode(block.args).decode()}"]
    raise AssertionError(block)
