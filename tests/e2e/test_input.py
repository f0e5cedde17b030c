"""What comes in: I1, I2 and I4 with the real process; and I3, what may go out."""

import json
import os
import subprocess

import pytest

from engine_process import PATIENCE, Engine, Place, message

OLD = ("--protocol", "0.1.0")
MIB = 1024 * 1024
ECHO = '[[reply]]\ntext = "<{prompt}>"'
PING = b'{"type":"ping"}\n'


def pongs(engine: Engine, count: int = 1) -> None:
    assert [engine.frame() for _ in range(count)] == [{"type": "pong"}] * count


def idle(engine: Engine) -> int:
    """What it needs with all that it loads while nobody speaks, which is not what a line costs."""
    engine.send(PING)
    pongs(engine)
    engine.wait_until_stuck()
    return engine.resident


# I1: lines.


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"type":"ping"}\r\n', id="a carriage return"),
        pytest.param(b"\n\r\n  \n\t\n" + PING, id="blank lines"),
        pytest.param(b'  {"type":"ping"}  \n', id="spaces around"),
        pytest.param(b'{ "type" :\t"ping" }\n', id="spaces inside"),
        pytest.param(b'{"type":"ping","unknown":{"field":[1,2]}}\n', id="a field nobody knows"),
        pytest.param(b'{"type":"\\u0070ing"}\n', id="an escape"),
    ],
)
def test_what_is_tolerated(place: Place, data: bytes) -> None:
    engine = place.started(*OLD)
    engine.send(data)
    pongs(engine)


def test_a_byte_order_mark_before_the_first_line_is_tolerated(place: Place) -> None:
    engine = place.started(*OLD)
    engine.send(b"\xef\xbb\xbf" + PING)
    pongs(engine)


def test_any_chunking(place: Place) -> None:
    """One byte at a time, also within a character."""
    engine = place.started(*OLD, script=ECHO)
    for byte in json.dumps(message("Grüße 🙂"), ensure_ascii=False).encode() + b"\n" + PING:
        engine.send(bytes([byte]))
    frames = engine.until("stream_end")
    assert "<Grüße 🙂>" in [frame.get("text") for frame in frames]


def test_many_commands_in_one_write(place: Place) -> None:
    engine = place.started(*OLD)
    engine.send(PING * 1000)
    pongs(engine, 1000)


def test_only_lf_splits(place: Place) -> None:
    """I1, I3: U+2028, U+2029 and U+0085 are text; on the way out the first two are escaped."""
    engine = place.started(*OLD, script=ECHO)
    text = "a\u2028b\u2029c\u0085d\x0be\x1cf"
    engine.send(message(text))
    assert engine.frame()["type"] == "stream_start"
    line = engine.line()
    assert json.loads(line)["text"] == f"<{text}>"
    assert b"a\\u2028b\\u2029c" in line
    assert "\u2028".encode() not in line


def test_a_line_of_20_mb_is_a_prompt(place: Place) -> None:
    """I1: and costs hardly more than four times its length."""
    script = """
    [[reply]]
    when.prompt.regex = 'x(THE END)$'
    text = "{match.1}"
    """
    engine = place.started(*OLD, script=script)
    before = idle(engine)
    engine.send(message("x" * 20_000_000 + "THE END"))
    frames = engine.until("stream_end")
    assert [frame["text"] for frame in frames if frame["type"] == "text_delta"] == ["THE END"]
    assert engine.peak < before + 80 * MIB


def test_a_line_over_the_limit_is_answered_once_and_skipped(place: Place) -> None:
    """I1."""
    engine = place.started(*OLD, "--max-line", "1000")
    engine.send(json.dumps(message("x" * 1_000_000)).encode() + b"\n" + PING)
    error = engine.frame()
    assert (error["type"], error["error"]["code"]) == ("error", "protocol_error")
    assert "1000 bytes" in error["error"]["message"]
    pongs(engine)


def test_an_endless_line_costs_no_memory(place: Place) -> None:
    """I1."""
    engine = place.started(*OLD, "--max-line", "1000000")
    before = idle(engine)
    for _ in range(64):
        engine.send(b"x" * MIB)
    assert engine.frame()["type"] == "error"
    engine.send(b"\n" + PING)
    pongs(engine)
    assert engine.peak < before + 8 * MIB


# I2: what is wrong is answered, once, and nothing else happens.

WRONG = {
    "not json": b"hello\n",
    "half of an object": b'{"type":"ping"\n',
    "an array": b"[1,2]\n",
    "a string": b'"ping"\n',
    "null": b"null\n",
    "a number": b"1\n",
    "two objects": b'{"type":"ping"}{"type":"ping"}\n',
    "a duplicate key": b'{"type":"ping","type":"stop"}\n',
    "a duplicate key inside": b'{"type":"message","msg_id":"a","input":"b","x":{"y":1,"y":2}}\n',
    "NaN": b'{"type":"ping","x":NaN}\n',
    "Infinity": b'{"type":"ping","x":-Infinity}\n',
    "a comment": b'{"type":"ping"} // really\n',
    "a trailing comma": b'{"type":"ping",}\n',
    "single quotes": b"{'type':'ping'}\n",
    "a raw control character": b'{"type":"message","msg_id":"a","input":"\x01"}\n',
    "invalid UTF-8": b'{"type":"message","msg_id":"a","input":"\xff\xfe"}\n',
    "a cut character": b'{"type":"message","msg_id":"a","input":"\xe2\x82"}\n',
    "UTF-16": '{"type":"ping"}'.encode("utf-16-le") + b"\n",
    "deep nesting": b'{"type":"ping","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "deep nesting that never ends": b"[" * 200_000 + b"\n",
    "an endless number": b'{"type":"ping","x":' + b"9" * 100_000 + b"}\n",
    "no type": b'{"msg_id":"a"}\n',
    "a type that is a number": b'{"type":1}\n',
    "an empty type": b'{"type":""}\n',
    "an unknown type": b'{"type":"reboot"}\n',
    "an event": b'{"type":"stream_end","msg_id":"m1"}\n',
    "a very long type": b'{"type":"' + b"x" * 100_000 + b'"}\n',
    "no msg_id": b'{"type":"message","input":"Hello"}\n',
    "an empty msg_id": b'{"type":"message","msg_id":"","input":"Hello"}\n',
    "a msg_id that is a number": b'{"type":"message","msg_id":1,"input":"Hello"}\n',
    "no input": b'{"type":"message","msg_id":"a"}\n',
    "an input that is null": b'{"type":"message","msg_id":"a","input":null}\n',
    "files that are a string": b'{"type":"message","msg_id":"a","input":"b","files":"c"}\n',
    "no call_id": b'{"type":"tool_approve"}\n',
    "an unknown call_id": b'{"type":"tool_deny","call_id":"nobody"}\n',
    "an unknown mode": b'{"type":"set_mode","mode":"root"}\n',
    "a mode that is a list": b'{"type":"set_mode","mode":["yolo"]}\n',
    "no text": b'{"type":"init_history"}\n',
    "a server without transport": b'{"type":"add_mcp_server","name":"x"}\n',
}


@pytest.mark.parametrize("protocol", ["0.1.0", "0.2.0"])
def test_everything_wrong_gets_one_error_and_the_next_line_is_read(place: Place, protocol: str) -> None:
    """I2, L2."""
    engine = place.started("--protocol", protocol)
    for name, data in WRONG.items():
        engine.send(data + PING)
        frames = engine.until("pong")
        errors = [frame for frame in frames if frame["type"] == "error"]
        assert len(errors) == 1, (name, frames)
        assert errors[0]["error"]["code"] == "protocol_error", name
        assert len(errors[0]["error"]["message"]) < 500, name
        assert {frame["type"] for frame in frames} <= {"error", "pong", "mcp_failed"}, name
    assert engine.finish() == ([], 0)
    assert engine.errors == ""


def test_a_refused_prompt_is_ended_too(place: Place) -> None:
    """L1, T7: a host that waits for its msg_id is not left waiting."""
    engine = place.started(*OLD)
    engine.send({**message("look"), "files": ["missing.png"]})
    error, end = engine.frame(), engine.frame()
    assert (error["type"], error["msg_id"]) == ("error", "m1")
    assert "missing.png" in error["error"]["message"]
    assert (end["type"], end["msg_id"]) == ("stream_end", "m1")


def test_an_attached_text_reaches_the_model(place: Place) -> None:
    """T7."""
    (place.workspace / "notes.txt").write_text("the port is 8080")
    script = '[[reply]]\nwhen.history = "the port is 8080"\ntext = "8080"\n[[reply]]\ntext = "no idea"'
    engine = place.started(*OLD, script=script)
    engine.send({**message("look"), "files": ["notes.txt"]})
    assert engine.until("stream_end")[1]["text"] == "8080"


# I3 and I4: the streams of an engine are its own.


def test_children_get_no_input_and_do_not_write_to_our_output(place: Place) -> None:
    script = """
    [[reply]]
    when.step = 1
    say = [{ call = "Bash", args.command = "cat; echo out; echo err >&2; ls -l /proc/self/fd" }]

    [[reply]]
    text = "Done."
    """
    engine = place.started(*OLD, "--force", script=script)
    engine.send(message("run"), PING)
    frames = engine.until("stream_end")
    (result,) = (frame for frame in frames if frame["type"] == "tool_result")
    assert "out\n" in result["output"]
    assert "err\n" in result["output"]
    assert "0 -> /dev/null" in result["output"]
    assert str(place.sessions) not in result["output"]
    assert engine.errors == ""


def test_stray_prints_do_not_reach_the_host(place: Place) -> None:
    """I3: neither Python's nor C's, from whatever is loaded into the engine."""
    loud = place.folder / "loud"
    loud.mkdir()
    (loud / "sitecustomize.py").write_text(
        "import builtins, os, sys\n"
        "real = builtins.__import__\n"
        "def noisy(name, *rest, **more):\n"
        "    if name == 'asyncio':\n"
        "        print('stray'); os.write(1, b'stray\\n')\n"
        "    return real(name, *rest, **more)\n"
        "builtins.__import__ = noisy\n"
    )
    env = {**place.env, "PYTHONPATH": f"{loud}{os.pathsep}{place.env['PYTHONPATH']}"}
    supplied = json.dumps(message("Hello")).encode()
    done = subprocess.run(
        place.argv(), input=supplied, env=env, cwd=place.workspace, capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0
    assert b"stray" in done.stderr
    assert all(json.loads(line)["type"] for line in done.stdout.splitlines())
