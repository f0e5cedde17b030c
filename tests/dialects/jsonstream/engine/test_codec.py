"""What the engine's end does that no general law says. Each test is one short exchange."""

from typing import Any

import pytest

from dialects.pair import env
from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.vocab.commands import (
    AddServer,
    Answer,
    Cancel,
    Command,
    Configure,
    HostReply,
    MalformedCommand,
    Prompt,
    UnknownCommand,
)
from polylect.vocab.content import Abilities, Failure, Image, Option, Rule, Server, Usage
from polylect.vocab.events import (
    Alive,
    Ask,
    AskClosed,
    BudgetExceeded,
    CompactionEnded,
    Event,
    Extra,
    Failed,
    HostCall,
    Notice,
    QueueChanged,
    Reply,
    RetryStarted,
    ServerChanged,
    SettingChanged,
    StepStarted,
    TextDelta,
    ToolCalled,
    ToolCrashed,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from polylect.wire import jsonl

BOTH = pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
NOT_MINE = Failure("late", "too late", "host")


def engine(version: str = "0.2.0", *events: Event) -> EngineSide:
    side = EngineSide(env(), version=version)
    for event in events:
        side.send(event)
    side.data_to_send()
    return side


def receive(side: EngineSide, *lines: str) -> list[Command]:
    return side.receive("".join(f"{line}\n" for line in lines).encode())


def send(side: EngineSide, *events: Event) -> list[dict[str, Any]]:
    for event in events:
        side.send(event)
    return written(side)


def written(side: EngineSide) -> list[dict[str, Any]]:
    return [jsonl.parse(line) for line in side.data_to_send().splitlines()]


# Bad input (I1, I2).


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "Invalid command: invalid JSON: Expecting property name enclosed in double quotes at character 1."),
        (b"[1]", "Invalid command: expected a JSON object."),
        (b"\xff", "Invalid command: invalid UTF-8 at byte 0."),
        (b"{}", 'Invalid command: the object has no "type" that is a string.'),
        (b'{"type":7}', 'Invalid command: the object has no "type" that is a string.'),
        (b'{"type":"stop","type":"ping"}', "Invalid command: the key 'type' appears twice."),
        (b'{"type":"message","content":"x"}', "Invalid message command: the field msg_id is missing"),
        (
            b'{"type":"message","msg_id":7,"content":""}',
            "Invalid message command: msg_id: expected a string, got a whole number",
        ),
        (
            b'{"type":"message","msg_id":"","content":""}',
            "Invalid message command: msg_id: expected a string of length >= 1",
        ),
        (
            b'{"type":"message","msg_id":"a","content":"","files":null}',
            "Invalid message command: files: expected a list",
        ),
        (b'{"type":"set_mode","mode":"auto-edit"}', "Invalid set_mode command: unknown mode 'auto-edit'; modes are"),
        (b'{"type":"tool_approve","call_id":"x"}', "Invalid tool_approve command: no call with the call_id 'x' waits"),
        (
            b'{"type":"approval_resume","resume_token":"x","approved":true}',
            "Invalid approval_resume command: no approval",
        ),
        (b'{"type":"approval_resume","resume_token":"x"}', "Invalid approval_resume command: the field approved"),
        (
            b'{"type":"approval_resume","resume_token":"x","approved":null}',
            "Invalid approval_resume command: approved: expected true or false, got null",
        ),
        (b'{"type":"tool_approve","call_id":"x","scope":null}', "Invalid tool_approve command: scope: expected"),
        (b'{"type":"tool_deny","call_id":"x","reason":null}', "Invalid tool_deny command: reason: expected a string"),
        (b'{"type":"Stop"}', "Unknown command type: Stop. Did you mean stop?"),
        (b'"stop"', "Invalid command: expected a JSON object."),
        (b'{"type":"init_history","text":["a"]}', "Invalid init_history command: text: expected a string"),
        (
            b'{"type":"set_config","thinking_budget":-1}',
            "Invalid set_config command: thinking_budget: expected a whole",
        ),
    ],
)
def test_i2_a_bad_line_is_answered_once_and_the_next_one_counts(line: bytes, message: str) -> None:
    side = engine()
    result = side.receive(line + b'\r\n \n{"type":"stop"}\n')
    refused = UnknownCommand if message.startswith("Unknown") else MalformedCommand
    assert [type(command) for command in result] == [refused, Cancel]
    [answer] = written(side)
    assert answer["type"] == "error"
    assert "msg_id" not in answer
    assert answer["error"]["code"] == "protocol_error"
    assert answer["error"]["message"].startswith(message)
    assert answer["error"]["retryable"] is False


def test_i2_an_unknown_command_is_named_and_the_nearest_one_too() -> None:
    side = engine("0.1.0")
    result = receive(side, '{"type":"foo"}', '{"type":"mesage"}')
    assert result == [UnknownCommand("foo", b'{"type":"foo"}'), UnknownCommand("mesage", b'{"type":"mesage"}')]
    assert [frame["error"]["message"] for frame in written(side)] == [
        "Unknown command type: foo",
        "Unknown command type: mesage. Did you mean message?",
    ]


def test_i1_a_line_that_is_too_long_is_answered_and_skipped() -> None:
    side = EngineSide(env(), max_line=100)
    result = side.receive(b"x" * 500) + side.receive(b'\n{"type":"stop"}')
    assert result == [MalformedCommand(b"x" * 200, "the line is longer than 100 bytes")]
    assert len(written(side)) == 1
    assert side.receive_eof() == [Cancel(ref="id-1")]


@BOTH
def test_a_ping_is_answered_in_the_codec(version: str) -> None:
    side = engine(version)
    assert receive(side, '{"type":"ping"}') == []
    assert side.data_to_send() == b'{"type":"pong"}\n'


# Commands.


@BOTH
@pytest.mark.parametrize("key", ["input", "content"])
def test_a_message_is_read_by_either_name_of_its_text(version: str, key: str) -> None:
    result = receive(engine(version), f'{{"type":"message","msg_id":"m","{key}":"hi","extra":1}}')
    assert result == [Prompt("m", "hi", ref="id-1")]


@BOTH
@pytest.mark.parametrize("word", ["force", "yolo", "dangerously_skip_permissions", "dangerously-skip-permissions"])
def test_a7_every_word_for_force_is_understood(version: str, word: str) -> None:
    assert receive(engine(version), f'{{"type":"set_mode","mode":"{word}"}}') == [
        Configure({"mode": "force"}, ref="id-1")
    ]


def test_an_explicit_null_is_nothing_where_a_value_may_be_left_out() -> None:
    nothing = '"command":null,"args":null,"env":null,"url":null,"headers":null'
    side = engine("0.2.0", *ASKED)
    assert receive(side, '{"type":"set_config","model":null,"thinking":null,"effort":null,"compaction":null}') == [
        Configure({}, ref="id-1")
    ]
    assert receive(side, f'{{"type":"add_mcp_server","name":"x","transport":"stdio",{nothing}}}') == [
        AddServer(Server("x"), ref="id-2")
    ]
    assert receive(side, '{"type":"tool_approve","call_id":"c1","answer":null}') == [
        Answer("ask-secret", "allow", ref="id-3")
    ]


def test_set_config_can_change_the_compaction() -> None:
    assert receive(engine(), '{"type":"set_config","compaction":"Full"}') == [
        Configure({"compaction": "full"}, ref="id-1")
    ]


def test_set_config_names_only_what_was_named() -> None:
    result = receive(
        engine(), '{"type":"set_config","model":"m","thinking":"enabled","thinking_budget":5,"effort":null}'
    )
    assert result == [Configure({"model": "m", "thinking": "enabled", "thinking_budget": 5}, ref="id-1")]


def test_a_server_of_an_unknown_transport_is_refused_by_name() -> None:
    side = engine()
    result = receive(side, '{"type":"add_mcp_server","name":"x","transport":"smoke"}')
    assert [type(command) for command in result] == [MalformedCommand]
    assert [frame["type"] for frame in written(side)] == ["error", "mcp_failed"]
    assert receive(side, '{"type":"add_mcp_server","name":"x","transport":"streamable_http","url":"u"}') == [
        AddServer(Server("x", "http", url="u"), ref="id-2")
    ]


# Answers (A1, A3, A4).


ASKED: tuple[Event, ...] = (
    TurnStarted(turn="m"),
    ToolCalled("c1", "Bash", {"command": "ls"}, "exec", "Execute: ls", turn="m"),
    Ask("ask-secret", call="c1", name="Bash", args={"command": "ls"}, turn="m"),
)


@pytest.mark.parametrize(
    ("scope", "rule"),
    [
        ('"once"', None),
        ('"always"', Rule("category", "exec")),
        ('{"always_prefix":{"prefix":"cargo "}}', Rule("prefix", "cargo ")),
        ('{"always_path":{"root":"/p"}}', Rule("path", "/p", write=False)),
    ],
)
def test_a4_a_scope_becomes_a_standing_rule(scope: str, rule: Rule | None) -> None:
    result = receive(engine("0.2.0", *ASKED), f'{{"type":"tool_approve","call_id":"c1","scope":{scope}}}')
    assert result == [Answer("ask-secret", "allow", always=rule, ref="id-1")]


@pytest.mark.parametrize("scope", ['"forever"', "{}", '{"always_prefix":{"prefix":"a"},"always_path":{"root":"b"}}'])
def test_a1_a_scope_that_is_no_clear_yes_allows_nothing_and_can_be_mended(scope: str) -> None:
    side = engine("0.2.0", *ASKED)
    assert type(receive(side, f'{{"type":"tool_approve","call_id":"c1","scope":{scope}}}')[0]) is MalformedCommand
    assert receive(side, '{"type":"tool_deny","call_id":"c1"}') == [Answer("ask-secret", "deny", ref="id-2")]


DENY, APPROVE = '{"type":"tool_deny","call_id":"c1","reason":"no"}', '{"type":"tool_approve","call_id":"c1"}'


def test_a1_a_second_answer_is_an_error() -> None:
    side = engine("0.1.0", *ASKED)
    result = receive(side, DENY, APPROVE)
    assert [type(command) for command in result] == [Answer, MalformedCommand]
    assert [frame["error"]["code"] for frame in written(side)] == ["protocol_error"]


def test_a1_in_0_2_0_a_late_answer_during_a_turn_is_an_info_because_an_error_would_end_it() -> None:
    side = engine("0.2.0", *ASKED)
    assert [type(command) for command in receive(side, DENY, APPROVE)] == [Answer, MalformedCommand]
    why = "Invalid tool_approve command: no call with the call_id 'c1' waits for an answer"
    assert written(side) == [{"type": "info", "msg_id": "", "message": why}]
    send(side, TurnEnded("end", turn="m"))
    assert [type(command) for command in receive(side, APPROVE)] == [MalformedCommand]
    assert [(frame["type"], frame["error"]["message"]) for frame in written(side)] == [("error", why)]


@pytest.mark.parametrize(("version", "word"), [("0.1.0", "error"), ("0.2.0", "info")])
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"type":"set_config","effort":"max"}', "bad_setting"),
        ('{"type":"message","msg_id":"m","content":"again"}', "duplicate_turn"),
        (APPROVE, "unknown_ask"),
    ],
)
def test_a_refusal_during_a_turn_does_not_look_like_its_end(version: str, word: str, line: str, code: str) -> None:
    side = engine(version, *ASKED)
    [command] = receive(side, line)
    assert [frame["type"] for frame in send(side, Reply(command.ref, failure=Failure(code, "no", "host")))] == [word]


@pytest.mark.parametrize("line", ["{", '{"type":"foo"}', '{"type":"set_mode","mode":"x"}', '{"type":"message"}'])
@BOTH
def test_a_line_that_is_no_command_is_an_error_even_during_a_turn(version: str, line: str) -> None:
    side = engine(version, TurnStarted(turn="m"))
    receive(side, line)
    assert [frame["type"] for frame in written(side)] == ["error"]


def test_an_ask_that_was_closed_takes_no_answer() -> None:
    side = engine("0.1.0", *ASKED, AskClosed("ask-secret", "timeout", turn="m"))
    assert type(receive(side, '{"type":"tool_approve","call_id":"c1"}')[0]) is MalformedCommand


def test_a8_an_ask_whose_call_the_wire_never_saw_is_a_call_of_its_own() -> None:
    side = engine("0.2.0", TurnStarted(turn="m"))
    frames = send(side, Ask("a1", call="child-7", name="Bash", args={"command": "ls"}, agent="k", turn="m"))
    assert [(frame["type"], frame["call_id"]) for frame in frames] == [("tool_request", "child-7")]
    assert [type(command) for command in receive(side, '{"type":"tool_approve","call_id":"child-7"}')] == [Answer]
    frames = send(side, AskClosed("a1", "allowed", agent="k", turn="m"))
    assert [(frame["type"], frame["tool_name"], frame["status"]) for frame in frames] == [
        ("tool_result", "Bash", "success")
    ]


@pytest.mark.parametrize(
    ("ask", "answer", "told"),
    [
        (Ask("a", "choice", options=(Option("1", "red"), Option("2", "blue"))), '"blue"', ("allow", "2")),
        (Ask("a", "choice", options=(Option("1", "red"), Option("2", "blue"))), '"green"', ("allow", "green")),
        (
            Ask("a", "choice", options=(Option("1", "a"), Option("2", "b")), multiple=True),
            '"b, a"',
            ("allow", ["2", "1"]),
        ),
        (Ask("a", "text", default="me"), "null", ("allow", "me")),
        (Ask("a", "confirm"), '"No"', ("deny", False)),
        (Ask("a", "confirm"), "null", ("allow", True)),
    ],
)
def test_a_question_is_asked_as_ask_user_question(ask: Ask, answer: str, told: tuple[str, object]) -> None:
    side = engine()
    [frame] = send(side, ask)
    assert (frame["tool"]["name"], frame["call_id"]) == ("AskUserQuestion", "a")
    [command] = receive(side, f'{{"type":"tool_approve","call_id":"a","answer":{answer}}}')
    assert isinstance(command, Answer)
    assert (command.verdict, command.value) == told


# Replies.


@pytest.mark.parametrize(
    ("version", "error", "end"),
    [
        ("0.1.0", {"msg_id": "m"}, {}),
        ("0.2.0", {"msg_id": "m"}, {"finish_reason": "error"}),
    ],
)
def test_l1_a_refused_prompt_ends_all_the_same(version: str, error: dict[str, str], end: dict[str, str]) -> None:
    side = engine(version)
    [prompt] = receive(side, '{"type":"message","msg_id":"m","content":"hi"}')
    frames = send(side, Reply(prompt.ref, failure=Failure("too_large", "a.png is too large", "user")))
    fault = {"code": "config_error", "message": "a.png is too large", "retryable": False}
    assert frames == [
        {"type": "error", **error, "error": fault},
        {"type": "stream_end", "msg_id": "m", **end, "usage": {"input_tokens": 0, "output_tokens": 0}},
    ]


def test_a_duplicate_prompt_does_not_end_the_first_one() -> None:
    side = engine("0.1.0", TurnStarted(turn="m"))
    [prompt] = receive(side, '{"type":"message","msg_id":"m","input":"hi"}')
    frames = send(side, Reply(prompt.ref, failure=Failure("duplicate_turn", "not finished yet", "host")))
    assert [(frame["type"], frame["msg_id"]) for frame in frames] == [("error", None)]
    assert [frame["type"] for frame in send(side, TextDelta("x", turn="m"), TurnEnded("end", turn="m"))] == [
        "text_delta",
        "stream_end",
    ]


@pytest.mark.parametrize(
    ("version", "code", "words"),
    [
        ("0.1.0", "late_server", ["error"]),
        ("0.2.0", "late_server", ["error", "mcp_failed"]),
        ("0.1.0", "mcp", ["error", "mcp_ready"]),
        ("0.2.0", "mcp", ["error", "mcp_failed"]),
    ],
)
def test_a_server_that_is_refused_is_refused_by_name_and_releases_a_host_that_waits(
    version: str, code: str, words: list[str]
) -> None:
    side = engine(version, TurnStarted(turn="m"))
    [command] = receive(side, '{"type":"add_mcp_server","name":"x","transport":"stdio","command":"node"}')
    frames = send(side, Reply(command.ref, failure=Failure(code, "no", "host")))
    assert [frame["type"] for frame in frames] == words
    assert [frame.get("tools", []) for frame in frames if frame["type"] == "mcp_ready"] in ([], [[]])
    assert all(frame.get("name", "x") == "x" for frame in frames)


@BOTH
def test_what_was_accepted_is_not_said(version: str) -> None:
    side = engine(version)
    [command] = receive(side, '{"type":"set_mode","mode":"default"}')
    assert send(side, Reply(command.ref), Reply("nobody's")) == []


@pytest.mark.parametrize(("version", "error"), [("0.1.0", {"msg_id": None}), ("0.2.0", {})])
def test_a_refused_setting_belongs_to_no_turn(version: str, error: dict[str, None]) -> None:
    side = engine(version)
    [command] = receive(side, '{"type":"set_config","effort":"max"}')
    fault = {"code": "protocol_error", "message": "too late", "retryable": False}
    assert send(side, Reply(command.ref, failure=NOT_MINE)) == [{"type": "error", **error, "error": fault}]


# Events.


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end", "stop"),
        ("cancelled", "stop"),
        ("refused", "stop"),
        ("length", "length"),
        ("limit", "max_turns"),
        ("error", "error"),
    ],
)
def test_how_a_turn_ended_is_said_in_0_2_0_only(reason: Any, finish: str) -> None:
    ended = TurnEnded(reason, Usage(3, 4, cache_read=5), turn="m")
    assert send(engine("0.2.0", TurnStarted(turn="m")), ended)[-1]["finish_reason"] == finish
    assert send(engine("0.1.0", TurnStarted(turn="m")), ended)[-1] == {
        "type": "stream_end",
        "msg_id": "m",
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_tokens": 5},
    }


@BOTH
def test_nothing_carries_the_id_of_a_turn_that_has_ended(version: str) -> None:
    side = engine(version, TurnStarted(turn="m"), ToolStarted("c", "Bash", turn="m"), TurnEnded("end", turn="m"))
    late = [
        TextDelta("x", turn="m"),
        Alive(turn="m"),
        Notice("late", turn="m"),
        ToolFinished("c", "Bash", "x", turn="m"),
        TurnEnded("end", turn="m"),
    ]
    assert {frame["msg_id"] for frame in send(side, *late)} == {""}
    assert side.lost == {"TextDelta": 1, "TurnEnded": 1}


@BOTH
def test_l3_a_sign_of_life_is_nothing_that_a_host_would_show(version: str) -> None:
    side = engine(version, TurnStarted(turn="m"), ToolStarted("c", "Bash", turn="m"))
    assert send(side, Alive("c", "Bash", turn="m"), Alive(turn="m"), Alive("gone", turn="m")) == [
        {"type": "tool_running", "msg_id": "m", "call_id": "c", "tool_name": "Bash"},
        {"type": "thinking", "text": "", "msg_id": "m"},
        {"type": "thinking", "text": "", "msg_id": "m"},
    ]


@pytest.mark.parametrize(("version", "word"), [("0.1.0", "error"), ("0.2.0", "info")])
def test_a_failure_that_ends_nothing_does_not_look_like_the_end_of_a_turn(version: str, word: str) -> None:
    failed = Failed(Failure("x", "oops", "tool"), turn="m")
    assert [frame["type"] for frame in send(engine(version, TurnStarted(turn="m")), failed)] == [word]
    assert [frame["type"] for frame in send(engine(version), failed)] == ["error"]


def test_a_server_that_failed_in_0_1_0_releases_a_host_that_waits() -> None:
    assert send(engine("0.1.0"), ServerChanged("x", "failed", reason="no such file")) == [
        {"type": "info", "msg_id": "", "message": "The MCP server x could not be used: no such file"},
        {"type": "mcp_ready", "name": "x", "tools": []},
    ]


@pytest.mark.parametrize(("version", "modes"), [("0.1.0", "yolo"), ("0.2.0", "force")])
def test_a_changed_setting_tells_all_capabilities(version: str, modes: str) -> None:
    side = engine(version)
    frames = send(
        side,
        SettingChanged("mode", "force"),
        SettingChanged("abilities", Abilities(thinking=True, effort_levels=("low",), images=True)),
        SettingChanged("model", "m2"),
        SettingChanged("title", "x"),
    )
    assert frames[-1] == {
        "type": "config_changed",
        "capabilities": {
            "tool_approval": True,
            **({"image_input": "supported"} if version == "0.1.0" else {}),
            "thinking": True,
            "effort": True,
            "effort_levels": ["low"],
            "modes": ["default", "auto_edit", modes],
            "current_mode": modes,
            "mcp": False,
            "current_model": "m2",
        },
    }
    assert len(frames) == 3
    assert side.lost == {"SettingChanged": 1}


def test_an_image_travels_as_base64() -> None:
    shown = ToolFinished("c", "Read", "a picture", form="image", images=(Image("image/gif", "R0lG"),), turn="m")
    [frame] = send(engine("0.2.0", TurnStarted(turn="m")), shown)
    assert (frame["output"], frame["output_type"], frame["metadata"]) == ("R0lG", "image", {"media_type": "image/gif"})


def test_what_happens_around_a_turn_is_told_in_plain_words() -> None:
    frames = send(
        engine("0.1.0", TurnStarted(turn="m")),
        RetryStarted(1, 2, 500, "overloaded", turn="m"),
        CompactionEnded(before=9, after=3, turn="m"),
        BudgetExceeded("max_tokens_out", "9", "8", turn="m"),
    )
    assert [frame["message"] for frame in frames] == [
        "The model's service did not answer (overloaded), retrying in 0.5 s (1/2)",
        "The conversation was shortened from 9 to 3 tokens.",
        "Budget max_tokens_out exceeded: 9 of 8",
    ]


def test_what_has_no_word_is_counted() -> None:
    side = engine("0.1.0", TurnStarted(turn="m"))
    events = [
        StepStarted(turn="m"),
        TextDelta("x", agent="k", turn="m"),
        ToolOutput("c", "x", turn="m"),
        QueueChanged(),
        ToolCrashed("c", "Bash", "!"),
        Extra("weather"),
    ]
    assert send(side, *events) == []
    assert side.lost == {
        "TextDelta": 1,
        "ToolOutput": 1,
        "QueueChanged": 1,
        "ToolCrashed": 1,
        "Extra weather": 1,
    }


def test_work_that_only_another_host_could_do_is_refused_at_once() -> None:
    side = engine()
    assert side.send(HostCall("h1", "fs/read")) == [
        HostReply("h1", error="a json-stream host cannot be asked for fs/read")
    ]
    assert side.send(Ask("a1", "url", title="Log in")) == [
        Answer("a1", "cancelled", reason="a json-stream host cannot show a url")
    ]
    assert side.lost == {"HostCall": 1, "Ask": 1}
