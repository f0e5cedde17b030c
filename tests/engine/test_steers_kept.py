"""Messages for a turn are on disk when they are taken: what the next process finds of each (T1)."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from doubles import Log, Talk, converse, run
from polylect.providers.scripted import Scripted
from polylect.sessions.replay import message_text
from polylect.sessions.session import Session
from polylect.vocab.commands import Cancel, Prompt, Steer
from polylect.vocab.events import Reply, StepStarted, TurnEnded

HELLO = Prompt("t1", "Hello")
ANSWERS = Scripted.from_values({"reply": [{"text": "ok"}]})
HANGS = Scripted.from_values({"reply": [{"when": {"prompt": "Again"}, "hang": True}, {"text": "ok"}]})


def stored_prompts(log: Log) -> list[str]:
    """What a process that starts now finds that was said."""
    return [message_text(message) for message in Session(log.read_back()).messages if message.role == "user"]


def killed(folder: Path, conversation: Callable[[Talk], Awaitable[None]]) -> list[str]:
    """What would be found if the engine were killed when this has been said."""
    log, left = Log(), list[str]()

    async def whole(talk: Talk) -> None:
        await conversation(talk)
        left.extend(stored_prompts(log))
        talk.send(Cancel())

    run(whole, folder, HANGS, store=log)
    return left


def test_T1_what_was_acknowledged_outlives_the_engine_in_its_order_and_once(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Steer("before", idle="keep"), HELLO)
        await talk.until(TurnEnded)
        talk.send(Prompt("t2", "Again"))
        await talk.until(StepStarted, 2)
        talk.send(Steer("now", ref="r1"), Steer("then", when="last", ref="r2"), Prompt("t3", "More", ref="r3"))
        talk.send(Steer("and this", idle="keep", ref="r4"))
        assert [reply.failure for reply in talk.of(Reply)] == [None] * 4

    assert killed(tmp_path, conversation) == ["Hello", "before", "Again", "now", "then", "More", "and this"]


@pytest.mark.parametrize("drop", [Cancel(), Cancel("steers")])
def test_T1_what_was_dropped_does_not_come_back(tmp_path: Path, drop: Cancel) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(TurnEnded)
        talk.send(Prompt("t2", "Again"))
        await talk.until(StepStarted, 2)
        talk.send(Steer("now"), Steer("then", when="last", idle="keep"), drop)

    assert killed(tmp_path, conversation) == ["Hello", "Again"]


def test_T1_what_waits_for_the_next_prompt_outlives_a_quiet_end(tmp_path: Path) -> None:
    log = Log()
    converse(tmp_path, ANSWERS, [Steer("first", idle="keep"), Steer("last", when="last", idle="keep")], store=log)
    assert stored_prompts(log) == ["first", "last"]
    again = log.read_back()
    talk = converse(tmp_path, ANSWERS, [HELLO], store=again)
    assert [message_text(message) for message in talk.messages] == ["first", "last", "Hello", "ok"]
    assert stored_prompts(again) == ["first", "last", "Hello"]


def test_T1_a_message_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    steer = Steer("first", idle="keep", ref="r")
    talk = converse(tmp_path, ANSWERS, [steer, HELLO], store=Log(full=lambda write: write == 1))
    [reply] = talk.of(Reply)
    assert reply.failure
    assert reply.failure.code == "session"
    assert [message_text(message) for message in talk.messages] == ["Hello", "ok"]
