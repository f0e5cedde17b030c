"""The same stream goes through the vendor's client and through ours: same message, same usage, same reason to stop."""

import asyncio
import json
from typing import Any

import pytest
from anthropic.types import RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from e2e.vendors import RENDER, Payloads, sse
from interop.oracles import said
from polylect.vocab.content import Block, Text, Thinking, ToolCall
from polylect.wire import sse as sse_wire
from recorded.final import STREAMS, WIRES, Final, recorded, stream

EVENTS: dict[str, TypeAdapter[Any]] = {
    "anthropic": TypeAdapter(RawMessageStreamEvent),
    "chat": TypeAdapter(ChatCompletionChunk),
    "responses": TypeAdapter(ResponseStreamEvent),
}


def check_events(wire: str, payloads: Payloads) -> None:
    """The vendor's types know these events. They have none for pings and errors."""
    for payload in payloads:
        if payload.get("type") not in ("ping", "error") and "error" not in payload:
            EVENTS[wire].validate_python(payload)


@pytest.mark.parametrize(("wire", "name"), STREAMS)
def test_the_client_still_says_what_was_recorded(wire: str, name: str) -> None:
    actual = asyncio.run(said(wire, stream(wire, name)))
    assert json.loads(json.dumps(actual)) == recorded(wire, name)


@pytest.mark.parametrize(("wire", "name"), STREAMS)
def test_what_was_recorded_could_come_from_the_vendor(wire: str, name: str) -> None:
    check_events(wire, [json.loads(data) for data in sse_wire.Parser().feed(stream(wire, name)) if data != b"[DONE]"])


# Streams that nobody thought of.

_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_names = st.sampled_from(["Read", "Bash"])
_blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(Text, _texts),
    st.builds(Thinking, _texts, st.sampled_from(["c2ln", "EqQBCgIYAhIM1fV8"])),
    st.builds(ToolCall, st.just(""), _names, st.dictionaries(_texts, _values, max_size=4)),
)
_replies = st.lists(_blocks, max_size=5)


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(blocks=_replies, width=st.integers(1, 20), tokens=st.integers(0, 10**7), size=st.integers(1, 400))
def test_any_reply_is_understood_alike(wire: str, blocks: list[Block], width: int, tokens: int, size: int) -> None:
    named = [replace(block, call=f"t{n}") if isinstance(block, ToolCall) else block for n, block in enumerate(blocks)]
    payloads = RENDER[wire](named, width, tokens)
    check_events(wire, payloads)
    body = b"".join(sse(payloads, escaped=bool(size % 2)))
    ours = WIRES[wire].ours(body, size)
    assert isinstance(ours, Final)
    assert ours == WIRES[wire].theirs(asyncio.run(said(wire, body)))
