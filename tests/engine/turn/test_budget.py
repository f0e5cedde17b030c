"""Caps on what a session or a turn may cost: told once, then a clean end."""

from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Played, Run, Talk, converse, run
from polylect.engine.turn.budget import Budget
from polylect.engine.turn.loop import ESTIMATED
from polylect.providers.scripted import Scripted
from polylect.sessions.store import MemoryStore
from polylect.vocab.commands import Compact, Grant, Prompt
from polylect.vocab.content import Text, Usage
from polylect.vocab.events import (
    BudgetExceeded,
    CompactionEnded,
    CompactionStarted,
    CostChanged,
    Notice,
    Reply,
    ToolStarted,
    TurnEnded,
)
from polylect.vocab.ports import BlockDone, ReplyDone, TextChunk


def endless(tool: str = "Echo", **more: Any) -> Scripted:
    usage = {"input": 1000, "output": 100}
    price = {"price": {"input": 1000.0, "output": 0.0}}
    return Scripted.from_values({**price, "reply": [{"say": [{"call": tool, **more}], "usage": usage}]})


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (Budget(max_cost_usd=2.5), BudgetExceeded("max_cost_usd", "$3.0000", "$2.5000", turn="t1")),
        (Budget(max_tokens_in=2500), BudgetExceeded("max_tokens_in", "3000", "2500", turn="t1")),
        (Budget(max_tokens_out=300), BudgetExceeded("max_tokens_out", "300", "300", turn="t1")),
        (Budget(max_processes=3), BudgetExceeded("max_processes", "3", "3", turn="t1")),
    ],
)
@pytest.mark.parametrize("whose", ["budget", "turn_budget"])
def test_a_cap_ends_the_turn_after_the_step_that_passed_it(
    tmp_path: Path, budget: Budget, told: BudgetExceeded, whose: str
) -> None:
    talk = converse(tmp_path, endless("Run"), [Prompt("t1", "go")], Run(), mode="force", **{whose: budget})
    assert talk.of(BudgetExceeded) == [told]
    assert [(ended.reason, ended.steps) for ended in talk.of(TurnEnded)] == [("limit", 3)]


@pytest.mark.parametrize("cap", [Budget(max_wall_time_secs=0.001), Budget(max_tool_runtime_secs=0.000001)])
def test_time_is_capped_too(tmp_path: Path, cap: Budget) -> None:
    talk = converse(tmp_path, endless(), [Prompt("t1", "go")], Echo(), budget=cap)
    assert talk.of(TurnEnded)[0].reason == "limit"


def test_a_sessions_cap_is_told_once_and_ends_every_later_turn(tmp_path: Path) -> None:
    prompts = [Prompt("t1", "go"), Prompt("t2", "more")]
    talk = converse(tmp_path, endless(), prompts, Echo(), budget=Budget(max_tokens_in=2000))
    assert len(talk.of(BudgetExceeded)) == 1
    assert [(ended.reason, ended.steps) for ended in talk.of(TurnEnded)] == [("limit", 2), ("limit", 0)]
    assert len(talk.of(ToolStarted)) == 2


def test_a_turns_cap_starts_anew_with_each_turn(tmp_path: Path) -> None:
    prompts = [Prompt("t1", "go"), Prompt("t2", "more")]
    talk = converse(tmp_path, endless(), prompts, Echo(), turn_budget=Budget(max_tokens_in=2000))
    assert [(ended.reason, ended.steps) for ended in talk.of(TurnEnded)] == [("limit", 2), ("limit", 2)]


def test_a_sessions_cap_that_an_agent_passes_is_told_once_and_in_the_main_lane(tmp_path: Path) -> None:
    spawn = {"call": "Spawn", "id": "s", "args": {"tasks": [{"name": name, "prompt": "work"} for name in "ab"]}}
    work = {"when": {"prompt": "work"}, "say": [{"call": "Echo"}], "usage": {"input": 1000, "output": 1}}
    model = Scripted.from_values({"reply": [work, {"say": [spawn], "usage": {"input": 0, "output": 1}}]})
    cap = {"mode": "force", "budget": Budget(max_tokens_in=3000)}
    talk = converse(tmp_path, model, [Prompt("t1", "go")], Echo(), **cap)
    assert talk.of(BudgetExceeded) == [BudgetExceeded("max_tokens_in", "3000", "3000", turn="t1")]
    assert [event.reason for event in talk.of(TurnEnded)] == ["limit"]


@pytest.mark.parametrize("cap", [Budget(max_tokens_in=5000), Budget(max_processes=4)])
def test_what_agents_take_counts_for_the_caps_of_the_turn_that_waits_for_them(tmp_path: Path, cap: Budget) -> None:
    """And once: the call that started them is no command, and its time is theirs."""
    tasks = [{"name": name, "prompt": "loop"} for name in ("one", "two")]
    usage = {"input": 1000, "output": 100}
    model = Scripted.from_values(
        {
            "reply": [
                {"when": {"prompt": "loop"}, "say": [{"call": "Run"}], "usage": usage},
                {"say": [{"call": "Spawn", "args": {"tasks": tasks}}], "usage": usage},
            ]
        }
    )
    talk = converse(tmp_path, model, [Prompt("t1", "go")], Run(), mode="force", turn_budget=cap)
    assert [(result.agent, result.turn) for result in talk.of(BudgetExceeded)] == [("", "t1")]
    assert [(ended.reason, ended.usage) for ended in talk.of(TurnEnded)] == [("limit", Usage(5000, 500))]
    assert len([event for event in talk.of(ToolStarted) if event.name == "Run"]) == 4


@pytest.mark.parametrize("wish", [Compact(ref="c"), Prompt("t3", "/compact")])
def test_nothing_is_summarised_once_the_sessions_cap_is_reached(tmp_path: Path, wish: Compact | Prompt) -> None:
    model = Scripted.from_values({"reply": [{"say": ["x" * 400], "usage": {"input": 1000, "output": 1}}]})

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "one"), Prompt("t2", "two"))
        await talk.until(TurnEnded, 2)
        talk.send(wish)

    talk = run(conversation, tmp_path, model, budget=Budget(max_tokens_in=2000))
    assert talk.of(CompactionStarted) == []
    failures = [reply.failure.message for reply in talk.of(Reply) if reply.failure]
    assert (
        (failures or [talk.of(Notice)[-1].text])[0]
        .lower()
        .startswith("a summary would cost more, and the budget max_tokens_in of 2000 is used up (2000)")
    )


def test_a_turn_ends_where_making_room_took_the_rest_of_the_budget(tmp_path: Path) -> None:
    summary = {"when": {"system": "replaced by a summary"}, "say": ["sum"], "usage": {"input": 5000, "output": 1}}
    call = {"say": [{"call": "Echo", "args": {"text": "x" * 400}}], "usage": {"input": 900, "output": 1}}
    model = Scripted.from_values({"reply": [summary, call], "model": {"window": 1000}})
    talk = converse(tmp_path, model, [Prompt("t1", "go")], Echo(), max_tokens=100, budget=Budget(max_tokens_in=5000))
    assert len(talk.of(CompactionStarted)) == 1
    assert [(ended.reason, ended.steps) for ended in talk.of(TurnEnded)] == [("limit", 1)]


@pytest.mark.parametrize(("budget", "counted"), [(Budget(), False), (Budget(max_tokens_out=9000), True)])
def test_usage_that_no_server_reports_is_estimated_where_there_is_a_cap(
    tmp_path: Path, budget: Budget, counted: bool
) -> None:
    replies = [[BlockDone(Text("x" * 400)), ReplyDone("end")] for _ in range(2)]
    summary = [TextChunk("y" * 400), ReplyDone("end")]

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "one"), Prompt("t2", "two"))
        await talk.until(TurnEnded, 2)
        talk.send(Compact())
        await talk.until(CompactionEnded)

    talk = run(conversation, tmp_path, Played(*replies, summary), budget=budget)
    rows = [row["usage"] for row in talk.session.ledger]
    assert [usage.output for usage in rows] == ([105, 105, 100] if counted else [0, 0])
    assert all(usage.input > 0 for usage in rows) == counted
    assert len([notice for notice in talk.of(Notice) if notice.text == ESTIMATED]) == counted


def test_more_can_be_granted(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await talk.until(TurnEnded)
        talk.send(Grant(tokens=1000), Prompt("t2", "more"))

    talk = run(conversation, tmp_path, endless(), Echo(), budget=Budget(max_tokens_in=2000))
    assert [(ended.reason, ended.steps) for ended in talk.of(TurnEnded)] == [("limit", 2), ("limit", 1)]


def test_t6_the_ledger_is_told_after_every_turn_and_no_price_in_it_is_made_up(tmp_path: Path) -> None:
    priced = converse(tmp_path, endless(), [Prompt("t1", "go")], Echo(), max_turns=2)
    [result] = priced.of(CostChanged)
    assert result.total == Usage(2000, 200, cost=2.0)
    assert [(row["turn"], row["provider"], row["usage"].cost) for row in result.rows] == [
        (0, "scripted", 1.0),
        (1, "scripted", 1.0),
    ]
    unpriced = converse(tmp_path, Scripted.in_order(["hi"]), [Prompt("t1", "go")])
    [result] = unpriced.of(CostChanged)
    assert (result.total.cost, len(result.rows), result.rows[0]["cost_usd"]) == (None, 1, None)


def test_one_call_without_a_price_does_not_lift_the_cap_on_dollars_for_the_others(tmp_path: Path) -> None:
    replies = [[ReplyDone("end", Usage(10, 1, cost=cost))] for cost in (1.0, None, 1.0, 1.0, 1.0)]
    prompts = [Prompt(f"t{number}", "go") for number in range(5)]
    store = MemoryStore("")
    cap = {"budget": Budget(max_cost_usd=2.5), "store": store}
    talk = converse(tmp_path, Played(*replies), prompts, **cap)
    assert [event.reason for event in talk.of(TurnEnded)] == ["end", "end", "end", "end", "limit"]
    assert talk.of(BudgetExceeded)[0].observed == "$3.0000"
    assert (talk.session.usage.cost, talk.session.stats().usage.cost) == (None, 3.0)
    again = converse(tmp_path, Played(), [Prompt("t9", "go")], **cap)
    assert again.of(TurnEnded)[0].reason == "limit"
    anew = converse(tmp_path, Played(replies[0]), [Prompt("t10", "go")], **cap, budget_anew=True)
    assert anew.of(TurnEnded)[0].reason == "end"
