"""The API for programs without an event loop."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from polylect.host import Agent, Ask, EngineDied, Event, TextDelta, ToolFinished, TurnEnded, Unsupported, allow_all
from polylect.host.sync import SyncAgent, connect, list_sessions

WRITES = """
[[reply]]
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "x" } }]

[[reply]]
text = "done: {prompt}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def agent(place: Place, **options: Any) -> SyncAgent:
    file = place.workspace.parent / "script.toml"
    file.write_text(WRITES)
    result: dict[str, Any] = {
        "cwd": str(place.workspace),
        "env": place.env,
        "provider": "scripted",
        "script": str(file),
    }
    return connect("polylect", **result, **options)


def test_a_script_reads_events_and_answers_asks_without_a_loop_of_its_own(place: Place) -> None:
    with agent(place) as one:
        assert one.pid
        assert one.session
        outcomes, text = [], ""
        for event in one.prompt("go"):
            match event:
                case Ask():
                    event.allow()
                case ToolFinished(outcome=outcome):
                    outcomes.append(outcome)
                case TextDelta(text=more):
                    text += more
        assert (outcomes, text) == (["ok"], "done: go")
        assert (place.workspace / "made.txt").exists()


def test_a_result_is_waited_for(place: Place) -> None:
    with agent(place, approve=allow_all) as one:
        assert one.ask("this").text == "done: this"
        assert one.prompt("that").wait().text == "done: that"


def test_what_goes_wrong_is_raised_where_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(EngineDied, match="cannot be started"), connect(["no-such-engine"], dialect="jsonstream"):
        pass


def test_leaving_early_ends_the_engine(place: Place) -> None:
    one = agent(place)
    with pytest.raises(RuntimeError, match="enough"), one:
        pid = one.pid
        for _ in one.prompt("go"):
            raise RuntimeError("enough")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_all_that_an_agent_has_is_there_without_await(place: Place) -> None:
    with agent(place, approve=allow_all) as one:
        received = one.events()
        turn = one.prompt("go")
        assert turn.wait().turn == turn.id
        turn.cancel()
        one.cancel(queued="keep")
        assert (one.asks, one.settings["session"], one.ready.session) == ((), one.session, one.session)
        assert any(isinstance(event, TextDelta) for event in _until_ended(received))
    asynchronous = {name for name in dir(Agent) if not name.startswith("_")}
    inner = {
        "begin",
        "unattended",
        "reply_to",
        "stop_soon",
        "stop",
        "withdraw",
        "death",
    }
    assert asynchronous - inner <= set(dir(SyncAgent))


def _until_ended(events: Iterator[Event]) -> Iterator[Event]:
    for event in events:
        yield event
        if isinstance(event, TurnEnded):
            return


def test_outside_of_its_block_an_agent_says_so_and_does_not_wait(place: Place) -> None:
    one = agent(place)
    with pytest.raises(RuntimeError, match="outside of the block"):
        one.ask("too early")
    with one:
        pass
    with pytest.raises(RuntimeError, match="outside of the block"):
        one.ask("too late")


def test_an_agent_may_be_closed_inside_of_its_block_and_again(place: Place) -> None:
    with agent(place) as one:
        one.close()
        one.close()
    one.close()


def test_a_policy_that_would_wait_for_its_own_agent_is_told_so(place: Place) -> None:
    agents: list[SyncAgent] = []
    with agent(place, approve=lambda ask: agents[0].ask("May I?").ok) as one:
        agents.append(one)
        assert "cannot wait for it" in one.ask("go").denials[0].reason


def test_ctrl_c_ends_the_waiting_and_the_agent_can_be_used_again(place: Place) -> None:
    with agent(place) as one:
        turn = one.prompt("go")
        for event in turn:
            if isinstance(event, Ask):
                break
        assert [ask.name for ask in one.asks] == ["Write"]
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                list(turn)
        finally:
            signal.signal(signal.SIGALRM, before)
        turn.cancel()
        assert turn.wait().reason == "cancelled"


def test_a_loop_that_was_left_leaves_nothing_hanging(place: Place) -> None:
    with agent(place) as one:
        turn = one.prompt("go")
        for event in turn:
            assert event
            break
        assert one.ask("next").denials
        assert turn.wait().denials


def test_sessions_are_listed_and_one_is_gone_on_with(place: Place) -> None:
    with agent(place, approve=allow_all) as one:
        one.ask("first words")
        session = one.session
    [card] = list_sessions(cwd=place.workspace, env=place.env)
    assert (card.id, card.messages, card.first) == (session, 4, "first words")
    with agent(place, resume=card.id) as one:
        assert one.session == session
    with pytest.raises(Unsupported, match="aionrs does not tell"):
        list_sessions("aionrs")


def test_several_threads_may_use_one_agent(place: Place) -> None:
    with agent(place, approve=allow_all) as one, ThreadPoolExecutor(4) as threads:
        actual = threads.map(lambda number: one.ask(f"number {number}").text, range(8))
        assert list(actual) == [f"done: number {number}" for number in range(8)]
