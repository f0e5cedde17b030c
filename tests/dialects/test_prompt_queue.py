from polylect.dialects.prompt_queue import PromptQueue
from polylect.vocab.commands import Prompt

ONE, TWO, THREE = Prompt("1", "one"), Prompt("2", "two"), Prompt("3", "three")


def test_prompts_wait_until_the_engine_is_ready_and_then_go_one_by_one() -> None:
    queue = PromptQueue()
    assert [queue.add(ONE), queue.add(TWO)] == [[], []]
    assert queue.ready() == [ONE]
    assert queue.running == ["1"]
    assert queue.add(THREE) == []
    assert queue.ended("1") == [TWO]
    assert queue.ended("2") == [THREE]
    assert queue.ended("3") == []


def test_a_turn_that_the_engine_began_by_itself_counts_too() -> None:
    queue = PromptQueue()
    queue.ready()
    queue.began("engine's own")
    assert queue.add(ONE) == []
    assert queue.ended("engine's own") == [ONE]


def test_what_waits_can_be_dropped_alone_or_together() -> None:
    queue = PromptQueue()
    for prompt in (ONE, TWO, THREE):
        queue.add(prompt)
    assert queue.drop("2") == [TWO]
    assert "2" not in queue
    assert "3" in queue
    assert queue.drop() == [ONE, THREE]
    assert queue.ready() == []


def test_without_holding_everything_goes_at_once() -> None:
    queue = PromptQueue(hold=False)
    assert [queue.add(ONE), queue.add(TWO)] == [[ONE], [TWO]]
    assert queue.running == ["1", "2"]
