"""Which blocks are new. What follows from that is tested through the host's end and by tests/seeds/test_seed_002.py."""

from typing import Any

import pytest

from polylect.dialects.claude.host.deduplicate import Deduplicator, fingerprint

Block = dict[str, Any]
THINK: Block = {"type": "thinking", "thinking": "let me see", "signature": "s"}
CALL: Block = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def receive(
    translator: Deduplicator, *events: list[Block], id: str = "", lane: str = "", numbered: bool = False
) -> Any:
    message = {"id": id} if id else {}
    return [translator.new_blocks({**message, "content": event}, lane, numbered=numbered) for event in events]


@pytest.mark.parametrize("id", ["", "msg_1"])
def test_of_a_growing_snapshot_only_what_is_new_is_handed_out(id: str) -> None:
    snapshots = [[THINK], [THINK, text("a")], [THINK, text("a"), CALL]]
    assert receive(Deduplicator(), *snapshots, id=id) == [[THINK], [text("a")], [CALL]]


def test_blocks_that_come_one_by_one_are_all_handed_out() -> None:
    assert receive(Deduplicator(), [THINK], [text("a")], [CALL], id="m") == [[THINK], [text("a")], [CALL]]


def test_another_first_block_is_another_reply() -> None:
    received = receive(Deduplicator(), [text("A")], [text("A"), CALL], [text("B")])
    assert received == [[text("A")], [CALL], [text("B")]]


@pytest.mark.parametrize("id", ["", "m"])
def test_the_same_event_twice_is_heard_once_and_after_a_reset_again(id: str) -> None:
    translator = Deduplicator()
    both = [text("A"), CALL]
    assert receive(translator, both, both, id=id) == [both, []]
    translator.reset()
    assert receive(translator, both, id=id) == [both]


def test_a_block_that_has_grown_gives_its_rest() -> None:
    received = receive(Deduplicator(), [THINK, text("Hel")], [THINK, text("Hello"), CALL], id="m")
    assert received == [[THINK, text("Hel")], [text("lo"), CALL]]
    long = "x" * 64
    assert receive(Deduplicator(), [text(long)], [text(long + "y")]) == [[text(long)], [text("y")]]


def test_a_block_that_only_begins_like_the_one_before_is_whole_where_blocks_come_one_by_one() -> None:
    received = receive(Deduplicator(), [THINK], [text("a")], [text("ab")], id="m")
    assert received == [[THINK], [text("a")], [text("ab")]]


def test_the_same_words_twice_are_two_blocks_where_blocks_come_one_by_one_and_events_have_ids() -> None:
    assert receive(Deduplicator(), [THINK], [text("a")], [text("a")], id="m", numbered=True)[-1] == [text("a")]
    assert receive(Deduplicator(), [THINK], [text("a")], [text("a")], id="m")[-1] == []


def test_agents_have_lanes_of_their_own_even_with_the_same_message_id() -> None:
    translator = Deduplicator()
    assert receive(translator, [text("a")], id="m") == [[text("a")]]
    assert receive(translator, [text("a")], id="m", lane="agent") == [[text("a")]]


def test_without_ids_an_agent_goes_on_where_it_was_after_another_has_spoken() -> None:
    one, two = text("first agent"), text("second agent")
    received = receive(Deduplicator(), [one], [two], [one, CALL], [two, THINK])
    assert received == [[one], [two], [CALL], [THINK]]


def test_without_ids_the_same_words_after_somebody_else_has_spoken_are_a_new_reply() -> None:
    other = {**CALL, "id": "c2"}
    received = receive(Deduplicator(), [text("Next.")], [text("Next."), CALL], [text("Next.")], [text("Next."), other])
    assert received == [[text("Next.")], [CALL], [text("Next.")], [other]]
    assert receive(Deduplicator(), [text("a")], [text("b")], [text("a")]) == [[text("a")], [text("b")], [text("a")]]


def test_two_agents_that_begin_alike_lose_nothing_after_that() -> None:
    other = {**CALL, "id": "c2"}
    received = receive(Deduplicator(), [text("Look.")], [text("Look."), CALL], [text("Look."), other])
    assert received == [[text("Look.")], [CALL], [other]]


def test_what_was_streamed_is_not_handed_out_again() -> None:
    translator = Deduplicator()
    translator.streamed("m", "text", "a")
    assert receive(translator, [text("a")], [text("a"), CALL], id="m") == [[], [CALL]]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (CALL, "tool_use:c1"),
        (text("x" * 80), "text:" + "x" * 64),
        (THINK, "thinking:let me see"),
        ({"type": "thinking", "text": "old form"}, "thinking:old form"),
        ({"type": "tool_result", "tool_use_id": "c1"}, "tool_result:c1"),
        ({"type": "weather"}, "weather:unknown"),
    ],
)
def test_fingerprints(block: Block, expected: str) -> None:
    assert fingerprint(block) == expected


@pytest.mark.parametrize("content", [None, "text", 7, [], [None, 7, {}], [{"type": 7}]])
def test_what_is_no_content_has_no_blocks(content: object) -> None:
    assert Deduplicator().new_blocks({"id": "m", "content": content}) == []
