"""One open connection to an MCP server.

`connected` opens the transport, does the handshake and gives a `Connection`. Its methods return our own values
(`ListedTool`, `PromptCommand`, `Resource`) or the results of `protocol/frames.py`, and raise `ServerFault` with a text
for people. One task reads what the server sends. Cancelling a method cancels the request at the server.

What the server itself requests (roots, elicitation, sampling, ping) is answered by `responder.py`, whether it comes as
a request or, from 2026-07-28 on, inside an `input_required` result. Called by `ServerSupervisor`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from polylect import __version__
from polylect.mcp.protocol import client, frames
from polylect.mcp.protocol.client import ClientCodec
from polylect.mcp.protocol.lenient import Malformed, read_rows
from polylect.mcp.protocol.param_headers import Path as ArgumentPath
from polylect.mcp.protocol.param_headers import header_paths, param_headers
from polylect.mcp.responder import RequestRefused, Responder, Sample
from polylect.mcp.server_log import ServerLog
from polylect.mcp.tool import ListedTool
from polylect.mcp.transports.base import Failed, Outgoing, Transport
from polylect.mcp.transports.host import HostTransport
from polylect.mcp.transports.stdio import StdioTransport
from polylect.mcp.values import ENDED, PromptCommand, Resource, ServerFault, ServerSetup
from polylect.system.tasks import TaskSet
from polylect.vocab.argument_schema import schema_error
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.events import Ask
from polylect.wire import jsonrpc
from polylect.wire.jsonl import TooLong
from polylect.wire.jsonrpc import Error, Id

MOST_INVALID_LINES = 1000
"""Lines that are no messages, after which the connection is given up."""
_MOST_PAGES = 100
MOST_TOOLS = 100_000
MOST_LISTED = 10_000
"""Prompts, or resources, of one server that are used."""
_SLICE = 500
"""Tools that are decoded before other tasks get their turn."""
_MOST_REQUESTS = 100
"""Requests of the server that may be open at the same time."""
_MOST_ROUNDS = 10
"""How often a server may answer one request with a request for more input."""
_PAGE_WAIT = 60.0
_LISTEN_AGAIN = 5
"""How often a stream of notifications that has ended is opened again."""
_NO_HANDSHAKE = (
    jsonrpc.METHOD_NOT_FOUND,
    jsonrpc.INVALID_PARAMS,
    jsonrpc.INVALID_REQUEST,
    frames.UNSUPPORTED_PROTOCOL_VERSION,
    frames.HEADER_MISMATCH,
    frames.MISSING_REQUIRED_CLIENT_CAPABILITY,
)
"""With one of these errors to `initialize`, a server may know only the revision that has no handshake."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING}
_Progress = Callable[[frames.ProgressNotificationParams], None]


class _Pending(Struct):
    """A request that waits for its answer."""

    answer: asyncio.Future[Any]
    on_progress: _Progress | None = None


class Connection:
    """A connection whose handshake is done. `lost` is set once it has ended."""

    def __init__(self, transport: Transport, codec: ClientCodec, log: ServerLog, responder: Responder) -> None:
        self.lost = asyncio.Event()
        self.updated: Callable[[str], None] = lambda uri: None
        """Is called with the address of a resource that has changed, for those that were subscribed to."""
        self._transport = transport
        self._codec = codec
        self._log = log
        self._responder = responder
        self._pending: dict[Id, _Pending] = {}
        self._answering: dict[Id, asyncio.Task[None]] = {}
        self._shortened: set[str] = set()
        """Lists of which the host has been told that they are too long."""
        self._output_schemas: dict[str, bytes] = {}
        self._marked: dict[str, dict[ArgumentPath, str]] = {}
        """For each tool, the arguments that HTTP sends as headers too."""
        self._pages_done: dict[str, asyncio.Event] = {}
        """Pages that the person was asked to open; the server tells when they are done."""
        self._tasks = TaskSet()
        self._reading: asyncio.Task[None] | None = None

    @property
    def version(self) -> str:
        info = self._codec.server_info
        return f"{info.name} {info.version}".strip()

    @property
    def protocol(self) -> str:
        """The revision of the protocol, for example 2025-11-25."""
        return self._codec.revision.version

    @property
    def instructions(self) -> str:
        return self._codec.instructions

    @property
    def capabilities(self) -> frames.ServerCapabilities:
        return self._codec.server_capabilities

    # Lists.

    async def tools(self) -> list[ListedTool]:
        """All tools. Raises ServerFault. Wrong ones are left out, with a line in the log."""
        listed: list[ListedTool] = []
        marked: dict[str, dict[ArgumentPath, str]] = {}
        wrong, fault = 0, ""
        async for page in self._pages("tools/list"):
            rows: list[Raw] = page.entries.items
            for start in range(0, len(rows), _SLICE):
                entries = read_rows(rows[start : start + _SLICE], partial(self._read_tool, marked))
                wrong, fault = wrong + entries.wrong, fault or entries.fault
                listed += [_listed(tool) for tool in entries.items if not _needs_task(tool)]
                await asyncio.sleep(0)
            if len(listed) > MOST_TOOLS:
                del listed[MOST_TOOLS:]
                self._warn_shortened("tools", MOST_TOOLS)
                break
        self._check_wrong("tools", wrong, fault, listed)
        self._output_schemas = {tool.name: tool.output_schema for tool in listed if tool.output_schema}
        self._marked = marked
        return listed

    def _read_tool(self, marked: dict[str, dict[ArgumentPath, str]], data: Raw) -> frames.Tool:
        """A tool of a list; the arguments that it marks are added to `marked`. Raises Malformed."""
        tool = frames.read_tool(data)
        try:
            if not self._codec.revision.handshake and (paths := header_paths(bytes(tool.input_schema))):
                marked[tool.name] = paths
        except ValueError as error:
            raise Malformed(f"{tool.name[:80]}: {error}") from None
        return tool

    async def prompts(self) -> list[PromptCommand]:
        if not self._offers("prompts"):
            return []
        return [
            PromptCommand(one.name, one.description or "", tuple(argument.name for argument in one.arguments or ()))
            for one in await self._entries("prompts", "prompts/list")
        ]

    async def resources(self) -> list[Resource]:
        if not self._offers("resources"):
            return []
        return [
            Resource(one.uri, one.name, one.mime_type or "", one.description or "")
            for one in await self._entries("resources", "resources/list")
        ]

    async def resource_templates(self) -> list[frames.ResourceTemplate]:
        return await self._entries("resource templates", "resources/templates/list")

    def _offers(self, kind: str) -> bool:
        """Whether the server says that it has this kind of list, or says nothing of any."""
        offers = self._codec.server_capabilities
        return getattr(offers, kind) is not None or not (offers.tools or offers.prompts or offers.resources)

    async def _entries(self, kind: str, method: str) -> list[Any]:
        """The prompts or resources of all pages. The host is told if some of them were left out."""
        entries: list[Any] = []
        wrong, fault, shortened = 0, "", False
        async for page in self._pages(method):
            entries += page.entries.items
            wrong, fault = wrong + page.entries.wrong, fault or page.entries.fault
            shortened = shortened or page.entries.left_out > 0 or len(entries) > MOST_LISTED
            if len(entries) >= MOST_LISTED:
                break
        del entries[MOST_LISTED:]
        if shortened:
            self._warn_shortened(kind, len(entries))
        self._check_wrong(kind, wrong, fault, entries)
        return entries

    async def _pages(self, method: str) -> AsyncIterator[frames.ListPage]:
        """Every page of a list, up to _MOST_PAGES. A server that does not know the method has no page."""
        params: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            try:
                page: frames.ListPage = await self._request(method, params)
            except RequestRefused as refused:
                if refused.error.code != jsonrpc.METHOD_NOT_FOUND:
                    raise
                return
            yield page
            if not page.next_cursor or page.next_cursor == params.get("cursor"):
                return
            params = {"cursor": page.next_cursor}

    def _warn_shortened(self, kind: str, count: int) -> None:
        if kind not in self._shortened:
            self._shortened.add(kind)
            self._responder.notify(f"has more {kind} than are read at once; {count} of them can be used")

    def _check_wrong(self, kind: str, wrong: int, fault: str, usable: Sequence[object]) -> None:
        """Raises ServerFault if a list has entries, and none of them can be used."""
        if wrong and not usable:
            raise ServerFault(f"the server's answer does not follow the protocol: {kind}: {fault}")
        if wrong:
            self._log.log(logging.WARNING, f"{wrong} of its {kind} do not follow the protocol: {fault}")

    # Requests.

    async def call(self, tool: str, args: dict[str, Any], show: Callable[[str], None]) -> frames.CallToolResult:
        """The result of a tool. `show` gets its progress. Raises ServerFault."""

        def on_progress(params: frames.ProgressNotificationParams) -> None:
            count = f"{params.progress:g}/{params.total:g}" if params.total else f"{params.progress:g}"
            show(f"{params.message} ({count})\n" if params.message else f"{count}\n")

        result: frames.CallToolResult = await self._interactive(
            "tools/call", {"name": tool, "arguments": args}, tool, on_progress
        )
        self._check_structured(tool, result)
        return result

    async def prompt(self, name: str, args: dict[str, str]) -> list[frames.PromptMessage]:
        result: frames.GetPromptResult = await self._interactive("prompts/get", {"name": name, "arguments": args}, name)
        return result.messages

    async def read_resource(self, uri: str) -> list[frames.ResourceContents]:
        result: frames.ReadResourceResult = await self._interactive("resources/read", {"uri": uri}, uri)
        return result.contents

    async def complete(
        self, reference: dict[str, str], argument: str, value: str, context: dict[str, str] | None = None
    ) -> list[str]:
        """Values that an argument of a prompt or a resource template may have. `reference` names which of them."""
        params: dict[str, Any] = {"ref": reference, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": context}
        result: frames.CompleteResult = await self._request("completion/complete", params)
        return result.completion.values[:100]

    async def ping(self) -> None:
        await self._request("ping", {})

    async def set_log_level(self, level: frames.LoggingLevel) -> None:
        """Ask for log messages of this level and above."""
        if message := self._codec.set_log_level(level):
            await self._send(message)

    async def subscribe(self, uri: str) -> None:
        """Have `updated` called when this resource changes. From 2026-07-28 on until the connection ends."""
        if self._codec.revision.handshake:
            await self._request("resources/subscribe", {"uri": uri}, name=uri)
        else:
            self._tasks.start(self._listen({"resourceSubscriptions": [uri]}))

    async def unsubscribe(self, uri: str) -> None:
        if self._codec.revision.handshake:
            await self._request("resources/unsubscribe", {"uri": uri}, name=uri)

    def _check_structured(self, name: str, result: frames.CallToolResult) -> None:
        """Checks the structured form against the tool's schema, in bounded time. Raises ServerFault."""
        schema = self._output_schemas.get(name)
        if not schema or result.is_error or isinstance(result, frames.ShortenedResult):
            return
        if result.structured_content is UNSET:
            raise ServerFault(f"Tool {name} has an output schema but did not return structured content")
        if fault := schema_error(result.structured_content, msgspec.json.decode(schema, type=dict[str, Any])):
            raise ServerFault(f"Invalid structured content returned by tool {name}: {fault}")

    async def _interactive(
        self, method: str, params: dict[str, Any], name: str, on_progress: _Progress | None = None
    ) -> Any:
        """A request that the server may answer with `input_required`: it is sent again with what is required."""
        more: dict[str, Any] = {}
        for number in range(_MOST_ROUNDS):
            try:
                result = await self._request(method, {**params, **more}, name=name, on_progress=on_progress)
            except RequestRefused as refused:
                if number or not await self._pages_opened(refused.error):
                    raise
                continue
            if not isinstance(result, frames.InputRequiredResult):
                return result
            more = {"requestState": result.request_state} if result.request_state is not None else {}
            if result.input_requests:
                more["inputResponses"] = await self._responder.input_responses(result.input_requests)
            else:
                await asyncio.sleep(0.1 * 2**number)  # the server is busy, and asks to be tried again
        raise ServerFault("the server requires more and more input")

    async def _pages_opened(self, error: Error) -> bool:
        """Whether the person has agreed to open every page that an error of 2025-11-25 requires.

        Returns when the server has told that they are done there, at the latest after _PAGE_WAIT seconds.
        """
        pages = client.required_pages(error)
        done = {page.elicitation_id: asyncio.Event() for page in pages if page.elicitation_id}
        self._pages_done.update(done)
        try:
            for page in pages:
                if not await self._responder.is_accepted(page):
                    return False
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAGE_WAIT):
                    for event in done.values():
                        await event.wait()
            return bool(pages)
        finally:
            for id in done:
                self._pages_done.pop(id, None)

    async def _request(
        self, method: str, params: dict[str, Any], *, name: str = "", on_progress: _Progress | None = None
    ) -> Any:
        message = self._codec.request(method, params, name=name, progress=on_progress is not None)
        if method == "tools/call" and (paths := self._marked.get(name)):
            message = msgspec.structs.replace(message, headers=param_headers(paths, params["arguments"]))
        return await self._send(message, on_progress)

    async def _send(self, message: Outgoing, on_progress: _Progress | None = None) -> Any:
        """Sends a request and waits for its answer. Raises ServerFault."""
        pending = _Pending(asyncio.get_running_loop().create_future(), on_progress)
        self._pending[message.id] = pending
        try:
            self._transport.send(message)
            return await pending.answer
        except asyncio.CancelledError:
            self._cancel(message.id)
            raise
        finally:
            self._pending.pop(message.id, None)

    def _cancel(self, id: Id) -> None:
        notification = self._codec.cancel(id)
        if notification and not self.lost.is_set():
            with suppress(ServerFault):
                self._transport.send(notification)
            self._transport.cancel(id)

    # What the server sends.

    def start_reading(self) -> None:
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        """Handle what the server sends until the connection ends. Then every request that waits has failed."""
        try:
            while (item := await self._transport.receive()) is not None:
                if isinstance(item, Failed):
                    self._codec.fail(item.id)
                    self._fail(item.id, RequestRefused(Error(jsonrpc.INTERNAL_ERROR, item.reason), item.status))
                else:
                    self._receive(item)
                if self.lost.is_set():
                    break
                await asyncio.sleep(0)  # a fast server must not keep other tasks from running (L4)
        finally:
            self.lost.set()
            self._tasks.cancel()
            for id in tuple(self._pending):
                self._fail(id, ServerFault(ENDED))

    def _receive(self, line: bytes | TooLong) -> None:
        for message in self._codec.receive(line):
            match message:
                case client.Answer():
                    if (pending := self._pending.get(message.id)) and not pending.answer.done():
                        pending.answer.set_result(message.result)
                case client.Refusal():
                    self._fail(message.id, RequestRefused(message.error))
                case client.ServerNotification():
                    self._notified(message)
                case client.ListChanged():
                    self._responder.on_change(message.kind)
                case client.ServerRequest():
                    self._start_answer(message)
                case client.WrongRequest():
                    self._reply(self._codec.refuse(message.id, message.error))
                case client.StrayAnswer():
                    self._log.unknown_answer(message.id)
                case client.NoMessage():
                    if self._log.invalid_line(message.line, message.why) >= MOST_INVALID_LINES:
                        self.lost.set()

    def _fail(self, id: Id, fault: ServerFault) -> None:
        if (pending := self._pending.get(id)) and not pending.answer.done():
            pending.answer.set_exception(fault)

    def _notified(self, message: client.ServerNotification) -> None:
        match message.params:
            case frames.ProgressNotificationParams(progress_token=token):
                if (pending := self._pending.get(token)) and pending.on_progress:
                    pending.on_progress(message.params)
            case frames.LoggingMessageNotificationParams(level=level, logger=logger, data=data):
                self._log.log(_LEVELS.get(level, logging.ERROR), f"{logger or 'log'}: {data}")
            case frames.CancelledNotificationParams(request_id=id):
                if task := self._answering.get(id):
                    task.cancel()
                elif id in self._pending:  # the server ends a stream of notifications
                    self._codec.fail(id)
                    self._fail(id, ServerFault(ENDED))
            case frames.ResourceUpdatedNotificationParams(uri=uri):
                self.updated(uri)
            case frames.ElicitationCompleteNotificationParams(elicitation_id=page):
                if event := self._pages_done.get(page):
                    event.set()

    # Requests of the server.

    def _start_answer(self, request: client.ServerRequest) -> None:
        if request.method == "ping":
            self._reply(self._codec.answer(request.id, {}))
        elif len(self._answering) >= _MOST_REQUESTS or request.id in self._answering:
            self._reply(self._codec.refuse(request.id, Error(jsonrpc.INTERNAL_ERROR, "too many requests at once")))
        else:
            task = self._answering[request.id] = self._tasks.start(self._answer(request))
            task.add_done_callback(lambda _: self._answering.pop(request.id, None))

    async def _answer(self, request: client.ServerRequest) -> None:
        try:
            self._reply(self._codec.answer(request.id, await self._responder.result(request)))
        except RequestRefused as refused:
            self._reply(self._codec.refuse(request.id, refused.error))

    def _reply(self, message: Outgoing) -> None:
        with suppress(ServerFault):  # the connection has ended, and so has the request
            self._transport.send(message)

    # The beginning and the end.

    async def handshake(self) -> None:
        """Agree on a version. Raises ServerFault."""
        try:
            try:
                answer = await self._send(self._codec.initialize())
            except RequestRefused as refused:
                if refused.error.code not in _NO_HANDSHAKE and refused.status != 400:
                    raise
                await self._discover(refused)
            else:
                self._transport.send(self._codec.initialized(answer))
                self._transport.negotiated(self._codec.revision.version)
        except Malformed as error:
            raise ServerFault(str(error)) from None

    async def _discover(self, refused: RequestRefused) -> None:
        """The handshake is not known: try the revision that has none. Raises what was `refused` if that fails too."""
        message = self._codec.discover()
        self._transport.negotiated(self._codec.revision.version)
        try:
            answer = await self._send(message)
        except RequestRefused as again:
            raise (again if again.error.code in _NO_HANDSHAKE[3:] else refused) from None
        self._codec.discovered(answer)
        offers = self._codec.server_capabilities
        kinds = [kind for kind in ("tools", "prompts", "resources") if getattr(offers, kind)]
        if subscriptions := {f"{kind}ListChanged": True for kind in kinds if getattr(offers, kind).list_changed}:
            self._tasks.start(self._listen(subscriptions))

    async def _listen(self, notifications: dict[str, Any]) -> None:
        """From 2026-07-28 on, a server sends notifications only to clients that listen for them."""
        for number in range(_LISTEN_AGAIN):
            with suppress(ServerFault):
                await self._request("subscriptions/listen", {"notifications": notifications})
            if self.lost.is_set():
                return
            await asyncio.sleep(2**number)

    async def close(self) -> None:
        """End the connection, in bounded time."""
        self._tasks.cancel()
        await self._transport.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))


@asynccontextmanager
async def connected(
    server: Server,
    setup: ServerSetup,
    log: ServerLog,
    ask: Callable[[Ask], Awaitable[Answer]],
    on_change: Callable[[str], None],
    sample: Sample | None = None,
) -> AsyncIterator[Connection]:
    """Connect, for as long as the block runs. Raises ServerFault.

    `ask` puts a question to the person; `on_change` gets the name of a list ("tools" ...) that has changed; `sample`
    asks the model and raises RequestRefused. Without it, sampling is not offered.
    """
    responder = Responder(server, setup, log, ask, on_change, sample)
    info = frames.Implementation(name="polylect", version=__version__)
    transport = open_transport(server, setup, log)
    connection = Connection(transport, ClientCodec(info, responder.capabilities()), log, responder)
    try:
        await transport.start()
        connection.start_reading()
        await connection.handshake()
        yield connection
    finally:
        await connection.close()


def open_transport(server: Server, setup: ServerSetup, log: ServerLog) -> Transport:
    """The transport of this server, which is not started yet. Those of HTTP are imported only where one is named."""
    match server.transport:
        case "stdio":
            return StdioTransport(server, setup, log)
        case "host":
            return HostTransport(server.name, setup, log)
        case "http":
            from polylect.mcp.transports.streamable_http import StreamableHttp

            return StreamableHttp(server, setup, log)
        case _:
            from polylect.mcp.transports.sse import Sse

            return Sse(server, setup, log)


def _needs_task(tool: frames.Tool) -> bool:
    """Whether a tool can be called only as a task, which we cannot do."""
    return tool.execution is not None and tool.execution.task_support == "required"


def _listed(tool: frames.Tool) -> ListedTool:
    output_schema = bytes(tool.output_schema)
    return ListedTool(tool.name, tool.description or "", bytes(tool.input_schema), output_schema)
