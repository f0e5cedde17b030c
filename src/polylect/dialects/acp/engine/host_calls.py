"""Work that the engine leaves to the client: its files, its terminals and MCP servers inside of it.

    HostCall("read_text_file", {"path", "line", "limit"})  ->  fs/read_text_file  ->  HostReply({"content"})
    HostCall("create_terminal", {"command", ...})          ->  terminal/create    ->  HostReply({"terminal"})
    HostCall("mcp_message", {"server_name", "message"})    ->  mcp/message        ->  HostReply({"mcp_response"})

A terminal that is created for a call (`call`, its id) is shown in the place of that call's output. Nothing is asked of
a client that has not offered it. A call that the engine no longer waits for is withdrawn; what the client says to it
later is ignored, but for a terminal that it has created: that is released. The codec is the caller.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from polylect.dialects.acp.engine.client import Client
from polylect.dialects.acp.engine.connection import Connection
from polylect.dialects.acp.engine.encode import SessionWriter
from polylect.dialects.acp.frames import agent
from polylect.dialects.acp.frames.client import McpServer, NameValue
from polylect.dialects.acp.versions import NOT_FOUND
from polylect.vocab.commands import Command, HostReply, HostSays
from polylect.vocab.events import HostCall
from polylect.wire.jsonrpc import Response

Object = dict[str, Any]


class HostCalls:
    """The calls of all sessions that the client has not answered."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[tuple[str, str], tuple[int, str, bool]] = {}
        """By session and call: the id of our request, the turn, and whether it creates a terminal."""
        self._servers: dict[tuple[str, str], str] = {}
        """MCP servers inside of the client: the id of each on the wire, by session and name."""

    def add_servers(self, session: str, servers: Iterable[McpServer]) -> None:
        """The client brings these MCP servers for a session."""
        for server in servers:
            if server.type == "acp" and isinstance(server.server_id, str):
                self._servers[session, server.name] = server.server_id

    def drop_servers(self, session: str) -> None:
        for key in [key for key in self._servers if key[0] == session]:
            del self._servers[key]

    def call(self, event: HostCall, session: str, writer: SessionWriter) -> list[Command]:
        """Ask the client. `session` is the one that the reply is for, `writer` that of the agent that asks."""
        if event.method == "mcp_message":
            return self._call_server(event, session)
        method = _METHODS.get(event.method)
        if method is None or not method.offered(self._connection.client):
            why = f"the client does not offer {event.method}"
            return [HostReply(event.call, error=why, session=session)]
        try:
            params = method.params(session, event.params if isinstance(event.params, dict) else {})
        except (KeyError, TypeError, ValueError) as error:
            return [HostReply(event.call, error=f"{event.method}: {error} is missing or wrong", session=session)]

        creates = method is _METHODS["create_terminal"]

        def answered(response: Response) -> list[Command]:
            self._open.pop((session, event.call), None)
            reply = _reply(event.call, method, response, session)
            if creates and not reply.error:
                writer.show_terminal(str(event.params.get("call", "")), reply.result["terminal"])
            return [reply]

        id = self._connection.request(method.name, params, answered)
        self._open[session, event.call] = id, event.turn, creates
        return []

    def _call_server(self, event: HostCall, session: str) -> list[Command]:
        """Send a request to an MCP server inside of the client. Its answer is inside of that of the client.

        The wire has no form for notifications to a server, so these are dropped: a request that is cancelled is
        withdrawn by `$/cancel_request`.
        """
        name, message = str(event.params.get("server_name", "")), event.params.get("message") or {}
        server = self._servers.get((session, name))
        if server is None:
            return [HostReply(event.call, error=f"the client has no MCP server {name!r}", session=session)]
        id, method = message.get("id"), message.get("method")
        if id is None or not isinstance(method, str):
            return [HostReply(event.call, {"mcp_response": {}}, session=session)]

        def answered(response: Response) -> list[Command]:
            self._open.pop((session, event.call), None)
            if response.error:
                return [HostReply(event.call, error=response.error.message or "the client failed", session=session)]
            outcome = response.result if isinstance(response.result, dict) else {}
            kind = "result" if "result" in outcome else "error"
            answer = {"jsonrpc": "2.0", "id": id, kind: outcome.get(kind)}
            return [HostReply(event.call, {"mcp_response": answer}, session=session)]

        params = agent.McpMessage(server_id=server, request_id=str(id), method=method, params=message.get("params"))
        request = self._connection.request("mcp/message", params, answered)
        self._open[session, event.call] = request, event.turn, False
        return []

    def server_message(self, fields: Object) -> list[Command]:
        """A notification of an MCP server inside of the client. One that is not understood is ignored."""
        method, params = fields.get("method"), fields.get("params")
        if not isinstance(method, str):
            return []
        message = {"jsonrpc": "2.0", "method": method, **({"params": params} if isinstance(params, dict) else {})}
        named = [key for key, id in self._servers.items() if id == fields.get("serverId")]
        return [
            HostSays("mcp_message", {"server_name": name, "message": message}, session=session)
            for session, name in named
        ]

    def close(self, session: str, call: str) -> None:
        """The engine no longer waits for the call."""
        if pending := self._open.pop((session, call), None):
            id, _, creates = pending
            self._connection.withdraw(id, (lambda response: self._release(session, response)) if creates else None)

    def close_all(self, session: str, turn: str | None = None) -> list[Command]:
        """Withdraw the calls of a session, or only those of a turn of it. Each still gets its reply."""
        closed = [key for key, (_, of, _) in self._open.items() if key[0] == session and turn in (None, of)]
        for _, call in closed:
            self.close(session, call)
        return [HostReply(call, error="the turn has ended", session=session) for _, call in closed]

    def _release(self, session: str, response: Response) -> list[Command]:
        """Release a terminal that the client has created after nobody waited for it any more."""
        match response.result:
            case {"terminalId": str(terminal)}:
                released = agent.OneTerminal(session_id=session, terminal_id=terminal)
                self._connection.request("terminal/release", released, lambda response: [])
        return []


class _Method(msgspec.Struct, frozen=True):
    """How a call is said: the method, whether a client offers it, its params, and the result in our words."""

    name: str
    offered: Callable[[Client], bool]
    params: Callable[[str, Object], object]
    result: Callable[[Object], Object]


def _reply(call: str, method: _Method, response: Response, session: str) -> HostReply:
    if response.error:
        code = "missing" if response.error.code == NOT_FOUND else ""
        return HostReply(call, error=response.error.message or "the client failed", code=code, session=session)
    result = response.result if isinstance(response.result, dict) else {}
    try:
        return HostReply(call, method.result(result), session=session)
    except (KeyError, TypeError):
        return HostReply(call, error=f"the client's answer to {method.name} is not valid", session=session)


def _read(session: str, params: Object) -> object:
    return agent.ReadTextFile(
        session_id=session, path=params["path"], line=params.get("line"), limit=params.get("limit")
    )


def _write(session: str, params: Object) -> object:
    return agent.WriteTextFile(session_id=session, path=params["path"], content=params["content"])


def _create(session: str, params: Object) -> object:
    return agent.CreateTerminal(
        session_id=session,
        command=params["command"],
        args=tuple(params.get("args") or ()),
        env=tuple(NameValue(name=name, value=value) for name, value in (params.get("env") or {}).items()),
        cwd=params.get("cwd"),
        output_byte_limit=params.get("limit"),
    )


def _terminal(session: str, params: Object) -> object:
    return agent.OneTerminal(session_id=session, terminal_id=params["terminal"])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _content(result: Object) -> Object:
    return {"content": _text(result["content"])}


def _created(result: Object) -> Object:
    return {"terminal": _text(result["terminalId"])}


def _output(result: Object) -> Object:
    status = result.get("exitStatus")
    return {
        "output": _text(result["output"]),
        "truncated": result.get("truncated") is True,
        "running": not isinstance(status, dict),
        **_exit(status if isinstance(status, dict) else {}),
    }


def _exit(result: Object) -> Object:
    return {"exit_code": result.get("exitCode"), "signal": result.get("signal")}


def _nothing(result: Object) -> Object:
    return {}


def _reads(client: Client) -> bool:
    return client.read


def _writes(client: Client) -> bool:
    return client.write


def _runs(client: Client) -> bool:
    return client.terminals


_METHODS = {
    "read_text_file": _Method("fs/read_text_file", _reads, _read, _content),
    "write_text_file": _Method("fs/write_text_file", _writes, _write, _nothing),
    "create_terminal": _Method("terminal/create", _runs, _create, _created),
    "terminal_output": _Method("terminal/output", _runs, _terminal, _output),
    "wait_for_terminal_exit": _Method("terminal/wait_for_exit", _runs, _terminal, _exit),
    "kill_terminal": _Method("terminal/kill", _runs, _terminal, _nothing),
    "release_terminal": _Method("terminal/release", _runs, _terminal, _nothing),
}
