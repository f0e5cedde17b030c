"""What the engine asks of the host: permissions, questions, hooks and servers inside it (sections 2.3 and 4)."""

from typing import Any

import pytest

from dialects.claude.engine_driver import EngineDriver
from polylect.vocab.commands import Answer, Command, Configure, Grant, HostReply, MalformedCommand
from polylect.vocab.content import Category, Option, Rule
from polylect.vocab.events import (
    Ask,
    AskClosed,
    HostCall,
    HostCallEnded,
    ToolCalled,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)

INPUT = {"command": "rm a"}


def ask(
    driver: EngineDriver, name: str = "Bash", args: dict[str, Any] | None = None, category: Category = "exec"
) -> dict[str, Any]:
    """The request as the host sees it."""
    turn = driver.prompt()
    tool_input = INPUT if args is None else args
    driver.send(TurnStarted(turn=turn), ToolCalled("c1", name, tool_input, turn=turn))
    driver.send(
        Ask("a1", call="c1", name=name, args=tool_input, category=category, title="Run it", reason="risky", turn=turn)
    )
    frame = driver.frames[-1]
    assert (frame["type"], frame["request_id"]) == ("control_request", "a1")
    request: dict[str, Any] = frame["request"]
    return request


def test_a_permission_is_asked_for_with_what_would_spare_the_next_ask() -> None:
    assert ask(EngineDriver()) == {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "display_name": "Bash",
        "input": INPUT,
        "tool_use_id": "c1",
        "description": "Run it",
        "permission_suggestions": [
            {
                "type": "addRules",
                "rules": [{"toolName": "Bash", "ruleContent": "rm a"}],
                "behavior": "allow",
                "destination": "session",
            }
        ],
        "decision_reason": "risky",
        "title": "Run it",
    }
    edit = ask(EngineDriver(), "Write", {"file_path": "a"}, "edit")
    assert edit["permission_suggestions"] == [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]


ANSWERS: list[tuple[Any, list[Command]]] = [
    ({"behavior": "allow"}, [Answer("a1", "allow")]),
    ({"behavior": "allow", "updatedInput": INPUT}, [Answer("a1", "allow")]),
    ({"behavior": "allow", "updatedInput": {"command": "ls"}}, [Answer("a1", "allow", args={"command": "ls"})]),
    ({"behavior": "deny", "message": "no"}, [Answer("a1", "deny", reason="no")]),
    ({"behavior": "deny", "message": "stop", "interrupt": True}, [Answer("a1", "deny", reason="stop", interrupt=True)]),
    ({"behavior": "perhaps"}, [Answer("a1", "deny", reason="the answer to the permission request was not valid")]),
    (None, [Answer("a1", "deny", reason="the answer to the permission request was not valid")]),
    (["allow"], [Answer("a1", "deny", reason="the answer to the permission request was not valid")]),
    (
        {"behavior": "allow", "updatedInput": "ls"},
        [Answer("a1", "deny", reason="the answer to the permission request had no valid updatedInput")],
    ),
]


@pytest.mark.parametrize(("payload", "commands"), ANSWERS)
def test_anything_but_a_clear_yes_is_a_no(payload: Any, commands: list[Command]) -> None:
    """A1."""
    driver = EngineDriver()
    ask(driver)
    assert driver.respond("a1", payload) == commands
    assert driver.names == []
    [second] = driver.respond("a1", {"behavior": "allow"})
    assert isinstance(second, MalformedCommand)
    assert driver.names == ["system/informational"]


def test_a_host_that_fails_to_answer_has_said_no() -> None:
    driver = EngineDriver()
    ask(driver)
    assert driver.respond("a1", error="crashed") == [
        Answer("a1", "deny", reason="Tool permission request failed: crashed")
    ]


UPDATES: list[tuple[dict[str, Any], list[Command]]] = [
    (
        {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "git log:*"}], "behavior": "allow"},
        [Answer("a1", "allow", always=Rule("prefix", "git log", tool="Bash"))],
    ),
    (
        {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "ls"}], "behavior": "allow"},
        [Answer("a1", "allow", always=Rule("command", "ls", tool="Bash"))],
    ),
    (
        {"type": "addRules", "rules": [{"toolName": "Read"}, {"toolName": "Edit", "ruleContent": "src/a"}],
         "behavior": "allow"},
        [Grant(rule=Rule("path", "/w/src/a", tool="Edit")), Answer("a1", "allow", always=Rule("tool", "Read"))],
    ),
    (
        {"type": "addRules", "rules": [{"toolName": "WebFetch", "ruleContent": "domain:X.org"}], "behavior": "deny"},
        [Grant(rule=Rule("domain", "x.org", effect="deny", tool="WebFetch")), Answer("a1", "allow")],
    ),
    (
        {"type": "removeRules", "rules": [{"toolName": "Read", "ruleContent": "//etc"}], "behavior": "allow"},
        [Grant(rule=Rule("path", "/etc", False, tool="Read"), revoke=True), Answer("a1", "allow")],
    ),
    ({"type": "setMode", "mode": "acceptEdits"}, [Configure({"mode": "auto_edit"}), Answer("a1", "allow")]),
    ({"type": "addDirectories", "directories": ["/b"]}, [Grant(rule=Rule("path", "/b")), Answer("a1", "allow")]),
]  # fmt: skip


@pytest.mark.parametrize(("update", "commands"), UPDATES)
def test_an_answer_may_change_what_is_asked_for_later(update: dict[str, Any], commands: list[Command]) -> None:
    driver = EngineDriver()
    ask(driver)
    assert driver.respond("a1", {"behavior": "allow", "updatedPermissions": [update]}) == commands


def rules(kind: str, *named: tuple[str, Any], behavior: str = "allow") -> dict[str, Any]:
    return {
        "type": kind,
        "rules": [{"toolName": tool, "ruleContent": content} for tool, content in named],
        "behavior": behavior,
    }


@pytest.mark.parametrize("content", [{"x": 1}, 5, [], "", "  ", False])
def test_a_rule_whose_content_is_no_text_is_skipped_and_never_all_of_the_tool(content: Any) -> None:
    driver = EngineDriver()
    ask(driver)
    updates = [rules("addRules", ("Bash", content), ("Bash", "ls"))]
    answer = Answer("a1", "allow", always=Rule("command", "ls", tool="Bash"))
    assert driver.respond("a1", {"behavior": "allow", "updatedPermissions": updates}) == [answer]
    assert driver.names == ["system/informational"]


@pytest.mark.parametrize("command", ["echo " + "a" * 300, "rm *", "rm -r:*", "", 5])
def test_nothing_is_suggested_for_a_command_that_no_rule_means_exactly(command: Any) -> None:
    assert "permission_suggestions" not in ask(EngineDriver(), args={"command": command})


def test_rules_that_replace_others_take_back_what_earlier_answers_granted() -> None:
    driver = EngineDriver()
    ask(driver)
    first = [rules("addRules", ("Bash", "echo:*")), rules("addRules", ("Bash", "rm"), behavior="deny")]
    driver.respond("a1", {"behavior": "allow", "updatedPermissions": first})
    driver.send(Ask("a2", call="c2", name="Bash", args=INPUT))
    updates = [rules("replaceRules", ("Write", None)), rules("replaceRules", ("Bash", 5))]
    assert driver.respond("a2", {"behavior": "allow", "updatedPermissions": updates}) == [
        Grant(rule=Rule("prefix", "echo", tool="Bash"), revoke=True),
        Grant(rule=Rule("tool", "Write")),
        Answer("a2", "allow"),
    ]


def test_a_rule_that_is_added_and_removed_in_one_answer_is_not_there() -> None:
    driver = EngineDriver()
    ask(driver)
    updates = [rules("addRules", ("Bash", "ls")), rules("removeRules", ("Bash", "ls"))]
    rule = Rule("command", "ls", tool="Bash")
    assert driver.respond("a1", {"behavior": "allow", "updatedPermissions": updates}) == [
        Grant(rule=rule),
        Grant(rule=rule, revoke=True),
        Answer("a1", "allow"),
    ]


def test_a_change_that_nobody_understands_is_told_and_the_yes_stands() -> None:
    driver = EngineDriver()
    ask(driver)
    updates = [{"type": "addWishes"}, {"type": "addRules", "rules": [{"toolName": "Edit", "ruleContent": "~/a"}],
               "behavior": "allow"}]  # fmt: skip
    assert driver.respond("a1", {"behavior": "allow", "updatedPermissions": updates}) == [Answer("a1", "allow")]
    assert driver.names == ["system/informational", "system/informational"]


def test_input_too_long_to_show_can_be_allowed_and_not_changed() -> None:
    """The Python SDK always sends back what it was shown: that must not become what runs."""
    args = {"content": "x" * 2_000_000}
    for change, verdict in ((False, "allow"), (True, "deny")):
        driver = EngineDriver()
        shown = ask(driver, "Write", args, "edit")["input"]
        assert len(shown["content"]) < 1_000_000
        updated = {**shown, "file_path": "b"} if change else shown
        [answer] = driver.respond("a1", {"behavior": "allow", "updatedInput": updated})
        assert isinstance(answer, Answer)
        assert (answer.verdict, answer.args) == (verdict, None)


def test_nobody_is_asked_where_nobody_answers() -> None:
    driver = EngineDriver(prompts=False)
    turn = driver.prompt()
    driver.send(TurnStarted(turn=turn), ToolCalled("c1", "Bash", INPUT, turn=turn))
    [answer] = driver.send(Ask("a1", call="c1", name="Bash", args=INPUT, turn=turn))
    assert isinstance(answer, Answer)
    assert answer.verdict == "deny"
    driver.send(AskClosed("a1", "denied", turn=turn), ToolFinished("c1", "Bash", "denied", "denied", turn=turn))
    driver.send(TurnEnded("end", turn=turn))
    frames = driver.frames
    assert [frame.get("subtype") for frame in frames[2:]] == ["permission_denied", None, "success"]
    assert frames[-1]["permission_denials"]


def test_an_ask_that_is_over_is_taken_back() -> None:
    driver = EngineDriver()
    ask(driver)
    driver.send(AskClosed("a1", "timeout", "too slow"))
    assert driver.frames == [{"type": "control_cancel_request", "request_id": "a1"}]


def test_an_answer_to_nothing_is_told_so() -> None:
    driver = EngineDriver()
    [malformed] = driver.respond("nobody", {"behavior": "allow"})
    assert isinstance(malformed, MalformedCommand)
    assert driver.names == ["system/informational"]


# Questions.


def question(**fields: Any) -> Ask:
    return Ask("a1", "choice", "c1", title="Which?", options=(Option("1", "red"), Option("2", "blue")), **fields)


@pytest.mark.parametrize(
    ("multiple", "chosen", "value"),
    [(False, "blue", "2"), (False, "green", "green"), (True, "red, blue", ["1", "2"]), (True, ["red"], ["1"])],
)
def test_a_question_is_a_call_and_its_answer_comes_with_the_input(multiple: bool, chosen: Any, value: Any) -> None:
    driver = EngineDriver()
    driver.send(question(multiple=multiple))
    [frame] = driver.frames
    request = frame["request"]
    assert (request["tool_name"], request["requires_user_interaction"]) == ("AskUserQuestion", True)
    assert request["input"]["questions"][0]["options"][1] == {"label": "blue", "description": ""}
    answered = {**request["input"], "answers": {"Which?": chosen}}
    assert driver.respond("a1", {"behavior": "allow", "updatedInput": answered}) == [Answer("a1", "allow", value=value)]


def test_leaving_plan_mode_is_for_a_person_to_decide() -> None:
    assert ask(EngineDriver(), "ExitPlanMode", {"plan": "1."})["requires_user_interaction"]


ELICITED: list[tuple[Ask, Any, Answer]] = [
    (Ask("a1", "confirm", title="Sure?"), {"answer": True}, Answer("a1", "allow", value=True)),
    (Ask("a1", "confirm", title="Sure?"), {"answer": False}, Answer("a1", "deny", value=False)),
    (Ask("a1", "text", title="Name?", default="x"), {"answer": "me"}, Answer("a1", "allow", value="me")),
    (Ask("a1", "choice", title="?", options=(Option("1", "red"),)), {"answer": "1"}, Answer("a1", "allow", value="1")),
    (Ask("a1", "form", title="?", args={"type": "object"}), {"a": 1}, Answer("a1", "allow", value={"a": 1})),
]


@pytest.mark.parametrize(("ask", "content", "answer"), ELICITED)
def test_a_question_without_a_call_is_an_elicitation(ask: Ask, content: Any, answer: Answer) -> None:
    driver = EngineDriver()
    driver.send(ask)
    assert driver.names == ["control_request/elicitation"]
    assert driver.respond("a1", {"action": "accept", "content": content}) == [answer]


@pytest.mark.parametrize(("action", "verdict"), [("decline", "deny"), ("cancel", "cancelled"), ("?", "cancelled")])
def test_an_elicitation_that_is_not_accepted_is_a_no(action: str, verdict: str) -> None:
    driver = EngineDriver()
    driver.send(Ask("a1", "url", title="?", args={"url": "https://example.org"}))
    [answer] = driver.respond("a1", {"action": action})
    assert isinstance(answer, Answer)
    assert answer.verdict == verdict


# Host calls.


def test_hooks_of_the_host_are_called_back() -> None:
    driver = EngineDriver()
    driver.send(HostCall("h1", "hook", {"callback": "cb", "input": {"hook_event_name": "PreToolUse"}, "call": "c1"}))
    [frame] = driver.frames
    assert frame == {
        "type": "control_request",
        "request_id": "h1",
        "request": {
            "subtype": "hook_callback",
            "callback_id": "cb",
            "input": {"hook_event_name": "PreToolUse"},
            "tool_use_id": "c1",
        },
    }
    assert driver.respond("h1", {"continue": True}) == [HostReply("h1", {"continue": True})]


def test_servers_inside_the_host_speak_through_the_wire() -> None:
    driver = EngineDriver()
    message = {"jsonrpc": "2.0", "id": 0, "method": "tools/list"}
    driver.send(HostCall("h1", "mcp_message", {"server_name": "calc", "message": message}))
    [frame] = driver.frames
    assert frame["request"] == {"subtype": "mcp_message", "server_name": "calc", "message": message}
    answer = {"jsonrpc": "2.0", "id": 0, "result": {}}
    assert driver.respond("h1", {"mcp_response": answer}) == [HostReply("h1", answer)]


def test_a_host_call_that_fails_or_is_over_is_no_secret() -> None:
    driver = EngineDriver()
    for call in ("h1", "h2"):
        driver.send(HostCall(call, "hook", {"callback": "cb", "input": {}}))
    driver.send(HostCallEnded("h2"))
    assert driver.frames[-1] == {"type": "control_cancel_request", "request_id": "h2"}
    assert driver.respond("h1", error="crashed") == [HostReply("h1", error="crashed")]
    [reply] = driver.send(HostCall("h3", "fs/read", {"path": "a"}))
    assert isinstance(reply, HostReply)
    assert reply.error
