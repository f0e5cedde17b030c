"""The connection to an agent: requests that wait for their answers, and what the agent is.

Both ends send requests, and each counts its own ids. Ours are whole numbers; the agent's are echoed as they came.
"""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from polylect.dialects.acp.frames.content import Shape
from polylect.dialects.acp.host.failures import failure_of
from polylect.dialects.acp.host.handshake import AgentInfo
from polylect.dialects.acp.versions import MAX_FRAME
from polylect.dialects.base import Env
from polylect.dialects.host_base import Refusal
from polylect.dialects.lenient import Object
from polylect.vocab.content import Failure
from polylect.vocab.events import Event
from polylect.wire import jsonrpc

if TYPE_CHECKING:
    from polylect.dialects.acp.host.v2 import SecondVersion

Answered = Callable[[Object, Failure | None], list[Event]]
"""Takes the result of a request, or why it failed, and returns the events that follow."""


class Connection:
    """What every part of the host side shares.

    Args:
        env: The clock and the ids.
        write: Takes lines for the agent.
    """

    def __init__(self, env: Env, write: Callable[[bytes], None]) -> None:
        self.env = env
        self.agent = AgentInfo()
        self.listening = False
        """Whether only a recording is read: then nothing is sent that the host did not ask for."""
        self.retired = False
        """Whether the agent is of no more use: another one goes on, and gets the prompts that wait."""
        self._write = write
        self.v2: SecondVersion | None = None
        """Translates messages, if version 2 is spoken."""
        self._ids = count(1)
        self._waiting: dict[jsonrpc.Id, Answered] = {}

    def request(self, method: str, params: Shape, answered: Answered) -> None:
        """Sends a request. Raises Refusal if it is too long for the wire."""
        id = next(self._ids)
        if self.v2:
            method, params = self.v2.request(method, params)
        line = jsonrpc.request(id, method, params)
        if len(line) > MAX_FRAME:
            raise Refusal(f"a line of this wire holds at most {MAX_FRAME} bytes; attach a path", "too_long")
        if not self.listening:
            self._write(line)
            self.note_request(id, answered, method, getattr(params, "session_id", ""))

    def notify(self, method: str, params: Shape) -> None:
        self._write(jsonrpc.notification(method, params))

    def result(self, id: jsonrpc.Id, value: Shape) -> None:
        self._write(jsonrpc.result(id, value))

    def error(self, id: jsonrpc.Id, error: jsonrpc.Error) -> None:
        self._write(jsonrpc.error(id, error))

    def note_request(self, id: jsonrpc.Id, answered: Answered, method: str, session: str) -> None:
        """A request that our own end has sent, perhaps by other means."""
        self._waiting[id] = answered
        if self.v2:
            self.v2.sent(id, method, session)

    def receive(self, response: jsonrpc.Response) -> list[Event] | None:
        """The events that follow from an answer; None if nothing was asked with this id."""
        answered = self._waiting.pop(response.id, None)
        if answered is None:
            return None
        if response.error is not None:
            data: Object = response.error.data if isinstance(response.error.data, dict) else {}
            return answered(data, failure_of(response.error, self.agent))
        return answered(response.result if isinstance(response.result, dict) else {}, None)
