"""Turns as agents speak them: text, calls, questions, and every way to end."""

from typing import Any

import pytest

from dialects.acp.host.talk import OPTIONS, Talk, agent, opened, permission, shown, update, words
from polylect.vocab import events as e
from polylect.vocab.commands import Answer, Cancel, HostReply, Prompt
from polylect.vocab.content import Failure, Option, Text, Thinking, Usage

T = {"turn": "t1"}
ASK_OPTIONS = tuple(Option(row["optionId"], row["name"], kind=row["kind"]) for row in OPTIONS)


def test_a_session_is_opened_and_a_prompt_is_answered() -> None:
    talk = Talk()
    assert talk.prompt() == []
    talk.answer("initialize", agent())
    assert talk.methods() == ["initialize", "session/new"]
    assert talk.request("session/new")["params"] == {"cwd": "/w", "mcpServers": []}
    events = talk.answer("session/new", {"sessionId": "s-1"})
    assert [type(event) for event in events] == [e.Ready, e.TurnStarted, e.UserMessage]
    assert events[0].session == "s-1"
    assert talk.request("session/prompt")["params"] == {"sessionId": "s-1", "prompt": [words("hi")]}
    talk.update("agent_thought_chunk", content=words("hm"), messageId="m1")
    talk.update("agent_message_chunk", content=words("Hel"), messageId="m1")
    talk.update("agent_message_chunk", content=words("lo"), messageId="m1")
    usage = {"totalTokens": 15, "inputTokens": 10, "outputTokens": 5}
    talk.answer("session/prompt", {"stopReason": "end_turn", "usage": usage})
    assert talk.events[1:] == [
        e.TurnStarted(**T),
        e.UserMessage("hi", **T),
        e.StepStarted(**T),
        e.ThinkingDelta("hm", **T),
        e.BlockEnded(Thinking("hm"), **T),
        e.TextDelta("Hel", **T),
        e.TextDelta("lo", **T),
        e.BlockEnded(Text("Hello"), **T),
        e.ReplyEnded("end", **T),
        e.StepEnded(**T),
        e.TurnEnded("end", Usage(10, 5), 1, **T),
        e.Settled(),
    ]


def test_a_call_is_asked_for_runs_and_finishes() -> None:
    talk = opened()
    talk.prompt()
    call = {"toolCallId": "c1", "title": "Run make", "kind": "execute", "rawInput": {"command": "make"}, "name": "Bash"}
    talk.update("tool_call", **call, status="pending")
    talk.receive(permission("p-4", call))
    before = len(talk.events)
    talk.do(Answer("p-4", "allow", ref="r"))
    assert talk.sent[-1] == {
        "jsonrpc": "2.0",
        "id": "p-4",
        "result": {"outcome": {"outcome": "selected", "optionId": "yes"}},
    }
    talk.update("tool_call_update", toolCallId="c1", status="in_progress")
    talk.update("tool_call_update", toolCallId="c1", content=shown("one"))
    talk.update("tool_call_update", toolCallId="c1", content=shown("one\ntwo"))
    talk.update("tool_call_update", toolCallId="c1", status="completed")
    talk.update("agent_message_chunk", content=words("Done."))
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    called = e.ToolCalled("c1", "Bash", {"command": "make"}, "exec", "Run make", **T)
    ask = e.Ask("p-4", "permission", "c1", "Bash", {"command": "make"}, "exec", "Run make", options=ASK_OPTIONS, **T)
    assert talk.events[before - 2 : before] == [called, ask]
    assert talk.events[before:] == [
        e.Reply("r"),
        e.AskClosed("p-4", "allowed", **T),
        e.ToolStarted("c1", "Bash", **T),
        e.ToolOutput("c1", "one", **T),
        e.ToolOutput("c1", "\ntwo", **T),
        e.ToolFinished("c1", "Bash", "one\ntwo", **T),
        e.ReplyEnded("calls", **T),
        e.StepEnded(**T),
        e.StepStarted(**T),
        e.TextDelta("Done.", **T),
        e.BlockEnded(Text("Done."), **T),
        e.ReplyEnded("end", **T),
        e.StepEnded(**T),
        e.TurnEnded("end", steps=2, **T),
        e.Settled(),
    ]


def test_a_denied_call_is_denied_also_where_the_wire_says_failed() -> None:
    talk = opened()
    talk.prompt()
    call = {"toolCallId": "c1", "title": "Run", "rawInput": {"command": "rm"}}
    talk.receive(permission(7, call))
    talk.do(Answer("7", "deny", reason="no"))
    assert talk.sent[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "no"}}
    assert talk.sent[-1]["id"] == 7
    talk.update("tool_call_update", toolCallId="c1", status="failed", content=shown("rejected"))
    (finished,) = talk.of(e.ToolFinished)
    assert finished == e.ToolFinished("c1", "Run", "rejected", "denied", reason="no", **T)


def test_a_cancel_is_one_notification_and_answers_every_question() -> None:
    """Requirement 37 of docs/acp.md."""
    talk = opened()
    talk.prompt()
    talk.receive(permission("p1", {"toolCallId": "c1", "title": "Run"}))
    talk.do(Cancel(ref="x"))
    talk.do(Cancel(ref="y"))
    assert talk.methods()[3:] == ["session/cancel", "result"]
    assert talk.sent[-1]["result"] == {"outcome": {"outcome": "cancelled"}}
    talk.update("agent_message_chunk", content=words("Stopping."))
    talk.update("tool_call_update", toolCallId="c1", status="failed")
    talk.answer("session/prompt", {"stopReason": "cancelled"})
    assert e.AskClosed("p1", "cancelled", **T) in talk.events
    assert [event.text for event in talk.of(e.TextDelta)] == ["Stopping."]
    assert [event.outcome for event in talk.of(e.ToolFinished)] == ["cancelled"]
    assert [event.reason for event in talk.of(e.TurnEnded)] == ["cancelled"]


def test_an_error_after_a_cancel_is_a_cancelled_turn() -> None:
    talk = opened()
    talk.prompt()
    talk.do(Cancel())
    talk.answer("session/prompt", code=-32603, message="aborted")
    assert [(event.reason, event.failure) for event in talk.of(e.TurnEnded)] == [("cancelled", None)]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", "end"),
        ("max_tokens", "length"),
        ("max_turn_requests", "limit"),
        ("refusal", "refused"),
        ("cancelled", "cancelled"),
        ("sunset", "end"),
    ],
)
def test_each_stop_reason_ends_the_turn_also_an_unknown_one(stop: str, reason: str) -> None:
    """Requirement 46 of docs/acp.md."""
    talk = opened()
    talk.prompt()
    talk.answer("session/prompt", {"stopReason": stop})
    assert [event.reason for event in talk.of(e.TurnEnded)] == [reason]


def test_one_prompt_at_a_time_goes_out() -> None:
    talk = opened()
    talk.prompt("one")
    talk.do(Prompt("t2", "two"))
    assert talk.methods().count("session/prompt") == 1
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert talk.request("session/prompt")["params"]["prompt"] == [words("two")]
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert [event.turn for event in talk.of(e.TurnEnded)] == ["t1", "t2"]
    assert len(talk.of(e.Settled)) == 1


def test_updates_before_the_session_is_open_are_kept_in_order() -> None:
    """Requirement 13 of docs/acp.md."""
    talk = Talk()
    talk.answer("initialize", agent())
    assert talk.update("available_commands_update", availableCommands=[{"name": "init", "description": "x"}]) == []
    assert talk.update("session_info_update", title="A talk") == []
    events = talk.answer("session/new", {"sessionId": "s-1"})
    assert [type(event) for event in events] == [e.Ready, e.SettingChanged, e.SettingChanged]
    assert [event.key for event in events[1:]] == ["commands", "title"]


def test_an_agent_that_goes_away_leaves_nothing_open() -> None:
    talk = opened()
    talk.prompt()
    talk.do(Prompt("t2", "later"))
    talk.update("tool_call", toolCallId="c1", title="Run", rawInput={"a": 1})
    talk.events += talk.host.receive_eof()
    gone = Failure("engine_gone", "the engine went away before the turn ended", "engine")
    assert [(event.turn, event.failure) for event in talk.of(e.TurnEnded)] == [("t1", gone), ("t2", gone)]
    assert [event.outcome for event in talk.of(e.ToolFinished)] == ["cancelled"]


def test_text_after_the_answer_is_a_turn_of_the_agent() -> None:
    """claude speaks when a sub-agent in the background wakes it; nobody says when that ends."""
    talk = opened()
    talk.prompt()
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    events = talk.update("agent_message_chunk", content=words("By the way"))
    assert events == [
        e.TurnStarted("engine", turn="id-1"),
        e.StepStarted(turn="id-1"),
        e.TextDelta("By the way", turn="id-1"),
    ]
    assert talk.update("usage_update", used=5, size=9) == [e.ContextUsed(5, 9)]
    events = talk.prompt("more", "t2")
    assert [type(event) for event in events][-3:] == [e.TurnEnded, e.TurnStarted, e.UserMessage]


def test_updates_of_a_call_that_we_have_closed_are_passed_over() -> None:
    talk = opened()
    talk.prompt()
    talk.update("tool_call", toolCallId="c1", title="Run", status="in_progress")
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert talk.update("tool_call_update", toolCallId="c1", status="completed") == []
    assert [event.outcome for event in talk.of(e.ToolFinished)] == ["cancelled"]


def test_an_unknown_kind_of_update_is_passed_on() -> None:
    talk = opened()
    line = update("weather", mood="sunny")
    (event,) = talk.receive(line)
    assert isinstance(event, e.UnknownEvent)
    assert event.kind == "weather"
    assert b"sunny" in event.raw


@pytest.mark.parametrize("content", [[{"type": "terminal", "terminalId": "x"}], None])
def test_a_command_in_a_terminal_of_the_host_has_its_output(content: list[Any] | None) -> None:
    """goose and kimi name the terminal, and send no output of their own; kimi repeats that at the end."""
    talk = opened(terminal=True)
    talk.prompt()
    talk.update("tool_call", toolCallId="c1", title="shell", rawInput={"command": "make"})
    talk.receive({"id": 1, "method": "terminal/create", "params": {"sessionId": "s-1", "command": "make"}})
    talk.do(HostReply("1", {"terminal": "x"}))
    talk.update("tool_call_update", toolCallId="c1", content=[{"type": "terminal", "terminalId": "x"}])
    where = {"sessionId": "s-1", "terminalId": "x"}
    talk.receive({"id": 2, "method": "terminal/wait_for_exit", "params": where})
    talk.do(HostReply("2", {"exit_code": 2, "signal": None}))
    talk.receive({"id": 3, "method": "terminal/output", "params": where})
    talk.do(HostReply("3", {"output": "made\n", "truncated": False, "running": False, "exit_code": 2}))
    talk.receive({"id": 4, "method": "terminal/release", "params": where})
    talk.do(HostReply("4", {}))
    again = {} if content is None else {"content": content}
    talk.update("tool_call_update", toolCallId="c1", status="completed", **again)
    [finished] = talk.of(e.ToolFinished)
    assert isinstance(finished, e.ToolFinished)
    assert (finished.output, finished.metadata) == ("made\n", {"exit_code": 2})


def test_a_turn_in_which_codex_reports_a_failure_of_the_service_fails() -> None:
    """codex-acp 2.6.0 tells the failure as a text of the model, and ends the turn well."""
    talk = opened()
    talk.prompt()
    talk.update("session_info_update", _meta={"codex": {"threadStatus": {"type": "systemError"}}})
    talk.update("agent_message_chunk", content=words("unexpected status 403 Forbidden: too much"))
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    [ended] = talk.of(e.TurnEnded)
    assert isinstance(ended, e.TurnEnded)
    assert (ended.reason, ended.failure and ended.failure.owner) == ("error", "provider")
    assert ended.failure
    assert ended.failure.message == "unexpected status 403 Forbidden: too much"
    talk.prompt("again", "t2")
    talk.update("session_info_update", _meta={"codex": {"threadStatus": {"type": "active"}}})
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert [event.reason for event in talk.of(e.TurnEnded) if isinstance(event, e.TurnEnded)] == ["error", "end"]
