"""Sub-agents, scripts and budgets through the real process: whatever the dialect, the host hears the same story."""

import asyncio
import os
import signal
from collections.abc import Awaitable
from typing import NamedTuple

import pytest

from engine_process import PATIENCE, Engine, Frame, Place, approve, message
from polylect.host import Agent, Ask, connect
from polylect.vocab.events import AgentEnded, AgentStarted, Event, ToolFinished, TurnEnded

CHILDREN = """
[[reply]]
when = { prompt = "do one", step = 1 }
say = [{ call = "Bash", id = "b1", args = { command = "touch forbidden" } }]

[[reply]]
when = { prompt = "do one", result.outcome = "denied" }
text = "was denied"

[[reply]]
when = { prompt = "do two" }
say = ["begun", { hang = true }]

[[reply]]
when = { prompt = "both", step = 1 }
CALLS

[[reply]]
text = "all is well"
"""
AT_ONCE = """
[[reply.say]]
call = "Spawn"
id = "s1"
args.tasks = [{ name = "one", prompt = "do one" }, { name = "two", prompt = "do two" }]
"""
ONE_BY_ONE = """
[[reply.say]]
call = "Agent"
id = "s1"
args = { description = "one", prompt = "do one" }

[[reply.say]]
call = "Agent"
id = "s2"
args = { description = "two", prompt = "do two" }
"""


class Wire(NamedTuple):
    """A way to speak to the engine. `lanes`: it has words for sub-agents."""

    engine: str
    lanes: bool = True
    calls: str = AT_ONCE
    args: tuple[str, ...] = ()
    version: str = ""

    def connect(self, place: Place) -> Agent:
        file = place.workspace.parent / "children.toml"
        file.write_text(CHILDREN.replace("CALLS", self.calls))
        result = {"cwd": str(place.workspace), "env": place.env, "provider": "scripted", "script": str(file)}
        return connect(self.engine, args=self.args, version=self.version, **result)


WIRES = {
    "native": Wire("polylect"),
    "json-stream 0.2.0": Wire("polylect-jsonstream"),
    "json-stream 0.1.0": Wire("polylect-jsonstream", lanes=False, args=("--protocol", "0.1.0"), version="0.1.0"),
    "omp": Wire("polylect-omp"),
    "claude": Wire("polylect-claude", calls=ONE_BY_ONE),
    "acp 1": Wire("polylect-acp"),
    "acp 2": Wire("polylect-acp", version="2"),
}
"""A new dialect is one more line."""


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


def bounded(work: Awaitable[None]) -> None:
    async def main() -> None:
        await asyncio.wait_for(work, PATIENCE)

    asyncio.run(main())


def test_two_agents_at_once_one_is_denied_a_tool_and_one_is_stopped(wire: Wire, place: Place) -> None:
    """Issue 5: all dialects tell the same story."""
    received: list[Event] = []

    async def work() -> None:
        async with wire.connect(place) as engine:
            async for event in engine.prompt("both"):
                received.append(event)
                match event:
                    case Ask(name="Bash"):
                        await event.deny("not here")
                    case Ask():
                        await event.allow()
                    case AgentEnded(ok=True) if wire.lanes:
                        await engine.cancel()
                    case ToolFinished(name="Bash") if not wire.lanes:
                        await engine.cancel()
            assert (await engine.ask("and now?")).text == "all is well"

    bounded(work())
    assert not (place.workspace / "forbidden").exists()
    assert [event.name for event in received if isinstance(event, Ask)][-1] == "Bash"
    finished = [(event.name, event.outcome) for event in received if isinstance(event, ToolFinished)]
    assert finished[0] == ("Bash", "denied")
    assert finished[-1] == ("Agent" if wire.calls is ONE_BY_ONE else "Spawn", "cancelled")
    assert isinstance(received[-1], TurnEnded)
    assert received[-1].reason == "cancelled"
    lanes = {event.agent: event.name for event in received if isinstance(event, AgentStarted)}
    ended = {lanes[event.agent]: event.ok for event in received if isinstance(event, AgentEnded)}
    assert sorted(lanes.values()) == (["one", "two"] if wire.lanes else [])
    assert ended == ({"one": True, "two": False} if wire.lanes else {})


# What only one wire has words for is looked at frame by frame.


def kinds(frames: list[Frame], *expected: str) -> list[Frame]:
    return [frame for frame in frames if frame["type"] in expected]


def test_what_agents_say_is_relayed_inside_and_their_asks_are_the_turns(place: Place) -> None:
    engine = place.started("--force", script=CHILDREN.replace("CALLS", AT_ONCE).replace(", { hang = true }", ""))
    engine.send(message("both"))
    frames = engine.until("stream_end")
    relayed = kinds(frames, "sub_agent_event")
    assert {(frame["parent_call_id"], frame["agent_name"]) for frame in relayed} == {("s1", "one"), ("s1", "two")}
    two = [frame["inner"] for frame in relayed if frame["agent_name"] == "two"]
    assert [inner["type"] for inner in two] == ["stream_start", "text_delta", "info", "stream_end"]
    [result] = kinds(frames, "tool_result")
    assert [line for line in result["output"].split("\n") if line.startswith("##")] == ["## one [OK]", "## two [OK]"]


BACKGROUND = """
[[reply]]
when = { prompt = "do late", step = 1 }
say = [{ call = "Bash", id = "b1", args = { command = "echo begun > begun; cat news" } }]

[[reply]]
when.prompt = "do late"
text = "{result}"

[[reply]]
when = { prompt = "go", step = 1 }
say = [{ call = "Spawn", id = "s1", args = { background = true, tasks = [{ name = "late", prompt = "do late" }] } }]

[[reply]]
when.prompt = "go"
text = "they are at work"

[[reply]]
when.prompt = "## late"
text = "I see: {prompt}"
"""


@pytest.fixture
def pipes(place: Place) -> Place:
    """Where a command says that it has begun, and waits for news."""
    for name in ("begun", "news"):
        os.mkfifo(place.workspace / name)
    return place


@pytest.mark.parametrize("host", ["stays", "goes"])
def test_an_agent_in_the_background_outlives_its_turn_and_reports_in_one_of_its_own(pipes: Place, host: str) -> None:
    engine = pipes.started("--force", script=BACKGROUND)
    engine.send(message("go"))
    assert kinds(engine.until("stream_end"), "text_delta")[0]["text"] == "they are at work"
    assert (pipes.workspace / "begun").read_text() == "begun\n"
    if host == "goes":
        engine.close_input()
    (pipes.workspace / "news").write_text("fine weather")
    frames = engine.until("stream_end")
    [begun] = kinds(frames, "stream_start")
    [result] = kinds(frames, "text_delta")
    assert begun["msg_id"] == result["msg_id"] == frames[-1]["msg_id"] != "m1"
    assert "fine weather" in result["text"]
    assert engine.finish() == ([], 0) if host == "stays" else engine.wait() == 0


def test_an_agent_in_the_background_ends_with_its_engine(pipes: Place) -> None:
    engine = pipes.started("--force", script=BACKGROUND)
    engine.send(message("go"))
    engine.until("stream_end")
    assert (pipes.workspace / "begun").read_text() == "begun\n"
    engine.signal(signal.SIGTERM)
    assert kinds(engine.rest(), "stream_start", "text_delta") == []
    assert engine.wait() == 128 + signal.SIGTERM


# Scripts.

SCRIPT = """
[[reply]]
when.prompt.regex = '^(?!go$)'
text = "{history}"

[[reply]]
when.step = 1

[[reply.say]]
call = "Script"
id = "c1"

[[reply.say.args.steps]]
id = "look"
tool = "Bash"
input = { command = "echo one" }

[[reply.say.args.steps]]
id = "deploy"
tool = "Bash"
input = { command = "echo two > deployed" }
approval_required = true

[[reply]]
text = "{result}"
"""


def suspended(place: Place, *flags: str) -> tuple[Engine, Frame]:
    place.configure("[tools]\nscript = true\n")
    engine = place.started("--force", *flags, script=SCRIPT)
    engine.send(message("go"))
    required, suspend = engine.until("suspend")[-2:]
    assert suspend == {"type": "suspend", "reason": "awaiting_approval", "resume_token": required["resume_token"]}
    return engine, required


@pytest.mark.parametrize("approved", [True, False])
def test_a_script_suspends_at_a_gated_step_and_goes_on_or_ends_by_approval_resume(place: Place, approved: bool) -> None:
    engine, required = suspended(place)
    assert engine.ready["capabilities"]["hitl_suspend"]
    assert engine.ready["capabilities"]["rpc_tool_script"]
    assert (required["call_id"], required["reason"]) == ("c1", "Script step 'deploy' is approval-gated")
    resume = {"type": "approval_resume", "resume_token": required["resume_token"], "approved": approved}
    engine.send(resume)
    frames = engine.until("stream_end")
    assert kinds(frames, "approval_resume") == [resume]
    [result] = kinds(frames, "tool_result")
    assert result["output"].startswith("[look] Bash: Exit code: 0\nSTDOUT:\none")
    assert result["status"] == ("success" if approved else "error")
    assert (place.workspace / "deployed").exists() == approved
    engine.send(resume)
    assert "resume_token" in engine.until("error")[-1]["error"]["message"]


def test_A6_a_token_is_not_one_that_the_model_could_have_seen(place: Place) -> None:
    tokens = set()
    for _ in range(2):
        engine, required = suspended(place)
        tokens.add(required["resume_token"])
        engine.end()
    assert len(tokens) == 2
    assert all(len(token) >= 16 and "c1" not in token.split("-") for token in tokens)


def test_after_a_crash_a_suspended_turn_goes_on_when_the_answer_comes(place: Place) -> None:
    engine, required = suspended(place)
    engine.end()
    engine = place.started("--force", "--resume", engine.ready["session_id"], script=SCRIPT)
    resume = {"type": "approval_resume", "resume_token": required["resume_token"], "approved": True}
    engine.send({**resume, "resume_token": "ask-0"})
    assert "resume_token" in engine.frame()["error"]["message"]
    engine.send(resume)
    frames = engine.until("stream_end")
    assert [frame["type"] for frame in frames[:2]] == ["approval_resume", "stream_start"]
    assert {frame["msg_id"] for frame in frames if "msg_id" in frame} == {"m1"}
    [result] = kinds(frames, "tool_result")
    assert result["output"].startswith("[look] Bash: Exit code: 0\nSTDOUT:\none")
    assert "[deploy] Bash: Exit code: 0" in result["output"]
    assert (place.workspace / "deployed").read_text() == "two\n"
    engine.send(resume)
    assert "resume_token" in engine.until("error")[-1]["error"]["message"]


def test_after_a_crash_a_prompt_comes_before_the_answer_to_a_suspended_script(place: Place) -> None:
    engine, required = suspended(place)
    engine.end()
    engine = place.started("--force", "--resume", engine.ready["session_id"], script=SCRIPT)
    engine.send(message("and?", "m2"))
    engine.until("stream_end")
    engine.send({"type": "approval_resume", "resume_token": required["resume_token"], "approved": True})
    assert "resume_token" in engine.until("error")[-1]["error"]["message"]
    shown = place.run("sessions", "export", engine.ready["session_id"], "--to", "json").out.decode()
    assert "[deploy] Bash: waited for a person's answer when the engine ended, and was not run." in shown
    assert not (place.workspace / "deployed").exists()


def test_a_host_of_0_1_0_is_asked_for_a_step_as_for_any_call(place: Place) -> None:
    place.configure("[tools]\nscript = true\n")
    engine = place.started("--force", "--protocol", "0.1.0", script=SCRIPT)
    engine.send(message("go"))
    requested = engine.until("tool_request")[-1]
    assert (requested["call_id"], requested["tool"]["name"]) == ("c1", "Bash")
    engine.send(approve("c1"))
    assert kinds(engine.until("stream_end"), "tool_result")[-1]["status"] == "success"
    assert (place.workspace / "deployed").exists()


# Traces and budgets.


def test_every_model_call_is_told_to_a_host_that_wants_traces(place: Place) -> None:
    place.configure("[observability]\nstructured_traces = true\n")
    engine = place.started(
        script='[[reply]]\nwhen.step = 1\nsay = [{ call = "Glob", args = { pattern = "*" } }]\n[[reply]]\ntext = "done"'
    )
    assert engine.ready["capabilities"]["structured_traces"]
    engine.send(message("go"))
    first, second = kinds(engine.until("stream_end"), "trace_event")
    assert first["msg_id"] == "m1"
    assert [row["tool_name"] for row in first["trace"]["tool_calls"]] == ["Glob"]
    assert (first["trace"]["turn"], second["trace"]["turn"]) == (0, 1)


ENDLESS = """
[price]
input = 1000.0
output = 0.0

[[reply]]
say = [{ call = "Glob", args = { pattern = "*" } }]
usage = { input = 1000, output = 100 }
"""


@pytest.mark.parametrize(
    ("cap", "told"),
    [
        ("max_cost_usd = 1.5", ("max_cost_usd", "$2.0000", "$1.5000")),
        ("max_tokens_in = 2000", ("max_tokens_in", "2000", "2000")),
        ("max_tokens_out = 150", ("max_tokens_out", "200", "150")),
    ],
)
def test_a_cap_is_told_once_ends_the_turn_and_every_later_one(
    place: Place, cap: str, told: tuple[str, str, str]
) -> None:
    place.configure(f"[budget]\n{cap}\n")
    engine = place.started(script=ENDLESS)
    engine.send(message("go"))
    frames = engine.until("stream_end")
    [exceeded] = kinds(frames, "budget_exceeded")
    assert (exceeded["reason"], exceeded["observed"], exceeded["limit"]) == told
    assert frames[-1]["finish_reason"] == "max_turns"
    engine.send(message("more", "m2"))
    frames = engine.until("stream_end")
    assert kinds(frames, "budget_exceeded", "tool_running") == []
    assert "is used up" in kinds(frames, "info")[0]["message"]
    assert engine.finish() == ([], 0)


def test_a_turns_cap_begins_anew_with_each_turn(place: Place) -> None:
    place.configure("[budget.turn]\nmax_tokens_in = 2000\n")
    engine = place.started("--protocol", "0.1.0", script=ENDLESS)
    for turn in ("m1", "m2"):
        engine.send(message("go", turn))
        frames = engine.until("stream_end")
        assert len(kinds(frames, "tool_running")) == 2
        assert kinds(frames, "info")[0]["message"] == "Budget max_tokens_in exceeded: 2000 of 2000"
