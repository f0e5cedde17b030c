"""Modes and stop reasons: one table of our values, and one of words for each dialect, used in both directions."""

from collections.abc import Mapping
from typing import get_args

import pytest

from polylect.dialects.claude import stop_reasons as claude_stops
from polylect.dialects.claude import versions as claude
from polylect.dialects.jsonstream import versions as jsonstream
from polylect.dialects.omp import stop_reasons as omp_stops
from polylect.vocab.content import Abilities, Mode, Reason, Stop
from polylect.vocab.modes import CLAUDE_MODES, MODE_WORDS, MODES


def test_the_modes_are_those_of_the_type_and_each_is_a_word_for_itself() -> None:
    assert get_args(Mode) == MODES
    assert {MODE_WORDS[mode] for mode in MODES} == set(MODE_WORDS.values()) == set(MODES)
    assert tuple(CLAUDE_MODES) == MODES
    assert Abilities().modes == MODES[:3]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *((words, jsonstream.OUR_MODES) for words in jsonstream.WIRE_MODES.values()),
        (claude.WIRE_MODES, claude.OUR_MODES),
        (claude_stops.WIRE_STOPS, claude_stops.OUR_STOPS),
        (omp_stops.STATUSES, omp_stops.OUR_REASONS),
    ],
)
def test_what_is_written_is_read_as_the_same(written: Mapping[str, str], read: Mapping[str, str]) -> None:
    assert {value: read[word] for value, word in written.items()} == {value: value for value in written}


def test_omp_reads_a_refusal_as_an_error_and_all_else_as_it_was_written() -> None:
    read = {stop: omp_stops.OUR_STOPS[omp_stops.WIRE_STOPS[stop]] for stop in get_args(Stop)}
    assert read == {stop: stop for stop in get_args(Stop)} | {"refused": "error"}
    assert set(jsonstream.FINISH_REASONS["0.2.0"]) == set(get_args(Reason))
