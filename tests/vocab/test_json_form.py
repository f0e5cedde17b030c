"""Every event and command survives JSON unchanged, and what a newer version has added survives too."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialects.everything import COMMANDS, EVENTS
from polylect.vocab import answers, content
from polylect.vocab.commands import Command, UnknownCommand
from polylect.vocab.events import Event, Reply, SettingChanged, TextDelta, TurnEnded, UnknownEvent
from polylect.vocab.item import Item
from polylect.vocab.json_form import COMMANDS as COMMAND_TYPES
from polylect.vocab.json_form import EVENTS as EVENT_TYPES
from polylect.vocab.json_form import VALUES
from vocab.any_value import values_of

every_event = pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=EVENT_TYPES)
every_command = pytest.mark.parametrize("kind", COMMAND_TYPES.values(), ids=COMMAND_TYPES)
a_few = settings(max_examples=10, deadline=None)


@every_event
@given(data=st.data())
@a_few
def test_every_event_survives(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(values_of(kind))
    assert Event.from_json(event.to_json()) == event


@every_command
@given(data=st.data())
@a_few
def test_every_command_survives(kind: type[Command], data: st.DataObject) -> None:
    command = data.draw(values_of(kind))
    assert Command.from_json(command.to_json()) == command


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
@a_few
def test_an_answer_keeps_its_type(name: str, data: st.DataObject) -> None:
    value = data.draw(values_of(VALUES[name]))
    for answer in (value, (value, value)):
        reply = Reply("1", answer)
        arrived = Event.from_json(reply.to_json())
        assert arrived == reply
        assert isinstance(arrived, Reply)
        assert type(arrived.data) is type(answer)
    setting = SettingChanged("x", value)
    assert Event.from_json(setting.to_json()) == setting


def test_the_type_of_an_answer_is_named_only_where_it_is_not_plain_json() -> None:
    named = {
        "state": answers.State("s"),
        "model_card[]": (answers.ModelCard("p", "m"),),
        "rule[]": (content.Rule("tool", "Bash"),),
        "[]": (),
        None: {"type": "state"},
    }
    assert {Reply("1", data).to_dict().get("data_type"): data for data in named.values()} == named


@pytest.mark.parametrize("item", [*EVENTS, *COMMANDS], ids=lambda item: type(item).__name__)
def test_it_is_an_object_with_a_type_and_the_names_of_its_fields(item: Item) -> None:
    fields = json.loads(item.to_json())
    assert fields == json.loads(json.dumps(item.to_dict(), default=list))
    assert fields.pop("type") == type(item).__struct_config__.tag
    assert set(fields) <= {*type(item).__struct_fields__, "data_type", "value_type"} - {"unknown_fields"}


NEWER = (
    {"type": "text_delta", "text": "x", "turn": "t", "shade": "red"},
    {"type": "turn_ended", "reason": "end", "usage": {"input": 3, "audio": 5}},
    {"type": "turn_ended", "reason": "end", "usage": {"audio": 5}},
    {"type": "ask", "ask": "1", "options": [{"id": "1", "label": "x"}, {"id": "2", "label": "y", "key": "k"}]},
    {"type": "turn_ended", "reason": "tired"},
    {"type": "turn_ended", "reason": "tired", "failure": {"code": "c", "message": "m", "owner": "nobody"}, "new": 1},
    {"type": "plan_changed", "items": [{"text": "a"}, {"text": "b", "status": "resting", "priority": "none"}]},
    {"type": "block_ended", "block": {"type": "tool_result", "call": "c", "name": "n", "output": "", "outcome": "odd"}},
    {
        "type": "reply",
        "ref": "1",
        "data": [{"name": "a"}, {"name": "b", "status": "ill"}],
        "data_type": "server_card[]",
    },
    {"type": "reply", "ref": "1", "data": {"a": 1}, "data_type": "something_new"},
    {"type": "reply", "ref": "1", "data": {"session": "s", "weather": "fine"}, "data_type": "state"},
)


@pytest.mark.parametrize("fields", NEWER, ids=json.dumps)
def test_fields_of_a_newer_version_are_passed_on(fields: dict[str, Any]) -> None:
    event = Event.from_json(json.dumps(fields))
    assert not isinstance(event, UnknownEvent)
    assert json.loads(event.to_json()) == fields
    assert Event.from_json(event.to_json()) == event


def test_a_field_that_is_sent_at_its_default_is_not_an_unknown_one() -> None:
    event = Event.from_json('{"type":"text_delta","text":"x","turn":"","agent":"","session":""}')
    assert event == TextDelta("x")


def test_types_of_a_newer_version_are_kept_with_their_text() -> None:
    text = '{"type":"weather","turn":"t","session":"s","rain":true}'
    assert Event.from_json(text) == UnknownEvent("weather", text.encode(), turn="t", session="s")
    command = '{"type":"water","ref":"1"}'
    assert Command.from_json(command) == UnknownCommand("water", command.encode(), ref="1")


def test_a_word_that_is_not_known_is_kept_in_an_event_and_refused_in_a_command() -> None:
    event = Event.from_json('{"type":"turn_ended","reason":"tired","failure":{"code":"c","message":"m","owner":"us"}}')
    assert isinstance(event, TurnEnded)
    assert (event.reason, event.failure and event.failure.owner) == ("tired", "us")
    with pytest.raises(ValueError, match="cancel: what: 'all' is none of turn, retry"):
        Command.from_json('{"type":"cancel","what":"all"}')


def test_a_lone_surrogate_survives() -> None:
    event = TextDelta("half \ud83d of it")
    assert Event.from_json(event.to_json()) == event


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1]", "expected a JSON object"),
        ("{", "Expecting property name"),
        ('{"text":"x"}', 'the object has no "type"'),
        ('{"type":7}', 'the object has no "type"'),
        ('{"type":"text_delta"}', "text_delta: the field text is missing"),
        ('{"type":"text_delta","text":7}', "text_delta: text: expected a string, got a whole number"),
        ('{"type":"reply","ref":"1","data":7,"data_type":"state"}', "reply: expected an object, got a whole number"),
        ('{"type":"settled","unknown_fields":{}}', '"unknown_fields" is not a field on the wire'),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Event.from_json(text)


def test_the_repr_leaves_defaults_out() -> None:
    assert repr(TurnEnded("end", turn="t")) == "TurnEnded(reason='end', turn='t')"
