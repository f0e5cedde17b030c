"""What becomes of a verdict: calls that run, are asked for or are denied, and rules that come and go (A4, A5, A7)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doubles import Edit, Run, Talk, converse
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Answer, Command, Grant, Prompt
from polylect.vocab.content import Rule, ToolResult
from polylect.vocab.events import Ask, Event, Reply, ToolFinished, ToolStarted, TurnEnded

HELLO = Prompt("t1", "Hello")


def call(id: str, name: str = "Run", **args: Any) -> dict[str, Any]:
    return {"call": name, "id": id, "args": args}


def answering(verdict: Any = "allow", **fields: Any) -> Callable[[Event], Command | None]:
    def host(event: Event) -> Command | None:
        return Answer(event.ask, verdict, **fields) if isinstance(event, Ask) else None

    return host


def talk(folder: Path, *calls: dict[str, Any], before: tuple[Command, ...] = (), **settings: Any) -> Talk:
    """One step for each call."""
    return converse(folder, Scripted.in_order([*calls, "ok"]), [*before, HELLO], Run(), Edit(), **settings)


def outcomes(talk: Talk) -> list[tuple[str, str, str]]:
    return [(event.call, event.outcome, event.reason) for event in talk.of(ToolFinished)]


def test_A7_a_denied_call_is_not_asked_for_and_not_run_and_the_model_is_told_why(tmp_path: Path) -> None:
    done = talk(tmp_path, call("c1", command="ls"), mode="force", deny=("Run",))
    assert outcomes(done) == [("c1", "denied", "the rule Run denies it")]
    assert [*done.of(Ask), *done.of(ToolStarted)] == []
    result = done.messages[-2].content[0]
    assert isinstance(result, ToolResult)
    assert result.output == "Tool denied: the rule Run denies it"


@pytest.mark.parametrize(("mode", "why"), [("plan", "the mode is plan"), ("dont_ask", "the mode dont_ask denies")])
def test_A7_plan_and_dont_ask_deny_without_asking(tmp_path: Path, mode: str, why: str) -> None:
    done = talk(tmp_path, call("c1", command="ls"), mode=mode)
    assert [(one, outcome) for one, outcome, _ in outcomes(done)] == [("c1", "denied")]
    assert why in outcomes(done)[0][2]
    assert done.of(Ask) == []


def test_rules_of_the_settings_are_read_as_people_write_them(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    done = talk(
        tmp_path,
        call("c1", "Edit", path="src/a"),
        call("c2", "Edit", path="other"),
        call("c3", "Edit", path="src/.env"),
        host=answering("deny"),
        allow=("Edit(src/**)",),
        deny=("Edit(.env)",),
    )
    assert [(one, outcome) for one, outcome, _ in outcomes(done)] == [("c1", "ok"), ("c2", "denied"), ("c3", "denied")]
    assert [ask.call for ask in done.of(Ask)] == ["c2"]


def test_A5_arguments_that_an_answer_puts_in_place_are_held_to_deny_rules_too(tmp_path: Path) -> None:
    done = talk(
        tmp_path,
        call("c1", "Edit", path="a"),
        host=answering("allow", args={"path": ".env"}),
        deny=("Edit(.env)",),
    )
    assert [outcome for _, outcome, _ in outcomes(done)] == ["denied"]
    assert done.of(ToolStarted) == []


def test_a_no_for_always_is_remembered_and_a_yes_with_a_no_for_always_is_not(tmp_path: Path) -> None:
    never = Rule("tool", "Run", effect="deny")
    done = talk(tmp_path, call("c1"), call("c2"), host=answering("deny", always=never))
    assert [ask.call for ask in done.of(Ask)] == ["c1"]
    assert outcomes(done)[1][2] == "the rule Run denies it"
    done = talk(tmp_path, call("c1"), call("c2"), host=answering("allow", always=never))
    assert [ask.call for ask in done.of(Ask)] == ["c1", "c2"]


def test_an_answer_that_interrupts_denies_its_call_and_ends_the_turn(tmp_path: Path) -> None:
    done = talk(tmp_path, call("c1"), call("c2"), host=answering("deny", reason="stop it", interrupt=True))
    assert outcomes(done) == [("c1", "denied", "stop it")]
    assert [event.reason for event in done.of(TurnEnded)] == ["cancelled"]


def test_an_answer_that_interrupts_stops_the_other_calls_of_its_step_and_the_next_prompt_is_taken(
    tmp_path: Path,
) -> None:
    def host(event: Event) -> Command | None:
        stop = isinstance(event, Ask) and event.call == "c1"
        return Answer(event.ask, "deny", interrupt=True) if stop and isinstance(event, Ask) else None

    model = Scripted.in_order([[call("c1"), call("c2")]], ["again"])
    done = converse(tmp_path, model, [HELLO, Prompt("t2", "Hello")], Run(), host=host)
    assert [(one, outcome) for one, outcome, _ in outcomes(done)] == [("c1", "denied"), ("c2", "cancelled")]
    assert [(event.turn, event.reason) for event in done.of(TurnEnded)] == [("t1", "cancelled"), ("t2", "end")]


def test_a_yes_cannot_interrupt(tmp_path: Path) -> None:
    done = talk(tmp_path, call("c1"), host=answering("allow", interrupt=True))
    assert [event.reason for event in done.of(TurnEnded)] == ["end"]


def test_a_host_grants_rules_that_hold_until_they_end_or_are_taken_back(tmp_path: Path) -> None:
    rule = Rule("tool", "Run")
    granted = talk(tmp_path, call("c1"), before=(Grant(rule=rule, id="g1", ref="r1"),))
    assert granted.of(Ask) == []
    for before in (
        (Grant(rule=rule, id="g1"), Grant(revoke=True, id="g1")),
        (Grant(rule=rule), Grant(rule=rule, revoke=True)),
        (Grant(rule=rule, until_ms=1),),
    ):
        assert talk(tmp_path, call("c1"), before=before, host=answering("deny")).of(Ask) != []


def test_what_was_never_granted_cannot_be_taken_back(tmp_path: Path) -> None:
    rule = Rule("tool", "Run", effect="deny")
    done = talk(tmp_path, call("c1"), before=(Grant(rule=rule, revoke=True, ref="r1"),), mode="force", deny=("Run",))
    (reply,) = done.of(Reply)
    assert reply.failure
    assert reply.failure.code == "unknown_grant"
    assert [outcome for _, outcome, _ in outcomes(done)] == ["denied"]


def test_P2_a_granted_folder_is_open_and_a_denied_one_in_it_is_not(tmp_path: Path) -> None:
    workspace, other = tmp_path / "workspace", tmp_path / "other"
    (other / "private").mkdir(parents=True)
    workspace.mkdir()
    done = talk(
        workspace,
        call("c1", "Edit", path=str(other / "a")),
        call("c2", "Edit", path=str(other / "private" / "a")),
        before=(Grant(rule=Rule("path", str(other))),),
        mode="auto_edit",
        deny=(f"Edit(/{other}/private/**)",),
    )
    assert [(one, outcome) for one, outcome, _ in outcomes(done)] == [("c1", "ok"), ("c2", "denied")]
    assert done.of(Ask) == []
