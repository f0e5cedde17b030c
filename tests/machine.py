"""How fast this machine is just now: promises in seconds are for one that has time for us."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 60.0
"""Longer than anything here takes on a machine that is slow and busy; only what is broken waits for so long."""
_START = 0.02
"""A bare Python starts within this on a quiet machine."""
_WORK = 0.04
"""And does `_work` within this."""


def slowness() -> float:
    """How many times longer than on a quiet machine everything takes at the moment."""
    return max(1.0, *(_seconds_to_start() / _START for _ in range(3)))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is done here takes no longer, on a quiet machine."""
    before = time.monotonic()
    yield
    took = time.monotonic() - before
    assert took < seconds or took < seconds * slowness(), f"it took {took:.1f} s"


def cpu(seconds: float) -> float:
    """So much CPU time, in seconds of this machine if it is slower than most."""
    return seconds * max(1.0, min(_seconds_to_work() for _ in range(3)) / _WORK)


def _seconds_to_start() -> float:
    before = time.monotonic()
    subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
    return time.monotonic() - before


def _seconds_to_work() -> float:
    before = time.thread_time()
    for number in range(10_000):
        json.loads(json.dumps({"type": "text_delta", "text": f"word {number}"}))
    return time.thread_time() - before
