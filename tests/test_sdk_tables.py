"""The tables of docs/host-sdk.md are those that the code makes, and `dir` shows what they document."""

import asyncio
import re
from typing import Any

import pytest
from scripts import sdk_tables

from polylect.host import Result, connect
from polylect.host.agent import Agent
from polylect.host.engine_registry import ENGINES
from polylect.host.sync import SyncAgent, SyncTurn
from polylect.host.turn import Turn

PAGE = sdk_tables.PAGE.read_text("utf-8")


def shown(kind: Any) -> set[str]:
    """What `dir` shows of it that is meant for programs."""
    return {name for name in dir(kind) if not name.startswith("_")}


def documented(title: str) -> set[str]:
    """The names in the first column of the table that begins with this title."""
    rows = PAGE.partition(f"| {title} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [cell for row in rows for cell in re.findall(r"`([^`]+)`", row.split("|")[1])]
    return {re.split(r"\W", cell.removeprefix("await "))[0] for cell in cells}


def test_the_tables_are_those_of_the_code() -> None:
    assert sdk_tables.page(PAGE) == PAGE, "say: python scripts/sdk_tables.py"


@pytest.mark.parametrize(
    ("kind", "title", "more"),
    [
        (Agent, "`agent.`", set()),
        (SyncAgent, "`agent.`", set()),
        (Turn, "`turn.`", set()),
        (SyncTurn, "`turn.`", {"wait"}),
        (Result, "field | meaning", set()),
    ],
)
def test_dir_shows_what_is_documented_and_nothing_else(kind: type, title: str, more: set[str]) -> None:
    assert shown(kind) == documented(title) | more


def test_attributes_that_an_object_gets_later_are_private() -> None:
    agent = connect("polylect")
    turn = agent.prompt("x")
    for one in (agent, turn, turn.result):
        assert shown(one) == shown(type(one))
    asyncio.run(turn.cancel())


def test_every_option_has_a_row() -> None:
    flags = {flag for engine in ENGINES.values() for flag in (*engine.flags, *engine.over_wire)}
    assert flags - set(sdk_tables._NOT_WISHES) == set(sdk_tables.WISHES)
