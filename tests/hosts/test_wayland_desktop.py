"""What the deployed desktop host of Wayland Core requires of an engine: its 25 rows, each as that host does it."""

import re
import signal
import socket
from pathlib import Path

import pytest

from engine_process import Frame, Place, Sleepers
from hosts.desktop import Desktop, environment, read, run
from machine import PATIENCE, within

WRITE_AND_RUN = """
[[reply]]
when.step = 1
say = [
    "I begin. ",
    { call = "Write", id = "{prompt}-w", args = { file_path = "größe.txt", content = "日本 – ü\\n" } },
    { call = "Bash", id = "{prompt}-b", args = { command = "echo größe; echo err >&2" } },
]

[[reply]]
text = "Done: {prompt}."
usage = { input = 100, output = 20 }
"""
SLOW = """
[[reply]]
when.step = 1
call = "Bash"
id = "t1"
args.command = '%s'

[[reply]]
text = "Done."
"""
QUESTION = """
[[reply]]
when.step = 1

[[reply.say]]
call = "AskUserQuestion"
id = "q1"
args.question = "Which colour?"
args.options = [{ label = "red", description = "warm" }, { label = "blue", description = "cold" }]

[[reply]]
text = "{result} it is."
"""
HANG = '[[reply]]\nsay = ["Let me think", { hang = true }]'


@pytest.fixture
def start(place: Place, programs: Path) -> "Start":
    return Start(place, programs)


class Start:
    def __init__(self, place: Place, programs: Path) -> None:
        self.place = place
        self.programs = programs

    def __call__(self, *flags: str, script: str = WRITE_AND_RUN, **env: str) -> Desktop:
        """A chat that is open."""
        return self.closed(*flags, script=script, **env).opened()

    def closed(self, *flags: str, script: str = WRITE_AND_RUN, **env: str) -> Desktop:
        path = self.place.folder / "script.toml"
        path.write_text(script)
        return Desktop(self.place, self.programs, *flags, POLYLECT_SCRIPT=str(path), **env)


def kinds(frames: list[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


def approve(frame: Frame, scope: str = "once", **more: str) -> Frame:
    return {"type": "tool_approve", "call_id": frame["call_id"], "scope": scope, **more}


@pytest.mark.parametrize("name", ["wayland-core", "wcore"])
def test_row_01_it_is_found_on_the_path_and_tells_a_version(place: Place, programs: Path, name: str) -> None:
    done = run(place, programs, "--version", name=name)
    assert re.search(r"\b\d+\.\d+\.\d+\b", done.stdout.decode())
    assert done.returncode == 0


def test_row_02_every_flag_that_the_host_passes_is_taken(start: Start) -> None:
    flags = ("--max-tokens", "4096", "--max-turns", "30", "--auto-approve", "--session-id", "4be1c07d")
    host = start(*flags, "--base-url", "http://127.0.0.1:9", "--profile", "__wayland_desktop_session")
    assert host.ready["session_id"] == "4be1c07d"
    assert host.ready["capabilities"]["current_mode"] == "force"


def test_row_03_a_profile_that_only_the_host_knows_does_no_harm(start: Start) -> None:
    config = start.place.folder / "wayland" / "config.toml"
    config.parent.mkdir()
    config.write_text('[profiles.__wayland_desktop_session]\nprovider = "nobody"\n')
    host = start("--profile", "__wayland_desktop_session")
    config.unlink()  # it is there only until `ready`
    assert host.turn("one", "m1")[-1]["finish_reason"] == "stop"


def test_row_04_it_speaks_utf8_in_a_bare_environment_and_works_in_its_folder(start: Start) -> None:
    env = environment(start.place, start.programs)
    assert not [name for name in env if name.startswith(("PYTHON", "VIRTUAL_ENV", "XDG_", "LANG", "LC_"))]
    frames = start(LC_ALL="C").turn("größe 日本", "m1")
    assert (start.place.workspace / "größe.txt").read_text("utf-8") == "日本 – ü\n"
    assert "größe 日本" in "".join(frame.get("text", "") for frame in frames)
    assert any("größe" in frame["output"] for frame in frames if frame["type"] == "tool_result")


def test_row_04_the_key_comes_from_the_variable_of_the_provider(start: Start) -> None:
    """Started without one it fails before `ready`: see row 8."""
    assert start("--provider", "anthropic", ANTHROPIC_API_KEY="sk-test").ready["type"] == "ready"


def test_row_04_a_service_that_is_only_named_is_asked_at_its_address(start: Start) -> None:
    """Desktop passes the name and the key of a service. The proxy sees which host is asked, and refuses."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(PATIENCE)
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        host = start("--provider", "groq", GROQ_API_KEY="gsk-test", HTTPS_PROXY=address)
        host.send({"type": "message", "msg_id": "m1", "content": "Hello"})
        connection, _ = proxy.accept()
        with connection:
            assert connection.recv(100).startswith(b"CONNECT api.groq.com:443 ")


def test_row_04_a_service_without_its_key_does_not_get_that_of_another(start: Start) -> None:
    host = start.closed("--provider", "groq", OPENAI_API_KEY="sk-test")
    assert (host.line(), host.wait()) == (b"", 1)
    assert "GROQ_API_KEY is not set" in host.errors


def test_row_05_the_first_bytes_are_ready_and_a_newline(start: Start) -> None:
    host = start.closed()
    assert re.fullmatch(rb'\{"type":"ready","version":"0\.2\.0",.*\}', host.line(within=30))


def test_row_06_ready_has_no_contract_and_the_seven_capabilities(start: Start) -> None:
    ready = start().ready
    assert "contract" not in ready
    assert list(ready["capabilities"])[:7] == [
        "tool_approval", "thinking", "effort", "effort_levels", "modes", "current_mode", "mcp",
    ]  # fmt: skip


def test_row_07_stdout_carries_frames_and_nothing_else(start: Start) -> None:
    """`Desktop` reads every line as strictly as the host; here the commands write wherever they can."""
    noise = 'echo out; echo err >&2; echo fd >/proc/self/fd/1; head -c 3000000 /dev/zero | tr "\\0" x'
    host = start("--auto-approve", script=SLOW % noise)
    frames = host.turn("go", "m1")
    assert [frame["status"] for frame in frames if frame["type"] == "tool_result"] == ["success"]
    assert host.finish()[1] == 0


def test_row_08_a_start_that_fails_says_why_on_stderr_and_exits_with_1(start: Start) -> None:
    host = start.closed("--provider", "anthropic")
    assert host.line() == b""
    assert host.wait() == 1
    assert "ANTHROPIC_API_KEY" in host.errors


def test_row_09_an_unknown_resume_fails_at_once_and_the_same_id_can_then_be_begun(start: Start) -> None:
    failed = start.closed("--resume", "4be1c07d")
    assert failed.line() == b""
    assert failed.wait() == 1
    host = start("--session-id", "4be1c07d")
    assert host.ready["session_id"] == "4be1c07d"
    assert host.turn("one", "m1")[-1]["type"] == "stream_end"


def test_row_10_every_server_is_answered_by_its_name(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    host = start()
    host.send(
        {"type": "add_mcp_server", "name": "team-tools", "transport": "stdio", "command": "no-such-program-here"},
        {"type": "add_mcp_server", "name": "größe", "transport": "sse", "url": f"http://127.0.0.1:{port}/sse"},
        {"type": "add_mcp_server", "name": "other", "transport": "streamable-http", "url": f"http://127.0.0.1:{port}/"},
        {"type": "add_mcp_server", "name": "odd", "transport": "smoke"},
    )
    waiting = {"team-tools", "größe", "other", "odd"}
    while waiting:
        frame = host.frame()
        if frame["type"] in ("mcp_ready", "mcp_failed"):
            waiting.remove(frame["name"])
    assert host.turn("one", "m1")[-1]["type"] == "stream_end"


def test_row_11_several_histories_are_kept_and_a_resumed_one_is_not_doubled(start: Start) -> None:
    script = """
    [[reply]]
    when.system.regex = '(?s)RULES.*RULES|FACTS.*FACTS'
    text = "I hear double."

    [[reply]]
    when.system.regex = '(?s)RULES.*FACTS.*TRANSCRIPT'
    text = "I know all three."

    [[reply]]
    when.system.regex = '(?s)RULES.*FACTS'
    text = "I know both."
    """
    history = [{"type": "init_history", "text": text} for text in ("RULES", "FACTS")]
    host = start("--session-id", "4be1c07d", script=script)
    host.send(*history)
    assert "I know both." in str(host.turn("one", "m1"))
    assert host.finish()[1] == 0
    again = start("--resume", "4be1c07d", script=script)
    again.send({"type": "init_history", "text": "TRANSCRIPT"})
    assert "I know all three." in str(again.turn("two", "m2"))


def test_row_12_autopilot_is_obeyed(start: Start) -> None:
    host = start()
    host.send({"type": "set_mode", "mode": "yolo"})
    assert host.until("config_changed")[-1]["capabilities"]["current_mode"] == "force"
    assert "tool_request" not in kinds(host.turn("one", "m1"))


def test_row_13_stream_start_follows_the_message_at_once(start: Start) -> None:
    host = start(script=HANG)
    host.send({"type": "message", "msg_id": "m1", "content": "think"})
    with within(5):
        assert host.frame() == {"type": "stream_start", "msg_id": "m1"}


def test_row_14_every_turn_has_one_end_whatever_became_of_it(start: Start) -> None:
    script = """
    [[reply]]
    when.prompt = "fail"
    error = "server"
    retryable = false

    [[reply]]
    when.prompt = "hang"
    hang = true

    [[reply]]
    text = "Fine."
    """
    host = start(script=script)
    turns = [host.turn(text, f"m{number}") for number, text in enumerate(("hello", "fail", "/help", "/nonsense", ""))]
    assert kinds(turns[2]) == ["stream_start", "info", "stream_end"]
    host.send({"type": "message", "msg_id": "m9", "content": "hang"}, {"type": "stop"})
    frames = [*host.until("stream_end"), *host.finish()[0]]
    assert frames[-1]["msg_id"] == "m9"
    assert host.ends == {"m0": 1, "m1": 1, "m2": 1, "m3": 1, "m4": 1, "m9": 1}


def test_row_15_nothing_of_a_turn_comes_after_its_end(start: Start) -> None:
    """`Desktop` looks at every frame; here are the occasions: late answers, a stop, a setting that waited."""
    host = start()
    frames = host.turn("one", "m1")
    requested = [frame for frame in frames if frame["type"] == "tool_request"]
    host.send(*[approve(frame) for frame in requested], {"type": "stop"}, {"type": "set_config", "effort": "high"})
    host.send(
        {"type": "message", "msg_id": "m2", "content": "two"}, {"type": "set_config", "model": "m2"}, {"type": "stop"}
    )
    host.until("stream_end")
    host.finish()
    assert host.ends == {"m1": 1, "m2": 1}


def test_row_16_a_ping_is_answered_while_an_approval_or_a_long_call_is_pending(start: Start) -> None:
    sleepers = Sleepers(start.place)
    host = start(script=SLOW % sleepers.command())
    host.send({"type": "message", "msg_id": "m1", "content": "sleep"})
    request = host.until("tool_request")[-1]
    host.send({"type": "ping"})
    assert host.frame() == {"type": "pong"}
    host.send(approve(request))
    sleepers.wait_until_started()
    host.send({"type": "ping"})
    assert host.until("pong")[-1] == {"type": "pong"}


def test_row_17_a_turn_in_which_nothing_happens_is_heard_of(start: Start) -> None:
    """Every nine seconds, or as often as is set; the host gives up after ten minutes."""
    settings = start.place.folder / ".config" / "polylect" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("heartbeat = 0.2\n")
    host = start(script=HANG)
    host.send({"type": "message", "msg_id": "m1", "content": "think"})
    host.until("text_delta")
    assert {frame["msg_id"] for frame in (host.frame(), host.frame())} == {"m1"}


def test_row_18_a_request_tells_all_about_its_tool(start: Start) -> None:
    requests = [frame for frame in start().turn("one", "m1") if frame["type"] == "tool_request"]
    assert [list(frame["tool"]) for frame in requests] == [["name", "category", "args", "description"]] * 2
    assert requests[1]["tool"]["args"] == {"command": "echo größe; echo err >&2"}
    assert all(frame["tool"]["description"] for frame in requests)


def test_row_19_every_request_is_closed(start: Start) -> None:
    host = start()
    host.send({"type": "message", "msg_id": "m1", "content": "one"})
    first, second = host.until("tool_request")[-1], host.until("tool_request")[-1]
    host.send({"type": "tool_deny", "call_id": first["call_id"], "reason": "User cancelled"})
    assert host.until("tool_cancelled")[-1]["call_id"] == first["call_id"]
    host.send({"type": "stop"})
    frames = host.until("stream_end")
    assert [frame["call_id"] for frame in frames if frame["type"] == "tool_cancelled"] == [second["call_id"]]
    assert host.open == set()


def test_row_19_an_answered_question_is_closed_by_its_result(start: Start) -> None:
    host = start(script=QUESTION)
    host.send({"type": "message", "msg_id": "m1", "content": "ask"})
    requested = host.until("tool_request")
    host.send(approve(requested[-1], answer="blue"))
    frames = host.until("stream_end")
    assert "tool_running" not in kinds(requested)
    assert kinds(frames)[:2] == ["tool_running", "tool_result"]
    assert [frame["output"] for frame in frames if frame["type"] == "tool_result"] == ["blue"]
    assert host.open == set()


def test_row_19_a_question_that_the_person_declines_is_cancelled(start: Start) -> None:
    host = start(script=QUESTION)
    host.send({"type": "message", "msg_id": "m1", "content": "ask"})
    request = host.until("tool_request")[-1]
    host.send({"type": "tool_deny", "call_id": request["call_id"], "reason": "User cancelled"})
    assert host.until("tool_cancelled")[-1]["reason"] == "User cancelled"
    assert "tool_result" not in kinds(host.until("stream_end"))
    assert host.open == set()


def test_row_20_answers_may_come_at_once_and_late_ones_end_nothing(start: Start) -> None:
    """Three times the same answer in one write: one counts, and no `error` falls into the turn."""
    host = start()
    host.send({"type": "message", "msg_id": "m1", "content": "one"})
    frames = []
    while not host.ends["m1"]:
        frames.append(host.frame())
        if frames[-1]["type"] == "tool_request":
            host.send(*[approve(frames[-1], "always")] * 3)
    assert [frame["status"] for frame in frames if frame["type"] == "tool_result"] == ["success", "success"]
    assert "error" not in kinds(frames)
    assert frames[-1]["finish_reason"] == "stop"


def test_row_21_a_question_has_its_name_and_labels_and_the_answer_is_the_label(start: Start) -> None:
    host = start(script=QUESTION)
    host.send({"type": "message", "msg_id": "m1", "content": "ask"})
    frames = host.until("tool_request")
    request = frames[-1]
    assert kinds(frames).count("tool_request") == 1
    assert request["tool"]["name"] == "AskUserQuestion"
    labels = [option["label"] for option in request["tool"]["args"]["options"]]
    assert labels == ["red", "blue"]
    host.send(approve(request, answer=labels[0]))
    assert "red it is." in str(host.until("stream_end"))


def test_row_21_a_question_is_asked_in_autopilot_too(start: Start) -> None:
    host = start("--auto-approve", script=QUESTION)
    host.send({"type": "message", "msg_id": "m1", "content": "ask"})
    assert host.until("tool_request")[-1]["tool"]["name"] == "AskUserQuestion"


def test_row_22_tools_are_gated_by_requests_only(start: Start) -> None:
    frames = start().turn("one", "m1")
    assert kinds(frames).count("tool_request") == 2
    assert not {"approval_required", "suspend", "approval_resume"} & set(kinds(frames))


def test_row_23_an_error_means_that_the_turn_is_lost_and_a_notice_is_an_info(start: Start) -> None:
    script = """
    [[reply]]
    when.prompt = "flaky"
    say = [{ error = "overloaded", times = 1, retry_after = 0.0 }, "At last."]

    [[reply]]
    say = ["It was", { error = "server", message = "it broke" }]
    """
    host = start(script=script)
    frames = host.turn("flaky", "m1")
    assert "info" in kinds(frames)
    assert "error" not in kinds(frames)
    error, end = host.turn("fail", "m2")[-2:]
    assert (error["type"], error["msg_id"], error["error"]["message"]) == ("error", "m2", "it broke")
    assert (end["type"], end["finish_reason"]) == ("stream_end", "error")


def test_row_23_a_model_without_what_was_asked_for_is_an_info_during_a_turn(start: Start) -> None:
    """An `error` would end the turn in the eyes of the host."""
    host = start(script=HANG)
    host.send({"type": "message", "msg_id": "m1", "content": "think"})
    host.until("text_delta")
    host.send({"type": "set_config", "effort": "high"})
    assert "error" not in kinds(host.until("info"))
    host.send({"type": "stop"})
    assert "error" not in kinds(host.until("stream_end"))


def test_row_24_usage_counts_the_turn(start: Start) -> None:
    host = start(script='[[reply]]\ntext = "x"\nusage = { input = 100, output = 20 }')
    usages = [host.turn("go", f"m{number}")[-1]["usage"] for number in range(3)]
    assert usages == [{"input_tokens": 100, "output_tokens": 20}] * 3


def test_row_25_stop_is_safe_at_any_time(start: Start) -> None:
    host = start()
    host.send({"type": "stop"}, {"type": "ping"})
    assert host.frame() == {"type": "pong"}
    host.send({"type": "message", "msg_id": "m1", "content": "one"})
    host.until("tool_request")
    host.send({"type": "stop"}, {"type": "stop"})
    assert host.until("stream_end")[-1]["msg_id"] == "m1"
    assert host.turn("two", "m2")[-1]["finish_reason"] == "stop"


def test_row_25_sigterm_ends_it_in_time_with_all_that_was_said(start: Start) -> None:
    sleepers = Sleepers(start.place)
    host = start("--auto-approve", "--session-id", "4be1c07d", script=SLOW % sleepers.command())
    host.send({"type": "message", "msg_id": "m1", "content": "REMEMBER"})
    sleepers.wait_until_started()
    host.signal(signal.SIGTERM)  # its input stays open
    host.wait(within=3)
    sleepers.wait_until_gone()
    script = '[[reply]]\nwhen.history = "REMEMBER"\ntext = "I remember."'
    assert "I remember." in str(start("--resume", "4be1c07d", script=script).turn("and?", "m2"))


def test_every_row_has_its_test() -> None:
    assert {int(name[9:11]) for name in globals() if name.startswith("test_row_")} == set(range(1, 26))


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b'{"type":""}', b'{"type":7}', b'{"type":"x","n":NaN}', b"\xff", b'{"type":"tool_request"}',
     b'{"type":"error"}', b'{"type":"tool_request","tool":{"name":"a","category":"b","args":[],"description":"c"}}'],
)  # fmt: skip
def test_the_driver_of_these_tests_is_as_strict_as_the_host(line: bytes) -> None:
    with pytest.raises(AssertionError):
        read(line)
