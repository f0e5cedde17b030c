"""Answers that have to fit a schema, as models write them."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from engine_process import PATIENCE
from polylect.embed import open_engine
from polylect.host import Agent, Limits, TimedOut, TurnFailed
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


def here(folder: Path, script: str, **options: Any) -> Agent:
    return open_engine(Scripted.from_text(script), workspace=folder, **options)


def test_the_limits_of_a_question_hold_when_it_is_asked_again(tmp_path: Path) -> None:
    script = '[[turn]]\ntext = "no"\n[[turn]]\nsay = [{ wait = 600 }]\n'

    async def talk() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path, script) as agent:
            with pytest.raises(TimedOut):
                await agent.ask("How many?", schema=int, limits=Limits(total=0.5))

    asyncio.run(talk())


SPENDS = '[price]\ninput = 10.0\noutput = 0.0\n\n[[reply]]\ntext = "no"\nusage = { input = 1_000, output = 0 }\n'


@pytest.mark.parametrize(
    ("limits", "failure"),
    [
        (Limits(cost=0.015), "the turn cost $0.01; the limit is $0.005"),
        (Limits(tokens=1_500), "the turn used 1000 tokens; the limit is 500"),
    ],
)
def test_a_limit_is_for_all_attempts_together(limits: Limits, failure: str, tmp_path: Path) -> None:
    """Each attempt takes a cent and a thousand tokens."""

    async def talk(agent: Agent, **options: Any) -> tuple[str, int]:
        async with asyncio.timeout(PATIENCE), agent:
            with pytest.raises(TurnFailed, match=re.escape(failure)) as caught:
                await agent.ask("How many?", schema=int, **options)
            return str(caught.value.result.cost), caught.value.result.usage.input

    assert asyncio.run(talk(here(tmp_path, SPENDS), limits=limits)) == ("0.02", 2_000)
    assert asyncio.run(talk(here(tmp_path, SPENDS, limits=limits))) == ("0.02", 2_000)


def test_the_time_of_a_limit_is_for_all_attempts_together(tmp_path: Path) -> None:
    script = '[[reply]]\nsay = [{ wait = 1.0 }, "no"]\nusage = { input = 1_000, output = 0 }\n'

    async def talk() -> int:
        async with asyncio.timeout(PATIENCE), here(tmp_path, script) as agent:
            with pytest.raises(TimedOut, match="took longer than 0") as caught:
                await agent.ask("How many?", schema=int, limits=Limits(total=1.9))
            return caught.value.result.usage.input

    assert asyncio.run(talk()) == 1_000
