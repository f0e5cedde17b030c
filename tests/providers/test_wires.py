"""Each provider against a loopback server that speaks its wire, well and badly."""

import asyncio
import gzip
from contextlib import aclosing

import msgspec
import pytest

from polylect.vocab.content import Message, Text, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import (
    BlockDone,
    ModelEvent,
    ModelRequest,
    Provider,
    ReplyBegun,
    ReplyDone,
    Retrying,
    TextChunk,
)
from providers.loopback import CUT, STALL, Loopback, Step, chunk, head, reply, run
from providers.wires import SECRET, WIRES, Wire

REQUEST = ModelRequest("a.model-v1:0", "be good", [Message("user", (Text("hello"),))])
REPLY: list[ModelEvent] = [
    TextChunk("Hel"),
    TextChunk("lo"),
    BlockDone(Text("Hello")),
    ReplyDone("end", Usage(3, 2), "r1", "m"),
]


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


async def heard(provider: Provider) -> list[ModelEvent]:
    """Without what a service may count before its first word."""
    events = [event async for batch in provider.stream(REQUEST) for event in batch]
    return [event for event in events if not isinstance(event, ReplyBegun)]


def fault(wire: Wire, *answers: list[Step], **options: float) -> ProviderError:
    async def main() -> ProviderError:
        async with Loopback(list(answers)) as server:
            provider = wire.open(server.url, **options)  # type: ignore[arg-type]
            with pytest.raises(ProviderError) as caught:
                await heard(provider)
            await provider.close()
            return caught.value

    error = run(main)
    assert SECRET not in str(error)
    assert "\n" not in str(error)
    return error


def test_a_reply_is_streamed_and_the_connection_kept(wire: Wire) -> None:
    async def main() -> None:
        async with Loopback([wire.answer()]) as server:
            provider = wire.open(server.url)
            assert await heard(provider) == REPLY
            assert (await heard(provider))[:-1] == REPLY[:-1]
            await provider.close()
            assert server.connections == 1
            assert server.requests[0].line == f"POST {wire.path} HTTP/1.1"
            assert b"hello" in server.requests[0].body
            assert SECRET not in server.requests[0].body.decode()

    run(main)


def test_t5_a_server_that_repeats_its_ids_does_not_hide_usage() -> None:
    async def main() -> None:
        async with Loopback([WIRES["chat"].answer()]) as server:
            provider = WIRES["chat"].open(server.url)
            ends = [(await heard(provider))[-1] for _ in range(3)]
            await provider.close()
            assert len({end.request for end in ends if isinstance(end, ReplyDone)}) == 3

    run(main)


def test_every_chunk_is_given_out_when_it_arrives(wire: Wire) -> None:
    async def main() -> None:
        frames = [wire.frame(payload) for payload in wire.payloads[:3]]
        answer = [*wire.answer()[:1], *map(chunk, frames), STALL]
        async with Loopback([answer]) as server:
            provider = wire.open(server.url)
            async with aclosing(provider.stream(REQUEST)) as stream:
                first = await anext(stream)
                if isinstance(first[-1], ReplyBegun):
                    first = await anext(stream)
                assert TextChunk("Hel") in first
            await server.hung_up.wait()  # closing it early drops the connection
            await provider.close()

    run(main)


def test_cancelling_closes_the_socket_at_once(wire: Wire) -> None:
    async def main() -> None:
        async with Loopback([[STALL]]) as server:
            provider = wire.open(server.url)
            task = asyncio.create_task(heard(provider))
            await server.asked.wait()
            task.cancel()
            await server.hung_up.wait()
            with pytest.raises(asyncio.CancelledError):
                await task
            await provider.close()

    run(main)


ERROR = b'{"type":"error","error":{"type":"some_error","message":"it\\nwent wrong with %s"}}' % SECRET.encode()


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "bad_request", False),
        (401, "auth", False),
        (403, "auth", False),
        (404, "bad_request", False),
        (413, "overflow", False),
        (429, "rate_limit", True),
        (500, "server", True),
        (502, "server", True),
        (529, "overloaded", True),
    ],
)
def test_statuses_are_told_apart_and_no_secret_is_repeated(wire: Wire, status: int, kind: str, retryable: bool) -> None:
    error = fault(wire, reply(ERROR, status=status, kind="application/json", retry_after="7"))
    assert (error.kind, error.retryable, error.status, error.retry_after) == (kind, retryable, status, 7.0)


VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "bedrock": "AWS_ACCESS_KEY_ID",
    "vertex": "GOOGLE_APPLICATION_CREDENTIALS",
}


def test_refused_credentials_name_the_variable_to_set(wire: Wire) -> None:
    assert VARIABLES[wire.provider] in str(fault(wire, reply(ERROR, status=401)))


def test_an_unknown_model_names_the_flag(wire: Wire) -> None:
    assert "--model" in str(fault(wire, reply(b"{}", status=404)))


def test_a_conversation_that_is_too_long_is_an_overflow(wire: Wire) -> None:
    for text in (
        "prompt is too long: 210000 tokens > 200000",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "This model's maximum context length is 8192 tokens",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
        "the input length exceeds the context length",
    ):
        body = msgspec.json.encode({"error": {"message": text}})
        assert fault(wire, reply(body, status=400)).kind == "overflow"


def test_a_server_that_answers_html_or_redirects_names_the_flag(wire: Wire) -> None:
    page = b"<!DOCTYPE html><html><body>Welcome to nginx</body></html>"
    for answer in (
        reply(page, kind="text/html"),
        reply(page, kind="text/html", status=404),
        reply(status=307, location="https://elsewhere.example/"),
        [b"\x15\x03\x01\x00\x02\x02", CUT],
    ):
        error = fault(wire, answer)
        assert "--base-url" in str(error)
        assert not error.retryable


def test_an_error_in_a_plain_body_is_repeated(wire: Wire) -> None:
    answer = reply(b'{"error":{"message":"model is loading"}}', kind="application/json")
    assert "model is loading" in str(fault(wire, answer))


def test_a_reply_that_is_cut_anywhere_is_a_network_fault_after_what_it_said(wire: Wire) -> None:
    whole = [wire.frame(payload) for payload in wire.payloads[:3]]
    for pieces in ([], whole, [*whole, wire.frame(wire.payloads[2])[:20]]):
        for end in ([b"0\r\n\r\n"], [CUT], [b"ffff\r\nda", CUT]):
            error = fault(wire, [*wire.answer()[:1], *map(chunk, pieces), *end])
            assert (error.kind, error.retryable) == ("network", True)


def test_garbage_in_the_stream_is_a_protocol_fault(wire: Wire) -> None:
    error = fault(wire, reply(b"data: {nonsense\n\n" * 3, kind=wire.kind))
    assert error.kind == "protocol"


def test_l6_silence_in_the_middle_is_cut(wire: Wire) -> None:
    answer = [*wire.answer()[:1], chunk(wire.frame(wire.payloads[0])), STALL]
    assert fault(wire, answer, stream_timeout=0.05).kind == "timeout"


def test_a_missing_end_after_the_reason_does_not_lose_the_reply() -> None:
    async def main(wire: Wire) -> None:
        said = [wire.frame(payload) for payload in wire.payloads[:-1]]
        async with Loopback([[*wire.answer()[:1], *map(chunk, said), CUT]]) as server:
            provider = wire.open(server.url)
            assert (await heard(provider))[-1] == REPLY[-1]
            await provider.close()

    for name in ("anthropic", "chat", "bedrock", "vertex"):
        run(lambda name=name: main(WIRES[name]))  # type: ignore[misc]


def test_oddly_dressed_streams_are_understood() -> None:
    """CRLF, comments, a wrong content type, a gzip nobody asked for, one byte at a time, a megabyte in one line."""

    async def main(answer: list[Step]) -> list[ModelEvent]:
        async with Loopback([answer]) as server:
            provider = WIRES["anthropic"].open(server.url)
            events = await heard(provider)
            await provider.close()
            return events

    payloads = WIRES["anthropic"].payloads
    plain = b"".join(b": hi\nevent: x\ndata: %b\n\n" % payload.encode() for payload in payloads)
    for answer in (
        reply(plain.replace(b"\n", b"\r\n")),
        reply(plain, kind="text/plain; charset=utf-8"),
        reply(gzip.compress(plain), content_encoding="gzip"),
        reply(*(bytes([byte]) for byte in plain)),
        [head(200, content_type="text/event-stream"), plain, CUT],
    ):
        assert run(lambda answer=answer: main(answer)) == REPLY  # type: ignore[misc]
    long = "x" * 1_000_000
    answer = reply(plain.replace(b"Hel", long.encode()))
    assert run(lambda: main(answer))[0] == TextChunk(long)


def test_a_fault_before_the_first_chunk_is_tried_again_and_said(wire: Wire) -> None:
    async def main() -> None:
        refused = reply(b"{}", status=429, retry_after="0.01")
        async with Loopback([refused, refused, wire.answer()]) as server:
            provider = wire.open(server.url, max_retries=2)
            events = await heard(provider)
            assert [type(event) for event in events[:2]] == [Retrying, Retrying]
            assert isinstance(events[0], Retrying)
            assert (events[0].attempt, events[0].most, events[0].delay_ms) == (1, 2, 10)
            assert events[2:] == REPLY
            await provider.close()

    run(main)


def test_a_count_before_the_first_word_is_nothing_that_was_shown() -> None:
    async def main() -> None:
        wire = WIRES["anthropic"]
        counted = chunk(wire.frame(wire.payloads[0]))
        async with Loopback([[*wire.answer()[:1], counted, CUT], wire.answer()]) as server:
            provider = wire.open(server.url, max_retries=1)
            events = [event async for batch in provider.stream(REQUEST) for event in batch]
            assert [type(event) for event in events[:3]] == [ReplyBegun, Retrying, ReplyBegun]
            assert events[3:] == REPLY
            await provider.close()

    run(main)


def test_nothing_is_tried_again_once_something_was_shown(wire: Wire) -> None:
    async def main() -> None:
        said = [wire.frame(payload) for payload in wire.payloads[:3]]
        async with Loopback([[*wire.answer()[:1], *map(chunk, said), CUT], wire.answer()]) as server:
            provider = wire.open(server.url, max_retries=2)
            shown: list[ModelEvent] = []
            with pytest.raises(ProviderError):
                async for batch in provider.stream(REQUEST):
                    shown += batch
            assert TextChunk("Hel") in shown
            assert len(server.requests) == 1
            await provider.close()

    run(main)


def test_a_fault_that_trying_again_cannot_mend_is_not_tried_again(wire: Wire) -> None:
    async def main() -> None:
        async with Loopback([reply(b"{}", status=401)]) as server:
            provider = wire.open(server.url, max_retries=2)
            with pytest.raises(ProviderError):
                await heard(provider)
            assert len(server.requests) == 1
            await provider.close()

    run(main)
