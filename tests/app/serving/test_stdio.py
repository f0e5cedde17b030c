"""Our two ends of the pipe, with real pipes."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from machine import PATIENCE
from polylect.app.serving.stdio import FLOOD, HIGH, Outgoing, read


class Source:
    """What a codec would have to say."""

    def __init__(self) -> None:
        self.waiting = b""

    def fill(self) -> bytes:
        data, self.waiting = self.waiting, b""
        return data


class Wire:
    """An Outgoing on a pipe, and the host's end of it."""

    def __init__(self, writer: int, reader: int) -> None:
        self.reader = reader
        self.source = Source()
        self.broken = asyncio.Event()
        self.breaks = 0
        self.out = Outgoing(writer, self.source.fill, self._break)

    def _break(self) -> None:
        self.breaks += 1
        self.broken.set()

    def send(self, data: bytes) -> None:
        self.source.waiting += data
        self.out.wake()

    async def receive(self, size: int) -> bytes:
        """So many bytes, however long they take."""
        received = b""
        while len(received) < size:
            received += await asyncio.wait_for(asyncio.to_thread(os.read, self.reader, size - len(received)), PATIENCE)
        return received


def with_wire(work: Callable[[Wire], Awaitable[None]], *, pair: str = "pipe") -> None:
    async def main() -> None:
        reader, writer = os.pipe() if pair == "pipe" else [end.detach() for end in socket.socketpair()]
        try:
            await work(Wire(writer, reader))
        finally:
            for descriptor in (reader, writer):
                try:
                    os.close(descriptor)
                except OSError:
                    pass  # the test has closed it

    asyncio.run(main())


# Out.


def test_what_is_said_together_is_written_together() -> None:
    async def work(wire: Wire) -> None:
        wire.send(b"one ")
        wire.send(b"two ")
        wire.send(b"three")
        await asyncio.sleep(0)
        assert os.read(wire.reader, 100) == b"one two three"

    with_wire(work)


@pytest.mark.parametrize("pair", ["pipe", "socket"])
def test_more_than_the_pipe_holds_arrives_in_order(pair: str) -> None:
    async def work(wire: Wire) -> None:
        data = b"".join(b"%08d" % number for number in range(200_000))
        wire.send(data[:800_000])
        await asyncio.sleep(0)
        wire.send(data[800_000:])
        assert await wire.receive(len(data)) == data
        await asyncio.wait_for(wire.out.drain(PATIENCE), PATIENCE)

    with_wire(work, pair=pair)


def test_there_is_room_until_a_megabyte_waits_and_again_when_it_was_read() -> None:
    """T8."""

    async def work(wire: Wire) -> None:
        wire.send(b"x" * HIGH)
        await asyncio.wait_for(wire.out.wait_writable(), PATIENCE)
        wire.send(b"x" * HIGH)
        await asyncio.sleep(0)
        waiting = asyncio.create_task(wire.out.wait_writable())
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.wait_for(wire.out.wait_writable(FLOOD), PATIENCE)
        await wire.receive(2 * HIGH)
        await asyncio.wait_for(waiting, PATIENCE)

    with_wire(work)


def test_those_who_wait_for_more_room_and_for_less_are_all_let_go() -> None:
    async def work(wire: Wire) -> None:
        wire.send(b"x" * (FLOOD + HIGH))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(wire.out.wait_writable()), asyncio.create_task(wire.out.wait_writable(FLOOD))]
        await asyncio.sleep(0)
        await wire.receive(FLOOD + HIGH)
        await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)

    with_wire(work)


def test_draining_gives_up_on_a_host_that_reads_nothing() -> None:
    async def work(wire: Wire) -> None:
        wire.send(b"x" * HIGH)
        await asyncio.wait_for(wire.out.drain(0.05), PATIENCE)
        assert not wire.broken.is_set()

    with_wire(work)


@pytest.mark.parametrize("pair", ["pipe", "socket"])
def test_a_host_that_leaves_is_noticed_while_nothing_is_said(pair: str) -> None:
    """I5."""

    async def work(wire: Wire) -> None:
        wire.send(b"hello")
        await asyncio.sleep(0)
        os.close(wire.reader)
        await asyncio.wait_for(wire.broken.wait(), PATIENCE)
        wire.send(b"into nothing")
        await asyncio.wait_for(wire.out.drain(PATIENCE), PATIENCE)
        assert wire.breaks == 1

    with_wire(work, pair=pair)


def test_a_host_that_leaves_frees_those_who_wait_for_it() -> None:
    """I5."""

    async def work(wire: Wire) -> None:
        wire.send(b"x" * (2 * HIGH))
        await asyncio.sleep(0)
        waiting = asyncio.gather(wire.out.wait_writable(), wire.out.drain(60))
        await asyncio.sleep(0)
        os.close(wire.reader)
        await asyncio.wait_for(waiting, PATIENCE)
        await asyncio.wait_for(wire.broken.wait(), PATIENCE)
        assert wire.breaks == 1

    with_wire(work)


def test_a_host_that_left_before_the_first_word_is_noticed() -> None:
    async def work(wire: Wire) -> None:
        os.close(wire.reader)
        wire.send(b"hello")
        await asyncio.wait_for(wire.broken.wait(), PATIENCE)
        await asyncio.sleep(0)
        assert wire.breaks == 1

    with_wire(work)


def test_output_may_go_to_a_file(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "out"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        wire = Wire(descriptor, -1)
        wire.send(b"x" * (3 * HIGH))
        await asyncio.wait_for(wire.out.drain(PATIENCE), PATIENCE)
        os.close(descriptor)
        assert path.stat().st_size == 3 * HIGH

    asyncio.run(main())


# In.


async def nothing_to_wait_for(most: int) -> None:
    return None


def heard_from(descriptor: int) -> bytes:
    taken: list[bytes] = []
    asyncio.run(asyncio.wait_for(read(descriptor, taken.append, nothing_to_wait_for), PATIENCE))
    os.close(descriptor)
    return b"".join(taken)


def test_a_pipe_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"some words")
    os.close(writer)
    assert heard_from(reader) == b"some words"


def test_a_pipe_blocks_again_when_it_was_read() -> None:
    """It may be shared with the one who started us."""
    reader, writer = os.pipe()
    stored = os.dup(reader)
    os.close(writer)
    heard_from(reader)
    assert os.get_blocking(stored)
    os.close(stored)


def test_a_file_and_dev_null_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"y" * 1_000_000)
    assert heard_from(os.open(tmp_path / "in", os.O_RDONLY)) == b"y" * 1_000_000
    assert heard_from(os.open(os.devnull, os.O_RDONLY)) == b""


def test_a_socket_that_is_reset_has_ended() -> None:
    ours, theirs = socket.socketpair()
    ours.send(b"unread")
    theirs.send(b"words")
    theirs.close()
    assert heard_from(ours.detach()) in (b"words", b"")


def test_nothing_is_read_while_there_is_no_room() -> None:
    """T8."""

    async def main() -> None:
        reader, writer = os.pipe()
        room = asyncio.Event()
        taken: list[bytes] = []
        requested = asyncio.Event()

        async def wait_for_room(most: int) -> None:
            assert most == FLOOD
            requested.set()
            await room.wait()

        reading = asyncio.create_task(read(reader, taken.append, wait_for_room))
        os.write(writer, b"first")
        await asyncio.wait_for(requested.wait(), PATIENCE)
        os.write(writer, b"second")
        os.close(writer)
        await asyncio.sleep(0)
        assert taken == [b"first"]
        room.set()
        await asyncio.wait_for(reading, PATIENCE)
        assert taken == [b"first", b"second"]
        os.close(reader)

    asyncio.run(main())
