"""Deltas are written without making a frame of each; nobody can tell."""

import json

import msgspec
import pytest

from dialects.claude.engine_talk import Talk
from polylect.dialects.claude.shapes import StreamEvent
from polylect.vocab.events import StepStarted, TextDelta, ThinkingDelta, TurnStarted

AWKWARD = ('say "hi"\\n', "tab\tline\n", "\0", "\u2028\u2029", "é漢🦊", "")


@pytest.mark.parametrize("kind", [TextDelta, ThinkingDelta])
def test_a_delta_is_the_frame_it_would_be_if_made_as_one(kind: type[TextDelta | ThinkingDelta]) -> None:
    talk = Talk(partial=True)
    turn = talk.prompt()
    talk.say(TurnStarted(turn=turn), StepStarted(turn=turn), *(kind(text, turn=turn) for text in AWKWARD))
    lines = [line for line in talk.codec.data_to_send().splitlines() if b"content_block_delta" in line]
    field = "text" if kind is TextDelta else "thinking"
    assert [json.loads(line)["event"]["delta"][field] for line in lines] == list(AWKWARD)
    for line in lines:
        assert msgspec.json.encode(msgspec.json.decode(line, type=StreamEvent)) == _plain(line)


def test_half_a_character_becomes_the_sign_for_one() -> None:
    talk = Talk(partial=True)
    turn = talk.prompt()
    talk.say(TurnStarted(turn=turn), StepStarted(turn=turn), TextDelta("a\ud800", turn=turn))
    assert '"text":"a\ufffd"' in talk.codec.data_to_send().decode()


def _plain(line: bytes) -> bytes:
    """The two line separators are written as escapes on the wire."""
    return line.replace(rb"\u2028", "\u2028".encode()).replace(rb"\u2029", "\u2029".encode())
