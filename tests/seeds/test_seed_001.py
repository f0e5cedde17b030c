"""Seed 001, `omp --mode rpc`, statement by statement."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine_process import Engine, Frame, Place
from polylect.dialects.omp.frames.table import EVENTS, REQUESTS
from seeds.walk import Statements, Untested, lost

COMMANDS = "dialects/omp/test_engine_commands.py::test_"
TURNS = "dialects/omp/test_engine_turns.py::test_"
DIALOGS = "dialects/omp/test_engine_dialogs.py::test_"
EDGES = "dialects/omp/test_engine_edges.py::test_"
STEERS = "engine/turn/test_steering.py::test_"

STATEMENTS: Statements = {
    # Starting.
    "RPC mode is JSON, a line each, over stdio": ("test_a_session_from_ready_to_exit",),
    "omp --mode rpc with the usual options": ("test_a_session_from_ready_to_exit",),
    "@file arguments are rejected": ("test_file_arguments_are_rejected",),
    "when stdin closes, the process exits with 0": ("test_a_session_from_ready_to_exit",),
    "where omp has it in its sources": Untested("it speaks of another program's files"),
    # Frames.
    "a frame is an object and a newline, without an envelope": ("test_a_session_from_ready_to_exit",),
    "out: responses, session events, UI requests, extension errors": ("test_every_frame_of_the_seed_has_a_shape",),
    "in: commands and UI responses": ("test_every_command_of_the_seed_has_its_fields",),
    "an id is optional and echoed": (EDGES + "an_id_is_echoed_whatever_it_is",),
    "RpcClient matches answers by it": (EDGES + "two_commands_with_the_same_id_or_none_are_answered_each",),
    "an unknown command is answered without an id": (
        EDGES + "an_unknown_command_is_answered_by_its_name_and_13_leaves_out_its_id",
    ),
    "parse and handler exceptions are `parse` without an id": (
        EDGES + "a_line_that_is_no_command_is_a_parse_error_without_an_id_and_reading_goes_on",
        EDGES + "fields_that_make_no_sense_are_a_parse_error_in_13_and_the_commands_own_failure_later",
    ),
    "prompt and abort_and_prompt are acknowledged, and may fail later under the same id": (
        COMMANDS + "a_prompt_that_fails_is_acknowledged_first_and_fails_under_the_same_id",
        TURNS + "abort_and_prompt_ends_the_run_then_answers_then_begins_the_next",
    ),
    # Commands.
    "the commands and their fields": (
        "test_every_command_of_the_seed_has_its_fields",
        COMMANDS + "a_command_means_this",
    ),
    "success has data, failure has an error": (
        COMMANDS + "its_response_carries_this",
        EDGES + "a_failure_is_recoverable_and_carries_the_commands_name_and_id",
    ),
    "what get_state tells": (COMMANDS + "the_state_has_the_keys_of_the_seed_in_its_order",),
    # Events.
    "the common events": (
        "test_every_frame_of_the_seed_has_a_shape",
        TURNS + "a_plain_prompt_is_acknowledged_and_runs_from_agent_start_to_agent_end",
    ),
    "auto_compaction_start and _end": (TURNS + "an_automatic_compaction_is_told_with_its_result",),
    "auto_retry_start and _end": (TURNS + "a_retry_ends_its_run_and_begins_another",),
    "ttsr_triggered, todo_reminder, extension_error": (
        TURNS + "stream_rules_plans_errors_and_notices_have_their_frames",
    ),
    "message_update has deltas of text, thinking and calls": (
        TURNS + "thinking_text_and_a_call_are_blocks_in_order",
        TURNS + "an_update_holds_the_message_so_far_with_placeholders",
    ),
    # Prompts and queues.
    "accepted is not completed: agent_end is the end": ("test_a_session_from_ready_to_exit",),
    "during streaming a prompt needs a streamingBehavior, else it fails": (
        COMMANDS + "a_prompt_that_fails_is_acknowledged_first_and_fails_under_the_same_id",
        "test_a_busy_engine_queues_what_says_how_and_refuses_the_rest",
    ),
    "steer and followUp choose the queue": (COMMANDS + "streaming_behavior_counts_only_while_a_turn_runs",),
    "one-at-a-time, one-at-a-time and immediate are the defaults": ("test_a_session_from_ready_to_exit",),
    "one-at-a-time takes one, all takes the whole queue": (
        STEERS + "one_message_is_delivered_at_a_time_or_all_of_its_queue",
    ),
    "immediate looks between calls and can end the remaining ones": (
        STEERS + "a_message_skips_calls_that_have_not_finished_when_one_has",
    ),
    "wait lets all calls finish": (STEERS + "with_mode_wait_all_calls_finish_first",),
    # Extension UI.
    "the nine methods": (DIALOGS + "a_question_is_this_dialog", DIALOGS + "things_to_show_travel_as_they_are"),
    "the three forms of a response": (DIALOGS + "a_reply_is_this_answer",),
    "a dialog with a timeout ends in a default": (
        DIALOGS + "unknown_late_and_second_answers_are_ignored_without_a_word",
    ),
    # Errors.
    "set_model of a model that does not exist": (COMMANDS + "a_model_that_does_not_exist_is_refused_under_its_id",),
    "most failures are recoverable": ("test_a_session_from_ready_to_exit",),
    "malformed lines are answered and reading goes on": ("test_a_session_from_ready_to_exit",),
    "an empty session name is rejected": ("test_a_session_from_ready_to_exit",),
    "UI responses with an unknown id are ignored": (
        DIALOGS + "unknown_late_and_second_answers_are_ignored_without_a_word",
    ),
    "the process ends when stdin closes, or an extension wants it": ("test_a_session_from_ready_to_exit",),
    # The client.
    "what RpcClient does with all this": Untested("omp's own clients drive polylect in tests/interop"),
}

SEED_COMMANDS = """
prompt message images? streamingBehavior?; steer message images?; follow_up message images?; abort;
abort_and_prompt message images?; new_session parentSession?; get_state; set_model provider modelId; cycle_model;
get_available_models; set_thinking_level level; cycle_thinking_level; set_steering_mode mode; set_follow_up_mode mode;
set_interrupt_mode mode; compact customInstructions?; set_auto_compaction enabled; set_auto_retry enabled; abort_retry;
bash command; abort_bash; get_session_stats; export_html outputPath?; switch_session sessionPath; branch entryId;
get_branch_messages; get_last_assistant_text; set_session_name name; get_messages
"""
SEED_EVENTS = """
response agent_start agent_end turn_start turn_end message_start message_update message_end tool_execution_start
tool_execution_update tool_execution_end auto_compaction_start auto_compaction_end auto_retry_start auto_retry_end
ttsr_triggered todo_reminder extension_error extension_ui_request
"""
DIALOG_METHODS = {
    "select", "confirm", "input", "editor", "notify", "setStatus", "setWidget", "setTitle", "set_editor_text",
}  # fmt: skip


def test_every_statement_has_its_test() -> None:
    assert lost(STATEMENTS, Path(__file__)) == []


@pytest.mark.parametrize("line", [line.split() for line in re.split(r";\s", SEED_COMMANDS.strip())])
def test_every_command_of_the_seed_has_its_fields(line: list[str]) -> None:
    name, *fields = line
    known = [field for field in msgspec.structs.fields(REQUESTS[name]) if field.name != "id"]
    later = {"excludeFromContext?"}  # pi has added it
    assert {field.encode_name + ("" if field.required else "?") for field in known} - later == set(fields)


def test_every_frame_of_the_seed_has_a_shape() -> None:
    assert set(SEED_EVENTS.split()) <= set(EVENTS)
    (method,) = [field for field in msgspec.structs.fields(EVENTS["extension_ui_request"]) if field.name == "method"]
    (meta,) = method.type.__metadata__
    assert set(meta.extra_json_schema["enum"]) >= DIALOG_METHODS


# The process itself.

SLOW = """
[[reply]]
say = [{ call = "Bash", args = { command = "sleep 20" } }]
"""


def rpc(place: Place, *flags: str, script: str = "") -> Engine:
    played = place.script(script) if script else ["--provider", "scripted"]
    argv = [*place.argv()[:3], "--mode", "rpc", *played, *flags]
    engine = Engine(argv, place.workspace, place.env)
    place.keep(engine)
    return engine


def answer(engine: Engine, id: str) -> Frame:
    """The next response with this id; events in between are passed over."""
    while (frame := engine.frame()).get("id") != id or frame["type"] != "response":
        pass
    return frame


def test_file_arguments_are_rejected(place: Place) -> None:
    outcome = place.run("--mode", "rpc", "--provider", "scripted", "@a.txt")
    assert (outcome.code, outcome.out) == (1, b"")
    assert "@file" in outcome.errors


def test_a_session_from_ready_to_exit(place: Place) -> None:
    engine = rpc(place, script='[[reply]]\ntext = "Done."\n')
    assert engine.frame() == {"type": "ready"}
    engine.send(b"not json\n", {"id": "u", "type": "dance"}, {"id": "q1", "type": "get_state"})
    parse, unknown, state = engine.frame(), engine.frame(), engine.frame()
    assert (parse["command"], parse["success"], "id" in parse) == ("parse", False, False)
    assert unknown == {
        "type": "response", "command": "dance", "success": False, "error": "Unknown command: dance",
    }  # fmt: skip
    result: dict[str, Any] = state["data"]
    assert state["id"] == "q1"
    assert [result[key] for key in ("steeringMode", "followUpMode", "interruptMode")] == [
        "one-at-a-time", "one-at-a-time", "immediate",
    ]  # fmt: skip
    engine.send({"id": "n", "type": "set_session_name", "name": " "})
    assert answer(engine, "n")["error"] == "Session name cannot be empty"
    engine.send({"id": "req_1", "type": "prompt", "message": "Summarize this repo"})
    frames = engine.until("agent_end")
    assert frames[0] == {"type": "response", "id": "req_1", "command": "prompt", "success": True}
    assert [frame["type"] for frame in frames[1:]].count("agent_start") == 1
    assert frames[-1]["messages"][-1]["content"] == [{"type": "text", "text": "Done."}]
    rest, code = engine.finish()
    assert code == 0
    assert {frame["type"] for frame in rest} <= {"prompt_result", "session_settled", "extension_ui_request"}


def test_a_busy_engine_queues_what_says_how_and_refuses_the_rest(place: Place) -> None:
    engine = rpc(place, script=SLOW)
    engine.send({"id": "p1", "type": "prompt", "message": "work"})
    engine.until("tool_execution_start")
    engine.send({"id": "p2", "type": "prompt", "message": "more"})
    assert [answer(engine, "p2")["success"] for _ in range(2)] == [True, False]
    engine.send({"id": "p3", "type": "prompt", "message": "more", "streamingBehavior": "followUp"})
    assert answer(engine, "p3")["success"] is True
    engine.send({"id": "q", "type": "get_queue"}, {"id": "b", "type": "bash", "command": "echo beside"})
    assert answer(engine, "q")["data"] == {"steering": [], "followUp": ["more"]}
    assert answer(engine, "b")["data"]["output"] == "beside\n"
    engine.send({"id": "a", "type": "abort"})
    frames = engine.until("agent_end")
    assert frames[-1]["messages"][0]["role"] == "user"
    assert answer(engine, "a")["success"] is True
    engine.send({"id": "s", "type": "get_state"})
    assert answer(engine, "s")["data"]["queuedMessageCount"] == 1
