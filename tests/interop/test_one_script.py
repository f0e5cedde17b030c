"""One program, every engine: the same conversation through the host SDK tells the same story.

Ours in all its dialects, and the real claude, omp and pi, each against the same model on loopback. What an engine does
otherwise is in DIFFERENCES, with the reason; nothing else may differ.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interop import omp_peers
from interop.claude_model import REFUSE, WAIT, Model, Step, text, use
from polylect.host import Agent, Ask, EngineDied, Event, Result, connect
from polylect.vocab import events as e

pytestmark = pytest.mark.interop
KEYS = {"ANTHROPIC_API_KEY": "none", "PATH": os.environ["PATH"], "IS_SANDBOX": "1", "PI_OFFLINE": "1"}
QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
)


class Engine(NamedTuple):
    """How it is started, and what it calls the tool that runs commands."""

    name: str
    tool: str = "Bash"
    version: str = ""
    asks: bool = True

    def connect(self, model: Model, place: Path, **wishes: Any) -> Agent:
        (place / "work").mkdir(exist_ok=True)
        env = {**KEYS, **dict.fromkeys(QUIET, "1"), "HOME": str(place), "POLYLECT_HOME": str(place / "state")}
        env |= {
            "ANTHROPIC_BASE_URL": model.url,
            "CLAUDE_CONFIG_DIR": str(place / "claude"),
            "ENABLE_TOOL_SEARCH": "false",
        }
        env |= {"CLAUDE_CODE_MAX_RETRIES": "0", "PI_CODING_AGENT_DIR": str(place / "agent")}
        around = {"cwd": str(place / "work"), "env": env, "version": self.version}
        if self.name.startswith("polylect"):
            env["PYTHONPATH"] = os.pathsep.join(sys.path)
            return connect(self.name, provider="anthropic", model="claude-sonnet-4-5", **around, **wishes)
        if self.name == "claude":
            binary = Path(os.environ["POLYLECT_INTEROP_CLAUDE"]) / "claude_agent_sdk" / "_bundled" / "claude"
            env["PATH"] = f"{binary.parent}{os.pathsep}{env['PATH']}"
            return connect("claude", model="claude-sonnet-4-5", **around, **wishes)
        peer = omp_peers.peer(self.version)
        if not (place / "agent").exists():
            omp_peers.configure(peer, model.url, place)
        words = ("--session", wishes["resume"]) if "resume" in wishes else ()
        argv = [*peer.argv, "--mode", "rpc", "--model", "mock/one", *words]
        return connect(argv, dialect="omp", **around)


ENGINES = {
    "polylect json-stream": Engine("polylect"),
    "polylect omp": Engine("polylect-omp"),
    "polylect claude": Engine("polylect-claude"),
    "claude": Engine("claude"),
    "omp 13": Engine("omp", "bash", "13", asks=False),
    "omp 18": Engine("omp", "bash", "18", asks=False),
    "pi": Engine("pi", "bash", "pi", asks=False),
}
UNASKED = "its wire has no approval: what the model wants is done"
DIFFERENCES = {
    "polylect omp": "on omp's wire every call is started, also one that was denied",
    "omp 13": UNASKED,
    "omp 18": UNASKED,
    "pi": UNASKED,
}


def script(engine: Engine) -> dict[str, list[Step]]:
    run = use("call_1", engine.tool, command="echo made > made.txt", description="makes a file")
    again = use("call_2", engine.tool, command="echo made > denied.txt", description="makes another")
    return {
        "HELLO": [[text("Hello to you.")]],
        "MAKE": [[text("I will."), run], [text("It is made.")]],
        "DENY": [[again], [text("Then not.")]],
        "SLOW": [[text("One moment"), WAIT]],
        "REFUSE": [REFUSE],
        "AGAIN": [[text("Here again.")]],
    }


def story(events: list[Event]) -> list[str]:
    """What happened, in words that every wire has: texts whole, calls by their marks, the end."""
    told: list[str] = []
    for event in events:
        match event:
            case e.TurnStarted():
                told.append("turn")
            case e.TextDelta(words):
                if told[-1].startswith("says "):
                    told[-1] += words
                else:
                    told.append(f"says {words}")
            case e.ToolCalled():
                told.append("called")
            case e.Ask(kind="permission"):
                told.append("asked")
            case e.ToolStarted():
                told.append("started")
            case e.ToolFinished(outcome=outcome):
                told.append(f"finished {outcome}")
            case e.TurnEnded(reason):
                told.append(f"ended {reason}")
    return told


async def listen(agent: Agent, prompt: str, on: Callable[[Event], Awaitable[Any]] | None = None) -> list[str]:
    heard: list[Event] = []
    async for event in agent.prompt(prompt):
        heard.append(event)
        if on is not None:
            await on(event)
    return story(heard)


async def yes(event: Event) -> None:
    if isinstance(event, Ask):
        await event.allow()


async def no(event: Event) -> None:
    if isinstance(event, Ask):
        await event.deny("not this one")


async def converse(name: str, place: Path) -> dict[str, Any]:
    """The one program. What it saw, by what it tried."""
    engine, saw = ENGINES[name], dict[str, Any]()
    async with Model(script(engine)) as model:
        async with engine.connect(model, place) as agent:
            saw["text"] = await listen(agent, "HELLO")
            saw["tool"] = await listen(agent, "MAKE", yes)
            saw["made"] = (place / "work" / "made.txt").exists()
            saw["deny"] = await listen(agent, "DENY", no)
            saw["denied"] = not (place / "work" / "denied.txt").exists()

            async def stop(event: Event) -> None:
                if isinstance(event, e.TextDelta):
                    await agent.cancel()

            saw["cancel"] = await listen(agent, "SLOW", stop)
            saw["second turn"] = await listen(agent, "AGAIN")
            saw["error"] = await listen(agent, "REFUSE")
            saw["after"] = await listen(agent, "AGAIN")
            session = agent.session if engine.name not in ("omp", "pi") else (await agent.state()).file
        async with engine.connect(model, place, resume=session) as agent:
            saw["resume"] = await listen(agent, "AGAIN")
            saw["remembers"] = any("HELLO" in str(message) for message in model.asked[-1]["messages"])
            turn, pid = agent.prompt("SLOW"), agent.pid
            saw["killed"] = await _killed(turn, pid)
        saw["gone"] = not os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240
    return saw


async def _killed(turn: Any, pid: int) -> str:
    try:
        async for event in turn:
            if isinstance(event, e.TextDelta):
                with suppress(ProcessLookupError):  # what it had said is still read
                    os.kill(pid, signal.SIGKILL)
    except EngineDied as death:
        return f"died: {death.code}"
    result: Result = turn.result
    return f"ended {result.reason}"


@pytest.fixture(scope="module")
def seen() -> dict[str, dict[str, Any]]:
    return {}


def expected(name: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "text": ["turn", "says Hello to you.", "ended end"],
        "tool": ["turn", "says I will.", "called", "asked", "started", "finished ok", "says It is made.", "ended end"],
        "made": True,
        "deny": ["turn", "called", "asked", "finished denied", "says Then not.", "ended end"],
        "denied": True,
        "cancel": ["turn", "says One moment", "ended cancelled"],
        "second turn": ["turn", "says Here again.", "ended end"],
        "error": ["turn", "ended error"],
        "after": ["turn", "says Here again.", "ended end"],
        "resume": ["turn", "says Here again.", "ended end"],
        "remembers": True,
        "killed": "ended error",
        "gone": True,
    }
    if name == "polylect omp":
        told["deny"] = ["turn", "called", "asked", "started", "finished denied", "says Then not.", "ended end"]
    if not ENGINES[name].asks:
        told["tool"] = ["turn", "says I will.", "called", "started", "finished ok", "says It is made.", "ended end"]
        told["deny"] = ["turn", "called", "started", "finished ok", "says Then not.", "ended end"]
        told["denied"] = False
    return told


@pytest.mark.parametrize("name", ENGINES)
def test_the_same_program_sees_the_same_story(name: str, tmp_path: Path, seen: dict[str, dict[str, Any]]) -> None:
    saw = seen[name] = asyncio.run(asyncio.wait_for(converse(name, tmp_path), 60))
    assert saw == expected(name)


def test_what_differs_is_known_and_printed(seen: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert set(seen) == set(ENGINES)
    with capsys.disabled():
        print("\nengine                what differs")
        for name in ENGINES:
            print(f"{name:<21} {DIFFERENCES.get(name, 'nothing')}")
