"""What an engine's frames mean to a host."""

import base64
from typing import Any

import pytest

from dialects.omp.host_talk import (
    IDLE,
    READY,
    START,
    STEP,
    STEP_END,
    Frame,
    Talk,
    answer,
    call,
    reply,
    said,
    text,
    update,
    user,
)
from polylect.vocab.commands import Answer, Hello, HostReply, Prompt
from polylect.vocab.content import Failure, Image, Option, PlanItem, Rule, StreamRule, Text, Thinking, ToolCall, Usage
from polylect.vocab.events import (
    AgentEnded,
    AgentProgress,
    AgentStarted,
    Alive,
    ArgsDelta,
    Ask,
    AskClosed,
    BlockEnded,
    Display,
    Event,
    Extra,
    Failed,
    HostCall,
    HostCallEnded,
    MalformedEvent,
    Notice,
    PlanChanged,
    QueueChanged,
    Ready,
    Reply,
    ReplyEnded,
    RulesMatched,
    SettingChanged,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnStarted,
    UnknownEvent,
    UserMessage,
)
from polylect.wire import jsonl

T: dict[str, Any] = {"turn": "t1"}


def begun(version: str = "13") -> Talk:
    talk = Talk(version)
    talk.send(Prompt("t1", "hi"))
    talk.receive(answer("t1", "prompt"), START, STEP)
    assert talk.sent
    return talk


def running(version: str = "13") -> Talk:
    talk = begun(version)
    talk.receive(*user("hi"))
    return talk


def execution(what: str, **fields: Any) -> Frame:
    return {"type": f"tool_execution_{what}", "toolCallId": "c1", "toolName": "bash", **fields}


def shown(*words: str) -> Frame:
    return {"content": [text(word) for word in words]}


# Messages.


def test_deltas_that_were_missed_come_with_the_end_of_the_block() -> None:
    received = running().receive(update("text_delta", delta="Hel"), update("text_end", content="Hello"))
    assert received == [TextDelta("Hel", **T), TextDelta("lo", **T), BlockEnded(Text("Hello"), **T)]


def test_a_reply_that_came_whole_is_told_whole() -> None:
    received = running().receive(*said(reply({"type": "redactedThinking", "data": "xyz"}, text("Hello"))))
    assert received == [
        BlockEnded(Thinking("", redacted="xyz"), **T),
        TextDelta("Hello", **T),
        BlockEnded(Text("Hello"), **T),
        ReplyEnded("end", Usage(10, 5, 1, 2, 0.25), "m", **T),
    ]


def test_thinking_keeps_the_signature_that_only_the_message_has() -> None:
    signed = reply({"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"})
    end = {**update("thinking_end", content="hm"), "message": signed}
    received = running().receive(update("thinking_delta", delta="hm"), end)
    assert received == [ThinkingDelta("hm", **T), BlockEnded(Thinking("hm", "sig"), **T)]


def test_arguments_are_known_by_the_message_so_far() -> None:
    partial = reply(call("c1", "bash"))
    received = running().receive(
        {**update("toolcall_start"), "message": partial},
        update("toolcall_delta", delta='{"a":'),
        update("toolcall_delta", delta="1}"),
        update("toolcall_end", toolCall=call("c1", "bash", a=1)),
        {"type": "message_end", "message": reply(call("c1", "bash", a=1), stop="toolUse")},
    )
    assert received == [
        ArgsDelta("c1", "bash", '{"a":', **T),
        ArgsDelta("c1", "bash", "1}", **T),
        BlockEnded(ToolCall("c1", "bash", {"a": 1}), **T),
        ToolCalled("c1", "bash", {"a": 1}, **T),
        ReplyEnded("calls", Usage(10, 5, 1, 2, 0.25), "m", **T),
    ]


def test_a_start_without_the_message_so_far_names_its_call_itself() -> None:
    received = running("pi").receive(
        update("toolcall_start", id="c1", toolName="bash"),
        update("toolcall_delta", delta='{"a":1}'),
        update("toolcall_end", toolCall=call("c1", "bash", a=1)),
        only=(ArgsDelta, ToolCalled),
    )
    assert received == [ArgsDelta("c1", "bash", '{"a":1}', **T), ToolCalled("c1", "bash", {"a": 1}, **T)]


def test_slim_frames_have_no_message_and_are_enough() -> None:
    received = running().receive(
        update("toolcall_start"),
        update("toolcall_delta", delta='{"a":1}'),
        update("toolcall_end", toolCall=call("c1", "bash", a=1)),
        only=(ArgsDelta, ToolCalled),
    )
    assert received == [ToolCalled("c1", "bash", {"a": 1}, **T)]


def test_why_a_call_is_made_is_no_argument() -> None:
    received = running().receive(
        update("toolcall_end", toolCall=call("c1", "bash", a=1, _i="to look")), only=ToolCalled
    )
    assert received == [ToolCalled("c1", "bash", {"a": 1}, description="to look", **T)]


def test_documented_updates_that_say_nothing_new_are_passed_over() -> None:
    assert (
        running().receive(*(update(kind) for kind in ("start", "text_start", "thinking_start", "done", "error"))) == []
    )


@pytest.mark.parametrize(
    "message",
    [
        {"role": "developer", "content": "remember"},
        {"role": "custom", "customType": "x", "content": [text("remember")], "display": True},
        {"role": "user", "content": "remember", "synthetic": True},
        {"role": "fileMention", "files": [{"path": "remember"}]},
    ],
)
def test_what_nobody_typed_is_the_engines(message: Frame) -> None:
    assert running().receive(*said(message)) == [UserMessage("remember", "engine", **T)]


def test_a_prompt_comes_back_with_its_pictures() -> None:
    picture = {"type": "image", "data": "R0lG", "mimeType": "image/gif"}
    received = begun().receive({"type": "message_end", "message": {"role": "user", "content": [text("see"), picture]}})
    assert received == [UserMessage("see", "prompt", (Image("image/gif", "R0lG"),), **T), StepStarted(**T)]


def test_the_first_step_begins_when_the_prompt_has_entered_the_context() -> None:
    talk = begun()
    assert talk.receive(*said({"role": "developer", "content": "remember"})) == [UserMessage("remember", "engine", **T)]
    assert talk.receive(*user("hi")) == [UserMessage("hi", **T), StepStarted(**T)]
    assert talk.receive({"type": "message_start", "message": reply()}) == []


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "message_start", "message": reply()},
        {"type": "message_end", "message": reply(text("Hello"))},
        update("text_delta", delta="Hel"),
        execution("start", args={}),
    ],
)
def test_a_step_begins_once_though_no_prompt_is_told(frame: Frame) -> None:
    talk = begun()
    received = talk.receive(frame, STEP_END)
    assert [type(event) for event in received].count(StepStarted) == 1
    assert isinstance(received[0], StepStarted)


def test_a_call_that_was_denied_does_not_start_whatever_the_wire_says() -> None:
    talk = running("18")
    talk.receive({"type": "message_end", "message": reply(call("c1", "bash"), stop="toolUse")})
    requested = {"type": "extension_ui_request", "id": "a1", "method": "select", "toolCallId": "c1"}
    talk.receive({**requested, "title": "Run?", "options": ["Allow once", "Deny"]})
    talk.send(Answer("a1", "deny", reason="no"))
    result = execution("end", isError=True, outcome="denied", reason="no", result=shown("no"))
    [received] = talk.receive(execution("start", args={}), result)
    assert received == ToolFinished("c1", "bash", "no", "denied", reason="no", **T)


def test_the_users_own_shell_says_nothing() -> None:
    assert running().receive(*said({"role": "bashExecution", "command": "ls", "output": "a"})) == []


def test_a_message_between_turns_begins_none() -> None:
    assert Talk().receive(*said({"role": "custom", "content": "a card"})) == [UserMessage("a card", "engine")]


# Calls.


def test_a_call_is_told_by_its_four_marks_and_never_twice() -> None:
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", **shown("ab\n")}
    received = running().receive(
        *said(reply(call("c1", "bash", command="x"), stop="toolUse")),
        execution("start", args={"command": "x"}),
        execution("update", partialResult=shown("a")),
        execution("update", partialResult=shown("ab")),
        execution("update", partialResult=shown("ab")),
        execution("update", partialResult=shown("later")),
        execution("end", result={**shown("ab\n"), "details": {"exit": 0}}, isError=False),
        *said(result),
        only=(ToolCalled, ToolStarted, ToolOutput, Alive, ToolFinished),
    )
    assert received == [
        ToolCalled("c1", "bash", {"command": "x"}, **T),
        ToolStarted("c1", "bash", **T),
        ToolOutput("c1", "a", **T),
        ToolOutput("c1", "b", **T),
        Alive("c1", "bash", **T),
        ToolOutput("c1", "later", replace=True, **T),
        ToolFinished("c1", "bash", "ab\n", metadata={"exit": 0}, **T),
    ]


def test_a_call_that_no_reply_brought_is_called_when_it_starts() -> None:
    received = running().receive(execution("start", args={"command": "x"}, intent="to look"))
    assert received == [
        ToolCalled("c1", "bash", {"command": "x"}, description="to look", **T),
        ToolStarted("c1", "bash", **T),
    ]


def test_a_result_alone_finishes_a_call() -> None:
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": True, **shown("no")}
    received = running().receive(execution("start", args={}), *said(result), only=ToolFinished)
    assert received == [ToolFinished("c1", "bash", "no", "error", **T)]


@pytest.mark.parametrize(
    ("output", "more", "outcome"),
    [
        ("it broke", {}, "error"),
        ("Skipped due to queued user message.", {}, "skipped"),
        ("Tool execution was aborted: Request was aborted", {}, "cancelled"),
        ("no", {"outcome": "denied", "reason": "no"}, "denied"),
    ],
)
def test_how_a_call_ended(output: str, more: Frame, outcome: str) -> None:
    talk = running()
    talk.receive(execution("start", args={}))
    [received] = talk.receive(execution("end", result=shown(output), isError=True, **more))
    assert isinstance(received, ToolFinished)
    assert (received.outcome, received.reason) == (outcome, more.get("reason", ""))


# Dialogs.


def dialog(method: str, **fields: Any) -> Frame:
    return {"type": "extension_ui_request", "id": "d1", "method": method, **fields}


DIALOGS: list[tuple[Frame, Ask]] = [
    (
        dialog("select", title="Which?", options=["red", "blue"], optionDetails=[{"description": "warm"}], timeout=9),
        Ask(
            "d1", "choice", title="Which?", options=(Option("red", "red", "warm"), Option("blue", "blue")), timeout_ms=9
        ),
    ),
    (dialog("confirm", title="Sure?", message="really"), Ask("d1", "confirm", title="Sure?", reason="really")),
    (dialog("input", title="Name", placeholder="a/b"), Ask("d1", "text", title="Name", reason="a/b")),
    (dialog("editor", title="Edit", prefill="old"), Ask("d1", "text", title="Edit", default="old")),
]


@pytest.mark.parametrize(("frame", "ask"), DIALOGS, ids=[frame["method"] for frame, _ in DIALOGS])
def test_a_dialog_is_an_ask(frame: Frame, ask: Ask) -> None:
    assert Talk().receive(frame) == [ask]


@pytest.mark.parametrize(
    ("number", "given", "wire", "how"),
    [
        (0, Answer("d1", "allow", value="blue"), {"value": "blue"}, "answered"),
        (0, Answer("d1", "deny", reason="neither"), {"cancelled": True, "reason": "neither"}, "cancelled"),
        (1, Answer("d1", "allow"), {"confirmed": True}, "answered"),
        (1, Answer("d1", "deny"), {"confirmed": False}, "denied"),
        (1, Answer("d1", "cancelled"), {"cancelled": True}, "cancelled"),
        (2, Answer("d1", "allow", value="x/y"), {"value": "x/y"}, "answered"),
        (3, Answer("d1", "allow", value=""), {"value": ""}, "answered"),
    ],
)
def test_an_answer_closes_its_dialog(number: int, given: Answer, wire: Frame, how: Any) -> None:
    talk = Talk()
    talk.receive(DIALOGS[number][0])
    reason = given.reason
    assert talk.send(given) == [AskClosed("d1", how, reason)]
    assert talk.sent == [{"type": "extension_ui_response", "id": "d1", **wire}]
    [late] = talk.send(Answer("d1", "allow", ref="late"))
    assert isinstance(late, Reply)
    assert late.failure
    assert late.failure.code == "unknown_ask"


PERMISSION = dialog(
    "select", title="Allow bash?", options=["Allow once", "Allow always", "Deny"], toolCallId="c1", toolName="bash",
    args={"command": "ls"},
)  # fmt: skip


RED_OR_BLUE = {"id": "q1", "question": "Which?", "options": [{"label": "red"}, {"label": "blue"}], "multi": True}
WHY = {"id": "q2", "question": "Why?", "options": []}
FORM = dialog("ask", timeout=9, questions=[{**RED_OR_BLUE, "header": "Paint"}, WHY])


def test_each_question_of_a_dialog_is_an_ask_and_all_are_answered_together() -> None:
    talk = Talk("18")
    about: Any = {"options": (Option("red", "red"), Option("blue", "blue")), "multiple": True}
    which = Ask("d1:0", "choice", args={"header": "Paint"}, title="Which?", timeout_ms=9, **about)
    assert talk.receive(FORM) == [which, Ask("d1:1", "text", title="Why?", timeout_ms=9)]
    assert talk.send(Answer("d1:0", "allow", value=["blue", "green"])) == [AskClosed("d1:0", "answered")]
    assert talk.sent == []
    assert talk.send(Answer("d1:1", "allow", value="it is nice")) == [AskClosed("d1:1", "answered")]
    assert talk.sent == [
        {
            "type": "extension_ui_response",
            "id": "d1",
            "answers": [
                {"id": "q1", "selectedOptions": ["blue"], "customInput": "green"},
                {"id": "q2", "customInput": "it is nice"},
            ],
        }
    ]


def test_a_no_to_one_question_and_a_dialog_that_is_taken_back_close_all_of_it() -> None:
    both = [AskClosed("d1:0", "cancelled"), AskClosed("d1:1", "cancelled")]
    talk = Talk("18")
    talk.receive(FORM)
    assert talk.send(Answer("d1:1", "deny")) == both
    assert talk.sent == [{"type": "extension_ui_response", "id": "d1", "cancelled": True}]
    talk.receive(FORM)
    assert talk.receive(dialog("cancel", targetId="d1")) == both


def test_a_dialog_with_one_question_has_its_id() -> None:
    talk = Talk("18")
    [ask] = talk.receive({**FORM, "questions": FORM["questions"][:1]})
    assert isinstance(ask, Ask)
    assert talk.send(Answer(ask.ask, "allow")) == [AskClosed("d1", "answered")]
    assert talk.sent[0]["answers"] == [{"id": "q1", "selectedOptions": ["red"]}]


APPROVAL = dialog("select", title="Allow tool: bash\nCommand: ls", options=["Approve", "Deny"])
"""How omp 18 asks for permission."""


def test_a_permission_of_omp_names_its_call_and_the_call_starts_after_the_answer() -> None:
    talk = running("18")
    talk.receive(*said(reply(call("c1", "bash", command="ls"), stop="toolUse")))
    [ask] = talk.receive(APPROVAL, execution("start", args={"command": "ls"}))
    assert isinstance(ask, Ask)
    assert (ask.kind, ask.call, ask.name, ask.args) == ("permission", "c1", "bash", {"command": "ls"})
    assert talk.send(Answer("d1", "allow")) == [AskClosed("d1", "allowed", **T), ToolStarted("c1", "bash", **T)]
    assert talk.sent[-1]["value"] == "Approve"


def test_a_call_that_omp_was_told_not_to_make_is_denied() -> None:
    talk = running("18")
    talk.receive(*said(reply(call("c1", "bash", command="ls"), stop="toolUse")))
    talk.receive(APPROVAL, execution("start", args={"command": "ls"}))
    assert talk.send(Answer("d1", "deny")) == [AskClosed("d1", "denied", **T)]
    assert talk.sent[-1]["value"] == "Deny"
    [received] = talk.receive(execution("end", isError=True, result=shown("Tool call denied by user: bash")))
    assert received == ToolFinished("c1", "bash", "Tool call denied by user: bash", "denied", **T)


STARTED = execution("start", args={"command": "ls"})


def asking_late() -> Talk:
    """omp 18.3, in whose turn a call was made: it says that a call starts, and then asks for it."""
    talk = Talk("18", ready=False)
    talk.receive({**READY, "supportedProtocolVersions": [1, 2]})
    talk.state(IDLE)
    talk.send(Prompt("t1", "hi"))
    talk.receive(START, STEP, *user("hi"), *said(reply(call("c1", "bash", command="ls"), stop="toolUse")))
    return talk


def test_a_start_that_omp_reports_before_it_asks_follows_the_answer() -> None:
    talk = asking_late()
    [ask] = talk.receive(STARTED, APPROVAL)
    assert isinstance(ask, Ask)
    assert (ask.call, talk.side.due()) == ("c1", None)
    assert talk.send(Answer("d1", "allow")) == [AskClosed("d1", "allowed", **T), ToolStarted("c1", "bash", **T)]


def test_a_denied_call_whose_start_omp_reported_has_not_started() -> None:
    talk = asking_late()
    talk.receive(STARTED, APPROVAL)
    assert talk.send(Answer("d1", "deny")) == [AskClosed("d1", "denied", **T)]
    [finished] = talk.receive(execution("end", isError=True, result=shown("denied")))
    assert finished == ToolFinished("c1", "bash", "denied", "denied", **T)


def test_a_start_for_which_omp_does_not_ask_is_held_for_a_moment_only() -> None:
    talk = asking_late()
    assert talk.receive(STARTED) == []
    assert talk.side.due() == 100
    talk.now = 99
    assert (talk.side.wake(), talk.side.due()) == ([], 1)
    talk.now = 100
    assert talk.side.wake() == [ToolStarted("c1", "bash", **T)]
    assert talk.side.due() is None


def test_a_start_for_which_omp_does_not_ask_comes_before_the_result_at_the_latest() -> None:
    talk = asking_late()
    assert talk.receive(STARTED, execution("end", result=shown("a"))) == [
        ToolStarted("c1", "bash", **T),
        ToolFinished("c1", "bash", "a", **T),
    ]
    assert talk.side.due() is None


@pytest.mark.parametrize(
    ("details", "asked"),
    [
        ("Command: ls", "c1"),
        ("Reason: it is written so\nCommand: ls", "c1"),
        ("Command: ls\nrm -r .", "c2"),
        (f"Command: {'x' * 100}[…900ch elided…]", "c3"),
        ("Command: rm -r .", ""),
        ("Command: l", ""),
        ("", ""),
    ],
)
def test_a_permission_of_omp_is_for_the_call_that_it_shows_and_for_no_other(details: str, asked: str) -> None:
    calls = {"c1": "ls", "c2": "ls\nrm -r .", "c3": "x" * 1000}
    talk = running("18")
    talk.receive(*said(reply(*(call(id, "bash", command=line) for id, line in calls.items()), stop="toolUse")))
    [ask] = talk.receive({**APPROVAL, "title": f"Allow tool: bash\n{details}".strip()})
    assert isinstance(ask, Ask)
    assert (ask.kind, ask.name, ask.call) == ("permission", "bash", asked)
    assert ask.args == ({"command": calls[asked]} if asked else {})


def test_a_permission_of_omp_to_write_shows_a_path_first() -> None:
    talk = running("18")
    talk.receive(*said(reply(call("c1", "write", path="a", content="x"), stop="toolUse")))
    [ask] = talk.receive({**APPROVAL, "title": "Allow tool: write\nPath: a\nContent:\nx"})
    assert isinstance(ask, Ask)
    assert (ask.call, ask.args) == ("c1", {"path": "a", "content": "x"})


@pytest.mark.parametrize(
    ("given", "value", "how"),
    [
        (Answer("d1", "allow"), "Allow once", "allowed"),
        (Answer("d1", "allow", always=Rule("tool", "bash")), "Allow always", "allowed"),
        (Answer("d1", "deny", reason="no"), "Deny", "denied"),
    ],
)
def test_a_permission_is_a_select_that_names_its_call(given: Answer, value: str, how: Any) -> None:
    talk = running()
    talk.receive(*said(reply(call("c1", "bash", command="ls"), stop="toolUse")))
    [ask] = talk.receive(PERMISSION)
    assert isinstance(ask, Ask)
    assert (ask.kind, ask.call, ask.name, ask.args) == ("permission", "c1", "bash", {"command": "ls"})
    assert talk.send(given) == [AskClosed("d1", how, given.reason, **T)]
    assert talk.sent[0]["value"] == value


def test_a_dialog_that_the_engine_closes_is_closed() -> None:
    talk = Talk()
    talk.receive(DIALOGS[1][0])
    received = talk.receive({"type": "extension_ui_request", "id": "x", "method": "cancel", "targetId": "d1"})
    assert received == [AskClosed("d1", "cancelled")]


def test_a_dialog_whose_time_is_up_is_closed_with_the_next_word() -> None:
    talk = Talk()
    talk.receive(dialog("confirm", title="Sure?", timeout=5))
    talk.now = 4
    assert talk.receive({"type": "todo_auto_clear"}) == [PlanChanged(())]
    talk.now = 5
    assert talk.receive({"type": "todo_auto_clear"}) == [AskClosed("d1", "timeout"), PlanChanged(())]


@pytest.mark.parametrize("method", ["notify", "setStatus", "setWidget", "setTitle", "set_editor_text", "open_url"])
def test_what_is_only_shown_is_shown(method: str) -> None:
    assert Talk().receive(dialog(method, message="x", title="y")) == [Display(method, {"message": "x", "title": "y"})]


# Around a turn.


@pytest.mark.parametrize(
    ("frame", "event"),
    [
        (
            {"type": "todo_reminder", "todos": [{"id": "1", "content": "a", "status": "in_progress"}]},
            PlanChanged((PlanItem("a", "in_progress", id="1"),)),
        ),
        ({"type": "queue_update", "steering": ["a"], "followUp": ["b"]}, QueueChanged((), ("a",), ("b",))),
        (
            {"type": "ttsr_triggered", "rules": [{"name": "r", "path": "a", "content": "No x.", "condition": "x+"}]},
            RulesMatched((StreamRule("r", "x+", "No x.", "a"),)),
        ),
        ({"type": "retry_fallback_applied", "from": "a"}, Extra("retry_fallback_applied", {"from": "a"})),
        ({"type": "extension_error", "event": "tool", "error": "x"}, Failed(Failure("tool", "x", "engine"))),
        ({"type": "rpc_frame_error", "error": "too large"}, Failed(Failure("frame", "too large", "engine"))),
        ({"type": "notice", "level": "error", "message": "x"}, Notice("x", "warning")),
        ({"type": "command_output", "text": "x"}, Display("command_output", {"text": "x"})),
        ({"type": "thinking_level_changed", "thinkingLevel": "high"}, SettingChanged("thinking", "high")),
        ({"type": "session_info_update", "title": "A talk", "sessionId": "s"}, SettingChanged("name", "A talk")),
        ({"type": "session_info_changed", "name": "A talk"}, SettingChanged("name", "A talk")),
        ({"type": "config_update", "model": {"id": "m2", "provider": "p"}}, SettingChanged("model", "m2")),
    ],
)
def test_one_frame_one_event(frame: Frame, event: Event) -> None:
    assert Talk("18").receive(frame) == [event]


def test_a_model_that_changed_without_a_name_is_asked_for() -> None:
    talk = Talk("18")
    assert talk.receive({"type": "model_changed"}) == []
    assert [frame["type"] for frame in talk.sent] == ["get_state"]


def test_sub_agents_have_lanes() -> None:
    talk = running("18")
    talk.receive(*said(reply(call("c1", "task"), stop="toolUse")), execution("start", args={}))
    started = {"id": "k", "agent": "scout", "status": "started", "parentToolCallId": "c1", "description": "look"}
    result = {"id": "k", "event": {"type": "turn_start"}}
    spoken = {"id": "k", "event": {"type": "message_end", "message": reply(text("Found"))}}
    progress = {"progress": {"id": "k", "lastIntent": "half", "toolCount": 2}}
    ended = {"id": "k", "agent": "scout", "status": "completed"}
    received = talk.receive(
        {"type": "subagent_lifecycle", "payload": started},
        {"type": "subagent_event", "payload": result},
        {"type": "subagent_event", "payload": spoken},
        {"type": "subagent_progress", "payload": progress},
        {"type": "subagent_lifecycle", "payload": ended},
        only=(AgentStarted, AgentProgress, AgentEnded, TextDelta),
    )
    place: dict[str, Any] = {"turn": "t1", "agent": "k"}
    assert received == [
        AgentStarted(call="c1", name="scout", task="look", **place),
        TextDelta("Found", **place),
        AgentProgress("half", calls=2, **place),
        AgentEnded(**place),
    ]


# Host calls.


def test_a_tool_of_the_hosts_is_called_and_answered() -> None:
    talk = running("18")
    talk.send(Hello(offers={"tools": [{"name": "look", "description": "d", "parameters": {}}]}, ref="r"))
    assert [frame["type"] for frame in talk.sent] == ["set_host_tools"]
    requested = {"type": "host_tool_call", "id": "h1", "toolCallId": "c1", "toolName": "look", "arguments": {"a": 1}}
    assert talk.receive(requested) == [HostCall("h1", "tool", {"name": "look", "args": {"a": 1}, "call": "c1"}, **T)]
    assert talk.send(HostReply("h1", "half", partial=True, ref="r1")) == [Reply("r1")]
    assert talk.send(HostReply("h1", {"content": [text("done")]}, ref="r2")) == [Reply("r2")]
    assert talk.sent == [
        {"type": "host_tool_update", "id": "h1", "partialResult": shown("half")},
        {"type": "host_tool_result", "id": "h1", "result": shown("done")},
    ]
    [gone] = talk.send(HostReply("h1", "again", ref="r3"))
    assert isinstance(gone, Reply)
    assert gone.failure


def test_a_host_call_that_is_given_up_has_ended() -> None:
    talk = Talk("18")
    talk.receive({"type": "host_uri_request", "id": "h1", "operation": "read", "url": "db://a"})
    assert talk.receive({"type": "host_uri_cancel", "id": "x", "targetId": "h1"}) == [HostCallEnded("h1")]


# The four rules for a decoder (tests/seeds/test_seed_003.py), and pieces.


def test_unknown_frames_are_passed_on_and_unknown_fields_are_ignored() -> None:
    talk = Talk()
    weather = {"type": "weather", "sky": "blue"}
    assert talk.receive(weather) == [UnknownEvent("weather", jsonl.dump(weather).strip())]
    assert talk.receive({**START, "mood": "good"}, only=TurnStarted) != []
    assert talk.side.outcomes["unknown"] == 1


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b"nothing", b'{"type":7}', b'{"a":1}', b'{"type":"message_end","message":[]}', b'{"type":"\xff"}'],
)
def test_a_malformed_line_is_counted_logged_and_survived(line: bytes) -> None:
    talk = Talk()
    [received] = talk.side.receive(line + b"\n")
    assert isinstance(received, MalformedEvent)
    assert received.line == line
    assert talk.side.outcomes["malformed"] == 1
    assert len(talk.side.to_log()) == 1
    assert talk.receive(START) != []


def test_only_some_malformed_lines_are_logged() -> None:
    talk = Talk()
    talk.side.receive(b"{\n" * 100)
    assert len(talk.side.to_log()) == 5
    assert talk.side.outcomes["malformed"] == 100


def pieces(frame: Frame, size: int = 20) -> list[Frame]:
    whole = jsonl.dump(frame).strip()
    parts = [whole[start : start + size] for start in range(0, len(whole), size)]
    chunk = {"type": "rpc_chunk", "chunkId": "k", "count": len(parts), "byteLength": len(whole)}
    return [{**chunk, "index": n, "data": base64.b64encode(part).decode()} for n, part in enumerate(parts)]


def test_a_frame_in_pieces_is_one_frame() -> None:
    talk = Talk("18", ready=False)
    assert talk.receive(*pieces({**READY, "padding": "x" * 100})) == [Ready()]


def test_pieces_that_do_not_fit_are_malformed() -> None:
    first, *rest = pieces({**READY, "padding": "x" * 100})
    for wrong in ([first, *rest[1:]], [*rest], [first, {**rest[0], "data": "%"}], [first, {"type": "x"}, *rest]):
        received = Talk("18").receive(*wrong, only=(MalformedEvent, Ready))
        assert received
        assert all(isinstance(event, MalformedEvent) for event in received)
