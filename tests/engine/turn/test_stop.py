"""Stopping: at every moment, twice, in vain. What ran is closed visibly and the conversation goes on (T3)."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from doubles import PATIENCE, Echo, Hang, Host, Log, Part, Played, Run, Stubborn, Talk, converse, run
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Answer, Cancel, Command, Prompt
from polylect.vocab.content import ToolCall, Usage
from polylect.vocab.errors import ProviderError
from polylect.vocab.events import Ask, Event, QueueChanged, Reply, ReplyEnded, ToolFinished, ToolStarted, TurnEnded
from polylect.vocab.ports import BlockDone, ReplyBegun, ReplyDone, Retrying, TextChunk, ToolContext, ToolReturn

HELLO = Prompt("t1", "Hello")
AGAIN = Prompt("t2", "Again")
STOPPED = "The call was stopped before it finished. cancelled Stopped"


def busy_model() -> Scripted:
    """A turn with everything in it: thinking, text, streamed arguments, an ask, two calls, a second step."""
    first = {
        "say": [
            {"thinking": "hm hm", "split": "word"},
            {"text": "I will do", "split": "word"},
            {"call": "Echo", "id": "c1", "args": {"text": "x"}, "chunk": 6},
            {"call": "Run", "id": "c2", "args": {"command": "ls"}},
        ]
    }
    return Scripted.from_values({"turn": [{"reply": [first, "done"]}], "reply": [{"text": "going on"}], "batch": 1})


def stopping_at(number: int) -> Host:
    """Answers asks, and stops the turn when it hears the event of this number."""
    numbers = count()

    def host(event: Event) -> Command | None:
        if not isinstance(event, QueueChanged) and next(numbers) == number:
            return Cancel(queued="keep")
        return Answer(event.ask, "allow") if isinstance(event, Ask) else None

    return host


def tools() -> tuple[Echo, Echo]:
    return Echo(), Echo("Run", "exec")


def test_T3_a_stop_at_any_event_ends_the_turn_once_and_the_next_one_runs(tmp_path: Path) -> None:
    whole = converse(tmp_path, busy_model(), [HELLO], *tools(), host=stopping_at(-1)).story
    second = whole.index("step_ended", whole.index("step_ended") + 1)
    for number in range(second):
        story = converse(tmp_path, busy_model(), [HELLO, AGAIN], *tools(), host=stopping_at(number)).story
        assert story[: number + 1] == whole[: number + 1]
        assert [line for line in story if line.startswith("turn_")] == [
            "turn_started t1",
            f"turn_ended t1 cancelled {story[: story.index('turn_started t2')].count('step_started')}",
            "turn_started t2",
            "turn_ended t2 end 1",
        ]


def test_T3_a_stop_while_a_tool_runs_and_another_is_asked_for_closes_both_visibly(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Cancel(ref="stop") if isinstance(event, ToolStarted) else None

    say = [{"call": "Run", "id": "c1"}, {"call": "Hang", "id": "c2"}]
    talk = converse(tmp_path, Scripted.in_order({"say": say}), [HELLO], Hang(), Echo("Run", "exec"), host=host)
    assert talk.story[3:] == [
        "tool_called c1 Run",
        "tool_called c2 Hang info",
        "reply_ended calls",
        "ask ask-1 c1 Run exec calls are asked for in mode default",
        "tool_started c2 Hang",
        "reply stop",
        "ask_closed ask-1 cancelled",
        f"tool_finished c1 Run {STOPPED}",
        f"tool_finished c2 Hang {STOPPED}",
        "step_ended",
        "turn_ended t1 cancelled 1",
        "settled",
    ]


def test_L1_a_stop_before_the_turn_could_begin_cancels_its_prompt(tmp_path: Path) -> None:
    talk = converse(tmp_path, Played(), [HELLO, Cancel(ref="stop")])
    assert talk.story == ["reply stop", "turn_ended t1 cancelled", "settled"]
    assert talk.messages == []


def test_T3_a_stop_in_idleness_does_nothing(tmp_path: Path) -> None:
    talk = converse(tmp_path, Scripted.in_order("Hi"), [Cancel(ref="stop"), HELLO])
    assert talk.story[0] == "reply stop"
    assert talk.story[-2:] == ["turn_ended t1 end 1", "settled"]


def test_L1_a_second_stop_changes_nothing(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Cancel() if isinstance(event, ToolStarted | ToolFinished | TurnEnded) else None

    talk = converse(tmp_path, Scripted.in_order({"call": "Hang", "id": "c1"}), [HELLO], Hang(), host=host)
    assert talk.story[5:] == [
        "tool_started c1 Hang",
        f"tool_finished c1 Hang {STOPPED}",
        "step_ended",
        "turn_ended t1 cancelled 1",
        "settled",
    ]


def test_L1_a_tool_that_ignores_its_cancel_is_left_behind_and_its_late_result_is_not_heard(tmp_path: Path) -> None:
    tool = Stubborn()

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await tool.started.wait()
        talk.send(Cancel())
        await talk.engine.settled()
        tool.released.set()
        talk.send(AGAIN)

    model = Scripted.in_order({"call": "Stubborn", "id": "c1"}, "on")
    talk = run(conversation, tmp_path, model, tool, cancel_timeout=0.01)
    assert talk.story[5:] == [
        "tool_started c1 Stubborn",
        f"tool_finished c1 Stubborn {STOPPED}",
        "step_ended",
        "turn_ended t1 cancelled 1",
        "settled",
        "turn_started t2",
        "user_message Again",
        "step_started",
        "text_delta on",
        "block_ended on",
        "reply_ended end",
        "step_ended",
        "turn_ended t2 end 1",
        "settled",
    ]


class Cancelled(Echo):
    """Cancels itself, as a tool does whose own task was cancelled."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        raise asyncio.CancelledError


def test_L1_a_tool_that_is_cancelled_from_inside_has_failed_and_the_turn_goes_on(tmp_path: Path) -> None:
    model = Scripted.in_order([{"call": "Cancelled", "id": "c1"}, "on"])
    talk = converse(tmp_path, model, [HELLO], Cancelled(), allow_list=("Cancelled",))
    assert talk.story[5:9] == [
        "tool_started c1 Cancelled",
        "tool_crashed c1 Cancelled it was cancelled from inside",
        "tool_finished c1 Cancelled The tool crashed: it was cancelled from inside error",
        "step_ended",
    ]
    assert talk.story[-2:] == ["turn_ended t1 end 2", "settled"]


async def stuck() -> None:
    await asyncio.get_running_loop().create_future()


def test_T4_a_stop_between_the_models_last_word_and_its_calls_keeps_the_reply_and_its_results(tmp_path: Path) -> None:
    """A host that does not read holds the engine up exactly there."""

    def host(event: Event) -> Command | None:
        return Cancel() if isinstance(event, ReplyEnded) else None

    say = [{"text": "Hi"}, {"call": "Echo", "id": "c1"}]
    talk = converse(tmp_path, Scripted.in_order({"say": say}), [HELLO], Echo(), host=host, wait_writable=stuck)
    assert [message.role for message in talk.messages] == ["user", "assistant", "tool"]
    assert talk.story[3:] == [
        "text_delta Hi",
        "block_ended Hi",
        "tool_called c1 Echo info",
        "reply_ended calls",
        f"tool_finished c1 Echo {STOPPED}",
        "step_ended",
        "turn_ended t1 cancelled 1",
        "settled",
    ]


def test_T4_a_model_that_breaks_after_its_last_word_has_said_it(tmp_path: Path) -> None:
    broken: list[Part] = [BlockDone(ToolCall("c1", "Echo", {})), ReplyDone("calls"), ProviderError("network", "reset")]
    talk = converse(tmp_path, Played(broken), [HELLO], Echo())
    assert [message.role for message in talk.messages] == ["user", "assistant", "tool"]
    assert talk.story[-2:] == ["turn_ended t1 error 1 reset", "settled"]


# A full disk.


def once(number: int) -> Log:
    return Log(full=lambda write: write == number)


def from_now_on(number: int) -> Log:
    return Log(full=lambda write: write >= number)


def accepting(event: Event) -> Command | None:
    return Answer(event.ask, "allow") if isinstance(event, Ask) else None


def test_a_turn_with_one_call_is_written_in_six_steps(tmp_path: Path) -> None:
    """Said, opened, said, results, said, closed: what the next tests count on."""
    talk = converse(tmp_path, busy_model(), [HELLO], *tools(), host=accepting)
    assert isinstance(talk.store, Log)
    assert talk.store.writes == 6


@pytest.mark.parametrize("number", range(1, 8))
def test_L1_a_disk_that_is_full_for_a_moment_ends_the_turn_and_leaves_a_valid_history(
    number: int, tmp_path: Path
) -> None:
    store = once(number)
    talk = converse(tmp_path, busy_model(), [HELLO, AGAIN], *tools(), host=accepting, store=store)
    assert talk.story[-1] == "settled"


@pytest.mark.parametrize("number", range(1, 8))
def test_L1_a_disk_that_stays_full_ends_every_turn(number: int, tmp_path: Path) -> None:
    async def conversation() -> Talk:
        talk = Talk(tmp_path, busy_model(), *tools(), host=accepting, store=store)
        async with asyncio.timeout(PATIENCE):
            talk.send(HELLO, AGAIN)
            await talk.engine.close()
        return talk

    store = from_now_on(number)
    talk = asyncio.run(conversation())
    assert talk.faults == []
    assert [event.turn for event in talk.of(TurnEnded)] == ["t1", "t2"][: number - 1]


def test_A1_an_answer_that_comes_with_a_stop_is_told_that_nothing_waits_for_it(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        ask = await talk.until(Ask)
        talk.send(Cancel(), Answer(ask.ask, "allow", ref="late"))

    talk = run(conversation, tmp_path, Scripted.in_order({"say": [{"call": "Run", "id": "c1"}]}), Run())
    assert [reply.failure and reply.failure.code for reply in talk.of(Reply)] == ["unknown_ask"]
    assert talk.of(ToolFinished)[0].outcome == "cancelled"


COUNTED = ReplyBegun(Usage(10, 1, cost=0.5), "r1", "m")


@pytest.mark.parametrize("words", [(), (TextChunk("Let me"),)])
def test_a_reply_that_is_stopped_costs_what_the_service_had_counted(
    tmp_path: Path, words: tuple[TextChunk, ...]
) -> None:
    model = Played([COUNTED, *words, None])

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        async with asyncio.timeout(PATIENCE):
            while model.given < 1 + len(words):  # noqa: ASYNC110  (nothing is said that could be waited for)
                await asyncio.sleep(0)
        talk.send(Cancel())
        await talk.until(TurnEnded)

    talk = run(conversation, tmp_path, model)
    assert talk.of(ReplyEnded)[0].usage == talk.of(TurnEnded)[0].usage == Usage(10, 1, cost=0.5)
    assert talk.engine.agent.session.usage == Usage(10, 1, cost=0.5)


def test_what_a_failed_attempt_had_counted_counts_too(tmp_path: Path) -> None:
    done = ReplyDone("end", Usage(10, 2, cost=0.25), "r2", "m")
    talk = converse(tmp_path, Played([COUNTED, Retrying(1, 2, 0, "busy"), done]), [HELLO])
    assert talk.engine.agent.session.usage == talk.of(ReplyEnded)[0].usage == Usage(20, 3, cost=0.75)
    broken = Played([COUNTED, Retrying(1, 2, 0, "busy"), ProviderError("server", "no")])
    assert converse(tmp_path, broken, [HELLO]).engine.agent.session.usage == Usage(10, 1, cost=0.5)
