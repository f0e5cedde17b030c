"""What no host should send, and lines that no host could read."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import called, step, text
from dialects.claude.engine_driver import EngineDriver, user
from polylect.dialects.claude.versions import MAX_FRAME
from polylect.vocab.commands import Configure, MalformedCommand, Quit, UnknownCommand
from polylect.vocab.content import Image
from polylect.vocab.events import Ask, Notice, ToolFinished, TurnEnded, TurnStarted
from thoroughness import up_to

BAD = [
    b"not JSON",
    b"[]",
    b"{}",
    b'{"type": 7}',
    b'{"type": "user"}',
    b'{"type": "user", "message": {"role": "assistant", "content": "x"}}',
    b'{"type": "user", "message": {"role": "user"}}',
    b'{"type": "user", "message": {"role": "user", "content": [{"type": "image", "source": {}}]}}',
    b'{"type": "user", "message": {"role": "user", "content": [7]}}',
    b'{"type": "user", "uuid": 7, "message": {"role": "user", "content": "x"}}',
    b'{"type": "control_request"}',
    b'{"type": "control_request", "request_id": 7, "request": {"subtype": "interrupt"}}',
    b'{"type": "control_response"}',
    b'{"type": "update_environment_variables"}',
]


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_answered_with_a_notice_and_skipped(line: bytes) -> None:
    """I2."""
    driver = EngineDriver()
    [command] = driver.receive(line)
    assert isinstance(command, MalformedCommand)
    [notice] = driver.frames
    assert (notice["subtype"], notice["level"]) == ("informational", "warning")
    assert driver.codec.exit_code == 0
    assert driver.prompt()


@pytest.mark.parametrize("kind", ["approve", "deny", "abort", "tool_result", "weather"])
def test_a_type_that_nobody_knows_is_told_and_skipped(kind: str) -> None:
    driver = EngineDriver()
    [command] = driver.receive({"type": kind})
    assert isinstance(command, UnknownCommand)
    assert driver.names == ["system/informational"]


def test_signs_of_life_are_taken_in_silence() -> None:
    driver = EngineDriver()
    assert driver.receive({"type": "keep_alive"}) == []
    [configure] = driver.receive({"type": "update_environment_variables", "variables": {"A": "1"}})
    assert configure == Configure({"environment": {"A": "1"}})
    assert driver.names == []


def test_strict_input_ends_the_conversation() -> None:
    driver = EngineDriver(strict=True)
    assert [type(command) for command in driver.receive(b"what?")] == [MalformedCommand, Quit]
    assert driver.codec.exit_code == 1


def test_a_line_beyond_all_bounds_is_skipped() -> None:
    driver = EngineDriver(max_line=100)
    [command] = driver.receive(user("x" * 200))
    assert isinstance(command, MalformedCommand)
    assert driver.names == ["system/informational"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("message", "uuid", "request_id", "request", "response", "variables", "priority")
SUBTYPES = ("initialize", "interrupt", "mcp_set_servers", "set_model", "rewind_files", "apply_flag_settings")


@given(
    kind=st.sampled_from(("user", "control_request", "control_response", "update_environment_variables")),
    fields=st.dictionaries(st.sampled_from(KEYS), JSON),
    subtype=st.sampled_from(SUBTYPES),
    inner=st.dictionaries(st.sampled_from(("hooks", "servers", "model", "settings", "agents", "systemPrompt")), JSON),
)
@settings(max_examples=up_to(150), deadline=None)
def test_no_frame_is_ever_a_fault_of_ours(kind: str, fields: dict, subtype: str, inner: dict) -> None:  # type: ignore[type-arg]
    driver = EngineDriver()
    driver.receive({"type": kind, **fields})
    driver.request(subtype, **inner)
    driver.send(Ask("a1", call="c1", name="Bash"))
    driver.respond("a1", fields.get("response"))
    assert all(isinstance(frame, dict) for frame in driver.frames)


# Lines that are not too long.


def test_no_line_is_longer_than_a_python_host_can_read() -> None:
    long = "\x00é" * (MAX_FRAME // 2)
    driver = EngineDriver(partial=True)
    turn = driver.prompt()
    image = Image("image/png", "A" * (2 * MAX_FRAME))
    finished = (
        ToolFinished("c1", "Bash", long, metadata={"path": "/spill/1.txt"}, turn=turn),
        ToolFinished("c2", "Read", "see", images=(image,), turn=turn),
    )
    calls = [*called("c1", "Bash", {"command": long}, turn=turn), *called("c2", "Read", {}, turn=turn)]
    driver.send(TurnStarted(turn=turn), *step(text(long, turn=turn), calls, turn=turn, then=finished))
    driver.send(Notice(long), TurnEnded("end", turn=turn))
    data = driver.codec.data_to_send()
    lines = data.splitlines()
    assert max(map(len, lines)) < MAX_FRAME
    frames = [json.loads(line) for line in lines]
    blocks = [frame["message"]["content"][0] for frame in frames if frame["type"] == "assistant"]
    assert "".join(block["text"] for block in blocks if block["type"] == "text") == long
    one, two = [frame["message"]["content"][0]["content"] for frame in frames if frame["type"] == "user"]
    assert "the whole is in /spill/1.txt" in one
    assert "image/png: too large" in two
