"""A server that is a child process: one message on each line of its standard input and output.

The process is in custody. It gets a small environment (`system/child_environment.py`), a PATH without folders of the
workspace, and, if the user's own settings name it, an empty working folder. So no code of a workspace runs with the
rights of a server. What it writes to standard error goes to its log. Opened by `mcp/connection.py`.
"""

import asyncio
import os
from collections import deque

from polylect.mcp.server_config import PRIVATE, WORKSPACE
from polylect.mcp.server_log import ServerLog
from polylect.mcp.transports.base import Failed, Outgoing
from polylect.mcp.values import ENDED, ServerFault, ServerSetup
from polylect.permissions.rules import is_below
from polylect.sessions.folder import sessions_root
from polylect.system.child_environment import server_environment
from polylect.system.search_paths import entries_outside
from polylect.vocab.content import Server
from polylect.vocab.ports import Child
from polylect.wire.jsonl import Splitter, TooLong
from polylect.wire.jsonrpc import Id

_MOST_UNWRITTEN = 1000
"""Messages that the server has not read. With more of them nothing is read from it, so it cannot cause further ones."""


class StdioTransport:
    """See `Transport` in `base.py`. `send` only queues, so a cancelled sender cannot leave half a line behind."""

    def __init__(self, server: Server, setup: ServerSetup, log: ServerLog) -> None:
        self._server = server
        self._setup = setup
        self._log = log
        self._child: Child | None = None
        self._ended = False
        self._splitter = Splitter()
        self._lines: deque[bytes | TooLong] = deque()
        self._unwritten: asyncio.Queue[bytes] = asyncio.Queue()
        self._written = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if not self._server.command:
            raise ServerFault("the transport stdio needs a command")
        self._child = await self._setup.children.open(
            (self._server.command, *self._server.args),
            cwd=_working_folder(self._server, self._setup),
            env=_environment(self._server, self._setup),
            on_error_output=self._log.error_output,
        )
        self._writer = asyncio.create_task(self._write(self._child))

    def send(self, message: Outgoing) -> None:
        if self._ended:
            raise ServerFault(ENDED)
        self._unwritten.put_nowait(message.line + b"\n")

    async def receive(self) -> bytes | TooLong | Failed | None:
        assert self._child
        while not self._lines and not self._ended:
            while self._unwritten.qsize() > _MOST_UNWRITTEN and not self._ended:
                self._written.clear()
                await self._written.wait()
            data = await self._child.read()
            self._lines.extend(self._splitter.feed(data) if data else self._splitter.end())
            if not data:
                self._ended = True
        return self._lines.popleft() if self._lines else None

    def cancel(self, id: Id) -> None:
        pass

    def negotiated(self, version: str) -> None:
        pass

    async def close(self) -> None:
        self._ended = True
        if self._writer:
            self._writer.cancel()
        if self._child:
            await self._child.close()

    async def _write(self, child: Child) -> None:
        try:
            while True:
                line = await self._unwritten.get()
                while not self._unwritten.empty() and len(line) < 65536:
                    line += self._unwritten.get_nowait()
                await child.write(line)
                self._written.set()
        except OSError:  # it reads no more; whoever waits for its output must not wait for its end
            self._ended = True
            self._written.set()
            await child.close()


def _environment(server: Server, setup: ServerSetup) -> dict[str, str]:
    """The variables of a server. Its PATH has no folder of the workspace, unless its settings name one."""
    env = server_environment(setup.env, server.env)
    if "PATH" in env and "PATH" not in server.env:
        env["PATH"] = entries_outside(env["PATH"], setup.workspace)
    return env


def _working_folder(server: Server, setup: ServerSetup) -> str:
    """The folder in which a server runs.

    npx, python and similar programs load code from their working folder, and the author of a workspace may be unknown.
    So a server runs in an empty folder that commands cannot write to, unless its settings or its host name another one,
    or the workspace is trusted.
    """
    cwd = str(server.extras.get("cwd") or (WORKSPACE if setup.trusted else PRIVATE))
    if cwd == WORKSPACE:
        return setup.workspace
    if cwd != PRIVATE:
        return os.path.join(setup.workspace, cwd)
    folder = os.path.join(os.path.dirname(sessions_root(dict(setup.env))), "servers")
    if is_below(folder, os.path.realpath(setup.workspace)):
        return "/"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return "/"
    return folder if not os.listdir(folder) else "/"
