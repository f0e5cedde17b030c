"""One living connection to a server, through the SDK.

Importing it loads the SDK: half a second and 45 MiB, so it is imported in a thread, when the first server is named.
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
from polylect.mcp.elicit import action, address, question
from polylect.mcp.large import Pages, is_shortened
from polylect.mcp.server_log import Remarks
from polylect.mcp.tool import Listed
from polylect.mcp.transports import streams
from polylect.mcp.values import Fault, Place, PromptCommand, Resource
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.errors import ToolError
from polylect.vocab.events import Ask

_MODES = ("legacy", "auto")
"""The handshake that all servers know comes first: some end at once when they hear a newer question before it."""
_NEWER = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)
_PAGES = 100
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING}


class Link:
    """A server that has answered. `lost` is set once it will answer no more."""

    def __init__(self, client: Client, lost: asyncio.Event, pages: Pages) -> None:
        self.lost = lost
        self._client = client
        self._pages = pages
        session: Any = client.session
        session.validate_tool_result = partial(_check_whole, session.validate_tool_result)

    @property
    def version(self) -> str:
        info = self._client.server_info
        return f"{info.name} {info.version}".strip() if info else ""

    async def tools(self) -> list[Listed]:
        """All tools. Raises Fault, and what the SDK raises."""
        listed: list[Listed] = []
        for page in await _all(self._client.list_tools):
            large = await self._pages.take(page.meta)
            if large is not None:
                session: Any = self._client.session
                session.validate_tool_result = _unchecked  # it would ask for the whole list again at each call
            listed += _listed(page.tools) if large is None else large
        return listed

    async def prompts(self) -> list[PromptCommand]:
        pages = await _all(self._client.list_prompts)
        return [
            PromptCommand(prompt.name, prompt.description or "", tuple(one.name for one in prompt.arguments or ()))
            for page in pages
            for prompt in page.prompts
        ]

    async def resources(self) -> list[Resource]:
        pages = await _all(self._client.list_resources)
        return [
            Resource(str(one.uri), one.name, one.mime_type or "", one.description or "")
            for page in pages
            for one in page.resources
        ]

    async def call(self, tool: str, args: dict[str, Any], show: Callable[[str], None]) -> Any:
        """The SDK's result. Raises Fault. When cancelled, the server is told."""

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

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
            self.lost.set()
        return Fault(why(error))


@asynccontextmanager
async def connected(
    server: Server,
    place: Place,
    remarks: Remarks,
    ask: Callable[[Ask], Awaitable[Answer]],
    on_change: Callable[[str], None],
) -> AsyncIterator[Link]:
    """A link for as long as the block runs. `on_change` hears that tools, prompts or resources are others now."""
    async with AsyncExitStack() as stack:
        pages = Pages()
        for mode in _MODES:
            lost = asyncio.Event()
            client = Client(
                streams(server, place, remarks, lost, pages),
                mode=mode,
                cache=None,
                client_info=types.Implementation(name="polylect", version=__version__),
                list_roots_callback=partial(_roots, place.workspace),
                elicitation_callback=partial(_elicit, server.name, ask),
                logging_callback=partial(_log, remarks),
                message_handler=partial(_hear, on_change),
            )
            try:
                await stack.enter_async_context(client)
                break
            except Exception as error:
                if mode == _MODES[-1] or not any(_is_newer(leaf) for leaf in _leaves(error)):
                    raise
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            listening = asyncio.create_task(_listen(client, on_change))
            stack.callback(listening.cancel)
        yield Link(client, lost, pages)


def _listed(tools: list[types.Tool]) -> Iterator[Listed]:
    for tool in tools:
        if not (tool.execution and tool.execution.task_support == "required"):  # a way of calling we do not have
            yield Listed(tool.name, tool.description or "", msgspec.json.encode(tool.input_schema))


async def _check_whole(check: Callable[[str, Any], Awaitable[None]], name: str, result: Any) -> None:
    """The SDK's check of structured results, except for those whose structured form was left out."""
    if not is_shortened(result.meta):
        await check(name, result)


async def _unchecked(name: str, result: Any) -> None:
    """In the place of the SDK's check of structured results."""


def why(error: BaseException) -> str:
    """What went wrong, for people, without addresses that may hold keys."""
    leaf = next(_leaves(error))
    match leaf:
        case MCPError() if leaf.code == types.CONNECTION_CLOSED:
            return "the server ended the connection"
        case MCPError():
            return str(leaf)
        case ToolError() | Fault():
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


def _is_newer(error: BaseException) -> bool:
    return isinstance(error, MCPError) and error.code in _NEWER


async def _all(ask: Callable[..., Awaitable[Any]]) -> list[Any]:
    """Every page; a server that does not know the question has none."""
    pages: list[Any] = []
    cursor: str | None = None
    try:
        for _ in range(_PAGES):
            pages.append(await ask(cursor=cursor))
            cursor = pages[-1].next_cursor
            if not cursor:
                break
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
    return pages


# What a server may ask for and tell.


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
        put = address(server, params.message, params.url)
    else:
        schema = params.requested_schema
        put = question(server, params.message, schema)
    done, content = action(put, schema, await ask(put))
    return types.ElicitResult.model_validate({"action": done, "content": content})


async def _log(remarks: Remarks, params: types.LoggingMessageNotificationParams) -> None:
    remarks.log(_LEVELS.get(params.level, logging.ERROR), f"{params.logger or 'log'}: {params.data}")


async def _hear(on_change: Callable[[str], None], message: Any) -> None:
    match message:
        case types.ToolListChangedNotification():
            on_change("tools")
        case types.PromptListChangedNotification():
            on_change("prompts")
        case types.ResourceListChangedNotification():
            on_change("resources")


async def _listen(client: Client, on_change: Callable[[str], None]) -> None:
    """From 2026-07-28 on, changes are told only to those who listen."""
    async with client.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True) as events:
        async for _ in events:
            pass  # `_hear` is told as well
