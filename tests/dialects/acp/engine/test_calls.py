"""Tool calls and permission: order, kinds, diffs, output, options, answers."""

from typing import Any

import pytest

from dialects.acp.engine.agent import ALL, Agent, Object, prompt, started
from polylect.dialects.acp.engine import tool_calls
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.content import Category, Image, Option, Outcome, Rule

EDIT = {"file_path": "a.py", "old_string": "x", "new_string": "y"}


def running(capabilities: Object | None = None) -> tuple[Agent, dict[str, Any]]:
    """An agent in a turn, and the turn and session for its events."""
    agent, session = started(capabilities)
    agent.ask("session/prompt", prompt(session))
    agent.send(e.TurnStarted(turn="t1", session=session))
    return agent, {"turn": "t1", "session": session}


# Calls.


def test_a_call_from_its_beginning_to_its_end() -> None:
    """docs/acp.md, requirement 28."""
    agent, where = running()
    agent.send(
        e.ToolCalled("c1", "Bash", {"command": "make"}, "exec", "Execute: make", **where),
        e.Ask("a1", call="c1", name="Bash", args={"command": "make"}, title="Execute: make", **where),
    )
    called, asked = agent.read()
    assert called["params"]["update"] == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c1",
        "title": "`make`",
        "name": "Bash",
        "kind": "execute",
        "status": "pending",
        "rawInput": {"command": "make"},
        "_meta": {"polylect": {"category": "exec"}},
    }
    assert asked["method"] == "session/request_permission"
    agent.answer(asked["id"], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    agent.send(
        e.AskClosed("a1", "allowed", **where),
        e.ToolStarted("c1", "Bash", 7, **where),
        e.ToolFinished("c1", "Bash", "done", metadata={"exit": 0}, **where),
    )
    started_, finished = agent.updates()
    assert started_ == {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}
    assert finished == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c1",
        "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": "done"}}],
        "rawOutput": {"exit": 0},
        "_meta": {"polylect": {"metadata": {"exit": 0}}},
    }


@pytest.mark.parametrize("outcome", ["error", "denied", "cancelled", "skipped"])
def test_every_other_outcome_is_failed(outcome: Outcome) -> None:
    """docs/acp.md, requirement 28."""
    agent, where = running()
    agent.send(e.ToolCalled("c1", "Edit", EDIT, "edit", **where))
    agent.send(e.ToolFinished("c1", "Edit", "no", outcome, reason="why", **where))
    _, finished = agent.updates()
    assert finished["status"] == "failed"
    assert finished["content"] == [{"type": "content", "content": {"type": "text", "text": "no"}}]
    own = finished["_meta"]["polylect"]
    assert own == {"reason": "why", **({} if outcome == "error" else {"outcome": outcome})}


def test_no_call_is_open_when_the_prompt_is_answered() -> None:
    """docs/acp.md, requirement 28."""
    agent, where = running()
    agent.send(e.ToolCalled("c1", "Read", {"file_path": "a"}, "info", **where), e.TurnEnded("end", **where))
    _, closed, answer = agent.read()
    assert closed["params"]["update"]["status"] == "failed"
    assert closed["params"]["update"]["_meta"] == {"polylect": {"outcome": "cancelled"}}
    assert answer["result"]["stopReason"] == "end_turn"


def test_a_result_without_a_call_is_a_call_first() -> None:
    agent, where = running()
    agent.send(e.ToolFinished("c9", "Read", "x", **where))
    assert [update["sessionUpdate"] for update in agent.updates()] == ["tool_call", "tool_call_update"]


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("Edit", EDIT, [{"type": "diff", "path": "/w/a.py", "oldText": "x", "newText": "y"}]),
        ("Write", {"file_path": "/v/../u/a", "content": "z"}, [{"type": "diff", "path": "/u/a", "newText": "z"}]),
        ("Write", {"file_path": "new.py", "content": "z"}, [{"type": "diff", "path": "/w/new.py", "newText": "z"}]),
        (
            "MultiEdit",
            {"file_path": "a", "edits": [{"old_string": "1", "new_string": "2"}, {"old_string": "3"}, 7]},
            [{"type": "diff", "path": "/w/a", "oldText": "1", "newText": "2"}],
        ),
        ("Edit", {"old_string": "x", "new_string": "y"}, None),
        ("Edit", {"file_path": 7, "old_string": "x", "new_string": "y"}, None),
    ],
)  # fmt: skip
def test_an_edit_has_its_diff(name: str, args: dict[str, Any], expected: Any) -> None:
    """docs/acp.md, requirement 31."""
    agent, where = running()
    agent.send(
        e.ToolCalled("c1", name, args, "edit", **where), e.ToolFinished("c1", name, "Done", form="diff", **where)
    )
    called, finished = agent.updates()
    assert called.get("content") == expected
    assert called.get("locations", [])[:1] == ([{"path": expected[0]["path"]}] if expected else [])
    if expected:  # which stays
        assert "content" not in finished
        assert finished["rawOutput"] == {"output": "Done"}


@pytest.mark.parametrize(
    ("name", "category", "expected"),
    [
        ("Read", "info", "read"),
        ("grep", "info", "search"),
        ("ExecCommand", "exec", "execute"),
        ("Write", "edit", "edit"),
        ("WebFetch", "info", "fetch"),
        ("Task", "exec", "think"),
        ("ExitPlanMode", "info", "switch_mode"),
        ("mcp__team__read", "mcp", "other"),
        ("Look", "info", "other"),
        ("Patch", "edit", "edit"),
        ("Deploy", "exec", "execute"),
    ],
)
def test_nothing_that_changes_something_is_called_a_read(name: str, category: Category, expected: str) -> None:
    assert tool_calls.kind(name, category) == expected


def test_images_of_a_result_are_shown() -> None:
    agent, where = running()
    agent.send(e.ToolCalled("c1", "Read", {"file_path": "a.gif"}, "info", **where))
    agent.send(e.ToolFinished("c1", "Read", "", form="image", images=(Image("image/gif", "R0lG"),), **where))
    block = {"type": "image", "data": "R0lG", "mimeType": "image/gif"}
    assert agent.updates()[1]["content"] == [{"type": "content", "content": block}]


# Output of running calls.


def text_of(update: Object) -> str:
    text: str = update["content"][0]["content"]["text"]
    return text


def test_output_is_shown_now_and_then() -> None:
    agent, where = running()
    agent.send(e.ToolCalled("c1", "Bash", {"command": "make"}, **where), e.ToolStarted("c1", "Bash", **where))
    agent.read()
    for number in range(10):
        agent.send(e.ToolOutput("c1", f"{number}\n", **where))
    assert [text_of(update) for update in agent.updates()] == ["0\n"]
    assert agent.codec.due() == 250
    agent.clock = 100
    assert (agent.codec.due(), agent.read()) == (150, [])
    agent.clock = 250
    assert agent.codec.due() == 0
    assert [text_of(update) for update in agent.updates()] == ["".join(f"{number}\n" for number in range(10))]
    assert agent.codec.due() is None
    agent.send(e.ToolOutput("c1", "new", True, **where))
    agent.send(e.ToolFinished("c1", "Bash", "all", **where))
    assert [text_of(update) for update in agent.updates()] == ["all"]
    assert agent.codec.due() is None


def test_long_output_is_shown_by_its_end() -> None:
    agent, where = running()
    agent.send(e.ToolCalled("c1", "Bash", {"command": "yes"}, **where))
    agent.read()
    agent.send(e.ToolOutput("c1", "x" * 100_000 + "end", **where))
    [update] = agent.updates()
    assert len(text_of(update)) == 16 * 1024
    assert text_of(update).endswith("xend")


def test_a_client_that_draws_terminals_gets_the_output_in_pieces() -> None:
    agent, where = running({"_meta": {"terminal_output": True}})
    agent.send(
        e.ToolCalled("c1", "Bash", {"command": "make"}, **where),
        e.ToolStarted("c1", "Bash", **where),
        e.ToolOutput("c1", "one\n", **where),
        e.ToolOutput("c1", "two\n", **where),
        e.ToolFinished("c1", "Bash", "Exit code: 2\nSTDOUT:\none\ntwo\n", **where),
    )
    called, _, one, two, finished = agent.updates()
    assert called["content"] == [{"type": "terminal", "terminalId": "c1"}]
    assert called["_meta"]["terminal_info"] == {"terminal_id": "c1", "cwd": "/w"}
    assert [update["_meta"]["terminal_output"]["data"] for update in (one, two)] == ["one\n", "two\n"]
    assert finished["_meta"]["terminal_exit"] == {"terminal_id": "c1", "exit_code": 2, "signal": None}
    assert "content" not in finished


def test_a_terminal_without_output_gets_the_result() -> None:
    agent, where = running({"_meta": {"terminal_output": True}})
    agent.send(e.ToolCalled("c1", "Bash", {"command": "make"}, **where), e.ToolFinished("c1", "Bash", "all", **where))
    _, output, finished = agent.updates()
    assert output["_meta"]["terminal_output"] == {"terminal_id": "c1", "data": "all"}
    assert finished["rawOutput"] == {"output": "all"}


def test_a_denied_call_has_no_output() -> None:
    """It never ran: the reason stands in the place of its terminal."""
    agent, where = running({"_meta": {"terminal_output": True}})
    denied = e.ToolFinished("c1", "Bash", "Tool denied: no", outcome="denied", reason="no", **where)
    agent.send(e.ToolCalled("c1", "Bash", {"command": "make"}, **where), denied)
    _, finished = agent.updates()
    assert (finished["status"], text_of(finished)) == ("failed", "Tool denied: no")


# Permission.


def asked(agent: Agent, where: dict[str, Any], **fields: Any) -> Object:
    """The params of the request for an ask."""
    ask = {"call": "c1", "name": "Bash", "args": {"command": "make"}, "title": "Execute: make", **fields}
    agent.send(e.Ask("a1", **ask, **where))
    request = agent.read()[-1]
    assert request["method"] == "session/request_permission"
    params: Object = request["params"]
    return params


def test_a_request_for_permission_has_the_whole_call() -> None:
    """docs/acp.md, requirement 32."""
    agent, where = running()
    params = asked(agent, where, name="Edit", args=EDIT, category="edit", title="Edit a.py", reason="default mode")
    assert params["sessionId"] == where["session"]
    assert params["toolCall"] == {
        "toolCallId": "c1",
        "title": "Edit a.py",
        "name": "Edit",
        "kind": "edit",
        "status": "pending",
        "content": [{"type": "diff", "path": "/w/a.py", "oldText": "x", "newText": "y"}],
        "locations": [{"path": "/w/a.py"}],
        "rawInput": EDIT,
    }
    assert params["_meta"] == {"polylect": {"category": "edit", "reason": "default mode"}}
    assert [option["kind"] for option in params["options"]] == [
        "allow_once",
        "allow_always",
        "reject_once",
        "reject_always",
    ]


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"args": {"command": "x" * 300}}, ["allow_once", "reject_once"]),
        ({"args": {}}, ["allow_once", "reject_once"]),
        ({"name": "ExitPlanMode", "args": {}}, ["allow_once", "reject_once"]),
    ],
)
def test_what_has_no_rule_is_never_always(fields: Any, kinds: list[str]) -> None:
    """docs/acp.md, requirement 32."""
    agent, where = running()
    assert [option["kind"] for option in asked(agent, where, **fields)["options"]] == kinds


@pytest.mark.parametrize(
    ("option", "fields", "expected"),
    [
        ("allow_once", {}, c.Answer("a1", "allow")),
        ("reject_once", {}, c.Answer("a1", "deny")),
        ("allow_always", {}, c.Answer("a1", "allow", always=Rule("command", "make", tool="Bash"))),
        ("reject_always", {}, c.Answer("a1", "deny", always=Rule("command", "make", effect="deny", tool="Bash"))),
        (
            "allow_always",
            {"category": "edit", "name": "Edit"},
            c.Answer("a1", "allow", always=Rule("category", "edit")),
        ),
        (
            "allow_always",
            {"category": "mcp", "name": "mcp__a__b"},
            c.Answer("a1", "allow", always=Rule("tool", "mcp__a__b")),
        ),
    ],
)
def test_an_option_means_what_it_says(option: str, fields: Any, expected: c.Answer) -> None:
    agent, where = running()
    asked(agent, where, **fields)
    [answer] = agent.answer(0, {"outcome": {"outcome": "selected", "optionId": option}})
    assert isinstance(answer, c.Answer)
    assert (answer.session, answer.ask) == (where["session"], "a1")
    assert (answer.verdict, answer.always, answer.value) == (expected.verdict, expected.always, None)


@pytest.mark.parametrize(
    "result",
    [
        {"outcome": {"outcome": "selected", "optionId": "nonsense"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "allowed", "optionId": "allow_once"}},
        {"outcome": "selected", "optionId": "allow_once"},
        {"outcome": {"outcome": "cancelled", "optionId": "allow_once"}},
        {"outcome": None},
        {},
        None,
        "allow_once",
        ["allow_once"],
    ],
)
def test_everything_but_a_known_yes_is_a_no(result: Any) -> None:
    """docs/acp.md, requirement 33."""
    agent, where = running()
    asked(agent, where)
    [answer] = agent.answer(0, result)
    assert isinstance(answer, c.Answer)
    assert answer.verdict in ("deny", "cancelled")
    assert not answer.interrupt
    assert agent.answer(0, {"outcome": {"outcome": "selected", "optionId": "allow_once"}}) == []


def test_an_error_is_a_no() -> None:
    """docs/acp.md, requirement 33."""
    agent, where = running()
    asked(agent, where)
    [answer] = agent.line({"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "what?"}})
    assert isinstance(answer, c.Answer)
    assert (answer.verdict, answer.reason) == ("deny", "The client failed to ask: what?")


@pytest.mark.parametrize("line", [{"jsonrpc": "2.0", "id": 0}, {"id": 0, "result": {}}, {"id": 0, "method": None}])
def test_an_answer_that_is_no_message_is_a_no(line: Object) -> None:
    """docs/acp.md, requirement 33."""
    agent, where = running()
    agent.send(e.Ask("a1", call="c1", name="Read", args={}, **where))
    agent.read()
    malformed, answer = agent.line(line)
    assert isinstance(malformed, c.MalformedCommand)
    assert isinstance(answer, c.Answer)
    assert answer.verdict == "deny"
    assert agent.read() == []


def test_a_request_that_is_no_message_does_not_answer_a_question() -> None:
    agent, where = running()
    agent.send(e.Ask("a1", call="c1", name="Read", args={}, **where))
    agent.read()
    [malformed] = agent.line({"id": 0, "method": "session/list"})
    assert isinstance(malformed, c.MalformedCommand)
    assert [message["error"]["code"] for message in agent.read()] == [-32600]


def test_our_own_host_says_why_and_with_what() -> None:
    agent, where = running()
    asked(agent, where)
    own = {"polylect": {"reason": "not now", "interrupt": True}}
    [answer] = agent.answer(0, {"outcome": {"outcome": "selected", "optionId": "reject_once"}, "_meta": own})
    assert answer == c.Answer("a1", "deny", reason="not now", interrupt=True, session=where["session"])
    asked(agent, where)
    own = {"polylect": {"args": {"command": "make -n"}}}
    [answer] = agent.answer(1, {"outcome": {"outcome": "selected", "optionId": "allow_once"}, "_meta": own})
    assert answer == c.Answer("a1", "allow", args={"command": "make -n"}, session=where["session"])


def test_the_options_of_an_agent_behind_a_bridge_are_passed_on() -> None:
    agent, where = running()
    options = (Option("yes", "Sure", kind="allow_once"), Option("no", "Never", kind="reject_always"))
    assert asked(agent, where, options=options)["options"] == [
        {"optionId": "yes", "name": "Sure", "kind": "allow_once"},
        {"optionId": "no", "name": "Never", "kind": "reject_always"},
    ]
    [answer] = agent.answer(0, {"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert isinstance(answer, c.Answer)
    assert (answer.verdict, answer.value) == ("allow", "yes")


def test_a_question_that_needs_no_answer_any_more_is_withdrawn() -> None:
    """docs/acp.md, requirement 36."""
    agent, where = running()
    asked(agent, where)
    agent.send(e.AskClosed("a1", "timeout", **where))
    [withdrawn] = agent.read()
    assert (withdrawn["method"], withdrawn["params"]) == ("$/cancel_request", {"requestId": 0})
    assert agent.line({"jsonrpc": "2.0", "id": 0, "error": {"code": -32800, "message": "ok"}}) == []


def test_sessions_may_use_the_same_names_for_questions() -> None:
    agent, session = started()
    other = agent.open()
    agent.read()
    agent.send(e.Ask("a1", name="Bash", session=session), e.Ask("a1", name="Bash", session=other))
    assert [message["id"] for message in agent.read()] == [0, 1]
    yes = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    assert agent.answer(1, yes) == [c.Answer("a1", "allow", session=other)]
    assert agent.answer(0, yes) == [c.Answer("a1", "allow", session=session)]


# Other questions.


def elicited(agent: Agent, ask: e.Ask) -> Object:
    assert agent.send(ask) == []
    request = agent.read()[-1]
    assert request["method"] == "elicitation/create"
    params: Object = request["params"]
    return params


OPTIONS = (Option("1", "red", "warm"), Option("2", "blue"))


def test_a_choice_is_a_form() -> None:
    agent, where = running(ALL)
    params = elicited(agent, e.Ask("q1", "choice", "c1", title="Which?", options=OPTIONS, default="2", **where))
    assert (params["message"], params["mode"], params["sessionId"], params["toolCallId"]) == (
        "Which?",
        "form",
        where["session"],
        "c1",
    )
    assert params["requestedSchema"] == {
        "type": "object",
        "properties": {
            "answer": {
                "type": "string",
                "title": "Which?",
                "default": "2",
                "oneOf": [
                    {"const": "1", "title": "red", "description": "warm"},
                    {"const": "2", "title": "blue"},
                ],
            }
        },
        "required": ["answer"],
    }
    [answer] = agent.answer(0, {"action": "accept", "content": {"answer": "1"}})
    assert answer == c.Answer("q1", "allow", value="1", session=where["session"])


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (e.Ask("q", "text", title="Name?"), {"type": "string", "title": "Name?"}),
        (e.Ask("q", "confirm", title="Sure?"), {"type": "boolean", "title": "Sure?"}),
        (
            e.Ask("q", "choice", title="Which?", options=OPTIONS[1:], multiple=True, default="2"),
            {
                "type": "array",
                "title": "Which?",
                "items": {"anyOf": [{"const": "2", "title": "blue"}]},
                "default": ["2"],
            },
        ),
    ],
)
def test_a_question_is_a_form_with_one_field(ask: e.Ask, field: Object) -> None:
    agent, _ = running(ALL)
    assert elicited(agent, ask)["requestedSchema"]["properties"] == {"answer": field}


def test_forms_and_addresses_are_passed_on() -> None:
    agent, _ = running(ALL)
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    assert elicited(agent, e.Ask("q1", "form", title="How many?", args=schema))["requestedSchema"] == schema
    url = elicited(agent, e.Ask("q2", "url", title="Log in", args={"url": "https://example.com/x"}))
    assert (url["mode"], url["url"], url["elicitationId"]) == ("url", "https://example.com/x", "q2")


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        ({"action": "accept", "content": {"answer": True}}, "allow"),
        ({"action": "accept", "content": {"answer": False}}, "deny"),
        ({"action": "decline"}, "deny"),
        ({"action": "cancel"}, "cancelled"),
        ({"action": "nonsense"}, "cancelled"),
        ({}, "cancelled"),
        (None, "cancelled"),
    ],
)
def test_an_answer_to_a_form(result: Any, verdict: str) -> None:
    agent, _ = running(ALL)
    elicited(agent, e.Ask("q1", "confirm", title="Sure?"))
    [answer] = agent.answer(0, result)
    assert isinstance(answer, c.Answer)
    assert answer.verdict == verdict


@pytest.mark.parametrize(
    "capabilities",
    [None, {}, {"elicitation": None}, {"elicitation": {}}, {"elicitation": {"form": None, "url": None}}],
)
@pytest.mark.parametrize("kind", ["choice", "text", "confirm", "form", "url"])
def test_a_client_without_forms_is_not_asked(capabilities: Object | None, kind: Any) -> None:
    """docs/acp.md, requirements 9 and 10."""
    agent, where = running(capabilities)
    [answer] = agent.send(e.Ask("q1", kind, title="Which?", **where))
    assert isinstance(answer, c.Answer)
    assert (answer.ask, answer.verdict, answer.session) == ("q1", "cancelled", where["session"])
    assert agent.read() == []
