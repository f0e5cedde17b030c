"""What depends on the client: files and terminals, notices, compactions, sub-agents."""

from typing import Any

import pytest

from dialects.acp.engine.agent import ALL, Agent, Object, prompt, started
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.content import Failure, Usage

SUBAGENTS: Object = {**ALL, "subagents": {}}


def running(capabilities: Object | None = None, *, unstable: bool = False) -> tuple[Agent, dict[str, Any]]:
    """An agent in a turn, and the turn and session for its events."""
    agent, session = started(capabilities, unstable=unstable)
    agent.ask("session/prompt", prompt(session))
    agent.send(e.TurnStarted(turn="t1", session=session))
    return agent, {"turn": "t1", "session": session}


# Files and terminals of the client.


@pytest.mark.parametrize(
    ("call", "method", "params", "result", "expected"),
    [
        (
            ("read_text_file", {"path": "/w/a", "line": 2, "limit": 3}),
            "fs/read_text_file",
            {"path": "/w/a", "line": 2, "limit": 3},
            {"content": "x"},
            {"content": "x"},
        ),
        (("read_text_file", {"path": "/w/a"}), "fs/read_text_file", {"path": "/w/a"}, {"content": ""}, {"content": ""}),
        (
            ("write_text_file", {"path": "/w/a", "content": "x"}),
            "fs/write_text_file",
            {"path": "/w/a", "content": "x"},
            None,
            {},
        ),
        (
            ("create_terminal", {"command": "x", "args": ["-n"], "env": {"A": "1"}, "cwd": "/w", "limit": 9}),
            "terminal/create",
            {"command": "x", "args": ["-n"], "env": [{"name": "A", "value": "1"}], "cwd": "/w", "outputByteLimit": 9},
            {"terminalId": "x"},
            {"terminal": "x"},
        ),
        (
            ("terminal_output", {"terminal": "x"}),
            "terminal/output",
            {"terminalId": "x"},
            {"output": "o", "truncated": False},
            {"output": "o", "truncated": False, "running": True, "exit_code": None, "signal": None},
        ),
        (
            ("terminal_output", {"terminal": "x"}),
            "terminal/output",
            {"terminalId": "x"},
            {"output": "o", "truncated": True, "exitStatus": {"exitCode": 2}},
            {"output": "o", "truncated": True, "running": False, "exit_code": 2, "signal": None},
        ),
        (
            ("wait_for_terminal_exit", {"terminal": "x"}),
            "terminal/wait_for_exit",
            {"terminalId": "x"},
            {"exitCode": None, "signal": "SIGKILL"},
            {"exit_code": None, "signal": "SIGKILL"},
        ),
        (("kill_terminal", {"terminal": "x"}), "terminal/kill", {"terminalId": "x"}, {}, {}),
        (("release_terminal", {"terminal": "x"}), "terminal/release", {"terminalId": "x"}, {}, {}),
    ],
)  # fmt: skip
def test_work_for_the_client(call: Any, method: str, params: Object, result: Any, expected: Object) -> None:
    agent, where = running(ALL)
    assert agent.send(e.HostCall("h1", *call, **where)) == []
    [request] = agent.read()
    assert (request["method"], request["params"]) == (method, {"sessionId": where["session"], **params})
    assert agent.answer(request["id"], result) == [c.HostReply("h1", expected, session=where["session"])]


def test_a_terminal_of_the_client_is_shown_in_its_call() -> None:
    agent, where = running(ALL)
    agent.send(e.ToolCalled("c1", "Bash", {"command": "make"}, **where))
    agent.send(e.HostCall("h1", "create_terminal", {"command": "make", "call": "c1"}, **where))
    agent.read()
    agent.answer(0, {"terminalId": "x"})
    agent.send(e.ToolOutput("c1", "out", **where), e.ToolFinished("c1", "Bash", "out", **where))
    shown, finished = agent.updates()
    assert shown["content"] == [{"type": "terminal", "terminalId": "x"}]
    assert "content" not in finished
    assert finished["rawOutput"] == {"output": "out"}


@pytest.mark.parametrize(
    ("capabilities", "refused"),
    [
        (None, ["read_text_file", "write_text_file", "create_terminal"]),
        ({"fs": {"readTextFile": True}}, ["write_text_file", "create_terminal"]),
        ({"fs": {"writeTextFile": True}, "terminal": True}, ["read_text_file"]),
        ({"fs": None, "terminal": None}, ["read_text_file", "write_text_file", "create_terminal"]),
        (ALL, ["nonsense", "hook"]),
    ],
)
def test_nothing_is_asked_that_was_not_offered(capabilities: Object | None, refused: list[str]) -> None:
    """docs/acp.md, requirement 9."""
    agent, where = running(capabilities)
    for method in refused:
        params = {"path": "/a", "content": "", "command": "x", "terminal": "t"}
        [reply] = agent.send(e.HostCall("h1", method, params, **where))
        assert reply == c.HostReply("h1", error=f"the client does not offer {method}", session=where["session"])
    assert agent.read() == []


@pytest.mark.parametrize("result", [{}, None, [], {"content": 7}])
def test_an_answer_that_is_not_valid_is_an_error(result: Any) -> None:
    agent, where = running(ALL)
    agent.send(e.HostCall("h1", "read_text_file", {"path": "/a"}, **where))
    [reply] = agent.answer(0, result)
    assert isinstance(reply, c.HostReply)
    assert reply.error


def test_a_client_that_fails_is_told_to_the_engine() -> None:
    agent, where = running(ALL)
    agent.send(e.HostCall("h1", "read_text_file", {"path": "/a"}, **where))
    [reply] = agent.line({"jsonrpc": "2.0", "id": 0, "error": {"code": -32002, "message": "no such file"}})
    assert reply == c.HostReply("h1", error="no such file", code="missing", session=where["session"])


def test_a_call_without_its_arguments_is_not_sent() -> None:
    agent, where = running(ALL)
    [reply] = agent.send(e.HostCall("h1", "read_text_file", {}, **where))
    assert isinstance(reply, c.HostReply)
    assert "path" in reply.error
    assert agent.read() == []


def test_a_call_that_nobody_waits_for_is_withdrawn() -> None:
    """docs/acp.md, requirement 36."""
    agent, where = running(ALL)
    agent.send(e.HostCall("h1", "wait_for_terminal_exit", {"terminal": "x"}, **where))
    agent.send(e.HostCallEnded("h1", **where))
    assert [message["method"] for message in agent.read()] == ["terminal/wait_for_exit", "$/cancel_request"]
    assert agent.answer(0, {"exitCode": 0}) == []
    agent.send(e.HostCall("h2", "wait_for_terminal_exit", {"terminal": "x"}, **where))
    assert agent.send(e.TurnEnded("cancelled", **where)) == [
        c.HostReply("h2", error="the turn has ended", session=where["session"])
    ]


@pytest.mark.parametrize("end", ["call", "turn", "session"])
def test_a_terminal_that_comes_too_late_is_released(end: str) -> None:
    """docs/acp.md, requirement 36."""
    agent, where = running(ALL)
    agent.send(e.HostCall("h1", "create_terminal", {"command": "make"}, **where))
    if end == "session":
        [closing] = agent.ask("session/close", {"sessionId": where["session"]})
        agent.send(e.Reply(closing.ref))
    else:
        agent.send(e.HostCallEnded("h1", **where) if end == "call" else e.TurnEnded("cancelled", **where))
    agent.read()
    assert agent.answer(0, {"terminalId": "late"}) == []
    [release] = agent.read()
    assert (release["method"], release["params"]) == (
        "terminal/release",
        {"sessionId": where["session"], "terminalId": "late"},
    )
    assert agent.answer(release["id"], {}) == []
    assert agent.answer(0, {"terminalId": "late"}) == []
    assert agent.read() == []


# MCP servers inside of the client.


def with_server() -> tuple[Agent, dict[str, Any]]:
    agent = Agent(unstable=True)
    agent.initialize()
    session = agent.open(params={"mcpServers": [{"type": "acp", "name": "ed", "serverId": "srv"}]})
    agent.read()
    return agent, {"session": session}


def test_a_request_to_a_server_inside_the_client_has_its_answer_inside() -> None:
    agent, where = with_server()
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"cursor": "x"}}
    agent.send(e.HostCall("h1", "mcp_message", {"server_name": "ed", "message": message}, **where))
    [request] = agent.read()
    assert (request["method"], request["params"]) == (
        "mcp/message",
        {"serverId": "srv", "requestId": "7", "method": "tools/list", "params": {"cursor": "x"}},
    )
    answer = {"jsonrpc": "2.0", "id": 7, "result": {"tools": []}}
    assert agent.answer(0, {"result": {"tools": []}}) == [c.HostReply("h1", {"mcp_response": answer}, **where)]


def test_a_server_that_the_client_does_not_have_and_one_that_fails() -> None:
    agent, where = with_server()
    message = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    unknown = agent.send(e.HostCall("h1", "mcp_message", {"server_name": "x", "message": message}, **where))
    assert unknown == [c.HostReply("h1", error="the client has no MCP server 'x'", **where)]
    agent.send(e.HostCall("h2", "mcp_message", {"server_name": "ed", "message": message}, **where))
    [failed] = agent.line({"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "gone"}})
    assert failed == c.HostReply("h2", error="gone", **where)


def test_notifications_of_such_a_server_reach_the_engine_and_none_reaches_the_server() -> None:
    agent, where = with_server()
    changed = {"method": "notifications/tools/list_changed"}
    said = agent.notify("mcp/message", {"serverId": "srv", "requestId": "1", **changed})
    message = {"jsonrpc": "2.0", **changed}
    assert said == [c.HostSays("mcp_message", {"server_name": "ed", "message": message}, **where)]
    assert agent.notify("mcp/message", {"serverId": "other", "requestId": "1", **changed}) == []
    assert agent.notify("mcp/message", {"serverId": "srv"}) == []
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    agent.send(e.HostCall("h1", "mcp_message", {"server_name": "ed", "message": initialized}, **where))
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}
    agent.send(e.HostCall("h2", "mcp_message", {"server_name": "ed", "message": request}, **where))
    agent.send(e.HostCallEnded("h2", **where))
    assert [message["method"] for message in agent.read()] == ["mcp/message", "$/cancel_request"]


# Notices and compactions.


def remarks(where: dict[str, Any]) -> list[e.Event]:
    return [
        e.Notice("careful\nvery", "warning", **where),
        e.RetryStarted(1, 3, 500, "overloaded", **where),
        e.Failed(Failure("x", "it broke", "engine"), **where),
        e.ServerChanged("team", "failed", reason="gone", session=where["session"]),
        e.ServerChanged("team", "ready", session=where["session"]),
    ]


def test_notices_where_the_client_shows_them() -> None:
    """docs/acp.md, requirements 14 and 47."""
    agent, where = running(ALL)
    agent.send(*remarks(where))
    assert [(update["severity"], update["title"], update.get("description")) for update in agent.updates()] == [
        ("warning", "careful", "careful\nvery"),
        ("warning", "The model's service failed (overloaded); attempt 1 of 3 follows", None),
        ("error", "it broke", None),
        ("warning", "The MCP server team cannot be used: gone", None),
    ]


@pytest.mark.parametrize("capabilities", [None, {}, {"session": {"notices": None, "compaction": None}}])
def test_nothing_is_sent_that_the_client_does_not_know(capabilities: Object | None) -> None:
    """docs/acp.md, requirements 9 and 10."""
    agent, where = running(capabilities)
    agent.send(*remarks(where))
    agent.send(e.AgentStarted(call="c1", agent="k", **where), e.AgentEnded(agent="k", **where))
    assert agent.read() == []
    agent.send(e.CompactionStarted(**where), e.CompactionEnded(**where))
    assert {update["sessionUpdate"] for update in agent.updates()} == {"tool_call", "tool_call_update"}


def test_a_compaction_where_the_client_shows_it() -> None:
    """docs/acp.md, requirement 47."""
    agent, where = running(ALL)
    agent.send(e.CompactionStarted("overflow", **where), e.CompactionEnded(True, "They said hi.", 9, 3, "e4", **where))
    agent.send(e.CompactionStarted(session=where["session"]), e.CompactionEnded(False, error="no", **where))
    one, ended, two, failed = agent.updates()
    assert [update["status"] for update in (one, ended, two, failed)] == [
        "in_progress",
        "completed",
        "in_progress",
        "failed",
    ]
    assert one["compactionId"] == ended["compactionId"] != two["compactionId"] == failed["compactionId"]
    assert ended["summary"] == [{"type": "text", "text": "They said hi."}]
    assert ended["_meta"]["polylect"] == {"before": 9, "after": 3, "first_kept": "e4"}
    assert failed["error"] == "no"


def test_a_compaction_is_a_call_elsewhere() -> None:
    """docs/acp.md, requirement 47."""
    agent, where = running()
    agent.send(e.CompactionStarted("overflow", **where), e.CompactionEnded(True, "They said hi.", 9, 3, **where))
    began, ended = agent.updates()
    assert (began["kind"], began["title"], began["status"]) == ("think", "Compact conversation", "in_progress")
    assert began["toolCallId"] == ended["toolCallId"]
    assert (ended["status"], ended["rawOutput"]) == ("completed", {"preTokens": 9, "postTokens": 3})


def test_a_compaction_outside_a_turn_is_no_call() -> None:
    """docs/acp.md, requirement 25."""
    agent, session = started()
    agent.send(e.CompactionStarted("manual", session=session), e.CompactionEnded(session=session))
    assert agent.read() == []


# Sub-agents.


def child_events(where: dict[str, Any]) -> list[e.Event]:
    child = {**where, "agent": "k"}
    return [
        e.UserMessage("look", "engine", **child),
        e.StepStarted(**child),
        e.TextDelta("Looking.", **child),
        e.ToolCalled("k1", "Read", {"file_path": "a"}, "info", "Read a", **child),
        e.ToolStarted("k1", "Read", **child),
        e.ToolFinished("k1", "Read", "x", **child),
        e.AgentProgress("1 call", Usage(1), 1, **child),
    ]


def test_a_sub_agent_is_a_session_of_its_own() -> None:
    """docs/acp.md, requirement 49."""
    agent, where = running(SUBAGENTS, unstable=True)
    agent.send(e.ToolCalled("c1", "Agent", {}, **where))
    agent.read()
    agent.send(e.AgentStarted("", "c1", "scout", "look around", agent="k", **where), *child_events(where))
    announced, *messages = agent.read()
    assert announced["params"]["sessionId"] == where["session"]
    update = announced["params"]["update"]
    child = update.pop("sessionId")
    assert update == {
        "sessionUpdate": "subagent_update",
        "title": "scout",
        "description": "look around",
        "capabilities": {"cancel": {}},
        "state": {"state": "running"},
        "_meta": {"polylect": {"agent": {"id": "k", "call": "c1", "name": "scout"}}},
    }
    assert [(one["params"]["sessionId"], one["params"]["update"]["sessionUpdate"]) for one in messages] == [
        (child, "user_message_chunk"),
        (child, "agent_message_chunk"),
        (child, "tool_call"),
        (child, "tool_call_update"),
        (child, "tool_call_update"),
        (where["session"], "subagent_update"),
    ]
    agent.send(e.Ask("a1", call="k2", name="Bash", args={}, agent="k", **where))
    called, requested = agent.read()
    assert (called["params"]["sessionId"], requested["params"]["sessionId"]) == (child, child)
    yes = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    assert agent.answer(0, yes) == [c.Answer("a1", "allow", session=where["session"])]
    assert agent.notify("session/cancel", {"sessionId": child}) == [c.Cancel("agent", "k", session=where["session"])]
    agent.send(e.AgentEnded(True, "Two files.", agent="k", **where))
    closed, ended = agent.read()
    assert (closed["params"]["sessionId"], closed["params"]["update"]["status"]) == (child, "failed")
    assert ended["params"]["update"] == {
        "sessionUpdate": "subagent_update",
        "sessionId": child,
        "state": {
            "state": "idle",
            "stopReason": "end_turn",
            "_meta": {"polylect": {"summary": "Two files."}},
        },
    }


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(Failure("cancelled", "stopped", "host"), "cancelled"), (Failure("server", "it broke", "provider"), "error")],
)
def test_a_sub_agent_that_does_not_end_well(failure: Failure, reason: str) -> None:
    """docs/acp.md, requirement 49."""
    agent, where = running(SUBAGENTS, unstable=True)
    agent.send(e.AgentStarted(agent="k", **where), e.AgentEnded(False, failure=failure, agent="k", **where))
    _, ended = agent.updates()
    assert ended["state"]["stopReason"] == reason
    assert ended["state"].get("error", {}).get("message") == ("it broke" if reason == "error" else None)


def test_a_sub_agent_of_a_sub_agent_is_announced_to_its_parent() -> None:
    """docs/acp.md, requirement 49."""
    agent, where = running(SUBAGENTS, unstable=True)
    agent.send(e.AgentStarted(agent="k", **where), e.AgentStarted("k", agent="j", **where))
    one, two = agent.read()
    assert two["params"]["sessionId"] == one["params"]["update"]["sessionId"]


def test_a_sub_agent_in_the_background_goes_on_after_the_turn() -> None:
    agent, where = running(SUBAGENTS, unstable=True)
    agent.send(e.AgentStarted(agent="k", background=True, **where), e.TurnEnded("end", **where))
    agent.read()
    agent.send(e.TextDelta("still", agent="k", session=where["session"]))
    [message] = agent.read()
    assert message["params"]["sessionId"] != where["session"]


def test_output_of_the_calls_of_a_sub_agent_is_not_forgotten() -> None:
    agent, where = running(SUBAGENTS, unstable=True)
    child = {**where, "agent": "k"}
    agent.send(e.AgentStarted(agent="k", **where), e.ToolCalled("k1", "Bash", {}, **child))
    agent.send(e.ToolOutput("k1", "one\n", **child), e.ToolOutput("k1", "two\n", **child))
    agent.read()
    agent.clock = 250
    [update] = agent.updates()
    assert update["content"][0]["content"]["text"] == "one\ntwo\n"


def test_a_sub_agent_is_one_call_elsewhere() -> None:
    """docs/acp.md, requirement 49."""
    agent, where = running(ALL)
    agent.send(e.ToolCalled("c1", "Agent", {}, **where))
    agent.read()
    agent.send(e.AgentStarted("", "c1", "scout", "look", agent="k", **where), *child_events(where))
    agent.clock = 1000
    updates = agent.updates()
    assert {update["toolCallId"] for update in updates} == {"c1"}
    assert updates[-1]["content"][0]["content"]["text"] == "Read a\n1 call\n"


def test_the_questions_of_a_sub_agent_always_reach_the_client() -> None:
    agent, where = running(ALL)
    child = {**where, "agent": "k"}
    agent.send(e.ToolCalled("c1", "Agent", {}, **where), e.AgentStarted("", "c1", "scout", agent="k", **where))
    agent.send(e.ToolCalled("k1", "Bash", {"command": "ls"}, **child))
    agent.read()
    agent.send(e.Ask("a1", call="k1", name="Bash", args={"command": "ls"}, title="Execute: ls", **child))
    called, requested = agent.read()
    assert called["params"]["update"]["_meta"]["polylect"]["agent"] == {"id": "k", "call": "c1", "name": "scout"}
    assert requested["params"]["sessionId"] == where["session"]
    assert requested["params"]["toolCall"]["toolCallId"] == "k1"
    agent.answer(0, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    agent.send(e.AskClosed("a1", "allowed", **child), e.ToolStarted("k1", "Bash", **child))
    agent.send(e.ToolFinished("k1", "Bash", "a", **child))
    assert [(update["toolCallId"], update["status"]) for update in agent.updates()] == [
        ("k1", "in_progress"),
        ("k1", "completed"),
    ]
