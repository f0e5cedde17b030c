"""Work that the engine leaves to the client: its files and its terminals.

    HostCall("read_text_file", {"path", "line", "limit"})  ->  fs/read_text_file  ->  HostReply({"content"})
    HostCall("create_terminal", {"command", ...})          ->  terminal/create    ->  HostReply({"terminal"})

A terminal that is created for a call (`call`, its id) is shown in the place of that call's output. Nothing is asked of
a client that has not offered it. A call that the engine no longer waits for is withdrawn; what the client says to it
later is ignored, but for a terminal that it has created: that is released. The codec is the caller.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from polylect.dialects.acp.engine.client import Client
from polylect.dialects.acp.engine.connection import Connection
from polylect.dialects.acp.engine.encode import SessionWriter
from polylect.dialects.acp.frames import agent
from polylect.dialects.acp.frames.client import NameValue
from polylect.dialects.acp.versions import NOT_FOUND
from polylect.vocab.commands import Command, HostReply
from polylect.vocab.events import HostCall
from polylect.wire.jsonrpc import Response

Object = dict[str, Any]


class HostCalls:
    """The calls of all sessions that the client has not answered."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[tuple[str, str], tuple[int, str, bool]] = {}
        """By session and call: the id of our request, the turn, and whether it creates a terminal."""

    def call(self, event: HostCall, session: str, writer: SessionWriter) -> list[Command]:
        """Ask the client. `session` is the one that the reply is for, `writer` that of the agent that asks."""
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
