"""WebSearch: by the model's service or by a search server; without either it does not exist."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles import Talk, converse
from doubles_tools import FolderContext
from polylect.engine.settings import Settings
from polylect.engine.turn.budget import Budget
from polylect.providers.anthropic.provider import Anthropic
from polylect.providers.openai.provider import OpenAI
from polylect.providers.settings import ProviderSettings
from polylect.tools.builtin.web_search import WebSearch
from polylect.tools.standard import standard_tools
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Text, ToolCall, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.events import Ask, ToolFinished, TurnEnded
from polylect.vocab.ports import (
    BlockDone,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ReplyDone,
    TextChunk,
    ToolReturn,
    WebDomains,
    WebResults,
)
from polylect.wire.domains import in_domains
from providers.loopback import Loopback, reply

PAGES = WebResults((("A page", "https://a.test/x"), ("Another\npage", "https://sub.b.test/y")))


class Service:
    """A model that calls WebSearch once, and a service that answers the search with `events`."""

    name = "service"

    def __init__(self, *events: ModelEvent | ProviderError, searches: bool = True, **args: Any) -> None:
        self.requests: list[ModelRequest] = []
        self._events = events
        self._searches = searches
        self._args = {"query": "the news", **args}

    def info(self, model: str) -> ModelInfo:
        return ModelInfo(model, web_search=self._searches)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        self.requests.append(request)
        if request.web_search:
            for event in self._events:
                if isinstance(event, ProviderError):
                    raise event
                yield [event]
        elif request.messages[-1].role != "tool" and len(self.requests) == 1:
            yield [BlockDone(ToolCall("c", "WebSearch", self._args)), ReplyDone("calls", Usage(10, 1), "r1", "m")]
        else:
            yield [TextChunk("done"), BlockDone(Text("done")), ReplyDone("end", Usage(10, 1), "r2", "m")]

    async def close(self) -> None:
        pass


def searched(folder: Path, service: Service, **options: Any) -> Talk:
    tools = standard_tools(str(folder)).values()
    return converse(folder, service, [Prompt("t1", "go")], *tools, **{"mode": "force", **options})


def test_the_service_searches_in_a_request_of_its_own_which_is_charged(tmp_path: Path) -> None:
    service = Service(PAGES, TextChunk("It "), TextChunk("rains."), ReplyDone("end", Usage(500, 50), "s1", "m"))
    talk = searched(tmp_path, service)
    [finished] = talk.of(ToolFinished)
    sources = "Sources:\n- A page: https://a.test/x\n- Another page: https://sub.b.test/y"
    assert (finished.outcome, finished.output) == ("ok", f"It rains.\n\n{sources}")
    assert [request.web_search for request in service.requests] == [None, WebDomains(), None]
    assert service.requests[1].messages[0].content == (Text("Search for: the news"),)
    assert service.requests[1].tools == ()
    assert talk.of(TurnEnded)[0].usage == Usage(520, 52)
    assert [message.role for message in service.requests[2].messages] == ["user", "assistant", "tool"]


def test_domains_are_passed_on_and_pages_elsewhere_are_left_out(tmp_path: Path) -> None:
    service = Service(PAGES, ReplyDone("end"), allowed_domains=["b.test"])
    [finished] = searched(tmp_path, service).of(ToolFinished)
    assert finished.output == "Sources:\n- Another page: https://sub.b.test/y"
    assert service.requests[1].web_search == WebDomains(("b.test",))
    [blocked] = searched(tmp_path, Service(PAGES, ReplyDone("end"), blocked_domains=["B.test"])).of(ToolFinished)
    assert blocked.output == "Sources:\n- A page: https://a.test/x"


@pytest.mark.parametrize(
    ("events", "args", "words"),
    [
        ((TextChunk("I know it by heart."), ReplyDone("end")), {}, "the service did not use its search"),
        ((WebResults(error="max_uses_exceeded"), ReplyDone("end")), {}, "Nothing was searched: max_uses_exceeded."),
        ((ProviderError("server", "it is down"),), {}, "The search failed: it is down"),
        (
            (),
            {"allowed_domains": ["a"], "blocked_domains": ["b"]},
            "Give allowed_domains or blocked_domains, not both.",
        ),
        ((), {"query": ""}, "Wrong parameter"),
    ],
)
def test_nothing_is_made_up(tmp_path: Path, events: tuple[Any, ...], args: dict[str, Any], words: str) -> None:
    [finished] = searched(tmp_path, Service(*events, **args)).of(ToolFinished)
    assert finished.outcome == "error"
    assert words in finished.output
    assert "by heart" not in finished.output


def test_a_search_without_a_page_says_so(tmp_path: Path) -> None:
    [finished] = searched(tmp_path, Service(WebResults(), TextChunk("Nothing."), ReplyDone("end"))).of(ToolFinished)
    assert (finished.outcome, finished.output) == ("ok", "Nothing.\n\nNo page was found.")


def test_without_a_search_the_tool_does_not_exist(tmp_path: Path) -> None:
    service = Service(searches=False)
    [finished] = searched(tmp_path, service).of(ToolFinished)
    assert finished.output.startswith("Unknown tool: WebSearch.")
    assert "WebSearch" not in [tool.name for tool in service.requests[0].tools]
    offered = Service(ReplyDone("end"))
    searched(tmp_path, offered)
    assert "WebSearch" in [tool.name for tool in offered.requests[0].tools]


def test_it_is_asked_for_and_rules_hold(tmp_path: Path) -> None:
    talk = searched(tmp_path, Service(), mode="default", host=lambda event: None, approval_timeout=0.01)
    assert [event.name for event in talk.of(Ask)] == ["WebSearch"]
    denied = searched(tmp_path, Service(PAGES), deny=("websearch",))
    assert [event.outcome for event in denied.of(ToolFinished)] == ["denied"]
    assert "WebSearch" not in Settings(workspace="/w", model="m").allow_list


def test_nothing_is_searched_once_the_budget_is_used_up(tmp_path: Path) -> None:
    service = Service(PAGES, ReplyDone("end"))
    [finished] = searched(tmp_path, service, budget=Budget(max_tokens_in=10)).of(ToolFinished)
    assert finished.output.startswith("A search would cost more, and")
    assert [request.web_search for request in service.requests] == [None]


@pytest.mark.parametrize(
    ("provider", "model", "settings", "expected"),
    [
        (Anthropic, "claude-sonnet-4-5", {}, True),
        (Anthropic, "claude-sonnet-4-5", {"base_url": "http://gateway.test"}, False),
        (Anthropic, "m", {"base_url": "http://gateway.test", "extra": {"web_search": True}}, True),
        (Anthropic, "m", {"extra": {"web_search": False}}, False),
        (OpenAI, "m", {"extra": {"api": "responses"}}, True),
        (OpenAI, "m", {"extra": {"api": "chat"}}, False),
        (OpenAI, "m", {"base_url": "http://gateway.test"}, False),
        (OpenAI, "m", {"base_url": "http://gateway.test", "extra": {"api": "responses", "web_search": True}}, True),
    ],
)
def test_which_services_can_search(provider: Any, model: str, settings: dict[str, Any], expected: bool) -> None:
    assert provider(ProviderSettings(**settings)).info(model).web_search is expected


# A search server.


def ask_server(
    answer: Any, status: int = 200, place: str = "/search?q={query}&format=json", **args: Any
) -> tuple[ToolReturn, str]:
    """What the tool returns, and the first line of the request."""

    async def ask() -> tuple[ToolReturn, str]:
        body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        async with Loopback([reply(body, status=status, kind="application/json")]) as server:
            tool = WebSearch(server.url + place)
            result = await tool.run({"query": "a b&c", **args}, FolderContext(Path(".")))
            return result, server.requests[0].line if server.requests else ""

    return asyncio.run(asyncio.wait_for(ask(), 30))


RESULTS = {
    "query": "x",
    "results": [
        {"title": "One\n1", "url": "https://a.test/1", "content": "first  words", "score": 1.0},
        {"title": "Two", "url": "https://b.test/2", "content": None},
    ],
}


def test_a_server_is_asked_and_its_results_are_shown() -> None:
    result, line = ask_server(RESULTS)
    assert line == "GET /search?q=a%20b%26c&format=json HTTP/1.1"
    assert (result.ok, result.output) == (True, "One 1\nhttps://a.test/1\nfirst words\n\nTwo\nhttps://b.test/2")
    assert ask_server(RESULTS, blocked_domains=["a.test"])[0].output == "Two\nhttps://b.test/2"
    assert ask_server({"results": []})[0].output == "Nothing was found."


def test_a_server_that_fails_is_an_error() -> None:
    assert ask_server(b"<html>")[0].output.startswith("The search server did not answer with results as JSON")
    assert ask_server(RESULTS, status=403)[0].output.startswith("The search server answered with status 403")
    result, line = ask_server(RESULTS, place="/search")
    assert (result.ok, line) == (False, "")
    assert "has no {query} in it" in result.output


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com", True),
        ("HTTPS://Sub.Example.com:80/x", True),
        ("https://example.com.evil.test/", False),
        ("https://notexample.com/", False),
        ("https://example.com@evil.test/", False),
        ("https://evil.test/?https://example.com", False),
        ("example.com", False),
    ],
)
def test_an_address_lies_in_a_domain_by_its_host(url: str, expected: bool) -> None:
    assert in_domains(url, ["*.example.com", ""]) is expected
