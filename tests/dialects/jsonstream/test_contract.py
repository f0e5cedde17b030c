"""The rules for a host's decoder (tests/seeds/test_seed_003.py): four rules, three outcomes, other engines."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.pair import env
from grammar_check import Grammar
from polylect.dialects.base import Env
from polylect.dialects.jsonstream.frames import table as frames
from polylect.dialects.jsonstream.host import undocumented_events
from polylect.dialects.jsonstream.host.codec import HostSide
from polylect.dialects.jsonstream.versions import FLAGS
from polylect.dialects.rate_limit import RateLimit
from polylect.vocab.content import Usage
from polylect.vocab.events import (
    AskClosed,
    BudgetExceeded,
    CostChanged,
    Display,
    Event,
    ExtensionEvent,
    Extra,
    HostCall,
    MalformedEvent,
    Ready,
    Reply,
    RetryStarted,
    ServerChanged,
    SettingChanged,
    Settled,
    TextDelta,
    ToolCalled,
    TurnEnded,
    UnknownEvent,
)

READY = '{"type":"ready","version":"0.2.0","session_id":"s","capabilities":{"tool_approval":true,"mcp":true}}'
START, END = '{"type":"stream_start","msg_id":"m"}', '{"type":"stream_end","msg_id":"m","finish_reason":"stop"}'
MALFORMED = [
    "Loading...",
    "{",
    "[]",
    "7",
    '"pong"',
    "null",
    "{}",
    '{"type":7}',
    '{"type":null}',
    '{"type":""}',
    '{"type":"text_delta"}',
    '{"type":"text_delta","text":7,"msg_id":"m"}',
    '{"type":"tool_request","msg_id":"m","call_id":"c"}',
    '{"type":"error","msg_id":"m"}',
]
UNKNOWN = ["weather", "grant_refused", "Pong", "critical", "a" * 5000]


def host(*lines: str) -> HostSide:
    side = HostSide(env())
    receive(side, *lines)
    return side


def receive(side: HostSide, *lines: str) -> list[Event]:
    return side.receive("".join(f"{line}\n" for line in lines).encode())


# Rules 1 and 2: generic JSON first; known, unknown or malformed.


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line_is_data_and_the_session_goes_on(line: str) -> None:
    side = host(READY, START)
    [event] = receive(side, line)
    assert isinstance(event, MalformedEvent)
    assert event.line == line.encode()
    assert side.outcomes == {"known": 2, "malformed": 1}
    assert TurnEnded("end", steps=1, turn="m") in receive(side, '{"type":"text_delta","text":"x","msg_id":"m"}', END)


@pytest.mark.parametrize("kind", UNKNOWN)
def test_an_unknown_type_is_told_from_a_malformed_line_and_never_logged(kind: str) -> None:
    side = host(READY)
    line = json.dumps({"type": kind, "anything": [1]})
    assert receive(side, line) == [UnknownEvent(kind, line.encode())]
    assert (side.outcomes["unknown"], side.outcomes["malformed"], side.to_log()) == (1, 0, [])


def test_many_unknown_types_in_a_row_stay_quiet() -> None:
    side = host(READY)
    events = receive(side, *[f'{{"type":"later_{number}"}}' for number in range(1000)])
    assert {type(event) for event in events} == {UnknownEvent}
    assert side.to_log() == []


def test_known_types_are_known() -> None:
    side = host(READY)
    assert receive(side, '{"type":"pong"}', '{"type":"budget_exceeded","reason":"r","observed":"2","limit":"1"}') == [
        BudgetExceeded("r", "2", "1")
    ]
    assert side.outcomes == {"known": 3}


def test_malformed_lines_are_logged_a_few_a_minute_and_the_rest_is_counted() -> None:
    clock = [0]
    side = HostSide(Env(now=lambda: clock[0], new_id=lambda: "id"))
    receive(side, *["nonsense"] * 1000)
    logged = side.to_log()
    assert len(logged) == 5
    assert all("nonsense" in line for line in logged)
    assert side.to_log() == []
    clock[0] += 60_000
    receive(side, "{", "{")
    first, second = side.to_log()
    assert first.endswith("(995 like it were passed over)")
    assert "passed over" not in second
    assert side.outcomes["malformed"] == 1002


def test_a_rate_limit_allows_so_many_in_any_span_of_time() -> None:
    clock = [0]
    limit = RateLimit(lambda: clock[0], most=2, span=10)
    results = []
    for clock[0] in (0, 1, 2, 3, 10, 11, 12):
        results.append(limit.acquire())
    assert results == [0, 0, None, None, 2, 0, None]


LINES = st.sampled_from([*MALFORMED, *[json.dumps({"type": kind}) for kind in UNKNOWN], READY, START, END])


@given(lines=st.lists(LINES | st.text().map(lambda text: text.replace("\n", " ")), max_size=30))
def test_a_noisy_mixed_stream_is_grammatical_and_every_line_has_one_outcome(lines: list[str]) -> None:
    side = HostSide(env())
    grammar = Grammar()
    for event in [*receive(side, *lines), *side.receive_eof()]:
        grammar.check(event)
    meant = [line for line in lines if line.removeprefix("\ufeff").strip(" \t\r")]
    assert abs(side.outcomes.total() - len(meant)) <= 1  # a byte order mark counts only at the beginning


# Rule 3: unknown fields on known events.


@pytest.mark.parametrize("line", [READY, START, END, '{"type":"pong"}', '{"type":"info","msg_id":"","message":"x"}'])
def test_fields_that_nobody_knows_are_ignored(line: str) -> None:
    more = line[:-1] + ',"usage_delta_v9":{"a":[1]},"critical":true}'
    one, two = HostSide(env()), HostSide(env())
    assert receive(one, line) == receive(two, more)


# Rule 4: capabilities are advisory.


def examples() -> dict[str, dict[str, Any]]:
    """One frame of every family, with the fewest words it may have."""
    ids = {"msg_id": "m", "call_id": "c"}
    return {
        "provider_circuit_event": {"primary": "p", "state": "open"},
        "budget_exceeded": {"reason": "r", "observed": "2", "limit": "1"},
        "tool_panicked": {**ids, "tool_name": "Bash", "panic_message": "!"},
        "plugin_registration_failed": {"plugin_name": "p", "surface": "tools", "error_kind": "k", "message": "m"},
        "tool_chunk": {**ids, "tool_name": "Bash", "chunk": "x"},
        "sub_agent_event": {"parent_call_id": "c", "agent_name": "a", "inner": {"type": "stream_start", "msg_id": "k"}},
        "session_cost": {"session_id": "s", "total_cost_usd": 0.5, "per_turn": []},
        "approval_required": {"call_id": "c", "resume_token": "t", "reason": "r", "context": "x"},
        "compact_offload": {"msg_id": "m", "reason": "window_pressure", "tokens_freed": 5},
        "trace_event": {"msg_id": "m", "trace": {}},
        "browser_event": {**ids, "op": "open", "summary": "s"},
        "browser_policy_denied": {"msg_id": "m", "url": "u", "reason": "r"},
        "cua_event": {**ids, "op": "click", "summary": "s"},
        "cua_policy_denied": {"msg_id": "m", "op": "click", "reason": "r"},
        "plugin_event": {"plugin_name": "p", "event_type": "t", "payload": {}},
        "evolution_event": {
            "run_id": "r", "generation": 1, "parent_id": "p", "child_id": "c", "mutation_kind": "k", "score": 0.5,
            "retained": True,
        },
    }  # fmt: skip


@pytest.mark.parametrize("kind", examples())
def test_an_event_is_shown_although_its_flag_was_never_told(kind: str) -> None:
    side = host(READY, START)
    events = receive(
        side, json.dumps({"type": kind, **examples()[kind]}), '{"type":"info","msg_id":"m","message":"going on"}'
    )
    assert events[:-1]
    assert not [event for event in events if isinstance(event, UnknownEvent | MalformedEvent)]


def test_every_family_has_its_example() -> None:
    quiet = {"suspend", "approval_resume"}
    assert set(examples()) | quiet == set(frames.EVENTS["0.2.0"]) - set(frames.EVENTS["0.1.0"]) - {"mcp_failed"}


# Version skew.


def test_a_newer_engine_with_flags_fields_and_events_of_its_own_works() -> None:
    side = host()
    offered = '{"tool_approval":true,"modes":["default","plan"],"plugins":true,"telepathy":{"range":9}}'
    [ready] = receive(
        side, f'{{"type":"ready","version":"1.7.0","session_id":null,"contract":{{}},"capabilities":{offered}}}'
    )
    assert isinstance(ready, Ready)
    assert ready.abilities.modes == ("default", "plan")
    assert ready.abilities.extras == {"plugins": True, "telepathy": {"range": 9}, "contract": {}}
    events = receive(
        side,
        START,
        '{"type":"mood","msg_id":"m"}',
        '{"type":"text_delta","text":"Hi","msg_id":"m","tone":"warm"}',
        '{"type":"stream_end","msg_id":"m","finish_reason":"tired","usage":{"input_tokens":9,"output_tokens":9},'
        '"usage_delta":{"input_tokens":1,"output_tokens":2}}',
    )
    assert TextDelta("Hi", turn="m") in events
    assert events[-2:] == [TurnEnded("end", Usage(1, 2), 1, turn="m"), Settled()]


def test_an_older_engine_without_flags_and_words_of_today_works() -> None:
    side = host()
    [ready] = receive(side, '{"type":"ready","version":"0.0.9","capabilities":{}}')
    assert isinstance(ready, Ready)
    assert not ready.abilities.extras
    assert not any(ready.abilities.extras.get(flag) for flag in FLAGS["0.2.0"])
    assert receive(side, START, '{"type":"stream_end","msg_id":"m"}')[-2] == TurnEnded("end", turn="m")


def test_flags_of_any_type_are_no_reason_to_refuse_an_engine() -> None:
    [ready] = receive(host(), '{"type":"ready","version":"1","capabilities":{"plugins":"many","streaming_tools":null}}')
    assert isinstance(ready, Ready)
    assert ready.abilities.extras == {"plugins": "many", "streaming_tools": None}


def test_two_flags_may_be_on_alone() -> None:
    """Turn traces without evolution, and the other way round."""
    for flag in ("structured_traces", "gepa_enabled"):
        [ready] = receive(host(), f'{{"type":"ready","version":"1","capabilities":{{"{flag}":true}}}}')
        assert isinstance(ready, Ready)
        assert ready.abilities.extras == {flag: True}


def test_what_is_inside_another_event_counts_for_nothing_at_the_top() -> None:
    side = host(READY, START)
    inner = '{"type":"config_changed","capabilities":{"current_mode":"force"}}'
    events = receive(side, f'{{"type":"sub_agent_event","parent_call_id":"c","agent_name":"a","inner":{inner}}}')
    assert not [event for event in events if isinstance(event, SettingChanged)]
    receipt = '{"type":"plugin_event","plugin_name":"p","event_type":"t","payload":{"type":"stream_end","msg_id":"m"}}'
    assert [type(event) for event in receive(side, receipt)] == [ExtensionEvent]


# What engines have come to say since.


TOOL = {"name": "Read", "category": "info", "args": {"file_path": "a"}, "description": "Read a"}


@pytest.mark.parametrize(
    ("frame", "meaning"),
    [
        (
            {"type": "call_announced", "msg_id": "m", "call_id": "c", "tool": TOOL},
            ToolCalled("c", "Read", {"file_path": "a"}, "info", "Read a", turn="m"),
        ),
        (
            {"type": "provider_retry", "msg_id": "m", "attempt": 1, "max_retries": 3, "delay_ms": 9, "error": "slow"},
            RetryStarted(1, 3, 9, "slow", turn="m"),
        ),
        ({"type": "provider_retry", "failure": "http_429"}, RetryStarted(0, 0, 0, "http_429", turn="m")),
        ({"type": "execution_policy", "revision": 1}, SettingChanged("execution_policy", {"revision": 1})),
        ({"type": "workspace_policy", "policy": {"a": 1}}, SettingChanged("workspace_policy", {"a": 1})),
        (
            {"type": "render_artifact", "msg_id": "m", "title": "t", "content": "x"},
            Display("artifact", {"title": "t", "content": "x"}, turn="m"),
        ),
        (
            {"type": "host_send_message_request", "call_id": "c", "body": "hi"},
            HostCall("c", "send_message", {"body": "hi"}),
        ),
        (
            {"type": "budget_grant_result", "request_id": "r", "outcome": "granted"},
            Reply("r", {"request_id": "r", "outcome": "granted"}),
        ),
        ({"type": "provider_attempt", "failure": "timeout"}, Extra("provider_attempt", {"failure": "timeout"})),
        ({"type": "workflow_started", "workflow_id": "w"}, Extra("workflow_started", {"workflow_id": "w"})),
    ],
)
def test_later_events_are_understood(frame: dict[str, Any], meaning: Event) -> None:
    assert meaning in receive(host(READY, START), json.dumps(frame))


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"type": "budget_grant_result", "request_id": "r", "outcome": "refused", "refusal_reason": "no"}, "no"),
        ({"type": "mcp_removal_result", "request_id": "r", "name": "x", "outcome": "registry_busy"}, "registry_busy"),
        ({"type": "session_recovery_unavailable", "request_id": "r", "reason": "none"}, "unavailable"),
    ],
)
def test_a_later_refusal_is_a_reply_with_its_reason(frame: dict[str, Any], code: str) -> None:
    [reply] = receive(host(READY), json.dumps(frame))
    assert isinstance(reply, Reply)
    assert (reply.ref, reply.failure and reply.failure.code) == ("r", code)


def test_a_server_that_was_removed_is_gone() -> None:
    frame = {"type": "mcp_removal_result", "request_id": "r", "name": "x", "outcome": "removed", "removed_tools": ["t"]}
    assert receive(host(READY), json.dumps(frame))[1] == ServerChanged("x", "removed", ("t",))


def test_a_later_event_that_makes_no_sense_is_malformed() -> None:
    lines = ('{"type":"call_announced"}', '{"type":"mcp_removal_result","outcome":"removed","removed_tools":7}')
    assert [type(event) for event in receive(host(READY), *lines)] == [MalformedEvent, MalformedEvent]


def test_later_events_are_no_words_of_ours() -> None:
    names = {*frames.EVENTS["0.2.0"]}
    assert not names & {*undocumented_events.HANDLERS, *undocumented_events.EXTRAS}


# Asks and costs, as hosts hear them.


def test_an_approval_is_closed_by_its_echo_if_somebody_else_answered() -> None:
    required = '{"type":"approval_required","call_id":"c","resume_token":"t","reason":"r","context":"x"}'
    side = host(READY, START, required)
    echo = '{"type":"approval_resume","resume_token":"t","approved":false}'
    assert receive(side, echo, echo) == [AskClosed("t", "denied", turn="m")]


@pytest.mark.parametrize("token", ["", "c"])
def test_an_approval_without_a_token_of_its_own_says_nothing_new(token: str) -> None:
    line = f'{{"type":"approval_required","call_id":"c","resume_token":"{token}","reason":"exec","context":"x"}}'
    assert receive(host(READY, START), line) == []


def test_a_cost_between_an_error_and_the_end_does_not_hide_why_the_turn_failed() -> None:
    error = '{"type":"error","error":{"code":"engine_error","message":"broke","retryable":false}}'
    cost = '{"type":"session_cost","session_id":"","total_cost_usd":1,"per_turn":[]}'
    events = receive(host(READY, START), error, cost, END.replace("stop", "error"))
    assert events[0] == CostChanged(Usage(cost=1.0))
    assert isinstance(events[1], TurnEnded)
    assert events[1].failure
    assert events[1].failure.message == "broke"
