"""What is said only if a capability is on: by its flag, in the bytes of the wire, and understood at the other end."""

import json
from typing import Any

import pytest

from dialects.pair import Pair, env
from polylect.dialects.jsonstream import asks as asks_format
from polylect.dialects.jsonstream.dialect import DIALECT
from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.dialects.jsonstream.engine.output_lines import OutputLines
from polylect.dialects.jsonstream.ready import capabilities, ready_line
from polylect.dialects.jsonstream.versions import FAMILIES, FLAGS
from polylect.vocab.commands import Answer, MalformedCommand, Prompt
from polylect.vocab.content import Abilities, CallRecord, Failure, Usage
from polylect.vocab.events import (
    AgentEnded,
    AgentStarted,
    Ask,
    AskClosed,
    CircuitChanged,
    CompactionEnded,
    CompactionStarted,
    ContextUsed,
    CostChanged,
    Event,
    ExtensionEvent,
    ExtensionRejected,
    Extra,
    Notice,
    Ready,
    Reply,
    SettingChanged,
    StepTraced,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolCrashed,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

BASELINE = (
    b'{"type":"ready","version":"0.2.0","session_id":"s","capabilities":{"tool_approval":true,"thinking":false,'
    b'"effort":false,"effort_levels":[],"modes":["default","auto_edit","force"],"current_mode":"default","mcp":false'
)
BASH = {"command": "ls"}
CALLED = ToolCalled("c", "Bash", BASH, "exec", "Execute: ls", turn="m")
ROW = {"turn": 0, "model": "m", "provider": "p", "cost_usd": 0.5}


def engine(*flags: str, version: str = "0.2.0") -> EngineSide:
    side = EngineSide(env(), version=version)
    extras = dict.fromkeys(flags, True)
    for event in (Ready(session="s", abilities=Abilities(extras=extras)), TurnStarted(turn="m")):
        side.send(event)
    side.data_to_send()
    return side


def send(side: EngineSide, *events: Event) -> list[str]:
    for event in events:
        assert side.send(event) == []
    return side.data_to_send().decode().splitlines()


# Flags.


def test_with_every_flag_off_ready_has_the_bytes_of_the_baseline() -> None:
    side = EngineSide(env())
    side.send(Ready(session="s", abilities=Abilities(extras=dict.fromkeys(FLAGS["0.2.0"], False))))
    assert side.data_to_send() == ready_line("0.2.0", "s") == BASELINE + b"}}\n"


@pytest.mark.parametrize("flag", FLAGS["0.2.0"])
def test_each_flag_alone_is_told_under_its_name_after_the_seven(flag: str) -> None:
    value: object = "local" if flag == "user_model_backend" else True
    side = EngineSide(env())
    side.send(Ready(session="s", abilities=Abilities(extras={flag: value})))
    expected = BASELINE + f',"{flag}":{json.dumps(value)}}}}}\n'.encode()
    assert side.data_to_send() == ready_line("0.2.0", "s", capabilities("0.2.0", extras={flag: value})) == expected


def test_flags_are_told_in_the_order_of_the_wire_and_strange_ones_not_at_all() -> None:
    extras: dict[str, object] = {"telepathy": True, "plugins": True, "streaming_tools": True}
    assert (
        ready_line("0.2.0", "s", capabilities("0.2.0", extras=extras))
        == BASELINE + b',"streaming_tools":true,"plugins":true}}\n'
    )


def test_a_flag_of_another_type_that_an_engine_behind_us_told_is_on_or_left_out() -> None:
    extras: dict[str, object] = {"plugins": "many", "user_model_backend": True}
    assert ready_line("0.2.0", "s", capabilities("0.2.0", extras=extras)) == BASELINE + b',"plugins":true}}\n'


def test_0_1_0_has_no_flags() -> None:
    assert ready_line("0.1.0", "s", capabilities("0.1.0", extras={"plugins": True})) == ready_line("0.1.0", "s")


def test_a_change_of_settings_tells_the_flags_again_and_one_that_went_off_is_gone() -> None:
    side = engine("plugins")
    assert '"plugins":true' in send(side, SettingChanged("mode", "force"))[0]
    assert "plugins" not in send(side, SettingChanged("abilities", Abilities()))[0]


def test_flags_of_an_early_ready_count() -> None:
    side = EngineSide(env())
    side.note_sent(ready_line("0.2.0", "s", capabilities("0.2.0", extras={"streaming_tools": True})))
    send(side, TurnStarted(turn="m"), ToolStarted("c", "Bash", turn="m"))
    assert len(send(side, ToolOutput("c", "x\n", turn="m"))) == 1


# Every family: off and on.

CALLS = (CallRecord("c", "Bash", {"command": "ls"}, "no", "error", 0, 5_000_000),)
TRACE = StepTraced(1, "p", "m", "end", Usage(6, 1, 4, 0, 0.5), CALLS, 0, 9_000_000, turn="m")
TRACED = (
    '{"cache_hit_rate":0.4,"cache_read":4,"cache_write":0,"cost_priced":true,"cost_usd":0.5,"duration_ms":9,'
    '"hook_actions":[],"input_tokens":6,"model":"m","output_tokens":1,"provider":"p","source_product":"polylect",'
    '"tool_calls":[{"bytes_in":16,"bytes_out":2,"call_id":"c","duration_ms":5,"error":"no","input":{"command":"ls"},'
    '"output_summary":"no","source_product":"polylect","tool_name":"Bash"}],"turn":1}'
)
IDS = {"call_id": "c"}
FAMILY: list[tuple[Event, str]] = [
    (
        ToolOutput("c", "a line\n", turn="m"),
        '{"type":"tool_chunk","msg_id":"m","call_id":"c","tool_name":"Bash","chunk":"a line"}',
    ),
    (
        CostChanged(Usage(cost=5.0), (ROW, {**ROW, "turn": 1, "cost_usd": 1e-06})),
        '{"type":"session_cost","session_id":"s","total_cost_usd":5.0,"per_turn":['
        '{"turn":0,"model":"m","provider":"p","cost_usd":0.5},{"turn":1,"model":"m","provider":"p","cost_usd":1e-6}]}',
    ),
    (
        CostChanged(Usage(cost=0.0), session="other"),
        '{"type":"session_cost","session_id":"other","total_cost_usd":0.0,"per_turn":[]}',
    ),
    (TRACE, f'{{"type":"trace_event","msg_id":"m","trace":{TRACED}}}'),
    (
        Extra("compact_offload", {"reason": "window_pressure", "tokens_freed": 9}, turn="m"),
        '{"type":"compact_offload","msg_id":"m","reason":"window_pressure","tokens_freed":9}',
    ),
    (
        Extra("browser_event", {**IDS, "op": "open", "summary": "s", "url": "u"}, turn="m"),
        '{"type":"browser_event","msg_id":"m","call_id":"c","op":"open","url":"u","summary":"s"}',
    ),
    (
        Extra("browser_policy_denied", {"url": "u", "reason": "r"}, turn="m"),
        '{"type":"browser_policy_denied","msg_id":"m","url":"u","reason":"r"}',
    ),
    (
        Extra("cua_event", {**IDS, "op": "click", "coords": [-1, 2], "summary": "s"}, turn="m"),
        '{"type":"cua_event","msg_id":"m","call_id":"c","op":"click","coords":[-1,2],"summary":"s"}',
    ),
    (
        Extra("cua_policy_denied", {"op": "click", "app": "", "reason": "r"}, turn="m"),
        '{"type":"cua_policy_denied","msg_id":"m","op":"click","reason":"r"}',
    ),
    (
        ExtensionEvent("p", "t", {"b": 1, "a": 2}),
        '{"type":"plugin_event","plugin_name":"p","event_type":"t","payload":{"a":2,"b":1}}',
    ),
    (
        Extra("evolution_event", {
            "run_id": "r", "generation": 3, "parent_id": "p", "child_id": "k", "mutation_kind": "swap", "score": 1,
            "retained": False,
        }),
        '{"type":"evolution_event","run_id":"r","generation":3,"parent_id":"p","child_id":"k","mutation_kind":"swap",'
        '"score":1.0,"retained":false}',
    ),
]  # fmt: skip
every_family = pytest.mark.parametrize(("event", "line"), FAMILY, ids=[line.split('"')[3] for _, line in FAMILY])


@every_family
def test_a_family_is_said_while_its_flag_is_on(event: Event, line: str) -> None:
    for flag in FAMILIES[json.loads(line)["type"]]:
        side = engine(flag)
        send(side, CALLED, ToolStarted("c", "Bash", turn="m"))
        assert send(side, event) == [line]


@every_family
def test_a_family_is_counted_as_lost_while_its_flag_is_off(event: Event, line: str) -> None:
    others = [flag for flag in FLAGS["0.2.0"] if flag not in FAMILIES[json.loads(line)["type"]]]
    for side in (engine(*others), engine(*FLAGS["0.2.0"], version="0.1.0")):
        send(side, CALLED, ToolStarted("c", "Bash", turn="m"))
        assert send(side, event) == []
        assert side.lost.total() == 1


@every_family
def test_a_family_arrives_as_it_was_meant(event: Event, line: str) -> None:
    pair = Pair(DIALECT, "0.2.0")
    pair.send(Ready(session="s", abilities=Abilities(extras=dict.fromkeys(FLAGS["0.2.0"], True))))
    pair.ask(Prompt("m", "go"))
    for before in (TurnStarted(turn="m"), CALLED, ToolStarted("c", "Bash", turn="m")):
        pair.send(before)
    count = len(pair.received)
    pair.send(event)
    [received] = pair.received[count:]
    assert type(received) is type(event)
    second = engine(*FLAGS["0.2.0"])
    send(second, CALLED, ToolStarted("c", "Bash", turn="m"))
    again = send(second, received)[0]
    assert again == line.replace('"other"', '"s"')


def test_always_on_events_need_no_flag() -> None:
    rejected, circuit = ExtensionRejected("p", "tools", "clash", "taken"), CircuitChanged("a", "open", "b")
    assert send(engine(), rejected, circuit, ToolCrashed("c", "Bash", "!", turn="m")) == [
        '{"type":"plugin_registration_failed","plugin_name":"p","surface":"tools","error_kind":"clash","message":"taken"}',
        '{"type":"provider_circuit_event","primary":"a","fallback":"b","state":"open"}',
        '{"type":"tool_panicked","msg_id":"m","call_id":"c","tool_name":"Bash","panic_message":"!"}',
    ]


@pytest.mark.parametrize(
    "event",
    [
        Extra("browser_event", {"op": "open"}, turn="m"),
        Extra("weather", turn="m"),
        CostChanged(Usage(1, 2)),
        CostChanged(Usage(cost=1.0), ({"turn": "first"},)),
    ],
)
def test_what_lacks_something_is_lost_rather_than_wrong(event: Event) -> None:
    side = engine(*FLAGS["0.2.0"])
    assert send(side, event) == []
    assert side.lost.total() == 1


def test_t6_a_row_without_a_price_is_not_free() -> None:
    row = {"turn": 1, "model": "new", "provider": "p"}
    [line] = send(engine("cost_attribution"), CostChanged(Usage(cost=1.0), (row,)))
    assert '{"turn":1,"model":"new","provider":"p","cost_usd":0.0,"priced":false}' in line


def test_t6_what_is_known_of_a_price_is_told_beside_what_is_not() -> None:
    row = {"turn": 1, "model": "new", "provider": "p"}
    [line] = send(engine("cost_attribution"), CostChanged(Usage(7, 7), ({**row, "cost_usd": 1.5}, {**row, "turn": 2})))
    assert '"total_cost_usd":1.5' in line


def test_nothing_carries_the_id_of_a_turn_that_has_ended() -> None:
    side = engine(*FLAGS["0.2.0"])
    send(side, TurnEnded("end", turn="m"))
    assert send(side, TRACE) == [f'{{"type":"trace_event","msg_id":"","trace":{TRACED}}}']


# tool_chunk


def test_output_is_cut_into_lines_and_the_rest_comes_before_the_result() -> None:
    side = engine("streaming_tools")
    send(side, CALLED, ToolStarted("c", "Bash", turn="m"))
    chunks = []
    for text in ("one\ntw", "o\n\nthr", "ee"):
        chunks += [json.loads(line)["chunk"] for line in send(side, ToolOutput("c", text, turn="m"))]
    assert chunks == ["one", "two", ""]
    last, result = [json.loads(line) for line in send(side, ToolFinished("c", "Bash", "all", turn="m"))]
    assert (last["type"], last["chunk"], result["type"]) == ("tool_chunk", "three", "tool_result")
    assert send(side, ToolOutput("c", "late\n", turn="m")) == []
    assert side.lost == {"ToolOutput": 1}


def test_output_in_the_place_of_earlier_output_forgets_an_unfinished_line() -> None:
    lines = OutputLines()
    assert lines.add("c", "10%", replace=False) == []
    assert lines.add("c", "20%\n", replace=True) == ["20%"]
    assert lines.end("c") == []


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    lines = OutputLines()
    said = [line for _ in range(100) for line in lines.add("c", "x" * 10_000, replace=False)]
    assert sum(map(len, said)) + sum(map(len, lines.end("c"))) == 1_000_000
    assert max(map(len, said)) < 100_000


# compact_offload


def test_a_shortened_conversation_is_an_event_if_the_host_is_told_so() -> None:
    events = [
        ContextUsed(900, 1000, turn="m"),
        CompactionStarted("overflow", turn="m"),
        CompactionEnded(before=900, after=300, turn="m"),
    ]
    assert send(engine("non_destructive_compact"), *events) == [
        '{"type":"compact_offload","msg_id":"m","reason":"window_pressure","tokens_freed":600,"active_window_percent":30}'
    ]
    assert [json.loads(line)["type"] for line in send(engine(), *events)] == ["info"]


def test_a_conversation_that_could_not_be_shortened_is_an_info() -> None:
    failed = CompactionEnded(ok=False, error="no room", turn="m")
    assert [json.loads(line)["type"] for line in send(engine("non_destructive_compact"), failed)] == ["info"]


# hitl_suspend

STEP = Ask("ask-9", call="c", name="Bash", args=BASH, title="Script step 2", reason="step 2 is gated", turn="m")
REQUIRED = (
    '{"type":"approval_required","call_id":"c","resume_token":"ask-9","reason":"step 2 is gated",'
    '"context":"Script step 2\\nBash {\\"command\\":\\"ls\\"}"}'
)
SUSPEND = '{"type":"suspend","reason":"awaiting_approval","resume_token":"ask-9"}'


def suspended() -> EngineSide:
    side = engine("hitl_suspend")
    send(side, CALLED, ToolStarted("c", "Bash", turn="m"))
    assert send(side, STEP) == [REQUIRED, SUSPEND]
    return side


def resume(side: EngineSide, approved: str, token: str = "ask-9", more: str = "") -> list[Any]:
    return side.receive(f'{{"type":"approval_resume","resume_token":"{token}","approved":{approved}{more}}}\n'.encode())


def test_a_running_call_that_needs_a_yes_suspends_the_turn() -> None:
    side = suspended()
    assert resume(side, "true") == [Answer("ask-9", "allow", ref="id-1")]
    assert send(side, AskClosed("ask-9", "allowed", turn="m")) == [
        '{"type":"approval_resume","resume_token":"ask-9","approved":true}'
    ]


def test_whoever_is_asked_sees_all_of_what_would_run_or_that_it_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "make release && " + "true && " * 40 + "rm -rf /"
    ask = Ask("a", call="c", name="Bash", args={"command": command}, title=f"Execute: {command[:80]}", turn="m")
    shown = asks_format.approval_required(ask).context
    assert shown == f'{ask.title}\nBash {{"command":"{command}"}}'
    monkeypatch.setattr(asks_format, "MOST_CONTEXT", 50)
    assert asks_format.approval_required(ask).context.endswith("… [cut: 313 more characters are not shown]")


def test_modifications_are_other_arguments() -> None:
    assert resume(suspended(), "true", more=',"modifications":{"command":"ls -l"}') == [
        Answer("ask-9", "allow", args={"command": "ls -l"}, ref="id-1")
    ]
    assert resume(suspended(), "false", more=',"modifications":null') == [Answer("ask-9", "deny", ref="id-1")]


def test_a1_modifications_that_make_no_sense_allow_nothing_and_can_be_mended() -> None:
    side = suspended()
    assert [type(command) for command in resume(side, "true", more=',"modifications":[1]')] == [MalformedCommand]
    assert len(resume(side, "true")) == 1


@pytest.mark.parametrize("token", ["ask-9", "c", "", "nobody"])
def test_a6_a_token_counts_once_and_no_other_will_do(token: str) -> None:
    side = suspended()
    if token == "ask-9":
        resume(side, "true")
    assert [type(command) for command in resume(side, "true", token)] == [MalformedCommand]
    assert [json.loads(line)["type"] for line in side.data_to_send().splitlines()] == ["info"]


@pytest.mark.parametrize("approved", ["true", "false"])
def test_a_token_from_before_a_restart_is_for_the_engine_to_judge(approved: str) -> None:
    side = engine("hitl_suspend")
    send(side, TurnEnded("end", turn="m"))
    verdict = "allow" if approved == "true" else "deny"
    assert resume(side, approved, "ask-old") == [Answer("ask-old", verdict, ref="id-1")]
    assert send(side, Reply("id-1")) == [f'{{"type":"approval_resume","resume_token":"ask-old","approved":{approved}}}']


def test_a6_a_token_that_the_engine_does_not_know_is_refused_like_any_other() -> None:
    side = engine("hitl_suspend")
    send(side, TurnEnded("end", turn="m"))
    resume(side, "true", "nobody")
    [line] = send(side, Reply("id-1", failure=Failure("unknown_ask", "nothing is waiting", "host")))
    message = "Invalid approval_resume command: no approval waits for this resume_token"
    assert json.loads(line)["error"]["message"] == message


def test_a_timeout_or_a_stop_is_echoed_as_a_no() -> None:
    assert send(suspended(), AskClosed("ask-9", "timeout", turn="m")) == [
        '{"type":"approval_resume","resume_token":"ask-9","approved":false}'
    ]


def test_without_the_flag_the_same_ask_is_a_tool_request() -> None:
    side = engine()
    send(side, CALLED, ToolStarted("c", "Bash", turn="m"))
    assert [json.loads(line)["type"] for line in send(side, STEP)] == ["tool_request"]


def test_a_call_that_has_not_begun_is_asked_for_by_a_tool_request_whatever_the_flag() -> None:
    side = engine("hitl_suspend")
    assert [json.loads(line)["type"] for line in send(side, CALLED, STEP)] == ["tool_request"]


@pytest.mark.parametrize(("verdict", "how"), [("allow", "allowed"), ("deny", "denied")])
def test_a_suspended_turn_is_resumed_from_the_other_end(verdict: Any, how: Any) -> None:
    pair = Pair(DIALECT, "0.2.0")
    pair.send(Ready(session="s", abilities=Abilities(extras={"hitl_suspend": True})))
    pair.ask(Prompt("m", "go"))
    for event in (TurnStarted(turn="m"), CALLED, ToolStarted("c", "Bash", turn="m"), STEP):
        pair.send(event)
    ask = next(event for event in pair.received if isinstance(event, Ask))
    assert (ask.ask, ask.call, ask.reason) == ("ask-9", "c", "step 2 is gated")
    assert ask.title == 'Script step 2\nBash {"command":"ls"}'
    assert [(command.ask, command.verdict) for command in pair.ask(Answer("ask-9", verdict))] == [("ask-9", verdict)]
    pair.send(AskClosed("ask-9", how, turn="m"))
    assert [event for event in pair.received if isinstance(event, AskClosed)] == [AskClosed("ask-9", how, turn="m")]


# sub_agent_event

CHILD = AgentStarted(call="c", name="scout", task="look", agent="k", turn="m")


def inner(lines: list[str]) -> list[dict[str, Any]]:
    frames = [json.loads(line) for line in lines]
    assert {frame["type"] for frame in frames} <= {"sub_agent_event"}
    return [frame["inner"] for frame in frames]


def test_what_a_child_says_travels_inside_with_sorted_keys() -> None:
    side = engine("sub_agent_traces")
    assert send(side, CALLED, CHILD, TextDelta("Looking.", agent="k", turn="m")) == [
        '{"type":"sub_agent_event","parent_call_id":"c","agent_name":"scout",'
        '"inner":{"msg_id":"k","type":"stream_start"}}',
        '{"type":"sub_agent_event","parent_call_id":"c","agent_name":"scout",'
        '"inner":{"msg_id":"k","text":"Looking.","type":"text_delta"}}',
    ]
    assert send(side, AgentEnded(summary="Nothing.", agent="k", turn="m")) == [
        '{"type":"sub_agent_event","parent_call_id":"c","agent_name":"scout",'
        '"inner":{"message":"Nothing.","msg_id":"","type":"info"}}',
        '{"type":"sub_agent_event","parent_call_id":"c","agent_name":"scout",'
        '"inner":{"finish_reason":"stop","msg_id":"k","type":"stream_end"}}',
    ]


def test_a_child_that_failed_says_why() -> None:
    side = engine("sub_agent_traces")
    error, end = inner(send(side, CHILD, AgentEnded(False, "lost", agent="k", turn="m")))[1:]
    assert error["error"]["message"] == "lost"
    assert end["finish_reason"] == "error"


def test_whose_fault_a_childs_failure_is_shows_and_a_stop_is_no_error() -> None:
    side = engine("sub_agent_traces")
    busy = Failure("overloaded", "busy", "provider", retryable=True)
    error, end = inner(send(side, CHILD, AgentEnded(False, "I look\nbusy", busy, agent="k", turn="m")))[1:]
    assert error["error"] == {"code": "provider_error", "message": "busy", "retryable": True}
    assert end["finish_reason"] == "error"
    stopped = AgentEnded(False, "cancelled", Failure("cancelled", "cancelled", "engine"), agent="k", turn="m")
    lines = send(side, CHILD, stopped)
    assert [json.loads(line).get("terminal_state") for line in lines] == [None, None, "failed"]
    said, end = inner(lines)[1:]
    assert (said["type"], said["message"], end["finish_reason"]) == ("info", "cancelled", "stop")


def test_a_childs_own_calls_are_inside_but_what_it_asks_is_asked_like_any_other_a8() -> None:
    side = engine("sub_agent_traces", "streaming_tools")
    send(side, CALLED, CHILD)
    for call in ("k1", "k2"):
        send(side, ToolCalled(call, "Bash", BASH, "exec", "Execute: ls", agent="k", turn="m"))
    quiet = inner(
        send(side, ToolStarted("k1", "Bash", agent="k", turn="m"), ToolOutput("k1", "x\n", agent="k", turn="m"))
    )
    assert [frame["type"] for frame in quiet] == ["tool_running", "tool_chunk"]
    requested = send(
        side,
        Ask("a", call="k2", name="Bash", args=BASH, agent="k", turn="m"),
        AskClosed("a", "allowed", agent="k", turn="m"),
        ToolStarted("k2", "Bash", agent="k", turn="m"),
        ToolFinished("k2", "Bash", "done", agent="k", turn="m"),
    )
    assert [(json.loads(line)["type"], json.loads(line)["call_id"]) for line in requested] == [
        ("tool_request", "k2"),
        ("tool_running", "k2"),
        ("tool_result", "k2"),
    ]
    assert [frame["type"] for frame in inner(send(side, ToolFinished("k1", "Bash", "x", agent="k", turn="m")))] == [
        "tool_result"
    ]


def test_a_question_of_a_childs_running_call_is_a_call_of_its_own() -> None:
    side = engine("sub_agent_traces")
    send(
        side, CALLED, CHILD, ToolCalled("k1", "Ask", agent="k", turn="m"), ToolStarted("k1", "Ask", agent="k", turn="m")
    )
    requested = send(side, Ask("a", "text", "k1", title="Who?", agent="k", turn="m"))
    closed = send(side, AskClosed("a", "answered", "me", agent="k", turn="m"))
    assert [(json.loads(line)["type"], json.loads(line)["call_id"]) for line in (*requested, *closed)] == [
        ("tool_request", "a"),
        ("tool_result", "a"),
    ]


def test_children_of_one_call_with_one_name_are_told_apart() -> None:
    side = engine("sub_agent_traces")
    lines = send(side, CALLED, CHILD, AgentStarted(call="c", name="scout", agent="k2", turn="m"))
    assert [json.loads(line)["agent_name"] for line in lines] == ["scout", "scout-2"]


def test_a_child_in_the_background_may_speak_when_the_turn_is_over() -> None:
    side = engine("sub_agent_traces")
    send(side, CALLED, CHILD, TurnEnded("end", turn="m"))
    assert [frame["text"] for frame in inner(send(side, ThinkingDelta("hm", agent="k")))] == ["hm"]


def test_a_whole_family_arrives_lane_by_lane() -> None:
    pair = Pair(DIALECT, "0.2.0")
    pair.send(Ready(session="s", abilities=Abilities(extras={"sub_agent_traces": True})))
    pair.ask(Prompt("m", "go"))
    for event in (
        TurnStarted(turn="m"),
        CALLED,
        ToolStarted("c", "Bash", turn="m"),
        CHILD,
        ToolStarted("k1", "Task", agent="k", turn="m"),
        AgentStarted("k", "k1", "digger", agent="kk", turn="m"),
        TextDelta("deep", agent="kk", turn="m"),
        Notice("by the way", agent="kk", turn="m"),
        TextDelta("er", agent="kk", turn="m"),
        AgentEnded(summary="found", agent="kk", turn="m"),
        ToolFinished("k1", "Task", "found", agent="k", turn="m"),
        AgentEnded(False, "tired", agent="k", turn="m"),
        ToolFinished("c", "Bash", "tired", turn="m"),
        TurnEnded("end", turn="m"),
    ):
        pair.send(event)
    agents = [event for event in pair.received if isinstance(event, AgentStarted | AgentEnded)]
    assert agents == [
        AgentStarted("", "c", "scout", agent="scout", turn="m"),
        AgentStarted("scout", "k1", "digger", agent="digger", turn="m"),
        AgentEnded(True, "found", agent="digger", turn="m"),
        AgentEnded(False, "tired", agent="scout", turn="m"),
    ]
    assert Notice("by the way", agent="digger", turn="m") in pair.received


@pytest.mark.parametrize(("state", "ok"), [("succeeded", True), ("failed", False)])
def test_later_engines_say_outright_how_a_child_ended(state: str, ok: bool) -> None:
    host = DIALECT.host_side(env())
    frame = {"type": "sub_agent_event", "parent_call_id": "spawn:0:a", "agent_name": "a", "child_run_id": "r"}
    started = {**frame, "inner": {"type": "text_delta", "text": "x", "msg_id": ""}}
    ended = {**frame, "inner": {"type": "stream_end", "msg_id": ""}, "terminal_state": state}
    remark = {**frame, "inner": {"type": "info", "message": "late", "msg_id": ""}}
    lines = ['{"type":"stream_start","msg_id":"m"}', *[json.dumps(one) for one in (started, ended, remark)]]
    received = host.receive("".join(f"{line}\n" for line in lines).encode())
    assert [event.ok for event in received if isinstance(event, AgentEnded)] == [ok]
    assert Notice("late", agent="a", turn="m") in received
