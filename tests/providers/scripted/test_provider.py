"""The scripted model: what is played, and what it does when things go wrong."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from machine import PATIENCE
from polylect.providers.scripted.provider import BUILT_IN, Scripted, open_provider
from polylect.providers.settings import ProviderSettings
from polylect.vocab.content import Message, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.errors import ProviderError, StartError
from polylect.vocab.ports import (
    ArgsChunk,
    BlockDone,
    ModelEvent,
    ModelRequest,
    Provider,
    ReplyDone,
    Retrying,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
)


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def called(call: str, name: str = "Read", **args: Any) -> Message:
    return Message("assistant", (ToolCall(call, name, args),))


def result(call: str, output: str, name: str = "Read", outcome: Any = "ok") -> Message:
    return Message("tool", (ToolResult(call, name, output, outcome),))


def request(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "m", "system": "", "messages": messages, **fields})


async def batches_of(provider: Provider, requested: ModelRequest) -> list[Sequence[ModelEvent]]:
    async with asyncio.timeout(PATIENCE):
        return [batch async for batch in provider.stream(requested)]


def play(provider: Provider, *messages: Message, **fields: Any) -> list[ModelEvent]:
    batches = asyncio.run(batches_of(provider, request(*messages, **fields)))
    return list(itertools.chain.from_iterable(batches))


def said(provider: Provider, *messages: Message, **fields: Any) -> str:
    return "".join(event.text for event in play(provider, *messages, **fields) if isinstance(event, TextChunk))


def replies(*say: Any, **more: Any) -> Scripted:
    return Scripted.from_values({"reply": [{"say": list(say), **more}]})


def test_a_reply_is_chunks_then_whole_blocks_then_its_end() -> None:
    provider = replies(
        {"thinking": "Hm. ", "signature": "s"},
        {"text": ["Hi! ", "How can I help?"]},
        {"call": "Read", "id": "t1", "args": {"file_path": "a"}},
        usage={"input": 7, "output": 3},
    )
    *events, end = play(provider, user("Hello"))
    assert events == [
        ThinkingChunk("Hm. "),
        BlockDone(Thinking("Hm. ", "s")),
        TextChunk("Hi! "),
        TextChunk("How can I help?"),
        BlockDone(Text("Hi! How can I help?")),
        BlockDone(ToolCall("t1", "Read", {"file_path": "a"})),
    ]
    assert isinstance(end, ReplyDone)
    assert (end.stop, end.usage, end.model) == ("calls", Usage(7, 3), "m")


def test_texts_that_follow_each_other_are_one_block() -> None:
    *events, end = play(replies("a", {"wait": 0}, "b"), user("x"))
    assert events == [TextChunk("a"), TextChunk("b"), BlockDone(Text("ab"))]
    assert isinstance(end, ReplyDone)
    assert end.stop == "end"


@pytest.mark.parametrize(
    ("split", "chunks"),
    [
        ("none", ["  Two words,\n\nand a line \n"]),
        ("word", ["  Two ", "words,\n\n", "and ", "a ", "line \n"]),
        ("line", ["  Two words,\n", "\n", "and a line \n"]),
        ("char", list("  Two words,\n\nand a line \n")),
    ],
)
def test_a_text_is_cut_into_chunks_that_add_up_to_it(split: str, chunks: list[str]) -> None:
    events = play(replies({"text": "  Two words,\n\nand a line \n", "split": split}), user("x"))
    assert [event.text for event in events if isinstance(event, TextChunk)] == chunks
    assert events[-2] == BlockDone(Text("".join(chunks)))


def test_arguments_can_be_streamed_and_add_up_to_the_call() -> None:
    events = play(replies({"call": "Write", "id": "w", "args": {"content": "a\nb"}, "chunk": 8}), user("x"))
    assert events[:-1] == [
        ArgsChunk("w", "Write", '{"conten'),
        ArgsChunk("w", "Write", 't":"a\\nb'),
        ArgsChunk("w", "Write", '"}'),
        BlockDone(ToolCall("w", "Write", {"content": "a\nb"})),
    ]


def test_call_ids_are_new_in_every_conversation_that_goes_on() -> None:
    provider = replies({"call": "Read", "id": "t1"}, {"call": "Read", "repeat": 2})
    events = play(provider, user("x"), called("t1"), result("t1", ""))
    ids = [event.block.call for event in events if isinstance(event, BlockDone) and isinstance(event.block, ToolCall)]
    assert ids[0] == "t1-2"
    assert len(set(ids)) == 3
    again = [event.block.call for event in play(provider, user("x")) if isinstance(event, BlockDone)]  # type: ignore[union-attr]
    assert again[0] == "t1"
    assert not set(ids[1:]) & set(again)


def test_what_comes_next_is_read_from_the_conversation_so_that_a_resume_goes_on() -> None:
    turns = ("one", [{"call": "Read", "id": "a"}, "two: {result}"], "three")
    history = [user("1"), Message("assistant", (Text("one"),)), user("2"), called("a"), result("a", "found")]
    assert said(Scripted.in_order(*turns), *history) == "two: found"
    assert said(Scripted.in_order(*turns), *history, Message("assistant", (Text("two"),)), user("3")) == "three"


def test_conditions_and_placeholders_see_what_was_asked_and_what_the_tools_returned() -> None:
    provider = Scripted.from_text(r"""
    [[reply]]
    when.prompt.regex = 'find (?P<word>\w+)'
    when.results = [{ tool = "Glob", outcome = "ok" }, { tool = "Read", args.file_path = { equals = "a.py" } }]
    when.result = { tool = ["Read", "Grep"], regex = ['nothing like it', '(\d+)'] }
    text = "{match.word} {match.1} {args.file_path} {tool} {outcome} {turn}.{step} {unknown} {match.9} {{prompt}} {{x}}"

    [[reply]]
    when.history = "secret"
    when.system = "Be kind"
    when.model = { equals = "m" }
    text = "I remember."
    """)
    seen = [user("find it"), called("g", "Glob", pattern="*"), result("g", "a.py", "Glob")]
    seen += [called("r", file_path="a.py"), result("r", "line 42")]
    assert said(provider, *seen) == "it 42 a.py Read ok 1.3 {unknown} {match.9} {prompt} {{x}}"
    assert said(provider, user("the secret"), user("hm"), system="Be kind.") == "I remember."


def test_no_reply_is_an_error_that_says_for_what() -> None:
    provider = Scripted.from_values({"reply": [{"when": {"step": 1}, "text": "a"}]})
    with pytest.raises(ProviderError) as caught:
        play(provider, user("what now?"), called("r"), result("r", "x", outcome="denied"))
    assert "no reply for 'what now?' (turn 1, step 2, after Read denied); add a [[reply]]" in str(caught.value)
    assert (caught.value.kind, caught.value.retryable) == ("bad_request", False)


def test_usage_is_a_token_for_four_characters_and_priced_only_by_the_script() -> None:
    """T6"""
    script = {"reply": ["x" * 10]}
    requested = {"system": "s" * 100, "tools": [ToolSpec("n", "d", {})]}
    end = play(Scripted.from_values(script), user("u" * 40), **requested)[-1]
    assert isinstance(end, ReplyDone)
    assert end.usage == Usage(36, 3, cost=None)
    priced = Scripted.from_values({**script, "price": {"input": 10, "output": 100}})
    end = play(priced, user("u" * 40), **requested)[-1]
    assert isinstance(end, ReplyDone)
    assert end.usage.cost == pytest.approx((36 * 10 + 3 * 100) / 1e6)


def test_each_reply_has_a_request_id_of_its_own() -> None:
    """T5"""
    ends = [play(replies("a"), user("x"))[-1] for _ in range(2)]
    assert len({end.request for end in ends if isinstance(end, ReplyDone)}) == 2


async def until_it_breaks(provider: Provider) -> tuple[list[ModelEvent], ProviderError]:
    events: list[ModelEvent] = []
    try:
        async for batch in provider.stream(request(user("x"))):
            events += batch
    except ProviderError as error:
        return events, error
    raise AssertionError("it did not break")


def test_a_stream_can_break_in_the_middle_and_is_not_retried() -> None:
    provider = Scripted.in_order({"say": ["It was", {"error": "network", "message": "reset"}]}, max_retries=3)
    events, error = asyncio.run(until_it_breaks(provider))
    assert events == [TextChunk("It was")]
    assert (error.kind, error.retryable, str(error)) == ("network", True, "reset")


def test_an_error_says_everything_that_the_script_says() -> None:
    part = {"error": "rate_limit", "message": "slow down", "status": 429, "retry_after": 30, "retryable": False}
    events, error = asyncio.run(until_it_breaks(Scripted.in_order([part])))
    assert events == []
    assert (error.kind, error.status, error.retry_after, error.retryable) == ("rate_limit", 429, 30.0, False)


def test_a_failure_that_passes_is_retried_before_anything_is_said() -> None:
    say = [{"error": "overloaded", "message": "busy", "times": 2, "retry_after": 0.001}, "At last."]
    events = play(Scripted.in_order({"say": say}, max_retries=2), user("x"))
    assert events[:3] == [Retrying(1, 2, 1, "busy"), Retrying(2, 2, 1, "busy"), TextChunk("At last.")]
    events, error = asyncio.run(until_it_breaks(Scripted.in_order({"say": say}, max_retries=1)))
    assert events == [Retrying(1, 1, 1, "busy")]
    assert error.kind == "overloaded"


def test_times_also_counts_when_somebody_else_asks_again() -> None:
    provider = Scripted.in_order({"say": [{"error": "server", "times": 1}, "fine"]})
    with pytest.raises(ProviderError):
        play(provider, user("x"))
    assert said(provider, user("x")) == "fine"


def test_a_silent_stream_is_cut_after_the_stream_timeout() -> None:
    """L6"""
    provider = Scripted.in_order({"say": ["Let me think", {"hang": True}]}, stream_timeout=0.02)
    events, error = asyncio.run(until_it_breaks(provider))
    assert events == [TextChunk("Let me think")]
    assert (error.kind, error.retryable) == ("timeout", True)


@pytest.mark.parametrize("part", [{"hang": True}, {"wait": 3600}, {"text": "x", "pace": 3600}])
def test_a_pause_can_be_cancelled(part: dict[str, Any]) -> None:
    async def run() -> list[Sequence[ModelEvent]]:
        seen: list[Sequence[ModelEvent]] = []
        first = asyncio.Event()

        async def listen() -> None:
            async for batch in Scripted.in_order({"say": ["a", part]}, stream_timeout=0).stream(request(user("x"))):
                seen.append(batch)
                first.set()

        task = asyncio.create_task(listen())
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == [[TextChunk("a")]]


def test_a_pause_takes_its_time_and_hands_over_what_was_said_before() -> None:
    async def run() -> tuple[list[Sequence[ModelEvent]], float]:
        clock = asyncio.get_running_loop().time
        began = clock()
        return await batches_of(replies("a", {"wait": 0.03}, "b"), request(user("x"))), clock() - began

    batches, took = asyncio.run(run())
    assert batches[0] == [TextChunk("a")]
    assert batches[1][0] == TextChunk("b")
    assert took >= 0.03


def test_a_hundred_thousand_chunks_come_in_batches_and_let_others_run() -> None:
    """L4"""

    async def run() -> tuple[int, int, int, int]:
        provider = Scripted.from_values({"batch": 50, "reply": [{"text": "{i} ", "repeat": 100_000}]})
        turns = chunks = batches = longest = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        async for batch in provider.stream(request(user("x"))):
            batches += 1
            chunks += sum(isinstance(event, TextChunk) for event in batch)
            longest = max(longest, len(batch))
        task.cancel()
        return chunks, batches, longest, turns

    chunks, batches, longest, turns = asyncio.run(run())
    assert (chunks, batches, longest) == (100_000, 2001, 50)
    assert turns >= 2000


def test_it_is_opened_with_the_named_script_else_the_environments_else_the_built_in(tmp_path: Any) -> None:
    for name in ("named", "environment"):
        (tmp_path / name).write_text(f'[[reply]]\ntext = "{name}"\n[model]\nwindow = 5')
    env = {"POLYLECT_SCRIPT": str(tmp_path / "environment")}
    assert said(open_provider(ProviderSettings(env=env)), user("x")) == "environment"
    named = open_provider(ProviderSettings(env=env, extra={"script": str(tmp_path / "named")}))
    assert said(named, user("x")) == "named"
    assert named.info("any").window == 5
    assert said(open_provider(ProviderSettings()), user("Hello")) == "Hi! How can I help?"
    assert named.load().source != BUILT_IN == open_provider(ProviderSettings()).load().source


def test_a_bad_script_is_found_at_the_latest_when_it_is_asked_for_a_reply() -> None:
    with pytest.raises(ProviderError, match=r"cannot read the script nowhere\.toml: No such file"):
        play(open_provider(ProviderSettings(extra={"script": "nowhere.toml"})), user("x"))


def test_the_pace_can_be_set_from_outside() -> None:
    provider = open_provider(ProviderSettings(env={"POLYLECT_SCRIPT_PACE": "0.001"}))
    batches = asyncio.run(batches_of(provider, request(user("Hello"))))
    assert [batch[0] for batch in batches] == [TextChunk("Hi! "), TextChunk("How can I help?")]
    with pytest.raises(StartError, match="POLYLECT_SCRIPT_PACE is 'fast'; it has to be seconds"):
        open_provider(ProviderSettings(env={"POLYLECT_SCRIPT_PACE": "fast"}))


def test_the_built_in_script_is_not_read_before_the_first_prompt() -> None:
    def never() -> Any:
        raise AssertionError

    info = Scripted(never, built_in=True).info("anything")
    assert (info.name, info.window) == ("anything", 0)
