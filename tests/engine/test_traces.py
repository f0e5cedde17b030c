"""Traces: a record of every model call and of what came of it, made from what is said anyway."""

from itertools import count
from pathlib import Path
from typing import Any

from doubles import Crash, Echo, Played, Run, Talk, converse
from polylect.dialects.jsonstream.events import trace
from polylect.engine.traces import Record, Tracer, TurnRecord
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Answer, Command, Prompt
from polylect.vocab.errors import ProviderError
from polylect.vocab.events import Ask, Event, StepTraced, TurnEnded


def script(*replies: dict[str, Any], **more: Any) -> Scripted:
    return Scripted.from_values({**more, "reply": replies})


def traces(talk: Talk) -> list[dict[str, Any]]:
    actual: list[dict[str, Any]] = [trace(event, "").trace for event in talk.of(StepTraced)]
    for trace_fields in actual:
        for timed in (trace_fields, *trace_fields["tool_calls"]):
            assert timed.pop("duration_ms") >= 0
    return actual


def refuse(event: Event) -> Command | None:
    return Answer(event.ask, "deny", reason="no") if isinstance(event, Ask) else None


def test_every_model_call_is_one_record_with_a_row_for_each_call_of_a_tool(tmp_path: Path) -> None:
    calls = [{"call": "Echo", "id": "e", "args": {"text": "hé"}}, {"call": "Run", "id": "r"}]
    usage = {"input": 60, "output": 5, "cache_read": 40}
    model = script(
        {"when": {"step": 1}, "say": calls, "usage": usage},
        {"say": ["done"], "usage": {"input": 10, "output": 1}},
        price={"input": 1000.0, "output": 0.0, "cache_read": 0.0},
    )
    talk = converse(tmp_path, model, [Prompt("t1", "go")], Echo(), Run(), host=refuse, structured_traces=True)
    first, second = traces(talk)
    assert first == {
        "turn": 0,
        "model": "m",
        "provider": "scripted",
        "input_tokens": 60,
        "output_tokens": 5,
        "cache_read": 40,
        "cache_write": 0,
        "cache_hit_rate": 0.4,
        "cost_usd": 0.06,
        "cost_priced": True,
        "tool_calls": [
            {
                "call_id": "e",
                "tool_name": "Echo",
                "input": {"text": "hé"},
                "output_summary": "hé",
                "bytes_in": 14,
                "bytes_out": 3,
                "source_product": "polylect",
            },
            {
                "call_id": "r",
                "tool_name": "Run",
                "input": {},
                "output_summary": "Tool denied: no",
                "bytes_in": 2,
                "bytes_out": 15,
                "source_product": "polylect",
                "error": "Tool denied: no",
            },
        ],
        "hook_actions": [],
        "source_product": "polylect",
    }
    assert (second["turn"], second["tool_calls"]) == (1, [])


def test_nothing_is_told_unless_it_is_switched_on(tmp_path: Path) -> None:
    assert traces(converse(tmp_path, script({"say": ["hi"]}), [Prompt("t1", "go")])) == []


def test_T6_a_price_that_is_not_known_is_not_taken_for_none(tmp_path: Path) -> None:
    talk = converse(tmp_path, script({"say": ["hi"]}), [Prompt("t1", "go")], structured_traces=True)
    [step] = traces(talk)
    assert (step["cost_usd"], step["cost_priced"]) == (0.0, False)


def test_a_reply_that_breaks_off_and_a_tool_that_crashes_are_told_too(tmp_path: Path) -> None:
    crashing = script({"when": {"step": 1}, "say": [{"call": "Crash", "id": "c"}]}, {"say": ["well"]})
    talk = converse(tmp_path, crashing, [Prompt("t1", "go")], Crash(), structured_traces=True)
    assert traces(talk)[0]["tool_calls"][0]["error"] == "The tool crashed: RuntimeError: boom"
    broken = Played([ProviderError("server", "down")])
    talk = converse(tmp_path, broken, [Prompt("t1", "go")], structured_traces=True)
    assert [step["tool_calls"] for step in traces(talk)] == [[]]
    assert talk.of(TurnEnded)[0].reason == "error"


def test_a_sub_agents_calls_are_told_in_its_own_lane(tmp_path: Path) -> None:
    tasks = {"tasks": [{"name": "one", "prompt": "inside"}]}
    model = script(
        {"when": {"prompt": "inside"}, "say": ["hi"]},
        {"when": {"step": 1}, "say": [{"call": "Spawn", "id": "s", "args": tasks}]},
        {"say": ["done"]},
    )
    talk = converse(tmp_path, model, [Prompt("t1", "go")], mode="force", structured_traces=True)
    assert [event.agent for event in talk.of(StepTraced)] == ["s", "", ""]


def test_whoever_wants_the_records_gets_them_with_the_turn_they_belong_to(tmp_path: Path) -> None:
    records: list[Record] = []
    clock = count(1)
    tracer = Tracer(lambda event: None, lambda: "p", emit_traces=False, record=records.append, now=lambda: next(clock))
    model = script({"when": {"step": 1}, "say": [{"call": "Echo", "id": "e"}]}, {"say": ["done"]})
    talk = converse(tmp_path, model, [Prompt("t1", "go")], Echo())
    for event in talk.events:
        tracer.receive(event)
    first, second, whole = records
    assert isinstance(first, StepTraced)
    assert isinstance(second, StepTraced)
    assert isinstance(whole, TurnRecord)
    assert (whole.turn, whole.reason, whole.usage) == ("t1", "end", talk.of(TurnEnded)[0].usage)
    assert whole.began < first.began < first.ended < first.calls[0].began < first.calls[0].ended < second.began
    assert second.ended < whole.ended
