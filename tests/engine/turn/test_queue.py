"""Prompts that wait for their turn, and messages that join the one that runs (T2)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from doubles import Echo, Hang, Played, Talk, converse, line, run
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Cancel, Command, Hello, MalformedCommand, Prompt, Quit, Steer, UnknownCommand
from polylect.vocab.content import File, Message, Text
from polylect.vocab.events import (
    Event,
    Notice,
    QueueChanged,
    Reply,
    StepEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from polylect.vocab.ports import ReplyDone

HELLO = Prompt("t1", "Hello")
HANGS_FIRST = Scripted.from_values({"turn": [{"hang": True}], "reply": [{"text": "ok"}]})


def turns(talk: Talk) -> list[str]:
    return [result for result in talk.story if result.startswith(("turn_", "settled"))]


def failures(talk: Talk) -> dict[str, str]:
    return {reply.ref: reply.failure.code if reply.failure else "" for reply in talk.of(Reply)}


def test_T2_prompts_wait_for_their_turn_and_get_it_in_order(tmp_path: Path) -> None:
    model = Scripted.from_values({"reply": [{"text": "{prompt}!"}]})
    talk = converse(tmp_path, model, [HELLO, Prompt("t2", "two"), Prompt("t3", "three")])
    assert turns(talk) == [
        "turn_started t1",
        "turn_ended t1 end 1",
        "turn_started t2",
        "turn_ended t2 end 1",
        "turn_started t3",
        "turn_ended t3 end 1",
        "settled",
    ]
    assert [message.content for message in talk.messages] == [
        (Text("Hello"),),
        (Text("Hello!"),),
        (Text("two"),),
        (Text("two!"),),
        (Text("three"),),
        (Text("three!"),),
    ]


def test_T2_sixty_four_prompts_may_wait_and_the_next_one_is_told_so(tmp_path: Path) -> None:
    model = Scripted.from_values({"reply": [{"text": "ok"}]})
    prompts = [Prompt(f"t{number}", "x", ref=f"t{number}") for number in range(1 + 64 + 1)]
    talk = converse(tmp_path, model, prompts)
    refused = talk.of(Reply)[-1]
    assert [code for code in failures(talk).values() if code] == ["queue_full"]
    assert refused.ref == "t65"
    assert refused.failure is not None
    assert refused.failure.retryable
    assert len(talk.of(TurnEnded)) == 65


def test_T2_a_stop_answers_all_that_wait_and_prompts_sent_after_it_still_run(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Prompt("t2", "two"), Prompt("t3", "three"))
        await talk.until(TurnStarted)
        talk.send(Cancel(ref="stop"), Prompt("t4", "four"))

    talk = run(conversation, tmp_path, HANGS_FIRST)
    assert turns(talk) == [
        "turn_started t1",
        "turn_ended t1 cancelled 1",
        "turn_ended t2 cancelled",
        "turn_ended t3 cancelled",
        "turn_started t4",
        "turn_ended t4 end 1",
        "settled",
    ]
    assert [message.content for message in talk.messages] == [(Text("Hello"),), (Text("four"),), (Text("ok"),)]


def test_a_stop_can_spare_what_waits_and_a_waiting_prompt_can_be_taken_back(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Prompt("t2", "two"), Prompt("t3", "three"))
        await talk.until(TurnStarted)
        talk.send(Cancel("prompt", "t2"), Cancel(queued="keep"))

    talk = run(conversation, tmp_path, HANGS_FIRST)
    assert [result for result in turns(talk) if "ended" in result] == [
        "turn_ended t2 cancelled",
        "turn_ended t1 cancelled 1",
        "turn_ended t3 end 1",
    ]


def test_T2_an_id_can_be_used_again_only_after_its_turn_has_ended(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(
            HELLO, Prompt("t1", "again", ref="running"), Prompt("t2", "two"), Prompt("t2", "again", ref="waiting")
        )
        await talk.until(TurnStarted)
        talk.send(Cancel(), Prompt("t2", "again", ref="stopped"))
        await talk.engine.settled()
        talk.send(Prompt("t1", "again", ref="over"))

    talk = run(conversation, tmp_path, Scripted.from_values({"reply": [{"text": "ok"}]}))
    assert failures(talk) == {
        "running": "duplicate_turn",
        "waiting": "duplicate_turn",
        "stopped": "duplicate_turn",
        "over": "",
    }


def test_a_prompt_may_want_to_be_refused_or_to_interrupt_when_a_turn_runs(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "one", busy="refuse", ref="idle"), Prompt("t2", "two"))
        await tool.started.wait()
        talk.send(Prompt("t3", "three", busy="refuse", ref="busy"), Prompt("t4", "four", busy="interrupt"))

    tool = Hang()
    model = Scripted.from_values({"turn": [{"call": "Hang"}], "reply": [{"text": "ok"}]})
    talk = run(conversation, tmp_path, model, tool)
    assert failures(talk) == {"idle": "", "busy": "busy"}
    assert [result for result in turns(talk) if "ended" in result] == [
        "turn_ended t1 cancelled 1",
        "turn_ended t4 end 1",
        "turn_ended t2 end 1",
    ]


def test_L2_what_cannot_be_done_is_answered_and_never_dropped(tmp_path: Path) -> None:
    commands: list[Command] = [
        Hello(ref="hello"),
        Prompt("t1", "", ref="empty"),
        Steer("x", ref="steer"),
        Cancel("compaction", ref="compaction"),
        UnknownCommand("dance", ref="dance"),
        Quit(ref="quit"),
        MalformedCommand(b"{", "its codec has answered"),
    ]
    talk = converse(tmp_path, Played(), commands)
    assert failures(talk) == {
        "hello": "",
        "empty": "empty_prompt",
        "steer": "idle",
        "compaction": "",
        "dance": "unknown_command",
        "quit": "unsupported",
    }
    assert len(talk.of(Reply)) == 6


# Messages that join a turn.


def test_a_message_for_soon_joins_after_the_calls_and_one_for_last_before_the_turn_would_end(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        match event:
            case ToolStarted():
                return Steer("faster")
            case TurnStarted():
                return Steer("sum up", when="last")
        return None

    say = [{"call": "Slow", "id": "c1", "args": {"text": "x"}}]
    model = Scripted.from_values(
        {"reply": [{"when": {"prompt": "Hello"}, "say": say}, {"text": "{prompt}, yes"}], "batch": 1}
    )
    talk = converse(tmp_path, model, [HELLO], Echo("Slow"), host=host, allow_list=("Slow",))
    assert talk.story[6:] == [
        "tool_finished c1 Slow x",
        "step_ended",
        "user_message faster steer",
        "step_started",
        "text_delta faster, yes",
        "block_ended faster, yes",
        "reply_ended end",
        "step_ended",
        "user_message sum up follow_up",
        "step_started",
        "text_delta sum up, yes",
        "block_ended sum up, yes",
        "reply_ended end",
        "step_ended",
        "turn_ended t1 end 3",
        "settled",
    ]


def test_L2_a_message_that_came_too_late_for_its_turn_is_not_dropped_in_silence(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Steer("wait", ref="late") if isinstance(event, StepEnded) else None

    talk = converse(tmp_path, Played([ReplyDone("end")]), [HELLO], host=host)
    assert talk.story[-4:] == [
        "reply late",
        "notice 1 messages meant for a turn were dropped warning",
        "turn_ended t1 end 1",
        "settled",
    ]
    assert talk.of(Notice)[0].turn == "t1"


def test_T7_a_message_with_a_file_that_cannot_be_read_is_refused_and_the_turn_goes_on(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text("first this")

    def host(event: Event) -> Command | None:
        match event:
            case ToolStarted():
                return Steer("see", (File("none.txt"),), ref="missing")
            case Reply("missing"):
                return Steer("see", (File("plan.txt"),), ref="found")
            case Reply("found"):
                return Steer("", ref="empty")
            case Reply("empty"):
                return Cancel()
        return None

    talk = converse(tmp_path, Scripted.in_order({"call": "Hang", "id": "c1"}), [HELLO], Hang(), host=host)
    assert failures(talk) == {"missing": "bad_attachment", "found": "", "empty": "empty_prompt"}
    assert talk.story[-2:] == ["turn_ended t1 cancelled 1", "settled"]
    assert talk.messages[0] == Message("user", (Text("Hello"),))


# What waits can be seen.


def fates(talk: Talk) -> list[str]:
    """What waited, and what became of it."""
    result = (QueueChanged, TurnStarted, UserMessage, TurnEnded)
    return [line(event) for event in talk.events if isinstance(event, result)]


def test_a_prompt_that_waits_is_seen_to_wait_to_be_taken_and_to_be_dropped(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Prompt("t2", "two"), Prompt("t3", "three"))
        await talk.until(TurnStarted)
        talk.send(Cancel("prompt", "t2"), Cancel(queued="keep"))

    assert fates(run(conversation, tmp_path, HANGS_FIRST)) == [
        "queue_changed ('t2',)",
        "queue_changed ('t2', 't3')",
        "turn_started t1",
        "user_message Hello",
        "turn_ended t2 cancelled",
        "queue_changed ('t3',)",
        "turn_ended t1 cancelled 1",
        "queue_changed",
        "turn_started t3",
        "user_message three",
        "turn_ended t3 end 1",
    ]


def test_a_prompt_that_is_dropped_ends_at_once_unless_its_id_was_used_before(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("old", "one"))
        await talk.until(TurnEnded)
        talk.send(Prompt("t1", "Hello"), Prompt("old", "two"), Prompt("t3", "three"))
        await talk.until(TurnStarted, 2)
        talk.send(Cancel("prompt", "old"), Cancel("prompt", "t3"))
        await talk.until(TurnEnded, 2)
        talk.send(Cancel())

    model = Scripted.from_values({"reply": [{"when": {"prompt": "Hello"}, "hang": True}, {"text": "ok"}]})
    assert turns(run(conversation, tmp_path, model)) == [
        "turn_started old",
        "turn_ended old end 1",
        "settled",
        "turn_started t1",
        "turn_ended t3 cancelled",
        "turn_ended t1 cancelled 1",
        "turn_started old",
        "turn_ended old cancelled",
        "settled",
    ]


def test_a_message_for_a_turn_is_seen_to_wait_and_to_be_delivered(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        match event:
            case ToolStarted():
                return Steer("faster")
            case TurnStarted():
                return Steer("sum up", when="last")
        return None

    model = Scripted.from_values({"reply": [{"when": {"prompt": "Hello"}, "say": [{"call": "Slow"}]}, {"text": "yes"}]})
    talk = converse(tmp_path, model, [HELLO], Echo("Slow"), host=host, allow_list=("Slow",))
    assert fates(talk) == [
        "turn_started t1",
        "user_message Hello",
        "queue_changed ('sum up',)",
        "queue_changed ('faster',) ('sum up',)",
        "user_message faster steer",
        "queue_changed ('sum up',)",
        "user_message sum up follow_up",
        "queue_changed",
        "turn_ended t1 end 3",
    ]


def test_L2_a_message_that_is_dropped_with_its_turn_is_seen_to_be_gone(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Steer("wait") if isinstance(event, StepEnded) else None

    talk = converse(tmp_path, Played([ReplyDone("end")]), [HELLO], host=host)
    assert fates(talk)[2:] == ["queue_changed ('wait',)", "queue_changed", "turn_ended t1 end 1"]
    assert len(talk.of(Notice)) == 1


def now(turn: str) -> Prompt:
    return Prompt(turn, turn, busy="interrupt", ref=turn)


def at_once(turn: str) -> Prompt:
    return Prompt(turn, turn, busy="refuse", ref=turn)


def test_L1_of_prompts_that_interrupt_each_other_the_last_one_wins_and_the_others_end_in_order(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Prompt("t2", "queued"))
        await talk.until(TurnStarted)
        talk.send(now("a"), now("b"), now("c"))

    talk = run(conversation, tmp_path, HANGS_FIRST)
    assert turns(talk) == [
        "turn_started t1",
        "turn_ended t1 cancelled 1",
        "turn_ended a cancelled",
        "turn_ended b cancelled",
        "turn_started c",
        "turn_ended c end 1",
        "turn_started t2",
        "turn_ended t2 end 1",
        "settled",
    ]


@pytest.mark.parametrize("prompt", [now, at_once])
def test_T3_a_stop_ends_what_was_accepted_before_it_also_where_it_spares_what_is_queued(
    prompt: Callable[[str], Prompt], tmp_path: Path
) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Prompt("t2", "queued"), Cancel("prompt", "t2"))
        await talk.until(TurnStarted)
        talk.send(Cancel(queued="keep"), prompt("a"), Prompt("t3", "queued"), Cancel(queued="keep"))

    talk = run(conversation, tmp_path, HANGS_FIRST)
    ends = [(end.turn, end.reason) for end in talk.of(TurnEnded)]
    assert ends == [("t2", "cancelled"), ("t1", "cancelled"), ("a", "cancelled"), ("t3", "end")]


def test_a_prompt_that_will_not_wait_for_a_turn_waits_for_the_end_of_one_that_is_stopped(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(TurnStarted)
        talk.send(Cancel(queued="keep"), at_once("a"), at_once("b"))

    talk = run(conversation, tmp_path, HANGS_FIRST)
    assert failures(talk) == {"a": "", "b": "busy"}
    assert [(end.turn, end.reason) for end in talk.of(TurnEnded)] == [("t1", "cancelled"), ("a", "end")]
