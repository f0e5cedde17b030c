"""A host that closes stdin and never reads: the engine ends all the same. One that reads slowly loses nothing.

The engines here have a patience of a fraction of a second instead of ten.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_process import Engine, Place, message
from machine import within

LONG = '[[reply]]\nsay = [{ text = "0123456789abcdef", repeat = 60000 }]'
_IMPATIENT = """
import sys
from polylect.app.serving import serve
from polylect.app.main import main
serve._PATIENCE = float(sys.argv.pop(1))
raise SystemExit(main())
"""
WIRES = {
    "json-stream": (["--json-stream"], b'{"type":"message","msg_id":"m1","content":"go"}\n'),
    "omp": (["--mode", "rpc"], b'{"type":"prompt","message":"go"}\n'),
    "claude": (
        ["--output-format", "stream-json", "--input-format", "stream-json", "--verbose", "--include-partial-messages"],
        b'{"type":"user","message":{"role":"user","content":"go"}}\n',
    ),
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def impatient(place: Place, wire: str, patience: float, stdout: int = subprocess.PIPE) -> Engine:
    argv = [sys.executable, "-c", _IMPATIENT, str(patience), *WIRES[wire][0], *place.script(LONG)]
    engine = Engine(argv, place.workspace, place.env, stdout=stdout)
    place.keep(engine)
    return engine


@pytest.mark.parametrize("wire", WIRES)
def test_an_engine_that_nobody_reads_ends_after_the_end_of_its_input(place: Place, wire: str) -> None:
    engine = impatient(place, wire, 0.3)
    engine.send(WIRES[wire][1])
    engine.close_input()
    with within(5.0):
        assert engine.wait() == 1
    assert "the host closed stdin and read nothing from stdout" in engine.errors


def test_also_when_it_has_stopped_reading_its_own_input(place: Place) -> None:
    """Answers have nowhere to go, so the end of the input lies behind what is not read any more."""
    engine = impatient(place, "json-stream", 0.3)
    engine.read(1)
    engine.send(message("go"))
    os.set_blocking(engine.input, False)
    try:
        while True:
            os.write(engine.input, b"x\n" * 2000)
            time.sleep(0.001)  # a host that does not wait for answers
    except BlockingIOError:
        pass
    engine.close_input()
    with within(5.0):
        assert engine.wait() == 1


def test_a_host_that_reads_slowly_loses_nothing(place: Place) -> None:
    """A few bytes at a time: a pipe takes more only once a whole page of it has been read."""
    engine = impatient(place, "json-stream", 1.0)
    engine.send(message("go"))
    engine.close_input()
    data = bytearray()
    until = time.monotonic() + 1.3
    while time.monotonic() < until:
        data += engine.read(16)
        time.sleep(0.05)  # what the test is about
    data += b"".join(iter(engine.read, b""))
    assert data.count(b"0123456789abcdef") == 60_000
    assert b'"stream_end"' in data[-300:]
    assert engine.wait() == 0


def test_a_socket_is_watched_like_a_pipe(place: Place) -> None:
    """Hosts that run on Node give their children sockets. These tell of what is read by whole writes only."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        engine = impatient(place, "json-stream", 1.0, stdout=theirs.fileno())
        engine.send(message("go"))
        engine.close_input()
        theirs.close()
        data = bytearray()
        until = time.monotonic() + 1.3
        while time.monotonic() < until:
            data += ours.recv(4096)
            time.sleep(0.01)  # what the test is about
        while more := ours.recv(1 << 20):
            data += more
        assert data.count(b"0123456789abcdef") == 60_000
        assert engine.wait() == 0
