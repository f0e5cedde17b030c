"""What is said in one breath with an abort: answered in order, and meant for when it is done."""

from typing import Any

import pytest

from dialects.omp.engine_talk import EngineTalk, Frame, kinds
from polylect.vocab.commands import Cancel, Compact, Prompt, Steer
from polylect.vocab.content import Failure
from polylect.vocab.events import Reply, TurnEnded, TurnStarted

ABORT = {"id": "a", "type": "abort"}
COMPACT = {"id": "c", "type": "compact"}


def prompt(id: str, **more: Any) -> Frame:
    return {"id": id, "type": "prompt", "message": id, **more}


def running() -> EngineTalk:
    talk = EngineTalk()
    talk.ask(prompt("p1"))
    talk.send(TurnStarted(turn="p1"))
    return talk


def answers(frames: list[Frame]) -> list[str]:
    """The ids of responses, and runs and their results."""
    result = {"agent_start": "start", "agent_end": "end"}
    return [str(frame.get("id") or result.get(frame["type"], "")) for frame in frames if frame["type"] in _TOLD]


_TOLD = ("response", "agent_start", "agent_end", "prompt_result")


def test_a_prompt_after_an_abort_is_answered_after_it_and_before_its_own_run() -> None:
    talk = running()
    talk.receive(ABORT, prompt("p2"))
    abort, second = talk.commands
    assert isinstance(abort, Cancel)
    assert isinstance(second, Prompt)
    assert talk.send(Reply(abort.ref), Reply(second.ref)) == []
    assert answers(talk.send(TurnEnded("cancelled", turn="p1"), TurnStarted(turn="p2"))) == [
        *["end", "p1"],
        *["a", "p2", "start"],
    ]


@pytest.mark.parametrize("stop", [ABORT, COMPACT, {"type": "abort_and_prompt", "message": "x"}])
def test_streaming_behavior_does_not_count_for_a_turn_that_was_stopped(stop: Frame) -> None:
    talk = running()
    talk.receive(stop, prompt("p2", streamingBehavior="steer"))
    another = stop["type"] == "abort_and_prompt"
    assert isinstance(talk.commands[0], Prompt if another else (Cancel, Compact))
    assert isinstance(talk.commands[1], Steer if another else Prompt), "then there is another turn to join"


def test_a_prompt_whose_id_was_that_of_a_stopped_one_is_not_stopped_itself() -> None:
    talk = running()
    talk.ask(ABORT)
    talk.send(TurnEnded("cancelled", turn="p1"))
    talk.ask(prompt("p1"))
    talk.receive(prompt("p2", streamingBehavior="steer"))
    assert isinstance(talk.commands[0], Steer)


def test_prompts_that_interrupt_each_other_are_answered_in_order_each_before_its_run() -> None:
    talk = running()
    names = ["a", "b", "c"]
    talk.receive(*({"id": name, "type": "abort_and_prompt", "message": name} for name in names))
    assert talk.send(*(Reply(command.ref) for command in talk.commands)) == []
    ended = [TurnEnded("cancelled", turn=turn) for turn in ("p1", "a", "b")]
    assert answers(talk.send(*ended, TurnStarted(turn="c"))) == [
        *["end", "p1"],
        *["a", "start", "end", "a"],
        *["b", "start", "end", "b"],
        *["c", "start"],
    ]


def test_L2_an_abort_that_waited_for_a_prompt_which_was_refused_is_answered() -> None:
    talk = EngineTalk()
    talk.receive(prompt("p1"), ABORT)
    first, abort = talk.commands
    assert talk.send(Reply(abort.ref)) == []
    refused = talk.send(Reply(first.ref, failure=Failure("session", "no", "engine")))
    assert kinds(refused) == ["response prompt", "response prompt failed", "response abort"]
