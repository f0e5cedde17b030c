"""Deltas are written without making a frame of each; nobody can tell."""

import json

import msgspec
import pytest

from dialects.claude.engine_driver import EngineDriver
from dialects.claude.host_talk import Host, only
from polylect.dialects.claude.engine.line_writer import PIECE
from polylect.dialects.claude.frames.turn import StreamEvent
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Text
from polylect.vocab.events import (
    BlockEnded,
    ReplyEnded,
    StepEnded,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnStarted,
)

AWKWARD = ('say "hi"\\n', "tab\tline\n", "\0", "\u2028\u2029", "é漢🦊", "")


@pytest.mark.parametrize("kind", [TextDelta, ThinkingDelta])
def test_a_delta_is_the_frame_it_would_be_if_made_as_one(kind: type[TextDelta | ThinkingDelta]) -> None:
    driver = EngineDriver(partial=True)
    turn = driver.prompt()
    driver.send(TurnStarted(turn=turn), StepStarted(turn=turn), *(kind(text, turn=turn) for text in AWKWARD))
    lines = [line for line in driver.codec.data_to_send().splitlines() if b"content_block_delta" in line]
    field = "text" if kind is TextDelta else "thinking"
    assert [json.loads(line)["event"]["delta"][field] for line in lines] == list(AWKWARD)
    for line in lines:
        assert msgspec.json.encode(msgspec.json.decode(line, type=StreamEvent)) == _plain(line)


def test_half_a_character_becomes_the_sign_for_one() -> None:
    driver = EngineDriver(partial=True)
    turn = driver.prompt()
    driver.send(TurnStarted(turn=turn), StepStarted(turn=turn), TextDelta("a\ud800", turn=turn))
    assert '"text":"a\ufffd"' in driver.codec.data_to_send().decode()


def test_a_block_that_is_longer_than_a_line_is_one_block_of_one_step_for_the_host() -> None:
    driver, host = EngineDriver(partial=True), Host()
    turn, long = driver.prompt(), "x" * (2 * PIECE + 1)
    host.send(Prompt("t", "go"))
    events = [TextDelta(long, turn=turn), BlockEnded(Text(long), turn=turn), ReplyEnded("end", turn=turn)]
    driver.send(
        TurnStarted(turn=turn), StepStarted(turn=turn), *events, StepEnded(turn=turn), TurnEnded("end", turn=turn)
    )
    received = host.receive(*driver.codec.data_to_send().decode().splitlines())
    assert "".join(event.text for event in only(received, TextDelta)) == long
    assert [event.block for event in only(received, BlockEnded)] == [Text(long)]
    assert len(only(received, StepStarted)) == 1


def _plain(line: bytes) -> bytes:
    """The two line separators are written as escapes on the wire."""
    return line.replace(rb"\u2028", "\u2028".encode()).replace(rb"\u2029", "\u2029".encode())
