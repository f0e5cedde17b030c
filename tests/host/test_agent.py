"""The host's one API, against a real engine."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

import polylect.host as host
from engine_process import Place
from machine import PATIENCE
from polylect.host import (
    Agent,
    Ask,
    EngineDied,
    Limits,
    Refused,
    SchemaNotMet,
    TextDelta,
    TimedOut,
    ToolCalled,
    ToolFinished,
    TurnEnded,
    TurnFailed,
    Unsupported,
    allow_all,
    category,
    connect,
)

WRITES = """
[[reply]]
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "x" } }]

[[reply]]
text = "{calls}"
"""
LONG = """
[[reply]]
say = [{ call = "Bash", id = "c1", args = { command = "sleep 60" } }]
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def bounded(work: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        await asyncio.wait_for(work, PATIENCE)

    asyncio.run(main())


def agent(place: Place, script: str = "", **options: Any) -> Agent:
    if script:
        options["script"] = place.script(script)[-1]  # a file of its own: agents may start at the same time
    return connect("polylect", cwd=str(place.workspace), env=place.env, provider="scripted", **options)


def test_a_turn_is_read_as_it_comes_and_an_ask_carries_its_answers(place: Place) -> None:
    async def talk() -> None:
        async with agent(place, WRITES) as one:
            outcomes: list[str] = []
            async for event in one.prompt("go"):
                match event:
                    case Ask() as ask:
                        assert one.asks == (ask,)
                        await ask.allow()
                    case ToolFinished(outcome=outcome):
                        outcomes.append(outcome)
            assert outcomes == ["ok"]
            assert one.asks == ()
            assert (place.workspace / "made.txt").read_text() == "x"

    bounded(talk())


def test_an_answer_is_awaited_whole_with_what_was_denied_in_it(place: Place) -> None:
    async def talk() -> None:
        async with agent(place, WRITES) as one:
            result = await one.ask("go")
            assert result.ok
            assert [denial.name for denial in result.denials] == ["Write"]
            assert "nobody" in result.denials[0].reason
            assert not (place.workspace / "made.txt").exists()

    bounded(talk())


@pytest.mark.parametrize(
    ("policy", "made"),
    [(allow_all, True), (category("edit"), True), (category("info"), False), (lambda ask: "no, thank you", False)],
)
def test_a_policy_answers_for_a_person(place: Place, policy: Any, made: bool) -> None:
    async def talk() -> None:
        async with agent(place, WRITES, approve=policy) as one:
            await one.ask("go")
            assert (place.workspace / "made.txt").exists() is made

    bounded(talk())


@pytest.mark.parametrize("engine", ["polylect", "polylect-jsonstream", "polylect-omp", "polylect-claude"])
def test_an_edit_is_one_on_every_wire(place: Place, engine: str) -> None:
    requested: list[tuple[str, str]] = []

    def note(ask: Ask) -> bool:
        requested.append((ask.name, ask.category))
        return True

    async def talk() -> None:
        script = place.script(WRITES)[-1]
        options = {"cwd": place.workspace, "env": place.env, "provider": "scripted", "script": script}
        async with connect(engine, approve=note, **options) as one:
            called = [event async for event in one.prompt("go") if isinstance(event, ToolCalled)]
        assert [(event.name, event.category) for event in called] == requested == [("Write", "edit")]

    bounded(talk())


def test_a_policy_that_fails_has_not_said_yes_a1(place: Place) -> None:
    def broken(ask: Ask) -> bool:
        raise RuntimeError("out of order")

    async def talk() -> None:
        async with agent(place, WRITES, approve=broken) as one:
            result = await one.ask("go")
            assert "out of order" in result.denials[0].reason

    bounded(talk())


def test_a_policy_may_think_before_it_answers_and_change_what_runs(place: Place) -> None:
    async def careful(ask: Ask) -> None:
        await asyncio.sleep(0)
        await ask.allow(always=True)

    async def talk() -> None:
        async with agent(place, WRITES, approve=careful) as one:
            await one.ask("go")
            assert (place.workspace / "made.txt").exists()

    bounded(talk())


def test_two_turns_at_once_each_hear_their_own(place: Place) -> None:
    async def talk() -> None:
        async with agent(place, '[[reply]]\ntext = "{prompt}"\n') as one:
            first, second = await asyncio.gather(one.prompt("one"), one.prompt("two"))
            assert (first.text, second.text) == ("one", "two")

    bounded(talk())


def test_many_agents_at_once(place: Place) -> None:
    async def one_of_them(number: int) -> str:
        async with agent(place, '[[reply]]\ntext = "{prompt}"\n') as one:
            return (await one.ask(str(number))).text

    async def talk() -> None:
        assert await asyncio.gather(*map(one_of_them, range(4))) == ["0", "1", "2", "3"]

    bounded(talk())


def test_whoever_leaves_early_leaves_nothing_hanging(place: Place) -> None:
    """A turn that nobody reads any more is denied what it asks, and the next one comes."""

    async def talk() -> None:
        async with agent(place, WRITES) as one:
            async for event in one.prompt("go"):
                if isinstance(event, host.TurnStarted):
                    break
            gc.collect()
            assert (await one.prompt("again")).ok
            assert not (place.workspace / "made.txt").exists()

    bounded(talk())


def test_a_turn_can_be_cancelled_and_the_session_goes_on_t3(place: Place) -> None:
    async def talk() -> None:
        async with agent(place, LONG, mode="force") as one:
            turn = one.prompt("go")
            async for event in turn:
                if isinstance(event, host.ToolStarted):
                    await turn.cancel()
            assert turn.result.reason == "cancelled"
            turn = one.prompt("again")
            async for event in turn:
                if isinstance(event, host.ToolStarted):
                    await turn.cancel()
            assert turn.result.reason == "cancelled"

    bounded(talk())


@pytest.mark.parametrize("limits", [Limits(total=0.5), Limits(idle=0.5)])
def test_a_turn_that_takes_too_long_is_cancelled_and_told(place: Place, limits: Limits) -> None:
    async def talk() -> None:
        async with agent(place, LONG, mode="force") as one:
            turn = one.prompt("go", limits=limits)
            with pytest.raises(TimedOut, match=r"0\.5 s"):
                await turn
            assert turn.result.reason == "cancelled"

    bounded(talk())


COSTLY = """
[price]
input = 1000.0
output = 1000.0

[[reply]]
when.step = 1
say = [{ call = "Bash", id = "c1", args = { command = "true" } }]
usage = { input = 500, output = 500 }

[[reply]]
when.step = 2
say = [{ call = "Bash", id = "c2", args = { command = "true" } }]
usage = { input = 500, output = 500 }

[[reply]]
text = "done"
"""
OURS = ("polylect", "polylect-jsonstream", "polylect-omp", "polylect-claude")


def ours(engine: str, place: Place, script: str, **options: Any) -> Agent:
    file = place.workspace.parent / "script.toml"
    file.write_text(script)
    result = {"cwd": str(place.workspace), "env": place.env, "provider": "scripted", "script": str(file)}
    return connect(engine, **result, **options)


@pytest.mark.parametrize("engine", OURS)
@pytest.mark.parametrize("limits", [Limits(cost=0.5), Limits(tokens=100)], ids=["dollars", "tokens"])
def test_a_turn_that_costs_too_much_ends_with_a_limit(place: Place, engine: str, limits: Limits) -> None:
    """Where it is if the wire tells of usage as it goes, else at its end at the latest."""

    async def talk() -> None:
        async with ours(engine, place, COSTLY, mode="force", limits=limits) as one:
            result = await one.prompt("go")
            assert result.reason == "limit"
            assert result.usage.tokens <= 2000 or not limits.cost

    bounded(talk())


@pytest.mark.parametrize("engine", OURS)
def test_a_turn_tells_its_cost_and_its_steps_and_not_those_before_it(place: Place, engine: str) -> None:
    async def talk() -> None:
        async with ours(engine, place, COSTLY, mode="force") as one:
            first, second = await one.ask("go"), await one.ask("go")
            assert first.steps == 3
            assert first.cost == pytest.approx(second.cost, rel=0.5)
            assert one.cost == pytest.approx((first.cost or 0) + (second.cost or 0))
            session = one.session
        if engine == "polylect-omp":
            return  # it is resumed by the path of its file
        async with ours(engine, place, COSTLY, mode="force", resume=session) as one:
            again = [await one.ask("go"), await one.ask("go")]
            assert again[0].cost is None or again[0].cost == pytest.approx(first.cost, rel=0.9)
            assert again[1].cost == pytest.approx(first.cost, rel=0.9)

    bounded(talk())


@pytest.mark.parametrize("engine", OURS)
def test_an_engine_that_dies_in_a_turn_is_there_again_at_the_next_word(place: Place, engine: str) -> None:
    script = '[[reply]]\nwhen.prompt = "hang"\nsay = ["so", { hang = true }]\n\n[[reply]]\ntext = "{prompt}"\n'

    async def talk() -> None:
        async with ours(engine, place, script, restarts=2) as one:
            os.kill(one.pid, 9)
            await _until_silent(one)
            assert (await one.ask("early")).text == "early"
            turn = one.prompt("hang")
            async for event in turn:
                if isinstance(event, TextDelta):
                    os.kill(one.pid, 9)
            assert turn.result.failure is not None
            assert "exit code -9" in turn.result.failure.message
            assert turn.result.failure.retryable
            assert (await one.ask("again")).text == "again"
            hanging = asyncio.create_task(one.ask("hang"))
            await _begun(one)
            os.kill(one.pid, 9)
            with pytest.raises(EngineDied, match="exit code -9"):
                await hanging

    bounded(talk())


async def _until_silent(one: Agent) -> None:
    async for _ in one.events():
        pass


async def _begun(one: Agent) -> None:
    async for event in one.events():
        if isinstance(event, TextDelta):
            return


WIRES = {
    "polylect": ("grant", "steer", "follow_up", "compact", "fork", "rewind", "query:state", "tools", "mode:plan"),
    "polylect-jsonstream": ("mode", "add_server"),
    "polylect-omp": ("steer", "compact", "fork"),
    "polylect-claude": ("rewind",),
}


@pytest.mark.parametrize("engine", WIRES)
def test_each_wire_tells_what_it_has_words_for(place: Place, engine: str) -> None:
    async def talk() -> None:
        async with ours(engine, place, COSTLY) as one:
            assert one.can("prompt", "cancel", "answer", "model", *WIRES[engine])
            if not one.can("steer"):
                with pytest.raises(Unsupported, match="send a prompt"):
                    await one.steer("now")

    bounded(talk())


class Sum(msgspec.Struct):
    total: int


@pytest.mark.parametrize(
    "schema", [Sum, {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}]
)
def test_an_answer_can_be_a_value(place: Place, schema: Any) -> None:
    script = """[[reply]]
when.turn = 1
text = "I think it is this:\\n```json\\n{\\"total\\": \\"many\\"}\\n```"

[[reply]]
text = '{"total": 3}'
"""

    async def talk() -> None:
        async with agent(place, script) as one:
            result = await one.ask("How many?", schema=schema)
            assert result.value == (Sum(3) if schema is Sum else {"total": 3})

    bounded(talk())


def test_an_answer_that_never_fits_is_an_error_with_the_answer_in_it(place: Place) -> None:
    async def talk() -> None:
        async with agent(place, '[[reply]]\ntext = "many"\n') as one:
            with pytest.raises(SchemaNotMet) as caught:
                await one.ask("How many?", schema=Sum)
            assert caught.value.result.text == "many"

    bounded(talk())


def test_what_a_wire_cannot_say_is_known_ahead_and_refused_before_anything_is_sent(place: Place) -> None:
    sent: list[bytes] = []

    async def talk() -> None:
        tap = lambda way, data: sent.append(data) if way == "in" else None  # noqa: E731
        async with ours("polylect-jsonstream", place, COSTLY, tap=tap) as one:
            assert one.can("prompt", "cancel", "mode", "add_server")
            assert not one.can("compact")
            assert not one.can("tools")
            assert not one.can("query:state")
            sent.clear()
            with pytest.raises(Unsupported, match=r"json-stream cannot express compact\(\): agent.can\('compact'\)"):
                await one.compact()
            assert sent == []
            with pytest.raises(LookupError, match="there is no word"):
                one.can("fly")
        with pytest.raises(EngineDied, match="this agent is closed"):
            await one.prompt("Hello")

    bounded(talk())


def test_a_turn_that_fails_says_why(place: Place) -> None:
    async def talk() -> None:
        async with agent(place, '[[reply]]\nsay = [{ error = "auth", message = "who are you?" }]\n') as one:
            with pytest.raises(TurnFailed) as caught:
                await one.ask("go")
            assert caught.value.result.reason == "error"
            assert "who are you?" in str(caught.value)

    bounded(talk())


def test_a_mode_that_there_is_none_of_is_refused(place: Place) -> None:
    async def talk() -> None:
        async with agent(place) as one:
            with pytest.raises(Refused, match="whatever"):
                await one.configure(mode="whatever")

    bounded(talk())


@pytest.mark.parametrize("mode", ["plan", "dont_ask"])
def test_our_own_engine_takes_all_five_modes_while_it_runs(place: Place, mode: str) -> None:
    async def talk() -> None:
        async with agent(place, WRITES, approve=allow_all) as one:
            await one.configure(mode=mode)
            assert "denied" in (await one.ask("write")).text
            assert one.settings["mode"] == mode
            assert not (place.workspace / "made.txt").exists()

    bounded(talk())


def test_an_engine_that_dies_is_started_again_and_goes_on_with_its_session(place: Place) -> None:
    async def talk() -> None:
        async with agent(place, '[[reply]]\ntext = "{prompt}"\n', restarts=1) as one:
            assert (await one.ask("before")).text == "before"
            session, pid = one.session, one.pid
            os.kill(pid, 9)
            await _until_dead(one)
            assert (await one.ask("after")).text == "after"
            assert one.session == session
            assert one.pid != pid
            os.kill(one.pid, 9)
            await _until_dead(one)
            with pytest.raises(EngineDied):
                await one.ask("once more")

    bounded(talk())


async def _until_dead(one: Agent) -> None:
    async for _ in one.events():
        pass


def test_everything_can_be_heard_whatever_turn_it_belongs_to(place: Place) -> None:
    async def talk() -> None:
        async with agent(place, '[[reply]]\ntext = "{prompt}"\n') as one:
            received: list[str] = []

            async def listen() -> None:
                async for event in one.events():
                    if isinstance(event, TextDelta):
                        received.append(event.text)
                    if isinstance(event, TurnEnded):
                        return

            listening = asyncio.create_task(listen())
            await asyncio.sleep(0)
            await one.ask("hello")
            await listening
            assert "".join(received) == "hello"

    bounded(talk())


def test_an_engine_is_known_by_name_or_told_what_is(place: Place, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="known are polylect"):
        connect("codex")
    with pytest.raises(ValueError, match="cannot be told 'colour'"):
        connect("polylect", colour="blue")
    with pytest.raises(ValueError, match="has no mode"):
        connect("aionrs", mode="plan")
    with pytest.raises(ValueError, match="name the wire of this command line"):
        connect(["some", "engine"])


def test_what_is_offered_to_type_checkers_is_there_and_loading_it_is_quick() -> None:
    stub = Path(host.__file__).with_suffix(".pyi").read_text()
    names = [line.rsplit(" ", 1)[1] for line in stub.splitlines() if line.startswith("from")]
    assert sorted(names) == dir(host)
    assert all(getattr(host, name) is not None for name in names)
    loaded = "import sys, polylect.host; print('asyncio' in sys.modules, 'msgspec' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout
        == "False False\n"
    )


PRICED = '[price]\ninput = 1.0\noutput = 1.0\n[[reply]]\ntext = "hi"\nusage = { input = 1_000, output = 0 }\n'
UNPRICED = '[[reply]]\ntext = "hi"\n'
DENIED = """
[[reply]]
when.step = 1
say = [{ call = "Read", id = "c1", args = { file_path = "secret.txt" } }]

[[reply]]
text = "done"
"""


@pytest.mark.filterwarnings("ignore::polylect.host.limits.LimitWarning")
@pytest.mark.parametrize("engine", OURS)
def test_a_cap_in_dollars_for_one_prompt_fails_where_no_price_is_known(place: Place, engine: str) -> None:
    async def talk() -> None:
        async with ours(engine, place, UNPRICED) as one:
            assert (await one.ask("go")).ok
            result = await one.prompt("go", limits=Limits(cost=0.5))
            assert result.reason == "limit"
            assert result.failure is not None
            assert "the price of the model is not known, so a cap in dollars cannot hold" in result.failure.message

    bounded(talk())


@pytest.mark.parametrize("engine", OURS)
def test_a_denial_by_a_rule_of_the_engine_names_the_call(place: Place, engine: str) -> None:
    async def talk() -> None:
        async with ours(engine, place, DENIED, deny=["Read(secret.txt)"]) as one:
            (denial,) = (await one.ask("go")).denials
            assert (denial.name, denial.args) == ("Read", {"file_path": "secret.txt"})

    bounded(talk())


@pytest.mark.parametrize("engine", OURS)
def test_a_session_that_is_resumed_has_its_name_before_the_first_turn(place: Place, engine: str) -> None:
    async def talk() -> None:
        async with ours("polylect", place, UNPRICED, session="mine") as one:
            await one.ask("go")
        async with ours(engine, place, UNPRICED, resume="mine") as one:
            assert one.session == "mine"

    bounded(talk())


@pytest.mark.parametrize("engine", ["polylect", "polylect-omp"])
def test_a_session_that_is_resumed_has_its_cost_before_the_first_turn(place: Place, engine: str) -> None:
    async def talk() -> None:
        async with ours("polylect", place, PRICED, session="mine") as one:
            cost = (await one.ask("go")).cost
        async with ours(engine, place, PRICED, resume="mine") as one:
            assert (one.cost, cost is None) == (cost, False)
            await one.ask("go")
            assert one.cost == pytest.approx(0.002)

    bounded(talk())
