"""The schemas of all wires, and the TypeScript types that are made of them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schemas import generate
from schemas.typescript import declarations

from conversations import CONVERSATIONS
from dialects import everything
from dialects.native_schema import valid
from dialects.pair import DIALECTS, Pair, env
from polylect.dialects.base import Dialect
from polylect.dialects.native.dialect import DIALECT as NATIVE
from polylect.vocab import events as e
from polylect.vocab.commands import Command
from polylect.vocab.item import Item
from polylect.vocab.json_form import COMMANDS, EVENTS, VALUES
from vocab.any_value import values_of

FOLDER = Path(generate.__file__).parent
ENDS = [(dialect, version) for dialect in DIALECTS for version in dialect.shapes]
NAMES = [f"{dialect.name} {version}" for dialect, version in ENDS]
a_few = settings(max_examples=5, deadline=None)
Lines = list[dict[str, Any]]


@pytest.mark.parametrize("name", FILES := generate.files(), ids=list(FILES))
def test_the_file_in_the_tree_is_what_the_shapes_say(name: str) -> None:
    """If this fails: `python -m schemas.generate`, and look at what changed."""
    assert (FOLDER / name).read_text(encoding="utf-8") == FILES[name]


@pytest.mark.parametrize(("dialect", "version"), ENDS, ids=NAMES)
def test_every_frame_is_in_the_schema_of_its_direction(dialect: Dialect, version: str) -> None:
    actual = generate.schema(dialect, version)
    for direction, shapes in dialect.shapes[version].items():
        listed = [actual["$defs"][ref["$ref"].rpartition("/")[2]] for ref in actual["$defs"][direction]["anyOf"]]
        for part, name in zip(listed, shapes, strict=True):
            check_name(part["properties"], name)
    assert msgspec.json.encode(msgspec.json.decode(text := msgspec.json.encode(actual))) == text


def check_name(fields: dict[str, Any], name: str) -> None:
    """The schema of a frame says its name; results and errors of JSON-RPC have none."""
    if "type" in fields:
        assert fields["type"]["enum"] == [name.partition("/")[0]]
    elif "method" in fields:
        assert fields["method"]["enum"] == [name]
    else:
        assert {"result", "error"} & set(fields)


# The schema of the native wire is all that a host author has, so it is held against what goes over the wire.


def engine_lines(events: list[e.Event]) -> Lines:
    side = NATIVE.engine_side(env())
    for event in events:
        side.send(event)
    return [json.loads(line) for line in side.data_to_send().splitlines()]


def host_lines(commands: list[Command]) -> Lines:
    side = NATIVE.host_side(env())
    for command in commands:
        side.send(command)
    return [json.loads(line) for line in side.data_to_send().splitlines()]


@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=list(CONVERSATIONS))
def test_a_conversation_on_the_native_wire_fits_its_schema(conversation: list[e.Event]) -> None:
    pair = Pair(NATIVE, "1")
    pair.play(conversation)
    valid("events", map(json.loads, pair.to_host.splitlines()))
    valid("commands", map(json.loads, pair.to_engine.splitlines()))


def test_everything_that_can_be_said_fits_the_schema() -> None:
    events, commands = engine_lines(everything.EVENTS), host_lines(everything.COMMANDS)
    valid("events", events)
    valid("commands", [*commands, {"type": "ping"}, {"type": "attach", "after": 3, "stream": "x", "ref": "r"}])
    assert {line["type"] for line in events} == set(NATIVE.shapes["1"]["events"])


@pytest.mark.parametrize("kind", [*EVENTS.values(), *COMMANDS.values()], ids=[*EVENTS, *COMMANDS])
@given(data=st.data())
@a_few
def test_whatever_the_fields_have_fits_the_schema(kind: type[Item], data: st.DataObject) -> None:
    item = data.draw(values_of(kind))
    line: dict[str, Any] = json.loads(item.to_json())
    if isinstance(item, e.Event):
        envelope = {"protocol": "polylect-native", "protocol_version": "1.0", "stream": "x"}
        valid("events", [{"seq": 1, **(envelope if isinstance(item, e.Ready) else {}), **line}])
    else:
        valid("commands", [line])


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
@a_few
def test_a_value_fits_what_its_data_type_names(name: str, data: st.DataObject) -> None:
    value = data.draw(values_of(VALUES[name]))
    replies = [e.Reply("r", answer) for answer in (value, (value, value), (1, "x"), None)]
    lines = engine_lines([*replies, e.SettingChanged("x", value)])
    valid("events", lines)
    assert [line.get("data_type", line.get("value_type")) for line in lines] == [name, f"{name}[]", "[]", None, name]


def test_a_line_that_is_no_event_does_not_fit() -> None:
    with pytest.raises(AssertionError, match="'text' is a required property"):
        valid("events", [{"seq": 1, "type": "text_delta"}])
    with pytest.raises(AssertionError, match="'mood' was unexpected"):
        valid("events", [{"seq": 1, "type": "settled", "mood": "calm"}])


def test_typescript_for_what_it_does_not_know_is_an_error() -> None:
    frames = {"anyOf": [{"$ref": "#/$defs/Odd"}]}
    odd = {"properties": {"type": {"enum": ["odd"]}, "x": {"not": {}}}, "required": ["type"]}
    with pytest.raises(ValueError, match="there is no TypeScript for"):
        declarations({"title": "odd", "$defs": {"events": frames, "commands": frames, "Odd": odd}}, "odd.json")
