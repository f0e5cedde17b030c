from typing import Any

from apis.streams import heard
from polylect.apis.anthropic_messages import StreamParser, request_body
from polylect.vocab.content import Image, Message, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.ports import (
    ArgsChunk,
    BlockDone,
    ModelInfo,
    ModelRequest,
    ReplyBegun,
    ReplyDone,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
    WebDomains,
    WebResults,
)

Json = dict[str, Any]
PING: Json = {"type": "ping"}


def start(**usage: int) -> Json:
    message = {"id": "msg_1", "type": "message", "model": "claude-x", "content": [], "usage": usage}
    return {"type": "message_start", "message": message}


def block(number: int, **content: Any) -> Json:
    return {"type": "content_block_start", "index": number, "content_block": content}


def delta(number: int, kind: str, **content: Any) -> Json:
    return {"type": "content_block_delta", "index": number, "delta": {"type": kind, **content}}


def stop(number: int) -> Json:
    return {"type": "content_block_stop", "index": number}


def finish(reason: str | None, **usage: int) -> list[Json]:
    result = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    return [result, {"type": "message_stop"}]


def test_a_text_comes_in_chunks_and_then_whole() -> None:
    parser = StreamParser()
    assert heard(
        parser,
        start(input_tokens=25, cache_read_input_tokens=3, cache_creation_input_tokens=4, output_tokens=1),
        block(0, type="text", text=""),
        PING,
        delta(0, "text_delta", text="Hel"),
        delta(0, "text_delta", text="lo"),
        stop(0),
        *finish("end_turn", output_tokens=15),
    ) == [
        ReplyBegun(Usage(25, 1, 3, 4), "msg_1", "claude-x"),
        TextChunk("Hel"),
        TextChunk("lo"),
        BlockDone(Text("Hello")),
        ReplyDone("end", Usage(25, 15, 3, 4), "msg_1", "claude-x"),
    ]
    assert parser.done
    assert parser.fault is None


def test_thinking_keeps_its_signature_and_redacted_thinking_its_data() -> None:
    assert heard(
        StreamParser(),
        start(),
        block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
        block(1, type="redacted_thinking", data="secret=="),
        stop(1),
        *finish("end_turn"),
    )[:3] == [
        ThinkingChunk("hm"),
        BlockDone(Thinking("hm", "c2ln")),
        BlockDone(Thinking("", redacted="secret==")),
    ]


def test_a_call_is_put_together_from_partial_json() -> None:
    assert heard(
        StreamParser(),
        start(),
        block(0, type="tool_use", id="toolu_1", name="Read", input={}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"file_'),
        delta(0, "input_json_delta", partial_json='path": "a"}'),
        stop(0),
        *finish("tool_use"),
    ) == [
        ArgsChunk("toolu_1", "Read", '{"file_'),
        ArgsChunk("toolu_1", "Read", 'path": "a"}'),
        BlockDone(ToolCall("toolu_1", "Read", {"file_path": "a"})),
        ReplyDone("calls", Usage(), "msg_1", "claude-x"),
    ]


def test_a_call_without_arguments_has_none() -> None:
    events = heard(StreamParser(), start(), block(0, type="tool_use", id="t", name="Now", input={}), stop(0))
    assert events == [BlockDone(ToolCall("t", "Now", {}))]


def test_arguments_that_were_cut_off_are_kept_as_text_and_not_guessed() -> None:
    events = heard(
        StreamParser(),
        start(),
        block(0, type="tool_use", id="t", name="Bash", input={}),
        delta(0, "input_json_delta", partial_json='{"command": "rm -rf /tm'),
        stop(0),
        *finish("max_tokens"),
    )
    assert events[1] == BlockDone(ToolCall("t", "Bash", {}, {"unparsed": '{"command": "rm -rf /tm'}))
    assert events[2] == ReplyDone("length", Usage(), "msg_1", "claude-x")


def test_stop_reasons_are_told_apart() -> None:
    reasons = ["end_turn", "stop_sequence", "tool_use", "max_tokens", "refusal", "something_new"]
    stops = [heard(StreamParser(), start(), *finish(reason))[-1] for reason in reasons]
    assert [event.stop for event in stops if isinstance(event, ReplyDone)] == [
        "end",
        "end",
        "calls",
        "length",
        "refused",
        "end",
    ]


def test_an_error_in_the_middle_comes_after_what_was_said_before_it() -> None:
    parser = StreamParser()
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert heard(parser, start(), block(0, type="text", text=""), delta(0, "text_delta", text="a"), error) == [
        TextChunk("a")
    ]
    assert parser.fault is not None
    assert (parser.fault.kind, parser.fault.retryable) == ("overloaded", True)


def test_unknown_events_blocks_and_deltas_are_no_fault() -> None:
    parser = StreamParser()
    events = heard(
        parser,
        start(),
        {"type": "brand_new", "delta": {"type": "x"}},
        block(0, type="server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json="{}"),
        stop(0),
        block(1, type="text", text="a"),
        delta(1, "citations_delta", citation={}),
        stop(1),
        *finish("end_turn"),
    )
    assert parser.fault is None
    assert [event for event in events if isinstance(event, BlockDone)] == [BlockDone(Text("a"))]


def test_a_stream_that_stops_early_is_a_network_fault() -> None:
    parser = StreamParser()
    heard(parser, start(), block(0, type="text", text=""), delta(0, "text_delta", text="a"))
    assert parser.fault is not None
    assert (parser.fault.kind, parser.fault.retryable, parser.done) == ("network", True, False)


def test_a_stream_whose_last_event_is_missing_is_complete_all_the_same() -> None:
    parser = StreamParser()
    assert heard(parser, start(), finish("end_turn")[0])[-1] == ReplyDone("end", Usage(), "msg_1", "claude-x")
    assert parser.done


def test_what_is_not_json_is_a_protocol_fault() -> None:
    parser = StreamParser()
    heard(parser, b"{nonsense")
    assert parser.fault is not None
    assert parser.fault.kind == "protocol"


# Requests.

TOOLS = [ToolSpec("Read", "Reads.", {"type": "object"}), ToolSpec("Bash", "Runs.", {"type": "object"})]
BUDGETED = ModelInfo("m", max_output=64_000, thinking=True)
ADAPTIVE = ModelInfo("m", max_output=64_000, thinking=True, effort_levels=("low", "high"))


def test_the_system_the_last_tool_and_the_last_two_user_messages_are_marked_for_the_cache() -> None:
    history = [
        Message("user", (Text("one"),)),
        Message("assistant", (ToolCall("t1", "Read", {"file_path": "a"}),)),
        Message("tool", (ToolResult("t1", "Read", "text"),)),
    ]
    body = request_body(ModelRequest("m", "be good", history, TOOLS), BUDGETED)
    mark = {"type": "ephemeral"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "text"}]}
    assert body == {
        "model": "m",
        "max_tokens": 64_000,
        "stream": True,
        "system": [{"type": "text", "text": "be good", "cache_control": mark}],
        "tools": [
            {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}},
            {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}, "cache_control": mark},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "one", "cache_control": mark}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}}],
            },
            {"role": "user", "content": [{**result, "cache_control": mark}]},
        ],
    }


def ask(*messages: Message, **rest: Any) -> ModelRequest:
    return ModelRequest("m", "", messages, **rest)


HELLO = Message("user", (Text("hello"),))


def test_thinking_is_a_budget_or_adaptive_as_the_model_wants_it() -> None:
    assert request_body(ask(HELLO, thinking=10_000), BUDGETED)["thinking"] == {
        "type": "enabled",
        "budget_tokens": 10_000,
    }
    body = request_body(ask(HELLO, thinking=10_000, effort="high"), ADAPTIVE)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": "high"}
    assert "thinking" not in request_body(ask(HELLO, thinking=10_000), ModelInfo("m"))
    assert "output_config" not in request_body(ask(HELLO, effort="high"), BUDGETED)


def test_a_budget_leaves_room_for_the_answer() -> None:
    body = request_body(ask(HELLO, thinking=10_000, max_tokens=8192), BUDGETED)
    assert body["thinking"]["budget_tokens"] < body["max_tokens"] == 8192
    assert "thinking" not in request_body(ask(HELLO, thinking=10_000, max_tokens=1500), BUDGETED)


def called(*before: Thinking) -> tuple[Message, ...]:
    reply = Message("assistant", (*before, ToolCall("t", "Read", {})))
    return HELLO, reply, Message("tool", (ToolResult("t", "Read", "x"),))


def test_thinking_goes_back_with_its_signature_only_to_whom_signed_it() -> None:
    body = request_body(ask(*called(Thinking("hm", "c2ln"), Thinking("", redacted="r"))), BUDGETED)
    assert body["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "r"},
    ]
    body = request_body(ask(*called(Thinking("hm"), Thinking("hm", '{"id":"rs_1"}'))), BUDGETED)
    assert [part["type"] for part in body["messages"][1]["content"]] == ["tool_use"]


def test_thinking_is_not_asked_for_in_the_middle_of_calls_that_began_without_it() -> None:
    assert "thinking" not in request_body(ask(*called(), thinking=2000), BUDGETED)
    assert "thinking" in request_body(ask(*called(Thinking("hm", "c2ln")), thinking=2000), BUDGETED)


def test_images_and_errors_of_results_are_said() -> None:
    result = ToolResult("t", "Read", "", "error", (Image("image/png", "aGk="),))
    body = request_body(ask(*called()[:2], Message("tool", (result,))), BUDGETED, caching=False)
    assert body["messages"][2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "t",
            "is_error": True,
            "content": [
                {"type": "text", "text": "(no output)"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            ],
        }
    ]


def test_a_search_of_the_service_is_asked_for_and_its_pages_are_told() -> None:
    request = ModelRequest("m", "", [Message("user", (Text("x"),))], web_search=WebDomains(("a.test",), ("b.test",)))
    [tool] = request_body(request, ModelInfo("m"), caching=False)["tools"]
    assert tool == {"type": "web_search_20250305", "name": "web_search", "max_uses": 5, "allowed_domains": ["a.test"]}
    page = {
        "type": "web_search_result",
        "title": "T",
        "url": "https://a.test",
        "encrypted_content": "E",
        "page_age": None,
    }
    failed = {"type": "web_search_tool_result_error", "error_code": "too_many_requests"}
    assert heard(
        StreamParser(),
        start(input_tokens=1),
        block(0, type="server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query": "x"}'),
        stop(0),
        block(1, type="web_search_tool_result", tool_use_id="s", content=[page]),
        stop(1),
        block(2, type="web_search_tool_result", tool_use_id="s", content=failed),
        stop(2),
        block(3, type="text", text="", citations=[]),
        delta(3, "text_delta", text="Hi"),
        delta(3, "citations_delta", citation={"type": "web_search_result_location"}),
        stop(3),
        *finish("end_turn", output_tokens=2),
    ) == [
        ReplyBegun(Usage(1, 0), "msg_1", "claude-x"),
        WebResults((("T", "https://a.test"),)),
        WebResults(error="too_many_requests"),
        TextChunk("Hi"),
        BlockDone(Text("Hi")),
        ReplyDone("end", Usage(1, 2), "msg_1", "claude-x"),
    ]
