"""A request that goes on from an earlier one is made in less time, and of the same bytes."""

import tracemalloc
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis.cases import CASES, History, assistant, call, result, user
from polylect.apis import anthropic_messages, encoded_history, openai_chat, openai_responses
from polylect.apis.encoded_history import BodyEncoder, EncodedHistories, EncodedHistory
from polylect.vocab.content import Image, Message, ToolCall, ToolResult
from polylect.vocab.ports import ModelInfo, ModelRequest, ToolSpec
from thoroughness import up_to

Body = Callable[[ModelRequest, EncodedHistory | None], bytes]
THINKER = ModelInfo("m", max_output=64_000, thinking=True)
REASONER = ModelInfo("m", max_output=64_000, effort_levels=("low", "high"))
TOOLS = (ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {}}),)
encode = msgspec.json.encode
BODIES: dict[str, tuple[encoded_history.EncodeMessage, Body]] = {
    "anthropic": (
        anthropic_messages.encode_message,
        lambda request, encoded: encode(
            anthropic_messages.request_body(
                request, THINKER if request.thinking else REASONER, caching=request.model != "uncached", encoded=encoded
            )
        ),
    ),
    "chat": (
        openai_chat.encode_message,
        lambda request, encoded: encode(openai_chat.request_body(request, encoded=encoded)),
    ),
    "responses": (
        openai_responses.encode_message,
        lambda request, encoded: encode(openai_responses.request_body(request, REASONER, encoded=encoded)),
    ),
}
EACH = pytest.mark.parametrize("vendor", BODIES)

# Conversations as they grow, are cut, shortened and taken up elsewhere.

STEPS = [history for history in CASES.values() if history]
MESSAGES = st.sampled_from([*chain.from_iterable(STEPS), user("x" * 200), assistant(ToolCall("t1", "Read", {"n": 1}))])
MORE = st.one_of(st.lists(MESSAGES, min_size=1, max_size=3).map(tuple), st.sampled_from(STEPS))
SUMMARY = user("what mattered")


def grow(history: History, more: History, at: int) -> History:
    return history + more


def branch(history: History, more: History, at: int) -> History:
    return history[: at % (len(history) + 1)] + more


def compact(history: History, more: History, at: int) -> History:
    return (SUMMARY, *history[at % (len(history) + 1) :], *more)


def copy(history: History, more: History, at: int) -> History:
    """Equal, and yet not the same: 1 and 1.0 are equal too, and not written alike."""
    text = encode(history).replace(b'"n":1}', b'"n":1.0}')
    return msgspec.json.decode(text, type=tuple[Message, ...]) + more


def alter(history: History, more: History, at: int) -> History:
    if not history:
        return more
    at %= len(history)
    return (*history[:at], *more[:1], *history[at + 1 :])


CHANGES = st.tuples(st.sampled_from([grow, grow, grow, branch, compact, copy, alter]), MORE, st.integers(0, 30))
REQUESTS = st.tuples(st.sampled_from(["m", "other", "uncached"]), st.sampled_from([0, 4000]), st.booleans())
STORIES = st.lists(st.tuples(st.booleans(), CHANGES, REQUESTS), min_size=1, max_size=12)


@EACH
@settings(max_examples=up_to(60), deadline=None)
@given(story=STORIES)
def test_whatever_becomes_of_a_conversation_its_requests_are_the_same_bytes(vendor: str, story: list[Any]) -> None:
    encode_message, body = BODIES[vendor]
    cache = EncodedHistories(encode_message)
    histories: dict[bool, History] = {False: (), True: ()}
    for which, (change, more, at), (model, thinking, waits) in story:
        histories[which] = change(histories[which], more, at)
        request = ModelRequest(model, "be good", histories[which], TOOLS, thinking=thinking, effort="low")
        encoded = cache.pop(request.messages)
        assert body(request, encoded) == body(request, None)
        if waits:
            cache.store(encoded)


def test_tools_are_encoded_again_only_when_they_change() -> None:
    encoder, schema = BodyEncoder(), {"type": "object"}
    for names in (("Read",), ("Read",), ("Read", "Bash"), (), ("Read",)):
        body = {"model": "m", "tools": [{"name": name, "input_schema": schema} for name in names], "stream": True}
        assert encoder.encode(body) == encode(body)
    schema["type"] = "changed"
    assert b"object" in encoder.encode({"tools": [{"name": "Read", "input_schema": schema}]})


def step(number: int, output: str = "text") -> History:
    return assistant("I will look.", call(f"t{number}", path=f"{number}.txt")), result(f"t{number}", output)


def long(count: int, output: str = "text") -> History:
    return (user("go"), *chain.from_iterable(step(number, output) for number in range(count)))


@EACH
def test_what_was_written_is_not_put_into_words_again(vendor: str) -> None:
    encode_message, body = BODIES[vendor]
    seen: list[Message] = []
    cache = EncodedHistories(lambda message: (seen.append(message), encode_message(message))[1])
    history = long(100)
    encoded = cache.pop(history)
    body(ModelRequest("m", "", history), encoded)
    cache.store(encoded)
    seen.clear()
    again = history + step(100)
    request = ModelRequest("m", "", again)
    assert body(request, cache.pop(again)) == body(request, None)
    assert len(seen) == 2, "the call and its result, which were still open when they were sent first"


def test_two_conversations_wait_side_by_side_and_one_that_is_asked_again_does_not_wait() -> None:
    cache = EncodedHistories(openai_chat.encode_message)
    one, two = long(3), long(4)
    first, second = written(cache, one), written(cache, two)
    assert cache.pop(two + step(9)) is second
    assert cache.pop(one + step(9)) is first
    assert cache.pop(one + step(9)) is not first


def test_of_many_that_wait_the_oldest_are_dropped() -> None:
    cache = EncodedHistories(openai_chat.encode_message)
    histories = [long(1) for _ in range(20)]
    made = [written(cache, history) for history in histories]
    known = [cache.pop(history) is encoded for history, encoded in zip(histories, made, strict=True)]
    assert known == [False] * 12 + [True] * 8


def test_no_second_copy_of_a_large_history_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_history, "MOST", 100_000)
    picture = Image("image/png", "A" * 300_000)
    shown = Message("tool", (ToolResult("t1", "Read", "", images=(picture,)),))
    history = (user("look"), assistant(call("t1")), shown, *long(200, "line\n" * 400), *step(777))
    for encode_message, body in BODIES.values():
        cache = EncodedHistories(encode_message)
        request = ModelRequest("m", "", history)
        plain = body(request, None)
        tracemalloc.start()
        try:
            encoded = written(cache, history)
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(plain) > 700_000
        assert size < 250_000
        assert body(request, encoded) == plain


def test_all_that_wait_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_history, "MOST", 100_000)
    cache = EncodedHistories(openai_chat.encode_message)
    for _ in range(5):
        written(cache, long(40, "line\n" * 200))
    assert sum(encoded.size for encoded in cache._waiting) <= 100_000


def written(cache: EncodedHistories, history: Sequence[Message]) -> EncodedHistory:
    """A draft whose conversation now waits for results."""
    encoded = cache.pop(history)
    encoded.write(history)
    cache.store(encoded)
    return encoded
