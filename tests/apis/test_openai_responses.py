from typing import Any

from apis.streams import heard
from polylect.apis.openai_responses import StreamParser, request_body
from polylect.vocab.content import Message, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.ports import (
    ArgsChunk,
    BlockDone,
    ModelInfo,
    ModelRequest,
    ReplyDone,
    TextChunk,
    ThinkingChunk,
    WebDomains,
    WebResults,
)

Json = dict[str, Any]
SEAL = '{"id":"rs_1","encrypted_content":"abc"}'


def event(kind: str, **fields: Any) -> Json:
    return {"type": f"response.{kind}", "sequence_number": 1, **fields}


def item(index: int, kind: str, **fields: Any) -> list[Json]:
    """An item that begins empty and ends full."""
    empty = {**fields, "arguments": "", "content": [], "summary": []}
    return [
        event("output_item.added", output_index=index, item={"type": kind, **empty}),
        event("output_item.done", output_index=index, item={"type": kind, **fields}),
    ]


CREATED = event("created", response={"id": "resp_1", "model": "gpt", "usage": None, "error": None})


def completed(kind: str = "completed", **fields: Any) -> Json:
    return event(kind, response={"id": "resp_1", "model": "gpt", **fields})


def test_reasoning_text_and_a_call() -> None:
    begun, thought = item(0, "reasoning", id="rs_1", encrypted_content="abc")
    opened, said = item(1, "message", id="msg_1", content=[{"type": "output_text", "text": "Hello", "annotations": []}])
    requested, called = item(2, "function_call", id="fc_1", call_id="call_1", name="Read", arguments='{"x":1}')
    counts = {"input_tokens": 25, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 5}}
    assert heard(
        StreamParser(),
        CREATED,
        begun,
        event("reasoning_summary_part.added", output_index=0, summary_index=0),
        event("reasoning_summary_text.delta", output_index=0, delta="hm"),
        event("reasoning_summary_part.added", output_index=0, summary_index=1),
        event("reasoning_summary_text.delta", output_index=0, delta="so"),
        thought,
        opened,
        event("output_text.delta", output_index=1, delta="Hel"),
        event("output_text.delta", output_index=1, delta="lo"),
        event("output_text.done", output_index=1, text="Hello"),
        said,
        requested,
        event("function_call_arguments.delta", output_index=2, delta='{"x":1}'),
        called,
        completed(usage=counts),
    ) == [
        ThinkingChunk("hm"),
        ThinkingChunk("\n\n"),
        ThinkingChunk("so"),
        BlockDone(Thinking("hm\n\nso", SEAL)),
        TextChunk("Hel"),
        TextChunk("lo"),
        BlockDone(Text("Hello")),
        ArgsChunk("call_1", "Read", '{"x":1}'),
        BlockDone(ToolCall("call_1", "Read", {"x": 1})),
        ReplyDone("calls", Usage(20, 7, 5), "resp_1", "gpt"),
    ]


def test_what_was_not_streamed_is_taken_from_the_finished_item() -> None:
    begun, said = item(0, "message", id="m", content=[{"type": "output_text", "text": "Hello"}])
    assert heard(StreamParser(), CREATED, begun, said, completed())[0] == BlockDone(Text("Hello"))


def test_an_incomplete_answer_says_why() -> None:
    for reason, stop in (("max_output_tokens", "length"), ("content_filter", "refused")):
        last = heard(StreamParser(), CREATED, completed("incomplete", incomplete_details={"reason": reason}))[-1]
        assert last == ReplyDone(stop, Usage(), "resp_1", "gpt")  # type: ignore[arg-type]


def test_a_refusal_is_shown_and_said() -> None:
    begun, said = item(0, "message", id="m", content=[{"type": "refusal", "refusal": "no"}])
    events = heard(StreamParser(), CREATED, begun, event("refusal.delta", delta="no"), said, completed())
    assert events == [TextChunk("no"), BlockDone(Text("no")), ReplyDone("refused", Usage(), "resp_1", "gpt")]


def test_failures_are_faults_in_every_form() -> None:
    for failure in (
        event("failed", response={"id": "r", "error": {"code": "rate_limit_exceeded", "message": "slow down"}}),
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None},
        {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "slow down"}},
    ):
        parser = StreamParser()
        heard(parser, CREATED, failure)
        assert parser.fault is not None
        assert (parser.fault.kind, parser.fault.retryable) == ("rate_limit", True)
        assert "slow down" in str(parser.fault)


def test_a_stream_that_stops_early_was_cut_off() -> None:
    parser = StreamParser()
    heard(parser, CREATED, event("output_text.delta", delta="a"))
    assert parser.fault is not None
    assert parser.fault.kind == "network"


def test_reasoning_goes_back_sealed_to_whom_sealed_it() -> None:
    history = [
        Message("user", (Text("look"),)),
        Message("assistant", (Thinking("hm", SEAL), Thinking("hm", "c2ln"), ToolCall("a", "Read", {}))),
        Message("tool", (ToolResult("a", "Read", "text"),)),
    ]
    request = ModelRequest("gpt", "be good", history, effort="low", max_tokens=9)
    assert request_body(request, ModelInfo("gpt", effort_levels=("low",))) == {
        "model": "gpt",
        "instructions": "be good",
        "stream": True,
        "store": False,
        "max_output_tokens": 9,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "abc",
            },
            {"type": "function_call", "call_id": "a", "name": "Read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "text"},
        ],
    }


def test_a_search_of_the_service_is_asked_for_and_the_pages_that_it_cites_are_told() -> None:
    request = ModelRequest("m", "", [Message("user", (Text("x"),))], web_search=WebDomains(("a.test",)))
    [tool] = request_body(request, ModelInfo("m"))["tools"]
    assert tool == {"type": "web_search", "filters": {"allowed_domains": ("a.test",)}}
    notes = [{"type": "url_citation", "url": "https://a.test", "title": None}, {"type": "file_citation"}, 3]
    part = {"type": "output_text", "text": "Hi", "annotations": notes}
    assert heard(
        StreamParser(),
        CREATED,
        *item(0, "web_search_call", id="ws", status="completed", action={"type": "search", "query": "x"}),
        *item(1, "message", id="m", content=[part]),
        completed(usage={"input_tokens": 1, "output_tokens": 2}),
    ) == [
        WebResults(),
        WebResults((("", "https://a.test"),)),
        BlockDone(Text("Hi")),
        ReplyDone("end", Usage(1, 2), "resp_1", "gpt"),
    ]
