"""What a wire leaves unsaid is said."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import CONVERSATIONS, READY, SMALL
from grammar_check import Grammar
from polylect.vocab import events as e
from polylect.vocab.content import Failure, Image, Text, Thinking, ToolCall, Usage
from polylect.vocab.grammar.complete import Completer
from thoroughness import up_to

T1 = {"turn": "t1"}
K1 = {"turn": "t1", "agent": "k"}
UNSAID = "the engine did not say how it ended"


def completed(*events: e.Event) -> list[e.Event]:
    completer = Completer()
    return [said for event in events for said in completer.add(event)]


def held_to_the_grammar(events: list[e.Event]) -> Grammar:
    grammar = Grammar()
    for event in events:
        grammar.check(event)
    return grammar


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_grammatical_conversation_passes_unchanged(name: str) -> None:
    completer = Completer()
    assert [said for event in CONVERSATIONS[name] for said in completer.add(event)] == CONVERSATIONS[name]
    assert completer.close() == []
    assert not completer.lost


def test_bare_text_gets_its_turn_step_and_block() -> None:
    assert completed(e.TextDelta("a", **T1), e.TextDelta("b", **T1), e.TurnEnded("end", SMALL, **T1)) == [
        e.TurnStarted(**T1),
        e.StepStarted(**T1),
        e.TextDelta("a", **T1),
        e.TextDelta("b", **T1),
        e.BlockEnded(Text("ab"), **T1),
        e.ReplyEnded("end", **T1),
        e.StepEnded(**T1),
        e.TurnEnded("end", SMALL, 1, **T1),
    ]


def test_text_after_a_result_is_a_new_step() -> None:
    raw: list[e.Event] = [
        e.TurnStarted(**T1),
        e.TextDelta("a", **T1),
        e.ToolCalled("c1", "Read", **T1),
        e.ToolFinished("c1", "Read", "x", **T1),
        e.TextDelta("b", **T1),
        e.TurnEnded("end", **T1),
    ]
    assert completed(*raw) == [
        e.TurnStarted(**T1),
        e.StepStarted(**T1),
        e.TextDelta("a", **T1),
        e.BlockEnded(Text("a"), **T1),
        e.ToolCalled("c1", "Read", **T1),
        e.ToolStarted("c1", "Read", **T1),
        e.ToolFinished("c1", "Read", "x", **T1),
        e.ReplyEnded("calls", **T1),
        e.StepEnded(**T1),
        e.StepStarted(**T1),
        e.TextDelta("b", **T1),
        e.BlockEnded(Text("b"), **T1),
        e.ReplyEnded("end", **T1),
        e.StepEnded(**T1),
        e.TurnEnded("end", steps=2, **T1),
    ]


def test_a_whole_block_gets_its_delta_and_keeps_its_signature() -> None:
    thought = e.BlockEnded(Thinking("hm", signature="s"), **T1)
    assert completed(e.TurnStarted(**T1), thought)[2:] == [e.ThinkingDelta("hm", **T1), thought]


def test_a_block_that_goes_further_than_its_deltas_gets_the_rest() -> None:
    raw = [e.StepStarted(**T1), e.TextDelta("ab", **T1), e.BlockEnded(Text("abc"), **T1)]
    assert completed(*raw)[-2:] == [e.TextDelta("c", **T1), e.BlockEnded(Text("abc"), **T1)]


def test_a_block_that_contradicts_its_deltas_gives_way_to_them() -> None:
    raw = [e.StepStarted(**T1), e.TextDelta("ab", **T1), e.BlockEnded(Text("xyz"), **T1)]
    assert completed(*raw)[-1] == e.BlockEnded(Text("ab"), **T1)


def test_arguments_that_are_left_become_a_block() -> None:
    raw = [e.StepStarted(**T1), e.ArgsDelta("c1", "Read", '{"a": 1}', **T1), e.ArgsDelta("c2", "Read", "{", **T1)]
    block = e.BlockEnded(ToolCall("c1", "Read", {"a": 1}), **T1)
    assert completed(*raw, e.TextDelta("x", **T1))[3:] == [
        block,
        e.ArgsDelta("c2", "Read", "{", **T1),
        e.BlockEnded(ToolCall("c2", "Read", {}), **T1),
        e.TextDelta("x", **T1),
    ]


def test_a_cancelled_turn_closes_everything_in_it() -> None:
    raw: list[e.Event] = [
        e.StepStarted(**T1),
        e.ToolCalled("c1", "Task", **T1),
        e.ToolStarted("c1", "Task", **T1),
        e.AgentStarted(call="c1", **K1),
        e.AgentStarted(parent="k", turn="t1", agent="j"),
        e.Ask("a1", call="k1", name="Bash", args={"x": 1}, category="edit", **K1),
        e.Ask("a2", "confirm", **T1),
        e.TurnEnded("cancelled", **T1),
    ]
    assert completed(*raw)[6:] == [
        e.StepStarted(**K1),
        e.ToolCalled("k1", "Bash", {"x": 1}, "edit", **K1),
        raw[5],
        raw[6],
        e.ReplyEnded("calls", **T1),
        e.AgentEnded(False, turn="t1", agent="j"),
        e.ReplyEnded("calls", **K1),
        e.AskClosed("a1", "cancelled", **K1),
        e.ToolFinished("k1", "Bash", "", "cancelled", reason=UNSAID, **K1),
        e.StepEnded(**K1),
        e.AgentEnded(False, **K1),
        e.ToolFinished("c1", "Task", "", "cancelled", reason=UNSAID, **T1),
        e.StepEnded(**T1),
        e.AskClosed("a2", "cancelled", **T1),
        e.TurnEnded("cancelled", steps=1, **T1),
    ]


@pytest.mark.parametrize(
    ("kind", "mark", "how"),
    [
        ("permission", e.ToolStarted("c1", "Read", **T1), "allowed"),
        ("permission", e.ToolFinished("c1", "Read", "", "denied", **T1), "denied"),
        ("permission", e.ToolFinished("c1", "Read", "", "cancelled", **T1), "cancelled"),
        ("permission", e.ToolFinished("c1", "Read", "", "error", **T1), "unsaid"),
        ("choice", e.ToolStarted("c1", "Read", **T1), "unsaid"),
    ],
)
def test_the_next_mark_of_a_call_closes_its_ask(kind: Any, mark: e.Event, how: Any) -> None:
    raw = [e.StepStarted(**T1), e.ToolCalled("c1", "Read", **T1), e.Ask("a1", kind, "c1", **T1)]
    assert completed(*raw, mark)[-2:] == [e.AskClosed("a1", how, **T1), mark]


def test_a_retry_ends_with_its_turn() -> None:
    raw = [e.TurnStarted(**T1), e.RetryStarted(2, 3, 0, **T1)]
    assert completed(*raw, e.TurnEnded("error", **T1))[2:] == [e.RetryEnded(False, 2, **T1), e.TurnEnded("error", **T1)]
    assert completed(*raw, e.TurnEnded("end", **T1))[2] == e.RetryEnded(True, 2, **T1)


def test_a_retry_after_text_ends_that_step() -> None:
    raw = [e.StepStarted(**T1), e.TextDelta("par", **T1), e.RetryStarted(1, 3, 0, "cut", **T1)]
    assert completed(*raw)[3:] == [
        e.BlockEnded(Text("par"), **T1),
        e.ReplyEnded("error", error="cut", **T1),
        e.StepEnded(**T1),
        raw[-1],
    ]


def test_a_compaction_that_is_only_reported_gets_its_start() -> None:
    assert completed(e.CompactionEnded(summary="s")) == [e.CompactionStarted(), e.CompactionEnded(summary="s")]


def test_an_answer_without_a_single_word_is_a_turn_all_the_same() -> None:
    assert completed(e.TurnEnded("end", **T1)) == [e.TurnStarted(**T1), e.TurnEnded("end", **T1)]


def test_events_without_ids_get_those_of_the_running_turn() -> None:
    assert completed(e.TurnStarted(**T1), e.StepStarted(), e.TextDelta("a"), e.ReplyEnded("end"))[1:] == [
        e.StepStarted(**T1),
        e.TextDelta("a", **T1),
        e.BlockEnded(Text("a"), **T1),
        e.ReplyEnded("end", **T1),
    ]


def test_a_turn_nobody_asked_for_ends_when_the_next_begins() -> None:
    assert completed(e.TextDelta("by the way"), e.TurnStarted(**T1)) == [
        e.TurnStarted("engine", turn="unasked-1"),
        e.StepStarted(turn="unasked-1"),
        e.TextDelta("by the way", turn="unasked-1"),
        e.BlockEnded(Text("by the way"), turn="unasked-1"),
        e.ReplyEnded("end", turn="unasked-1"),
        e.StepEnded(turn="unasked-1"),
        e.TurnEnded("end", steps=1, turn="unasked-1"),
        e.TurnStarted(**T1),
    ]


def test_a_turn_whose_end_was_not_said_is_no_success() -> None:
    ended = e.TurnEnded("error", failure=Failure("unsaid", UNSAID, "engine"), **T1)
    assert completed(e.TurnStarted(**T1), e.TurnStarted(turn="t2"))[1:] == [ended, e.TurnStarted(turn="t2")]


def test_a_sign_of_another_turn_does_not_end_the_running_one() -> None:
    turn = [e.TurnStarted(**T1), e.Alive(turn="t2"), e.ToolOutput("c9", "x", turn="t2"), e.TurnEnded("end", **T1)]
    assert completed(*turn) == [turn[0], turn[3]]


def test_a_settled_engine_has_no_turn_left() -> None:
    ended = e.TurnEnded("error", failure=Failure("unsaid", UNSAID, "engine"), **T1)
    assert completed(e.TurnStarted(**T1), e.Settled())[1:] == [ended, e.Settled()]


def test_a_turn_id_may_come_again() -> None:
    turn = [e.TurnStarted(**T1), e.TurnEnded("end", **T1)]
    assert completed(*turn, *turn) == [*turn, *turn]


def test_what_comes_too_late_is_counted_and_nothing_begins_by_it() -> None:
    completer = Completer()
    late: list[e.Event] = [
        e.TextDelta("a", **T1),
        e.TurnEnded("end", **T1),
        e.ToolFinished("c9", "Read", "x"),
        e.StepEnded(),
        e.ReplyEnded("end"),
        e.TurnEnded("end"),
        e.AgentEnded(agent="k"),
        e.Alive(),
        READY,
    ]
    for event in (READY, e.TurnStarted(**T1), e.TurnEnded("end", **T1)):
        completer.add(event)
    assert [said for event in late for said in completer.add(event)] == []
    assert completer.lost == Counter(type(event).__name__ for event in late)


def test_a_late_result_does_not_call_its_call_again() -> None:
    finished = e.ToolFinished("c1", "Read", "x", **T1)
    raw = [e.StepStarted(**T1), e.ToolCalled("c1", "Read", **T1), finished, e.TextDelta("b", **T1)]
    assert completed(*raw, finished) == completed(*raw)


def test_a_new_step_does_not_cancel_a_call_that_lives() -> None:
    raw = [e.StepStarted(**T1), e.ToolCalled("c1", "Read", **T1), e.ToolStarted("c1", "Read", **T1)]
    finished = e.ToolFinished("c1", "Read", "x", **T1)
    assert completed(*raw, e.StepStarted(**T1), finished) == [e.TurnStarted(**T1), *raw, finished]


def test_an_ask_is_never_given_up() -> None:
    over = [e.TurnStarted(**T1), e.TurnEnded("end", **T1)]
    assert completed(*over, e.Ask("a1", call="c1", **T1))[2:] == [e.Ask("a1")]


def test_an_ask_about_a_finished_call_stands_alone() -> None:
    raw = [e.StepStarted(**T1), e.ToolCalled("c1", "Read", **T1), e.ToolFinished("c1", "Read", "", "skipped", **T1)]
    assert completed(*raw, e.Ask("a1", call="c1", **T1))[4:] == [e.Ask("a1", **T1)]


def test_an_agent_that_ends_while_it_compacts_has_compacted_nothing() -> None:
    raw = [e.TurnStarted(**T1), e.AgentStarted(**K1), e.CompactionStarted(**K1), e.AgentEnded(**K1)]
    assert completed(*raw) == [*raw[:3], e.CompactionEnded(False, error=UNSAID, **K1), raw[3]]


def test_agents_may_be_nested_to_any_depth() -> None:
    nested = [e.AgentStarted(parent=str(depth - 1) if depth else "", agent=str(depth), **T1) for depth in range(300)]
    ended = [e.AgentEnded(agent=str(depth), **T1) for depth in reversed(range(300))]
    done = e.TurnEnded("end", **T1)
    assert completed(e.TurnStarted(**T1), *nested, done)[1:] == [*nested, *ended, done]


def test_a_strange_agent_is_started() -> None:
    assert completed(e.TurnStarted(**T1), e.TextDelta("a", agent="k"))[1:] == [
        e.AgentStarted(**K1),
        e.StepStarted(**K1),
        e.TextDelta("a", **K1),
    ]
    assert completed(e.TextDelta("a", agent="k"))[0] == e.AgentStarted(background=True, agent="k")


def test_a_peer_that_vanished_leaves_nothing_open() -> None:
    completer = Completer()
    raw: list[e.Event] = [
        e.TurnStarted(turn="t1", session="s"),
        e.TextDelta("a", turn="t1"),
        e.AgentStarted(background=True, agent="b", turn="t1"),
        e.Ask("a1", "confirm"),
        e.CompactionStarted(),
    ]
    for event in raw:
        completer.add(event)
    here = {"turn": "t1", "session": "s"}
    assert completer.close() == [
        e.BlockEnded(Text("a"), **here),
        e.ReplyEnded("error", **here),
        e.StepEnded(**here),
        e.TurnEnded(
            "error",
            steps=1,
            failure=Failure("engine_gone", "the engine went away before the turn ended", "engine"),
            **here,
        ),
        e.AgentEnded(False, agent="b"),
        e.AskClosed("a1", "cancelled"),
        e.CompactionEnded(False, error=UNSAID, session="s"),
    ]
    assert completer.close() == []


def test_ids_come_from_outside_if_wanted() -> None:
    completer = Completer(new_id=lambda: "x7")
    assert completer.add(e.TurnStarted()) == [e.TurnStarted(turn="x7")]


RESTORED = (
    e.TurnStarted, e.StepStarted, e.BlockEnded, e.ReplyEnded, e.StepEnded, e.TurnEnded, e.ToolStarted,
    e.AskClosed, e.AgentEnded, e.RetryEnded,
)  # fmt: skip


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_what_is_dropped_from_an_example_is_said_again(name: str) -> None:
    events = CONVERSATIONS[name]
    for index, dropped in enumerate(events):
        completer = Completer()
        rest = events[:index] + events[index + 1 :]
        said = [out for event in rest for out in completer.add(event)] + completer.close()
        held_to_the_grammar(said).finish()
        if isinstance(dropped, RESTORED) and not may_stay_away(dropped, events):
            assert Counter(map(type, said)) == Counter(map(type, events)), dropped
        if isinstance(dropped, e.ToolCalled):  # after the reply, it takes a step of its own
            assert not Counter(map(type, events)) - Counter(map(type, said)), dropped


def may_stay_away(event: e.Event, events: list[e.Event]) -> bool:
    match event:
        case e.BlockEnded(ToolCall()):  # the call itself tells as much
            return True
        case e.ToolStarted(call):  # only success proves a start
            return not any(
                isinstance(end, e.ToolFinished) and (end.call, end.outcome) == (call, "ok") for end in events
            )
        case e.TurnEnded() if e.TurnStarted(turn=event.turn) not in events:  # it only waited
            return True
        case e.ReplyEnded():  # a reply that went on
            return events.count(event) > 1 and e.ToolStarted("c1", "Read", turn="t1") in events
    return False


# Anything at all.

ids = st.sampled_from(["", "x", "y"])
where = st.fixed_dictionaries({"turn": ids, "agent": ids})
words = st.sampled_from(["", "a", "ab", "b"])
outcomes = st.sampled_from(["ok", "error", "denied", "cancelled", "skipped"])
reasons = st.sampled_from(["end", "cancelled", "length", "refused", "limit", "error"])
blocks = st.one_of(
    st.builds(Text, words),
    st.builds(Thinking, words),
    st.builds(ToolCall, ids, words, st.just({})),
    st.just(Image("image/png")),
)


def some(made_of: Any, /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[e.Event]:
    made: st.SearchStrategy[e.Event] = st.builds(
        lambda place, values: made_of(**place, **values), where, st.fixed_dictionaries(fields)
    )
    return made


any_event = st.one_of(
    some(e.Ready),
    some(e.Settled),
    some(e.Notice, text=words),
    some(e.TurnStarted),
    some(e.TurnEnded, reason=reasons),
    some(e.UserMessage, text=words),
    some(e.StepStarted),
    some(e.StepEnded),
    some(e.TextDelta, text=words),
    some(e.ThinkingDelta, text=words),
    some(e.ArgsDelta, call=ids, name=words, text=words),
    some(e.BlockEnded, block=blocks),
    some(e.ReplyEnded, stop=st.just("end"), usage=st.just(Usage())),
    some(e.ToolCalled, call=ids, name=words),
    some(e.Ask, ask=ids, call=ids, kind=st.sampled_from(["permission", "choice"])),
    some(e.AskClosed, ask=ids, how=st.just("denied")),
    some(e.ToolStarted, call=ids, name=words),
    some(e.ToolOutput, call=ids, text=words),
    some(e.ToolFinished, call=ids, name=words, output=words, outcome=outcomes),
    some(e.AgentStarted, parent=ids, call=ids, background=st.booleans()),
    some(e.AgentProgress),
    some(e.AgentEnded, ok=st.booleans()),
    some(e.RetryStarted, attempt=st.integers(1, 3), most=st.just(3), delay_ms=st.just(0)),
    some(e.RetryEnded, ok=st.booleans()),
    some(e.CompactionStarted),
    some(e.CompactionEnded),
    some(e.Alive, call=ids),
)


@settings(max_examples=up_to(600), deadline=None)
@given(st.lists(any_event, max_size=40))
def test_whatever_a_peer_says_comes_out_grammatical(events: list[e.Event]) -> None:
    completer = Completer()
    said = [out for event in events for out in completer.add(event)]
    said += completer.close()
    held_to_the_grammar(said).finish()
    again = Completer()
    assert [out for event in said for out in again.add(event)] == said
    requested = {event.ask for event in events if isinstance(event, e.Ask)}
    assert {event.ask for event in said if isinstance(event, e.Ask)} == requested
