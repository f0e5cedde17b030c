from pathlib import Path

import pytest

from dialects.pair import env
from polylect.dialects.jsonstream.dialect import DIALECT
from polylect.dialects.jsonstream.frames import table as frames
from polylect.vocab.commands import MalformedCommand, UnknownCommand
from polylect.vocab.events import MalformedEvent, UnknownEvent

DOCS = (Path(__file__).parents[3] / "docs" / "json-stream.md").read_text(encoding="utf-8")


def test_the_example_conversation_is_understood_and_said_as_it_stands_there() -> None:
    engine, host = DIALECT.engine_side(env()), DIALECT.host_side(env())
    said = ""
    for line in DOCS.splitlines():
        if line.startswith("→ "):
            commands = engine.receive(f"{line[2:]}\n".encode())
            assert not [command for command in commands if isinstance(command, MalformedCommand | UnknownCommand)]
            host.note_sent(f"{line[2:]}\n".encode())
        elif line.startswith("← "):
            for event in host.receive(f"{line[2:]}\n".encode()):
                assert not isinstance(event, MalformedEvent | UnknownEvent)
                engine.send(event)
            said += engine.data_to_send().decode()
    assert said.splitlines() == [line[2:] for line in DOCS.splitlines() if line.startswith("← ")]


@pytest.mark.parametrize("version", DIALECT.versions)
def test_every_word_of_the_wire_has_its_row(version: str) -> None:
    rows = [line.split("`")[1] for line in DOCS.splitlines() if line.startswith("| `")]
    assert set(frames.EVENTS[version]) | set(frames.COMMANDS[version]) <= set(rows)
