"""What the host's end does that no general law says."""

from typing import Any

import pytest
from msgspec.structs import replace

from dialects.pair import env
from polylect.dialects.jsonstream.host.codec import HostSide
from polylect.vocab.commands import (
    AddServer,
    Answer,
    Cancel,
    Command,
    Configure,
    Hello,
    Prompt,
    Query,
    Steer,
)
from polylect.vocab.content import Failure, Image, Link, Option, Rule, Server, Text, Usage
from polylect.vocab.events import (
    Alive,
    Ask,
    AskClosed,
    BlockEnded,
    CostChanged,
    Event,
    Failed,
    Notice,
    Ready,
    Reply,
    ReplyEnded,
    ServerChanged,
    SettingChanged,
    Settled,
    StepEnded,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from polylect.wire import jsonl

READY = '{"type":"ready","version":"0.2.0","session_id":"s","capabilities":{"tool_approval":true,"mcp":true}}'
BASH = '{"name":"Bash","category":"exec","args":{"command":"ls"},"description":"Execute: ls"}'
ASKED = (
    READY,
    '{"type":"stream_start","msg_id":"m"}',
    f'{{"type":"tool_request","msg_id":"m","call_id":"c","tool":{BASH}}}',
)
END = '{"type":"stream_end","msg_id":"m","finish_reason":"stop"}'


def receive(side: HostSide, *lines: str, only: tuple[type[Any], ...] = ()) -> list[Event]:
    received = side.receive("".join(f"{line}\n" for line in lines).encode())
    return [event for event in received if not only or isinstance(event, only)]


def host(*lines: str, **options: Any) -> HostSide:
    side = HostSide(env(), **options)
    receive(side, *lines)
    return side


def send(side: HostSide, *commands: Command) -> tuple[list[Event], list[dict[str, Any]]]:
    follows = [event for command in commands for event in side.send(command)]
    return follows, [jsonl.parse(line) for line in side.data_to_send().splitlines()]


# What the engine is and can do. The four rules for a decoder have a file of their own.


def test_a_ready_with_two_capabilities_is_enough() -> None:
    [ready] = receive(host(), READY)
    assert isinstance(ready, Ready)
    assert (ready.session, ready.version, ready.mode) == ("s", "0.2.0", "default")
    assert (ready.abilities.approval, ready.abilities.thinking, ready.abilities.mcp) == (True, False, True)


def test_capabilities_that_nobody_knows_are_kept_as_extras() -> None:
    offered = '{"tool_approval":true,"modes":["default","yolo"],"image_input":"supported","plugins":true}'
    [ready] = receive(host(), f'{{"type":"ready","version":"9","session_id":null,"capabilities":{offered}}}')
    assert isinstance(ready, Ready)
    assert ready.abilities.modes == ("default", "force")
    assert ready.abilities.images is True
    assert ready.abilities.extras == {"plugins": True}


def test_only_what_changed_is_told() -> None:
    offered = '{"tool_approval":true,"mcp":true,"current_mode":"yolo","current_model":"m2"}'
    line = f'{{"type":"config_changed","capabilities":{offered}}}'
    side = host(READY)
    assert receive(side, line) == [SettingChanged("mode", "force"), SettingChanged("model", "m2")]
    assert receive(side, line) == []


# Turns.


def test_an_error_just_before_the_end_is_why_the_turn_ended() -> None:
    fault = '"error":{"code":"engine_error","message":"broke","retryable":false}'
    for error in (f'{{"type":"error","msg_id":"m",{fault}}}', f'{{"type":"error",{fault}}}'):
        for end in ('{"type":"stream_end","msg_id":"m"}', '{"type":"stream_end","msg_id":"m","finish_reason":"error"}'):
            received = receive(host(READY, '{"type":"stream_start","msg_id":"m"}'), error, '{"type":"pong"}', end)
            failed = TurnEnded("error", failure=Failure("engine_error", "broke", "engine"), turn="m")
            assert received == [failed, Settled()]


COST = '{"type":"session_cost","session_id":"s","total_cost_usd":1,"per_turn":[]}'
WORDS = '{"type":"text_delta","msg_id":"m","text":"Hi"}'


def test_a_service_that_failed_was_asked_so_there_was_a_step() -> None:
    error = '{"type":"error","error":{"code":"provider_error","message":"busy","retryable":true}}'
    end = END.replace("stop", "error")
    failed = TurnEnded("error", steps=1, failure=Failure("provider_error", "busy", "provider", True), turn="m")
    broken = [ReplyEnded("error", error="busy", turn="m"), StepEnded(turn="m")]
    start = '{"type":"stream_start","msg_id":"m"}'
    assert receive(host(READY, start), error, end) == [StepStarted(turn="m"), *broken, failed, Settled()]
    reported = receive(host(READY, start), COST, error, end)
    assert reported == [StepStarted(turn="m"), *broken, CostChanged(Usage(cost=1.0)), failed, Settled()]
    reported = receive(host(READY, start), WORDS, error, COST, end)[2:]
    assert reported == [BlockEnded(Text("Hi"), turn="m"), *broken, CostChanged(Usage(cost=1.0)), failed, Settled()]
    call = '"msg_id":"m","call_id":"c","tool_name":"Bash"'
    result = f'{{"type":"tool_result",{call},"status":"success","output":"","output_type":"text"}}'
    reported = receive(host(*ASKED, f'{{"type":"tool_running",{call}}}'), result, error, end)[1:]
    before = [ReplyEnded("calls", turn="m"), StepEnded(turn="m")]
    assert reported == [*before, StepStarted(turn="m"), *broken, replace(failed, steps=2), Settled()]


def test_what_a_turn_cost_is_told_when_its_last_step_is_over() -> None:
    side = host(READY, '{"type":"stream_start","msg_id":"m"}')
    assert receive(side, WORDS, COST, END)[2:] == [
        BlockEnded(Text("Hi"), turn="m"),
        ReplyEnded("end", turn="m"),
        StepEnded(turn="m"),
        CostChanged(Usage(cost=1.0)),
        TurnEnded("end", steps=1, turn="m"),
        Settled(),
    ]
    assert receive(side, COST) == [CostChanged(Usage(cost=1.0))], "some engines tell it after the end"


def test_a_cost_after_which_the_turn_goes_on_is_told_before_what_follows() -> None:
    side = host(READY, '{"type":"stream_start","msg_id":"m"}', WORDS)
    assert receive(side, COST, COST.replace("1,", "2,"), WORDS) == [
        CostChanged(Usage(cost=1.0)),
        CostChanged(Usage(cost=2.0)),
        TextDelta("Hi", turn="m"),
    ]
    receive(side, COST)
    assert CostChanged(Usage(cost=1.0)) in side.receive_eof()


def test_an_error_after_which_the_turn_goes_on_has_ended_nothing() -> None:
    error = '{"type":"error","error":{"code":"tool_error","message":"broke","retryable":true}}'
    side = host(READY, '{"type":"stream_start","msg_id":"m"}')
    assert receive(side, error) == []
    assert receive(side, '{"type":"info","msg_id":"m","message":"going on"}', END) == [
        Failed(Failure("tool_error", "broke", "tool", True)),
        Notice("going on", turn="m"),
        TurnEnded("end", turn="m"),
        Settled(),
    ]


def test_nothing_is_settled_while_a_prompt_waits() -> None:
    side = host(READY)
    send(side, Prompt("m", "hi"), Prompt("n", "and then"))
    start = '{"type":"stream_start","msg_id":"m"}'
    assert receive(side, start, END, only=(Settled,)) == []
    assert receive(side, start.replace('"m"', '"n"'), END.replace('"m"', '"n"'), only=(Settled,)) == [Settled()]


def test_a_refused_prompt_ends_without_having_begun() -> None:
    side = host(READY)
    send(side, Prompt("m", "hi"))
    error = '{"type":"error","msg_id":"m","error":{"code":"config_error","message":"no","retryable":false}}'
    assert receive(side, error, END.replace("stop", "error")) == [
        TurnEnded("error", failure=Failure("config_error", "no", "user"), turn="m")
    ]


def test_a_turn_that_was_stopped_reads_cancelled() -> None:
    for version, end in (("0.1.0", '{"type":"stream_end","msg_id":"m"}'), ("0.2.0", END)):
        side = host(READY, version=version)
        send(side, Prompt("m", "hi"))
        receive(side, '{"type":"stream_start","msg_id":"m"}')
        assert send(side, Cancel(ref="r")) == ([Reply("r")], [{"type": "stop"}])
        assert receive(side, end) == [TurnEnded("cancelled", turn="m"), Settled()]


def test_stop_is_never_said_to_an_idle_engine() -> None:
    assert send(host(READY), Cancel(ref="r")) == ([Reply("r")], [])


def test_when_the_engine_goes_away_everything_ends() -> None:
    side = host(READY)
    send(side, Prompt("m", "hi"), Prompt("later", "ho"))
    receive(side, '{"type":"stream_start","msg_id":"m"}')
    ended = [(event.turn, event.reason) for event in side.receive_eof() if isinstance(event, TurnEnded)]
    assert ended == [("m", "error"), ("later", "error")]


# Prompts.


def test_a_prompt_waits_for_ready_and_for_the_turn_before_it() -> None:
    side = HostSide(env(), version="0.1.0")
    assert send(side, Prompt("a", "one", ref="1"), Prompt("b", "two", ref="2")) == ([Reply("1"), Reply("2")], [])
    assert receive(side, READY, only=(TurnStarted,)) == []
    assert jsonl.parse(side.data_to_send()) == {"type": "message", "msg_id": "a", "input": "one", "content": "one"}
    assert receive(side, '{"type":"stream_start","msg_id":"a"}') == [
        TurnStarted(turn="a"),
        UserMessage("one", turn="a"),
    ]
    assert side.data_to_send() == b""
    receive(side, '{"type":"stream_end","msg_id":"a"}')
    assert jsonl.parse(side.data_to_send()) == {"type": "message", "msg_id": "b", "input": "two", "content": "two"}


def test_without_holding_a_prompt_goes_out_at_once() -> None:
    _, frames = send(HostSide(env(), hold=False), Prompt("a", "one"), Prompt("b", "two"))
    assert [frame["content"] for frame in frames] == ["one", "two"]


def test_a_cancel_ends_what_was_held_back_unless_it_is_to_be_kept() -> None:
    side = host(READY)
    send(side, Prompt("a", "one"), Prompt("b", "two"), Prompt("c", "three"))
    assert send(side, Cancel("prompt", "c", ref="1"))[0] == [Reply("1"), TurnEnded("cancelled", turn="c")]
    assert send(side, Cancel(queued="keep", ref="2")) == ([Reply("2")], [{"type": "stop"}])
    assert send(side, Cancel(ref="3")) == ([Reply("3"), TurnEnded("cancelled", turn="b")], [{"type": "stop"}])


def test_a_steer_becomes_the_next_turn() -> None:
    side = host(READY)
    send(side, Prompt("m", "hi"))
    receive(side, '{"type":"stream_start","msg_id":"m"}')
    assert send(side, Steer("faster", ref="r")) == ([Reply("r")], [])
    receive(side, END)
    [frame] = [jsonl.parse(line) for line in side.data_to_send().splitlines()]
    assert frame == {"type": "message", "msg_id": "steer-id-1", "content": "faster"}
    assert receive(side, '{"type":"stream_start","msg_id":"steer-id-1"}') == [
        TurnStarted(cause="engine", turn="steer-id-1"),
        UserMessage("faster", "steer", turn="steer-id-1"),
    ]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (Hello(ref="r"), "unsaid"),
        (Query("state", ref="r"), "unsaid"),
        (Cancel("shell", ref="r"), "unsaid"),
        (Prompt("m", "hi", ref="r"), "duplicate_turn"),
        (Prompt("n", "hi", busy="refuse", ref="r"), "busy"),
        (Prompt("n", "hi", (Image("image/png", "x"),), ref="r"), "unsaid"),
        (Prompt("n", "hi", query=False, ref="r"), "unsaid"),
        (Prompt("n", "x" * (8 * 1024 * 1024), ref="r"), "too_long"),
        (Configure({"mode": "plan"}, ref="r"), "unsaid"),
        (Configure({"model": "m", "name": "n"}, ref="r"), "unsaid"),
        (Configure({"model": 7}, ref="r"), "unsaid"),
        (AddServer(Server("x", "host"), ref="r"), "unsaid"),
        (Answer("nobody asked", "allow", ref="r"), "unknown_ask"),
        (Answer("c", "allow", args={"command": "ls -l"}, ref="r"), "unsaid"),
    ],
)
def test_l2_what_cannot_be_said_is_refused_with_a_reason(command: Command, code: str) -> None:
    follows, frames = send(host(*ASKED), command)
    assert frames == []
    assert [(event.ref, event.failure and event.failure.code) for event in follows if isinstance(event, Reply)] == [
        ("r", code)
    ]


def test_settings_are_said_in_the_words_of_each_version() -> None:
    settings = Configure({"mode": "force", "model": "m", "thinking": 500})
    config = {"type": "set_config", "model": "m", "thinking": "enabled", "thinking_budget": 500}
    assert send(host(version="0.1.0"), settings)[1] == [{"type": "set_mode", "mode": "yolo"}, config]
    assert send(host(version="0.2.0"), settings)[1] == [{"type": "set_mode", "mode": "force"}, config]
    for mode in ("plan", "dont_ask"):
        sent = send(host(modes=("plan", "dont_ask")), Configure({"mode": mode}))[1]
        assert sent == [{"type": "set_mode", "mode": mode}]
    assert send(host(), Configure({"thinking": False}))[1] == [{"type": "set_config", "thinking": "disabled"}]


def test_a_link_to_a_file_is_a_file() -> None:
    _, frames = send(host(READY), Prompt("m", "hi", (Link("file:///a/b"),)))
    assert frames[0]["files"] == ["/a/b"]


# Calls and asks.


def test_a_request_is_a_call_and_an_ask_and_its_answer_closes_it() -> None:
    side = host(*ASKED[:2])
    requested = receive(side, ASKED[2], only=(ToolCalled, Ask))
    assert requested == [
        ToolCalled("c", "Bash", {"command": "ls"}, "exec", "Execute: ls", turn="m"),
        Ask("c", call="c", name="Bash", args={"command": "ls"}, title="Execute: ls", turn="m"),
    ]
    follows, frames = send(side, Answer("c", "allow", ref="r"))
    assert follows == [Reply("r"), AskClosed("c", "allowed", turn="m")]
    assert frames == [{"type": "tool_approve", "call_id": "c", "scope": "once"}]


@pytest.mark.parametrize(
    ("rule", "scope"),
    [
        (Rule("category", "exec"), "always"),
        (Rule("category", "edit"), "once"),
        (Rule("category", "exec", effect="deny"), "once"),
        (Rule("tool", "Bash"), "once"),
        (Rule("prefix", "ls"), {"always_prefix": {"prefix": "ls"}}),
        (Rule("path", "/p", write=False), {"always_path": {"root": "/p", "write": False}}),
    ],
)
def test_a_scope_is_never_wider_than_what_was_granted(rule: Rule, scope: object) -> None:
    _, frames = send(host(*ASKED), Answer("c", "allow", always=rule))
    assert frames[0]["scope"] == scope


def test_a_call_that_is_heard_of_only_by_its_cancellation_was_denied_by_the_engine() -> None:
    line = '{"type":"tool_cancelled","msg_id":"m","call_id":"c2","reason":"a rule"}'
    denied = ToolFinished("c2", "", "", "denied", reason="a rule", turn="m")
    assert receive(host(*ASKED), line, only=(ToolFinished,)) == [denied]
    side = host(*ASKED)
    send(side, Cancel())
    assert receive(side, line, only=(ToolFinished,)) == [
        ToolFinished("c2", "", "", "cancelled", reason="a rule", turn="m")
    ]


def test_a_denied_call_is_told_from_a_cancelled_one() -> None:
    line = '{"type":"tool_cancelled","msg_id":"m","call_id":"c","reason":"why"}'
    assert receive(host(*ASKED), line, only=(AskClosed, ToolFinished)) == [
        AskClosed("c", "cancelled", turn="m"),
        ToolFinished("c", "Bash", "", "cancelled", reason="why", turn="m"),
    ]
    side = host(*ASKED)
    assert send(side, Answer("c", "deny", reason="why", interrupt=True))[1] == [
        {"type": "tool_deny", "call_id": "c", "reason": "why"},
        {"type": "stop"},
    ]
    assert receive(side, line) == [ToolFinished("c", "Bash", "", "denied", reason="why", turn="m")]


def test_signs_of_life_are_no_text() -> None:
    side = host(*ASKED[:2])
    running = '{"type":"tool_running","msg_id":"m","call_id":"c","tool_name":"Bash"}'
    received = receive(
        side, running, running, '{"type":"thinking","text":"","msg_id":"m"}', only=(ToolStarted, Alive, ThinkingDelta)
    )
    assert received == [ToolStarted("c", "Bash", turn="m"), Alive("c", "Bash", turn="m"), Alive(turn="m")]


def test_a_question_is_answered_by_its_label() -> None:
    args = '{"question":"Which?","options":[{"label":"red","description":"warm"},{"label":"blue"}]}'
    tool = f'{{"name":"AskUserQuestion","category":"info","args":{args},"description":"d"}}'
    side = host(*ASKED[:2])
    [ask] = receive(side, f'{{"type":"tool_request","msg_id":"m","call_id":"q","tool":{tool}}}', only=(Ask,))
    assert isinstance(ask, Ask)
    assert (ask.kind, ask.title, ask.options) == (
        "choice",
        "Which?",
        (Option("red", "red", "warm"), Option("blue", "blue")),
    )
    assert send(side, Answer("q", "allow", value="blue"))[1] == [
        {"type": "tool_approve", "call_id": "q", "scope": "once", "answer": "blue"}
    ]


def test_servers_report_by_name() -> None:
    lines = ('{"type":"mcp_ready","name":"a","tools":["t"]}', '{"type":"mcp_failed","name":"b","reason":"no"}')
    assert receive(host(READY), *lines) == [
        ServerChanged("a", "ready", ("t",)),
        ServerChanged("b", "failed", reason="no"),
    ]


def test_an_answer_on_a_tape_closes_its_ask() -> None:
    side = host(*ASKED)
    assert side.note_sent(b'{"type":"tool_deny","call_id":"c","reason":"no"}\n') == [
        AskClosed("c", "denied", "no", turn="m")
    ]
    assert side.data_to_send() == b""
