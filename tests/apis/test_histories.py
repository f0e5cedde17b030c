"""T4: every history is projected to something that every vendor accepts. The rules below are the vendors'."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from apis.cases import CASES
from polylect.apis import anthropic_messages, openai_chat, openai_responses
from polylect.vocab.content import Message, Text, ToolResult
from polylect.vocab.ports import ModelInfo, ModelRequest, ToolSpec

Json = dict[str, Any]

TOOLS = (ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {}}),)
THINKER = ModelInfo("m", max_output=64_000, thinking=True)
REASONER = ModelInfo("m", max_output=64_000, effort_levels=("low", "high"))


def check_anthropic(body: Json) -> None:
    messages = body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"]
    ids: list[str] = []
    owed: list[str] = []
    for message in messages:
        content = message["content"]
        assert content
        results = [part["tool_use_id"] for part in content if part["type"] == "tool_result"]
        assert sorted(results) == sorted(owed)
        assert [part["type"] for part in content[: len(results)]] == ["tool_result"] * len(results)
        owed = [part["id"] for part in content if part["type"] == "tool_use"]
        ids += owed
        assert all(part["text"].strip() for part in content if part["type"] == "text")
        assert message["role"] == "user" or not content[-1]["type"].endswith("thinking")
        assert all(part["signature"] and part["thinking"] for part in content if part["type"] == "thinking")
        for part in content:
            if part.get("is_error"):
                assert part["content"]
            if part["type"] == "image":
                assert part["source"]["data"]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", id) for id in ids)
    assert str(body).count("cache_control") <= 4
    if body.get("thinking") and messages[-1]["content"][0]["type"] == "tool_result":
        assert messages[-2]["content"][0]["type"].endswith("thinking")


def check_chat(body: Json) -> None:
    owed: set[str] = set()
    ids: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in owed
            assert message["content"]
            owed.remove(message["tool_call_id"])
            continue
        assert not owed
        calls = message.get("tool_calls", [])
        assert message["content"] or calls
        assert message.get("tool_calls", True)
        owed = {call["id"] for call in calls}
        ids += [call["id"] for call in calls]
        for call in calls:
            assert isinstance(msgspec.json.decode(call["function"]["arguments"]), dict)
        if isinstance(message["content"], list):
            assert message["role"] == "user"
            assert all(part.get("text", "x") for part in message["content"])
    assert not owed
    assert len(set(ids)) == len(ids)
    assert all(len(id) <= 40 for id in ids)
    assert body["messages"][-1]["role"] in ("user", "tool")


def check_responses(body: Json) -> None:
    items = body["input"]
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    results = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)
    assert all(len(id) <= 64 for id in calls)
    for item, following in zip(items, [*items[1:], {"type": "end"}], strict=True):
        if item["type"] == "reasoning":
            assert item["encrypted_content"]
            assert following["type"] in ("reasoning", "message", "function_call")
            assert following.get("role") != "user"
        if item["type"] == "message":
            content = item["content"]
            assert isinstance(content, str) == (item["role"] == "assistant")
            assert content.strip() if isinstance(content, str) else content
            assert isinstance(content, str) or all(part.get("text", "x").strip() for part in content)
    assert items[-1].get("role") == "user" or items[-1]["type"] == "function_call_output"


Check = Callable[[ModelRequest], None]
VENDORS: dict[str, Check] = {
    "anthropic": lambda request: check_anthropic(anthropic_messages.request_body(request, THINKER)),
    "chat": lambda request: check_chat(openai_chat.request_body(request)),
    "responses": lambda request: check_responses(openai_responses.request_body(request, REASONER)),
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("name", CASES)
def test_t4_a_history_is_acceptable_to(vendor: str, name: str) -> None:
    for thinking in (0, 4000):
        VENDORS[vendor](ModelRequest("m", "be good", CASES[name], TOOLS, thinking=thinking, effort="high"))


def test_a_result_that_came_twice_counts_as_it_came_last() -> None:
    body = openai_chat.request_body(ModelRequest("m", "", CASES["a result that came twice"]))
    assert [message["content"] for message in body["messages"] if message["role"] == "tool"] == ["b"]


def test_what_a_user_said_is_never_lost() -> None:
    for history in CASES.values():
        said = [block.text for message in history if message.role == "user" for block in message.content
                if isinstance(block, Text) and block.text.strip()]  # fmt: skip
        for body in (
            anthropic_messages.request_body(ModelRequest("m", "", history), THINKER),
            openai_chat.request_body(ModelRequest("m", "", history)),
            openai_responses.request_body(ModelRequest("m", "", history), REASONER),
        ):
            text = str(body)
            assert all(repr(words)[1:-1] in text for words in said)


def test_a_long_history_is_projected_in_milliseconds() -> None:
    """Not a timed test: it guards against work that grows with the square of the history."""
    step = CASES["a call and its result"]
    body = anthropic_messages.request_body(ModelRequest("m", "", step * 1000), THINKER)
    assert len(body["messages"]) == 2001


def test_results_of_cancelled_calls_say_that_they_failed() -> None:
    history = (
        *CASES["a call and its result"][:2],
        Message("tool", (ToolResult("t1", "Read", "stopped", "cancelled"),)),
    )
    body = anthropic_messages.request_body(ModelRequest("m", "", history), THINKER)
    assert body["messages"][-1]["content"][0]["is_error"] is True
