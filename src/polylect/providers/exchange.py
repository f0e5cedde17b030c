"""One question to a model's service, and its streamed answer."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Protocol

from polylect.providers.faults import Service, message_in, not_a_model, refusal
from polylect.providers.http import Answer, Client
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelEvent

_ERROR_BODY = 64 * 1024


class Frames(Protocol):
    """Cuts the bytes of a body into the payloads of events."""

    def feed(self, data: bytes) -> list[bytes]: ...
    def end(self) -> list[bytes]: ...


class Parser(Protocol):
    """Makes events of ours from payloads."""

    done: bool
    fault: ProviderError | None

    def feed(self, payloads: Iterable[bytes]) -> list[ModelEvent]: ...
    def end(self) -> list[ModelEvent]: ...


async def converse(
    client: Client,
    service: Service,
    model: str,
    *,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    frames: Frames,
    parser: Parser,
) -> AsyncGenerator[list[ModelEvent], None]:
    """Each batch is what arrived together. What came before a fault is given out before the fault is raised."""
    answer = await client.post(url, headers, body)
    try:
        await _accept(answer, service, model)
        async for piece in answer:
            events = parser.feed(_cut(frames, piece, service))
            if events:
                yield events
            if parser.fault:
                raise parser.fault
            if parser.done:
                return
        events = parser.feed(frames.end()) + parser.end()
        if events:
            yield events
        if parser.fault:
            raise parser.fault
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
    if "json" in kind and (said := message_in(body)):
        raise ProviderError("server", f"{service.name}: {said}")
    raise not_a_model(service, "HTML" if "html" in kind else "JSON")


def _cut(frames: Frames, piece: bytes, service: Service) -> list[bytes]:
    try:
        return frames.feed(piece)
    except ValueError as error:
        raise ProviderError("protocol", f"{service.name}: {error}") from None
