"""A host that reads slowly, or not at all: nothing is lost, and it costs little (T8)."""

import fcntl
import json
import os
import select
import signal
import time
from threading import Thread

from engine_process import Engine, Place, message

OLD = ("--protocol", "0.1.0")
MIB = 1024 * 1024
PING = b'{"type":"ping"}\n'


def idle(engine: Engine) -> int:
    """What it needs before anything is said, with all that it loads while nobody speaks."""
    engine.send(PING)
    engine.until("pong")
    engine.wait_until_stuck()
    return engine.resident


def test_a_host_that_reads_one_byte_at_a_time_gets_everything(place: Place) -> None:
    engine = place.started(*OLD, script='[[reply]]\nsay = [{ text = "word {i} ", repeat = 20000 }]')
    engine.send(message("go"))
    slowly = bytearray()
    for _ in range(100):
        slowly += engine.read(1)
        time.sleep(0.01)  # what the test is about, not a wait for something
    engine.close_input()
    data = bytes(slowly) + b"".join(iter(engine.read, b""))
    frames = [json.loads(line) for line in data.splitlines()]
    words = [frame["text"] for frame in frames if frame["type"] == "text_delta"]
    assert words == [f"word {number} " for number in range(1, 20001)]
    assert engine.wait() == 0


def test_a_host_that_does_not_read_slows_the_model_down_and_loses_nothing(place: Place) -> None:
    engine = place.started(*OLD, script='[[reply]]\nsay = [{ text = "' + "z" * 1000 + '", repeat = 1000 }]')
    before = idle(engine)
    engine.send(message("go"))
    engine.wait_until_stuck()
    assert engine.resident < before + 24 * MIB
    assert engine.peak < 100 * MIB
    engine.close_input()
    size, end = 0, b""
    while data := engine.read():
        size += data.count(b"z")
        end = (end + data)[-200:]
    assert size == 1_000_000
    assert b'"stream_end"' in end
    assert engine.wait() == 0


def test_a_host_that_never_reads_costs_at_most_24_mib(place: Place) -> None:
    """Of the 200 MB that the model would say, next to nothing is made."""
    engine = place.started(*OLD, script='[[reply]]\nsay = [{ text = "' + "y" * 100_000 + '", repeat = 2000 }]')
    before = idle(engine)
    engine.send(message("go"))
    engine.wait_until_stuck()
    assert engine.peak < before + 24 * MIB
    engine.send({"type": "stop"})
    assert engine.until("stream_end")[-1]["msg_id"] == "m1"
    engine.send(PING)
    assert engine.frame() == {"type": "pong"}


def test_control_is_heard_while_the_host_does_not_read(place: Place) -> None:
    """L4: a stop ends a turn that nobody reads."""
    engine = place.started(*OLD, script='[[reply]]\nsay = [{ text = "word ", repeat = 10000000 }]')
    engine.send(message("go"))
    engine.wait_until_stuck()
    engine.send({"type": "stop"})
    engine.wait_until_stuck()
    engine.close_input()
    frames = engine.rest()
    assert frames[-1]["type"] == "stream_end"
    assert engine.wait(within=3.0) == 0


def test_a_flood_that_nobody_reads_the_answers_to_stays_in_the_pipe(place: Place) -> None:
    """T8: answers need room too, and these are longer than what they answer. Each of them arrives."""
    engine = place.started(*OLD)
    before = idle(engine)
    sent = _push(engine, b"x\n" * 32768, most=16 * MIB)
    assert sent < 16 * MIB
    assert engine.peak < before + 24 * MIB

    def go_on() -> None:
        engine.send(b"\n" + PING)
        engine.close_input()

    writer = Thread(target=go_on)  # it has to wait until we read
    writer.start()
    *errors, pong = b"".join(iter(engine.read, b"")).splitlines()
    writer.join()
    assert len(errors) == -(-sent // 2)
    assert set(errors) == {errors[0]}
    assert pong == b'{"type":"pong"}'
    assert engine.wait() == 0


def test_a_flood_of_pings_is_answered_in_full(place: Place) -> None:
    engine = place.started(*OLD)
    engine.send(PING * 50_000)
    engine.close_input()
    assert b"".join(iter(engine.read, b"")) == b'{"type":"pong"}\n' * 50_000


def test_a_signal_ends_an_engine_whose_host_does_not_read(place: Place) -> None:
    engine = place.started(*OLD, script='[[reply]]\nsay = [{ text = "word ", repeat = 10000000 }]')
    engine.send(message("go"))
    engine.wait_until_stuck()
    engine.signal(signal.SIGTERM)
    assert engine.wait(within=3.0) == 143


def _push(engine: Engine, data: bytes, most: int) -> int:
    """Write until the engine takes no more, or `most` bytes. Returns how many it took."""
    pipe = engine.input
    flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    sent = 0
    while sent < most:
        offset = sent % len(data)
        try:
            sent += os.write(pipe, data[offset : offset + 65536])
        except BlockingIOError:
            if not select.select([], [pipe], [], 0.5)[1]:
                break
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags)
    return sent
