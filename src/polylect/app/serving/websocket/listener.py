"""Listens on one address for clients of ACP: `polylect acp --listen 127.0.0.1:0`.

Each client has a connection of its own with its own sessions, all in this process. What one of them does, breaks or
does not read concerns no other. `serve.py` runs a `Listener` in the place of stdin and stdout.
"""

import asyncio
import os
import secrets
import stat
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec.structs import replace
from websockets.frames import CloseCode
from websockets.http11 import Request

from polylect.app.cli.terminal import print_error
from polylect.app.serving.websocket.admission import PATH, Admission, Refusal, connection_id
from polylect.app.serving.websocket.client_connection import ClientConnection
from polylect.app.serving.websocket.web_socket import Limits, WebSocket
from polylect.app.startup.config import texts
from polylect.app.startup.start import ENDING_SIGNALS, CannotStart, Start
from polylect.dialects.acp.frames.own_meta import read_own
from polylect.dialects.acp.versions import MAX_FRAME
from polylect.system.tasks import TaskSet
from polylect.wire import jsonl, jsonrpc

if TYPE_CHECKING:
    from ssl import SSLContext

TOKEN_VARIABLE = "POLYLECT_ACP_TOKEN"
_SHORTEST_TOKEN = 16
_MAX_CONNECTIONS = 256
_RESUME_SECONDS = 60.0
_END_SECONDS = 1.5
"""How long sessions may take to end after a signal."""


class Listener:
    """The address, and all connections to it. `start` is the start of the process."""

    def __init__(self, start: Start) -> None:
        values = start.values
        self._start = start
        self._host, port = str(values["listen"]).rsplit(":", 1)
        self._port = int(port)
        self._most = int(str(values.get("max_connections") or _MAX_CONNECTIONS))
        seconds = values.get("resume_seconds")
        self._resume_seconds = _RESUME_SECONDS if seconds is None else float(str(seconds))
        ping = float(str(values.get("ping_seconds") or Limits(0).ping))
        self._limits = Limits(int(str(values.get("max_line") or MAX_FRAME)), ping=ping)
        self._sockets: set[WebSocket] = set()
        self._connections: dict[str, ClientConnection] = {}
        self._closing = TaskSet()
        self._tls: SSLContext | None = None
        self._signal = 0
        self._ended = asyncio.Event()

    async def run(self) -> int:
        """Serves until a signal comes. Returns the exit code."""
        loop = asyncio.get_running_loop()
        try:
            token, is_new = _token(self._start)
            self._tls = _tls(self._start)
            server = await loop.create_server(self._new_socket, self._host, self._port, ssl=self._tls)
        except CannotStart as error:
            print_error(error)
            return error.code
        except OSError as error:
            print_error(f"cannot listen on {self._host}:{self._port}: {error.strerror}")
            return 1
        names = {self._host.lower(), *(name.lower() for name in texts(self._start.values, "allow_host"))}
        origins = frozenset(name.lower().rstrip("/") for name in texts(self._start.values, "allow_origin"))
        self._admission = Admission(token, frozenset(names), origins)
        self._announce(server.sockets[0].getsockname()[1], token if is_new else "")
        loop.add_reader(self._start.signals, self._on_signal)
        await self._ended.wait()
        server.close()
        for socket in list(self._sockets):
            socket.close(CloseCode.GOING_AWAY, "the agent ends")
        for connection in list(self._connections.values()):
            connection.end()
        await self._closing.finished(_END_SECONDS)
        return 128 + self._signal

    def _announce(self, port: int, token: str) -> None:
        """Tells programs on stdout, and people on stderr, where to connect."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        url = f"{'wss' if self._tls else 'ws'}://{host}:{port}{PATH}"
        fields = {"url": url, "host": self._host, "port": port, "path": PATH}
        print_error(f"listening for clients of ACP on {url}")
        if token:
            fields["token"] = token
            print_error(f"the token for this time is {token} (set {TOKEN_VARIABLE} or --token-file to choose it)")
        try:
            os.write(self._start.stdout, jsonl.dump(fields))
        except OSError:
            pass  # nobody reads it

    def _on_signal(self) -> None:
        for number in os.read(self._start.signals, 64):
            if number in ENDING_SIGNALS:
                self._signal = number
                self._ended.set()

    # Sockets.

    def _new_socket(self) -> WebSocket:
        crowded = len(self._sockets) > 2 * self._most  # most of them without a token: this one has no time
        limits = replace(self._limits, handshake=0.0) if crowded else self._limits
        return WebSocket(limits, self._admit, self._begin, self._sockets.discard, self._sockets.add)

    def _admit(self, socket: WebSocket, request: Request) -> Refusal | dict[str, str]:
        """Checks a handshake. Returns the headers of the answer."""
        if refusal := self._admission.refusal(request):
            return refusal
        if id := connection_id(request):
            known = self._connections.get(id)
            if known is None or not known.is_resumable:
                return Refusal(HTTPStatus.NOT_FOUND, "there is no such connection: connect without Acp-Connection-Id")
        elif len(self._connections) + self._uninitialized() >= self._most:
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"there are {self._most} connections; see --max-connections")
        socket.connection, socket.resumes = id or secrets.token_urlsafe(24), bool(id)
        return {"Acp-Connection-Id": socket.connection}

    def _uninitialized(self) -> int:
        """How many sockets have passed the handshake and no more."""
        return sum(1 for socket in self._sockets if socket.connection and not socket.receiver)

    def _begin(self, socket: WebSocket, message: bytes) -> None:
        """The first message of a socket has to be `initialize`. As in the SDK, what is no message does not count."""
        match request := jsonrpc.read(message):
            case jsonrpc.Invalid(_, error):
                return socket.send([jsonrpc.error(None, error)[:-1]])
            case jsonrpc.Response():
                return None
        if isinstance(request, jsonrpc.Notification) or request.method != "initialize" or request.id is None:
            return socket.close(CloseCode.PROTOCOL_ERROR, "the first message has to be initialize, with an id")
        if socket.resumes:
            if known := self._connections.get(socket.connection):
                return known.resume(socket, request)
            return socket.close(CloseCode.PROTOCOL_ERROR, "the connection has ended meanwhile")
        params = request.params if isinstance(request.params, dict) else {}
        asks_to_resume = read_own(params.get("_meta")).get("resume") is True
        seconds = self._resume_seconds if asks_to_resume else 0.0
        connection = ClientConnection(socket.connection, self._start, seconds, self._on_connection_ended)
        self._connections[connection.id] = connection
        connection.attach(socket)
        return connection.receive(message)

    def _on_connection_ended(self, connection: ClientConnection) -> None:
        del self._connections[connection.id]
        self._closing.start(connection.close())


def _tls(start: Start) -> "SSLContext | None":
    """The certificate that clients are shown; None where nothing is encrypted. Raises CannotStart."""
    cert, key = start.values.get("tls_cert"), start.values.get("tls_key")
    if not cert:
        return None
    import ssl  # only for who encrypts

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(str(cert), str(key) if key else None, password=_no_password)
    except OSError as error:  # also errors of ssl itself
        files = f"--tls-cert {cert}" + (f" --tls-key {key}" if key else "")
        raise CannotStart(f"{files}: {error.strerror or error}; PEM files of one pair are needed", code=2) from None
    return context


def _no_password() -> str:
    """Nobody can be asked for the password of a key: it is refused."""
    return ""


def _token(start: Start) -> tuple[str, bool]:
    """The token that clients need, and whether it was made just now and is written nowhere. Raises CannotStart."""
    path, token = start.values.get("token_file"), start.env.pop(TOKEN_VARIABLE, "")
    if path:
        token = _token_in(str(path))
    elif not token:
        return secrets.token_urlsafe(32), True
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise CannotStart(f"a token needs {_SHORTEST_TOKEN} characters or more: letters, digits, '-' and '_'", code=2)
    return token, False


def _token_in(path: str) -> str:
    """The token in a file that only its owner can read; a missing file is made. Raises CannotStart."""
    try:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            with open(path) as file:
                if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise CannotStart(f"--token-file {path}: others can use this file; run: chmod 600 {path}") from None
                return file.read(1024).strip()
        with open(descriptor, "w") as file:
            token = secrets.token_urlsafe(32)
            file.write(f"{token}\n")
            return token
    except (OSError, UnicodeDecodeError) as error:
        raise CannotStart(f"--token-file {path}: {error}") from None
