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
from polylect.apis import anthropic_messages, drafts, openai_chat, openai_responses
from polylect.apis.drafts import Draft, Drafts
from polylect.vocab.content import Image, Message, ToolCall, ToolResult
from polylect.vocab.ports import ModelInfo, ModelRequest, ToolSpec

Body = Callable[[ModelRequest, Draft | None], bytes]
THINKER = ModelInfo("m", max_output=64_000, thinking=True)
REASONER = ModelInfo("m", max_output=64_000, effort_levels=("low", "high"))
TOOLS = (ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {}}),)
encode = msgspec.json.encode
BODIES: dict[str, tuple[drafts.Put, Body]] = {
    "anthropic": (
        anthropic_messages.put,
        lambda request, draft: encode(
            anthropic_messages.request_body(
                request, THINKER if request.thinking else REASONER, caching=request.model != "uncached", draft=draft
            )
        ),
    ),
    "chat": (openai_chat.put, lambda request, draft: encode(openai_chat.request_body(request, draft=draft))),
    "responses": (
        openai_responses.put,
        lambda request, draft: encode(openai_responses.request_body(request, REASONER, draft=draft)),
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
@settings(max_examples=60, deadline=None)
@given(story=STORIES)
def test_whatever_becomes_of_a_conversation_its_requests_are_the_same_bytes(vendor: str, story: list[Any]) -> None:
    put, body = BODIES[vendor]
    kept = Drafts(put)
    histories: dict[bool, History] = {False: (), True: ()}
    for which, (change, more, at), (model, thinking, waits) in story:
        histories[which] = change(histories[which], more, at)
        request = ModelRequest(model, "be good", histories[which], TOOLS, thinking=thinking, effort="low")
        draft = kept.take(request.messages)
        assert body(request, draft) == body(request, None)
        if waits:
            kept.keep(draft)


def step(number: int, output: str = "text") -> History:
    return assistant("I will look.", call(f"t{number}", path=f"{number}.txt")), result(f"t{number}", output)


def long(count: int, output: str = "text") -> History:
    return (user("go"), *chain.from_iterable(step(number, output) for number in range(count)))


@EACH
def test_what_was_written_is_not_put_into_words_again(vendor: str) -> None:
    put, body = BODIES[vendor]
    seen: list[Message] = []
    kept = Drafts(lambda message: (seen.append(message), put(message))[1])
    history = long(100)
    draft = kept.take(history)
    body(ModelRequest("m", "", history), draft)
    kept.keep(draft)
    seen.clear()
    again = history + step(100)
    request = ModelRequest("m", "", again)
    assert body(request, kept.take(again)) == body(request, None)
    assert len(seen) == 2, "the call and its result, which were still open when they were sent first"


def test_two_conversations_wait_side_by_side_and_one_that_is_asked_again_does_not_wait() -> None:
    kept = Drafts(openai_chat.put)
    one, two = long(3), long(4)
    first, second = written(kept, one), written(kept, two)
    assert kept.take(two + step(9)) is second
    assert kept.take(one + step(9)) is first
    assert kept.take(one + step(9)) is not first


def test_of_many_that_wait_the_oldest_are_dropped() -> None:
    kept = Drafts(openai_chat.put)
    histories = [long(1) for _ in range(20)]
    made = [written(kept, history) for history in histories]
    known = [kept.take(history) is draft for history, draft in zip(histories, made, strict=True)]
    assert known == [False] * 12 + [True] * 8


def test_no_second_copy_of_a_large_history_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "MOST", 100_000)
    picture = Image("image/png", "A" * 300_000)
    shown = Message("tool", (ToolResult("t1", "Read", "", images=(picture,)),))
    history = (user("look"), assistant(call("t1")), shown, *long(200, "line\n" * 400), *step(777))
    for put, body in BODIES.values():
        kept = Drafts(put)
        request = ModelRequest("m", "", history)
        plain = body(request, None)
        tracemalloc.start()
        try:
            draft = written(kept, history)
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(plain) > 700_000
        assert size < 250_000
        assert body(request, draft) == plain


def test_all_that_wait_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "MOST", 100_000)
    kept = Drafts(openai_chat.put)
    for _ in range(5):
        written(kept, long(40, "line\n" * 200))
    assert sum(draft.size for draft in kept._waiting) <= 100_000


def written(kept: Drafts, history: Sequence[Message]) -> Draft:
    """A draft whose conversation now waits for results."""
    draft = kept.take(history)
    draft.write(history)
    kept.keep(draft)
    return draft
