"""One request to a model service and its streamed answer.

Providers call it with a request of `apis/` and a parser for the stream. It yields batches of events and raises only
`ProviderError`, whatever the network or the server does: a refusal, a page instead of JSON, silence, a stream that
breaks off.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from polylect.apis.encoded_history import BodyEncoder
from polylect.apis.faults import unreadable
from polylect.http.client import Answer, Client
from polylect.http.errors import HttpError
from polylect.providers.error_kinds import Service, message_in, not_a_model, refusal, without_answer
from polylect.providers.models import Catalogue
from polylect.providers.settings import ProviderSettings
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelEvent, ModelInfo, ReplyBegun, ReplyDone

_ERROR_BODY = 64 * 1024
MAX_REPLY = 64 * 1024 * 1024
"""Bytes of a reply with all that is around its words. All of it is kept, and a server may never stop."""


class Question(Struct, frozen=True):
    model: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    keep: Callable[[], None]
    """Called if the reply calls tools: the next question will go on from this one."""


class Frames(Protocol):
    """Cuts the bytes of a body into the payloads of events. Raises ValueError where that cannot be done."""

    def feed(self, data: bytes) -> list[bytes]: ...
    def end(self) -> list[bytes]: ...


class Parser(Protocol):
    """Makes events of ours from payloads."""

    done: bool
    fault: ProviderError | None

    def feed(self, payloads: Iterable[bytes]) -> list[ModelEvent]: ...
    def end(self) -> list[ModelEvent]: ...


class HttpProvider:
    """What the providers of all services have in common. They add address, headers, body and parser."""

    name: str

    def __init__(self, settings: ProviderSettings, base: str) -> None:
        """`base`: the address that requests go to; what the first one needs is prepared by `warm`."""
        self._settings = settings
        self._base = base
        self._client = Client(
            settings.env, idle_timeout=settings.stream_timeout, ca_file=settings.extra.get("ca_file", "")
        )
        self._models = Catalogue.of(settings)
        self._infos: dict[str, ModelInfo] = {}
        self._encode = BodyEncoder().encode

    def info(self, model: str) -> ModelInfo:
        """Asked for several times with every request, so looked up once."""
        if (info := self._infos.get(model)) is None:
            info = self._infos[model] = replace(self._models.info(model), web_search=self._searches_web(model))
        return info

    def _searches_web(self, model: str) -> bool:
        """Whether the service can search the web for this model."""
        return False

    def warm(self) -> None:
        self._client.warm(self._base)

    async def close(self) -> None:
        self._client.close()


async def converse(
    client: Client,
    service: Service,
    question: Question,
    frames: Frames,
    parser: Parser,
    with_cost: Callable[[str, ReplyDone], ReplyDone],
) -> AsyncGenerator[Sequence[ModelEvent], None]:
    """Each batch is what arrived together. What came before a fault is given out before the fault is raised."""
    if not question.model:
        raise ProviderError("bad_request", f"{service.name}: no model is named: set --model; see polylect models")
    try:
        answer = await client.request("POST", question.url, question.headers, question.body)
    except HttpError as error:
        raise without_answer(error) from None
    try:
        await _accept(answer, service, question.model)
        size = 0
        while not parser.done:
            if size > MAX_REPLY:
                raise ProviderError("protocol", f"{service.name}: the reply is longer than {MAX_REPLY} bytes")
            piece, events = await _next(answer, frames, parser)
            size += piece
            if events and isinstance(begun := events[0], ReplyBegun):
                priced = with_cost(question.model, ReplyDone("end", begun.usage)).usage
                events[0] = ReplyBegun(priced, begun.request, begun.model)
            if events and isinstance(events[-1], ReplyDone):
                events[-1] = done = with_cost(question.model, events[-1])
                if done.stop == "calls":
                    question.keep()
            if events:
                yield events
            if parser.fault:
                raise parser.fault
    except HttpError as error:
        raise service.without_secrets(without_answer(error)) from None
    except ProviderError as error:
        raise service.without_secrets(error) from None
    finally:
        answer.close(finished=parser.done)


async def _accept(answer: Answer, service: Service, model: str) -> None:
    """Raises unless the answer is a stream of events, or might be one."""
    kind = answer.headers.get("content-type", "").lower()
    if answer.status == 200 and not ("json" in kind or "html" in kind):
        return
    body = await answer.read(_ERROR_BODY)
    if answer.status != 200:
        raise refusal(service, model, answer.status, answer.headers, body)
    if "json" in kind and (message := message_in(body)):
        raise ProviderError("server", f"{service.name}: {message}")
    raise not_a_model(service, "HTML" if "html" in kind else "JSON")


async def _next(answer: Answer, frames: Frames, parser: Parser) -> tuple[int, list[ModelEvent]]:
    """How long the next piece of the body is and what it says; at its end, whether the reply was complete."""
    try:
        piece = await anext(answer, b"")
    except HttpError as error:
        events = parser.end()
        parser.fault = without_answer(error) if parser.fault else None
        return 0, events
    try:
        return len(piece), parser.feed(frames.feed(piece)) if piece else parser.feed(frames.end()) + parser.end()
    except (ValueError, RecursionError) as error:
        raise unreadable(error) from None
