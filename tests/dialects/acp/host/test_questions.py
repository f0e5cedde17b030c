"""Questions of agents: permissions with their options, and elicitations of every kind. Settings that a host makes."""

from typing import Any

import pytest

from dialects.acp.host.talk import OPTIONS, Talk, agent, opened, permission
from polylect.vocab import events as e
from polylect.vocab.answers import ContextReport, Ledger, ModelCard, State
from polylect.vocab.commands import Answer, CloseSession, Compact, Configure, Query
from polylect.vocab.content import Option, Rule, Usage

T = {"turn": "t1"}
ALWAYS = Rule("category", "exec")


def requested(talk: Talk) -> e.Ask:
    """The last question."""
    ask = talk.of(e.Ask)[-1]
    assert isinstance(ask, e.Ask)
    return ask


def refusal(events: list[e.Event]) -> str:
    (reply,) = events
    assert isinstance(reply, e.Reply)
    assert reply.failure
    return reply.failure.code


# Permissions.


@pytest.mark.parametrize(
    ("answer", "option"),
    [
        (Answer("0", "allow"), "yes"),
        (Answer("0", "allow", always=ALWAYS), "ever"),
        (Answer("0", "allow", value="ever"), "ever"),
        (Answer("0", "allow", value="no"), "yes"),
        (Answer("0", "deny"), "no"),
        (Answer("0", "deny", always=ALWAYS), "no"),
        (Answer("0", "deny", value="yes"), "no"),
        (Answer("0", "cancelled"), None),
    ],
)
def test_an_answer_chooses_an_option(answer: Answer, option: str | None) -> None:
    """Requirement 34 of docs/acp.md. An answer that is a no never chooses an option that allows."""
    talk = opened()
    talk.prompt()
    talk.receive(permission(0, {"toolCallId": "c", "title": "Run"}))
    talk.do(answer)
    chosen = {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}
    assert talk.sent[-1]["result"] == {"outcome": chosen}


@pytest.mark.parametrize(
    ("options", "verdict", "chosen"),
    [
        ([], "allow", None),
        ([OPTIONS[2]], "allow", None),
        ([OPTIONS[0]], "deny", None),
        ([OPTIONS[1]], "allow", "ever"),
        ([{"optionId": "a", "name": "No, thanks"}, {"optionId": "b", "name": "Yes, run it"}], "allow", "b"),
        ([{"optionId": "a", "name": "No, thanks"}, {"optionId": "b", "name": "Yes, run it"}], "deny", "a"),
        ([{"optionId": "a", "name": "Perhaps", "kind": "maybe"}], "allow", None),
    ],
)
def test_where_no_option_fits_nothing_is_chosen(options: list[Any], verdict: Any, chosen: str | None) -> None:
    talk = opened()
    talk.prompt()
    talk.receive(permission(0, {"toolCallId": "c", "title": "Run"}, options))
    talk.do(Answer("0", verdict))
    assert talk.sent[-1]["result"]["outcome"].get("optionId") == chosen


def test_other_arguments_cannot_be_said_and_the_question_stays_open() -> None:
    talk = opened()
    talk.prompt()
    talk.receive(permission(0, {"toolCallId": "c", "title": "Run", "rawInput": {"command": "rm"}}))
    before = len(talk.sent)
    assert refusal(talk.do(Answer("0", "allow", args={"command": "ls"}, ref="r"))) == "unsaid"
    assert talk.sent[before:] == []
    assert [type(event) for event in talk.do(Answer("0", "allow", args={"command": "rm"}))] == [e.AskClosed]


def test_a_no_that_ends_the_turn_cancels_it() -> None:
    talk = opened()
    talk.prompt()
    talk.receive(permission(0, {"toolCallId": "c", "title": "Run"}))
    talk.do(Answer("0", "deny", interrupt=True))
    assert talk.methods()[-2:] == ["result", "session/cancel"]


def test_a_question_without_a_call_or_a_session_is_refused() -> None:
    talk = opened()
    for params in ({}, {"sessionId": "s-1"}, {"sessionId": "s-1", "toolCall": {}, "options": []}):
        events = talk.receive({"id": 3, "method": "session/request_permission", "params": params})
        assert [type(event) for event in events] == [e.MalformedEvent]
        assert talk.sent[-1]["error"]["code"] == -32602


# Elicitations.


def ask_form(properties: dict[str, Any], **schema: Any) -> Talk:
    talk = opened()
    params = {"sessionId": "s-1", "mode": "form", "message": "Well?"}
    talk.receive(
        {
            "id": 5,
            "method": "elicitation/create",
            "params": {**params, "requestedSchema": {"type": "object", "properties": properties, **schema}},
        }
    )
    return talk


RED_AND_BLUE = [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue", "description": "cold"}]
OPTIONS_OF_ASK = (Option("r", "Red"), Option("b", "Blue", "cold"))


@pytest.mark.parametrize(
    ("field", "ask", "value", "content"),
    [
        ({"type": "boolean"}, e.Ask("5", "confirm", title="Well?"), None, {"x": True}),
        ({"type": "string", "default": "me"}, e.Ask("5", "text", title="Well?", default="me"), "you", {"x": "you"}),
        (
            {"type": "string", "oneOf": RED_AND_BLUE},
            e.Ask("5", "choice", title="Well?", options=OPTIONS_OF_ASK),
            "Blue",
            {"x": "b"},
        ),
        (
            {"type": "string", "enum": ["r"]},
            e.Ask("5", "choice", title="Well?", options=(Option("r", "r"),)),
            "r",
            {"x": "r"},
        ),
        (
            {"type": "array", "items": {"anyOf": RED_AND_BLUE}, "default": ["r"]},
            e.Ask("5", "choice", title="Well?", options=OPTIONS_OF_ASK, multiple=True, default="r"),
            ["Red", "b"],
            {"x": ["r", "b"]},
        ),
        (
            {"type": "array", "items": {"type": "string", "enum": ["r"]}},
            e.Ask("5", "choice", title="Well?", options=(Option("r", "r"),), multiple=True),
            "r",
            {"x": ["r"]},
        ),
    ],
)
def test_a_form_with_one_field_is_a_plain_question(field: Any, ask: e.Ask, value: Any, content: Any) -> None:
    talk = ask_form({"x": field})
    assert requested(talk) == ask
    talk.do(Answer("5", "allow", value=value))
    assert talk.sent[-1]["result"] == {"action": "accept", "content": content}
    assert talk.events[-1] == e.AskClosed("5", "answered")


def test_a_form_with_several_fields_is_a_form() -> None:
    properties = {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}}
    talk = ask_form(properties, required=["name"])
    ask = requested(talk)
    assert (ask.kind, ask.args["properties"], ask.args["required"]) == ("form", properties, ["name"])
    assert refusal(talk.do(Answer("5", "allow", value="Ada", ref="r"))) == "bad_answer"
    talk.do(Answer("5", "allow", value={"name": "Ada", "age": 36}))
    assert talk.sent[-1]["result"] == {"action": "accept", "content": {"name": "Ada", "age": 36}}


@pytest.mark.parametrize(
    ("verdict", "action", "how"), [("deny", "decline", "denied"), ("cancelled", "cancel", "cancelled")]
)
def test_a_question_can_be_declined(verdict: Any, action: str, how: Any) -> None:
    talk = ask_form({"x": {"type": "string"}})
    talk.do(Answer("5", verdict))
    assert talk.sent[-1]["result"] == {"action": action}
    assert talk.events[-1] == e.AskClosed("5", how)


def test_an_address_to_open_and_the_end_of_it() -> None:
    params = {
        "sessionId": "s-1",
        "mode": "url",
        "message": "Log in",
        "elicitationId": "el-1",
        "url": "https://example.org/in",
    }
    talk = opened()
    for answer_first in (True, False):
        talk.receive({"id": 5, "method": "elicitation/create", "params": params})
        assert requested(talk) == e.Ask("5", "url", title="Log in", args={"url": "https://example.org/in"})
        if answer_first:
            talk.do(Answer("5", "allow"))
        talk.receive({"method": "elicitation/complete", "params": {"elicitationId": "el-1"}})
        assert talk.sent[-1]["result"] == {"action": "accept"}
        assert talk.events[-1] == e.AskClosed("5", "answered")
    before = len(talk.sent)
    assert talk.receive({"method": "elicitation/complete", "params": {"elicitationId": "other"}}) == []
    assert talk.sent[before:] == []


def test_an_unknown_mode_is_refused() -> None:
    talk = opened()
    talk.receive(
        {"id": 5, "method": "elicitation/create", "params": {"sessionId": "s-1", "mode": "dance", "message": "?"}}
    )
    assert talk.sent[-1]["error"]["code"] == -32602


# Settings.

MODEL = {
    "id": "model",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "one",
    "options": [
        {"group": "g", "name": "G", "options": [{"value": "one", "name": "One"}, {"value": "two", "name": "Two"}]}
    ],
}
EFFORT = {
    "id": "effort",
    "name": "Effort",
    "category": "thought_level",
    "type": "select",
    "currentValue": "low",
    "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}],
}
FAST = {"id": "fast", "name": "Fast", "category": "model_config", "type": "boolean", "currentValue": False}
ODD = {"id": "odd", "name": "Odd", "type": "slider", "currentValue": 3}


def test_options_of_every_kind() -> None:
    talk = opened(session={"configOptions": [MODEL, EFFORT, FAST, ODD, 7]})
    (ready,) = talk.of(e.Ready)
    assert isinstance(ready, e.Ready)
    assert (ready.model, ready.abilities.thinking, ready.abilities.effort_levels) == ("one", True, ("low", "high"))
    talk.do(Configure({"model": "two", "effort": "high", "fast": True}, ref="c"))
    sent = [line["params"] for line in talk.sent if line["method"] == "session/set_config_option"]
    assert sent == [
        {"sessionId": "s-1", "configId": "model", "value": "two"},
        {"sessionId": "s-1", "configId": "effort", "value": "high"},
        {"sessionId": "s-1", "configId": "fast", "value": True, "type": "boolean"},
    ]
    changed = [{**MODEL, "currentValue": "two"}, {**EFFORT, "currentValue": "high"}, {**FAST, "currentValue": True}]
    first, second, third = (line["id"] for line in talk.sent if line["method"] == "session/set_config_option")
    events = talk.receive({"id": first, "result": {"configOptions": changed}})
    assert events == [
        e.SettingChanged("model", "two"),
        e.SettingChanged("thinking", "high"),
        e.SettingChanged("fast", True),
    ]
    assert talk.receive({"id": second, "result": {"configOptions": changed}}) == []
    assert talk.receive({"id": third, "result": {"configOptions": changed}}) == [e.Reply("c")]
    assert refusal(talk.do(Configure({"model": "three"}, ref="d"))) == "bad_setting"
    assert refusal(talk.do(Configure({"odd": 4}, ref="d"))) == "unsaid"


def test_a_change_that_the_agent_refuses_changes_nothing() -> None:
    talk = opened(session={"configOptions": [MODEL]})
    talk.do(Configure({"model": "two"}, ref="c"))
    assert refusal(talk.answer("session/set_config_option", code=-32602, message="no")) == "bad_params"
    assert talk.of(e.SettingChanged) == []


def test_models_that_are_withdrawn_from_the_protocol_can_still_be_chosen() -> None:
    models = {
        "currentModelId": "one",
        "availableModels": [{"modelId": "one", "name": "One"}, {"modelId": "two", "name": "Two"}],
    }
    talk = opened(session={"models": models})
    talk.do(Query("models", ref="q"))
    assert talk.events[-1] == e.Reply("q", (ModelCard("", "one"), ModelCard("", "two")))
    talk.do(Configure({"model": "two"}, ref="c"))
    assert talk.request("session/set_model")["params"] == {"sessionId": "s-1", "modelId": "two"}
    assert talk.answer("session/set_model", {}) == [e.SettingChanged("model", "two"), e.Reply("c")]


def test_mode_and_model_are_set_before_the_session_counts_as_ready() -> None:
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]}
    talk = Talk(mode="plan", model="two")
    talk.prompt()
    talk.answer("initialize", agent())
    assert talk.answer("session/new", {"sessionId": "s-1", "modes": modes, "configOptions": [MODEL]}) == []
    assert talk.answer("session/set_mode", {}) == []
    events = talk.answer("session/set_config_option", {"configOptions": [{**MODEL, "currentValue": "two"}]})
    assert [type(event) for event in events] == [e.Ready, e.TurnStarted, e.UserMessage]
    (ready,) = talk.of(e.Ready)
    assert isinstance(ready, e.Ready)
    assert (ready.mode, ready.model) == ("plan", "two")


def test_a_mode_that_cannot_be_had_ends_the_start() -> None:
    for session in ({}, {"modes": {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}}):
        talk = Talk(mode="plan")
        talk.answer("initialize", agent())
        talk.answer("session/new", {"sessionId": "s-1", **session})
        assert talk.host.start_failure
        assert "mode" in talk.host.start_failure.message
        assert talk.of(e.Ready) == []


def test_a_title_is_set_where_the_agent_has_that() -> None:
    talk = opened()
    talk.do(Configure({"name": "A talk"}, ref="c"))
    assert talk.request("session/set_title")["params"] == {"sessionId": "s-1", "title": "A talk"}
    assert talk.answer("session/set_title", {"title": "A talk"}) == [e.SettingChanged("title", "A talk"), e.Reply("c")]


def test_a_compaction_is_a_prompt_where_the_agent_has_a_command_for_it() -> None:
    talk = opened()
    assert refusal(talk.do(Compact(ref="r"))) == "unsaid"
    talk.update("available_commands_update", availableCommands=[{"name": "compact", "description": "x"}])
    talk.do(Compact("keep the plan", ref="r"))
    assert talk.request("session/prompt")["params"]["prompt"][0]["text"] == "/compact keep the plan"


def test_a_session_is_deleted() -> None:
    talk = opened()
    talk.do(CloseSession("s-9", delete=True, ref="d"))
    assert talk.request("session/delete")["params"] == {"sessionId": "s-9"}
    assert talk.answer("session/delete", None) == [e.Reply("d")]


def test_what_this_end_knows_by_itself() -> None:
    talk = opened(session={"configOptions": [MODEL, EFFORT]})
    talk.update("usage_update", used=5, size=9, cost={"amount": 0.5, "currency": "USD"})
    for what, data in (
        ("state", State("s-1", "one", "", "low", context=5)),
        ("cost", Ledger(Usage(cost=0.5))),
        ("context", ContextReport(5, 9)),
        ("thinking_levels", ("low", "high")),
        ("commands", ()),
    ):
        assert talk.do(Query(what, ref="q")) == [e.Reply("q", data)]
    assert refusal(talk.do(Query("messages", ref="q"))) == "unsaid"
