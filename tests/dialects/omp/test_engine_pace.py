"""How much is written for a long reply, and how fast: an update repeats the whole message, which alone is quadratic."""

import time
from typing import Any

import msgspec
import pytest

from dialects.omp.engine_talk import EngineTalk, Frame, kinds
from polylect.vocab.content import Text
from polylect.vocab.events import (
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
    talk.say(TurnStarted(**T), StepStarted(**T))


def end(words: str) -> list[Event]:
    return [BlockEnded(Text(words), **T), ReplyEnded("end", **T), StepEnded(**T), TurnEnded("end", **T)]


def spoken(frames: list[Frame]) -> str:
    events = [frame["assistantMessageEvent"] for frame in frames if frame["type"] == "message_update"]
    return "".join(event["delta"] for event in events if event["type"] == "text_delta")


def test_the_first_delta_goes_at_once_and_the_next_ones_together_after_50_ms() -> None:
    talk = EngineTalk()
    begin(talk)
    assert kinds(talk.say(TextDelta("a", **T)))[-1] == "text_delta"
    assert talk.side.due() is None
    assert talk.say(TextDelta("b", **T), TextDelta("c", **T)) == []
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
    talk.say(TextDelta("a", **T))
    frames = talk.say(TextDelta("b", **T), BlockEnded(Text("ab"), **T))
    assert kinds(frames) == ["text_delta", "text_end"]


def test_a_character_that_came_in_two_halves_is_one() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.say(TextDelta("a", **T))
    assert spoken(talk.say(TextDelta("\ud83d", **T), TextDelta("\ude00", **T), BlockEnded(Text("a😀"), **T))) == "😀"


def test_long_messages_are_updated_less_often() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.say(TextDelta("x" * 300_000, **T))
    talk.say(TextDelta("y", **T))
    assert 300 <= (talk.side.due() or 0) <= 600


def test_output_of_tools_is_paced_too_and_all_of_it_is_there_in_the_end() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.say(ToolCalled("c", "Bash", **T), ReplyEnded("calls", **T), ToolStarted("c", "Bash", **T))
    assert kinds(talk.say(ToolOutput("c", "one\n", **T))) == ["tool_execution_update"]
    assert talk.say(ToolOutput("c", "two\n", **T)) == []
    assert talk.side.due() == 50
    talk.now += 50
    assert talk.frames()[0]["partialResult"]["content"][0]["text"] == "one\ntwo\n"


def test_an_update_of_a_tool_repeats_only_the_end_of_much_output() -> None:
    talk = EngineTalk()
    begin(talk)
    talk.say(ToolCalled("c", "Bash", **T), ReplyEnded("calls", **T), ToolStarted("c", "Bash", **T))
    (update,) = talk.say(ToolOutput("c", "x" * MB + "end", **T))
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
    size, heard = 0, ""
    for number in range(COUNT):
        talk.now = 1000 + number // 2
        talk.side.send(TextDelta(WORD, **T))
        if data := talk.side.data_to_send():
            size += len(data)
            heard += "".join(_quick.decode(line).assistantMessageEvent.delta for line in data.splitlines())
    for event in end(WORD * COUNT):
        talk.side.send(event)
    last = talk.side.data_to_send()
    assert size + len(last) < 30 * MB
    assert heard + spoken([msgspec.json.decode(line) for line in last.splitlines()]) == WORD * COUNT


def test_a_slim_update_has_neither_message_nor_partial() -> None:
    talk = EngineTalk(slim=True)
    begin(talk)
    frames = talk.say(TextDelta("a", **T))
    assert frames[-1] == {
        "type": "message_update",
        "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "a"},
    }
