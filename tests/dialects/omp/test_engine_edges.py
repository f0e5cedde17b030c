"""What is no command, or not quite: answered, and reading goes on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialects.omp.engine_talk import EngineTalk, Frame, kinds
from polylect.dialects.omp.frames.table import COMMANDS, VERSIONS
from polylect.vocab.commands import MalformedCommand, UnknownCommand
from polylect.vocab.content import Failure
from polylect.vocab.events import Ready, Reply
from thoroughness import up_to

GARBAGE = (b"not json", b"null", b"[]", b"{}", b'{"type":5}', b'"prompt"', b"\xff\xfe", b'{"type":"prompt","type":"x"}')


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("line", GARBAGE)
def test_a_line_that_is_no_command_is_a_parse_error_without_an_id_and_reading_goes_on(
    version: str, line: bytes
) -> None:
    talk = EngineTalk(version)
    (answer,) = talk.receive(line)
    assert (answer["command"], answer["success"]) == ("parse", False)
    assert answer["error"].startswith("Failed to parse command: ")
    assert "id" not in answer
    assert isinstance(talk.commands[0], MalformedCommand)
    assert kinds(talk.ask({"type": "get_queue"})) == ["response get_queue"]


@pytest.mark.parametrize(("version", "echoed"), [("13", {}), ("pi", {"id": "x"}), ("18", {"id": "x"})])
def test_an_unknown_command_is_answered_by_its_name_and_13_leaves_out_its_id(version: str, echoed: Frame) -> None:
    talk = EngineTalk(version)
    assert talk.receive({"id": "x", "type": "dance"}) == [
        {"type": "response", **echoed, "command": "dance", "success": False, "error": "Unknown command: dance"}
    ]
    assert isinstance(talk.commands[0], UnknownCommand)


BAD: list[Frame] = [
    {"type": "prompt"},
    {"type": "prompt", "message": 5},
    {"type": "prompt", "message": "x", "images": [{"type": "image"}]},
    {"type": "set_auto_retry", "enabled": "yes"},
    {"type": "set_session_name"},
    {"type": "bash", "command": ["ls"]},
]


@pytest.mark.parametrize("frame", BAD)
def test_fields_that_make_no_sense_are_a_parse_error_in_13_and_the_commands_own_failure_later(frame: Frame) -> None:
    (old,) = EngineTalk().receive({"id": "x", **frame})
    assert (old["command"], "id" in old) == ("parse", False)
    (new,) = EngineTalk("18").receive({"id": "x", **frame})
    assert (new["command"], new["id"], new["success"]) == (frame["type"], "x", False)


@pytest.mark.parametrize("id", ["req_1", 7, 1.5, True, None, ["x"], {"a": 1}])
def test_an_id_is_echoed_whatever_it_is(id: object) -> None:
    assert EngineTalk().ask({"id": id, "type": "get_queue"})[0]["id"] == id


def test_two_commands_with_the_same_id_or_none_are_answered_each() -> None:
    talk = EngineTalk()
    talk.receive(
        {"id": "a", "type": "get_queue"}, {"id": "a", "type": "abort_bash"}, {"type": "get_state"},
    )  # fmt: skip
    frames = talk.send(*[Reply(command.ref) for command in reversed(talk.commands)])
    assert [(frame.get("id"), frame["command"]) for frame in frames] == [
        (None, "get_state"), ("a", "abort_bash"), ("a", "get_queue"),
    ]  # fmt: skip


def test_a_failure_is_recoverable_and_carries_the_commands_name_and_id() -> None:
    failure = Failure("bad_setting", "Session name cannot be empty", "host")
    assert EngineTalk().ask({"id": "n", "type": "set_session_name", "name": " "}, failure=failure) == [
        {
            "type": "response", "id": "n", "command": "set_session_name", "success": False,
            "error": "Session name cannot be empty",
        }
    ]  # fmt: skip


def test_blank_lines_carriage_returns_and_a_last_line_without_its_end_are_tolerated() -> None:
    talk = EngineTalk()
    result = talk.side.receive(b'\n \r\n{"type":"get_state"}\r\n{"type":"get_queue"}') + talk.side.receive_eof()
    assert len(result) == 2
    assert talk.frames() == []


def test_a_line_that_is_too_long_is_refused_and_costs_no_memory() -> None:
    talk = EngineTalk(max_line=100)
    (answer,) = talk.receive(b'{"type":"prompt","message":"' + b"x" * 1000 + b'"}')
    assert "longer than 100 bytes" in answer["error"]


def test_ready_is_said_once_and_not_at_all_if_it_was_said_before() -> None:
    assert EngineTalk().send(Ready(), Ready()) == [{"type": "ready"}]
    talk = EngineTalk()
    talk.side.note_sent(b'{"type":"ready"}\n')
    assert talk.send(Ready()) == []


def test_a_reply_to_nobody_is_counted() -> None:
    talk = EngineTalk()
    assert talk.send(Reply("nobody")) == []
    assert talk.side.lost["Reply"] == 1


words = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
fields = st.sampled_from(sorted({name for shape in COMMANDS.values() for name in shape.__struct_encode_fields__}))


@given(st.sampled_from(sorted(COMMANDS)), st.dictionaries(fields, words, max_size=5), st.sampled_from(VERSIONS))
@settings(max_examples=up_to(150), deadline=None)
def test_whatever_a_command_holds_it_is_understood_or_answered_and_never_raises(
    kind: str, frame: Frame, version: str
) -> None:
    talk = EngineTalk(version)
    answered = talk.receive({**frame, "type": kind})
    assert len(answered) + len(talk.commands) >= 1 or kind == "extension_ui_response" or kind.startswith("host_")
    for command in talk.commands:
        if command.ref:
            assert talk.send(Reply(command.ref, failure=Failure("x", "no", "host")))
