"""Leaving plan mode: a tool that is there in plan mode alone, and a person who decides."""

from pathlib import Path
from typing import Any

import pytest

from doubles import Edit, Talk, run
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Answer, Command, Configure, Grant, Hello, Prompt
from polylect.vocab.content import Rule
from polylect.vocab.events import Ask, SettingChanged, ToolFinished, TurnEnded

NAME = "ExitPlanMode"
PLAN = {"call": NAME, "id": "p1", "args": {"plan": "1. Edit"}}


def planned(folder: Path, *before: Command, verdict: Any = "allow", **answer: Any) -> Talk:
    """A model that shows its plan; the host says some commands, and then its answer."""

    async def conversation(talk: Talk) -> None:
        talk.send(Hello(), Prompt("t1", "Go"))
        ask = await talk.until(Ask)
        talk.send(*before, Answer(ask.ask, verdict, **answer))
        await talk.until(TurnEnded)

    return run(conversation, folder, Scripted.in_order([PLAN], "done"), Edit(), mode="plan")


def modes(talk: Talk) -> list[Any]:
    return [event.value for event in talk.of(SettingChanged) if event.key == "mode"]


def offered(talk: Talk) -> list[bool]:
    """Of each list of tools that the host was told, whether it is there."""
    return [NAME in event.value for event in talk.of(SettingChanged) if event.key == "tools"]


def test_a_person_is_shown_the_plan_and_a_yes_ends_plan_mode(tmp_path: Path) -> None:
    talk = planned(tmp_path)
    [ask] = talk.of(Ask)
    assert (ask.kind, ask.name, ask.args) == ("permission", NAME, {"plan": "1. Edit"})
    assert modes(talk) == ["default"]
    assert offered(talk) == [True, False]
    [finished] = talk.of(ToolFinished)
    assert (finished.outcome, finished.output.endswith("1. Edit")) == ("ok", True)


def test_the_answer_can_name_the_mode_that_follows_and_another_plan(tmp_path: Path) -> None:
    talk = planned(tmp_path, Configure({"mode": "auto_edit"}), args={"plan": "1. Only look"})
    assert modes(talk) == ["auto_edit"]
    [finished] = talk.of(ToolFinished)
    assert (finished.outcome, finished.output.endswith("1. Only look")) == ("ok", True)


def test_a_no_is_told_to_the_model_and_it_stays_in_plan_mode(tmp_path: Path) -> None:
    talk = planned(tmp_path, verdict="deny", reason="too short")
    assert modes(talk) == []
    assert offered(talk) == [True]
    [finished] = talk.of(ToolFinished)
    assert (finished.outcome, finished.reason) == ("denied", "too short")


def test_no_rule_answers_for_the_person(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Grant(rule=Rule("tool", NAME)), Prompt("t1", "Go"))
        ask = await talk.until(Ask)
        talk.send(Answer(ask.ask, "deny"))
        await talk.until(TurnEnded)

    run(conversation, tmp_path, Scripted.in_order([PLAN], "done"), mode="plan")


@pytest.mark.parametrize("mode", ["default", "auto_edit", "force"])
def test_in_other_modes_there_is_no_such_tool(tmp_path: Path, mode: str) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Hello(), Prompt("t1", "Go"))
        await talk.until(TurnEnded)

    talk = run(conversation, tmp_path, Scripted.in_order([PLAN], "done"), Edit(), mode=mode)
    assert offered(talk) == [False]
    [finished] = talk.of(ToolFinished)
    assert finished.output.startswith(f"Unknown tool: {NAME}")
    assert NAME not in finished.output.partition("The tools are")[2]
