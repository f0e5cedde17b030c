"""Callbacks in the host: what they are told, what their answers do, and that they never hold a turn up for ever."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Fail, Run, Talk, converse, run
from doubles_extensions import loaded, written
from polylect.providers.scripted import Scripted
from polylect.sessions.store import MemoryStore
from polylect.vocab.commands import Answer, Command, Compact, Grant, Hello, HostReply, Prompt
from polylect.vocab.content import Message, Rule, Text
from polylect.vocab.events import (
    Ask,
    CompactionEnded,
    Event,
    HostCall,
    HostCallEnded,
    Notice,
    Reply,
    TextDelta,
    ToolFinished,
    TurnEnded,
)

ECHO = {"call": "Echo", "id": "c1", "args": {"text": "x"}}
Answers = Callable[[dict[str, Any]], dict[str, Any]]


def script(*says: Any) -> Scripted:
    return Scripted.from_values({"reply": [{"when": {"step": 1}, "say": list(says)}, {"say": ["done"]}]})


def hello(event: str, **row: Any) -> Hello:
    return Hello(offers={"hooks": {event: [{"matcher": None, "ids": ["h1"], **row}]}}, ref="hello")


def answering(answers: Answers) -> Callable[[Event], Command | None]:
    """A host whose callbacks answer what they are told."""

    def host(event: Event) -> Command | None:
        return HostReply(event.call, answers(event.params["input"])) if isinstance(event, HostCall) else None

    return host


def hooked(
    folder: Path, event: str, answer: dict[str, Any], model: Scripted, *tools: Any, row: Any = None, **more: Any
) -> Talk:
    commands = [hello(event, **(row or {})), Prompt("t1", "Go")]
    host = answering(lambda told: answer)
    return converse(folder, model, commands, *tools, host=host, store=MemoryStore(""), **more)


def hook_inputs(talk: Talk) -> list[dict[str, Any]]:
    return [event.params["input"] for event in talk.of(HostCall)]


def special(event: str, **output: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **output}}


# Before a call.


def test_a_callback_is_told_of_a_call_before_it_is_made(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PreToolUse", {}, script(ECHO), Echo())
    [call] = talk.of(HostCall)
    assert (call.method, call.turn) == ("hook", "t1")
    assert call.params == {
        "callback": "h1",
        "call": "c1",
        "input": {
            "session_id": talk.session.id,
            "transcript_path": "",
            "cwd": str(tmp_path),
            "hook_event_name": "PreToolUse",
            "permission_mode": "default",
            "prompt_id": "t1",
            "tool_name": "Echo",
            "tool_input": {"text": "x"},
            "tool_use_id": "c1",
        },
    }
    assert [event.output for event in talk.of(ToolFinished)] == ["x"]


@pytest.mark.parametrize("mode", ["default", "force"])
def test_a_no_holds_in_every_mode(tmp_path: Path, mode: str) -> None:
    no = special("PreToolUse", permissionDecision="deny", permissionDecisionReason="not here")
    talk = hooked(tmp_path, "PreToolUse", no, script(ECHO), Echo(), mode=mode)
    [finished] = talk.of(ToolFinished)
    assert (finished.outcome, finished.reason) == ("denied", "not here")
    assert hook_inputs(talk)[0]["permission_mode"] == {"default": "default", "force": "bypassPermissions"}[mode]


def test_a_yes_asks_nobody_and_the_arguments_can_be_others(tmp_path: Path) -> None:
    yes = special("PreToolUse", permissionDecision="allow", updatedInput={"command": "ls"}, additionalContext="careful")
    talk = hooked(tmp_path, "PreToolUse", yes, script({"call": "Run", "args": {"command": "rm"}}), Run())
    assert [event.output for event in talk.of(ToolFinished)] == ["ran ls\n\ncareful"]


def test_a_matcher_names_the_tools_that_are_meant(tmp_path: Path) -> None:
    for matcher, count in (("Bash|Edit", 0), ("Ec.*", 1), ("*", 1), ("", 1), ("Ech", 0)):
        talk = hooked(tmp_path, "PreToolUse", {}, script(ECHO), Echo(), row={"matcher": matcher})
        assert len(talk.of(HostCall)) == count


def test_of_several_callbacks_the_strictest_counts(tmp_path: Path) -> None:
    def answers(event: Event) -> Command | None:
        if not isinstance(event, HostCall):
            return None
        decision = {"h1": "allow", "h2": "deny", "h3": "ask"}[event.params["callback"]]
        return HostReply(event.call, special("PreToolUse", permissionDecision=decision))

    commands = [hello("PreToolUse", ids=["h1", "h2", "h3"]), Prompt("t1", "Go")]
    talk = converse(tmp_path, script(ECHO), commands, Echo(), host=answers)
    assert [event.outcome for event in talk.of(ToolFinished)] == ["denied"]


def test_a_no_that_ends_the_turn_ends_it(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PreToolUse", {"continue": False, "stopReason": "enough"}, script(ECHO), Echo())
    assert [event.reason for event in talk.of(TurnEnded)] == ["cancelled"]


# Callbacks that fail.


@pytest.mark.parametrize(("on_failure", "outcome"), [("continue", "ok"), ("block", "denied")])
def test_a_callback_that_fails_decides_nothing_unless_it_guards(tmp_path: Path, on_failure: str, outcome: str) -> None:
    def host(event: Event) -> Command | None:
        return HostReply(event.call, error="boom") if isinstance(event, HostCall) else None

    commands = [hello("PreToolUse", on_failure=on_failure), Prompt("t1", "Go")]
    talk = converse(tmp_path, script(ECHO), commands, Echo(), host=host)
    assert [event.outcome for event in talk.of(ToolFinished)] == [outcome]
    assert [event.text for event in talk.of(Notice)] == ["A hook of the host failed (PreToolUse): boom"]


def test_a_callback_that_never_answers_is_given_up(tmp_path: Path) -> None:
    talk = converse(tmp_path, script(ECHO), [hello("PreToolUse", timeout=0.01), Prompt("t1", "Go")], Echo())
    assert [event.outcome for event in talk.of(ToolFinished)] == ["ok"]
    assert [event.call for event in talk.of(HostCallEnded)] == [event.call for event in talk.of(HostCall)]


def test_a_host_that_has_closed_its_end_is_not_asked(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(hello("PreToolUse"), Prompt("t1", "Go"))
        await talk.until(HostCall)
        talk.engine.input_closed(stop=False)

    talk = run(conversation, tmp_path, script(ECHO), Echo())
    assert [event.outcome for event in talk.of(ToolFinished)] == ["ok"]


@pytest.mark.parametrize("answer", [None, {"async": True, "asyncTimeout": 5}, {"decision": None}, {}])
def test_an_answer_that_says_nothing_decides_nothing(tmp_path: Path, answer: Any) -> None:
    talk = hooked(tmp_path, "PreToolUse", answer, script(ECHO), Echo(), row={"on_failure": "block", "timeout": 0})
    assert [event.outcome for event in talk.of(ToolFinished)] == ["ok"]
    assert talk.of(Notice) == []


@pytest.mark.parametrize("row", [{"on_failure": "Block"}, {"timeout": -1}, {"ids": "h1"}, {"matcher": "["}])
def test_a_row_that_makes_no_sense_is_refused(tmp_path: Path, row: dict[str, Any]) -> None:
    talk = converse(tmp_path, script("hi"), [hello("PreToolUse", **row)])
    [reply] = talk.of(Reply)
    assert reply.failure is not None
    assert reply.failure.code == "bad_offer"


def test_a_moment_that_never_comes_is_told(tmp_path: Path) -> None:
    talk = converse(tmp_path, script("hi"), [hello("PreToolUze")])
    assert [event.text for event in talk.of(Notice)] == ["Hooks of the host are never asked here at: PreToolUze"]


NONSENSE: list[Any] = [
    *(5, "deny", [], {"decision": "Block"}, {"decision": 7}, {"hookSpecificOutput": 5}, {"continue": 0}),
    *(
        {"continue": "no"},
        special("PreToolUse", permissionDecision="Deny"),
        special("PreToolUse", permissionDecision=5),
    ),
    *(special("PreToolUse", permissionDecision=["deny"]), special("PreToolUse", permissionDecision="")),
    special("PreToolUse", permissionDecision="allow", updatedInput="ls"),
]


@pytest.mark.parametrize("answer", NONSENSE)
def test_an_answer_that_makes_no_sense_is_told_and_a_no_from_a_guard(tmp_path: Path, answer: Any) -> None:
    for on_failure, outcome in (("continue", "ok"), ("block", "denied")):
        row = {"on_failure": on_failure}
        talk = hooked(tmp_path, "PreToolUse", answer, script(ECHO), Echo(), row=row)
        assert [event.outcome for event in talk.of(ToolFinished)] == [outcome]
        [notice] = talk.of(Notice)
        assert notice.text.startswith("A hook of the host failed (PreToolUse): ")


def test_a_call_that_should_be_deferred_is_denied_with_a_reason(tmp_path: Path) -> None:
    defer = special("PreToolUse", permissionDecision="defer", permissionDecisionReason="ask Ann")
    talk = hooked(tmp_path, "PreToolUse", defer, script(ECHO), Echo())
    [finished] = talk.of(ToolFinished)
    assert (finished.outcome, talk.of(Notice)) == ("denied", [])
    assert finished.reason == "a hook wants to defer this call, which is not possible here: ask Ann"


def test_fields_of_an_answer_that_have_no_effect_are_named_once(tmp_path: Path) -> None:
    answer = {"terminalSequence": "x", "suppressOutput": True} | special("PostToolUse", classifierContext="y")
    second = {**ECHO, "id": "c2"}
    talk = hooked(tmp_path, "PostToolUse", answer, script(ECHO, second), Echo())
    assert [event.text for event in talk.of(Notice)] == [
        "Fields of a hook's answer have no effect here (PostToolUse): terminalSequence, classifierContext"
    ]


def test_a_message_for_the_person_is_shown(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PreToolUse", {"systemMessage": "look"}, script(ECHO), Echo())
    assert [event.text for event in talk.of(Notice)] == ["look"]


# After a call.


def test_what_came_of_a_call_is_told_and_can_be_changed(tmp_path: Path) -> None:
    other = special("PostToolUse", updatedToolOutput="y", additionalContext="note")
    talk = hooked(tmp_path, "PostToolUse", other, script(ECHO), Echo())
    assert hook_inputs(talk)[0]["tool_response"] == {"output": "x", "is_error": False}
    assert [event.output for event in talk.of(ToolFinished)] == ["y\n\nnote"]


@pytest.mark.parametrize(("tool", "output"), [("Echo", "x"), ("mcp__calc__add", "y")])
def test_the_output_of_a_server_has_a_field_of_its_own(tmp_path: Path, tool: str, output: str) -> None:
    other = special("PostToolUse", updatedMCPToolOutput="y")
    talk = hooked(tmp_path, "PostToolUse", other, script({**ECHO, "call": tool}), Echo(name=tool), mode="force")
    assert [event.output for event in talk.of(ToolFinished)] == [output]


def test_a_call_that_failed_has_a_moment_of_its_own(tmp_path: Path) -> None:
    fail = {"call": "Fail", "id": "c1"}
    talk = hooked(tmp_path, "PostToolUseFailure", {"decision": "block", "reason": "as expected"}, script(fail), Fail())
    result = hook_inputs(talk)[0]
    assert (result["hook_event_name"], result["error"], result["tool_use_id"]) == ("PostToolUseFailure", "cannot", "c1")
    assert [event.output for event in talk.of(ToolFinished)] == ["cannot\n\nas expected"]
    assert not hooked(tmp_path, "PostToolUse", {}, script(fail), Fail()).of(HostCall)


# Prompts, ends, summaries, agents.


def test_a_prompt_is_heard_and_added_to(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "UserPromptSubmit", special("UserPromptSubmit", additionalContext="Monday"), script("hi"))
    assert hook_inputs(talk)[0]["prompt"] == "Go"
    assert talk.messages[0] == Message("user", (Text("Go"), Text("Monday")))


def test_a_prompt_can_be_refused(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "UserPromptSubmit", {"decision": "block", "reason": "no"}, script("hi"))
    assert [event.reason for event in talk.of(TurnEnded)] == ["refused"]
    assert talk.messages == []


def test_a_model_that_would_stop_can_be_sent_on_once(tmp_path: Path) -> None:
    def answers(told: dict[str, Any]) -> dict[str, Any]:
        return {} if told["stop_hook_active"] else {"decision": "block", "reason": "run the tests"}

    commands = [hello("Stop"), Prompt("t1", "Go")]
    talk = converse(tmp_path, Scripted.in_order("a", "b"), commands, host=answering(answers))
    assert [told["last_assistant_message"] for told in hook_inputs(talk)] == ["a", "b"]
    assert talk.messages[2] == Message("user", (Text("run the tests"),))


def test_the_session_begins_once_and_its_hook_can_add_to_it(tmp_path: Path) -> None:
    commands = [hello("SessionStart"), Prompt("t1", "Go"), Prompt("t2", "On")]
    host = answering(lambda told: special("SessionStart", additionalContext="be brief"))
    talk = converse(tmp_path, Scripted.in_order("a", "b"), commands, host=host)
    assert [told["source"] for told in hook_inputs(talk)] == ["startup"]
    assert talk.session.contexts == ["be brief"]


def test_the_end_of_a_session_is_told_and_nobody_waits_long_for_it(tmp_path: Path) -> None:
    commands = [hello("SessionEnd", timeout=0.01), Prompt("t1", "Go")]
    talk = converse(tmp_path, Scripted.in_order("a"), commands)
    assert [result["reason"] for result in hook_inputs(talk)] == ["other"]


def test_a_summary_can_be_refused(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(hello("PreCompact", matcher="manual"), Prompt("t1", "Go"), Prompt("t2", "On"))
        await talk.engine.settled()
        talk.send(Compact())

    host = answering(lambda told: {"decision": "block", "reason": "later"})
    talk = run(conversation, tmp_path, Scripted.in_order("a" * 400, "b" * 400, "sum"), host=host)
    assert hook_inputs(talk)[0]["trigger"] == "manual"
    assert [event.ok for event in talk.of(CompactionEnded)] == [False]


def test_agents_have_their_own_moments(tmp_path: Path) -> None:
    def answers(told: dict[str, Any]) -> dict[str, Any]:
        if told["hook_event_name"] == "SubagentStart":
            return special("SubagentStart", additionalContext="you are small")
        return {} if told["stop_hook_active"] else {"decision": "block", "reason": "more"}

    offers = {"hooks": {moment: [{"ids": ["h"]}] for moment in ("SubagentStart", "SubagentStop")}}
    spawn = {"call": "Spawn", "id": "s1", "args": {"tasks": [{"name": "one", "prompt": "do one"}]}}
    replies = [
        {"when": {"prompt": "more"}, "say": ["child 2"]},
        {"when": {"prompt": "do one"}, "say": ["child 1"]},
        {"when": {"step": 1}, "say": [spawn]},
        {"say": ["done"]},
    ]
    model = Scripted.from_values({"reply": replies})
    commands = [Hello(offers=offers), Prompt("t1", "both")]
    talk = converse(tmp_path, model, commands, host=answering(answers), mode="force")
    moments = [(told["hook_event_name"], told["agent_id"], told["agent_type"]) for told in hook_inputs(talk)]
    assert moments == [
        ("SubagentStart", "s1", "general-purpose"),
        ("SubagentStop", "s1", "general-purpose"),
        ("SubagentStop", "s1", "general-purpose"),
    ]
    texts = [event.text for event in talk.of(TextDelta) if event.agent == "s1"]
    assert texts == ["child 1", "child 2"]


def test_a_question_to_the_person_is_told_while_it_waits(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        if isinstance(event, Ask):
            asks.append(event.ask)
        return Answer(asks[0], "allow") if isinstance(event, HostCall) else None

    asks: list[str] = []
    call = {"call": "Run", "id": "c1", "args": {"command": "ls"}}
    commands = [hello("Notification", matcher="permission_prompt"), Prompt("t1", "Go")]
    talk = converse(tmp_path, script(call), commands, Run(), host=host)
    [result] = hook_inputs(talk)
    assert (result["message"], result["notification_type"]) == ("Run {'command': 'ls'}", "permission_prompt")
    assert [event.outcome for event in talk.of(ToolFinished)] == ["ok"]
    assert len(talk.of(HostCallEnded)) == 1


# In the place of the person, and after the fact.

RUN = {"call": "Run", "id": "c1", "args": {"command": "ls"}}


@pytest.mark.parametrize(
    ("decision", "outcome", "reason"),
    [
        ({"behavior": "allow", "updatedInput": {"command": "pwd"}}, "ok", ""),
        ({"behavior": "deny", "message": "not now"}, "denied", "not now"),
    ],
)
def test_a_callback_answers_in_the_place_of_the_person(
    tmp_path: Path, decision: dict[str, Any], outcome: str, reason: str
) -> None:
    talk = hooked(tmp_path, "PermissionRequest", special("PermissionRequest", decision=decision), script(RUN), Run())
    [result] = hook_inputs(talk)
    assert (result["tool_name"], result["tool_input"]) == ("Run", {"command": "ls"})
    assert [(event.outcome, event.reason) for event in talk.of(ToolFinished)] == [(outcome, reason)]
    assert talk.of(Ask) == []


def test_a_callback_without_an_answer_leaves_it_to_the_person(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Answer(event.ask, "deny") if isinstance(event, Ask) else answering(lambda told: {})(event)

    talk = converse(tmp_path, script(RUN), [hello("PermissionRequest"), Prompt("t1", "Go")], Run(), host=host)
    assert [event.outcome for event in talk.of(ToolFinished)] == ["denied"]
    assert len(talk.of(Ask)) == len(talk.of(HostCall)) == 1


def test_rules_that_a_callback_wants_to_change_are_told_not_to_count(tmp_path: Path) -> None:
    decision = {"behavior": "allow", "updatedPermissions": [{"type": "addRules"}]}
    talk = hooked(tmp_path, "PermissionRequest", special("PermissionRequest", decision=decision), script(RUN), Run())
    assert [event.outcome for event in talk.of(ToolFinished)] == ["ok"]
    assert "updatedPermissions" in talk.of(Notice)[0].text


def test_all_calls_of_a_step_are_told_at_once_and_the_model_hears_of_it(tmp_path: Path) -> None:
    second = {"call": "Fail", "id": "c2", "args": {}}
    answer = special("PostToolBatch", additionalContext="both were tried")
    model = Scripted.from_values({"reply": [{"when": {"prompt": "Go"}, "say": [ECHO, second]}, {"say": ["done"]}]})
    talk = hooked(tmp_path, "PostToolBatch", answer, model, Echo(), Fail())
    [result] = hook_inputs(talk)
    assert [(call["tool_name"], call["tool_response"]["is_error"]) for call in result["tool_calls"]] == [
        ("Echo", False),
        ("Fail", True),
    ]
    assert Message("user", (Text("both were tried"),)) in talk.session.messages


def test_a_call_that_a_rule_denies_is_told(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PermissionDenied", {}, script(RUN), Run(), mode="plan")
    [result] = hook_inputs(talk)
    assert (result["tool_name"], result["tool_use_id"], bool(result["reason"])) == ("Run", "c1", True)


def test_a_turn_that_fails_is_told_and_ends_all_the_same(tmp_path: Path) -> None:
    model = Scripted.from_values({"reply": [{"say": [{"error": "auth", "message": "the key is wrong"}]}]})
    talk = hooked(tmp_path, "StopFailure", {"decision": "block"}, model)
    [result] = hook_inputs(talk)
    assert (result["error"], "the key is wrong" in result["error_details"]) == ("authentication_failed", True)
    assert [event.reason for event in talk.of(TurnEnded)] == ["error"]


def test_a_summary_is_told_once_it_is_there(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(hello("PostCompact", matcher="manual"), Prompt("t1", "Go"), Prompt("t2", "On"))
        await talk.engine.settled()
        talk.send(Compact())
        await talk.engine.settled()

    talk = run(conversation, tmp_path, Scripted.in_order("a" * 400, "b" * 400, "sum"), host=answering(lambda told: {}))
    summary = talk.of(CompactionEnded)[0].summary
    assert [(told["trigger"], told["compact_summary"]) for told in hook_inputs(talk)] == [("manual", summary)]


def test_a_slash_command_that_becomes_a_prompt_is_told(tmp_path: Path) -> None:
    file = tmp_path / ".claude" / "commands" / "greet.md"
    file.parent.mkdir(parents=True)
    file.write_text("Greet $ARGUMENTS")
    answer = special("UserPromptExpansion", additionalContext="in French")
    commands = [hello("UserPromptExpansion", matcher="greet"), Prompt("t1", "/greet Anna")]
    host = answering(lambda told: answer)
    talk = converse(tmp_path, script("Salut"), commands, host=host, store=MemoryStore(""))
    [told] = hook_inputs(talk)
    assert (told["command_name"], told["command_args"], told["prompt"]) == ("greet", "Anna", "/greet Anna")
    assert "in French" in str(talk.session.messages[0])


def test_a_folder_that_the_host_grants_is_told(tmp_path: Path) -> None:
    commands = [hello("DirectoryAdded"), Grant(rule=Rule("path", "/")), Prompt("t1", "Go")]
    talk = converse(tmp_path, script("hi"), commands, host=answering(lambda told: {}))
    assert [told["directory"] for told in hook_inputs(talk)] == ["/"]


# Beside the user's own code.


def test_what_the_users_own_code_denies_the_host_does_not_hear_of(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        polylect.before_tool("Echo", lambda call: polylect.deny("mine"))
    """
    own = loaded(written(tmp_path, code))
    talk = hooked(tmp_path, "PreToolUse", {}, script(ECHO), Echo(), hooks=own)
    assert [event.reason for event in talk.of(ToolFinished)] == ["mine"]
    assert talk.of(HostCall) == []


def test_a_table_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    bad: list[Command] = [
        hello("PreToolUse", matcher="("),
        hello("PreToolUse", ids="h1"),
        Hello(offers={"hooks": []}, ref="x"),
    ]
    talk = converse(tmp_path, script("x"), bad)
    assert [event.failure and event.failure.code for event in talk.of(Reply)] == ["bad_offer"] * 3


def test_a_later_hello_changes_what_is_asked(tmp_path: Path) -> None:
    commands = [hello("PreToolUse"), Hello(), Hello(offers={"hooks": {}}), Prompt("t1", "Go")]
    assert converse(tmp_path, script(ECHO), commands, Echo()).of(HostCall) == []
