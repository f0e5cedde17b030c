"""A tool, a provider and a dialect are added by adding their files: nothing else has to name them.

Each case copies the package into a folder of its own, adds files there and uses them through a real engine process.
"""

import shutil
from pathlib import Path

import pytest

from engine_process import Frame, Place

SOURCES = Path(__file__).parents[1] / "src" / "polylect"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, with what was compiled of it."""
    return Path(shutil.copytree(SOURCES, tmp_path / "lib" / "polylect"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


def frames(place: Place, package: Path, *flags: str, prompt: str = "Go") -> list[Frame]:
    """What an engine of this package says to one prompt, on json-stream and without a question."""
    line = f'{{"type":"message","msg_id":"m1","content":"{prompt}"}}\n'
    words = ("--json-stream", "--no-session", "--approval-mode", "force", *flags)
    done = place.run(*words, given=line.encode(), env={"PYTHONPATH": str(package.parent), "POLYLECT_PROVIDER": ""})
    assert (done.code, done.errors) == (0, "")
    return done.frames


def text_of(events: list[Frame]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "text_delta")


TOOL = '''
"""Reverse: a text, from its end to its beginning."""

from typing import Any

from msgspec import Struct

from polylect.tools.arguments import TypedTool
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category
from polylect.vocab.ports import Tool, ToolContext, ToolReturn


class Arguments(Struct, frozen=True):
    text: str


class Reverse(TypedTool[Arguments]):
    name = "Reverse"
    category: Category = "info"
    text = "Reverses a text."
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return "Reverse a text"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        return ToolReturn(args.text[::-1])


def open_tool(setup: ToolSetup) -> Tool:
    return Reverse()
'''
SCRIPT = """
[[reply]]
when.step = 1
say = [{ call = "Reverse", id = "t1", args = { text = "drawer" } }]

[[reply]]
text = "{tool}: {result}"
"""


def test_a_tool_is_one_module(place: Place, package: Path) -> None:
    (package / "tools" / "builtin" / "reverse.py").write_text(TOOL)
    events = frames(place, package, *place.script(SCRIPT))
    [result] = [event for event in events if event["type"] == "tool_result"]
    assert (result["tool_name"], result["status"], result["output"]) == ("Reverse", "success", "reward")
    assert text_of(events) == "Reverse: reward"
