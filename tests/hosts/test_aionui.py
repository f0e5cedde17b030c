"""What AionUi requires of an engine: its 16 rows, each as that host does it."""

import json
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engine_process import Frame, Place, Sleepers
from hosts.aionui import DEAD, AionUi, settings_file, version
from polylect.engine.settings import Settings

CARDS = """
[[reply]]
when.step = 1
say = [
    { text = "I begin. " },
    { call = "Write", id = "t1", args = { file_path = "a.txt", content = "one\\n" } },
    { call = "Bash", id = "t2", args = { command = "echo hello" } },
]

[[reply]]
when.step = 2
say = [{ call = "Edit", id = "t3", args = { file_path = "a.txt", old_string = "one", new_string = "two" } }]

[[reply]]
text = "Done."
"""
HANG = '[[reply]]\nwhen.prompt = "hang"\nhang = true\n\n[[reply]]\ntext = "Fine."'
SLOW = '[[reply]]\nwhen.step = 1\ncall = "Bash"\nid = "t1"\nargs.command = \'%s\'\n\n[[reply]]\ntext = "Done."'


class Start:
    def __init__(self, place: Place, programs: Path) -> None:
        self.place = place
        self.programs = programs

    def __call__(self, *flags: str, script: str = CARDS) -> AionUi:
        return self.closed(*flags, script=script).opened()

    def closed(self, *flags: str, script: str = CARDS) -> AionUi:
        path = self.place.folder / "script.toml"
        path.write_text(script)
        return AionUi(self.place, self.programs, *flags, POLYLECT_SCRIPT=str(path))


@pytest.fixture
def start(place: Place, programs: Path) -> Start:
    return Start(place, programs)


def kinds(frames: list[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


@contextmanager
def model_server() -> Iterator[tuple[str, list[str]]]:
    """A service that speaks OpenAI's chat: its address, and the paths it is asked for."""
    paths: list[str] = []
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hi!"}, "finish_reason": "stop"}]}

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            paths.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (its name there)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_row_01_it_starts_as_the_host_starts_it_and_takes_an_address_without_v1(place: Place, programs: Path) -> None:
    with model_server() as (address, paths):
        flags = ("--max-turns", "5", "--session-id", "conv-1", "--base-url", address)
        host = AionUi(place, programs, *flags, provider="openai", OPENAI_API_KEY="sk-test").opened()
        assert "Hi!" in str(host.turn("Hello", "m1"))
        host.finish()
    assert paths == ["/v1/chat/completions"]


def test_row_01_the_folder_it_runs_in_is_the_workspace_and_a_file_of_the_host_there_does_no_harm(start: Start) -> None:
    (start.place.workspace / ".aionrs.toml").write_text('[providers.openai.compat]\napi_path = "/x"\n')
    start().turn("go", "m1")
    assert (start.place.workspace / "a.txt").read_text() == "two\n"


def test_row_02_stdout_is_json_lines_and_everything_else_goes_to_stderr(start: Start) -> None:
    host = start.closed("--toon")
    host.prompt("go", "m1", "input")
    lines = [host.line()]
    while b'"stream_end"' not in lines[-1]:
        lines.append(host.line())
        frame = json.loads(lines[-1])
        if frame["type"] == "tool_request":
            host.answer(frame)
    assert all(json.loads(line)["type"] for line in lines)
    assert "--toon" in host.errors


def test_row_03_ready_comes_in_time_with_an_object_and_the_session(start: Start) -> None:
    ready = start("--session-id", "conv-1").ready
    assert ready["session_id"] == "conv-1"
    assert list(ready["capabilities"].items()) == [
        ("tool_approval", True),
        ("image_input", "unknown"),
        ("thinking", True),
        ("effort", False),
        ("effort_levels", []),
        ("modes", ["default", "auto_edit", "yolo"]),
        ("current_mode", "default"),
        ("mcp", False),
    ]


def test_row_04_a_bad_resume_ends_at_once_and_leaves_the_id_usable(start: Start) -> None:
    failed = start.closed("--resume", "conv-1")
    assert failed.wait(within=5) != 0
    assert start("--session-id", "conv-1").ready["session_id"] == "conv-1"


def test_row_05_a_session_can_be_resumed_from_the_same_folder(start: Start) -> None:
    script = '[[reply]]\nwhen.history = "REMEMBER"\ntext = "I remember."\n\n[[reply]]\ntext = "I do not."'
    first = start("--session-id", "conv-1", script=script)
    first.turn("REMEMBER", "m1")
    first.signal(signal.SIGTERM)
    first.wait()
    assert "I remember." in str(start("--resume", "conv-1", script=script).turn("and?", "m2"))


@pytest.mark.parametrize("key", ["input", "content"])
@pytest.mark.parametrize("more", [{}, {"files": []}, {"files": ["notes.txt"]}])
def test_row_06_both_names_of_the_text_are_read_with_files_or_without(
    start: Start, key: str, more: dict[str, list[str]]
) -> None:
    (start.place.workspace / "notes.txt").write_text("notes")
    script = '[[reply]]\ntext = "You said {prompt}."'
    assert "You said hello" in str(start(script=script).turn("hello", "m1", key=key, **more))


def test_row_06_both_names_at_once_are_safe(start: Start) -> None:
    host = start(script='[[reply]]\ntext = "You said {prompt}."')
    host.send({"type": "message", "msg_id": "m1", "input": "hello", "content": "hello"})
    assert "You said hello." in str(host.until("stream_end"))


def test_row_07_a_run_begins_and_ends_once_also_after_an_error_a_stop_and_too_many_turns(start: Start) -> None:
    script = """
    [[reply]]
    when.prompt = "loop"
    call = "Glob"
    args.pattern = "*"

    [[reply]]
    when.prompt = "fail"
    error = "server"
    retryable = false

    [[reply]]
    when.prompt = "hang"
    hang = true
    """
    host = start("--max-turns", "3", script=script)
    runs = [host.turn(text, msg_id) for text, msg_id in (("loop", "m1"), ("fail", "m2"))]
    host.send({"type": "message", "msg_id": "m3", "input": "hang"})
    started = host.frame()
    host.send({"type": "stop"})
    runs.append([started, *host.until("stream_end")])
    for frames, msg_id in zip(runs, ("m1", "m2", "m3"), strict=True):
        assert frames[0] == {"type": "stream_start", "msg_id": msg_id}
        assert [kind for kind in kinds(frames) if kind.startswith("stream")] == ["stream_start", "stream_end"]
        assert frames[-1]["msg_id"] == msg_id


def test_row_08_every_event_has_its_msg_id_and_every_call_an_id_of_its_own(start: Start) -> None:
    """The script uses the same ids in both runs; cards are merged by them."""
    host = start()
    first, second = host.turn("go", "m1"), host.turn("go", "m2")
    for frames, msg_id in ((first, "m1"), (second, "m2")):
        assert {frame["msg_id"] for frame in frames} == {msg_id}
    calls = [{frame["call_id"] for frame in frames if "call_id" in frame} for frames in (first, second)]
    assert len(calls[0]) == len(calls[1]) == 3
    assert not calls[0] & calls[1]


def test_row_09_a_card_waits_then_runs_or_is_cancelled(start: Start) -> None:
    host = start()
    frames = host.turn("go", "m1")
    for call in ("t1", "t2", "t3"):
        assert [frame["type"] for frame in frames if frame.get("call_id") == call] == [
            "tool_request", "tool_running", "tool_result",
        ]  # fmt: skip
    frames = host.turn("again", "m2", allow=False)
    assert "tool_result" not in kinds(frames)
    assert {frame["reason"] for frame in frames if frame["type"] == "tool_cancelled"} == {"User cancelled"}


def test_row_09_a_card_that_nobody_answers_waits_without_limit(start: Start) -> None:
    """As long as anybody could test it: no deadline is set, and a sign of life comes meanwhile."""
    assert Settings("/").approval_timeout == 0
    host = start()
    host.prompt("go", "m1")
    host.until("tool_request")
    host.until("tool_request")
    host.send({"type": "ping"})
    assert host.frame() == {"type": "pong"}


def test_row_10_arguments_have_the_names_that_cards_are_made_of(start: Start) -> None:
    requests = [frame["tool"] for frame in start().turn("go", "m1") if frame["type"] == "tool_request"]
    by_name = {tool["name"]: tool for tool in requests}
    assert by_name["Bash"]["args"]["command"] == "echo hello"
    assert by_name["Write"]["args"]["file_path"] == by_name["Edit"]["args"]["file_path"] == "a.txt"
    assert all(tool["description"] and "\n" not in tool["description"] for tool in requests)


def test_row_11_results_have_the_words_that_cards_know(start: Start) -> None:
    results = {frame["tool_name"]: frame for frame in start().turn("go", "m1") if frame["type"] == "tool_result"}
    assert {frame["status"] for frame in results.values()} == {"success"}
    assert all(isinstance(frame["output"], str) for frame in results.values())
    assert results["Bash"]["output_type"] == "text"
    assert (results["Edit"]["output_type"], results["Edit"]["metadata"]["file_path"]) == ("diff", "a.txt")
    failed = start(script=SLOW % "exit 3").turn("go", "m1")
    assert [frame["status"] for frame in failed if frame["type"] == "tool_result"] == ["error"]


def test_row_12_a_run_is_never_silent_for_long(start: Start) -> None:
    """Here a sign of life is set to come every 0.4 s; as it ships, every nine."""
    assert Settings("/").heartbeat <= 10 < DEAD
    settings = start.place.folder / ".config" / "polylect" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("heartbeat = 0.4\n")
    sleepers = Sleepers(start.place)
    host = start("--auto-approve", script=SLOW % sleepers.command())
    host.prompt("go", "m1")
    host.until("tool_running")
    sleepers.wait_until_started()
    assert [host.frame() for _ in range(3)] == [
        {"type": "tool_running", "msg_id": "m1", "call_id": "t1", "tool_name": "Bash"}
    ] * 3
    assert host.stopped_being_heard < DEAD


def test_row_13_it_goes_on_after_a_stop(start: Start) -> None:
    host = start(script=HANG)
    for number in range(3):
        host.prompt("hang", f"m{number}")
        host.until("stream_start")
        host.send({"type": "stop"})
        assert host.until("stream_end")[-1]["msg_id"] == f"m{number}"
    assert "Fine." in str(host.turn("hello", "m9"))


def test_row_14_settings_histories_and_servers_may_come_at_any_time(start: Start) -> None:
    anything = [
        {"type": "set_mode", "mode": "auto_edit"},
        {"type": "set_config", "thinking": "enabled", "thinking_budget": 5000},
        {"type": "set_config", "model": "other", "effort": "none-such"},
        {"type": "init_history", "text": "[Assistant System Rules]\nBe brief."},
        {"type": "add_mcp_server", "name": "x", "transport": "stdio", "command": "no-such-program-here"},
    ]
    host = start(script=HANG)
    host.send(*anything)
    host.turn("hello", "m1")
    host.prompt("hang", "m2")
    host.until("stream_start")
    host.send(*anything, {"type": "stop"})
    while host.frame() != {"type": "stream_end", "msg_id": "m2", "usage": {"input_tokens": 0, "output_tokens": 0}}:
        pass
    host.send(*anything)
    assert "Fine." in str(host.turn("hello", "m3"))
    assert host.finish()[1] == 0


def test_whether_the_model_can_see_pictures_can_be_set(start: Start) -> None:
    host = start()
    host.send({"type": "set_config", "image_input": "unsupported"})
    assert host.until("config_changed")[-1]["capabilities"]["image_input"] == "unsupported"
    host.send({"type": "set_config", "image_input": "maybe"})
    assert "image_input" in host.until("error")[-1]["error"]["message"]


def test_row_15_sigterm_ends_it_and_all_it_started(start: Start) -> None:
    sleepers = Sleepers(start.place)
    host = start("--auto-approve", script=SLOW % sleepers.command())
    host.prompt("go", "m1")
    sleepers.wait_until_started()
    host.signal(signal.SIGTERM)
    host.wait(within=5)
    sleepers.wait_until_gone()


def test_row_16_the_version_is_one_line(place: Place, programs: Path) -> None:
    done = version(place, programs)
    assert re.fullmatch(r"aionrs \d+\.\d+\.\d+\n", done.stdout)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_row_has_its_test() -> None:
    assert {int(name[9:11]) for name in globals() if name.startswith("test_row_")} == set(range(1, 17))


def test_the_settings_page_is_told_where_the_settings_are(place: Place, programs: Path) -> None:
    """Not a row of its own: it runs `aionrs --config-path` and edits that file."""
    assert settings_file(place, programs).name == "config.toml"
