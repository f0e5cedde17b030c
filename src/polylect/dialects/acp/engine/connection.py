"""The connection to the client: what both peers have asked of each other and have not answered.

JSON-RPC goes both ways. A request of the client is answered once, at the latest when it is withdrawn
(`ClientRequest`). Our own requests have numbers; whoever sends one passes a function that gets the answer. Commands
that this end gives the engine have a `ref` in the same way. Everything on this end writes through one `Connection`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from polylect.dialects import line_limit
from polylect.dialects.acp.engine.client import Client
from polylect.dialects.acp.engine.tool_calls import DelayedOutput
from polylect.dialects.acp.frames.client import AuthMethod
from polylect.dialects.acp.versions import AUTH_REQUIRED, CANCELLED, MAX_FRAME
from polylect.dialects.base import Env
from polylect.vocab.commands import Command
from polylect.vocab.events import Reply
from polylect.wire import jsonl
from polylect.wire.jsonrpc import Error, Id, Invalid, Response

if TYPE_CHECKING:
    from polylect.dialects.acp.engine.v2 import SecondVersion

OnReply = Callable[[Reply], list[Command]]
OnResponse = Callable[[Response], list[Command]]
MAX_CONTENT = MAX_FRAME - 64 * 1024
"""The longest content of a message in bytes. Ids and the names around it take the rest."""


class Refusal(Exception):
    """A request of the client cannot be carried out: `error` is its answer."""

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(message)
        self.error = Error(code, message, data)


class ClientRequest:
    """A request of the client that waits for its one answer. `on_cancel` is called if the client withdraws it."""

    def __init__(self, connection: "Connection", id: Id, method: str) -> None:
        self.id = id
        self.method = method
        self.on_cancel: Callable[[], list[Command]] | None = None
        self._connection = connection
        self._answered = False

    def answer(self, result: object) -> None:
        if self.close():
            self._connection.out.append(_message({"id": self.id}, "result", self._connection.form(result)))

    def fail(self, error: Error) -> None:
        """Answer with an error. One that asks for a login repeats the ways to log in, as kimi does."""
        if error.code == AUTH_REQUIRED and isinstance(error.data, dict):
            methods = [self._connection.form(method) for method in self._connection.auth_methods]
            error = replace(error, data={**error.data, "authMethods": methods})
        if self.close():
            self._connection.out.append(_message({"id": self.id}, "error", error))

    def close(self) -> bool:
        """Nothing is answered any more. Returns whether it was still open."""
        was_open, self._answered = not self._answered, True
        self._connection.forget(self)
        return was_open


class Connection:
    def __init__(self, env: Env) -> None:
        self.env = env
        self.out: list[bytes] = []
        """Lines for the client."""
        self.client = Client()
        self.auth_methods: tuple[AuthMethod, ...] = ()
        """The ways to log in that the client was offered."""
        self.v2: SecondVersion | None = None
        """Translates messages, if version 2 is spoken."""
        self.delayed = DelayedOutput(env.now)
        self._open: dict[Id, ClientRequest] = {}
        """Requests of the client, by id. Of two with the same id, the last one."""
        self._responses: dict[int, OnResponse] = {}
        """Who waits for the answers to our own requests."""
        self._last_id = -1
        self._replies: dict[str, OnReply] = {}
        """Who waits for the replies of the engine, by ref."""

    def form(self, value: object) -> object:
        """A result, or the params of a request, in the form of the version that is spoken."""
        return self.v2.form(value) if self.v2 else value

    # Requests of the client.

    def open_request(self, id: Id, method: str) -> ClientRequest:
        self._open[id] = request = ClientRequest(self, id, method)
        return request

    def forget(self, request: ClientRequest) -> None:
        if self._open.get(request.id) is request:
            del self._open[request.id]

    def cancel_request(self, id: Id) -> list[Command]:
        """The client withdraws a request. If nobody can stop it, it gets its ordinary answer."""
        request = self._open.get(id)
        if request is None or request.on_cancel is None:
            return []
        return request.on_cancel()

    def refuse_cancelled(self, request: ClientRequest) -> None:
        request.fail(Error(CANCELLED, f"{request.method} was withdrawn"))

    # Our own requests.

    def request(self, method: str, params: object, on_response: OnResponse, out: list[bytes] | None = None) -> int:
        """Ask the client. `out` gets the line, if it has to wait. Returns the id, for `withdraw`."""
        self._last_id += 1
        self._responses[self._last_id] = on_response
        line = _message({"id": self._last_id, "method": method}, "params", self.form(params))
        (self.out if out is None else out).append(line)
        return self._last_id

    def response(self, response: Response) -> list[Command]:
        """An answer of the client; one that nobody waits for is ignored."""
        id = response.id
        waiting = self._responses.pop(id, None) if isinstance(id, int) else None
        return waiting(response) if waiting else []

    def invalid(self, message: Invalid) -> list[Command]:
        """A message that is not valid: a failed answer, if it can be one to a request of ours; else it is answered."""
        if message.may_answer and message.id in self._responses:
            return self.response(Response(message.id, error=message.error))
        self.open_request(message.id, "").fail(message.error)
        return []

    def withdraw(self, id: int, on_late_response: OnResponse | None = None) -> None:
        """Nobody waits for the answer to our request any more; if it comes all the same, it is passed on."""
        if self._responses.pop(id, None):
            self.notify("$/cancel_request", {"requestId": id})
            if on_late_response:
                self._responses[id] = on_late_response

    def notify(self, method: str, params: object) -> None:
        self.out.append(_message({"method": method}, "params", params))

    # Commands for the engine.

    def expect(self, on_reply: OnReply) -> str:
        """The ref for a command whose reply goes to `on_reply`."""
        ref = self.env.new_id()
        self._replies[ref] = on_reply
        return ref

    def reply(self, event: Reply) -> list[Command]:
        waiting = self._replies.pop(event.ref, None)
        return waiting(event) if waiting else []


def _message(head: dict[str, object], name: str, content: object) -> bytes:
    """A JSON-RPC message with the fields of `head` and `content` as the field `name`. Only the content is shortened."""
    start = jsonl.dump({"jsonrpc": "2.0", **head})[:-2]
    return b'%b,"%b":%b}\n' % (start, name.encode(), line_limit.line(content, MAX_CONTENT)[:-1])
