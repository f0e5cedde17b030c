"""Which event may follow which."""

import pytest

from conversations import CONVERSATIONS, READY
from grammar_check import Grammar, GrammarError
from polylect.vocab import events as e
from polylect.vocab.content import Text, Thinking, ToolCall
from polylect.vocab.grammar.rules import ANYTIME, TABLE, Rule

T1 = {"turn": "t1"}
K1 = {"turn": "t1", "agent": "k"}
TURN: list[e.Event] = [e.TurnStarted(**T1)]
REPLY: list[e.Event] = [*TURN, e.StepStarted(**T1)]
TEXT: list[e.Event] = [*REPLY, e.TextDelta("a", **T1)]
CALLED: list[e.Event] = [*REPLY, e.ToolCalled("c1", "Read", **T1)]
ASKED: list[e.Event] = [*CALLED, e.Ask("a1", call="c1", **T1)]
STARTED: list[e.Event] = [*CALLED, e.ToolStarted("c1", "Read", **T1)]
FINISHED: list[e.Event] = [*STARTED, e.ToolFinished("c1", "Read", "", **T1)]
CALLS: list[e.Event] = [*REPLY, e.ReplyEnded("end", **T1)]
AGENT: list[e.Event] = [*STARTED, e.AgentStarted(call="c1", **K1)]
DONE: list[e.Event] = [*TURN, e.TurnEnded("end", **T1)]

ILLEGAL: list[tuple[str, list[e.Event], e.Event, Rule]] = [
    ("a turn inside a turn", TURN, e.TurnStarted(**T1), Rule.PHASE),
    ("another turn inside a turn", TURN, e.TurnStarted(turn="t2"), Rule.TURN),
    ("a turn without an id", [], e.TurnStarted(), Rule.TURN_NAMED),
    ("a turn of an agent", AGENT, e.TurnEnded("end", **K1), Rule.PHASE),
    ("text of another turn", TEXT, e.TextDelta("b", turn="t2"), Rule.TURN),
    ("text without its turn", TEXT, e.TextDelta("b"), Rule.TURN),
    ("a prompt's words before its turn", [], e.UserMessage("hi", **T1), Rule.TURN),
    ("the end of a turn that never began", [], e.TurnEnded("end", **T1), Rule.TURN),
    ("a turn that ends twice", DONE, e.TurnEnded("cancelled", **T1), Rule.TURN_OVER),
    ("a queued turn that ends twice", [e.TurnEnded("error", **T1)], e.TurnEnded("error", **T1), Rule.TURN_OVER),
    ("the end of no turn", [], e.TurnEnded("cancelled"), Rule.PHASE),
    ("a turn that ends in a reply", REPLY, e.TurnEnded("end", **T1), Rule.PHASE),
    ("a turn that ends in a step", CALLS, e.TurnEnded("end", **T1), Rule.PHASE),
    ("a step outside a turn", [], e.StepStarted(), Rule.PHASE),
    ("a step inside a step", REPLY, e.StepStarted(**T1), Rule.PHASE),
    ("a step that ends before its reply", REPLY, e.StepEnded(**T1), Rule.PHASE),
    ("text outside a step", TURN, e.TextDelta("a", **T1), Rule.PHASE),
    ("text after the reply", CALLS, e.TextDelta("a", **T1), Rule.PHASE),
    ("text after all calls finished", FINISHED, e.TextDelta("a", **T1), Rule.PHASE),
    ("a call after all calls finished", FINISHED, e.ToolCalled("c2", "Read", **T1), Rule.PHASE),
    ("a sign of life in idleness", [], e.Alive(), Rule.PHASE),
    ("thinking inside text", TEXT, e.ThinkingDelta("b", **T1), Rule.BLOCK_OPEN),
    ("a call inside text", TEXT, e.ToolCalled("c1", "Read", **T1), Rule.BLOCK_OPEN),
    ("a reply that ends inside text", TEXT, e.ReplyEnded("end", **T1), Rule.BLOCK_OPEN),
    ("thinking that ends text", TEXT, e.BlockEnded(Thinking("a"), **T1), Rule.BLOCK_OPEN),
    ("a call's block inside text", TEXT, e.BlockEnded(ToolCall("c1", "Read", {}), **T1), Rule.BLOCK_OPEN),
    (
        "arguments of two calls at once",
        [*REPLY, e.ArgsDelta("c1", "Read", "{", **T1)],
        e.ArgsDelta("c2", "Read", "{", **T1),
        Rule.BLOCK_OPEN,
    ),
    ("a block unlike its deltas", TEXT, e.BlockEnded(Text("b"), **T1), Rule.BLOCK_EQUAL),
    ("a block without its deltas", REPLY, e.BlockEnded(Text("b"), **T1), Rule.BLOCK_EQUAL),
    ("a start of no call", REPLY, e.ToolStarted("c1", "Read", **T1), Rule.CALL),
    ("an ask of no call", REPLY, e.Ask("a1", call="c1", **T1), Rule.CALL),
    ("an agent of no call", REPLY, e.AgentStarted(call="c1", **K1), Rule.CALL),
    ("a call of another agent", AGENT, e.ToolFinished("c1", "Read", "", **K1), Rule.CALL),
    ("a call called twice", CALLED, e.ToolCalled("c1", "Read", **T1), Rule.CALL_NEW),
    ("a call started twice", STARTED, e.ToolStarted("c1", "Read", **T1), Rule.CALL_STARTED),
    ("a call finished twice", FINISHED, e.ToolFinished("c1", "Read", "", **T1), Rule.CALL_OVER),
    (
        "a result after its step",
        [*FINISHED, e.ReplyEnded("calls", **T1), e.StepEnded(**T1)],
        e.ToolFinished("c1", "Read", "", **T1),
        Rule.CALL_OVER,
    ),
    ("output before the start", CALLED, e.ToolOutput("c1", "x", **T1), Rule.CALL_UNSTARTED),
    ("success before the start", CALLED, e.ToolFinished("c1", "Read", "", **T1), Rule.CALL_UNSTARTED),
    ("a start while it is asked", ASKED, e.ToolStarted("c1", "Read", **T1), Rule.CALL_ASKED),
    ("an end while it is asked", ASKED, e.ToolFinished("c1", "Read", "", "denied", **T1), Rule.CALL_ASKED),
    ("a step with an open call", [*CALLED, e.ReplyEnded("calls", **T1)], e.StepEnded(**T1), Rule.CALL_OPEN),
    ("a close of no ask", TURN, e.AskClosed("a1", "denied", **T1), Rule.ASK),
    ("an ask closed twice", [*ASKED, e.AskClosed("a1", "denied", **T1)], e.AskClosed("a1", "denied", **T1), Rule.ASK),
    ("an ask asked twice", ASKED, e.Ask("a1", **T1), Rule.ASK_NEW),
    ("an ask of another turn", TURN, e.Ask("a1", turn="t2"), Rule.TURN),
    ("a turn with an open ask", [*TURN, e.Ask("a1", **T1)], e.TurnEnded("end", **T1), Rule.ASK_OPEN),
    ("text of an unknown agent", REPLY, e.TextDelta("a", **K1), Rule.AGENT),
    ("an agent of an unknown parent", REPLY, e.AgentStarted(parent="p", **K1), Rule.AGENT),
    ("an agent started twice", AGENT, e.AgentStarted(call="c1", **K1), Rule.AGENT_NEW),
    ("an agent without a name", TURN, e.AgentStarted(**T1), Rule.AGENT_NEW),
    ("an agent in idleness", [], e.AgentStarted(agent="k"), Rule.PHASE),
    ("an agent that ends in a step", [*AGENT, e.StepStarted(**K1)], e.AgentEnded(**K1), Rule.PHASE),
    ("an agent that ends with an open ask", [*AGENT, e.Ask("a1", **K1)], e.AgentEnded(**K1), Rule.ASK_OPEN),
    ("an agent that ends before its child", [*AGENT, e.AgentStarted(parent="k", agent="j", **T1)], e.AgentEnded(**K1),
     Rule.AGENT_RUNS),
    ("a call that ends before its agent", AGENT, e.ToolFinished("c1", "Read", "", **T1), Rule.AGENT_RUNS),
    ("a turn that ends before its agent", [*TURN, e.AgentStarted(**K1)], e.TurnEnded("end", **T1), Rule.AGENT_RUNS),
    ("the end of the main agent", TURN, e.AgentEnded(**T1), Rule.PHASE),
    ("the end of no retry", REPLY, e.RetryEnded(True, **T1), Rule.RETRY),
    ("a retry after text", [*TEXT, e.BlockEnded(Text("a"), **T1)], e.RetryStarted(1, 3, 0, **T1), Rule.PHASE),
    ("a turn with an open retry", [*TURN, e.RetryStarted(1, 3, 0, **T1)], e.TurnEnded("end", **T1), Rule.RETRY_OPEN),
    ("the end of no compaction", [], e.CompactionEnded(), Rule.COMPACTION),
    ("a compaction inside one", [e.CompactionStarted()], e.CompactionStarted(), Rule.COMPACTION_OPEN),
    ("an agent that ends while it compacts", [*AGENT, e.CompactionStarted(**K1)], e.AgentEnded(**K1),
     Rule.COMPACTION_OPEN),
    ("ready twice", [READY], READY, Rule.READY),
    ("settled in a turn", TURN, e.Settled(), Rule.SETTLED),
]  # fmt: skip


def taken(events: list[e.Event]) -> Grammar:
    grammar = Grammar()
    for event in events:
        grammar.check(event)
    return grammar


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_every_example_is_grammatical_and_leaves_nothing_open(name: str) -> None:
    taken(CONVERSATIONS[name]).finish()


@pytest.mark.parametrize(("name", "before", "event", "rule"), ILLEGAL, ids=[row[0] for row in ILLEGAL])
def test_an_illegal_event_names_the_rule_it_breaks(
    name: str, before: list[e.Event], event: e.Event, rule: Rule
) -> None:
    assert taken(before).accept(event) is rule


def test_every_rule_is_broken_by_some_example() -> None:
    assert {row[3] for row in ILLEGAL} == set(Rule)


def test_every_event_has_its_place() -> None:
    own = {e.Ready, e.Settled, e.Ask, e.AskClosed, e.ToolStarted, e.ToolOutput, e.ToolFinished, e.AgentStarted}
    own |= {e.CompactionStarted, e.CompactionEnded}
    in_table = {kind for row in TABLE.values() for kind in row}
    assert set(e.Event.__subclasses__()) == in_table | own | ANYTIME
    assert not in_table & own
    assert not (in_table | own) & ANYTIME


@pytest.mark.parametrize(("name", "before", "event", "rule"), ILLEGAL, ids=[row[0] for row in ILLEGAL])
def test_a_refused_event_changes_nothing(name: str, before: list[e.Event], event: e.Event, rule: Rule) -> None:
    grammar = taken(before)
    before_it = (str(grammar.agents), str(grammar.asks), set(grammar.turns_over))
    grammar.accept(event)
    assert (str(grammar.agents), str(grammar.asks), set(grammar.turns_over)) == before_it


def test_an_error_names_the_event_the_phase_and_the_rule() -> None:
    with pytest.raises(GrammarError) as caught:
        taken(TEXT).check(e.ReplyEnded("end", **T1))
    assert str(caught.value) == ("ReplyEnded of turn 't1', agent '' (phase reply, turn 't1'): another block is open")


def test_what_is_open_can_be_asked() -> None:
    grammar = taken([*AGENT, e.Ask("a1", **K1), e.CompactionStarted()])
    assert grammar.open == ("turn t1", "agent k", "ask a1", "compaction of ''")
    with pytest.raises(GrammarError, match="still open at the end: turn t1, agent k, ask a1, compaction of ''"):
        grammar.finish()


def test_a_queued_turn_may_end_while_another_runs() -> None:
    taken([*TEXT, e.TurnEnded("cancelled", turn="t2"), e.TextDelta("b", **T1)])


def test_agents_interleave_delta_by_delta() -> None:
    texts: list[e.Event] = [
        e.TextDelta("1", **T1),
        e.TextDelta("2", **K1),
        e.TextDelta("3", **T1),
        e.TextDelta("4", **K1),
    ]
    ends: list[e.Event] = [e.BlockEnded(Text("13"), **T1), e.BlockEnded(Text("24"), **K1)]
    taken([*AGENT, e.StepStarted(**K1), *texts, *ends])


def test_arguments_that_broke_off_need_no_end() -> None:
    taken([*REPLY, e.ArgsDelta("c1", "Read", '{"pa', **T1), e.ReplyEnded("cancelled", **T1), e.StepEnded(**T1)])


def test_a_call_id_may_come_again_in_a_later_step() -> None:
    taken([*FINISHED, e.ReplyEnded("calls", **T1), e.StepEnded(**T1), *FINISHED[1:]])


def test_a_dialog_between_turns_may_outlive_the_next_turn() -> None:
    taken([e.Ask("d1", "confirm"), *DONE, e.AskClosed("d1", "answered")]).finish()


# What may be missing without anybody noticing.
OPTIONAL = (*ANYTIME, e.Ready, e.Settled, e.UserMessage, e.ToolOutput, e.Alive, e.AgentProgress)


def may_be_missing(event: e.Event, events: list[e.Event]) -> bool:
    match event:
        case e.BlockEnded(ToolCall()):
            return True
        case e.ArgsDelta():
            return True
        case e.ToolStarted(call):  # only success proves a start
            return not any(isinstance(other, e.ToolFinished | e.ToolOutput) and other.call == call and
                           getattr(other, "outcome", "ok") == "ok" for other in events)  # fmt: skip
        case e.RetryStarted(attempt):
            return attempt > 1 or sum(isinstance(other, e.RetryStarted) for other in events) > 1
        case e.TurnEnded(reason) if not any(other == e.TurnStarted(turn=event.turn) for other in events):
            return reason in ("cancelled", "error")
        case e.ReplyEnded():  # a reply that went on had ended before
            return sum(isinstance(other, e.ReplyEnded) for other in events) > sum(
                isinstance(other, e.StepEnded) for other in events
            )
    return isinstance(event, OPTIONAL)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_no_event_that_matters_can_be_dropped_unnoticed(name: str) -> None:
    events = CONVERSATIONS[name]
    unnoticed = []
    for index, event in enumerate(events):
        if may_be_missing(event, events):
            continue
        try:
            taken(events[:index] + events[index + 1 :]).finish()
        except GrammarError:
            continue
        unnoticed.append(event)
    assert unnoticed == []


def test_a_long_reply_is_held_to_its_deltas() -> None:
    grammar = taken(REPLY)
    for _ in range(20_000):
        grammar.check(e.TextDelta("word ", **T1))
    assert grammar.accept(e.BlockEnded(Text("word " * 20_001), **T1)) is Rule.BLOCK_EQUAL
    grammar.check(e.BlockEnded(Text("word " * 20_000), **T1))
