"""Whatever a host does and whenever: grammatical events, and one end for each accepted prompt (L1)."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doubles import PATIENCE, Crash, Echo, Edit, Hang, Log, Run, Show, SpottyLog, Talk
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Answer, Cancel, Configure, Prompt, Query, Steer
from polylect.vocab.events import Ask, AskClosed, Reply, TurnEnded
from thoroughness import up_to

PARTS: list[Any] = [
    "Some words. ",
    {"thinking": "hm "},
    {"call": "Echo", "id": "same", "args": {"text": "x"}, "chunk": 4},
    {"call": "Show", "args": {"pieces": ["a", "b"]}},
    {"call": "Run", "args": {"command": "ls"}},
    {"call": "Edit", "args": {"path": "../x"}},
    {"call": "Crash"},
    {"call": "Hang"},
    {"call": "No such tool"},
    {"error": "network"},
    {"error": "overloaded", "times": 1, "retry_after": 0.0},
    {"hang": True},
]
REPLIES = st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4), min_size=1, max_size=6)
WORDS = [
    "prompt",
    "prompt",
    "interrupt",
    "stop",
    "keep",
    "taken_back",
    "yes",
    "yes",
    "yes",
    "no",
    "steer",
    "last",
    "later",
    "steers",
    "retry",
    "compaction",
    "steering_mode",
    "interrupt_mode",
    "mode",
    "model",
    "state",
    "eof",
]
VALUES = {"mode": "force", "model": "other", "steering_mode": "all", "interrupt_mode": "wait"}
ACTS = st.tuples(st.sampled_from(WORDS), st.integers(0, 12))
"""What the host does, and how many rounds of the loop it then waits."""


def act(talk: Talk, name: str, number: int) -> None:
    asks = [ask.ask for ask in talk.of(Ask)]
    ref = f"r{number}"
    match name:
        case "prompt":
            talk.send(Prompt(f"t{number}", "go", ref=ref))
        case "interrupt":
            talk.send(Prompt(f"t{number}", "go", busy="interrupt", ref=ref))
        case "stop" | "keep":
            talk.send(Cancel(queued="keep" if name == "keep" else "drop", ref=ref))
        case "taken_back":
            talk.send(Cancel("prompt", f"t{number - 1}", ref=ref))
        case "yes" | "no":
            ask = asks[-1] if asks else "none"
            talk.send(Answer(ask, "allow" if name == "yes" else "deny", ref=ref))
        case "steer" | "last" | "later":
            when: Any = "last" if name == "last" else "soon"
            talk.send(Steer("also", when=when, idle="keep" if name == "later" else "refuse", ref=ref))
        case "steers" | "retry" | "compaction":
            talk.send(Cancel(name, ref=ref))
        case "mode" | "model" | "steering_mode" | "interrupt_mode":
            talk.send(Configure({name: VALUES[name]}, ref=ref))
        case "state":
            talk.send(Query("state", ref=ref))
        case "eof":
            talk.engine.input_closed(stop=number % 2 == 0)


async def conversation(folder: Path, replies: list[Any], acts: list[tuple[str, int]], store: Log) -> Talk:
    rules: list[Any] = [{"when": {"step": step}, "say": say} for step, say in enumerate(replies, 1)]
    values = {"reply": [*rules, {"text": "That was all."}], "batch": 1}
    tools = (Echo(), Show(), Run(), Edit(), Crash(), Hang())
    talk = Talk(folder, Scripted.from_values(values, max_retries=1), *tools, store=store, cancel_timeout=1.0)
    async with asyncio.timeout(PATIENCE):
        for number, (name, rounds) in enumerate(acts):
            act(talk, name, number)
            for _ in range(rounds):
                await asyncio.sleep(0)
        talk.engine.input_closed(stop=True)
        await talk.engine.settled()
        await talk.end()
    return talk


@settings(max_examples=up_to(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(replies=REPLIES, acts=st.lists(ACTS, max_size=25))
def test_L1_L2_any_interleaving_is_grammatical_and_answered_and_every_turn_ends_once(
    tmp_path: Path, replies: list[Any], acts: list[tuple[str, int]]
) -> None:
    talk = asyncio.run(conversation(tmp_path, replies, acts, Log()))
    replied = {reply.ref: reply.failure for reply in talk.of(Reply)}
    sent = {f"r{number}": name for number, (name, _) in enumerate(acts) if name != "eof"}
    assert list(replied) == list(sent)
    accepted = [
        f"t{ref[1:]}" for ref, failure in replied.items() if not failure and sent[ref] in ("prompt", "interrupt")
    ]
    assert Counter(event.turn for event in talk.of(TurnEnded)) == Counter(accepted)
    assert Counter(ask.ask for ask in talk.of(Ask)) == Counter(closed.ask for closed in talk.of(AskClosed))


@settings(max_examples=up_to(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(replies=REPLIES, acts=st.lists(ACTS, max_size=15), full=st.sets(st.integers(1, 30), max_size=4))
def test_L1_T4_any_interleaving_with_a_disk_that_fails_now_and_then_is_grammatical_too(
    tmp_path: Path, replies: list[Any], acts: list[tuple[str, int]], full: set[int]
) -> None:
    asyncio.run(conversation(tmp_path, replies, acts, SpottyLog(full=lambda write: write in full)))
