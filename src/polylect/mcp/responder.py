"""Answers what an MCP server requires of us: roots, questions to the person, replies of the model.

`connection.py` calls it for requests of the server, and for those inside a result that requires input (2026-07-28).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from polylect.mcp.elicit import elicitation_result, form_ask, url_ask
from polylect.mcp.protocol import client, frames
from polylect.mcp.protocol.lenient import Malformed
from polylect.mcp.server_log import ServerLog
from polylect.mcp.values import ServerFault, ServerSetup
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.events import Ask, Notice
from polylect.wire import jsonrpc
from polylect.wire.jsonrpc import Error

_MOST_INPUTS = 20
_UNQUOTED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/")
Sample = Callable[[frames.CreateMessageRequestParams], Awaitable[frames.CreateMessageResult]]


class RequestRefused(ServerFault):
    """A request was answered with an error, by the server or by us, or HTTP refused it with a status."""

    def __init__(self, error: Error, status: int = 0) -> None:
        super().__init__(error.message)
        self.error = error
        self.status = status


class Responder:
    """Answers what a server requires of us."""

    def __init__(
        self,
        server: Server,
        setup: ServerSetup,
        log: ServerLog,
        ask: Callable[[Ask], Awaitable[Answer]],
        on_change: Callable[[str], None],
        sample: Sample | None,
    ) -> None:
        self.on_change = on_change
        self._server = server
        self._setup = setup
        self._log = log
        self._ask = ask
        self._sample = sample

    @property
    def _roots(self) -> dict[str, Any] | None:
        """What we offer of roots: None if the server's settings say that it is not told of the workspace."""
        return None if self._server.extras.get("roots") is False else {}

    def capabilities(self) -> frames.ClientCapabilities:
        elicitation: dict[str, Any] = {"form": {}, "url": {}}
        sampling: dict[str, Any] | None = {} if self._sample else None
        return frames.ClientCapabilities(roots=self._roots, elicitation=elicitation, sampling=sampling)

    def notify(self, text: str) -> None:
        """Show a text to the host."""
        self._setup.report(Notice(self._log.redact(f"The MCP server {self._server.name} {text}"), "warning"))

    async def result(self, request: client.ServerRequest) -> object:
        """The result of one request. Raises RequestRefused."""
        match request.params:
            case frames.ElicitRequestParams():
                return await self._elicit(request.params)
            case frames.CreateMessageRequestParams():
                if self._sample is None:
                    raise RequestRefused(Error(jsonrpc.METHOD_NOT_FOUND, "Sampling is not offered"))
                return await self._sample(request.params)
            case _ if self._roots is None:
                raise RequestRefused(Error(jsonrpc.METHOD_NOT_FOUND, "Roots are not offered"))
            case _:
                root = frames.Root(uri=_file_uri(self._setup.workspace), name="workspace")
                return frames.ListRootsResult(roots=[root])

    async def input_responses(self, requests: dict[str, Raw]) -> dict[str, object]:
        """The results of all requests of an `input_required` result. Raises ServerFault."""
        if len(requests) > _MOST_INPUTS:
            raise ServerFault(f"the server requires {len(requests)} inputs at once")
        try:
            parsed = {key: client.read_input_request(request) for key, request in requests.items()}
        except Malformed as error:
            raise ServerFault(f"the server's answer does not follow the protocol: {error}") from None
        results = await asyncio.gather(*map(self.result, parsed.values()))
        return dict(zip(parsed, results, strict=True))

    async def is_accepted(self, params: frames.ElicitRequestParams) -> bool:
        """Whether the person says yes to a question."""
        return (await self._elicit(params)).action == "accept"

    async def _elicit(self, params: frames.ElicitRequestParams) -> frames.ElicitResult:
        schema: dict[str, Any] = {}
        if params.mode == "url":
            question = url_ask(self._server.name, params.message, params.url or "")
        else:
            schema = params.requested_schema or {}
            question = form_ask(self._server.name, params.message, schema)
        action, content = elicitation_result(question, schema, await self._ask(question))
        return msgspec.convert({"action": action, "content": content}, frames.ElicitResult)


def _file_uri(path: str) -> str:
    """The address of a file, as `Path.as_uri` makes it; that one needs 3 ms of imports."""
    return "file://" + "".join(chr(byte) if byte in _UNQUOTED else f"%{byte:02X}" for byte in os.fsencode(path))
