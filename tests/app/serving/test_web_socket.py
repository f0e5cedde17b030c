"""A socket whose client is silent, or whose receiver fails: real sockets, with limits that are short."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from machine import PATIENCE
from polylect.app.serving.websocket.web_socket import Limits, WebSocket

First = Callable[[WebSocket, bytes], None]


def fail(socket: WebSocket, message: bytes) -> None:
    raise RuntimeError(message)


async def listen(first: First, **limits: float) -> tuple[asyncio.Server, int, asyncio.Event]:
    """A server of such sockets, its port, and an event for the end of one."""
    ended = asyncio.Event()

    def new() -> WebSocket:
        return WebSocket(Limits(1000, **limits), lambda socket, request: {}, first, lambda socket: ended.set())

    server = await asyncio.get_running_loop().create_server(new, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1], ended


def test_a_handshake_that_does_not_come_ends_the_socket() -> None:
    async def main() -> None:
        server, port, ended = await listen(fail, handshake=0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /acp HTTP/1.1\r\n")
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        await asyncio.wait_for(ended.wait(), PATIENCE)
        writer.close()
        server.close()

    asyncio.run(main())


@pytest.mark.parametrize(("message", "code"), [(None, 1002), ("hello", 1011)])
def test_silence_and_a_fault_of_ours_close_the_socket_with_a_code(message: str | None, code: int) -> None:
    """No `initialize` in time is 1002; an exception while a message is handled is 1011."""

    async def main() -> None:
        server, port, ended = await listen(fail, initialize=0.05 if message is None else PATIENCE)
        async with connect(f"ws://127.0.0.1:{port}/") as client:
            if message:
                await client.send(message)
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(client.recv(), PATIENCE)
        assert closed.value.rcvd
        assert closed.value.rcvd.code == code
        await asyncio.wait_for(ended.wait(), PATIENCE)
        server.close()

    asyncio.run(main())
