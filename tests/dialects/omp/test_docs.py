"""docs/omp-rpc.md: its conversation is one, and every word of the wire has its row."""

from pathlib import Path

from dialects.pair import env
from polylect.dialects.omp.dialect import DIALECT
from polylect.dialects.omp.engine.codec import EngineSide
from polylect.dialects.omp.frames.table import ANSWERS, EVENTS, REQUESTS
from polylect.vocab.content import Text, Usage
from polylect.vocab.events import (
    BlockEnded,
    Event,
    Ready,
    Reply,
    ReplyEnded,
    Settled,
    StepEnded,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

DOCS = (Path(__file__).parents[3] / "docs" / "omp-rpc.md").read_text(encoding="utf-8")
SPENT = Usage(10, 2)
TURN: list[Event] = [
    TurnStarted(turn="req_1"),
    UserMessage("Say hello", turn="req_1"),
    StepStarted(turn="req_1"),
    TextDelta("Hello.", turn="req_1"),
    BlockEnded(Text("Hello."), turn="req_1"),
    ReplyEnded("end", SPENT, "m", turn="req_1"),
    StepEnded(turn="req_1"),
    TurnEnded("end", SPENT, 1, turn="req_1"),
    Settled(),
]


def test_the_example_conversation_is_said_as_it_stands_there() -> None:
    engine = EngineSide(env(), slim=True)
    requested = [line[2:] for line in DOCS.splitlines() if line.startswith("→ ")]
    engine.send(Ready())
    (prompt,) = engine.receive("".join(f"{line}\n" for line in requested).encode())
    for event in (Reply(prompt.ref), *TURN):
        engine.send(event)
    said = engine.data_to_send().decode().splitlines()
    assert said == [line[2:] for line in DOCS.splitlines() if line.startswith("← ")]


def test_every_word_of_the_wire_is_named() -> None:
    named = {part for line in DOCS.splitlines() for part in line.split("`")[1::2]}
    assert {*EVENTS, *REQUESTS, *ANSWERS} - named <= {"response", "ready", "agent_settled"}


def test_the_versions_are_explained() -> None:
    assert f"| | {' | '.join(DIALECT.versions)} |" in DOCS
