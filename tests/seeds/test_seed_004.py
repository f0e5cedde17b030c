"""Seed 004, the JSON stream protocol of aionrs (0.1.0), statement by statement.

Its worked conversations are played byte for byte in tests/e2e/test_seed_004.py; this file walks through the rest.
"""

from pathlib import Path

import pytest

from engine_process import Frame, Place, approve
from polylect.app.startup.args import FLAGS
from polylect.dialects.jsonstream import events
from polylect.dialects.jsonstream.frames.table import EVENTS
from polylect.engine.subagents.spawn import Spawn
from polylect.providers.check import check
from polylect.tools.standard import standard_tools
from polylect.vocab.content import Failure
from seeds.walk import Statements, Untested, lost

PLAYED = "e2e/test_seed_004.py::test_"
INPUT = "e2e/test_input.py::test_"
AIONUI = "hosts/test_aionui.py::test_row_"
GOLDEN = "dialects/jsonstream/test_golden.py::test_the_engine_says_what_the_seed_shows"
SAID = "dialects/jsonstream/test_golden.py::test_the_host_says_what_the_seed_shows"

STATEMENTS: Statements = {
    # Transport.
    "one JSON object a line over stdin and stdout, in UTF-8": (
        AIONUI + "02_stdout_is_json_lines_and_everything_else_goes_to_stderr",
    ),
    "stderr is for diagnostics": (AIONUI + "02_stdout_is_json_lines_and_everything_else_goes_to_stderr",),
    "--json-stream turns it on, beside other flags": (PLAYED + "ready_comes_first_and_has_the_bytes_of_the_seed",),
    "one process is one conversation and stays for many turns": (AIONUI + "13_it_goes_on_after_a_stop",),
    "every line has a type": (AIONUI + "02_stdout_is_json_lines_and_everything_else_goes_to_stderr",),
    # Events.
    "ready comes once, after the start; hosts wait for it": (
        PLAYED + "ready_comes_first_and_has_the_bytes_of_the_seed",
    ),
    "ready has version, session_id and three capabilities": (
        PLAYED + "ready_comes_first_and_has_the_bytes_of_the_seed",
        GOLDEN,
    ),
    "capabilities.tool_approval: it can wait for an answer": (PLAYED + "a_tool_with_approval",),
    "capabilities.thinking: whether there are thinking events": ("test_thinking_is_what_the_model_in_use_does",),
    "capabilities.mcp: whether there are tools of servers": ("test_mcp_is_whether_a_server_is_configured",),
    "session_id is left out when sessions are off": (PLAYED + "without_sessions_ready_has_no_session_id",),
    "stream_start begins a turn": (PLAYED + "a_single_turn", GOLDEN),
    "text_delta is text as it comes": (PLAYED + "a_single_turn", GOLDEN),
    "thinking is reasoning": (PLAYED + "thinking_is_a_frame_of_its_own", GOLDEN),
    "tool_request pauses until it is approved or denied": (PLAYED + "a_tool_with_approval",),
    "tool_request has a call_id and the tool's name, category, args and description": (GOLDEN,),
    "a call_id is unique": (AIONUI + "08_every_event_has_its_msg_id_and_every_call_an_id_of_its_own",),
    "a description is one line for people": (AIONUI + "10_arguments_have_the_names_that_cards_are_made_of",),
    "the categories of the built-in tools": ("test_the_categories_of_the_tools",),
    "tools of servers are mcp": (
        "e2e/test_mcp.py::test_l5_a_configured_server_is_connected_after_ready_and_its_tools_can_be_called",
    ),
    "what is allowed runs at once, without a request": (
        "test_what_is_on_the_allow_list_is_not_asked_for",
        PLAYED + "auto_approve_starts_in_yolo_mode",
    ),
    "tool_running says that it runs": (PLAYED + "a_tool_with_approval", GOLDEN),
    "tool_result has status, output and output_type": (GOLDEN, AIONUI + "11_results_have_the_words_that_cards_know"),
    "long output is truncated": ("tools/test_standard.py::test_a_text_is_cut_in_the_middle_and_the_count_is_right",),
    "an Edit answers with a diff and the file's path": (PLAYED + "an_edit_answers_with_a_diff_and_the_path", GOLDEN),
    "an image is base64": ("dialects/jsonstream/engine/test_codec.py::test_an_image_travels_as_base64",),
    "tool_cancelled says that it was denied or cancelled": (
        "e2e/test_stop.py::test_stop_during_a_tool_cancels_it_visibly_and_leaves_no_process",
        PLAYED + "the_reason_of_a_denial_reaches_the_model",
        GOLDEN,
    ),
    "stream_end ends the turn, with what it used": (PLAYED + "a_single_turn", GOLDEN),
    "an error may or may not end things": (
        PLAYED + "a_providers_error_ends_the_turn_and_the_conversation_goes_on",
        GOLDEN,
    ),
    "the five error codes": ("test_the_five_error_codes",),
    "info is for display": ("test_a_retry_is_told_as_an_info", GOLDEN),
    # Commands.
    "message has msg_id, input and files": (SAID, AIONUI + "06_both_names_of_the_text_are_read_with_files_or_without"),
    "msg_id and input are required, files are not": (
        INPUT + "everything_wrong_gets_one_error_and_the_next_line_is_read",
        AIONUI + "06_both_names_of_the_text_are_read_with_files_or_without",
    ),
    "files are attached": (
        INPUT + "an_attached_text_reaches_the_model",
        "engine/context/test_attachments.py::test_T7_text_goes_as_text_images_as_images_and_the_rest_is_named",
    ),
    "stop aborts: the model's request": ("e2e/test_stop.py::test_stop_during_text_ends_the_turn_and_nothing_else",),
    "stop aborts: a running tool": (
        "e2e/test_stop.py::test_stop_during_a_tool_cancels_it_visibly_and_leaves_no_process",
    ),
    "stop aborts: and stream_end is said": ("e2e/test_stop.py::test_stop_during_an_ask_closes_every_open_call",),
    "tool_approve has call_id and scope": (SAID, PLAYED + "a_tool_with_approval"),
    "its call_id has to be one that waits": (PLAYED + "answers_that_nobody_asked_for_are_refused",),
    "scope once is for this call only": (PLAYED + "always_allows_the_category_for_this_session",),
    "scope always allows the category for the session": (PLAYED + "always_allows_the_category_for_this_session",),
    "tool_deny cancels, tells the model why, and the conversation goes on": (
        PLAYED + "the_reason_of_a_denial_reaches_the_model",
        SAID,
    ),
    "init_history becomes context": (PLAYED + "init_history_reaches_the_model", SAID),
    "init_history comes before the first message": Untested(
        "ours may come at any time and then counts from the next request; see the row 14 of AionUi"
    ),
    "set_mode: default, auto_edit and yolo, and what each lets through": (
        PLAYED + "set_mode_decides_what_is_asked_for",
        SAID,
    ),
    # A conversation.
    "the host starts it with flags and keys in the environment": (
        AIONUI + "01_it_starts_as_the_host_starts_it_and_takes_an_address_without_v1",
    ),
    "--session-id uses this id, and refuses one that exists": (
        "e2e/test_sessions.py::test_a_session_id_that_exists_is_refused",
    ),
    "--resume goes on; latest is the most recent": (PLAYED + "a_session_is_resumed_with_what_was_said",),
    "the two exclude each other": ("test_a_session_is_begun_or_resumed_and_not_both",),
    "the example of a single turn": (PLAYED + "a_single_turn", PLAYED + "the_built_in_script_greets_like_the_seed"),
    "the example of a tool with approval": (PLAYED + "a_tool_with_approval",),
    "the example of several tools at once": (PLAYED + "several_tools_at_once_are_asked_for_together_and_run_together",),
    "they are approved or denied each for itself": (
        PLAYED + "several_tools_are_answered_in_any_order_and_each_for_itself",
    ),
    "the end of input ends it, after cleaning up": (
        "e2e/test_ends.py::test_a_turn_is_finished_after_the_end_of_input",
    ),
    "SIGTERM ends it, after cleaning up": (AIONUI + "15_sigterm_ends_it_and_all_it_started",),
    # Errors.
    "a bad line or an unknown type is a protocol_error with msg_id null": (
        PLAYED + "an_unknown_command_is_answered_with_the_bytes_of_the_seed",
        PLAYED + "malformed_json_is_answered_and_the_conversation_goes_on",
        INPUT + "everything_wrong_gets_one_error_and_the_next_line_is_read",
    ),
    "an error of the model's service is told and the conversation goes on": (
        PLAYED + "a_providers_error_ends_the_turn_and_the_conversation_goes_on",
    ),
    "what cannot be recovered is an error and a non-zero exit": (
        PLAYED + "a_missing_key_is_a_config_error_frame_and_an_exit",
    ),
    # Settings.
    "every flag of the table": (
        "app/startup/test_args.py::test_every_flag_of_seed_004_is_known",
        "test_every_provider_of_the_seed_is_known",
    ),
    "--system-prompt reaches the model": ("test_a_system_prompt_reaches_the_model",),
    "--max-turns ends a run": (AIONUI + "07_a_run_begins_and_ends_once_also_after_an_error_a_stop_and_too_many_turns",),
    "--auto-approve starts in yolo mode": (PLAYED + "auto_approve_starts_in_yolo_mode",),
    "--workspace is where files are worked on": ("e2e/test_starts.py::test_the_workspace_is_where_tools_work",),
    "the variables of each provider": (
        "test_the_variables_of_the_seed_are_honoured",
        "providers/test_vertex.py::test_a_service_account_trades_a_signed_claim_for_a_token_and_keeps_it",
    ),
    # Versions.
    "ready has the version, and hosts should look at it": (PLAYED + "ready_comes_first_and_has_the_bytes_of_the_seed",),
    "minor versions add, major versions break": Untested("a rule for whoever makes the next version"),
    "this is 0.1.0": (PLAYED + "ready_comes_first_and_has_the_bytes_of_the_seed",),
    # What later aionrs added and this seed does not have.
    "nothing else is said": ("test_nothing_is_said_that_the_seed_and_its_successors_do_not_know",),
}


def test_every_statement_has_its_test() -> None:
    assert lost(STATEMENTS, Path(__file__)) == []


def test_the_categories_of_the_tools() -> None:
    tools = standard_tools()
    table = {"Read": "info", "Glob": "info", "Grep": "info", "Write": "edit", "Edit": "edit", "Bash": "exec"}
    assert {name: tools[name].category for name in table} == table
    assert (Spawn.name, Spawn.category) == ("Spawn", "exec")


def test_what_is_on_the_allow_list_is_not_asked_for(place: Place) -> None:
    script = '[[reply]]\nwhen.step = 1\ncall = "Bash"\nargs.command = "true"\n\n[[reply]]\ntext = "Done."'
    place.configure('[tools]\nallow_list = ["Bash"]')
    engine = place.started("--protocol", "0.1.0", script=script)
    engine.send({"type": "message", "msg_id": "m1", "input": "go"})
    kinds = [frame["type"] for frame in engine.until("stream_end")]
    assert kinds == ["stream_start", "tool_running", "tool_result", "text_delta", "stream_end"]


def test_thinking_is_what_the_model_in_use_does(place: Place) -> None:
    old = ("--protocol", "0.1.0")
    assert place.started(*old).ready["capabilities"]["thinking"] is True
    script = '[model]\nthinking = false\n\n[[reply]]\ntext = "x"'
    assert place.started(*old, script=script).ready["capabilities"]["thinking"] is False


def test_mcp_is_whether_a_server_is_configured(place: Place) -> None:
    place.configure('[mcp.servers.team]\ncommand = "no-such-program-here"\n')
    assert place.started("--protocol", "0.1.0").ready["capabilities"]["mcp"] is True


def test_a_system_prompt_reaches_the_model(place: Place) -> None:
    script = '[[reply]]\nwhen.system = "Speak like a pirate"\ntext = "Arr."\n\n[[reply]]\ntext = "Yes."'
    engine = place.started("--protocol", "0.1.0", "--system-prompt", "Speak like a pirate", script=script)
    engine.send({"type": "message", "msg_id": "m1", "input": "Hello"})
    assert [frame["text"] for frame in engine.until("stream_end") if frame["type"] == "text_delta"] == ["Arr."]


@pytest.mark.parametrize(
    ("owner", "code"),
    [
        ("provider", "provider_error"),
        ("tool", "tool_error"),
        ("user", "config_error"),
        ("host", "protocol_error"),
        ("engine", "internal_error"),
    ],
)
def test_the_five_error_codes(owner: events.Owner, code: str) -> None:
    fault = events.fault(Failure("x", "why", owner, retryable=True))
    assert (fault.code, fault.message, fault.retryable) == (code, "why", True)
    assert events.failure_of(fault).owner == owner


def test_a_retry_is_told_as_an_info(place: Place) -> None:
    script = '[[reply]]\nsay = [{ error = "overloaded", times = 1, retry_after = 0.0 }, "At last."]'
    engine = place.started("--protocol", "0.1.0", script=script)
    engine.send({"type": "message", "msg_id": "m1", "input": "go"})
    result = [frame for frame in engine.until("stream_end") if frame["type"] == "info"]
    assert [(frame["msg_id"], "retrying" in frame["message"]) for frame in result] == [("m1", True)]


def test_a_session_is_begun_or_resumed_and_not_both(place: Place) -> None:
    done = place.run("--json-stream", "--protocol", "0.1.0", "--session-id", "a", "--resume", "b")
    assert (done.code, done.out) == (1, b"")
    assert "exclude each other" in done.errors


@pytest.mark.parametrize(
    ("provider", "env"),
    [
        ("anthropic", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}),
        ("openai", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9"}),
        ("bedrock", {"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s"}),
    ],
)
def test_the_variables_of_the_seed_are_honoured(place: Place, provider: str, env: dict[str, str]) -> None:
    """Enough to be ready; the providers' own tests show that they are used. Vertex needs a file: see those."""
    assert check(provider, env=env) is None
    result = place.started("--protocol", "0.1.0", "--provider", provider, "--model", "m", env=env).ready
    assert result["type"] == "ready"


def test_every_provider_of_the_seed_is_known(place: Place) -> None:
    assert "--provider" in FLAGS
    for provider in ("anthropic", "openai", "bedrock", "vertex"):
        done = place.run("--json-stream", "--provider", provider, env={"AWS_CONFIG_FILE": "/none"})
        assert "there is no provider" not in done.errors


def test_nothing_is_said_that_the_seed_and_its_successors_do_not_know(place: Place) -> None:
    """Hosts of this version know twelve events, and three that later aionrs added; no flags, no families."""
    script = """
    [[reply]]
    when.step = 1
    say = [
        { call = "Bash", id = "t1", args.command = "echo one; echo two" },
        { call = "Spawn", id = "t2", args.tasks = [{ name = "kid", prompt = "kid" }] },
    ]

    [[reply]]
    text = "Done."
    """
    engine = place.started("--protocol", "0.1.0", "--auto-approve", script=script)
    assert set(engine.ready["capabilities"]) == {"tool_approval", "thinking", "mcp"}
    frames: list[Frame] = []
    engine.send({"type": "message", "msg_id": "m1", "input": "go"}, {"type": "set_mode", "mode": "default"})
    while not frames or frames[-1]["type"] != "stream_end":
        frames.append(engine.frame())
        if frames[-1]["type"] == "tool_request":
            engine.send(approve(frames[-1]["call_id"]))
    assert {frame["type"] for frame in frames} <= set(EVENTS["0.1.0"])
