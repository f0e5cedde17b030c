"""Seed 000, driving the engine from a host (Wayland Core, protocol 0.2.0), statement by statement."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dialects.pair import env
from engine_process import PATIENCE, Engine, Frame, Place, approve
from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.dialects.jsonstream.frames import table as frames
from polylect.vocab.commands import MalformedCommand, UnknownCommand
from polylect.vocab.events import Ask, Ready, ToolCalled, TurnStarted
from seeds.walk import Statements, Untested, lost

HERE = Path(__file__).parent
CODEC = "dialects/jsonstream/"
DESKTOP = "hosts/test_wayland_desktop.py::test_row_"
E2E = "e2e/test_"
EXAMPLES = "app/test_embed.py::test_an_example_prints_what_stands_below_it"
ADDED = E2E + "mcp.py::test_a_host_adds_servers_until_its_first_message_and_each_is_answered"

STATEMENTS: Statements = {
    # The process.
    "--json-stream makes it a headless child, driven over stdin and stdout alone": ("test_a_turn_over_two_pipes",),
    "one process is one conversation, for as many turns as the host wants": ("test_many_turns_in_one_process",),
    "stderr is for logs and no part of the protocol": (
        E2E + "starts.py::test_logging_goes_to_stderr_and_only_when_asked_for",
    ),
    "the desktop uses the same way in": (DESKTOP + "02_every_flag_that_the_host_passes_is_taken",),
    # Flags.
    "the flags are --provider, --model, --session-id, --resume and --force": ("test_the_flags_of_the_seed",),
    "--session-id begins a session with this id": ("test_the_flags_of_the_seed",),
    "--resume goes on with an earlier one and its history": (E2E + "sessions.py::test_resume_goes_on_where_it_was",),
    "--resume latest takes the most recently active": (
        E2E + "sessions.py::test_latest_is_the_most_recently_active_of_this_workspace",
    ),
    "--force lets every call run without tool_approve": ("test_force_waits_for_nobody",),
    "--provider and --model are stronger than the settings file": ("test_flags_are_stronger_than_the_settings_file",),
    "[session] directory says where sessions are kept": ("test_the_settings_say_where_sessions_are_kept",),
    "by default they are kept below ~/.wayland": Untested(
        "ours are kept in our own folder: their format is our own, and two programs must not share one"
    ),
    "a session's state is its history and its memory": (
        E2E + "sessions.py::test_resume_goes_on_where_it_was",
        "test_no_memory_beside_the_conversation_is_claimed",
    ),
    # Transport.
    "one UTF-8 JSON object a line, each with a type": (DESKTOP + "07_stdout_carries_frames_and_nothing_else",),
    "commands come on stdin, events go to stdout": ("test_a_turn_over_two_pipes",),
    "each event is written whole, with a newline, and flushed": (
        E2E + "slow_hosts.py::test_a_host_that_reads_one_byte_at_a_time_gets_everything",
    ),
    "the order of events is kept when sub-agents speak at the same time": (
        CODEC + "test_conversations.py::TestConversation",
        CODEC + "frames/test_optional.py::test_a_whole_family_arrives_lane_by_lane",
    ),
    # Relay sinks.
    "what the engine says can go elsewhere than to stdout": (EXAMPLES,),
    "a test can have a sink in memory": (EXAMPLES,),
    "a sink for a screen can share the engine with the wire": (
        "app/test_embed.py::test_the_page_shows_every_task_and_every_kind_of_sink",
    ),
    "a channel wraps what sub-agents say before it is passed on": (EXAMPLES,),
    "a host can bring a sink of its own, over IPC for instance": (EXAMPLES,),
    # Start.
    "ready is said once, when the start is complete": (DESKTOP + "05_the_first_bytes_are_ready_and_a_newline",),
    "a host sends no message before it": ("test_what_is_sent_before_ready_is_not_lost",),
    "servers are added between ready and the first message": (ADDED,),
    "each is answered by mcp_ready with the tools that were found": (ADDED,),
    "only the first message closes this window": ("test_only_a_message_closes_the_window_for_servers",),
    "later ones are rejected with a protocol error": ("test_a_server_that_comes_too_late_is_a_protocol_error",),
    "the first message begins the turns": ("test_a_turn_over_two_pipes",),
    "a ready that tells only two capabilities is enough": (
        CODEC + "host/test_codec.py::test_a_ready_with_two_capabilities_is_enough",
    ),
    "the example exchange with a server": (
        CODEC + "test_golden.py::test_a_conversation_is_understood_and_can_be_said_again",
    ),
    # Commands.
    "there are ten commands": ("test_there_are_ten_commands",),
    "their names are in snake_case": ("test_every_name_on_the_wire_is_in_snake_case",),
    "each with these fields": ("test_every_command_is_taken_with_all_its_fields",),
    "message.files is optional": ("test_message_files_are_optional",),
    "stop cancels the current response": (E2E + "stop.py::test_stop_during_text_ends_the_turn_and_nothing_else",),
    "tool_approve.answer is what the user chose for AskUserQuestion": (
        DESKTOP + "21_a_question_has_its_name_and_labels_and_the_answer_is_the_label",
    ),
    "tool_approve.scope says how far a yes reaches": (
        CODEC + "engine/test_codec.py::test_a4_a_scope_becomes_a_standing_rule",
        "engine/test_approval.py::test_A4_what_is_always_allowed_is_not_asked_for_again",
    ),
    "tool_deny rejects, with a reason": (DESKTOP + "19_every_request_is_closed",),
    "approval_resume resumes a suspended turn, where hitl_suspend is on": (
        CODEC + "frames/test_optional.py::test_a_running_call_that_needs_a_yes_suspends_the_turn",
        CODEC + "frames/test_optional.py::test_a_suspended_turn_is_resumed_from_the_other_end",
    ),
    "set_mode knows default, auto_edit and force": ("test_the_three_modes",),
    "set_config leaves alone what it does not name": (
        CODEC + "engine/test_codec.py::test_set_config_names_only_what_was_named",
        "engine/commands/test_configure.py::test_settings_that_are_not_named_stay",
    ),
    "add_mcp_server has the transports stdio, sse and streamable-http": ("test_the_three_transports",),
    "init_history begins the conversation with what was before": (
        DESKTOP + "11_several_histories_are_kept_and_a_resumed_one_is_not_doubled",
    ),
    "ping is answered by pong": (DESKTOP + "16_a_ping_is_answered_while_an_approval_or_a_long_call_is_pending",),
    # Examples.
    "a host in Node": ("test_the_node_host_runs",),
    "a host in Python": ("test_the_python_host_runs",),
    # Inside of an application.
    "the application makes a sink with the capabilities it wants told": (EXAMPLES,),
    "sub-agents are always told of, traces where they are switched on": ("test_ready_tells_what_is_switched_on",),
    "ready is told with the plugins": ("test_ready_tells_that_there_are_extensions",),
    "costs are told of where they can be": ("test_costs_are_advertised_exactly_where_the_price_is_known",),
    "evolution is told of where it is on": Untested("the engine does not evolve, so the flag is never told"),
    "servers from the settings are reported after ready": (
        E2E + "mcp.py::test_l5_a_configured_server_is_connected_after_ready_and_its_tools_can_be_called",
    ),
    "tokens of pending approvals are scrubbed from what tools print": (
        "engine/test_approval.py::test_A6_ask_ids_never_reach_the_model_nor_come_back_in_output",
    ),
    "input is read after that, one command after the other": ("test_what_is_sent_before_ready_is_not_lost",),
    "names of files and lines in the source": Untested("they speak of another program's source, not of behaviour"),
}

SCRIPT = """
[[reply]]
when = { prompt = "run", step = 1 }
say = ["I run it. ", { call = "Bash", id = "{prompt}-{turn}", args.command = "echo hello" }]

[[reply]]
when.model = "other"
text = "I am the other one."

[[reply]]
text = "You said {prompt}."
"""
SERVER: Frame = {
    "type": "add_mcp_server",
    "name": "team-tools",
    "transport": "stdio",
    "command": "no-such-program-here",
}
CONFIG = {"model": "m", "thinking": "enabled", "thinking_budget": 9, "effort": "low", "compaction": "off"}
COMMANDS: list[Frame] = [
    {**SERVER, "args": ["bridge.js"], "env": {"TOKEN": "abc"}, "url": "http://127.0.0.1:1/", "headers": {"A": "b"}},
    {"type": "init_history", "text": "Be brief."},
    {"type": "set_mode", "mode": "auto_edit"},
    {"type": "set_config", **CONFIG},
    {"type": "message", "msg_id": "m1", "content": "Summarise it", "files": ["a.txt"]},
    {"type": "tool_approve", "call_id": "c1", "scope": "once", "answer": "yes"},
    {"type": "tool_deny", "call_id": "c2", "reason": "no"},
    {"type": "ping"},
    {"type": "stop"},
]
RESUME: Frame = {"type": "approval_resume", "resume_token": "t", "approved": True, "modifications": None}


def message(text: str, msg_id: str = "m1") -> Frame:
    return {"type": "message", "msg_id": msg_id, "content": text}


def answered(engine: Engine, text: str, msg_id: str) -> str:
    engine.send(message(text, msg_id))
    return "".join(frame["text"] for frame in engine.until("stream_end") if frame["type"] == "text_delta")


def test_every_statement_has_its_test() -> None:
    assert lost(STATEMENTS, Path(__file__)) == []


def test_a_turn_over_two_pipes(place: Place) -> None:
    engine = place.started(script=SCRIPT)
    assert engine.ready["version"] == "0.2.0"
    engine.send(message("run"))
    request = engine.until("tool_request")[-1]
    engine.send(approve(request["call_id"]))
    kinds = [frame["type"] for frame in engine.until("stream_end") if frame["type"] != "tool_chunk"]
    assert kinds == ["tool_running", "tool_result", "text_delta", "stream_end"]
    assert engine.finish() == ([], 0)


def test_many_turns_in_one_process(place: Place) -> None:
    engine = place.started(script=SCRIPT)
    assert [answered(engine, f"number {n}", f"m{n}") for n in range(9)] == [f"You said number {n}." for n in range(9)]


def test_the_flags_of_the_seed(place: Place) -> None:
    flags = ("--provider", "scripted", "--model", "m", "--session-id", "s-abc123", "--force")
    ready = place.started(*flags).ready
    assert ready["session_id"] == "s-abc123"
    assert ready["capabilities"]["current_mode"] == "force"


def test_force_waits_for_nobody(place: Place) -> None:
    engine = place.started("--force", script=SCRIPT)
    engine.send(message("run"))
    kinds = [frame["type"] for frame in engine.until("stream_end")]
    assert "tool_request" not in kinds
    assert "tool_result" in kinds


def test_flags_are_stronger_than_the_settings_file(place: Place) -> None:
    place.configure('[default]\nprovider = "anthropic"\nmodel = "claude-x"\n')
    engine = place.started("--model", "other", script=SCRIPT)  # which also names the scripted provider
    assert answered(engine, "who?", "m1") == "I am the other one."


def test_the_settings_say_where_sessions_are_kept(place: Place) -> None:
    elsewhere = place.folder / "elsewhere"
    place.configure(f'[session]\ndirectory = "{elsewhere}"\n')
    engine = place.started("--session-id", "mine", script=SCRIPT)
    answered(engine, "hello", "m1")
    assert (elsewhere / "mine").is_dir()
    assert not place.sessions.exists()


def test_what_is_sent_before_ready_is_not_lost(place: Place) -> None:
    engine = place.start(script=SCRIPT)
    engine.send({"type": "ping"}, message("hello"))
    assert [frame["type"] for frame in engine.until("stream_end")][:3] == ["ready", "pong", "stream_start"]


def test_only_a_message_closes_the_window_for_servers(place: Place) -> None:
    """These cannot be started, and that is what is said: not that they came too late."""
    engine = place.started(script=SCRIPT)
    for other in (
        {"type": "ping"},
        {"type": "set_mode", "mode": "default"},
        {"type": "stop"},
        {"type": "init_history", "text": "x"},
    ):
        engine.send(other, {**SERVER, "name": other["type"]})
        failed = engine.until("mcp_failed")[-1]
        assert failed["name"] == other["type"]
        assert "first" not in failed["reason"]


def test_a_server_that_comes_too_late_is_a_protocol_error(place: Place) -> None:
    engine = place.started(script=SCRIPT)
    answered(engine, "hello", "m1")
    engine.send(SERVER)
    result = {frame["type"]: frame for frame in (engine.frame(), engine.frame())}
    assert result["error"]["error"]["code"] == "protocol_error"
    assert result["mcp_failed"]["name"] == "team-tools"


def test_there_are_ten_commands() -> None:
    assert set(frames.COMMANDS["0.2.0"]) == {frame["type"] for frame in (*COMMANDS, RESUME)}


@pytest.mark.parametrize("frame", [*COMMANDS, RESUME], ids=lambda frame: str(frame["type"]))
def test_every_command_is_taken_with_all_its_fields(frame: Frame) -> None:
    codec = EngineSide(env())
    codec.send(Ready())
    codec.send(TurnStarted(turn="m0"))
    for call in ("c1", "c2"):
        codec.send(ToolCalled(call, "Bash", turn="m0"))
        codec.send(Ask(f"ask-{call}", call=call, name="Bash", turn="m0"))
    result = codec.receive(json.dumps(frame).encode() + b"\n")
    refused = [command for command in result if isinstance(command, MalformedCommand | UnknownCommand)]
    assert bool(refused) == (frame is RESUME)  # hitl_suspend is off, so no approval waits for it


def test_message_files_are_optional(place: Place) -> None:
    (place.workspace / "a.txt").write_text("attached")
    engine = place.started(script='[[reply]]\nwhen.history = "attached"\ntext = "seen"\n\n[[reply]]\ntext = "nothing"')
    assert answered(engine, "hello", "m1") == "nothing"
    engine.send({**message("hello", "m2"), "files": ["a.txt"]})
    assert "seen" in str(engine.until("stream_end"))


@pytest.mark.parametrize("mode", ["default", "auto_edit", "force"])
def test_the_three_modes(place: Place, mode: str) -> None:
    engine = place.started()
    assert mode in engine.ready["capabilities"]["modes"]
    engine.send({"type": "set_mode", "mode": mode})
    assert engine.until("config_changed")[-1]["capabilities"]["current_mode"] == mode


def test_the_three_transports(place: Place) -> None:
    engine = place.started()
    for transport in ("stdio", "sse", "streamable-http"):
        engine.send({**SERVER, "name": transport, "transport": transport, "url": "http://127.0.0.1:9/"})
        assert engine.until("mcp_failed")[-1]["name"] == transport


def test_every_name_on_the_wire_is_in_snake_case() -> None:
    names = [name for version in frames.COMMANDS for name in (*frames.COMMANDS[version], *frames.EVENTS[version])]
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []


def test_no_memory_beside_the_conversation_is_claimed(place: Place) -> None:
    assert not {"memory_enabled", "user_model_backend"} & set(place.started().ready["capabilities"])


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ("", set()),
        ("[observability]\nstructured_traces = true\n", {"structured_traces"}),
        ("[tools]\nscript = true\n", {"hitl_suspend", "rpc_tool_script"}),
    ],
)
def test_ready_tells_what_is_switched_on(place: Place, settings: str, flags: set[str]) -> None:
    place.configure(settings)
    always = {"streaming_tools", "sub_agent_traces", "non_destructive_compact"}
    assert set(list(place.started(script=SCRIPT).ready["capabilities"])[7:]) == always | flags


def test_ready_tells_that_there_are_extensions(place: Place) -> None:
    own = place.settings.parent / "extensions" / "mine.py"
    own.parent.mkdir(parents=True)
    own.write_text("def extend(polylect): ...\n")
    assert place.started(script=SCRIPT).ready["capabilities"]["plugins"] is True


@pytest.mark.parametrize(
    ("flags", "able"),
    [
        (("--provider", "anthropic", "--model", "claude-haiku-4-5"), (True, [], True)),
        (("--provider", "anthropic", "--model", "claude-3-5-haiku-20241022"), (False, [], True)),
        (("--provider", "openai", "--model", "o3"), (False, ["low", "medium", "high"], True)),
        (("--provider", "openai", "--model", "somebody-elses"), (False, [], False)),
        (("--provider", "scripted"), (True, [], True)),
    ],
)
def test_costs_are_advertised_exactly_where_the_price_is_known(
    place: Place, flags: tuple[str, ...], able: tuple[bool, list[str], bool]
) -> None:
    """And thinking and effort are those of the model in use."""
    keys = {"ANTHROPIC_API_KEY": "sk-ant-x", "OPENAI_API_KEY": "sk-x"}
    result = place.started(*flags, env=keys).ready["capabilities"]
    assert (result["thinking"], result["effort_levels"], "cost_attribution" in result) == able
    assert result["effort"] == bool(able[1])


# The two examples.


def run(place: Place, *argv: str) -> str:
    """With `wayland-core` on the path, as `polylect link` makes it."""
    programs = place.folder / "programs"
    place.run("link", "wayland-core", str(programs))
    (place.workspace / "README.md").write_text("A small project.\n")
    result = {**place.env, "PATH": f"{programs}{os.pathsep}{place.env['PATH']}"}
    done = subprocess.run(
        argv, cwd=place.workspace, env=result, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_python_host_runs(place: Place) -> None:
    assert "First I look around" in run(place, sys.executable, str(HERE / "example_host.py"))


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node on this machine")
def test_the_node_host_runs(place: Place) -> None:
    assert "First I look around" in run(place, "node", str(HERE / "example_host.mjs"))
