"""The worked conversations of seed 004 with the real process, byte for byte."""

import json

import pytest

from engine_process import Place, approve, message

OLD = ("--protocol", "0.1.0")
USAGE = "usage = { input = 1500, output = 320, cache_read = 800, cache_write = 200 }"
SPENT = '"usage":{"input_tokens":1500,"output_tokens":320,"cache_read_tokens":800,"cache_write_tokens":200}'

WRITE = f"""
[[reply]]
when.step = 1
say = [
    {{ text = "I'll create the file." }},
    {{ call = "Write", id = "t1", args = {{ file_path = "hello.rs", content = "fn main() {{}}\\n" }} }},
]

[[reply]]
when.result.outcome = "ok"
text = "File created successfully."
{USAGE}

[[reply]]
when.result = {{ outcome = "denied", contains = "Not allowed to write this file" }}
text = "Then I leave it."
"""
REQUEST = (
    '{"type":"tool_request","msg_id":"m2","call_id":"t1","tool":{"name":"Write","category":"edit",'
    '"args":{"file_path":"hello.rs","content":"fn main() {}\\n"},"description":"Write to hello.rs"}}'
)

TWO_READS = """
[[reply]]
when.step = 1
say = [
    { call = "Read", id = "t1", args = { file_path = "a.txt" } },
    { call = "Read", id = "t2", args = { file_path = "b.txt" } },
]

[[reply]]
text = "{calls}"
usage = { input = 10, output = 5 }
"""

COMMANDS = """
[[reply]]
when.step = 1
say = [
    { call = "Write", id = "{prompt}-write", args = { file_path = "{prompt}.txt", content = "x" } },
    { call = "Bash", id = "{prompt}-bash", args = { command = "true" } },
]

[[reply]]
text = "done"
"""


def test_ready_comes_first_and_has_the_bytes_of_the_seed(place: Place) -> None:
    engine = place.start(*OLD, "--session-id", "a1b2c3")
    expected = (
        b'{"type":"ready","version":"0.1.0","session_id":"a1b2c3",'
        b'"capabilities":{"tool_approval":true,"thinking":true,"mcp":false}}'
    )
    assert engine.line() == expected


def test_without_sessions_ready_has_no_session_id(place: Place) -> None:
    assert "session_id" not in place.started(*OLD, "--no-session").ready


def test_a_single_turn(place: Place) -> None:
    engine = place.started(*OLD, script=f'[[reply]]\ntext = ["Hi! ", "How can I help?"]\n{USAGE}')
    engine.talk(f"""
        → {{"type":"message","msg_id":"m1","input":"Hello"}}
        ← {{"type":"stream_start","msg_id":"m1"}}
        ← {{"type":"text_delta","text":"Hi! ","msg_id":"m1"}}
        ← {{"type":"text_delta","text":"How can I help?","msg_id":"m1"}}
        ← {{"type":"stream_end","msg_id":"m1",{SPENT}}}
    """)
    assert engine.finish() == ([], 0)


def test_the_built_in_script_greets_like_the_seed(place: Place) -> None:
    engine = place.started(*OLD)
    engine.talk("""
        → {"type":"message","msg_id":"m1","input":"Hello"}
        ← {"type":"stream_start","msg_id":"m1"}
        ← {"type":"text_delta","text":"Hi! ","msg_id":"m1"}
        ← {"type":"text_delta","text":"How can I help?","msg_id":"m1"}
    """)
    assert engine.frame()["type"] == "stream_end"


def test_thinking_is_a_frame_of_its_own(place: Place) -> None:
    engine = place.started(*OLD, script='[[reply]]\nsay = [{ thinking = "Let me analyze..." }, "Fine."]')
    engine.talk("""
        → {"type":"message","msg_id":"abc-123","input":"?"}
        ← {"type":"stream_start","msg_id":"abc-123"}
        ← {"type":"thinking","text":"Let me analyze...","msg_id":"abc-123"}
        ← {"type":"text_delta","text":"Fine.","msg_id":"abc-123"}
    """)


def test_a_tool_with_approval(place: Place) -> None:
    engine = place.started(*OLD, script=WRITE)
    engine.talk(f"""
        → {{"type":"message","msg_id":"m2","input":"Create a hello.rs file"}}
        ← {{"type":"stream_start","msg_id":"m2"}}
        ← {{"type":"text_delta","text":"I'll create the file.","msg_id":"m2"}}
        ← {REQUEST}
    """)
    assert not (place.workspace / "hello.rs").exists()
    result = '"tool_name":"Write","status":"success","output":"Created hello.rs (1 lines)"'
    engine.send(approve("t1"))
    assert engine.line() == b'{"type":"tool_running","msg_id":"m2","call_id":"t1","tool_name":"Write"}'
    finished = engine.line().decode()
    assert finished.startswith(f'{{"type":"tool_result","msg_id":"m2","call_id":"t1",{result},"output_type":"text"')
    assert engine.line() == b'{"type":"text_delta","text":"File created successfully.","msg_id":"m2"}'
    assert engine.frame()["type"] == "stream_end"
    assert (place.workspace / "hello.rs").read_text() == "fn main() {}\n"


def test_an_edit_answers_with_a_diff_and_the_path(place: Place) -> None:
    (place.workspace / "main.rs").write_text("old line\n")
    script = """
    [[reply]]
    when.step = 1
    say = [{ call = "Read", args.file_path = "main.rs" }]

    [[reply]]
    when.step = 2
    say = [{ call = "Edit", id = "t2", args = { file_path = "main.rs", old_string = "old", new_string = "new" } }]

    [[reply]]
    text = "Done."
    """
    engine = place.started(*OLD, script=script)
    engine.send(message("edit it", "abc-123"))
    engine.until("tool_request")
    engine.talk(r"""
        → {"type":"tool_approve","call_id":"t2","scope":"once"}
        ← {"type":"tool_running","msg_id":"abc-123","call_id":"t2","tool_name":"Edit"}
    """)
    result = engine.frame()
    assert list(result) == [
        "type",
        "msg_id",
        "call_id",
        "tool_name",
        "status",
        "output",
        "output_type",
        "metadata",
    ]
    assert result["output"].startswith("--- a/main.rs\n+++ b/main.rs\n@@ -1")
    assert "\n-old line\n+new line" in result["output"]
    assert (result["output_type"], result["metadata"]) == ("diff", {"file_path": "main.rs"})


def test_several_tools_at_once_are_asked_for_together_and_run_together(place: Place) -> None:
    """A3."""
    place.configure("[tools]\nallow_list = []")
    for name in ("a.txt", "b.txt"):
        (place.workspace / name).write_text(f"{name}\n")
    engine = place.started(*OLD, script=TWO_READS)
    requested = '{"type":"tool_request","msg_id":"m1",'
    read = '"tool":{"name":"Read","category":"info","args":{"file_path":'
    engine.talk(f"""
        → {{"type":"message","msg_id":"m1","input":"Read both"}}
        ← {{"type":"stream_start","msg_id":"m1"}}
        ← {requested}"call_id":"t1",{read}"a.txt"}},"description":"Read a.txt"}}}}
        ← {requested}"call_id":"t2",{read}"b.txt"}},"description":"Read b.txt"}}}}
        → {{"type":"tool_approve","call_id":"t1","scope":"once"}}
        → {{"type":"tool_approve","call_id":"t2","scope":"once"}}
        ← {{"type":"tool_running","msg_id":"m1","call_id":"t1","tool_name":"Read"}}
        ← {{"type":"tool_running","msg_id":"m1","call_id":"t2","tool_name":"Read"}}
    """)
    results = sorted((engine.frame(), engine.frame()), key=lambda frame: str(frame["call_id"]))
    assert [(frame["type"], frame["call_id"], frame["status"]) for frame in results] == [
        ("tool_result", "t1", "success"),
        ("tool_result", "t2", "success"),
    ]
    assert "a.txt" in results[0]["output"]


def test_several_tools_are_answered_in_any_order_and_each_for_itself(place: Place) -> None:
    """A3: a no to one is no answer to the other."""
    place.configure("[tools]\nallow_list = []")
    (place.workspace / "a.txt").write_text("a\n")
    engine = place.started(*OLD, script=TWO_READS)
    engine.send(message("Read both"))
    engine.until("tool_request")
    engine.talk("""
        → {"type":"tool_deny","call_id":"t2","reason":"not that one"}
    """)
    assert engine.frame()["call_id"] == "t2"
    assert engine.line() == b'{"type":"tool_cancelled","msg_id":"m1","call_id":"t2","reason":"not that one"}'
    engine.send(approve("t1"))
    assert [frame["type"] for frame in engine.until("stream_end")][:2] == ["tool_running", "tool_result"]


def test_the_reason_of_a_denial_reaches_the_model(place: Place) -> None:
    engine = place.started(*OLD, script=WRITE)
    engine.send(message("Create a hello.rs file", "m2"))
    engine.until("tool_request")
    engine.talk("""
        → {"type":"tool_deny","call_id":"t1","reason":"Not allowed to write this file"}
        ← {"type":"tool_cancelled","msg_id":"m2","call_id":"t1","reason":"Not allowed to write this file"}
        ← {"type":"text_delta","text":"Then I leave it.","msg_id":"m2"}
    """)
    assert engine.frame()["type"] == "stream_end"
    assert not (place.workspace / "hello.rs").exists()


def test_init_history_reaches_the_model(place: Place) -> None:
    """T7."""
    script = """
    [[reply]]
    when.system = "User asked about X..."
    text = "I remember."

    [[reply]]
    text = "I know nothing."
    """
    engine = place.started(*OLD, script=script)
    engine.talk(r"""
        → {"type":"init_history","text":"Previous conversation summary:\nUser asked about X...\nAssistant replied..."}
        → {"type":"message","msg_id":"m1","input":"And now?"}
        ← {"type":"stream_start","msg_id":"m1"}
        ← {"type":"text_delta","text":"I remember.","msg_id":"m1"}
    """)


@pytest.mark.parametrize(
    ("mode", "asked"),
    [("default", ["Write", "Bash"]), ("auto_edit", ["Bash"]), ("yolo", [])],
)
def test_set_mode_decides_what_is_asked_for(place: Place, mode: str, asked: list[str]) -> None:
    """A7."""
    engine = place.started(*OLD, script=COMMANDS)
    engine.send({"type": "set_mode", "mode": mode}, message("one"))
    frames = engine.until("config_changed")
    assert frames[-1]["capabilities"]["current_mode"] == mode
    waiting = [engine.until("tool_request")[-1] for _ in asked]
    assert [frame["tool"]["name"] for frame in waiting] == asked
    engine.send(*(approve(frame["call_id"]) for frame in waiting))
    results = [frame for frame in engine.until("stream_end") if frame["type"] == "tool_result"]
    assert all(frame["status"] == "success" for frame in results)


def test_auto_approve_starts_in_yolo_mode(place: Place) -> None:
    engine = place.started(*OLD, "--auto-approve", script=COMMANDS)
    engine.send(message("one"))
    kinds = [frame["type"] for frame in engine.until("stream_end")]
    assert "tool_request" not in kinds
    assert kinds.count("tool_result") == 2


def test_always_allows_the_category_for_this_session(place: Place) -> None:
    """A4: another tool of the category would be allowed too; another category is not."""
    engine = place.started(*OLD, script=COMMANDS)
    engine.send(message("one", "m1"))
    engine.until("tool_request")
    engine.until("tool_request")
    engine.send(approve("one-write", "always"), approve("one-bash"))
    engine.until("stream_end")
    engine.send(message("two", "m2"))
    frames = engine.until("tool_request")
    assert frames[-1]["tool"]["name"] == "Bash"
    engine.send(approve("two-bash"))
    engine.until("stream_end")
    assert (place.workspace / "two.txt").exists()


def test_an_unknown_command_is_answered_with_the_bytes_of_the_seed(place: Place) -> None:
    """I2."""
    fault = '{"code":"protocol_error","message":"Unknown command type: foo","retryable":false}'
    place.started(*OLD).talk(f"""
        → {{"type":"foo"}}
        ← {{"type":"error","msg_id":null,"error":{fault}}}
        → {{"type":"ping"}}
        ← {{"type":"pong"}}
    """)


def test_malformed_json_is_answered_and_the_conversation_goes_on(place: Place) -> None:
    """I2."""
    engine = place.started(*OLD)
    engine.send(b"{nonsense\n")
    error = engine.frame()
    assert list(error) == ["type", "msg_id", "error"]
    assert (error["msg_id"], error["error"]["code"], error["error"]["retryable"]) == (None, "protocol_error", False)
    engine.send(message("Hello"))
    assert engine.frame()["type"] == "stream_start"


def test_a_providers_error_ends_the_turn_and_the_conversation_goes_on(place: Place) -> None:
    script = """
    [[turn]]
    say = ["One", { error = "rate_limit", message = "Rate limit exceeded. Retry after 30s." }]

    [[turn]]
    text = "Better."
    """
    fault = '{"code":"provider_error","message":"Rate limit exceeded. Retry after 30s.","retryable":true}'
    engine = place.started(*OLD, script=script)
    engine.talk(f"""
        → {{"type":"message","msg_id":"m3","input":"Hello"}}
        ← {{"type":"stream_start","msg_id":"m3"}}
        ← {{"type":"text_delta","text":"One","msg_id":"m3"}}
        ← {{"type":"error","msg_id":"m3","error":{fault}}}
        ← {{"type":"stream_end","msg_id":"m3","usage":{{"input_tokens":0,"output_tokens":0}}}}
        → {{"type":"message","msg_id":"m4","input":"Hello again"}}
        ← {{"type":"stream_start","msg_id":"m4"}}
        ← {{"type":"text_delta","text":"Better.","msg_id":"m4"}}
    """)


def test_a_missing_key_is_a_config_error_frame_and_an_exit(place: Place) -> None:
    done = place.run("--json-stream", *OLD, "--provider", "anthropic")
    (frame,) = done.frames
    assert done.code != 0
    assert (frame["type"], frame["msg_id"]) == ("error", None)
    assert frame["error"]["code"] == "config_error"
    assert frame["error"]["message"].startswith("ANTHROPIC_API_KEY")
    assert "not set" in frame["error"]["message"]
    assert "scripted" in done.errors
    assert done.errors.count("\n") == 1


def test_in_the_wire_of_wayland_nothing_goes_to_stdout_before_ready(place: Place) -> None:
    done = place.run("--json-stream", "--provider", "anthropic")
    assert (done.out, done.code != 0) == (b"", True)
    assert "ANTHROPIC_API_KEY" in done.errors


def test_a_session_is_resumed_with_what_was_said(place: Place) -> None:
    """S2, S4: nothing is replayed, all is remembered."""
    script = """
    [[turn]]
    text = "First."

    [[turn]]
    text = "Second, after {prompt}."
    """
    first = place.started(*OLD, "--session-id", "my-conv-123", script=script)
    first.send(message("one"))
    first.until("stream_end")
    assert first.finish() == ([], 0)
    for flag in ("my-conv-123", "latest"):
        again = place.started(*OLD, "--resume", flag, script=script)
        assert again.ready["session_id"] == "my-conv-123"
        again.send({"type": "ping"})
        assert again.frame() == {"type": "pong"}
        again.finish()
    again = place.started(*OLD, "--resume", "latest", script=script)
    again.send(message("two", "m2"))
    said = [frame["text"] for frame in again.until("stream_end") if frame["type"] == "text_delta"]
    assert "".join(said) == "Second, after two."


def test_answers_that_nobody_asked_for_are_refused(place: Place) -> None:
    """A1: unknown, and answered before."""
    engine = place.started(*OLD, script=WRITE)
    engine.send(approve("nothing"))
    assert engine.frame()["error"]["code"] == "protocol_error"
    engine.send(message("Create a hello.rs file", "m2"))
    engine.until("tool_request")
    engine.send(json.dumps({"type": "tool_approve", "call_id": "t1", "scope": "perhaps"}))
    assert engine.frame()["type"] == "error"
    assert not (place.workspace / "hello.rs").exists()
    engine.send(approve("t1"), approve("t1"))
    frames = engine.until("stream_end")
    assert [frame["error"]["code"] for frame in frames if frame["type"] == "error"] == ["protocol_error"]
    assert sum(frame["type"] == "tool_result" for frame in frames) == 1
