"""Questions on the wire: in the order in which hosts know calls, and each request closed by itself."""

from typing import Any, Literal

import pytest

from dialects.pair import env
from grammar_check import Grammar
from polylect.dialects.jsonstream.asks import ask_of, tool_of
from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.dialects.jsonstream.frames.base import ToolRequest
from polylect.dialects.jsonstream.host.codec import HostSide
from polylect.vocab.content import Option
from polylect.vocab.events import (
    Alive,
    Ask,
    AskClosed,
    Display,
    Event,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from polylect.wire import jsonl

T: dict[str, Any] = {"turn": "m"}
BOTH = pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
OPTIONS = (Option("red", "red", "warm"), Option("blue", "blue"))
BEGUN = (
    TurnStarted(**T),
    ToolCalled("q1", "AskUserQuestion", {"question": "Which?"}, "info", "ask_user: Which?", **T),
    ToolStarted("q1", "AskUserQuestion", **T),
)
ASK = Ask("a1", "choice", "q1", "AskUserQuestion", {"header": "Colour"}, "info", "Which?", options=OPTIONS, **T)


def send(side: EngineSide, *events: Event) -> list[dict[str, Any]]:
    for event in events:
        side.send(event)
    return [jsonl.parse(line) for line in side.data_to_send().splitlines()]


def marks(frames: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(frame["type"], frame["call_id"]) for frame in frames if "call_id" in frame]


@BOTH
def test_a_question_runs_once_it_has_been_answered(version: str) -> None:
    """Their engines ask first and run then, and so do the cards of their hosts."""
    side = EngineSide(env(), version=version)
    assert marks(send(side, *BEGUN)) == []
    [request] = send(side, ASK)
    assert request["tool"]["description"] == "ask_user: Which?"
    assert request["tool"]["args"]["header"] == "Colour"
    assert [frame["type"] for frame in send(side, Alive("q1", "AskUserQuestion", **T))] == ["thinking"]
    frames = send(side, AskClosed("a1", "answered", **T), ToolFinished("q1", "AskUserQuestion", "blue", **T))
    assert marks(frames) == [("tool_running", "q1"), ("tool_result", "q1")]


@BOTH
@pytest.mark.parametrize(("how", "told"), [("denied", "not now"), ("cancelled", "cancelled"), ("timeout", "timeout")])
def test_a_question_that_was_not_answered_is_cancelled(version: str, how: Any, told: str) -> None:
    side = EngineSide(env(), version=version)
    send(side, *BEGUN, ASK)
    reason = "not now" if how == "denied" else ""
    finished = ToolFinished("q1", "AskUserQuestion", "The person did not answer.", "error", **T)
    [frame] = send(side, AskClosed("a1", how, reason, **T), finished)
    assert (frame["type"], frame["call_id"], frame["reason"]) == ("tool_cancelled", "q1", told)


@BOTH
def test_a_question_that_could_not_be_put_is_a_call_like_any_other(version: str) -> None:
    side = EngineSide(env(), version=version)
    send(side, *BEGUN)
    finished = ToolFinished("q1", "AskUserQuestion", "Missing required parameter: question", "error", **T)
    assert marks(send(side, finished)) == [("tool_running", "q1"), ("tool_result", "q1")]


@BOTH
def test_each_of_several_questions_is_a_request_that_is_closed(version: str) -> None:
    side = EngineSide(env(), version=version)
    second = Ask("a2", "text", "q1", "AskUserQuestion", title="And why?", **T)
    frames = send(side, *BEGUN, ASK, AskClosed("a1", "answered", **T), second, AskClosed("a2", "answered", **T))
    frames += send(side, ToolFinished("q1", "AskUserQuestion", "blue\nbecause", **T))
    assert marks(frames) == [
        ("tool_request", "q1"),
        ("tool_running", "q1"),
        ("tool_request", "a2"),
        ("tool_result", "a2"),
        ("tool_result", "q1"),
    ]


@BOTH
def test_a_host_hears_all_of_it_in_order(version: str) -> None:
    side, host, grammar = EngineSide(env(), version=version), HostSide(env(), version=version), Grammar()
    for event in (*BEGUN, ASK, AskClosed("a1", "answered", **T), ToolFinished("q1", "AskUserQuestion", "blue", **T)):
        side.send(event)
    received = host.receive(side.data_to_send())
    for event in [*received, *host.receive_eof()]:
        grammar.check(event)
    kinds = [type(event) for event in received if isinstance(event, Ask | AskClosed | ToolStarted | ToolFinished)]
    assert kinds == [Ask, AskClosed, ToolStarted, ToolFinished]


def test_a_long_question_is_described_by_its_beginning_on_one_line() -> None:
    [frame] = send(EngineSide(env()), Ask("a1", "text", title="x\n" * 100))
    assert frame["tool"]["description"] == f"ask_user: {'x ' * 40}…"


@BOTH
def test_what_is_only_to_be_read_is_an_info_and_the_rest_of_a_display_is_counted(version: str) -> None:
    side = EngineSide(env(), version=version)
    shown = [
        Display("notify", {"message": "look"}),
        Display("command_output", {"text": "$0.01"}),
        Display("setTitle", {"title": "x"}),
        Display("notify", {"message": 7}),
    ]
    assert [frame["message"] for frame in send(side, *shown)] == ["look", "$0.01"]
    assert side.lost == {"Display": 2}


@pytest.mark.parametrize("kind", ["confirm", "url", "text"])
def test_the_message_of_a_question_arrives(kind: Literal["confirm", "url", "text"]) -> None:
    tool = tool_of(Ask("a", kind, title="Deploy?", reason="3 files to production"), None)
    shown = "Deploy?" if kind == "text" else "Deploy?\n3 files to production"
    assert (tool.args["question"], tool.args["message"]) == (shown, "3 files to production")
    arrived = ask_of(ToolRequest("t", "a", tool))
    assert (arrived.title, arrived.reason) == ("Deploy?", "3 files to production")
