"""When a turn begins and when it is really over (L1): an `agent_end` alone does not tell."""

from typing import Any

import pytest

from dialects.omp.host_talk import (
    BUSY,
    IDLE,
    READY,
    START,
    STEP,
    STEP_END,
    Talk,
    answer,
    end,
    reply,
    said,
    text,
    update,
    user,
)
from polylect.vocab.commands import Cancel, Compact, OpenSession, Prompt, Steer
from polylect.vocab.content import Failure, Text, Usage
from polylect.vocab.events import (
    BlockEnded,
    CompactionEnded,
    CompactionStarted,
    Event,
    Ready,
    Reply,
    ReplyEnded,
    RetryEnded,
    RetryStarted,
    SettingChanged,
    Settled,
    StepEnded,
    StepStarted,
    TextDelta,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

T: dict[str, Any] = {"turn": "t1"}
SPENT = Usage(10, 5, 1, 2, 0.25)
FAILED = reply(stop="error", errorMessage="overloaded")
RETRY = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "overloaded"}
ENDS = (TurnStarted, TurnEnded, Settled)


def prompted(version: str = "13", words: str = "hi") -> Talk:
    talk = Talk(version)
    talk.send(Prompt("t1", words, ref="r1"))
    assert [frame["type"] for frame in talk.sent] == ["prompt"]
    talk.receive(answer("t1", "prompt"))
    return talk


def ended(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.turn, event.reason) for event in events if isinstance(event, TurnEnded)]


# Ready.


def test_after_ready_the_state_tells_session_and_model() -> None:
    talk = Talk(ready=False)
    assert talk.sent == []
    assert talk.receive(READY) == [Ready()]
    settings = [SettingChanged("model", "m"), SettingChanged("session", "s")]
    assert talk.state(IDLE) == settings


def test_pi_is_ready_when_it_answers() -> None:
    talk = Talk("pi", ready=False)
    assert talk.send(Prompt("t1", "hi")) == []
    assert talk.state(IDLE) == [Ready(model="m", session="s")]
    assert [frame["type"] for frame in talk.sent] == ["prompt"], "what was said too early is said now"


def test_omp_18_is_asked_for_whole_frames() -> None:
    talk = Talk("18", ready=False)
    talk.receive({**READY, "supportedProtocolVersions": [1, 2], "maxFrameBytes": 1_048_576})
    sent = talk.sent
    assert [{**frame, "id": ""} for frame in sent] == [
        {"type": "negotiate_protocol", "id": "", "protocolVersion": 2},
        {"type": "set_subagent_subscription", "id": "", "level": "events"},
        {"type": "set_ask_dialog", "id": "", "enabled": True},
        {"type": "get_state", "id": ""},
    ]
    refused = answer(sent[2]["id"], "set_ask_dialog", error="Unknown command: set_ask_dialog")
    assert talk.receive(refused) == [], "no release of omp knows it yet"


# A turn.


def test_a_plain_turn_from_prompt_to_end() -> None:
    talk = Talk()
    assert talk.send(Prompt("t1", "hi", ref="r1")) == []
    assert talk.sent == [{"type": "prompt", "message": "hi", "id": "t1"}]
    hello = reply(text("Hello"), responseId="x")
    received = talk.receive(
        answer("t1", "prompt"), START, STEP, *user("hi"),
        {"type": "message_start", "message": reply()}, update("text_start"), update("text_delta", delta="Hel"),
        update("text_delta", delta="lo"), update("text_end", content="Hello"),
        {"type": "message_end", "message": hello}, STEP_END, end(hello),
    )  # fmt: skip
    assert received == [
        Reply("r1"),
        TurnStarted(**T),
        UserMessage("hi", **T),
        StepStarted(**T),
        TextDelta("Hel", **T),
        TextDelta("lo", **T),
        BlockEnded(Text("Hello"), **T),
        ReplyEnded("end", SPENT, "m", "x", **T),
        StepEnded(**T),
    ]
    assert talk.state(IDLE) == [TurnEnded("end", SPENT, 1, **T), Settled()]


def test_the_state_is_asked_for_until_nothing_runs() -> None:
    talk = prompted()
    talk.receive(START, end(reply(text("a"))))
    for _ in range(3):
        assert talk.state(BUSY, only=ENDS) == []
    assert ended(talk.state(IDLE)) == [("t1", "end")]
    assert talk.sent == []


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "session_settled"},
        {"type": "agent_settled"},
        {"type": "prompt_result", "id": "t1", "agentInvoked": True, "status": "completed", "sessionSettled": True},
    ],
)
def test_an_engine_that_says_when_a_turn_is_over_is_believed(frame: dict[str, Any]) -> None:
    talk = prompted()
    talk.receive(START, *said(reply(text("a"))), end())
    assert talk.receive(frame, only=ENDS) == [TurnEnded("end", SPENT, 1, **T), Settled()]
    assert talk.state(IDLE, only=ENDS) == [], "and only once"


def test_omp_18_marks_the_last_run() -> None:
    talk = prompted("18")
    assert talk.receive(START, end(isTerminal=False), only=ENDS) == [TurnStarted(**T)]
    assert talk.receive(START, end(isTerminal=True), only=ENDS) == [TurnEnded("end", **T)]
    assert talk.state(IDLE, only=ENDS) == [Settled()]


def test_omp_18_3_ends_a_turn_whose_work_goes_on_in_the_background() -> None:
    talk = prompted("18")
    assert talk.receive(START, end(yielded=False), only=ENDS) == [TurnStarted(**T)]
    assert talk.sent == [], "nobody asks whether it is over"
    assert talk.receive(START, end(isTerminal=False, yielded=True), only=ENDS) == []
    assert talk.state(IDLE, only=ENDS) == [TurnEnded("end", **T), Settled()]


def test_a_prompt_result_tells_how_it_ended() -> None:
    talk = prompted("18")
    error = {"message": "no credit", "httpStatus": 402, "retryable": False}
    frame = {"type": "prompt_result", "id": "t1", "status": "error", "error": error, "sessionSettled": False}
    failure = Failure("auth", "no credit", "provider")
    assert talk.receive(START, end(), frame, only=TurnEnded) == [TurnEnded("error", failure=failure, **T)]


def test_reasons_come_from_the_last_reply() -> None:
    for stop, reason in (("stop", "end"), ("length", "length"), ("aborted", "cancelled"), ("error", "error")):
        talk = prompted()
        talk.receive(START, *said(reply(stop=stop, errorMessage="why")), end())
        received = [*talk.state(IDLE), *(talk.state(IDLE) if reason == "error" else [])]
        assert ended(received) == [("t1", reason)]


def test_a_run_that_broke_says_so_only_in_its_end() -> None:
    talk = prompted()
    talk.receive(START, end(reply(stop="error", errorMessage="it broke")))
    talk.state(IDLE)
    [event] = talk.state(IDLE, only=TurnEnded)
    assert event == TurnEnded("error", failure=Failure("provider_error", "it broke", "provider"), **T)


def test_a_turn_that_nobody_asked_for_is_the_engines() -> None:
    talk = Talk()
    assert talk.receive(START) == [TurnStarted("engine", turn="id-1")]


# A turn that goes on after a run.


def test_a_retry_is_the_same_turn() -> None:
    talk = prompted()
    talk.receive(START, STEP, *said(FAILED), STEP_END, end(FAILED))
    started = talk.receive(RETRY)
    assert started == [RetryStarted(1, 3, 2000, "overloaded", **T)]
    assert talk.state(BUSY, only=ENDS) == []
    assert talk.sent == [], "nobody asks while it waits"
    ok = {"type": "auto_retry_end", "success": True, "attempt": 1}
    received = talk.receive(START, STEP, *said(reply(text("a"))), ok, STEP_END, end(), only=(*ENDS, RetryEnded))
    assert received == [RetryEnded(True, 1, **T)]
    assert talk.state(IDLE, only=ENDS) == [TurnEnded("end", SPENT + SPENT, 2, **T), Settled()]


def test_an_idle_state_before_a_retry_is_not_trusted() -> None:
    talk = prompted()
    talk.receive(START, *said(FAILED), end())
    assert talk.state(IDLE, only=ENDS) == []
    assert talk.receive(RETRY, only=ENDS) == []
    assert talk.state(IDLE, only=ENDS) == [], "pi is idle while it waits"


def test_retries_that_are_used_up_end_the_turn() -> None:
    talk = prompted()
    given_up = {"type": "auto_retry_end", "success": False, "attempt": 3, "finalError": "overloaded"}
    received = talk.receive(START, *said(FAILED), end(), RETRY, START, *said(FAILED), end(), given_up, only=RetryEnded)
    assert received == [RetryEnded(False, 3, "overloaded", **T)]
    talk.state(IDLE)
    assert ended(talk.state(IDLE)) == [("t1", "error")]


def test_a_retry_that_is_stopped_is_a_cancelled_turn() -> None:
    talk = prompted()
    talk.receive(START, *said(FAILED), end(), RETRY)
    talk.send(Cancel(ref="stop"))
    [abort] = talk.sent
    talk.receive(
        {"type": "auto_retry_end", "success": False, "finalError": "Retry cancelled"}, answer(abort["id"], "abort")
    )
    talk.state(IDLE)
    assert ended(talk.state(IDLE)) == [("t1", "cancelled")]


def test_a_compaction_that_continues_is_the_same_turn() -> None:
    talk = prompted()
    talk.receive(START, *said(FAILED), end(), {"type": "auto_compaction_start", "reason": "overflow"})
    result = {"summary": "short", "tokensBefore": 9, "firstKeptEntryId": "k"}
    done = {"type": "auto_compaction_end", "result": result, "aborted": False, "willRetry": True}
    assert talk.receive(done) == [CompactionEnded(True, "short", 9, first_kept="k", **T)]
    assert talk.sent == []
    talk.receive(START, *said(reply(text("a"))), end())
    assert ended(talk.state(IDLE)) == [("t1", "end")]


def test_a_compaction_that_was_all_ends_the_turn() -> None:
    talk = prompted("pi")
    talk.state(BUSY)
    talk.receive(START, *said(reply(text("a"))), end(), {"type": "compaction_start", "reason": "threshold"})
    talk.receive(
        {"type": "compaction_end", "reason": "threshold", "aborted": False, "willRetry": False, "errorMessage": "no"}
    )
    assert ended(talk.state(IDLE)) == [("t1", "end")]


# Prompts that have no run.


def test_a_command_of_an_extension_ends_without_a_run() -> None:
    talk = prompted(words="/widget on")
    assert talk.state(IDLE, only=ENDS) == []
    assert talk.state(IDLE, only=ENDS) == [TurnStarted(**T), TurnEnded("end", **T), Settled()]


def test_a_local_command_of_omp_18_ends_at_once() -> None:
    talk = Talk("18")
    talk.send(Prompt("t1", "/model", ref="r1"))
    received = talk.receive(answer("t1", "prompt", {"agentInvoked": False}))
    assert received == [Reply("r1"), TurnStarted(**T), TurnEnded("end", **T)]


def test_a_prompt_that_is_stopped_before_it_began_is_cancelled() -> None:
    talk = prompted()
    talk.send(Cancel(ref="stop"))
    [abort] = talk.sent
    assert talk.receive(answer(abort["id"], "abort"), only=Reply) == [Reply("stop")]
    talk.state(IDLE)
    assert ended(talk.state(IDLE)) == [("t1", "cancelled")]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_call_that_fails_after_its_turn_was_stopped_is_cancelled(stopped: bool) -> None:
    """pi 0.73 says of a command that was stopped what it says of one that failed."""
    talk = prompted("pi")
    call = {"toolCallId": "c1", "toolName": "bash"}
    asked = reply({"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "sleep 61"}})
    talk.receive(START, STEP, *said(asked), {"type": "tool_execution_start", "args": {"command": "sleep 61"}, **call})
    if stopped:
        talk.send(Cancel(ref="stop"))
    result = {"content": [text("Command aborted")], "details": {}}
    end = {"type": "tool_execution_end", "result": result, "isError": True, **call}
    [finished] = talk.receive(end, only=ToolFinished)
    assert finished == ToolFinished("c1", "bash", "Command aborted", "cancelled" if stopped else "error", **T)


def test_a_prompt_that_begins_although_it_was_stopped_is_stopped_again() -> None:
    talk = prompted("pi")
    talk.send(Cancel(ref="stop"))
    assert [frame["type"] for frame in talk.sent] == ["get_state", "abort"]
    talk.receive(START)
    assert [frame["type"] for frame in talk.sent] == ["abort"]


# Prompts that are refused.


def test_an_error_after_the_acknowledgement_ends_the_turn() -> None:
    talk = prompted()
    received = talk.receive(answer("t1", "prompt", error="No model selected."))
    assert received == [TurnEnded("error", failure=Failure("refused", "No model selected.", "engine"), **T)]


def test_an_error_before_the_acknowledgement_is_the_answer() -> None:
    talk = Talk()
    talk.send(Prompt("t1", "hi", ref="r1"))
    received = talk.receive(answer("t1", "prompt", error="busy"), answer("t1", "prompt"))
    assert received == [Reply("r1", failure=Failure("refused", "busy", "engine"))]
    talk.send(Prompt("t2", "again", ref="r2"))
    assert [frame["id"] for frame in talk.sent] == ["t1", "t2"], "nothing is under way any more"


def test_a_prompt_that_waited_and_is_refused_has_its_end() -> None:
    talk = prompted()
    assert talk.send(Prompt("t2", "next", ref="r2")) == [Reply("r2")]
    talk.receive(START, end(), {"type": "session_settled"})
    assert ended(talk.receive(answer("t2", "prompt", error="no"), answer("t2", "prompt"))) == [("t2", "error")]


# While a turn runs.


def test_a_second_prompt_waits_for_the_end_of_the_first() -> None:
    talk = prompted()
    talk.receive(START)
    assert talk.send(Prompt("t2", "next", ref="r2")) == [Reply("r2")]
    assert talk.sent == []
    talk.receive(end())
    received = talk.state(IDLE, only=ENDS)
    assert received == [TurnEnded("end", **T)], "and nothing has settled"
    assert [frame["id"] for frame in talk.sent] == ["t2"]
    assert talk.receive(answer("t2", "prompt"), START, only=ENDS) == [TurnStarted(turn="t2")]


def test_a_prompt_that_interrupts_ends_the_first() -> None:
    talk = prompted()
    talk.receive(START)
    talk.send(Prompt("t2", "stop that", busy="interrupt", ref="r2"))
    assert [(frame["type"], frame["id"]) for frame in talk.sent] == [("abort_and_prompt", "t2")]
    aborted = reply(stop="aborted")
    received = talk.receive(*said(aborted), end(aborted), answer("t2", "abort_and_prompt"), START, only=(*ENDS, Reply))
    assert received == [TurnEnded("cancelled", SPENT, 1, **T), Reply("r2"), TurnStarted(turn="t2")]


def test_pi_is_stopped_first_and_then_prompted() -> None:
    talk = prompted("pi")
    talk.state(BUSY)
    talk.receive(START)
    assert talk.send(Prompt("t2", "stop that", busy="interrupt", ref="r2")) == [Reply("r2")]
    assert [frame["type"] for frame in talk.sent] == ["abort"]


def test_a_steer_comes_back_as_what_it_was() -> None:
    talk = prompted()
    talk.receive(START, STEP, *user("hi"))
    talk.send(Steer("faster", ref="r2"))
    talk.send(Steer("and then?", when="last"))
    assert [frame["type"] for frame in talk.sent] == ["steer", "follow_up"]
    received = talk.receive(*user("and then?"), *user("faster"), only=UserMessage)
    assert received == [UserMessage("and then?", "follow_up", **T), UserMessage("faster", "steer", **T)]


def test_a_steer_needs_a_turn_unless_it_may_wait() -> None:
    talk = Talk()
    [refused] = talk.send(Steer("faster", ref="r1"))
    assert isinstance(refused, Reply)
    assert refused.failure
    assert refused.failure.code == "idle"
    talk.send(Steer("faster", idle="keep"))
    assert [frame["type"] for frame in talk.sent] == ["steer"]


def test_cancel_ends_what_waits_and_is_answered_when_the_turn_has_ended() -> None:
    talk = prompted()
    talk.receive(START)
    talk.send(Prompt("t2", "next"))
    assert talk.send(Cancel(ref="stop")) == [TurnEnded("cancelled", turn="t2")]
    [abort] = talk.sent
    aborted = reply(stop="aborted", errorMessage="Request was aborted")
    talk.receive(*said(aborted), end(aborted))
    [requested] = talk.sent
    received = talk.receive(
        answer(abort["id"], "abort"), answer(requested["id"], "get_state", IDLE), only=(*ENDS, Reply)
    )
    assert received == [Reply("stop"), TurnEnded("cancelled", SPENT, 1, **T), Settled()]


def test_cancel_is_a_no_op_while_nothing_runs() -> None:
    talk = Talk()
    assert talk.send(Cancel(ref="stop")) == [Reply("stop")]
    assert talk.sent == []


@pytest.mark.parametrize("command", ["new_session", "switch_session"])
def test_a_run_that_another_session_cut_off_ends_with_its_answer(command: str) -> None:
    talk = prompted()
    talk.receive(START)
    talk.send(OpenSession(how="new" if command == "new_session" else "resume", target="/s.jsonl", ref="r2"))
    [requested] = talk.sent
    assert ended(talk.receive(answer(requested["id"], command, {"cancelled": False}))) == [("t1", "cancelled")]


def test_a_run_that_a_compaction_cut_off_ends_with_its_answer() -> None:
    talk = prompted()
    talk.receive(START)
    talk.send(Compact(busy="interrupt", ref="r2"))
    [requested] = talk.sent
    received = talk.receive(answer(requested["id"], "compact", {"summary": "short", "tokensBefore": 9}))
    assert received == [
        Reply("r2"),
        TurnEnded("cancelled", **T),
        CompactionStarted("manual"),
        CompactionEnded(True, "short", 9),
    ]


def test_a_run_that_a_failed_compaction_cut_off_is_found_out() -> None:
    talk = prompted()
    talk.receive(START)
    talk.send(Compact(busy="interrupt", ref="r2"))
    [requested] = talk.sent
    talk.receive(answer("", "parse", error="Failed to parse command: Nothing to compact"))
    assert requested["type"] == "compact"
    assert ended(talk.state(IDLE)) == [("t1", "cancelled")]


# The end.


def test_an_engine_that_vanishes_ends_every_turn() -> None:
    talk = prompted()
    talk.receive(START)
    talk.send(Prompt("t2", "next"))
    assert ended(talk.side.receive_eof()) == [("t1", "error"), ("t2", "error")]


def test_an_end_that_was_only_waited_for_stands_when_the_engine_vanishes() -> None:
    talk = prompted()
    talk.receive(START, *said(reply(text("a"))), end())
    assert ended(talk.side.receive_eof()) == [("t1", "end")]


STILL_BUSY = "Agent is already processing. Use steer() or followUp() to queue messages, or wait for completion."


def test_a_prompt_that_waited_and_still_came_too_early_waits_again() -> None:
    """omp says that nothing runs a moment before it takes the next prompt."""
    talk = prompted()
    talk.send(Prompt("t2", "second", ref="r2"))
    talk.receive(START, STEP, *user("hi"), *said(reply(text("yo"))), STEP_END, end())
    assert ended(talk.state(IDLE)) == [("t1", "end")]
    assert [frame["id"] for frame in talk.sent if frame["type"] == "prompt"] == ["t2"]
    assert talk.receive(answer("t2", "prompt", error=STILL_BUSY), answer("t2", "prompt"), only=TurnEnded) == []
    talk.state(IDLE)
    assert [frame["id"] for frame in talk.sent if frame["type"] == "prompt"] == ["t2"]
    received = talk.receive(answer("t2", "prompt"), START, STEP, *user("second"), only=TurnStarted)
    assert [event.turn for event in received] == ["t2"]


def test_a_prompt_that_is_sent_right_after_a_turn_and_comes_too_early_is_sent_again() -> None:
    talk = prompted()
    talk.receive(START, STEP, *user("hi"), *said(reply(text("yo"))), STEP_END, end())
    assert ended(talk.state(IDLE)) == [("t1", "end")]
    talk.send(Prompt("t2", "second", ref="r2"))
    refused = talk.receive(answer("t2", "prompt", error=STILL_BUSY), answer("t2", "prompt"), only=Reply)
    assert [(reply.ref, reply.failure) for reply in refused] == [("r2", None)]
    talk.state(IDLE)
    assert [frame["id"] for frame in talk.sent if frame["type"] == "prompt"] == ["t2"]
    received = talk.receive(answer("t2", "prompt"), START, STEP, *user("second"), only=(Reply, TurnStarted))
    assert [type(event) for event in received] == [TurnStarted]
