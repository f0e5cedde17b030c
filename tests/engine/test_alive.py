"""Signs of life, silent models, slow hosts, and commands that overtake work."""

import asyncio
from pathlib import Path
from typing import Any

from doubles import Echo, Hang, Played, Stubborn, Talk, run
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import AddContext, Answer, Cancel, Configure, Prompt, Query
from polylect.vocab.content import Text
from polylect.vocab.events import Alive, Ask, Reply, SettingChanged, TextDelta, ToolStarted
from polylect.vocab.ports import BlockDone, ReplyDone, TextChunk, ToolContext, ToolReturn

HELLO = Prompt("t1", "Hello")


def test_L3_while_a_tool_is_silent_the_host_hears_which_call_is_at_work(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(Alive, 2)
        talk.send(Cancel())

    model = Scripted.in_order({"call": "Hang", "id": "c1"})
    talk = run(conversation, tmp_path, model, Hang(), heartbeat=0.01)
    assert talk.of(Alive)[-1] == Alive("c1", "Hang", turn="t1")
    assert {alive.turn for alive in talk.of(Alive)} == {"t1"}


def test_L3_while_a_person_is_asked_no_call_is_said_to_run(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        ask = await talk.until(Ask)
        await talk.until(Alive, len(talk.of(Alive)) + 1)
        talk.send(Answer(ask.ask, "deny"))

    model = Scripted.in_order([{"call": "Run", "id": "c1"}, "ok"])
    talk = run(conversation, tmp_path, model, Echo("Run", "exec"), heartbeat=0.01)
    assert {alive.call for alive in talk.of(Alive)} == {""}


def test_L3_while_the_model_is_silent_the_host_hears_that_the_turn_runs(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(Alive)
        talk.send(Cancel())

    talk = run(conversation, tmp_path, Scripted.in_order({"say": ["hm", {"hang": True}]}), heartbeat=0.01)
    assert talk.of(Alive)[0] == Alive(turn="t1")


def test_L3_output_that_some_hosts_cannot_see_is_no_sign_of_life(tmp_path: Path) -> None:
    class Chatty(Hang):
        async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
            while True:
                context.progress(".")
                await asyncio.sleep(0.001)

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(Alive, 2)
        talk.send(Cancel())

    model = Scripted.in_order({"call": "Chatty", "id": "c1"})
    talk = run(conversation, tmp_path, model, Chatty(), heartbeat=0.02, allow_list=("Chatty",))
    assert talk.of(Alive)[-1] == Alive("c1", "Chatty", turn="t1")


def test_L3_a_call_left_behind_by_a_stop_is_not_said_to_run_in_the_next_turn(tmp_path: Path) -> None:
    tool = Stubborn()

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await tool.started.wait()
        talk.send(Cancel())
        await talk.engine.settled()
        before = len(talk.of(Alive))
        talk.send(Prompt("t2", "Again"))
        await talk.until(Alive, before + 1)
        talk.send(Cancel())
        tool.released.set()

    model = Scripted.in_order({"call": "Stubborn", "id": "c1"}, {"hang": True})
    talk = run(conversation, tmp_path, model, tool, heartbeat=0.01, cancel_timeout=0.01)
    assert talk.of(Alive)[-1] == Alive(turn="t2")


def test_a_heartbeat_of_zero_is_none(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(TextDelta)
        talk.send(Cancel())

    talk = run(conversation, tmp_path, Scripted.in_order({"say": [{"wait": 0.01}, "a", {"hang": True}]}), heartbeat=0)
    assert talk.of(Alive) == []


def test_L4_control_overtakes_work(tmp_path: Path) -> None:
    """Everything is answered at once, while a tool hangs and a person is asked."""

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(ToolStarted)
        before = len(talk.events)
        talk.send(
            Query("state", ref="state"),
            Configure({"mode": "auto_edit"}, ref="mode"),
            AddContext("x", ref="context"),
            Answer("ask-9", "allow", ref="wrong"),
            Answer("ask-1", "deny", ref="right"),
            Cancel(ref="stop"),
        )
        answered = talk.events[before:]
        assert [event.ref for event in answered if isinstance(event, Reply)] == [
            "state",
            "mode",
            "context",
            "wrong",
            "right",
            "stop",
        ]
        assert SettingChanged("mode", "auto_edit") in answered

    say = [{"call": "Run", "id": "c1"}, {"call": "Hang", "id": "c2"}]
    talk = run(conversation, tmp_path, Scripted.in_order({"say": say}), Hang(), Echo("Run", "exec"))
    assert talk.story[-2:] == ["turn_ended t1 cancelled 1", "settled"]


def test_L6_a_model_that_goes_silent_is_cut_and_reported(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)

    talk = run(conversation, tmp_path, Played([TextChunk("hm"), None]), stream_timeout=0.02)
    assert talk.story[3:] == [
        "text_delta hm",
        "block_ended hm",
        "reply_ended error the model was silent for 0.08 s",
        "step_ended",
        "turn_ended t1 error 1 the model was silent for 0.08 s",
        "settled",
    ]


def test_T8_a_host_that_does_not_read_slows_the_model_down_and_loses_nothing(tmp_path: Path) -> None:
    reading = asyncio.Event()
    model = Played([*(TextChunk(number) for number in "01234"), BlockDone(Text("01234")), ReplyDone("end")])

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(TextDelta)
        for _ in range(20):  # whatever could go on would go on now
            await asyncio.sleep(0)
        assert model.given == 1
        reading.set()

    async def wait_writable() -> None:
        await reading.wait()

    talk = run(conversation, tmp_path, model, wait_writable=wait_writable)
    assert [delta.text for delta in talk.of(TextDelta)] == ["0", "1", "2", "3", "4"]
