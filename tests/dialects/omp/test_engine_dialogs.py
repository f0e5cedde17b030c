"""Questions as dialogs, and things to show."""

from typing import Any

import pytest

from dialects.omp.engine_talk import EngineTalk, Frame, kinds
from polylect.dialects.omp.engine.dialogs import options_of
from polylect.vocab.commands import Answer
from polylect.vocab.content import Option, Rule
from polylect.vocab.events import Ask, AskClosed, Display

COLOURS = (Option("1", "red", "warm"), Option("2", "blue"))
PERMISSION = Ask("a1", call="c1", name="Bash", args={"command": "ls"}, title="Run ls", reason="outside")

DIALOGS: list[tuple[Ask, Frame]] = [
    (PERMISSION,
     {"method": "select", "title": "Run ls\noutside", "options": ["Allow once", "Allow always", "Deny"],
      "toolCallId": "c1", "toolName": "Bash", "args": {"command": "ls"}}),
    (Ask("a1", "choice", title="Which?", options=COLOURS, timeout_ms=9),
     {"method": "select", "title": "Which?", "options": ["red", "blue"],
      "optionDetails": [{"description": "warm"}, {"description": ""}], "timeout": 9}),
    (Ask("a1", "confirm", title="Confirm", reason="Continue?", timeout_ms=30000),
     {"method": "confirm", "title": "Confirm", "message": "Continue?", "timeout": 30000}),
    (Ask("a1", "text", title="Branch name", reason="feature/..."),
     {"method": "input", "title": "Branch name", "placeholder": "feature/..."}),
    (Ask("a1", "text", title="Edit", default="draft", timeout_ms=5),
     {"method": "editor", "title": "Edit", "prefill": "draft"}),
]  # fmt: skip

ANSWERS: list[tuple[Ask, Frame, Answer]] = [
    (PERMISSION, {"value": "Allow once"}, Answer("a1", "allow")),
    (PERMISSION, {"value": "Allow always"}, Answer("a1", "allow", always=Rule("command", "ls", tool="Bash"))),
    (PERMISSION, {"value": "Deny", "reason": "no"}, Answer("a1", "deny", reason="no")),
    (PERMISSION, {"value": "allow once"}, Answer("a1", "deny")),
    (PERMISSION, {"confirmed": True}, Answer("a1", "cancelled")),
    (PERMISSION, {"cancelled": True, "value": "Allow once"}, Answer("a1", "cancelled")),
    (PERMISSION, {"confirmed": False, "value": "Allow once"}, Answer("a1", "cancelled")),
    (PERMISSION, {"timedOut": True, "value": "Allow once"}, Answer("a1", "cancelled")),
    (Ask("a1", call="c1", name="Edit"), {"value": "Allow always"}, Answer("a1", "allow", always=Rule("tool", "Edit"))),
    (Ask("a1", "choice", options=COLOURS), {"value": "blue"}, Answer("a1", "allow", value="2")),
    (Ask("a1", "choice", options=COLOURS), {"value": "green"}, Answer("a1", "allow", value="green")),
    (Ask("a1", "choice", options=COLOURS, multiple=True), {"value": "red, blue"},
     Answer("a1", "allow", value=["1", "2"])),
    (Ask("a1", "confirm"), {"confirmed": True}, Answer("a1", "allow", value=True)),
    (Ask("a1", "confirm"), {"confirmed": False}, Answer("a1", "deny", value=False)),
    (Ask("a1", "confirm"), {"value": "yes"}, Answer("a1", "deny", value=False)),
    (Ask("a1", "text"), {"value": "feature/rpc-host"}, Answer("a1", "allow", value="feature/rpc-host")),
    (Ask("a1", "text"), {"cancelled": True, "timedOut": True}, Answer("a1", "cancelled")),
    (Ask("a1", "text"), {}, Answer("a1", "cancelled")),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "dialog"), DIALOGS)
def test_a_question_is_this_dialog(ask: Ask, dialog: Frame) -> None:
    assert EngineTalk().send(ask) == [{"type": "extension_ui_request", "id": "a1", **dialog}]


@pytest.mark.parametrize(("ask", "reply", "answer"), ANSWERS)
def test_a_reply_is_this_answer(ask: Ask, reply: Frame, answer: Answer) -> None:
    talk = EngineTalk()
    talk.send(ask)
    assert talk.receive({"type": "extension_ui_response", "id": "a1", **reply}) == []
    assert talk.commands == [answer]


QUESTION = Ask("a1", "choice", args={"header": "Paint"}, title="Which?", options=COLOURS, multiple=True, timeout_ms=9)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"selectedOptions": ["blue", "red"]}, Answer("a1", "allow", value=["2", "1"])),
        ({"selectedOptions": ["red"], "customInput": "a bit"}, Answer("a1", "allow", value=["1", "a bit"])),
        ({"customInput": "green"}, Answer("a1", "allow", value=["green"])),
        ({"selectedOptions": []}, Answer("a1", "cancelled")),
    ],
)
def test_a_host_that_shows_questions_can_choose_several(given: Frame, answer: Answer) -> None:
    talk = EngineTalk("18")
    [response] = talk.receive({"type": "set_ask_dialog", "id": "r1", "enabled": True})
    assert (response["success"], response["data"]) == (True, {"enabled": True})
    [requested] = talk.send(QUESTION)
    options = [{"label": "red", "description": "warm"}, {"label": "blue"}]
    question = {"id": "a1", "question": "Which?", "options": options, "header": "Paint", "multi": True}
    assert requested == {
        "type": "extension_ui_request", "id": "a1", "method": "ask", "timeout": 9, "questions": [question],
    }  # fmt: skip
    assert talk.receive({"type": "extension_ui_response", "id": "a1", "answers": [{"id": "a1", **given}]}) == []
    assert talk.commands == [answer]


def test_a_host_may_stop_to_show_questions() -> None:
    talk = EngineTalk("18")
    talk.receive({"type": "set_ask_dialog", "enabled": True}, {"type": "set_ask_dialog", "enabled": False})
    assert [frame["method"] for frame in talk.send(QUESTION)] == ["select"]


def test_unknown_late_and_second_answers_are_ignored_without_a_word() -> None:
    talk = EngineTalk()
    talk.send(Ask("a1", "confirm"), Ask("a2", "confirm"))
    talk.send(AskClosed("a2", "timeout"))
    yes: dict[str, Any] = {"type": "extension_ui_response", "confirmed": True}
    assert talk.receive({**yes, "id": "a1"}, {**yes, "id": "a1"}, {**yes, "id": "a2"}, {**yes, "id": "a3"}) == []
    assert talk.commands == [Answer("a1", "allow", value=True)]


def test_a_dialog_that_was_not_answered_is_taken_back_and_one_that_was_is_not() -> None:
    talk = EngineTalk()
    talk.send(Ask("a1", "confirm"), Ask("a2", "confirm"))
    talk.receive({"type": "extension_ui_response", "id": "a1", "confirmed": True})
    frames = talk.send(AskClosed("a1", "answered"), AskClosed("a2", "cancelled"))
    assert [(frame["method"], frame["targetId"]) for frame in frames] == [("cancel", "a2")]


@pytest.mark.parametrize("kind", ["form", "url"])
def test_what_no_dialog_can_ask_is_answered_at_once(kind: Any) -> None:
    """L1: else the engine would wait for ever."""
    talk = EngineTalk()
    assert talk.send(Ask("a1", kind)) == []
    assert talk.commands == [Answer("a1", "cancelled", reason=f"an omp host cannot show a {kind}")]


SHOWN: list[tuple[str, Frame]] = [
    ("notify", {"message": "hi", "notifyType": "warning"}),
    ("setStatus", {"statusKey": "k", "statusText": "busy"}),
    ("setWidget", {"widgetKey": "k", "widgetLines": ["a"], "widgetPlacement": "belowEditor"}),
    ("setTitle", {"title": "t"}),
    ("set_editor_text", {"text": "draft"}),
    ("open_url", {"url": "https://x"}),
]


@pytest.mark.parametrize(("method", "params"), SHOWN)
def test_things_to_show_travel_as_they_are(method: str, params: Frame) -> None:
    assert EngineTalk().send(Display(method, params)) == [
        {"type": "extension_ui_request", "id": "new-1", "method": method, **params}
    ]


def test_the_output_of_a_command_has_a_frame_and_what_nobody_can_show_is_counted() -> None:
    talk = EngineTalk()
    assert talk.send(Display("command_output", {"text": "x"})) == [{"type": "command_output", "text": "x"}]
    assert kinds(talk.send(Display("artifact", {}))) == []
    assert talk.side.lost["Display"] == 1


def test_A1_a_question_about_a_call_always_has_a_plain_yes_and_a_plain_no() -> None:
    """Claude offers only rules beside its yes and no; shown alone, any choice would have been a yes."""
    rules = (Option("0", "addRules: Bash(echo > deny.txt)", kind="allow_always"),)
    ask = Ask("a1", call="c1", name="Bash", args={"command": "echo"}, options=rules, turn="t1")
    assert [option.label for option in options_of(ask)] == ["Allow once", "Allow always", "Deny"]
