"""A server around our codec, for clients of others: mcp_our_server.py stdio | http. The latter prints its port first.

What it offers is in `mcp_our_features.py`. Over HTTP it has a session for each client with a handshake, and none for
those of 2026-07-28. Each request is answered on a stream of its own.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import msgspec

from interop.mcp_our_features import Features, NotHere, Object
from polylect.mcp.protocol import frames
from polylect.mcp.protocol.server import ClientAnswer, ClientCancelled, ClientRequest, ServerCodec
from polylect.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Error

INFO = frames.Implementation(name="ours", version="1.2.3")
OFFERS = frames.ServerCapabilities(
    tools=frames.ListCapability(list_changed=True),
    prompts=frames.ListCapability(),
    resources=frames.ListCapability(subscribe=True),
    logging={},
    completions={},
)
EVENTS = "text/event-stream"
Write = Callable[[list[bytes]], None]


class InputNeeded(Exception):
    """The request can go on only when the client has answered this (2026-07-28)."""


class Session:
    """One client: its codec, its state, and the requests that are being answered."""

    def __init__(self, features: Features) -> None:
        self.codec = ServerCodec(INFO, OFFERS, "Be kind.")
        self.features = features
        self.work: dict[Any, asyncio.Task[None]] = {}
        self.asked: dict[Any, asyncio.Future[Object]] = {}

    def receive(self, line: bytes, write: Write) -> asyncio.Task[None] | None:
        """Handle a line. Returns the task that answers it, if it is a request for us."""
        task = None
        for value in self.codec.receive(line):
            match value:
                case ClientRequest():
                    task = self.work[value.id] = asyncio.create_task(self._answer(value, write))
                case ClientCancelled(id=id):
                    self.work[id].cancel()
                case ClientAnswer(id=id, error=None):
                    self.asked.pop(id).set_result(value.result)
                case ClientAnswer(id=id):
                    self.asked.pop(id).set_exception(RuntimeError(str(value.error)))
        write(self.codec.lines_to_send())
        return task

    async def _answer(self, request: ClientRequest, write: Write) -> None:
        params = msgspec.to_builtins(request.params)
        peer = Peer(self, write, params.get("inputResponses") or {})
        params["_meta"] = {"progressToken": request.progress_token}
        try:
            self.codec.answer(request.id, await self.features.handle(request.method, params, peer))
        except InputNeeded as needed:
            self.codec.require_input(request.id, needed.args[0], "opaque")
        except NotHere as error:
            self.codec.refuse(request.id, Error(INVALID_PARAMS, str(error)))
        except LookupError:
            self.codec.refuse(request.id, Error(METHOD_NOT_FOUND, "Method not found"))
        except RuntimeError as error:
            self.codec.refuse(request.id, Error(INTERNAL_ERROR, str(error)))
        write(self.codec.lines_to_send())


class Peer:
    """The client of one request. What is sent meanwhile goes the way of its answer."""

    def __init__(self, session: Session, write: Write, inputs: Object) -> None:
        self._session = session
        self._write = write
        self._inputs = inputs

    def notify(self, method: str, params: Object) -> None:
        codec = self._session.codec
        match method:
            case "notifications/progress":
                codec.progress(params["progressToken"], params["progress"], params.get("total"), params.get("message"))
            case "notifications/message":
                codec.log(params["level"], params["data"], params.get("logger"))
            case _:
                codec.list_changed("tools")
        self._write(codec.lines_to_send())

    async def request(self, method: str, params: Object) -> Object:
        codec = self._session.codec
        if codec.revision and not codec.revision.handshake:
            if method not in self._inputs:
                raise InputNeeded({method: {"method": method, "params": params}})
            result: Object = self._inputs[method]
            return result
        answer = self._session.asked[codec.request(method, params)] = asyncio.get_running_loop().create_future()
        self._write(codec.lines_to_send())
        return await answer


async def over_stdio() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    session = Session(Features())

    def write(lines: list[bytes]) -> None:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()

    while line := await reader.readline():
        session.receive(line.rstrip(b"\n"), write)


class Http:
    """The server over HTTP."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._features = Features()
        """What clients without a session see."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._handle(head[0].partition(" ")[0], headers, body, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _handle(
        self,
        verb: str,
        headers: dict[str, str],
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        known = headers.get("mcp-session-id", "")
        if not _is_local(headers.get("host", "")) or not _is_local(headers.get("origin", "//localhost")[2:]):
            await _reply(writer, 403)
        elif verb == "DELETE":
            await _reply(writer, 204 if self._sessions.pop(known, None) else 404)
        elif verb != "POST":
            await _reply(writer, 405)
        elif known and known not in self._sessions:
            await _reply(writer, 404)
        elif b'"initialize"' in body[:200]:
            await self._initialize(body, writer)
        else:
            await self._receive(self._sessions.get(known) or Session(self._features), body, reader, writer)

    async def _initialize(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        session, name = Session(Features()), uuid4().hex
        self._sessions[name] = session
        lines: list[bytes] = []
        session.receive(body, lines.extend)
        await _reply(writer, 200, lines[0], f"Mcp-Session-Id: {name}", "Content-Type: application/json")

    async def _receive(
        self, session: Session, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """A stream for a request, which ends with its answer; nothing for what needs none."""
        message = json.loads(body)
        if "id" not in message or "method" not in message:
            session.receive(body, lambda lines: None)
            return await _reply(writer, 202)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {EVENTS}\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())

        def write(lines: list[bytes]) -> None:
            for line in lines:
                event = b"data: " + line + b"\n"
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))

        if task := session.receive(body, write):
            while not task.done():
                await asyncio.wait([task], timeout=0.02)
                if reader.at_eof():  # from 2026-07-28 on, this cancels the request
                    task.cancel()
        if message["method"] == "subscriptions/listen":
            await asyncio.Event().wait()
        writer.write(b"0\r\n\r\n")
        return await writer.drain()


def _is_local(place: str) -> bool:
    return place.rpartition("//")[2].partition(":")[0] in ("localhost", "127.0.0.1")


async def _reply(writer: asyncio.StreamWriter, status: int, body: bytes = b"", *headers: str) -> None:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
    await writer.drain()


async def over_http() -> None:
    server = await asyncio.start_server(Http().serve, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(over_http() if sys.argv[1] == "http" else over_stdio())
