"""One open connection to an MCP server, through the official SDK.

`connected` opens it and gives a `Connection`, whose methods return our own values (`ListedTool`, `PromptCommand`,
`Resource`) or the SDK's results, and raise `ServerFault` with a text for people. What the server asks for and notifies
of (roots, elicitation, log lines, changed lists) is answered by the callbacks at the end of this file.

Importing this module loads the SDK, which takes half a second and 45 MiB. So `ServerSupervisor` imports it in a thread,
when the first server connects.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import msgspec
from mcp import Client, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from polylect import __version__
from polylect.mcp.elicit import elicitation_result, form_ask, url_ask
from polylect.mcp.large_results import Pages, is_shortened
from polylect.mcp.sdk_streams import streams
from polylect.mcp.server_log import ServerLog
from polylect.mcp.tool import ListedTool
from polylect.mcp.values import PromptCommand, Resource, ServerFault, ServerSetup
from polylect.vocab.argument_schema import schema_error
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.errors import ToolError
from polylect.vocab.events import Ask, Notice

_MODES = ("legacy", "auto")
"""Handshakes in the order in which they are tried. The old one comes first, because some servers exit when the first
request is of the newer protocol (2026-07-28)."""
_NEWER_CODES = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)
_MOST_PAGES = 100
MOST_TOOLS = 100_000
MOST_LISTED = 10_000
"""Prompts, or resources, of one server that are used."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING}


class Connection:
    """A server that has completed the handshake. `lost` is set once the connection has ended."""

    def __init__(self, client: Client, lost: asyncio.Event, pages: Pages, notify: Callable[[str], None]) -> None:
        """`notify` shows a text to the host."""
        self.lost = lost
        self._client = client
        self._pages = pages
        self._notify = notify
        self._shortened: set[str] = set()
        """Lists of which the host has been told that they are too long."""
        self._output_schemas: dict[str, dict[str, Any]] = {}
        session: Any = client.session
        # The SDK's own check runs patterns of the server's schema on the event loop, with backtracking.
        session.validate_tool_result = self._check_structured

    @property
    def version(self) -> str:
        info = self._client.server_info
        return f"{info.name} {info.version}".strip() if info else ""

    async def tools(self) -> list[ListedTool]:
        """All tools. Raises ServerFault, and what the SDK raises."""
        listed: list[ListedTool] = []
        schemas: dict[str, dict[str, Any]] = {}
        async for page in _pages(self._client.list_tools):
            large = await self._pages.read(page.meta)
            listed += _listed(page.tools) if large is None else large
            schemas |= {tool.name: tool.output_schema for tool in page.tools if tool.output_schema}
            if len(listed) > MOST_TOOLS:
                del listed[MOST_TOOLS:]
                self._warn_shortened("tools", MOST_TOOLS)
                break
        self._output_schemas = schemas
        return listed

    async def prompts(self) -> list[PromptCommand]:
        return [
            PromptCommand(prompt.name, prompt.description or "", tuple(one.name for one in prompt.arguments or ()))
            for prompt in await self._entries("prompts", self._client.list_prompts)
        ]

    async def resources(self) -> list[Resource]:
        return [
            Resource(str(one.uri), one.name, one.mime_type or "", one.description or "")
            for one in await self._entries("resources", self._client.list_resources)
        ]

    async def _entries(self, kind: str, request: Callable[..., Awaitable[Any]]) -> list[Any]:
        """The prompts or resources of all pages. The host is told if some of them were left out."""
        entries: list[Any] = []
        shortened = False
        async for page in _pages(request):
            entries += getattr(page, kind)
            shortened = shortened or is_shortened(page.meta) or len(entries) > MOST_LISTED
            if len(entries) >= MOST_LISTED:
                break
        del entries[MOST_LISTED:]
        if shortened:
            self._warn_shortened(kind, len(entries))
        return entries

    def _warn_shortened(self, kind: str, count: int) -> None:
        if kind not in self._shortened:
            self._shortened.add(kind)
            self._notify(f"has more {kind} than are read at once; {count} of them can be used")

    async def _check_structured(self, name: str, result: Any) -> None:
        """Replaces the SDK's check of structured results, in bounded time. Raises RuntimeError, as the SDK does."""
        schema = self._output_schemas.get(name)
        if schema is None or is_shortened(result.meta):
            return
        if result.structured_content is None and "structured_content" not in result.model_fields_set:
            raise RuntimeError(f"Tool {name} has an output schema but did not return structured content")
        if fault := schema_error(result.structured_content, schema):
            raise RuntimeError(f"Invalid structured content returned by tool {name}: {fault}")

    async def call(self, tool: str, args: dict[str, Any], show: Callable[[str], None]) -> Any:
        """The SDK's result. Raises ServerFault. Cancelling the task cancels the call at the server."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            count = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            show(f"{message} ({count})\n" if message else f"{count}\n")

        try:
            return await self._client.call_tool(tool, args, progress_callback=on_progress)
        except (MCPError, ValidationError, RuntimeError) as error:
            raise self._fault(error) from None

    async def prompt(self, name: str, args: dict[str, str]) -> list[Any]:
        try:
            return list((await self._client.get_prompt(name, args)).messages)
        except (MCPError, ValidationError, RuntimeError) as error:
            raise self._fault(error) from None

    def _fault(self, error: Exception) -> ServerFault:
        if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
            self.lost.set()
        return ServerFault(explain(error))


@asynccontextmanager
async def connected(
    server: Server,
    setup: ServerSetup,
    log: ServerLog,
    ask: Callable[[Ask], Awaitable[Answer]],
    on_change: Callable[[str], None],
) -> AsyncIterator[Connection]:
    """Connect, for as long as the block runs. `on_change` gets the name of a list ("tools" ...) that has changed."""
    async with AsyncExitStack() as stack:
        pages = Pages()
        for mode in _MODES:
            lost = asyncio.Event()
            client = Client(
                streams(server, setup, log, lost, pages),
                mode=mode,
                cache=None,
                client_info=types.Implementation(name="polylect", version=__version__),
                list_roots_callback=partial(_roots, setup.workspace),
                elicitation_callback=partial(_elicit, server.name, ask),
                logging_callback=partial(_on_log, log),
                message_handler=partial(_on_notification, on_change),
            )
            try:
                await stack.enter_async_context(client)
                break
            except Exception as error:
                if mode == _MODES[-1] or not any(
                    isinstance(leaf, MCPError) and leaf.code in _NEWER_CODES for leaf in _leaves(error)
                ):
                    raise
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            listening = asyncio.create_task(_listen(client, on_change))
            stack.callback(listening.cancel)
        yield Connection(
            client,
            lost,
            pages,
            lambda text: setup.report(Notice(log.redact(f"The MCP server {server.name} {text}"), "warning")),
        )


def _listed(tools: list[types.Tool]) -> Iterator[ListedTool]:
    for tool in tools:
        if not (tool.execution and tool.execution.task_support == "required"):  # we cannot call it as a task
            yield ListedTool(tool.name, tool.description or "", msgspec.json.encode(tool.input_schema))


def explain(error: BaseException) -> str:
    """What went wrong, in words for people. Addresses are left out, because they may hold keys."""
    leaf = next(_leaves(error))
    match leaf:
        case MCPError() if leaf.code == types.CONNECTION_CLOSED:
            return "the server ended the connection"
        case MCPError():
            return str(leaf)
        case ToolError() | ServerFault():
            return str(leaf)
        case httpx2.HTTPStatusError():
            return f"HTTP {leaf.response.status_code} {leaf.response.reason_phrase}"
        case httpx2.TransportError():
            return f"the server cannot be reached: {str(leaf) or type(leaf).__name__}"
        case ValidationError():
            first = leaf.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            return f"the server's answer does not follow the protocol: {place}: {first['msg']}"
        case _:
            return str(leaf) or type(leaf).__name__


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


async def _pages(request: Callable[..., Awaitable[Any]]) -> AsyncIterator[Any]:
    """Every page of a list, up to _MOST_PAGES. A server that does not know the method has no page."""
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        try:
            page = await request(cursor=cursor)
        except MCPError as error:
            if error.code != types.METHOD_NOT_FOUND:
                raise
            return
        yield page
        cursor = page.next_cursor
        if not cursor:
            return


# Requests and notifications of the server.


async def _roots(workspace: str, context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=Path(workspace).as_uri(), name="workspace")])  # type: ignore[arg-type]


async def _elicit(
    server: str,
    ask: Callable[[Ask], Awaitable[Answer]],
    context: Any,
    params: types.ElicitRequestFormParams | types.ElicitRequestURLParams,
) -> types.ElicitResult | types.ErrorData:
    if isinstance(params, types.ElicitRequestURLParams):
        schema: dict[str, Any] = {}
        ask_event = url_ask(server, params.message, params.url)
    else:
        schema = params.requested_schema
        ask_event = form_ask(server, params.message, schema)
    result, content = elicitation_result(ask_event, schema, await ask(ask_event))
    return types.ElicitResult.model_validate({"action": result, "content": content})


async def _on_log(log: ServerLog, params: types.LoggingMessageNotificationParams) -> None:
    log.log(_LEVELS.get(params.level, logging.ERROR), f"{params.logger or 'log'}: {params.data}")


async def _on_notification(on_change: Callable[[str], None], message: Any) -> None:
    match message:
        case types.ToolListChangedNotification():
            on_change("tools")
        case types.PromptListChangedNotification():
            on_change("prompts")
        case types.ResourceListChangedNotification():
            on_change("resources")


async def _listen(client: Client, on_change: Callable[[str], None]) -> None:
    """From protocol 2026-07-28 on, a server sends notifications only to clients that listen for them."""
    async with client.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True) as events:
        async for _ in events:
            pass  # the SDK calls `_on_notification` for each
