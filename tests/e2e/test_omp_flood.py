"""Long replies through the real process that stands in for omp: how much it writes, how fast, and what they cost."""

import os
import sys

import pytest

from engine_process import Engine, Place
from machine import cpu

MB = 1_000_000
COUNT = 20_000
SCRIPT = f'[[reply]]\nsay = [{{ text = "lorem ", repeat = {COUNT} }}]'


def started(place: Place, script: str, *flags: str) -> Engine:
    argv = [sys.executable, "-m", "polylect", "--mode", "rpc", *place.script(script), *flags]
    engine = Engine(argv, place.workspace, place.env)
    place.keep(engine)
    engine.until("ready")
    return engine


@pytest.mark.parametrize(("flags", "most"), [([], 12 * MB), (["--slim"], 3 * MB)])
def test_20_000_deltas_at_full_speed_are_small_and_fast(flags: list[str], most: int, place: Place) -> None:
    engine = started(place, SCRIPT, *flags)
    engine.send({"type": "get_state"})  # answered when all that it needs is loaded
    engine.until("response")
    before = engine.effort[1]
    engine.send({"type": "prompt", "message": "hi"})
    size, line = 0, b""
    while not line.startswith(b'{"type":"agent_end"'):
        line = engine.line()
        size += len(line) + 1
    spent = (engine.effort[1] - before) / os.sysconf("SC_CLK_TCK")  # the machine may be busy with other things
    assert size < most
    assert line.count(b"lorem ") == COUNT
    assert spent < cpu(COUNT / 20_000)


def test_long_answers_that_nobody_reads_are_made_when_they_are_read(place: Place) -> None:
    """T8: two hundred times the whole conversation, asked for in one write."""
    engine = started(place, '[[reply]]\ntext = "ok"')
    engine.send({"type": "prompt", "message": "y" * 500_000})
    engine.until("session_settled")
    before = engine.peak
    engine.send(*({"id": str(number), "type": "get_messages"} for number in range(200)))
    engine.wait_until_stuck()
    assert engine.peak < before + 24 * MB
    engine.close_input()
    assert [frame["id"] for frame in engine.rest()] == [str(number) for number in range(200)]
    assert engine.wait() == 0
