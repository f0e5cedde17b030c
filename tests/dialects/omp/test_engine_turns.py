"""The order of frames, for each thing that can happen in a turn."""

from typing import Any

import pytest

from conversations import SMALL, called, step, text
from dialects.omp.engine_talk import EngineTalk, Frame, kinds
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Query
from polylect.vocab.content import Failure, Image, PlanItem, StreamRule, Thinking, ToolCall, Usage
from polylect.vocab.events import (
    AgentEnded,
    AgentProgress,
    AgentStarted,
    Alive,
    ArgsDelta,
    BlockEnded,
    CompactionEnded,
    CompactionStarted,
    Event,
    ExtensionFailed,
    Failed,
    Notice,
    PlanChanged,
    QueueChanged,
    Ready,
    Reply,
    ReplyEnded,
    RetryEnded,
    RetryStarted,
    RulesMatched,
    SettingChanged,
    Settled,
    StepEnded,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

T: dict[str, Any] = {"turn": "p1"}
PROMPT = {"id": "p1", "type": "prompt", "message": "hi"}
BEGUN = ["agent_start", "turn_start", "message_start user", "message_end user"]
HELLO = [*BEGUN, "message_start assistant", "text_start", "text_delta", "text_end", "message_end assistant"]
OVER = ["turn_end", "agent_end", "prompt_result"]


def begin(talk: EngineTalk) -> list[Frame]:
    return talk.ask(PROMPT)


def plain(*events: Event) -> list[Event]:
    return [TurnStarted(**T), UserMessage("hi", **T), *events]


def test_a_plain_prompt_is_acknowledged_and_runs_from_agent_start_to_agent_end() -> None:
    talk = EngineTalk(provider="p", api="anthropic_messages")
    assert kinds(talk.send(Ready(model="m"))) == ["ready"]
    assert begin(talk) == [{"type": "response", "id": "p1", "command": "prompt", "success": True}]
    frames = talk.send(*plain(*step(text("Hel", "lo", **T), **T)), TurnEnded("end", SMALL, 1, **T), Settled())
    assert kinds(frames) == [*HELLO[:7], "text_delta", *HELLO[7:], *OVER, "session_settled"]
    whole = frames[9]["message"]
    assert whole["content"] == [{"type": "text", "text": "Hello"}]
    assert (whole["api"], whole["provider"], whole["model"]) == ("anthropic-messages", "p", "m")
    assert whole["usage"]["cost"]["total"] == 0.25
    assert whole["stopReason"] == "stop"
    assert whole["timestamp"] == 1000
    assert frames[10] == {"type": "turn_end", "message": whole, "toolResults": []}
    assert [message["role"] for message in frames[11]["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        ("gpt-5", "gpt-5"), ("gpt-5-2025-08-07", "gpt-5"), ("gpt-5-20250807", "gpt-5"), ("gpt-5@20250807", "gpt-5"),
        ("", "gpt-5"), ("gpt-5-mini", "gpt-5-mini"), ("other", "other"),
    ],
)  # fmt: skip
def test_a_message_names_the_model_as_the_host_does_unless_another_one_answered(answered: str, told: str) -> None:
    talk = EngineTalk(model="gpt-5")
    frames = talk.send(*plain(), StepStarted(**T), *text("Hi", **T), ReplyEnded("end", model=answered, **T))
    assert (frames[4]["message"]["model"], frames[-1]["message"]["model"]) == ("gpt-5", told)


def test_an_update_holds_the_message_so_far_with_placeholders() -> None:
    talk = EngineTalk()
    talk.send(*plain())
    frames = talk.send(*step(text("Hi", **T), **T))
    delta = next(frame for frame in frames if kinds([frame]) == ["text_delta"])
    event = delta["assistantMessageEvent"]
    assert (event["contentIndex"], event["delta"]) == (0, "Hi")
    assert event["partial"] == delta["message"]
    assert delta["message"]["content"] == [{"type": "text", "text": "Hi"}]
    assert delta["message"]["stopReason"] == "stop"
    assert delta["message"]["usage"]["totalTokens"] == 0


def test_thinking_text_and_a_call_are_blocks_in_order() -> None:
    talk = EngineTalk()
    talk.send(*plain())
    frames = talk.send(
        StepStarted(**T),
        ThinkingDelta("hm", **T),
        BlockEnded(Thinking("hm", "signed"), **T),
        BlockEnded(Thinking("", redacted="secret"), **T),
        *text("ok", **T),
        ArgsDelta("c1", "Bash", '{"command":"ls"}', **T),
        BlockEnded(ToolCall("c1", "Bash", {"command": "ls"}), **T),
        ToolCalled("c1", "Bash", {"command": "ls"}, description="List files", **T),
        ReplyEnded("calls", SMALL, "m", "req-1", **T),
    )
    assert kinds(frames)[4:] == [
        "thinking_start", "thinking_delta", "thinking_end", "text_start", "text_delta", "text_end",
        "toolcall_start", "toolcall_delta", "toolcall_end", "message_end assistant",
    ]  # fmt: skip
    assert frames[-1]["message"]["content"] == [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "signed"},
        {"type": "redactedThinking", "data": "secret"},
        {"type": "text", "text": "ok"},
        {"type": "toolCall", "id": "c1", "name": "Bash", "arguments": {"command": "ls"}},
    ]
    assert [frame["assistantMessageEvent"]["contentIndex"] for frame in frames[4:-1]] == [0, 0, 0, 2, 2, 2, 3, 3, 3]
    assert frames[-1]["message"]["responseId"] == "req-1"
    assert frames[-1]["message"]["stopReason"] == "toolUse"


def test_a_call_runs_between_the_end_of_its_message_and_the_end_of_the_turn() -> None:
    talk = EngineTalk()
    talk.send(*plain())
    then = (
        ToolStarted("c1", "Bash", **T),
        ToolOutput("c1", "one\n", **T),
        ToolFinished("c1", "Bash", "one\n", metadata={"exit": 0}, images=(Image("image/gif", "R0lG"),), **T),
    )
    frames = talk.send(*step(called("c1", "Bash", {"command": "ls"}, **T), then=then, **T))
    assert kinds(frames)[-7:] == [
        "message_end assistant", "tool_execution_start", "tool_execution_update", "tool_execution_end",
        "message_start toolResult", "message_end toolResult", "turn_end",
    ]  # fmt: skip
    start, update, end = frames[-6:-3]
    assert start["args"] == {"command": "ls"}
    assert update["partialResult"] == {"content": [{"type": "text", "text": "one\n"}]}
    assert end["result"]["details"] == {"exit": 0}
    assert end["result"]["content"][1] == {"type": "image", "data": "R0lG", "mimeType": "image/gif"}
    assert end["isError"] is False
    assert frames[-1]["toolResults"] == [frames[-2]["message"]]


@pytest.mark.parametrize("outcome", ["denied", "cancelled", "skipped"])
def test_a_call_that_never_ran_is_told_from_start_to_end_as_an_error(outcome: Any) -> None:
    talk = EngineTalk()
    talk.send(*plain(), *step(called("c1", "Bash", {}, **T), **T)[:-1])
    frames = talk.send(ToolFinished("c1", "Bash", "no", outcome, reason="why", **T))
    assert kinds(frames) == [
        "tool_execution_start", "tool_execution_end", "message_start toolResult", "message_end toolResult",
    ]  # fmt: skip
    assert (frames[1]["isError"], frames[1]["outcome"], frames[1]["reason"]) == (True, outcome, "why")


def test_calls_that_overlap_are_told_apart_and_their_results_stand_in_the_order_of_their_ends() -> None:
    talk = EngineTalk()
    talk.send(*plain(), *step(called("c1", "Read", {}, **T), called("c2", "Read", {}, **T), **T)[:-1])
    frames = talk.send(
        ToolStarted("c1", "Read", **T),
        ToolStarted("c2", "Read", **T),
        ToolFinished("c2", "Read", "b", **T),
        ToolFinished("c1", "Read", "a", **T),
        StepEnded(**T),
    )
    assert [frame["toolCallId"] for frame in frames if "toolCallId" in frame] == ["c1", "c2", "c2", "c1"]
    assert [result["toolCallId"] for result in frames[-1]["toolResults"]] == ["c2", "c1"]


def test_what_a_call_does_while_the_model_still_talks_is_told_when_its_message_has_ended() -> None:
    talk = EngineTalk()
    talk.send(*plain(), StepStarted(**T), *called("c1", "Read", {}, **T))
    assert talk.send(ToolStarted("c1", "Read", **T), ToolOutput("c1", "x", **T)) == []
    frames = talk.send(ReplyEnded("calls", SMALL, **T))
    assert kinds(frames) == ["message_end assistant", "tool_execution_start", "tool_execution_update"]


def test_queued_messages_come_right_after_the_next_turn_start_within_one_run() -> None:
    talk = EngineTalk()
    frames = talk.send(
        *plain(*step(text("a", **T), **T)),
        UserMessage("faster", "steer", **T),
        *step(text("b", **T), **T),
        UserMessage("and now?", "follow_up", **T),
        *step(text("c", **T), **T),
        TurnEnded("end", turn="p1"),
    )
    turns = [*["turn_start", "message_start user", "message_end user"], *HELLO[4:], "turn_end"]
    assert kinds(frames) == ["agent_start", *turns, *turns, *turns, "agent_end", "prompt_result"]
    assert len(frames[-2]["messages"]) == 6


def test_reminders_that_nobody_typed_are_developer_messages_and_custom_ones_in_pi() -> None:
    roles = []
    for version in ("13", "18", "pi"):
        talk = EngineTalk(version)
        talk.send(*plain())
        roles.append(kinds(talk.send(StepStarted(**T), UserMessage("mind the gap", "engine", **T)))[-1])
    assert roles == ["message_end developer", "message_end developer", "message_end custom"]


def test_a_host_of_18_asks_for_what_sub_agents_do() -> None:
    talk = EngineTalk("18")
    talk.send(TurnStarted(**T), StepStarted(**T))
    started = AgentStarted(call="c1", name="scout", task="look", turn="t", agent="k")
    assert talk.send(started, AgentEnded(True, turn="t", agent="k")) == []
    talk.receive({"type": "set_subagent_subscription", "level": "events"})
    assert [frame["type"] for frame in talk.send(started)] == ["subagent_lifecycle"]


def test_updates_have_a_usage_of_their_own_in_pi_alone() -> None:
    usages = []
    for version in ("13", "18", "pi"):
        frames = EngineTalk(version).send(TurnStarted(**T), StepStarted(**T), TextDelta("Hi", **T))
        usages.append(
            [frame.get("usage", {}).get("totalTokens") for frame in frames if frame["type"] == "message_update"]
        )
    assert usages == [[None, None], [None, None], [0, 0]]


def test_a_provider_that_fails_before_any_token_is_a_message_without_updates() -> None:
    talk = EngineTalk()
    begin(talk)
    failure = Failure("server", "it broke", "provider", True)
    frames = talk.send(
        *plain(StepStarted(**T), ReplyEnded("error", error="it broke", **T), StepEnded(**T)),
        TurnEnded("error", failure=failure, steps=1, **T),
    )
    assert kinds(frames) == [*BEGUN, "message_start assistant", "message_end assistant", *OVER]
    assert frames[5]["message"]["stopReason"] == "error"
    assert frames[5]["message"]["errorMessage"] == "it broke"
    assert frames[-1]["status"] == "error"
    assert frames[-1]["error"]["message"] == "it broke"


def test_an_error_outside_of_any_reply_is_a_message_too() -> None:
    talk = EngineTalk()
    begin(talk)
    frames = talk.send(*plain(), TurnEnded("error", failure=Failure("session", "the disk is full", "engine"), **T))
    assert kinds(frames) == [*BEGUN, "message_start assistant", "message_end assistant", *OVER]
    assert frames[5]["message"]["errorMessage"] == "the disk is full"


@pytest.mark.parametrize(
    ("version", "why"), [("13", "Request was aborted"), ("18", "Interrupted by user"), ("pi", "Request was aborted")]
)
def test_an_aborted_reply_keeps_what_was_said_and_says_so(version: str, why: str) -> None:
    talk = EngineTalk(version)
    begin(talk)
    frames = talk.send(
        *plain(StepStarted(**T), *text("Hel", **T), ReplyEnded("cancelled", error="x", **T), StepEnded(**T)),
        TurnEnded("cancelled", **T),
    )
    assert kinds(frames) == [*HELLO, *OVER]
    assert frames[8]["message"]["stopReason"] == "aborted"
    assert frames[8]["message"]["errorMessage"] == why
    assert frames[8]["message"]["content"] == [{"type": "text", "text": "Hel"}]
    assert frames[-1]["status"] == "aborted"


def test_a_call_whose_arguments_broke_off_is_not_in_the_message() -> None:
    talk = EngineTalk()
    talk.send(*plain(), StepStarted(**T), ArgsDelta("c1", "Bash", '{"comm', **T))
    frames = talk.send(ReplyEnded("cancelled", **T))
    assert frames[-1]["message"]["content"] == []
    assert "toolcall_end" not in kinds(frames)


# Aborts.


def test_abort_is_answered_after_the_end_of_the_run_and_at_once_when_idle() -> None:
    talk = EngineTalk()
    assert kinds(talk.ask({"id": "a", "type": "abort"})) == ["response abort"]
    begin(talk)
    talk.send(*plain())
    assert talk.ask({"id": "b", "type": "abort"}) == []
    frames = talk.send(TurnEnded("cancelled", **T))
    assert kinds(frames)[-3:] == ["agent_end", "prompt_result", "response abort"]


def test_a_run_that_was_stopped_during_a_call_ends_with_an_aborted_message_as_any_other() -> None:
    talk = EngineTalk()
    begin(talk)
    call = [ToolCalled("c1", "Bash", **T), ReplyEnded("calls", **T), ToolStarted("c1", "Bash", **T)]
    talk.send(*plain(StepStarted(**T), *call))
    stopped = [ToolFinished("c1", "Bash", "cancelled", **T), StepEnded(**T)]
    frames = talk.send(*stopped, TurnEnded("cancelled", **T))
    assert kinds(frames) == [
        "tool_execution_end", "message_start toolResult", "message_end toolResult", "turn_end",
        "turn_start", "message_start assistant", "message_end assistant", *OVER,
    ]  # fmt: skip
    assert frames[-2]["messages"][-1]["stopReason"] == "aborted"
    talk.send(TurnStarted(turn="p2"))
    assert kinds(talk.send(TurnEnded("cancelled", turn="p2"))) == ["agent_end", "prompt_result"]


def test_abort_and_prompt_ends_the_run_then_answers_then_begins_the_next() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(*plain())
    assert talk.ask({"id": "p2", "type": "abort_and_prompt", "message": "else"}) == []
    frames = talk.send(TurnEnded("cancelled", **T), TurnStarted(turn="p2"))
    assert kinds(frames)[-5:] == [
        "turn_end", "agent_end", "prompt_result", "response abort_and_prompt", "agent_start",
    ]  # fmt: skip


def test_a_prompt_that_was_stopped_before_it_began_still_has_a_run() -> None:
    """L1: its host waits for agent_end."""
    talk = EngineTalk()
    begin(talk)
    assert kinds(talk.send(TurnEnded("cancelled", **T))) == ["agent_start", "agent_end", "prompt_result"]


def test_switching_the_session_ends_the_run_before_the_response() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(*plain())
    talk.receive({"id": "n", "type": "new_session"})
    assert "agent_end" in kinds(talk.send(TurnEnded("cancelled", **T)))


def test_a_turn_of_the_engines_own_has_no_id() -> None:
    talk = EngineTalk()
    frames = talk.send(TurnStarted(cause="engine", turn="agent-1"), TurnEnded("end", turn="agent-1"))
    assert kinds(frames) == ["agent_start", "agent_end", "prompt_result"]
    assert "id" not in frames[-1]


# Retries, compaction, and what else happens around a turn.


def test_a_retry_ends_its_run_and_begins_another() -> None:
    talk = EngineTalk()
    begin(talk)
    frames = talk.send(
        *plain(StepStarted(**T), RetryStarted(1, 3, 2000, "overloaded", **T)),
        RetryEnded(True, 1, **T),
        *text("Hello", **T),
        ReplyEnded("end", SMALL, **T),
        StepEnded(**T),
        TurnEnded("end", **T),
    )
    failed = [*BEGUN, "message_start assistant", "message_end assistant", "turn_end", "agent_end"]
    again = ["agent_start", "turn_start", "auto_retry_end", *HELLO[4:], *OVER]
    assert kinds(frames) == [*failed, "auto_retry_start", *again]
    assert frames[7]["isTerminal"] is False
    assert frames[8] == {
        "type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "overloaded",
    }  # fmt: skip
    assert frames[11] == {"type": "auto_retry_end", "success": True, "attempt": 1}
    assert "isTerminal" not in frames[-2]


def test_retries_that_are_exhausted_are_told_after_the_last_run() -> None:
    talk = EngineTalk()
    begin(talk)
    frames = talk.send(
        *plain(StepStarted(**T), RetryStarted(1, 1, 0, "503", **T), RetryEnded(False, 1, "503", **T)),
        ReplyEnded("error", error="503", **T),
        StepEnded(**T),
        TurnEnded("error", failure=Failure("server", "503", "provider"), **T),
    )
    attempt = ["message_start assistant", "message_end assistant", "turn_end", "agent_end"]
    assert kinds(frames) == [
        *BEGUN, *attempt, "auto_retry_start", "agent_start", "turn_start", *attempt, "auto_retry_end", "prompt_result",
    ]  # fmt: skip
    assert frames[-2] == {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "503"}


@pytest.mark.parametrize(
    ("stop", "error", "reason"), [("error", "Retry cancelled", "error"), ("cancelled", "", "cancelled")]
)
def test_a_retry_that_was_cancelled_while_it_waited_has_no_run_of_its_own(stop: Any, error: str, reason: Any) -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(*plain(StepStarted(**T), RetryStarted(1, 3, 2000, "503", **T)))
    frames = talk.send(
        RetryEnded(False, 1, error, **T),
        ReplyEnded(stop, error=error, **T),
        StepEnded(**T),
        TurnEnded(reason, **T),
    )
    assert kinds(frames) == ["auto_retry_end", "prompt_result"]


def test_an_automatic_compaction_is_told_with_its_result() -> None:
    talk = EngineTalk()
    frames = talk.send(
        CompactionStarted("overflow"), CompactionEnded(summary="short", before=9, after=3, first_kept="e1")
    )
    assert frames == [
        {"type": "auto_compaction_start", "reason": "overflow", "action": "context-full"},
        {
            "type": "auto_compaction_end",
            "result": {"summary": "short", "firstKeptEntryId": "e1", "tokensBefore": 9},
            "aborted": False,
            "willRetry": True,
            "action": "context-full",
        },
    ]


def test_a_compaction_that_failed_has_no_result() -> None:
    talk = EngineTalk()
    frames = talk.send(CompactionStarted(), CompactionEnded(ok=False, error="no room"))
    assert frames[1] == {
        "type": "auto_compaction_end", "aborted": False, "willRetry": False, "errorMessage": "no room",
        "action": "context-full",
    }  # fmt: skip


def test_a_compaction_by_command_is_told_by_its_response_alone_and_in_pi_by_both() -> None:
    said = {}
    for version in ("13", "18", "pi"):
        talk = EngineTalk(version)
        assert talk.ask({"id": "c", "type": "compact", "customInstructions": "briefly"}) == []
        said[version] = kinds(
            talk.send(CompactionStarted("manual"), CompactionEnded(summary="s", before=5, first_kept="e"))
        )
    assert said["13"] == said["18"] == ["response compact"]
    assert said["pi"] == ["compaction_start", "compaction_end", "response compact"]


def test_compact_fails_when_the_summary_does_or_when_nothing_comes_of_it() -> None:
    talk = EngineTalk()
    talk.ask({"id": "c", "type": "compact"})
    assert talk.send(CompactionStarted("manual"), CompactionEnded(ok=False, error="no model"))[0]["error"] == "no model"
    talk.ask({"id": "d", "type": "compact"})
    assert kinds(talk.send(Settled())) == ["session_settled", "response compact failed"]


def test_reminders_of_a_list_are_counted_anew_with_each_prompt() -> None:
    talk, left = EngineTalk(), (PlanItem("first"),)
    attempts = []
    for turn, cause in (("p1", "prompt"), ("t1", "engine"), ("t2", "engine"), ("p2", "prompt")):
        talk.send(TurnStarted(cause, turn=turn))  # type: ignore[arg-type]
        said = talk.send(PlanChanged(left, turn=turn), TurnEnded("end", turn=turn), PlanChanged(left))
        attempts.append([frame["attempt"] for frame in said if frame["type"] == "todo_reminder"])
    assert attempts == [[1, 1], [1, 2], [2, 3], [1, 1]]


def test_stream_rules_plans_errors_and_notices_have_their_frames() -> None:
    talk = EngineTalk()
    assert talk.send(RulesMatched((StreamRule("r", "x+", "No x.", "a.py"),))) == [
        {"type": "ttsr_triggered", "rules": [{"name": "r", "path": "a.py", "content": "No x.", "condition": "x+"}]}
    ]
    assert talk.send(PlanChanged((PlanItem("first", "in_progress"),)))[0]["todos"] == [
        {"id": "1", "content": "first", "status": "in_progress"}
    ]
    assert kinds(talk.send(PlanChanged(()))) == ["todo_auto_clear"]
    assert talk.send(PlanChanged((PlanItem("its own"),), agent="a1")) == []
    assert talk.send(ExtensionFailed("a.py", "stop", "boom")) == [
        {"type": "extension_error", "extensionPath": "a.py", "event": "stop", "error": "boom"}
    ]
    assert talk.send(Failed(Failure("bad", "oops", "user")))[0]["error"] == "oops"
    notice = talk.send(Notice("careful", "warning"))[0]
    assert (notice["method"], notice["message"], notice["notifyType"]) == ("notify", "careful", "warning")
    assert EngineTalk("18").send(Notice("careful", "warning")) == [
        {"type": "notice", "level": "warning", "message": "careful"}
    ]


def test_later_hosts_hear_of_settings_and_queues() -> None:
    new, pi, old = EngineTalk("18"), EngineTalk("pi"), EngineTalk()
    settings = (SettingChanged("model", "m"), SettingChanged("name", "n"), SettingChanged("thinking", "low"))
    assert kinds(new.send(*settings)) == ["model_changed", "session_info_update", "thinking_level_changed"]
    for later in (new, pi):
        update = {"type": "queue_update", "steering": ["a"], "followUp": ["b"]}
        assert later.send(QueueChanged((), ("a",), ("b",))) == [update]
    assert old.send(*settings, QueueChanged(("p",))) == []
    assert old.side.lost == {"SettingChanged": 3, "QueueChanged": 1}


def test_18_announces_its_commands_at_the_start() -> None:
    talk = EngineTalk("18")
    assert kinds(talk.send(Ready())) == ["ready"]
    assert talk.commands == [Query("commands", ref="new-1")]
    [frame] = talk.send(Reply("new-1", (CommandCard("help", "Helps"),)))
    assert (frame["type"], [command["name"] for command in frame["commands"]]) == (
        "available_commands_update", ["help"],
    )  # fmt: skip


def test_in_18_a_prompt_that_joins_a_turn_has_its_result_once_it_left_the_queue() -> None:
    talk = EngineTalk("18")
    talk.send(TurnStarted(turn="t"))
    for id in ("a", "b"):
        talk.ask({"id": id, "type": "prompt", "message": id, "streamingBehavior": "steer"})
    talk.send(QueueChanged((), ("a", "b")), QueueChanged((), ("b",)))
    results = [frame for frame in talk.send(TurnEnded("end", turn="t")) if frame["type"] == "prompt_result"]
    assert [(result.get("id"), result["status"]) for result in results] == [(None, "completed"), ("a", "completed")]
    talk.send(QueueChanged(), TurnStarted(turn="u"))
    results = [frame for frame in talk.send(TurnEnded("cancelled", turn="u")) if frame["type"] == "prompt_result"]
    assert [(result.get("id"), result["status"]) for result in results] == [(None, "aborted"), ("b", "aborted")]


def test_a_sign_of_life_is_a_frame_of_its_own() -> None:
    """L3."""
    assert EngineTalk().send(Alive("c1", "Bash"), Alive()) == [
        {"type": "alive", "toolCallId": "c1", "toolName": "Bash"},
        {"type": "alive"},
    ]


# Sub-agents.

CHILD: dict[str, Any] = {"turn": "p1", "agent": "k"}


def sub_agent() -> list[Event]:
    return [
        AgentStarted(call="c1", name="scout", task="look", **CHILD),
        UserMessage("look", "engine", **CHILD),
        *step(text("Two.", **CHILD), **CHILD),
        AgentProgress("half", Usage(1, 2), 1, **CHILD),
        AgentEnded(True, "Two files.", **CHILD),
    ]


def delegating(**options: Any) -> EngineTalk:
    talk = EngineTalk(**options)
    talk.send(*plain(), *step(called("c1", "Task", {}, **T), **T)[:-1], ToolStarted("c1", "Task", **T))
    return talk


def test_a_sub_agent_is_progress_of_its_call_and_has_frames_of_its_own() -> None:
    frames = delegating().send(*sub_agent())
    inside = [kinds([frame["payload"]["event"]])[0] for frame in frames if frame["type"] == "subagent_event"]
    assert inside == [
        "turn_start", "message_start developer", "message_end developer", "message_start assistant", "text_start",
        "text_delta", "text_end", "message_end assistant", "turn_end",
    ]  # fmt: skip
    others = [frame for frame in frames if frame["type"] != "subagent_event"]
    assert kinds(others) == [
        "subagent_lifecycle", "tool_execution_update", "subagent_progress", "tool_execution_update",
        "subagent_lifecycle", "tool_execution_update",
    ]  # fmt: skip
    assert others[0]["payload"] == {
        "id": "k", "status": "started", "toolCallId": "c1", "agent": "scout", "task": "look",
    }  # fmt: skip
    assert others[1]["partialResult"]["content"][0]["text"] == "scout: look"
    assert others[4]["payload"] == {"id": "k", "status": "completed", "summary": "Two files."}
    updates = [frame["payload"]["event"] for frame in frames if frame["type"] == "subagent_event"]
    assert not any("message" in event for event in updates if event["type"] == "message_update")


@pytest.mark.parametrize(("level", "left"), [("off", set()), ("progress", {"subagent_lifecycle", "subagent_progress"})])
def test_a_host_chooses_how_much_it_hears_of_sub_agents(level: str, left: set[str]) -> None:
    talk = delegating()
    answer = talk.receive({"id": "s", "type": "set_subagent_subscription", "level": level})
    assert answer[0]["data"] == {"level": level}
    assert set(kinds(talk.send(*sub_agent()))) == {*left, "tool_execution_update"}
