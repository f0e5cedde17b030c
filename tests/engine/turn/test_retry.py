"""Requests that are made again: told, switched off, and cut short by whoever does not want to wait."""

from pathlib import Path

from doubles import Played, Talk, converse, line, run
from polylect.providers.retry import Retries
from polylect.vocab.commands import Cancel, Configure, Prompt, Steer
from polylect.vocab.errors import ProviderError
from polylect.vocab.events import Reply, ReplyEnded, RetryEnded, RetryStarted, TextDelta, TurnEnded
from polylect.vocab.ports import ReplyDone, Retrying, TextChunk

HELLO = Prompt("t1", "Hello")
BUSY = ProviderError("overloaded", "too busy", retryable=True, retry_after=0.0)
AWHILE = ProviderError("overloaded", "too busy", retryable=True, retry_after=60.0)
END = [ReplyDone("end")]


def retries(talk: Talk) -> list[str]:
    result = (RetryStarted, RetryEnded, ReplyEnded, TurnEnded)
    return [line(event) for event in talk.events if isinstance(event, result)]


def test_a_retry_that_helps_is_told_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    talk = converse(tmp_path, Retries(Played([BUSY], END), 3), [HELLO])
    assert retries(talk) == [
        "retry_started 1 3 0 too busy",
        "retry_ended True 1",
        "reply_ended end",
        "turn_ended t1 end 1",
    ]


def test_retries_that_do_not_help_end_with_the_last_error(tmp_path: Path) -> None:
    talk = converse(tmp_path, Retries(Played([BUSY], [BUSY], [BUSY]), 2), [HELLO])
    assert retries(talk)[-3:] == [
        "retry_ended False 2 too busy",
        "reply_ended error too busy",
        "turn_ended t1 error 1 too busy",
    ]


def test_a_retry_that_is_cancelled_ends_the_turn_with_what_led_to_it(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Cancel("retry", ref="idle"), HELLO)
        await talk.until(RetryStarted)
        talk.send(Cancel("retry", ref="r1"), Cancel("retry", ref="r2"))
        await talk.engine.settled()
        talk.send(Prompt("t2", "Again"))

    talk = run(conversation, tmp_path, Retries(Played([AWHILE], END), 3))
    assert retries(talk)[1:4] == [
        "retry_ended False 1 Retry cancelled",
        "reply_ended error too busy",
        "turn_ended t1 error 1 too busy",
    ]
    failure = talk.of(TurnEnded)[0].failure
    assert failure is not None
    assert (failure.code, failure.owner, failure.retryable) == ("retry_cancelled", "provider", True)
    assert [reply.failure for reply in talk.of(Reply)] == [None, None, None]
    assert talk.of(TurnEnded)[1].reason == "end"


def test_a_stop_during_the_pause_cancels_the_retry_and_the_turn(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(RetryStarted)
        talk.send(Cancel())

    assert retries(run(conversation, tmp_path, Retries(Played([AWHILE]), 3)))[1:] == [
        "retry_ended False 1 Retry cancelled",
        "reply_ended cancelled",
        "turn_ended t1 cancelled 1",
    ]


def test_without_auto_retry_the_first_error_ends_the_turn_and_it_can_be_switched_on_again(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Configure({"auto_retry": False}), HELLO)
        await talk.engine.settled()
        talk.send(Configure({"auto_retry": True}), Prompt("t2", "Again"))

    talk = run(conversation, tmp_path, Retries(Played([BUSY], [BUSY], END), 3))
    assert retries(talk) == [
        "reply_ended error too busy",
        "turn_ended t1 error 1 too busy",
        "retry_started 1 3 0 too busy",
        "retry_ended True 1",
        "reply_ended end",
        "turn_ended t2 end 1",
    ]


def test_once_the_model_has_spoken_there_is_no_retry_to_cancel(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(TextDelta)
        talk.send(Cancel("retry"), Steer("go on"), Cancel())

    talk = run(conversation, tmp_path, Played([Retrying(1, 3, 0, "busy"), TextChunk("Hi"), None]))
    assert retries(talk) == [
        "retry_started 1 3 0 busy",
        "retry_ended True 1",
        "reply_ended cancelled",
        "turn_ended t1 cancelled 1",
    ]
