"""Seed 003, protocol versions, capability flags and the host decoder contract, statement by statement."""

from pathlib import Path

import msgspec
import pytest

from dialects.pair import env
from engine_process import Place
from polylect.dialects.jsonstream.dialect import DIALECT
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import table as frames
from polylect.dialects.jsonstream.versions import FAMILIES, FLAGS, OUR_MODES
from polylect.vocab.content import Abilities
from polylect.vocab.events import Ready
from seeds.walk import Statements, Untested, lost

CONTRACT = "dialects/jsonstream/test_contract.py::test_"
FAMILY = "dialects/jsonstream/frames/test_optional.py::test_"
ENGINE = "dialects/jsonstream/engine/test_codec.py::test_"
GOLDEN = "dialects/jsonstream/test_golden.py::test_a_conversation_is_understood_and_can_be_said_again"

STATEMENTS: Statements = {
    # Versions.
    "an older host gets no surprises from a newer engine": (CONTRACT + "many_unknown_types_in_a_row_stay_quiet",),
    "what is new is told by a flag and not simply said": (
        FAMILY + "a_family_is_counted_as_lost_while_its_flag_is_off",
    ),
    "the turn itself is not touched by what a host does not know": (
        CONTRACT + "a_newer_engine_with_flags_fields_and_events_of_its_own_works",
    ),
    "the protocol is 0.2.0, and ready.version says so": ("test_ready_says_0_2_0",),
    "a host can read it there": ("test_a_host_is_told_the_version_whatever_it_is",),
    "minor versions add, major versions break": Untested(
        "a rule for whoever makes the next version; schemas/ and the tests of its files show what changes"
    ),
    "hosts should rely on the contract and not on the version": (
        CONTRACT + "an_older_engine_without_flags_and_words_of_today_works",
    ),
    # The baseline.
    "the fourteen events of the baseline": ("test_the_baseline_has_fourteen_events",),
    "their key fields": ("test_the_key_fields_of_the_baseline",),
    "their shapes are frozen": (GOLDEN, "dialects/test_schema.py::test_the_file_in_the_tree_is_what_the_shapes_say"),
    "and those inside of them": ("test_the_fields_inside_a_request_and_an_error",),
    "no flag gates them": ("test_no_flag_gates_the_baseline",),
    "provider_circuit_event is always on": (FAMILY + "always_on_events_need_no_flag",),
    "it tells that a circuit opens, is tried and closes": (
        "providers/test_circuit.py::test_a_circuit_opens_is_tried_again_and_closes",
    ),
    "budget_exceeded is always on": ("test_four_diagnostics_are_always_on", GOLDEN),
    "it fires once, for the first cap": (
        "engine/turn/test_budget.py::test_a_sessions_cap_is_told_once_and_ends_every_later_turn",
    ),
    "tool_panicked is always on, beside the result of the call": (
        "test_four_diagnostics_are_always_on",
        "engine/turn/test_turn.py::test_L1_a_tool_that_fails_or_crashes_ends_its_call_and_not_the_turn",
        GOLDEN,
    ),
    "plugin_registration_failed is always on": (
        FAMILY + "always_on_events_need_no_flag",
        "extensions/test_extensions.py::test_an_extension_that_cannot_be_loaded_is_reported_and_the_others_are",
    ),
    # Flags.
    "the fields of the baseline are always there": (
        FAMILY + "with_every_flag_off_ready_has_the_bytes_of_the_baseline",
    ),
    "a flag that is off is left out": (FAMILY + "with_every_flag_off_ready_has_the_bytes_of_the_baseline",),
    "with all of them off the object has the bytes of v0.1.21": (
        FAMILY + "with_every_flag_off_ready_has_the_bytes_of_the_baseline",
    ),
    "eleven keys are absent then": ("test_the_eleven_keys_are_flags_and_absent_when_off",),
    "a flag that is on means that its events will come": (
        "seeds/test_seed_000.py::test_ready_tells_what_is_switched_on",
        "dialects/jsonstream/test_with_engine.py::"
        "test_t6_costs_are_told_before_the_end_where_the_price_is_known_and_else_not_at_all",
    ),
    "a flag is an announcement, and needs no answer": (FAMILY + "flags_of_an_early_ready_count",),
    "which flag stands for which events": ("test_the_table_of_flags_and_events",),
    "approval_resume is an echo": (FAMILY + "a_running_call_that_needs_a_yes_suspends_the_turn",),
    "rpc_tool_script only widens tool_result.metadata": ("test_rpc_tool_script_has_no_events",),
    "online_evolution is for the live session": Untested("the engine does not evolve; the flag and the event exist"),
    "traces and evolution are flags of their own": (CONTRACT + "two_flags_may_be_on_alone",),
    "user_model_backend is a text and left out when it is empty": (
        FAMILY + "each_flag_alone_is_told_under_its_name_after_the_seven",
    ),
    "modes and current_mode are always there": (FAMILY + "with_every_flag_off_ready_has_the_bytes_of_the_baseline",),
    # The contract.
    "a line is parsed as generic JSON first": (CONTRACT + "a_malformed_line_is_data_and_the_session_goes_on",),
    "a known type with a valid shape is shown": (CONTRACT + "known_types_are_known",),
    "an unknown type is dropped without a word": (
        CONTRACT + "an_unknown_type_is_told_from_a_malformed_line_and_never_logged",
    ),
    "a malformed line is logged, a few of many, and ends nothing": (
        CONTRACT + "malformed_lines_are_logged_a_few_a_minute_and_the_rest_is_counted",
    ),
    "each line has exactly one of these outcomes": (
        CONTRACT + "a_noisy_mixed_stream_is_grammatical_and_every_line_has_one_outcome",
    ),
    "fields that are not known do no harm": (CONTRACT + "fields_that_nobody_knows_are_ignored",),
    "an event is shown although its flag was off": (
        CONTRACT + "an_event_is_shown_although_its_flag_was_never_told",
        CONTRACT + "every_family_has_its_example",
    ),
    # Skew.
    "newer engine, new fields": (CONTRACT + "a_newer_engine_with_flags_fields_and_events_of_its_own_works",),
    "newer engine, new events": (CONTRACT + "a_newer_engine_with_flags_fields_and_events_of_its_own_works",),
    "newer engine, new flags": (CONTRACT + "flags_of_any_type_are_no_reason_to_refuse_an_engine",),
    "older engine, a flag that is missing is off": (
        CONTRACT + "an_older_engine_without_flags_and_words_of_today_works",
    ),
    "an old capabilities object can be read": (CONTRACT + "an_older_engine_without_flags_and_words_of_today_works",),
    # The stale example.
    "modes are listed with force and never with yolo": ("test_modes_are_listed_with_force_and_read_with_yolo_too",),
    "yolo is understood where it is said": (ENGINE + "a7_every_word_for_force_is_understood",),
    "where the contract is enforced in their source": Untested("it speaks of another program's tests; ours are above"),
}


def test_every_statement_has_its_test() -> None:
    assert lost(STATEMENTS, Path(__file__)) == []


def test_ready_says_0_2_0(place: Place) -> None:
    assert place.started().ready["version"] == "0.2.0"


def test_the_baseline_has_fourteen_events() -> None:
    baseline = (
        "ready stream_start text_delta thinking tool_request tool_running tool_result tool_cancelled stream_end error "
        "info config_changed mcp_ready pong"
    )
    always = {"provider_circuit_event", "budget_exceeded", "tool_panicked", "plugin_registration_failed", "mcp_failed"}
    assert set(baseline.split()) == set(frames.EVENTS["0.2.0"]) - set(FAMILIES) - always
    assert set(baseline.split()) == set(frames.EVENTS["0.1.0"])


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("ready", "version session_id? capabilities"),
        ("stream_start", "msg_id"),
        ("text_delta", "text msg_id"),
        ("thinking", "text msg_id"),
        ("tool_request", "msg_id call_id tool"),
        ("tool_running", "msg_id call_id tool_name"),
        ("tool_result", "msg_id call_id tool_name status output output_type metadata?"),
        ("tool_cancelled", "msg_id call_id reason"),
        ("stream_end", "msg_id finish_reason usage?"),
        ("error", "msg_id? error"),
        ("info", "msg_id message"),
        ("config_changed", "capabilities"),
        ("mcp_ready", "name tools"),
        ("pong", ""),
    ],
)
def test_the_key_fields_of_the_baseline(event: str, fields: str) -> None:
    """In the order of the wire; a question mark where a field may be left out."""
    shape = msgspec.inspect.type_info(frames.EVENTS["0.2.0"][event])
    assert isinstance(shape, msgspec.inspect.StructType)
    assert [f"{field.name}{'' if field.required else '?'}" for field in shape.fields] == fields.split()


def test_the_fields_inside_a_request_and_an_error() -> None:
    assert shapes.Tool.__struct_fields__ == ("name", "category", "args", "description")
    assert shapes.Fault.__struct_fields__ == ("code", "message", "retryable")


@pytest.mark.parametrize("version", ["0.2.0", "0.1.0", "0.13.4", "7.0.0"])
def test_a_host_is_told_the_version_whatever_it_is(version: str) -> None:
    line = f'{{"type":"ready","version":"{version}","capabilities":{{}}}}\n'
    [ready] = DIALECT.host_side(env()).receive(line.encode())
    assert isinstance(ready, Ready)
    assert ready.version == version


def test_no_flag_gates_the_baseline() -> None:
    assert not set(FAMILIES) & set(frames.EVENTS["0.1.0"])


def test_four_diagnostics_are_always_on() -> None:
    always = {"provider_circuit_event", "budget_exceeded", "tool_panicked", "plugin_registration_failed"}
    assert always <= set(frames.EVENTS["0.2.0"]) - set(FAMILIES)


def test_the_table_of_flags_and_events() -> None:
    table = {
        "streaming_tools": {"tool_chunk"},
        "sub_agent_traces": {"sub_agent_event"},
        "cost_attribution": {"session_cost"},
        "hitl_suspend": {"approval_required", "suspend", "approval_resume"},
        "non_destructive_compact": {"compact_offload"},
        "structured_traces": {"trace_event"},
        "browser_suite": {"browser_event", "browser_policy_denied"},
        "computer_use": {"cua_event", "cua_policy_denied"},
        "plugins": {"plugin_event"},
        "gepa_enabled": {"evolution_event"},
        "online_evolution": {"evolution_event"},
    }
    actual = {flag: {event for event, flags in FAMILIES.items() if flag in flags} for flag in table}
    assert actual == table
    assert set(FAMILIES) == set().union(*table.values())


def test_the_eleven_keys_are_flags_and_absent_when_off() -> None:
    listed = (
        "streaming_tools sub_agent_traces cost_attribution hitl_suspend non_destructive_compact structured_traces "
        "rpc_tool_script browser_suite computer_use plugins gepa_enabled"
    )
    keys = listed.split()
    assert set(keys) <= set(FLAGS["0.2.0"])
    engine = DIALECT.engine_side(env())
    engine.send(Ready(abilities=Abilities(extras=dict.fromkeys(keys, False))))
    said = engine.data_to_send().decode()
    assert not [key for key in keys if key in said]


def test_rpc_tool_script_has_no_events() -> None:
    assert "rpc_tool_script" in FLAGS["0.2.0"]
    assert not [event for event, flags in FAMILIES.items() if "rpc_tool_script" in flags]


def test_modes_are_listed_with_force_and_read_with_yolo_too(place: Place) -> None:
    engine = place.started()
    assert engine.ready["capabilities"]["modes"] == ["default", "auto_edit", "force"]
    assert OUR_MODES["yolo"] == "force"
    engine.send({"type": "set_mode", "mode": "yolo"})
    assert engine.until("config_changed")[-1]["capabilities"]["current_mode"] == "force"
