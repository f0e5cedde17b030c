"""A long reply through the real process that stands in for omp: how much it writes, and how fast."""

import os
import sys

import pytest

from engine_process import Engine, Place

MB = 1_000_000
COUNT = 20_000
SCRIPT = f'[[reply]]\nsay = [{{ text = "lorem ", repeat = {COUNT} }}]'


@pytest.mark.parametrize(("flags", "most"), [([], 12 * MB), (["--slim"], 3 * MB)])
def test_20_000_deltas_at_full_speed_are_small_and_fast(flags: list[str], most: int, place: Place) -> None:
    argv = [sys.executable, "-m", "polylect", "--mode", "rpc", *place.script(SCRIPT), *flags]
    engine = Engine(argv, place.workspace, place.env)
    place.keep(engine)
    engine.until("ready")
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
    assert spent < COUNT / 20_000
