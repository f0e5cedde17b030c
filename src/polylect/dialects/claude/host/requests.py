"""Matches answers of the engine to the control requests of the host.

A command may need several requests and gets one reply, when the last of them is answered; the first failure is the
reply's failure. `CommandWriter` sends, the codec hands in the responses.
"""

from collections.abc import Callable

from msgspec import Struct

from polylect.dialects.claude.host.answers import Declined, answer
from polylect.dialects.lenient import Object, inner, text
from polylect.vocab.content import Failure
from polylect.vocab.events import Event, Failed, Reply

ResponseHandler = Callable[[str, Object], list[Event]]
"""Takes the subtype of a request and the payload of its response; returns the events that follow from it."""


class _OpenCommand(Struct):
    ref: str
    session: str
    handler: ResponseHandler
    left: int
    quiet: bool = False
    """Whether a failure is nobody's business: the codec itself wanted to know something."""
    data: object = None
    failure: Failure | None = None


class PendingRequests:
    def __init__(self, new_id: Callable[[], str], write: Callable[[Object], None]) -> None:
        self._new_id = new_id
        self._write = write
        self._waiting: dict[str, tuple[str, _OpenCommand]] = {}
        """By request id: its subtype, and its command."""

    def send(
        self, ref: str, handler: ResponseHandler, *requests: Object, session: str = "", quiet: bool = False
    ) -> None:
        command = _OpenCommand(ref, session, handler, len(requests), quiet)
        for request in requests:
            id = ref if len(requests) == 1 and ref and ref not in self._waiting else self._new_id()
            self._write({"type": "control_request", "request_id": id, "request": request})
            self._waiting[id] = (text(request, "subtype"), command)

    def note_sent(self, id: str, subtype: str, handler: ResponseHandler | None) -> None:
        self._waiting[id] = (subtype, _OpenCommand(id, "", handler or _no_events, 1))

    def answered(self, response: Object) -> list[Event]:
        id = text(response, "request_id")
        subtype, command = self._waiting.pop(id, ("", _OpenCommand(id, "", _no_events, 1)))
        payload = inner(response, "response")
        failure = _failure(response, payload)
        if failure is None:
            try:
                command.data = answer(subtype, payload)
            except Declined as declined:
                failure = Failure("declined", str(declined), "engine")
        command.left -= 1
        command.failure = command.failure or failure
        # An engine that does not know `initialize` can be spoken to all the same.
        events = command.handler(subtype, payload) if failure is None or subtype == "initialize" else []
        return [*events, *([] if command.left else _reply(command))]


def _failure(response: Object, payload: Object) -> Failure | None:
    if text(response, "subtype") == "error":
        message = text(response, "error") or "the engine did not say why"
        return Failure(text(response, "error_code") or "refused", message, "engine")
    if broken := inner(payload, "errors"):
        reasons = "; ".join(f"{name}: {why}" for name, why in broken.items())
        return Failure("server", reasons, "engine")
    return None


def _reply(command: _OpenCommand) -> list[Event]:
    if command.ref:
        data = None if command.failure else command.data
        return [Reply(command.ref, data, command.failure, session=command.session)]
    return [Failed(command.failure)] if command.failure and not command.quiet else []


def _no_events(subtype: str, payload: Object) -> list[Event]:
    return []
