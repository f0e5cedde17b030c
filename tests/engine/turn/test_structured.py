"""Answers that have to fit a JSON Schema."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Hang, Talk, converse, run
from machine import within
from polylect.engine.turn.structured import MOST_TRIES, NAME, StructuredOutput, fault_in_schema
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Cancel, Configure, Hello, Prompt, Steer
from polylect.vocab.content import Failure
from polylect.vocab.events import Ask, Reply, SettingChanged, StructuredAnswer, ToolFinished, TurnEnded, UserMessage

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


def gives(**args: Any) -> dict[str, Any]:
    return {"say": [{"call": NAME, "args": args}]}


def script(*replies: dict[str, Any]) -> Scripted:
    return Scripted.from_values({"reply": [{"when": {"step": step + 1}, **one} for step, one in enumerate(replies)]})


def answered(folder: Path, *replies: dict[str, Any], **options: Any) -> Talk:
    return converse(folder, script(*replies), [Prompt("t1", "who?")], Echo(), **{"json_schema": SCHEMA, **options})


def values(talk: Talk) -> list[Any]:
    return [event.value for event in talk.of(StructuredAnswer)]


@pytest.mark.parametrize("mode", ["default", "plan", "dont_ask"])
def test_a_value_that_fits_ends_the_turn_and_nobody_is_asked(tmp_path: Path, mode: str) -> None:
    talk = answered(tmp_path, gives(name="Ada", age=36), mode=mode)
    assert values(talk) == [{"name": "Ada", "age": 36}]
    assert [(event.reason, event.steps) for event in talk.of(TurnEnded)] == [("end", 1)]
    assert talk.of(Ask) == []


def test_a_value_that_does_not_fit_is_sent_back_with_its_faults(tmp_path: Path) -> None:
    talk = answered(tmp_path, gives(age="old"), gives(name="Ada"))
    bad, good = talk.of(ToolFinished)
    assert bad.outcome == "error"
    assert "- $: 'name' is a required property\n- $.age: 'old' is not of type 'integer'" in bad.output
    assert good.outcome == "ok"
    assert values(talk) == [{"name": "Ada"}]


def test_an_answer_in_words_is_sent_back_with_a_reminder(tmp_path: Path) -> None:
    replies = [{"when": {"prompt": NAME}, **gives(name="Ada")}, {"say": ["It is Ada."]}]
    talk = converse(
        tmp_path, Scripted.from_values({"reply": replies}), [Prompt("t1", "who?")], Echo(), json_schema=SCHEMA
    )
    [_, reminder] = talk.of(UserMessage)
    assert (reminder.origin, NAME in reminder.text) == ("engine", True)
    assert values(talk) == [{"name": "Ada"}]


def test_other_work_comes_first(tmp_path: Path) -> None:
    talk = answered(tmp_path, {"say": [{"call": "Echo", "args": {"text": "x"}}]}, gives(name="Ada"))
    assert [event.name for event in talk.of(ToolFinished)] == ["Echo", NAME]
    assert values(talk) == [{"name": "Ada"}]


@pytest.mark.parametrize("reply", [{"say": ["Ada"]}, gives(age=1)], ids=["words", "misfits"])
def test_a_model_that_never_gives_it_ends_after_some_tries(tmp_path: Path, reply: dict[str, Any]) -> None:
    talk = converse(tmp_path, Scripted.from_values({"reply": [reply]}), [Prompt("t1", "?")], json_schema=SCHEMA)
    [ended] = talk.of(TurnEnded)
    assert (ended.reason, ended.steps) == ("error", MOST_TRIES)
    assert ended.failure == Failure("structured_output", "no answer that fits the schema after 5 attempts", "provider")
    assert values(talk) == []


def test_a_message_that_joins_the_turn_is_heard_before_it_ends(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "who?"))
        await talk.until(ToolFinished)
        talk.send(Steer("Not her.", when="last"))

    model = script(gives(name="Ada"), gives(name="Grace"))
    talk = run(conversation, tmp_path, model, json_schema=SCHEMA)
    assert values(talk) in ([{"name": "Grace"}], [{"name": "Ada"}])  # it may have come too late


def test_a_turn_that_is_stopped_owes_no_answer(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "who?"))
        await hang.started.wait()
        talk.send(Cancel())

    hang = Hang()
    talk = run(conversation, tmp_path, script({"say": [{"call": "Hang"}]}), hang, json_schema=SCHEMA)
    assert [event.reason for event in talk.of(TurnEnded)] == ["cancelled"]


def test_a_schema_can_be_set_and_taken_back_and_the_host_knows_of_the_tool(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Hello(), Configure({"json_schema": SCHEMA}, ref="on"), Prompt("t1", "who?"))
        await talk.until(TurnEnded)
        talk.send(Configure({"json_schema": {}}, ref="off"), Prompt("t2", "and in words?"))

    model = Scripted.from_values({"reply": [{"when": {"prompt": "words"}, "say": ["Ada"]}, gives(name="Ada")]})
    talk = run(conversation, tmp_path, model)
    assert [event.failure for event in talk.of(Reply)] == [None, None]
    assert values(talk) == [{"name": "Ada"}]
    tools = [event.value for event in talk.of(SettingChanged) if event.key == "tools"]
    assert [NAME in result for result in tools] == [False, True, False]


def test_a_schema_that_is_none_is_refused(tmp_path: Path) -> None:
    talk = converse(tmp_path, Scripted.in_order("unused"), [Configure({"json_schema": {"type": "thing"}}, ref="bad")])
    [reply] = talk.of(Reply)
    assert reply.failure
    assert reply.failure.code == "bad_setting"


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (SCHEMA, ""),
        ({"$schema": "https://unknown.example/schema", "type": "object"}, ""),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "string"}}}, ""),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}, ""),
        ([], "a JSON Schema is an object"),
        ({"type": "array"}, "the answer has to be an object, not of the type 'array'"),
        ({"properties": {"a": {"type": "text"}}}, "at $.properties.a.type: 'text' is not valid"),
        ({"properties": {"a": {"$ref": "https://other.example/a"}}}, "it refers to 'https://other.example/a'"),
    ],
)
def test_what_is_wrong_with_a_schema_is_told_before_anything_starts(schema: Any, fault: str) -> None:
    actual = fault_in_schema(schema)
    assert actual.startswith(fault)
    assert bool(actual) == bool(fault)


def test_the_validator_is_loaded_only_for_a_schema() -> None:
    code = "import sys, polylect.engine.engine; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def test_a_pattern_that_takes_for_ever_does_not_stop_the_engine_l4() -> None:
    form = StructuredOutput({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
    with within(5):
        assert "does not match" in form._faults({"a": "a" * 48 + "!"})
        assert form._faults({"a": "aaa"}) == ""


def test_nor_does_one_that_is_given_a_thousand_texts_l4() -> None:
    texts = {"type": "array", "items": {"type": "string", "pattern": "^(a|aa)+$"}}
    form = StructuredOutput({"type": "object", "properties": {"a": texts}})
    with within(5):
        assert "does not match" in form._faults({"a": ["a" * 48 + "!"] * 1000})
