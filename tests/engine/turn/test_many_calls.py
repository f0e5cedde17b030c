"""One reply that asks for thousands of calls: a few are run, all are answered, and others get their turn meanwhile."""

import asyncio
import gc
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from doubles import Act, Echo, Played, Talk, converse, run
from machine import cpu
from polylect.apis.arguments import MOST_CALLS as MOST_ANNOUNCED
from polylect.engine.turn.calls import MOST_CALLS, MOST_COMPOSITE, MOST_RUNNING
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Answer, Cancel, Prompt
from polylect.vocab.content import Text, ToolCall
from polylect.vocab.events import AgentStarted, Ask, ToolCalled, ToolFinished, ToolStarted, TurnEnded
from polylect.vocab.ports import BlockDone, ReplyDone, TextChunk, ToolContext, ToolReturn

GO = Prompt("t1", "Go")
MANY = 2000


class Busy(Act):
    """Takes a few rounds of the event loop, and counts how many of its calls run at once."""

    def __init__(self, name: str = "Busy", *, composite: bool = False) -> None:
        super().__init__(name, "info")
        self.composite = composite
        self.running = self.most = self.runs = 0

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        self.running += 1
        self.runs += 1
        self.most = max(self.most, self.running)
        for _ in range(3):
            await asyncio.sleep(0)
        self.running -= 1
        return ToolReturn("done")


def asks_for(name: str, count: int) -> Scripted:
    return Scripted.in_order([{"say": [{"call": name, "repeat": count}]}, "ok"])


def test_the_first_128_are_run_and_the_others_get_an_error(tmp_path: Path) -> None:
    tool = Busy()
    talk = converse(tmp_path, asks_for("Busy", MANY), [GO], tool, allow_list=("Busy",))
    finished = talk.of(ToolFinished)
    refusal = f"This reply asked for {MANY} calls; at most {MOST_CALLS} are run. Ask for the rest again."
    assert Counter((event.outcome, event.output) for event in finished) == {
        ("ok", "done"): MOST_CALLS,
        ("error", refusal): MANY - MOST_CALLS,
    }
    called = [event.call for event in talk.of(ToolCalled)]
    assert len(called) == MANY
    assert {event.call for event in finished if event.outcome == "ok"} == set(called[:MOST_CALLS])
    assert tool.most == MOST_RUNNING
    assert talk.of(TurnEnded)[0].reason == "end"


def test_they_begin_in_the_models_order(tmp_path: Path) -> None:
    talk = converse(tmp_path, asks_for("Busy", 100), [GO], Busy(), allow_list=("Busy",))
    assert [event.call for event in talk.of(ToolStarted)] == [event.call for event in talk.of(ToolCalled)]


def test_fewer_run_at_once_of_those_that_make_calls_themselves(tmp_path: Path) -> None:
    tool = Busy(composite=True)
    converse(tmp_path, asks_for("Busy", 100), [GO], tool, allow_list=("Busy",))
    assert (tool.most, tool.runs) == (MOST_COMPOSITE, 100)


def test_A3_all_that_may_run_are_asked_for_at_once(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(GO)
        await talk.until(Ask, MOST_CALLS)
        assert not talk.of(ToolStarted)
        talk.send(*(Answer(ask.ask, "allow") for ask in talk.of(Ask)))

    talk = run(conversation, tmp_path, asks_for("Run", MANY), Echo("Run", "exec"))
    assert len(talk.of(Ask)) == MOST_CALLS
    assert Counter(event.outcome for event in talk.of(ToolFinished)) == {
        "ok": MOST_CALLS,
        "error": MANY - MOST_CALLS,
    }


def test_a_stop_ends_every_one_of_them_once(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(GO)
        await talk.until(ToolCalled, 1000)
        talk.send(Cancel())

    talk = run(conversation, tmp_path, asks_for("Busy", MANY), Busy(), allow_list=("Busy",))
    called = [event.call for event in talk.of(ToolCalled)]
    assert len(called) >= 1000
    assert sorted(event.call for event in talk.of(ToolFinished)) == sorted(called)
    assert talk.of(TurnEnded)[0].reason == "cancelled"


def test_a_reply_without_end_ends_the_turn(tmp_path: Path) -> None:
    talk = converse(tmp_path, asks_for("Busy", MOST_ANNOUNCED + 1), [GO], tool := Busy())
    assert len(talk.of(ToolCalled)) == len(talk.of(ToolFinished)) == MOST_ANNOUNCED
    ended = talk.of(TurnEnded)[0]
    assert ended.failure
    assert ended.failure.message == f"the model's reply asks for more than {MOST_ANNOUNCED} calls"
    assert tool.runs == 0


class Batches(Played):
    """Each reply is one batch."""

    async def stream(self, request: Any) -> Any:
        self.requests.append(request)
        yield list(next(self._replies))


def test_others_get_their_turn_while_a_large_batch_is_announced(tmp_path: Path) -> None:
    """All calls have the same id, too: making that unique must not take longer with each of them."""
    batch = [*(BlockDone(ToolCall("x", "Busy", {})) for _ in range(MANY)), ReplyDone("calls")]
    ticks: list[float] = []

    async def conversation(talk: Talk) -> None:
        talk.send(GO)
        while len(talk.of(ToolCalled)) < MANY:
            ticks.append(time.thread_time())
            await asyncio.sleep(0)
        ticks.append(time.thread_time())

    last = [TextChunk("ok"), BlockDone(Text("ok")), ReplyDone("end")]
    gc.collect()
    gc.freeze()  # else a collection of all that thousands of other tests have left would count
    try:
        talk = run(conversation, tmp_path, Batches(batch, last), Busy(), allow_list=("Busy",))
    finally:
        gc.unfreeze()
    assert max(after - before for before, after in pairwise(ticks)) < cpu(0.1)
    assert len({event.call for event in talk.of(ToolFinished)}) == MANY


def test_agents_at_work_are_bounded(tmp_path: Path) -> None:
    """100 in the background: 16 of them work, the others are refused with what to do."""
    task = {"tasks": [{"name": "a", "prompt": "sub"}], "background": True}
    model = Scripted.from_values(
        {
            "reply": [
                {"when": {"prompt": "sub"}, "say": [{"hang": True}]},
                {"when": {"prompt": "Go", "step": 1}, "say": [{"call": "Spawn", "args": task, "repeat": 100}]},
                {"text": "ok"},
            ]
        }
    )

    async def conversation(talk: Talk) -> None:
        talk.send(GO)
        await talk.until(TurnEnded)
        assert len(talk.of(AgentStarted)) == 16
        talk.send(Cancel("agent"))

    talk = run(conversation, tmp_path, model, mode="force")
    refused = {event.output for event in talk.of(ToolFinished) if event.outcome == "error"}
    assert refused == {"16 agents work in the background; at most 16 may. Wait for their reports."}
