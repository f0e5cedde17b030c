"""What we ask is what the vendors' own types allow: no field unknown to them, none missing, none of a wrong kind."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter, ValidationError

from apis.cases import CASES
from polylect.apis import anthropic_messages, openai_chat, openai_responses
from polylect.tools.standard import standard_tools
from polylect.vocab.content import Message, Text
from polylect.vocab.ports import ModelInfo, ModelRequest, WebDomains

TYPES: dict[str, TypeAdapter[Any]] = {
    "anthropic": TypeAdapter(MessageCreateParamsStreaming),
    "chat": TypeAdapter(CompletionCreateParamsStreaming),
    "responses": TypeAdapter(ResponseCreateParamsStreaming),
}
TOOLS = tuple(tool.spec for tool in standard_tools().values())
MODELS = {
    "plain": ModelInfo("m"),
    "thinks within a budget": ModelInfo("m", max_output=64_000, thinking=True, images=True),
    "thinks as it sees fit": ModelInfo("m", max_output=64_000, thinking=True, effort_levels=("low", "medium", "high")),
}


def bodies(request: ModelRequest, info: ModelInfo) -> dict[str, dict[str, Any]]:
    """As they go over the wire."""
    actual = {
        "anthropic": anthropic_messages.request_body(request, info),
        "chat": openai_chat.request_body(request, max_tokens_field="max_completion_tokens"),
        "responses": openai_responses.request_body(request, info),
    }
    return {wire: msgspec.json.decode(msgspec.json.encode(body)) for wire, body in actual.items()}


def all_of(value: Any) -> Any:
    """Lists in these types are checked as they are read, so read them."""
    if isinstance(value, dict):
        return {key: all_of(inner) for key, inner in value.items()}
    return [all_of(inner) for inner in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wire", TYPES)
def test_a_request_is_one_that_the_vendor_s_types_allow(wire: str, name: str, model: str) -> None:
    for tools, budget, effort, most in ((TOOLS, 4000, "high", 5000), ((), 0, "", 0)):
        request = ModelRequest("m", "be good", CASES[name], tools, max_tokens=most, thinking=budget, effort=effort)
        body = bodies(request, MODELS[model])[wire]
        assert all_of(TYPES[wire].validate_python(body, extra="forbid")) == body


@pytest.mark.parametrize("domains", [WebDomains(), WebDomains(("a.test",)), WebDomains((), ("b.test",))])
@pytest.mark.parametrize("wire", ["anthropic", "responses"])
def test_a_search_of_the_web_is_one_that_the_vendor_s_types_allow(wire: str, domains: WebDomains) -> None:
    request = ModelRequest("m", "search", [Message("user", (Text("x"),))], TOOLS[:1], web_search=domains)
    body = bodies(request, MODELS["plain"])[wire]
    assert len(body["tools"]) == 2
    assert all_of(TYPES[wire].validate_python(body, extra="forbid")) == body


@pytest.mark.parametrize("wire", TYPES)
def test_the_types_would_have_noticed(wire: str) -> None:
    """Checks this check: a field too many, deep inside, is refused."""
    body = bodies(ModelRequest("m", "", CASES["one prompt"], TOOLS), MODELS["plain"])[wire]
    body["tools"][0]["colour"] = "blue"
    with pytest.raises(ValidationError, match="colour"):
        all_of(TYPES[wire].validate_python(body, extra="forbid"))
