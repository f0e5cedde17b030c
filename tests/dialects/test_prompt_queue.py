from polylect.dialects.prompt_queue import Hold
from polylect.vocab.commands import Prompt

ONE, TWO, THREE = Prompt("1", "one"), Prompt("2", "two"), Prompt("3", "three")


def test_prompts_wait_until_the_engine_is_ready_and_then_go_one_by_one() -> None:
    hold = Hold()
    assert [hold.add(ONE), hold.add(TWO)] == [[], []]
    assert hold.ready() == [ONE]
    assert hold.running == ["1"]
    assert hold.add(THREE) == []
    assert hold.ended("1") == [TWO]
    assert hold.ended("2") == [THREE]
    assert hold.ended("3") == []


def test_a_turn_that_the_engine_began_by_itself_counts_too() -> None:
    hold = Hold()
    hold.ready()
    hold.began("engine's own")
    assert hold.add(ONE) == []
    assert hold.ended("engine's own") == [ONE]


def test_what_waits_can_be_dropped_alone_or_together() -> None:
    hold = Hold()
    for prompt in (ONE, TWO, THREE):
        hold.add(prompt)
    assert hold.drop("2") == [TWO]
    assert "2" not in hold
    assert "3" in hold
    assert hold.drop() == [ONE, THREE]
    assert hold.ready() == []


def test_without_holding_everything_goes_at_once() -> None:
    hold = Hold(hold=False)
    assert [hold.add(ONE), hold.add(TWO)] == [[ONE], [TWO]]
    assert hold.running == ["1", "2"]
