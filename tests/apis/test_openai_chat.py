from typing import Any

from apis.streams import heard
from polylect.apis.openai_chat import StreamParser, request_body
from polylect.vocab.content import Image, Message, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.ports import ArgsChunk, BlockDone, ModelEvent, ModelRequest, ReplyDone, TextChunk, ThinkingChunk

Json = dict[str, Any]
DONE = b"[DONE]"


def parser() -> StreamParser:
    ids = iter(range(1, 100))
    return StreamParser(lambda: f"made_{next(ids)}")


def chunk(finish: str | None = None, **delta: Any) -> Json:
    return {"id": "c1", "model": "gpt", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(index: int | None, id: str | None = None, name: str | None = None, args: Any = None, **more: Any) -> Json:
    result = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": args}, **more}
    return {key: value for key, value in result.items() if value is not None}


def usage(**counts: Any) -> Json:
    return {"id": "c1", "choices": [], "usage": counts}


def blocks(*payloads: Any) -> list[Any]:
    events = heard(parser(), *payloads)
    return [event.block for event in events if isinstance(event, BlockDone)]


def stop_of(*payloads: Any) -> str:
    last = heard(parser(), *payloads)[-1]
    assert isinstance(last, ReplyDone)
    return last.stop


def test_reasoning_then_text_then_usage() -> None:
    expected: list[ModelEvent] = [
        ThinkingChunk("hm"),
        BlockDone(Thinking("hm")),
        TextChunk("Hel"),
        TextChunk("lo"),
        BlockDone(Text("Hello")),
        ReplyDone("end", Usage(20, 7, 5), "c1", "gpt"),
    ]
    for field in ("reasoning_content", "reasoning"):
        reader = parser()
        assert (
            heard(
                reader,
                chunk(role="assistant", content=""),
                chunk(**{field: "hm"}),
                chunk(content="Hel"),
                chunk(content="lo"),
                chunk("stop"),
                usage(prompt_tokens=25, completion_tokens=7, prompt_tokens_details={"cached_tokens": 5}),
                DONE,
            )
            == expected
        )
        assert reader.done


def test_calls_are_merged_by_index_even_when_they_interleave() -> None:
    assert heard(
        parser(),
        chunk(tool_calls=[call(0, "a", "Read", "")]),
        chunk(tool_calls=[call(0, args='{"x"')]),
        chunk(tool_calls=[call(1, "b", "Bash", '{"y"')]),
        chunk(tool_calls=[call(0, name="", args=":1}"), call(1, args=":2}")]),
        chunk("tool_calls"),
        DONE,
    ) == [
        ArgsChunk("a", "Read", ""),
        ArgsChunk("a", "Read", '{"x"'),
        ArgsChunk("b", "Bash", '{"y"'),
        ArgsChunk("a", "Read", ":1}"),
        ArgsChunk("b", "Bash", ":2}"),
        BlockDone(ToolCall("a", "Read", {"x": 1})),
        BlockDone(ToolCall("b", "Bash", {"y": 2})),
        ReplyDone("calls", Usage(), "c1", "gpt"),
    ]


def test_a_server_that_does_not_count_its_calls_is_understood_by_their_ids() -> None:
    for index in (0, None):
        assert blocks(
            chunk(tool_calls=[call(index, "a", "Read", "{}")]),
            chunk("stop", tool_calls=[call(index, "b", "Bash", "{}")]),
            DONE,
        ) == [ToolCall("a", "Read", {}), ToolCall("b", "Bash", {})]


def test_a_call_without_an_id_gets_one() -> None:
    assert blocks(chunk(tool_calls=[call(0, None, "Read", "{}")]), chunk("tool_calls"), DONE) == [
        ToolCall("made_1", "Read", {})
    ]


def test_arguments_may_come_whole_and_what_the_vendor_adds_travels_along() -> None:
    extra = {"google": {"thought_signature": "abc"}}
    result = [call(0, "a", "Read", {"x": 1}, extra_content=extra)]
    assert blocks(chunk("stop", tool_calls=result), DONE) == [ToolCall("a", "Read", {"x": 1}, {"extra_content": extra})]


def test_stop_with_calls_means_calls() -> None:
    assert stop_of(chunk("stop", tool_calls=[call(0, "a", "Read", "{}")]), DONE) == "calls"


def test_stop_reasons_are_told_apart() -> None:
    reasons = ["stop", "length", "content_filter", "tool_calls", "eos"]
    assert [stop_of(chunk(reason), DONE) for reason in reasons] == ["end", "length", "refused", "calls", "end"]
    assert stop_of(chunk(refusal="I cannot"), chunk("stop"), DONE) == "refused"


def test_cached_tokens_are_found_wherever_vendors_put_them() -> None:
    for result in (
        {"prompt_tokens_details": {"cached_tokens": 4}},
        {"cached_tokens": 4},
        {"prompt_cache_hit_tokens": 4},
    ):
        last = heard(parser(), chunk("stop"), usage(prompt_tokens=10, completion_tokens=1, **result), DONE)[-1]
        assert last == ReplyDone("end", Usage(6, 1, 4), "c1", "gpt")


def test_an_error_inside_the_stream_is_a_fault() -> None:
    for error, kind, retryable in (
        ({"code": 429, "message": "slow down"}, "rate_limit", True),
        ({"code": "context_length_exceeded", "message": "too long"}, "overflow", False),
        ({"type": "server_error", "message": "oops"}, "server", True),
        ("oops", "server", True),
    ):
        reader = parser()
        assert heard(reader, chunk(content="a"), {"error": error}, chunk(content="b")) == [TextChunk("a")]
        assert reader.fault is not None
        assert (reader.fault.kind, reader.fault.retryable) == (kind, retryable)


def test_a_stream_without_a_reason_was_cut_off() -> None:
    for last in ((), (DONE,)):
        reader = parser()
        heard(reader, chunk(content="a"), *last)
        assert reader.fault is not None
        assert reader.fault.kind == "network"


def test_a_stream_without_done_is_complete_all_the_same() -> None:
    assert stop_of(chunk(content="a"), chunk("stop")) == "end"


def test_fields_that_are_null_and_empty_payloads_are_no_fault() -> None:
    reader = parser()
    heard(
        reader,
        b"",
        {"id": None, "model": None, "choices": None, "usage": None},
        chunk(content=None, tool_calls=None, reasoning=None),
        chunk("stop"),
        DONE,
    )
    assert reader.fault is None
    assert reader.done


# Requests.


def test_a_request_has_the_system_first_and_results_as_messages_of_their_own() -> None:
    history = [
        Message("user", (Text("look"),)),
        Message(
            "assistant", (Thinking("hm"), Text("ok"), ToolCall("a", "Read", {"x": 1}, {"extra_content": {"k": 1}}))
        ),
        Message("tool", (ToolResult("a", "Read", "text", images=(Image("image/png", "aGk="),)),)),
    ]
    body = request_body(
        ModelRequest("gpt", "be good", history, max_tokens=9, effort="low"), max_tokens_field="max_completion_tokens"
    )
    arguments = {"name": "Read", "arguments": '{"x":1}'}
    assert body == {
        "model": "gpt",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
        "reasoning_effort": "low",
        "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "look"},
            {
                "role": "assistant",
                "content": "ok",
                "tool_calls": [{"id": "a", "type": "function", "function": arguments, "extra_content": {"k": 1}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "text"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "[images from Read, call a]"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                ],
            },
        ],
    }
