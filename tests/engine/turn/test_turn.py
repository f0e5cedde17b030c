"""A turn, from its prompt to its one end."""

from pathlib import Path
from typing import Any

import pytest

from doubles import Crash, Echo, Fail, Part, Played, Show, Talk, converse, run
from polylect.engine.turn import loop
from polylect.providers.scripted import Scripted
from polylect.sessions.store import MemoryStore
from polylect.vocab.answers import Stats
from polylect.vocab.commands import AddContext, Prompt, Query
from polylect.vocab.content import Failure, Message, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.events import (
    BlockEnded,
    CostChanged,
    Event,
    Reply,
    ReplyEnded,
    Settled,
    StepEnded,
    StepStarted,
    TextDelta,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from polylect.vocab.ports import (
    ArgsChunk,
    BlockDone,
    ReplyDone,
    Retrying,
    TextChunk,
    ThinkingChunk,
    ToolContext,
    ToolReturn,
)

HELLO = Prompt("t1", "Hello")
ONE = Usage(7, 3)


def call(id: str, name: str = "Echo", **args: Any) -> dict[str, Any]:
    return {"call": name, "id": id, "args": args}


def test_a_turn_is_a_reply_its_calls_and_a_last_reply_and_all_of_it_is_remembered(tmp_path: Path) -> None:
    usage = {"input": 7, "output": 3}
    model = Scripted.in_order(
        [{"say": ["Hi", call("c1", text="x")], "usage": usage}, {"say": ["done"], "usage": usage}],
    )
    talk = converse(tmp_path, model, [Prompt("t1", "Hello", ref="r1")], Echo())
    first, second = (ended.request for ended in talk.of(ReplyEnded))
    t1: dict[str, Any] = {"turn": "t1"}
    whole: list[Event] = [
        Reply("r1"),
        TurnStarted(**t1),
        UserMessage("Hello", **t1),
        StepStarted(**t1),
        TextDelta("Hi", **t1),
        BlockEnded(Text("Hi"), **t1),
        ToolCalled("c1", "Echo", {"text": "x"}, "info", "Echo {'text': 'x'}", **t1),
        ReplyEnded("calls", ONE, "m", first, **t1),
        ToolStarted("c1", "Echo", **t1),
        ToolFinished("c1", "Echo", "x", **t1),
        StepEnded(**t1),
        StepStarted(**t1),
        TextDelta("done", **t1),
        BlockEnded(Text("done"), **t1),
        ReplyEnded("end", ONE, "m", second, **t1),
        StepEnded(**t1),
        CostChanged(ONE + ONE, tuple(talk.session.ledger), **t1),
        TurnEnded("end", ONE + ONE, 2, **t1),
        Settled(),
    ]
    assert talk.events == whole
    assert talk.messages == [
        Message("user", (Text("Hello"),)),
        Message("assistant", (Text("Hi"), ToolCall("c1", "Echo", {"text": "x"})), "calls", ONE, "m", "scripted"),
        Message("tool", (ToolResult("c1", "Echo", "x"),)),
        Message("assistant", (Text("done"),), "end", ONE, "m", "scripted"),
    ]


def test_calls_of_a_step_run_together_and_are_answered_in_the_models_order(tmp_path: Path) -> None:
    model = Scripted.in_order([[call("c1", "Show", pieces=["a", "b"]), call("c2", text="x"), call("c3", "No")], "ok"])
    talk = converse(tmp_path, model, [HELLO], Echo(), Show())
    assert talk.story[3:14] == [
        "tool_called c1 Show {'pieces': ['a', 'b']} info",
        "tool_called c2 Echo {'text': 'x'} info",
        "tool_called c3 No",
        "reply_ended calls",
        "tool_started c1 Show",
        "tool_output c1 a",
        "tool_output c1 b",
        "tool_finished c1 Show ab",
        "tool_started c2 Echo",
        "tool_finished c2 Echo x",
        "tool_finished c3 No Unknown tool: No. The tools are: Echo, Show, Spawn. error",
    ]
    results = [block.call for block in talk.messages[2].content if isinstance(block, ToolResult)]
    assert results == ["c1", "c2", "c3"]


@pytest.mark.parametrize(
    ("tool", "args", "output"),
    [
        (Fail(), {}, "cannot"),
        (Fail(), {"loud": True}, "cannot"),
        (Crash(), {}, "The tool crashed: RuntimeError: boom"),
    ],
)
def test_L1_a_tool_that_fails_or_crashes_ends_its_call_and_not_the_turn(
    tool: Fail | Crash, args: dict[str, Any], output: str, tmp_path: Path
) -> None:
    model = Scripted.in_order([call("c1", tool.name, **args), "I see: {outcome}"])
    talk = converse(tmp_path, model, [HELLO], tool)
    error = output.removeprefix("The tool crashed: ")
    assert talk.story[5:] == [
        f"tool_started c1 {tool.name}",
        *([f"tool_crashed c1 {tool.name} {error}"] if isinstance(tool, Crash) else []),
        f"tool_finished c1 {tool.name} {output} error",
        "step_ended",
        "step_started",
        "text_delta I see: error",
        "block_ended I see: error",
        "reply_ended end",
        "step_ended",
        "turn_ended t1 end 2",
        "settled",
    ]


class Odd(Echo):
    """Cannot cope with arguments it does not know, not even to describe them."""

    def describe(self, args: dict[str, Any]) -> str:
        return str(args["text"])

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return (args["text"],)[:0]

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return ToolReturn(args["text"])


def test_L1_a_tool_that_cannot_even_describe_its_arguments_is_a_failed_call(tmp_path: Path) -> None:
    model = Scripted.in_order([[call("c1", "Odd"), call("c2", text="x")], "ok"])
    talk = converse(tmp_path, model, [HELLO], Odd(), Echo(), allow_list=("Odd", "Echo"))
    assert talk.story[3:10] == [
        "tool_called c1 Odd info",
        "tool_called c2 Echo {'text': 'x'} info",
        "reply_ended calls",
        "tool_started c1 Odd",
        "tool_crashed c1 Odd KeyError: 'text'",
        "tool_finished c1 Odd The tool crashed: KeyError: 'text' error",
        "tool_started c2 Echo",
    ]
    assert talk.story[-2:] == ["turn_ended t1 end 2", "settled"]


def test_L1_a_model_that_fails_before_it_spoke_ends_the_turn(tmp_path: Path) -> None:
    model = Scripted.in_order({"error": "overloaded", "message": "overloaded"}, "better")
    talk = converse(tmp_path, model, [HELLO, Prompt("t2", "Again")])
    assert talk.story == [
        "turn_started t1",
        "user_message Hello",
        "step_started",
        "reply_ended error overloaded",
        "step_ended",
        "turn_ended t1 error 1 overloaded",
        "turn_started t2",
        "user_message Again",
        "step_started",
        "text_delta better",
        "block_ended better",
        "reply_ended end",
        "step_ended",
        "turn_ended t2 end 1",
        "settled",
    ]
    assert talk.of(TurnEnded)[0].failure == Failure("overloaded", "overloaded", "provider", retryable=True)


def test_L1_a_model_that_fails_after_it_spoke_leaves_what_it_said(tmp_path: Path) -> None:
    say = [{"thinking": "hm"}, "dark and", call("c1", text="x"), "more", {"error": "network", "message": "reset"}]
    talk = converse(tmp_path, Scripted.in_order({"say": say}), [HELLO], Echo())
    assert talk.story[3:] == [
        "thinking_delta hm",
        "block_ended hm",
        "text_delta dark and",
        "block_ended dark and",
        "tool_called c1 Echo {'text': 'x'} info",
        "text_delta more",
        "block_ended more",
        "reply_ended error reset",
        "tool_finished c1 Echo The call was stopped before it finished. cancelled Stopped",
        "step_ended",
        "turn_ended t1 error 1 reset",
        "settled",
    ]
    assert talk.messages[1].content == (
        Thinking("hm"),
        Text("dark and"),
        ToolCall("c1", "Echo", {"text": "x"}),
        Text("more"),
    )


def test_L1_thinking_and_arguments_that_break_off_leave_no_half_call(tmp_path: Path) -> None:
    model = Played(
        [ThinkingChunk("let me"), ProviderError("network", "reset")],
        [ArgsChunk("c1", "Echo", '{"te'), ProviderError("network", "reset")],
    )
    talk = converse(tmp_path, model, [HELLO, Prompt("t2", "Again")], Echo())
    assert [message.content for message in talk.messages] == [(Text("Hello"),), (Thinking("let me"),), (Text("Again"),)]


def test_L1_a_model_with_a_bug_ends_the_turn_and_not_the_engine(tmp_path: Path) -> None:
    model = Played([TextChunk("a"), ZeroDivisionError("bug")], [ReplyDone("end")])
    talk = converse(tmp_path, model, [HELLO, Prompt("t2", "Again")])
    failure = talk.of(TurnEnded)[0].failure
    assert failure is not None
    assert (failure.code, failure.owner) == ("internal", "engine")
    assert talk.story[-2:] == ["turn_ended t2 end 1", "settled"]


def test_L1_a_reply_without_an_end_is_an_error(tmp_path: Path) -> None:
    talk = converse(tmp_path, Played([TextChunk("a")]), [HELLO])
    assert talk.story[3:] == [
        "text_delta a",
        "block_ended a",
        "reply_ended error the model's reply broke off in the middle",
        "step_ended",
        "turn_ended t1 error 1 the model's reply broke off in the middle",
        "settled",
    ]


@pytest.mark.parametrize(("stop", "reason"), [("end", "end"), ("length", "length"), ("refused", "refused")])
def test_L1_a_turn_ends_for_the_reason_the_model_stopped(stop: str, reason: str, tmp_path: Path) -> None:
    talk = converse(tmp_path, Scripted.in_order({"text": "a", "stop": stop}), [HELLO])
    assert talk.story[-2:] == [f"turn_ended t1 {reason} 1", "settled"]


def test_L1_a_turn_ends_at_the_limit_of_steps_after_its_calls_were_answered(tmp_path: Path) -> None:
    model = Scripted.from_values({"reply": [{"say": [{"call": "Echo", "args": {"text": "x"}}]}]})
    talk = converse(tmp_path, model, [HELLO], Echo(), max_turns=2)
    assert talk.story[-3:] == [
        "notice stopped after 2 model requests, the limit of --max-turns",
        "turn_ended t1 limit 2",
        "settled",
    ]
    assert [message.role for message in talk.messages] == ["user", "assistant", "tool", "assistant", "tool"]


def test_a_prompt_that_only_adds_to_the_context_asks_no_model(tmp_path: Path) -> None:
    talk = converse(tmp_path, Played(), [Prompt("t1", "Note this", query=False)])
    assert talk.story == ["turn_started t1", "user_message Note this", "turn_ended t1 end", "settled"]
    assert talk.messages == [Message("user", (Text("Note this"),))]


def test_context_from_before_is_told_to_the_model_and_survives(tmp_path: Path) -> None:
    model = Played([ReplyDone("end")])
    talk = converse(tmp_path, model, [AddContext("We agreed on tabs.", ref="r1"), HELLO])
    assert talk.story[:2] == ["reply r1", "turn_started t1"]
    assert "We agreed on tabs." in model.requests[0].system


def test_retries_are_told_and_closed_whether_they_help_or_not(tmp_path: Path) -> None:
    model = Played(
        [Retrying(1, 2, 0, "busy"), Retrying(2, 2, 0, "busy"), TextChunk("a"), BlockDone(Text("a")), ReplyDone("end")],
        [Retrying(1, 1, 0, "busy"), ProviderError("overloaded", "overloaded")],
    )
    talk = converse(tmp_path, model, [HELLO, Prompt("t2", "Again")])
    assert talk.story[3:7] == [
        "retry_started 1 2 0 busy",
        "retry_started 2 2 0 busy",
        "retry_ended True 2",
        "text_delta a",
    ]
    assert talk.story[14:17] == [
        "retry_started 1 1 0 busy",
        "retry_ended False 1 overloaded",
        "reply_ended error overloaded",
    ]


def test_T4_calls_whose_ids_come_again_are_told_apart(tmp_path: Path) -> None:
    """Small servers count from zero in every reply, and hosts and vendors go by the id."""
    again: list[Part] = [
        ArgsChunk("call_0", "Echo", "{}"),
        BlockDone(ToolCall("call_0", "Echo", {})),
        ReplyDone("calls"),
    ]
    same = BlockDone(ToolCall("call_0", "Echo", {}))
    twice: list[Part] = [same, same, ReplyDone("end")]
    talk = converse(tmp_path, Played(again, again, twice, [ReplyDone("end")]), [HELLO], Echo())
    assert [called.call for called in talk.of(ToolCalled)] == ["call_0", "call_0-2", "call_0-3", "call_0-4"]
    assert [line for line in talk.story if line.startswith("args_delta")] == [
        "args_delta call_0 Echo {}",
        "args_delta call_0-2 Echo {}",
    ]


def test_T5_usage_is_summed_per_turn_and_over_the_session(tmp_path: Path) -> None:
    model = Played(
        [BlockDone(ToolCall("c1", "Echo", {})), ReplyDone("calls", ONE, "r1")],
        [BlockDone(Text("a")), ReplyDone("end", ONE, "r2")],
        [ReplyDone("end", ONE, "r3")],
    )
    talk = converse(tmp_path, model, [HELLO, Prompt("t2", "Again")], Echo())
    assert [ended.usage for ended in talk.of(TurnEnded)] == [ONE + ONE, ONE]
    assert talk.session.usage == ONE + ONE + ONE


def test_T5_each_model_request_counts_also_if_the_vendor_repeats_its_id(tmp_path: Path) -> None:
    model = Played(
        [BlockDone(ToolCall("c1", "Echo", {})), ReplyDone("calls", ONE, "r1")],
        [BlockDone(Text("a")), ReplyDone("end", ONE, "r1")],
    )
    talk = converse(tmp_path, model, [HELLO], Echo())
    assert [ended.usage for ended in talk.of(TurnEnded)] == [ONE + ONE]
    assert talk.session.usage == ONE + ONE


def test_T6_a_price_is_known_only_if_it_is_known_of_every_part(tmp_path: Path) -> None:
    priced, unpriced = Usage(7, 3, cost=0.5), Usage(7, 3)
    model = Played(
        [BlockDone(ToolCall("c1", "Echo", {})), ReplyDone("calls", priced, "r1")],
        [BlockDone(Text("a")), ReplyDone("end", priced, "r2")],
        [BlockDone(Text("a")), ReplyDone("end", unpriced, "r3")],
    )
    talk = converse(tmp_path, model, [HELLO, Prompt("t2", "Again")], Echo())
    assert [ended.usage.cost for ended in talk.of(TurnEnded)] == [1.0, None]
    assert talk.session.usage.cost is None


def test_messages_state_and_stats_can_be_asked_for(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Query("state", ref="busy"))
        await talk.engine.settled()
        for what in ("state", "messages", "stats", "weather"):
            talk.send(Query(what, ref=what))

    model = Played([BlockDone(ToolCall("c1", "Echo", {})), ReplyDone("calls", ONE)], [ReplyDone("end", ONE)])
    talk = run(conversation, tmp_path, model, Echo())
    busy, state, messages, stats, weather = talk.of(Reply)
    assert (busy.data.busy, busy.data.messages) == (True, 0)
    assert (state.data.busy, state.data.messages, state.data.mode, state.data.model) == (False, 3, "default", "m")
    assert [item.message for item in messages.data] == talk.messages
    assert stats.data == Stats("s1", users=1, assistants=1, calls=1, results=1, usage=ONE + ONE)
    assert weather.failure is not None
    assert weather.failure.code == "unsupported"


class Full(MemoryStore):
    def spill(self, text: str) -> str:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("kept", [True, False])
def test_a_result_that_no_window_would_hold_is_cut_in_the_middle_and_kept_in_a_file(tmp_path: Path, kept: bool) -> None:
    text = "a" * 150_000 + "b" * 150_000
    model = Scripted.in_order([{"call": "Echo", "args": {"text": text}}, "done"])
    store = (MemoryStore if kept else Full)(str(tmp_path))
    wholes: list[str] = []

    def host(event: Event) -> None:
        wholes.extend(path.read_text() for path in tmp_path.rglob("*.txt") if isinstance(event, ToolFinished))

    talk = converse(tmp_path, model, [Prompt("t1", "go")], Echo(), store=store, host=host)
    [done] = talk.of(ToolFinished)
    assert (done.output[:100_000], done.output[-100_000:]) == ("a" * 100_000, "b" * 100_000)
    assert "[truncated 100000 chars" in done.output[100_000:-100_000]
    assert wholes == ([text] if kept else [])


def test_a_reply_longer_than_any_model_writes_ends_the_turn(tmp_path: Path) -> None:
    chunks = [TextChunk("x" * (loop.MOST_REPLY // 4))] * 5
    talk = converse(tmp_path, Played([*chunks, None]), [Prompt("t1", "Hi")])
    failure = talk.of(TurnEnded)[0].failure
    assert failure
    assert (failure.code, failure.message) == (
        "protocol",
        f"the model's reply is longer than {loop.MOST_REPLY} characters",
    )


def test_a_session_that_is_too_large_is_not_gone_on_with(tmp_path: Path) -> None:
    """Compaction does not make it smaller: everything that was said is in its log, and in memory."""
    store = MemoryStore("")
    store.size = loop.MOST_SESSION
    talk = converse(tmp_path, Scripted.in_order("one", "two"), [Prompt("t1", "Hi")], store=store)
    failure = talk.of(TurnEnded)[0].failure
    assert failure
    assert failure.code == "session"
    assert "Go on in another session" in failure.message


def test_a_session_in_memory_knows_its_size(tmp_path: Path) -> None:
    store = MemoryStore("")
    converse(tmp_path, Scripted.in_order("x" * 1000), [Prompt("t1", "y" * 1000)], store=store)
    assert 2000 < store.size < 3000
