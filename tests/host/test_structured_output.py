"""Answers that have to fit a schema, as models write them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine_process import PATIENCE
from polylect.embed import open_engine
from polylect.host import Agent, Limits, TimedOut
from polylect.host.results import Result, update
from polylect.host.structured_output import Shape
from polylect.providers.scripted import Scripted
from polylect.vocab.events import TextDelta

ANY: dict[str, Any] = {}


def answered(text: str) -> Result:
    result = Result()
    update(result, TextDelta(text))
    return result


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("  42\n", 42),
        ("null", None),
        ('"in {braces} and [brackets]"', "in {braces} and [brackets]"),
        ('{"code": "```py\\nx\\n```"}', {"code": "```py\nx\n```"}),
        ('Here it is:\n```json\n{"a": 1}\n```\nAnything else?', {"a": 1}),
        ("```\n[1, 2]\n```", [1, 2]),
        ("```JSON\n3\n```", 3),
        ('Sure! {"a": [1]} is it.', {"a": [1]}),
    ],
)
def test_a_value_is_found_in_what_is_around_it(text: str, value: object) -> None:
    result = answered(text)
    assert Shape(ANY).fault(result) == ""
    assert result.value == value


def test_what_is_no_value_is_said_to_be_none() -> None:
    assert "the answer is not JSON" in Shape(ANY).fault(answered("I do not know."))


def here(folder: Path, script: str) -> Agent:
    return open_engine(Scripted.from_text(script), workspace=folder)


def test_the_limits_of_a_question_hold_when_it_is_asked_again(tmp_path: Path) -> None:
    script = '[[turn]]\ntext = "no"\n[[turn]]\nsay = [{ wait = 600 }]\n'

    async def talk() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path, script) as agent:
            with pytest.raises(TimedOut):
                await agent.ask("How many?", schema=int, limits=Limits(total=0.5))

    asyncio.run(talk())
