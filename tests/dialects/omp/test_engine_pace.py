"""How much is written for a long reply, and how fast: an update repeats the whole message, which alone is quadratic."""

import time
from typing import Any

import msgspec
import pytest

from dialects.omp.engine_talk import EngineTalk, Frame, kinds
from polylect.vocab.content import Text, ToolCall
from polylect.vocab.events import (
    ArgsDelta,
    BlockEnded,
    Event,
    ReplyEnded,
    StepEnded,
    StepStarted,
    TextDelta,
    ToolCalled,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

T: dict[str, Any] = {"turn": "t"}
MB = 1_000_000
WORD = "lorem "
COUNT = 20_000


class _Delta(msgspec.Struct, frozen=True):
    delta: str = ""


class _Update(msgspec.Struct):
    assistantMessageEvent: _Delta = _Delta()


_quick = msgspec.json.Decoder(_Update)


def begin(talk: EngineTalk) -> None:
    talk.send(TurnStarted(**T), StepStarted(**T))


def end(words: str) -> list[Event]:
    return [BlockEnded(Text(words), **T), ReplyEnded("end", **T), StepEnded(**T), TurnEnded("end", **T)]


def spoken(frames: list[Frame]) -> str:
    events = [frame["assistantMessageEvent"] for frame in frames if frame["type"] == "message_update"]
    return "".join(event["delta"] for event in events if event["type"] == "text_delta")


def test_the_first_delta_goes_at_once_and_the_next_ones_together_after_50_ms() -> None:
    talk = EngineTalk()
    begin(talk)
    assert kinds(talk.send(TextDelta("a", **T)))[-1] == "text_delta"
    assert talk.side.due() is None
    assert talk.send(TextDelta("b", **T), TextDelta("c", **T)) == []
    assert talk.side.due() == 50
    talk.now += 49
    assert (talk.frames(), talk.side.due()) == ([], 1)
    talk.now += 1
    (update,) = talk.frames()
    assert update["assistantMessageEvent"]["delta"] == "bc"
    assert update["message"]["content"] == [{"type": "text", "text": "abc"}]
    assert talk.side.due() is None


def test_what_is_held_goes_before_the_end_of_its_block() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(TextDelta("a", **T))
    frames = talk.send(TextDelta("b", **T), BlockEnded(Text("ab"), **T))
    assert kinds(frames) == ["text_delta", "text_end"]


def test_a_character_that_came_in_two_halves_is_one() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(TextDelta("a", **T))
    assert spoken(talk.send(TextDelta("\ud83d", **T), TextDelta("\ude00", **T), BlockEnded(Text("a😀"), **T))) == "😀"


def test_long_messages_are_updated_less_often() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(TextDelta("x" * 300_000, **T))
    talk.send(TextDelta("y", **T))
    assert 300 <= (talk.side.due() or 0) <= 600


def test_output_of_tools_is_paced_too_and_all_of_it_is_there_in_the_end() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(ToolCalled("c", "Bash", **T), ReplyEnded("calls", **T), ToolStarted("c", "Bash", **T))
    assert kinds(talk.send(ToolOutput("c", "one\n", **T))) == ["tool_execution_update"]
    assert talk.send(ToolOutput("c", "two\n", **T)) == []
    assert talk.side.due() == 50
    talk.now += 50
    assert talk.frames()[0]["partialResult"]["content"][0]["text"] == "one\ntwo\n"


def test_an_update_of_a_tool_repeats_only_the_end_of_much_output() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(ToolCalled("c", "Bash", **T), ReplyEnded("calls", **T), ToolStarted("c", "Bash", **T))
    (update,) = talk.send(ToolOutput("c", "x" * MB + "end", **T))
    shown = update["partialResult"]["content"][0]["text"]
    assert len(shown) == 50 * 1024
    assert shown.endswith("end")


@pytest.mark.parametrize(("slim", "most"), [(False, 12 * MB), (True, 3 * MB)])
def test_20_000_deltas_at_full_speed_are_small_and_fast(slim: bool, most: int) -> None:
    talk = EngineTalk(slim=slim)
    begin(talk)
    clock, size = time.perf_counter, 0
    deltas = [TextDelta(WORD, **T) for _ in range(COUNT)]
    started = clock()
    for delta in deltas:
        talk.now = 1000 + int((clock() - started) * 1000)
        talk.side.send(delta)
        size += len(talk.side.data_to_send())
    for event in end(WORD * COUNT):
        talk.side.send(event)
    size += len(talk.side.data_to_send())
    assert size < most
    assert COUNT / (clock() - started) > 20_000


def test_2_000_deltas_a_second_for_ten_seconds_stay_below_30_mb_and_nothing_is_lost() -> None:
    talk = EngineTalk()
    begin(talk)
    size, received = 0, ""
    for number in range(COUNT):
        talk.now = 1000 + number // 2
        talk.side.send(TextDelta(WORD, **T))
        if data := talk.side.data_to_send():
            size += len(data)
            received += "".join(_quick.decode(line).assistantMessageEvent.delta for line in data.splitlines())
    for event in end(WORD * COUNT):
        talk.side.send(event)
    last = talk.side.data_to_send()
    assert size + len(last) < 30 * MB
    assert received + spoken([msgspec.json.decode(line) for line in last.splitlines()]) == WORD * COUNT


def calls(count: int, size: int) -> list[Event]:
    """A reply that makes this many calls, with arguments of this size."""
    args, ended = {"text": "x" * size}, [ReplyEnded("calls", **T), StepEnded(**T), TurnEnded("end", **T)]
    made: list[Event] = []
    for call in (f"call-{number}" for number in range(count)):
        made += [ArgsDelta(call, "Read", msgspec.json.encode(args).decode(), **T)]
        made += [BlockEnded(ToolCall(call, "Read", args), **T), ToolCalled(call, "Read", args, **T)]
    return [*made, *ended]


def text(size: int, deltas: int) -> list[Event]:
    """A reply with a text of this size, in this many deltas."""
    piece = "x" * (size // deltas)
    return [*(TextDelta(piece, **T) for _ in range(deltas)), *end(piece * deltas)]


@pytest.mark.parametrize("rate", [0, 1000])
@pytest.mark.parametrize(
    ("reply", "most"),
    [
        (text(15 * MB, 1), 45 * MB),
        (text(15 * MB, 1500), 50 * MB),
        (calls(4000, 10), 10 * MB),
        (calls(60, 200_000), 60 * MB),
    ],
    ids=["one-delta", "many-deltas", "many-calls", "large-calls"],
)
def test_what_a_large_reply_costs_grows_with_its_length_and_not_with_the_square(
    reply: list[Event], most: int, rate: int
) -> None:
    """`rate`: events a second; 0 if all of them come at once. Each second allows 1.5 MB of repetitions."""
    talk = EngineTalk()
    begin(talk)
    started, size = time.process_time(), 0
    for number, event in enumerate(reply):
        talk.now = 1000 + (number * 1000 // rate if rate else 0)
        talk.side.send(event)
        size += len(talk.side.data_to_send())
    assert size < most + (talk.now - 1000) * 1500
    assert time.process_time() - started < 10


def test_an_update_past_the_budget_has_its_own_part_and_the_end_has_everything() -> None:
    talk = EngineTalk()
    begin(talk)
    frames = talk.send(*calls(2000, 10))
    ends = [frame for frame in frames if kinds([frame]) == ["toolcall_end"]]
    names = [f"call-{number}" for number in range(2000)]
    assert [frame["assistantMessageEvent"]["toolCall"]["id"] for frame in ends] == names
    assert len(ends[0]["message"]["content"]) == 1
    assert ends[-1]["message"] == ends[0]["message"] | {"content": []}
    assert "partial" not in ends[-1]["assistantMessageEvent"]
    (last,) = (frame for frame in frames if kinds([frame]) == ["message_end assistant"])
    assert [block["id"] for block in last["message"]["content"]] == names


def test_the_budget_comes_back_with_time() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(TextDelta("x" * 300_000, **T), BlockEnded(Text("x" * 300_000), **T))
    (start, first) = talk.send(TextDelta("y", **T))
    assert (start["message"]["content"], first["message"]["content"]) == ([], [])
    talk.now += 1000
    (update,) = talk.send(TextDelta("z", **T))
    assert update["message"]["content"][1] == {"type": "text", "text": "yz"}


def test_an_update_of_a_tool_counts_its_arguments_too() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.send(ToolCalled("c", "Bash", {"command": "x" * 300_000}, **T), ReplyEnded("calls", **T))
    talk.send(ToolStarted("c", "Bash", **T), ToolOutput("c", "one\n", **T), ToolOutput("c", "two\n", **T))
    assert 200 <= (talk.side.due() or 0) <= 300


def test_a_slim_update_has_neither_message_nor_partial() -> None:
    talk = EngineTalk(slim=True)
    begin(talk)
    frames = talk.send(TextDelta("a", **T))
    assert frames[-1] == {
        "type": "message_update",
        "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "a"},
    }
