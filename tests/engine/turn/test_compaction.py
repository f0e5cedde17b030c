"""Compaction: when, what stays, what the log keeps, what happens when it fails."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles import Echo, Log, Part, Played, Talk, converse, run
from polylect.engine.turn.compaction import cut, estimate
from polylect.providers.scripted import Scripted
from polylect.sessions.session import Session
from polylect.sessions.store import MemoryStore
from polylect.vocab.commands import Cancel, Command, Compact, Prompt, Steer
from polylect.vocab.content import Message, Text, ToolCall, ToolResult, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.events import (
    CompactionEnded,
    CompactionStarted,
    Reply,
    StepStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from polylect.vocab.ports import BlockDone, ModelEvent, ModelInfo, ModelRequest, ReplyBegun, ReplyDone, TextChunk

SUMMARY = {"when": {"system": "replaced by a summary"}, "say": ["what mattered"]}


def script(*replies: dict[str, Any], window: int = 0) -> Scripted:
    return Scripted.from_values({"reply": [SUMMARY, *replies], "model": {"window": window}})


class Window:
    """A model that does `steps` calls in each turn, counts what it is sent, and refuses what does not fit."""

    name = "window"

    def __init__(self, size: int, steps: int, *, summary: str = "what mattered", told: bool = True) -> None:
        self.size = size
        self.reported = told
        self.sent: list[int] = []
        self._left = steps
        self._summary = summary

    def info(self, model: str) -> ModelInfo:
        return ModelInfo(model, window=self.size if self.reported else 0)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        text = "".join(str(message.content) for message in request.messages) + request.system
        self.sent.append(len(text) // 4)
        if self.sent[-1] > self.size:
            raise ProviderError("overflow", "too long")
        if "replaced by a summary" in request.system:
            block: Text | ToolCall = Text(self._summary)
            yield [TextChunk(self._summary)]
        elif self._left:
            self._left -= 1
            block = ToolCall(f"c{self._left}", "Echo", {"text": "x" * 4000})
        else:
            block = Text("all done")
        yield [BlockDone(block), ReplyDone("end", Usage(self.sent[-1], 10), f"r{len(self.sent)}", request.model)]

    async def close(self) -> None:
        pass


def test_a_turn_of_two_hundred_steps_fits_a_small_window_and_finishes(tmp_path: Path) -> None:
    model = Window(16_000, 200)
    talk = converse(tmp_path, model, [Prompt("t1", "go")], Echo())
    assert [(ended.reason, ended.steps) for ended in talk.of(TurnEnded)] == [("end", 201)]
    assert len(talk.of(CompactionStarted)) > 10
    assert all(event.ok and event.after < event.before < 16_000 for event in talk.of(CompactionEnded))
    assert max(model.sent) < 16_000


def test_a_resumed_conversation_counts_instructions_and_tools_before_a_service_has_told(tmp_path: Path) -> None:
    model, store = script({"say": ["x" * 2000]}, window=2400), MemoryStore("")
    first = converse(tmp_path, model, [Prompt("t1", "go"), Prompt("t2", "go")], store=store, max_tokens=100)
    assert first.of(CompactionStarted) == []
    settings = {"max_tokens": 100, "system_prompt": "y" * 3000}
    second = converse(tmp_path, model, [Prompt("t3", "go")], store=store, **settings)
    assert [type(event) for event in second.events if isinstance(event, CompactionStarted | StepStarted)] == [
        CompactionStarted,
        StepStarted,
    ]


def test_however_a_conversation_grows_and_is_shortened_its_size_is_the_sum_of_what_the_model_sees(
    tmp_path: Path,
) -> None:
    async def conversation(talk: Talk) -> None:
        session, agent = talk.session, talk.engine.agent
        for stored in (0, 0, 3, 3, 7):
            session.add_messages("", *(Message("user", (Text("word " * number),)) for number in range(1, 5)))
            if stored > session.visible_from:
                session.compact("what mattered" * stored, stored, 0)
            assert agent.compactor.used() == sum(agent.prompt_tokens()) + sum(map(estimate, session.context()))
        assert session.context()[0] is session.context()[0], "one message, so that it is put into words once"

    run(conversation, tmp_path, script())


def test_nothing_is_compacted_while_there_is_room(tmp_path: Path) -> None:
    steps = [{"when": {"step": number}, "say": [{"call": "Echo", "args": {"text": "x"}}]} for number in range(1, 40)]
    talk = converse(tmp_path, script(*steps, {"say": ["done"]}, window=100_000), [Prompt("t1", "go")], Echo())
    assert talk.of(CompactionStarted) == []


def test_an_overflow_told_by_the_service_is_answered_by_making_room_and_asking_again(tmp_path: Path) -> None:
    overflow = {"error": "overflow", "times": 1}
    model = script({"when": {"turn": 3}, "say": [overflow, "at last"]}, {"say": ["word " * 200]})
    talk = converse(tmp_path, model, [Prompt("t1", "a"), Prompt("t2", "b"), Prompt("t3", "c")])
    assert [event.reason for event in talk.of(TurnEnded)] == ["end", "end", "end"]
    assert [event.reason for event in talk.of(CompactionStarted)] == ["overflow"]


def test_a_conversation_that_is_far_too_long_for_a_model_whose_window_nobody_knows_goes_on(tmp_path: Path) -> None:
    """Neither what is kept beside the summary nor what it would be made from fits at first."""
    model = Window(100_000, 0, told=False)

    async def conversation(talk: Talk) -> None:
        talk.send(*(Prompt(f"t{number}", "word " * 300) for number in range(60)))
        await talk.engine.settled()
        model.size = 2000
        talk.send(Prompt("now", "how small"), Prompt("then", "go on"))

    talk = run(conversation, tmp_path, model)
    assert {event.reason for event in talk.of(TurnEnded)} == {"end"}
    assert [(event.ok, event.first_kept) for event in talk.of(CompactionEnded)] == [(True, "61"), (True, "120")]


class Lying(Window):
    """Says that its window is small, and then that nothing is in it."""

    def info(self, model: str) -> ModelInfo:
        return ModelInfo(model, window=5000)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        async for batch in super().stream(request):
            yield [msgspec.structs.replace(e, usage=Usage(1, 1)) if isinstance(e, ReplyDone) else e for e in batch]


def test_usage_that_cannot_be_true_does_not_keep_the_conversation_from_being_compacted(tmp_path: Path) -> None:
    model = Lying(1_000_000, 40)
    talk = converse(tmp_path, model, [Prompt("t1", "go")], Echo(), allow_list=("Echo",))
    assert {event.reason for event in talk.of(CompactionStarted)} == {"threshold"}
    assert max(model.sent) < 5 * 5000


@pytest.mark.parametrize("most", [8000, 100_000])
def test_a_reply_that_may_be_as_long_as_the_window_is_no_reason_to_compact(tmp_path: Path, most: int) -> None:
    prompts = [Prompt(f"t{number}", "go on " * 50) for number in range(8)]
    talk = converse(tmp_path, script({"say": ["word " * 40]}, window=8000), prompts, max_tokens=most)
    assert talk.of(CompactionStarted) == []


def test_after_three_summaries_that_made_no_room_no_more_are_made(tmp_path: Path) -> None:
    prompts = [Prompt(f"t{number}", "go on " * 50) for number in range(8)]
    model = script({"say": ["word " * 40]}, window=1000)
    talk = converse(tmp_path, model, prompts, system_prompt="Mind this. " * 400)
    assert [event.ok for event in talk.of(CompactionEnded)] == [True, True, True]
    assert [event.reason for event in talk.of(TurnEnded)] == ["end"] * 8


def test_what_was_said_stays_in_the_log_and_a_resumed_session_goes_on_from_the_summary(tmp_path: Path) -> None:
    log = Log()
    model = script({"say": ["word " * 400]}, window=3000)
    talk = converse(tmp_path, model, [Prompt(f"t{n}", "go on " * 50) for n in range(8)], store=log)
    assert talk.of(CompactionEnded)
    again = Session(log.read_back())
    assert again.messages == talk.messages
    assert len(again.messages) == 16
    assert again.context() == talk.session.context()
    assert "what mattered" in again.context()[0].content[0].text  # type: ignore[union-attr]


def test_by_hand_it_is_refused_when_there_is_nothing_to_do_and_done_otherwise(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Compact(ref="early"))
        talk.send(*(Prompt(f"t{n}", "go on " * 50) for n in range(4)))
        await talk.engine.settled()
        talk.send(Compact("keep names", ref="late"))

    talk = run(conversation, tmp_path, script({"say": ["word " * 100]}))
    replies = {reply.ref: reply.failure.code if reply.failure else "" for reply in talk.of(Reply)}
    assert replies == {"early": "nothing", "late": ""}
    assert [event.reason for event in talk.of(CompactionStarted)] == ["manual"]


def test_by_hand_a_short_conversation_is_refused_and_no_model_is_asked(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "hello"), Prompt("t2", "hello again"))
        await talk.engine.settled()
        talk.send(Compact(ref="r"))

    talk = run(conversation, tmp_path, script({"say": ["hi"]}))
    assert [(reply.ref, reply.failure and reply.failure.code) for reply in talk.of(Reply)] == [("r", "nothing")]
    assert talk.of(CompactionStarted) == []


def test_by_hand_it_can_be_stopped_and_then_nothing_has_changed(tmp_path: Path) -> None:
    hanging = {"when": {"system": "replaced by a summary"}, "say": [{"hang": True}]}
    model = Scripted.from_values({"reply": [hanging, {"say": ["word " * 100]}]})

    async def conversation(talk: Talk) -> None:
        talk.send(*(Prompt(f"t{n}", "go on " * 50) for n in range(4)))
        await talk.engine.settled()
        talk.send(Compact())
        await talk.until(CompactionStarted)
        talk.send(Cancel("compaction"), Prompt("t9", "still there?"))

    talk = run(conversation, tmp_path, model)
    assert [(event.ok, event.error) for event in talk.of(CompactionEnded)] == [(False, "Compaction cancelled")]
    assert talk.session.visible_from == 0
    assert talk.of(TurnEnded)[-1].turn == "t9"


def test_after_three_failures_it_is_no_longer_tried(tmp_path: Path) -> None:
    failing = {"when": {"system": "replaced by a summary"}, "say": [{"error": "server"}]}
    steps = [{"when": {"step": n}, "say": [{"call": "Echo", "args": {"text": "x" * 4000}}]} for n in range(1, 12)]
    model = Scripted.from_values({"reply": [failing, *steps, {"say": ["done"]}], "model": {"window": 8000}})
    talk = converse(tmp_path, model, [Prompt("t1", "go")], Echo())
    assert [event.ok for event in talk.of(CompactionEnded)] == [False, False, False]
    assert talk.of(TurnEnded)[0].reason == "end"


def message_of(role: Any, size: int, call: str = "") -> Message:
    block: Any = {"assistant": ToolCall(call, "E", {}), "tool": ToolResult(call, "E", "x" * size)}.get(role)
    return Message(role, (block if call else Text("x" * size),))


@pytest.mark.parametrize("most", range(0, 4000, 100))
def test_t4_the_cut_never_comes_between_a_call_and_its_result(most: int) -> None:
    messages = [
        message_of("user", 400),
        *(message_of(role, 800, f"c{n}") for n in range(6) for role in ("assistant", "tool")),
    ]
    index = cut(messages, 0, most)
    assert index == len(messages) or messages[index].role != "tool"
    assert sum(map(estimate, messages[index:])) <= most


def test_what_the_person_has_just_said_is_never_summarised() -> None:
    assert cut([message_of("user", 40), message_of("assistant", 40), message_of("user", 90_000)], 0, 1000) == 2


def test_t5_a_summary_has_its_price_and_is_counted_once(tmp_path: Path) -> None:
    def priced(reply: dict[str, Any], tokens: int) -> dict[str, Any]:
        return {**reply, "usage": {"input": tokens, "output": 1}}

    model = Scripted.from_values({"reply": [priced(SUMMARY, 1000), priced({"say": ["x" * 400]}, 10)]})

    async def conversation(talk: Talk) -> None:
        for number in range(3):
            talk.send(Prompt(f"t{number}", "y" * 400))
            await talk.until(TurnEnded, number + 1)
        talk.send(Compact())

    log = Log()
    talk = run(conversation, tmp_path, model, store=log)
    assert talk.of(CompactionEnded)[0].ok
    assert talk.session.usage == Usage(1030, 4)
    assert Session(log.read_back()).usage == Usage(1030, 4)


def test_t5_a_summary_that_breaks_off_or_is_stopped_costs_what_the_service_had_counted(tmp_path: Path) -> None:
    reply: list[Part] = [BlockDone(Text("word " * 100)), ReplyDone("end")]
    counted = [ReplyBegun(Usage(10, 1), f"r{number}") for number in range(2)]
    model = Played(reply, reply, reply, [counted[0], ProviderError("network", "cut")], [counted[1], None])

    async def conversation(talk: Talk) -> None:
        talk.send(*TALK[:3])
        await talk.engine.settled()
        talk.send(Compact())
        await talk.engine.settled()
        talk.send(Compact())
        while model.given < 8:  # noqa: ASYNC110  (nobody is told of a batch)
            await asyncio.sleep(0)
        talk.send(Cancel("compaction"))

    talk = run(conversation, tmp_path, model)
    assert [event.ok for event in talk.of(CompactionEnded)] == [False, False]
    assert talk.session.usage == Usage(20, 2)


def test_a_refusal_is_no_summary(tmp_path: Path) -> None:
    refusing = {"when": {"system": "replaced by a summary"}, "say": ["I cannot help with that."], "stop": "refused"}
    model = Scripted.from_values({"reply": [refusing, {"say": ["word " * 100]}]})

    async def conversation(talk: Talk) -> None:
        talk.send(*TALK)
        await talk.engine.settled()
        talk.send(Compact())

    talk = run(conversation, tmp_path, model)
    assert [event.ok for event in talk.of(CompactionEnded)] == [False]
    assert (talk.session.visible_from, talk.session.summary) == (0, "")


# What can be said about it: whether it is done without being asked for, and that it is to stop.

HANGING = {"when": {"system": "replaced by a summary"}, "say": [{"hang": True}]}
TALK = [Prompt(f"t{number}", "go on " * 50) for number in range(4)]


def test_without_auto_compaction_nothing_is_compacted_and_an_overflow_is_an_error(tmp_path: Path) -> None:
    model = Window(8000, 30)
    talk = converse(tmp_path, model, [Prompt("t1", "go")], Echo(), auto_compaction=False)
    assert talk.of(CompactionStarted) == []
    [ended] = talk.of(TurnEnded)
    assert ended.failure is not None
    assert ended.failure.code == "overflow"


def test_one_inside_a_turn_can_be_stopped_and_the_turn_goes_on_without(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await talk.until(CompactionStarted)
        talk.send(Cancel("compaction", ref="r1"))

    steps = [{"when": {"step": n}, "say": [{"call": "Echo", "args": {"text": "x" * 4000}}]} for n in range(1, 12)]
    model = Scripted.from_values({"reply": [HANGING, *steps, {"say": ["done"]}], "model": {"window": 8000}})
    talk = run(conversation, tmp_path, model, Echo())
    assert [(event.ok, event.error) for event in talk.of(CompactionEnded)] == [(False, "Compaction cancelled")]
    assert [event.reason for event in talk.of(TurnEnded)] == ["end"]
    assert talk.session.visible_from == 0


def test_a_turn_that_is_stopped_while_it_makes_room_ends_both(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await talk.until(CompactionStarted)
        talk.send(Cancel())

    steps = [{"when": {"step": n}, "say": [{"call": "Echo", "args": {"text": "x" * 4000}}]} for n in range(1, 12)]
    model = Scripted.from_values({"reply": [HANGING, *steps], "model": {"window": 8000}})
    talk = run(conversation, tmp_path, model, Echo())
    assert [event.error for event in talk.of(CompactionEnded)] == ["Compaction cancelled"]
    assert [event.reason for event in talk.of(TurnEnded)] == ["cancelled"]


def test_by_hand_it_may_interrupt_a_turn_and_what_waits_comes_after_it(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(*TALK)
        await talk.engine.settled()
        talk.send(Prompt("t8", "hang"), Prompt("t9", "then"))
        await talk.until(StepStarted, 5)
        talk.send(Steer("also", idle="keep"), Compact(ref="no"), Compact(busy="interrupt", ref="r1"))

    hang = {"when": {"prompt": "hang"}, "say": [{"hang": True}]}
    talk = run(conversation, tmp_path, script(hang, {"say": ["word " * 100]}))
    result = (Reply, CompactionStarted, CompactionEnded, TurnStarted, TurnEnded, UserMessage)
    story = [type(event).__name__ for event in talk.events if isinstance(event, result)]
    assert story[story.index("Reply") :] == [
        "Reply",
        "TurnEnded",
        "Reply",
        "CompactionStarted",
        "CompactionEnded",
        "TurnStarted",
        "UserMessage",
        "UserMessage",
        "TurnEnded",
    ]
    assert [(reply.ref, reply.failure.code if reply.failure else "") for reply in talk.of(Reply)] == [
        ("no", "busy"),
        ("r1", ""),
    ]


def test_L2_by_hand_an_interrupted_turn_may_leave_nothing_to_compact_and_then_that_is_the_answer(
    tmp_path: Path,
) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await talk.until(StepStarted)
        talk.send(Compact(busy="interrupt", ref="r1"), Compact(busy="interrupt", ref="r2"))

    talk = run(conversation, tmp_path, Scripted.in_order({"hang": True}))
    assert [reply.failure.code for reply in talk.of(Reply) if reply.failure] == ["nothing", "nothing"]


def test_by_hand_one_that_is_stopped_before_it_could_begin_has_an_end_too(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(*TALK)
        await talk.engine.settled()
        talk.send(Compact(ref="r1"), Cancel("compaction"))

    talk = run(conversation, tmp_path, script({"say": ["word " * 100]}))
    assert [(event.ok, event.error) for event in talk.of(CompactionEnded)] == [(False, "Compaction cancelled")]


def commanded(tmp_path: Path, *commands: Command) -> Talk:
    """A long talk, a turn that hangs, and these commands at once."""

    async def conversation(talk: Talk) -> None:
        talk.send(*TALK)
        await talk.engine.settled()
        talk.send(Prompt("t8", "hang"))
        await talk.until(StepStarted, 5)
        talk.send(*commands)

    hang = {"when": {"prompt": "hang"}, "say": [{"hang": True}]}
    return run(conversation, tmp_path, script(hang, {"say": ["word " * 100]}))


def test_by_hand_a_second_one_finds_nothing_to_do_and_a_prompt_comes_after_them(tmp_path: Path) -> None:
    several = [Compact(busy="interrupt", ref=ref) for ref in ("r1", "r2")]
    talk = commanded(tmp_path, *several, Prompt("t9", "then", busy="refuse", ref="p"))
    result = (CompactionStarted, CompactionEnded, TurnEnded)
    story = [type(event).__name__ for event in talk.events if isinstance(event, result)]
    assert story[-4:] == ["TurnEnded", "CompactionStarted", "CompactionEnded", "TurnEnded"]
    replies = [(reply.ref, reply.failure and reply.failure.code) for reply in talk.of(Reply)]
    assert replies == [("p", None), ("r1", None), ("r2", "nothing")]
    assert [event.reason for event in talk.of(TurnEnded)][-2:] == ["cancelled", "end"]


def test_by_hand_it_stops_a_prompt_that_was_next_before_it_begins_and_takes_one_that_comes_after(
    tmp_path: Path,
) -> None:
    prompts = [Prompt("a", "a", busy="interrupt"), Prompt("b", "b", busy="refuse", ref="b")]
    talk = commanded(tmp_path, prompts[0], Compact(busy="interrupt"), prompts[1])
    result = [event for event in talk.events if isinstance(event, CompactionStarted | TurnEnded)][-4:]
    assert [getattr(event, "reason", "") + event.turn for event in result] == [
        "cancelledt8",
        "cancelleda",
        "manual",
        "endb",
    ]
    assert talk.of(Reply)[0].failure is None


@pytest.mark.parametrize(
    "stop", [Cancel(queued="keep"), Cancel(), Cancel("compaction"), Prompt("t9", "x", (), "interrupt")]
)
def test_L2_by_hand_those_that_wait_are_stopped_and_answered(stop: Command, tmp_path: Path) -> None:
    several = [Compact(busy="interrupt", ref=ref) for ref in ("r1", "r2")]
    talk = commanded(tmp_path, *several, stop)
    assert talk.of(CompactionStarted) == []
    assert [(reply.ref, reply.failure and reply.failure.code) for reply in talk.of(Reply)] == [
        ("r1", "cancelled"),
        ("r2", "cancelled"),
    ]
