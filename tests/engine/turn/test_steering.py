"""Messages for a turn: when each is delivered, what it stops, and what becomes of it when nothing runs."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from doubles import Echo, Hang, Played, Run, SpottyLog, Stubborn, Talk, converse, line, run
from polylect.providers.scripted import Scripted
from polylect.vocab.answers import Queue
from polylect.vocab.commands import Cancel, ChangeSteer, Command, Configure, Prompt, Steer
from polylect.vocab.content import Image, Text
from polylect.vocab.errors import ProviderError
from polylect.vocab.events import (
    Ask,
    Event,
    Notice,
    QueueChanged,
    Reply,
    StepEnded,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from polylect.vocab.ports import ReplyDone

HELLO = Prompt("t1", "Hello")
AGAIN = Prompt("t2", "Again")
ANSWERS = Scripted.from_values({"reply": [{"text": "ok"}]})
HANGS_FIRST = Scripted.from_values({"turn": [{"hang": True}], "reply": [{"text": "ok"}]})
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TWO_CALLS = [{"call": "Echo", "id": "c1"}, {"call": "Hang", "id": "c2"}]


def later(text: str, when: Any = "soon", ref: str = "") -> Steer:
    """A message that waits for the next turn if none runs."""
    return Steer(text, when=when, idle="keep", ref=ref)


def fates(talk: Talk) -> list[str]:
    """What waited, and what became of it."""
    result = (QueueChanged, TurnStarted, UserMessage, StepStarted, TurnEnded, Notice)
    return [line(event) for event in talk.events if isinstance(event, result)]


def words(talk: Talk) -> list[str]:
    """What entered the context, and when the model was asked."""
    received = [event for event in talk.events if isinstance(event, UserMessage | StepStarted)]
    return [event.text if isinstance(event, UserMessage) else "?" for event in received]


# Two queues and two modes.


def test_a_message_for_a_turn_that_has_not_begun_follows_its_prompt_and_a_follow_up_comes_at_its_end(
    tmp_path: Path,
) -> None:
    talk = converse(tmp_path, ANSWERS, [later("first"), later("at last", "last"), HELLO])
    assert fates(talk) == [
        "queue_changed ('first',)",
        "queue_changed ('first',) ('at last',)",
        "turn_started t1",
        "user_message Hello",
        "user_message first steer",
        "queue_changed ('at last',)",
        "step_started",
        "user_message at last follow_up",
        "queue_changed",
        "step_started",
        "turn_ended t1 end 2",
    ]


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ({}, "Hello a ? b ? x ? y ?"),
        ({"steering_mode": "all"}, "Hello a b ? x ? y ?"),
        ({"follow_up_mode": "all"}, "Hello a ? b ? x y ?"),
        ({"steering_mode": "all", "follow_up_mode": "all"}, "Hello a b ? x y ?"),
    ],
)
def test_one_message_is_delivered_at_a_time_or_all_of_its_queue(
    modes: dict[str, str], expected: str, tmp_path: Path
) -> None:
    steer_queue = [later("a"), later("b"), later("x", "last"), later("y", "last")]
    assert " ".join(words(converse(tmp_path, ANSWERS, [*steer_queue, HELLO], **modes))) == expected


def test_a_queue_mode_changes_at_once_also_while_a_turn_runs(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Configure({"steering_mode": "all"}, ref="mode") if isinstance(event, ToolStarted) else None

    model = Scripted.from_values({"reply": [{"when": {"prompt": "a"}, "say": [{"call": "Echo"}]}, {"text": "ok"}]})
    steer_queue = [later("a"), later("b"), later("c")]
    talk = converse(tmp_path, model, [*steer_queue, HELLO], Slow("Echo"), host=host)
    assert words(talk) == ["Hello", "a", "?", "b", "c", "?"]
    assert talk.of(Notice) == []


def test_what_comes_with_a_message_is_told_with_it(tmp_path: Path) -> None:
    picture = Image("image/png", PIXEL)
    talk = converse(tmp_path, ANSWERS, [Steer("see", (picture,), idle="keep"), Prompt("t1", "Hello", (picture,))])
    assert [event.attachments for event in talk.of(UserMessage)] == [(picture,), (picture,)]
    assert talk.messages[1].content == (Text("see"), picture)


# What a message stops.


def test_a_message_skips_calls_that_have_not_finished_when_one_has(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Steer("stop that") if isinstance(event, ToolStarted) and event.call == "c1" else None

    talk = converse(tmp_path, Scripted.in_order({"say": TWO_CALLS}, "ok"), [HELLO], Slow("Echo"), Hang(), host=host)
    assert [line(event) for event in talk.events if isinstance(event, ToolFinished | UserMessage | StepStarted)] == [
        "user_message Hello",
        "step_started",
        "tool_finished c1 Echo done",
        "tool_finished c2 Hang Skipped: a message from the user came first. skipped A message from the user came first",
        "user_message stop that steer",
        "step_started",
    ]


def test_a_question_about_a_call_that_is_skipped_is_closed_first(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Steer("stop that") if isinstance(event, Ask) else None

    calls = [{"call": "Echo", "id": "c1"}, {"call": "Run", "id": "c2"}]
    talk = converse(tmp_path, Scripted.in_order({"say": calls}, "ok"), [HELLO], Slow("Echo"), Run(), host=host)
    assert [result for result in talk.story if "c2" in result or "ask" in result][1:] == [
        "ask ask-1 c2 Run exec calls are asked for in mode default",
        "ask_closed ask-1 cancelled",
        "tool_finished c2 Run Skipped: a message from the user came first. skipped A message from the user came first",
    ]


def test_a_call_that_does_not_listen_is_skipped_all_the_same(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        match event:
            case ToolStarted("c1"):
                return Steer("stop that")
            case TurnEnded():
                tool.released.set()
        return None

    calls = [{"call": "Echo", "id": "c1"}, {"call": "Stubborn", "id": "c2"}]
    tool = Stubborn()
    model = Scripted.in_order({"say": calls}, "ok")
    talk = converse(tmp_path, model, [HELLO], Slow("Echo"), tool, host=host, cancel_timeout=0.01)
    assert [event.outcome for event in talk.of(ToolFinished)] == ["ok", "skipped"]


def test_with_mode_wait_all_calls_finish_first(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Steer("and then") if isinstance(event, ToolStarted) and event.call == "c1" else None

    calls = [{"call": "Echo", "id": "c1"}, {"call": "Show", "id": "c2"}]
    model = Scripted.in_order({"say": calls}, "ok")
    talk = converse(tmp_path, model, [HELLO], Echo(), Slow("Show"), host=host, interrupt_mode="wait")
    assert [event.outcome for event in talk.of(ToolFinished)] == ["ok", "ok"]
    assert words(talk) == ["Hello", "?", "and then", "?"]


def test_a_follow_up_and_a_call_that_is_alone_stop_nothing(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        match event:
            case ToolStarted("c1"):
                return Steer("later", when="last")
            case ToolStarted("c3"):
                return Steer("soon")
        return None

    replies = [{"say": [{"call": "Echo", "id": "c1"}, {"call": "Show", "id": "c2"}]}, {"call": "Show", "id": "c3"}]
    talk = converse(tmp_path, Scripted.in_order(replies, "ok", "ok"), [HELLO], Echo(), Slow("Show"), host=host)
    assert [event.outcome for event in talk.of(ToolFinished)] == ["ok", "ok", "ok"]
    assert words(talk) == ["Hello", "?", "?", "soon", "?", "later", "?"]


class Slow(Echo):
    """Gives others the time to begin."""

    async def work(self, args: dict[str, Any], context: Any) -> Any:
        for _ in range(20):
            await asyncio.sleep(0)
        return await super().work({"text": "done"}, context)


# When nothing runs, and when a turn is stopped or fails.


def test_L2_without_a_turn_a_message_is_refused_unless_it_wants_to_wait(tmp_path: Path) -> None:
    talk = converse(tmp_path, ANSWERS, [Steer("now", ref="now"), later("then", ref="then"), Cancel("steers")])
    assert [(reply.ref, reply.failure.code if reply.failure else "") for reply in talk.of(Reply)] == [
        ("now", "idle"),
        ("then", ""),
    ]
    assert len(talk.events) == 5


def test_a_stop_that_keeps_what_waits_leaves_messages_for_the_next_prompt(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(StepStarted)
        talk.send(Steer("a"), later("b"), later("x", "last"), Cancel(queued="keep"))
        await talk.engine.settled()
        talk.send(AGAIN)

    talk = run(conversation, tmp_path, HANGS_FIRST, steering_mode="all")
    assert words(talk) == ["Hello", "?", "Again", "a", "b", "?", "x", "?"]
    assert talk.of(Notice) == []


def test_L2_a_stop_that_drops_what_waits_says_so(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(StepStarted)
        talk.send(Steer("a"), later("b", "last"), Cancel())

    assert fates(run(conversation, tmp_path, HANGS_FIRST))[2:] == [
        "step_started",
        "queue_changed ('a',)",
        "queue_changed ('a',) ('b',)",
        "notice 2 messages meant for a turn were dropped warning",
        "queue_changed",
        "turn_ended t1 cancelled 1",
    ]


def test_a_message_that_may_wait_outlives_a_turn_that_fails_and_one_that_may_not_is_dropped(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        match event:
            case TurnStarted(turn="t1"):
                return later("x", "last")
            case UserMessage("Hello"):
                return Steer("y", when="last")
        return None

    model = Played([ProviderError("auth", "no key")], [ReplyDone("end")], [ReplyDone("end")])
    talk = converse(tmp_path, model, [HELLO, AGAIN], host=host)
    assert [event.text for event in talk.of(Notice)] == ["1 messages meant for a turn were dropped"]
    assert words(talk) == ["Hello", "?", "Again", "?", "x", "?"]


def test_a_prompt_that_interrupts_comes_next_and_what_waited_goes_on_waiting(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, AGAIN, Prompt("t3", "Third"))
        await talk.until(StepStarted)
        talk.send(Steer("a"), Prompt("t4", "Now", busy="interrupt"))

    talk = run(conversation, tmp_path, HANGS_FIRST)
    assert words(talk) == ["Hello", "?", "Now", "a", "?", "Again", "?", "Third", "?"]
    assert [event.reason for event in talk.of(TurnEnded)] == ["cancelled", "end", "end", "end"]


def test_messages_that_wait_can_be_cleared_while_a_turn_runs_and_while_none_does(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(later("idle"), Cancel("steers", ref="r1"), HELLO)
        await talk.until(StepStarted)
        talk.send(Steer("a"), Steer("b", when="last"), Cancel("steers", ref="r2"), Cancel("steers", ref="r3"), Cancel())

    talk = run(conversation, tmp_path, HANGS_FIRST)
    dropped = [Queue(soon=("idle",)), Queue(soon=("a",), last=("b",)), Queue()]
    assert talk.of(Reply) == [Reply(ref, queue) for ref, queue in zip(("r1", "r2", "r3"), dropped, strict=True)]
    assert [event.text[:10] for event in talk.of(Notice)] == ["1 messages", "2 messages"]
    assert talk.of(QueueChanged)[-1] == QueueChanged()
    assert words(talk) == ["Hello", "?"]


def test_a_message_that_waits_can_be_taken_back_or_come_sooner(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(StepStarted)
        talk.send(Steer("a"), Steer("b", when="last"), Steer("c", when="last"))
        talk.send(ChangeSteer("a", "soon", ref="r1"), ChangeSteer("c", "last", "promote", ref="r2"))
        talk.send(ChangeSteer("a", "soon", ref="r3"), ChangeSteer("c", ref="r4"), Cancel())

    talk = run(conversation, tmp_path, HANGS_FIRST)
    assert talk.of(Reply) == [Reply("r1", True), Reply("r2", True), Reply("r3", False), Reply("r4", False)]
    assert [(event.soon, event.last) for event in talk.of(QueueChanged)][3:5] == [((), ("b", "c")), (("c",), ("b",))]


def test_L2_a_message_that_still_waits_when_the_engine_ends_is_not_lost_in_silence(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.engine.settled()
        talk.send(later("x"), later("y", "last"))
        talk.engine.input_closed(stop=False)

    assert fates(run(conversation, tmp_path, ANSWERS))[-4:] == [
        "queue_changed ('x',)",
        "queue_changed ('x',) ('y',)",
        "notice 2 messages that waited for a turn stay in the conversation without an answer warning",
        "queue_changed",
    ]


def test_L2_a_message_that_could_not_be_stored_is_not_lost_in_silence(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        if isinstance(event, ToolStarted):
            return Steer("and then")
        full.extend([1] if isinstance(event, StepEnded) else [])
        return None

    full: list[int] = []
    model = Scripted.in_order({"call": "Echo", "id": "c1"}, "ok")
    log = SpottyLog(full=lambda write: bool(full))
    talk = converse(tmp_path, model, [HELLO], Slow("Echo"), host=host, store=log)
    assert words(talk) == ["Hello", "?"]
    assert talk.of(Notice)[-1].text == "1 messages meant for a turn were dropped"
    assert talk.of(TurnEnded)[0].reason == "error"


@pytest.mark.parametrize("when", ["soon", "last"])
def test_L2_at_the_limit_of_steps_no_message_is_taken_that_the_model_would_not_answer(
    tmp_path: Path, when: Literal["soon", "last"]
) -> None:
    commands = [later("a"), later("b", when), HELLO]
    talk = converse(tmp_path, Played([ReplyDone("end")]), commands, max_turns=1, steering_mode="one-at-a-time")
    assert [event.reason for event in talk.of(TurnEnded)] == ["limit"]
    assert [event.text for event in talk.of(UserMessage)] == ["Hello", "a"]
    ended = talk.events.index(talk.of(TurnEnded)[0])
    queues = [event.soon + event.last for event in talk.events[:ended] if isinstance(event, QueueChanged)]
    assert queues[-1] == ("b",), "it waits for the next prompt"
