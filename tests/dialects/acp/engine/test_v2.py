"""Version 2 of the protocol: what differs from version 1. Requirements are those of docs/acp.md."""

from base64 import b64decode
from typing import Any

import pytest

from dialects.acp.engine.agent import Agent, Object, prompt, started
from polylect.dialects.acp.frames.client import AuthMethod
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.answers import Item
from polylect.vocab.content import Failure, Message, PlanItem, Server, Text, ToolCall, ToolResult, Usage

AUTH = (AuthMethod(id="key", name="Key"), AuthMethod(id="login", name="Login", type="terminal", args=["login"]))
BROKEN = Failure("server", "500: it broke", "provider", retryable=True)
T: Object = {"turn": "t1"}


def second(**options: Any) -> tuple[Agent, str]:
    """An agent of version 2 with one open session, and its id."""
    return started(version="2", **options)


def send(agent: Agent, session: str, turn: str = "t1") -> None:
    """A prompt that the engine accepts."""
    [command] = agent.ask("session/prompt", prompt(session, turn=turn), id=turn)
    agent.send(e.Reply(command.ref, session=session))


def begun(**options: Any) -> tuple[Agent, str]:
    """An agent whose turn t1 has begun; nothing is left to read."""
    agent, session = second(**options)
    send(agent, session)
    agent.send(e.TurnStarted(**T))
    agent.read()
    return agent, session


def state(state: str, **fields: Any) -> Object:
    return {"sessionUpdate": "state_update", "state": state, **fields}


# The connection.


@pytest.mark.parametrize(
    ("offered", "asked", "spoken"), [("1", 1, 1), ("1", 2, 1), ("1", 0, 1), ("2", 1, 1), ("2", 2, 2), ("2", 99, 2)]
)
def test_the_newest_version_that_both_speak_is_spoken(offered: str, asked: int, spoken: int) -> None:
    """docs/acp.md, requirements 7 and 53."""
    agent = Agent(version=offered)
    agent.version = spoken
    agent.ask("initialize", {"protocolVersion": asked, "info": {"name": "x", "version": "1"}})
    [answer] = agent.read()
    assert answer["result"]["protocolVersion"] == spoken
    assert ("capabilities" in answer["result"], "agentCapabilities" in answer["result"]) == (spoken == 2, spoken == 1)


def test_a_version_below_all_is_refused_with_those_that_there_are() -> None:
    """docs/acp.md, requirement 53."""
    agent = Agent(version="2")
    agent.ask("initialize", {"protocolVersion": 0})
    [answer] = agent.read()
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32022, {"requested": 0, "supported": [1, 2]})
    assert agent.initialize()["protocolVersion"] == 2


def test_capabilities_and_logins_have_their_own_shape() -> None:
    agent = Agent(version="2", auth=AUTH)
    result = agent.initialize({"auth": {"terminal": {}}})
    assert result["authMethods"] == [
        {"methodId": "key", "name": "Key", "type": "agent"},
        {"methodId": "login", "name": "Login", "type": "terminal", "args": ["login"]},
    ]
    assert result["capabilities"] == {
        "session": {
            "prompt": {"image": {}, "embeddedContext": {}},
            "mcp": {"stdio": {}, "http": {}},
            **{name: {} for name in ("delete", "additionalDirectories", "fork", "systemPrompt")},
            **{name: {} for name in ("archive", "status", "title")},
        },
        "auth": {"status": {}},
    }
    [login] = agent.ask("auth/login", {"methodId": "key"})
    [logout] = agent.ask("auth/logout", {})
    assert [login, logout] == [c.Authenticate("key", ref=login.ref), c.Authenticate(ref=logout.ref)]


@pytest.mark.parametrize("method", ["authenticate", "logout", "session/load", "session/set_mode"])
def test_methods_that_are_gone_are_not_there(method: str) -> None:
    """docs/acp.md, requirement 59."""
    agent, session = second()
    assert agent.ask(method, {"sessionId": session, "cwd": "/w", "mcpServers": [], "modeId": "plan"}) == []
    [answer] = agent.read()
    assert answer["error"]["code"] == -32601


def test_the_client_is_never_asked_for_files_and_terminals() -> None:
    """docs/acp.md, requirement 59: also not if it offers them as in version 1."""
    agent = Agent(version="2")
    capabilities: Object = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    agent.initialize(capabilities)
    session = agent.open()
    agent.read()
    [reply] = agent.send(e.HostCall("h1", "read_text_file", {"path": "/w/a"}))
    assert isinstance(reply, c.HostReply)
    assert (reply.error, agent.read()) == ("the client does not offer read_text_file", [])
    assert session


# Sessions.


def test_a_session_is_opened_with_servers_that_have_a_type() -> None:
    agent = Agent(version="2")
    agent.initialize()
    servers = [
        {"type": "stdio", "name": "a", "command": "/bin/a"},
        {"type": "stdio", "name": "b", "command": "/bin/b", "args": ["x"], "env": [{"name": "A", "value": "1"}]},
        {"type": "http", "name": "c", "url": "http://c"},
    ]
    [command] = agent.ask("session/new", {"cwd": "/w", "mcpServers": servers})
    assert isinstance(command, c.OpenSession)
    assert command.servers == (
        Server("a", "stdio", "/bin/a"),
        Server("b", "stdio", "/bin/b", ("x",), {"A": "1"}),
        Server("c", "http", url="http://c"),
    )
    assert [one.how for one in agent.ask("session/new", {"cwd": "/w"}) if isinstance(one, c.OpenSession)] == ["new"]


@pytest.mark.parametrize(
    "servers",
    [
        [{"type": "sse", "name": "a", "url": "http://a", "headers": []}],
        [{"name": "a", "command": "/bin/a", "args": [], "env": []}],
        [{"type": "stdio", "name": "a"}],
        ["x"],
        "x",
        {"a": 1},
    ],
)
def test_servers_of_other_kinds_are_refused(servers: Any) -> None:
    agent = Agent(version="2")
    agent.initialize()
    assert agent.ask("session/new", {"cwd": "/w", "mcpServers": servers}) == []
    [answer] = agent.read()
    assert answer["error"]["code"] == -32602


def test_an_open_session_has_options_and_no_modes() -> None:
    agent = Agent(version="2")
    agent.initialize()
    session = agent.open()
    [answer] = agent.read()
    assert set(answer["result"]) == {"sessionId", "configOptions"}
    assert [one["configId"] for one in answer["result"]["configOptions"]] == ["mode", "model"]
    params = {"sessionId": session, "configId": "mode", "type": "id", "value": "plan"}
    [command] = agent.ask("session/set_config_option", params)
    assert isinstance(command, c.Configure)
    agent.send(e.SettingChanged("mode", "plan"), e.Reply(command.ref))
    update, answer = agent.read()
    assert update["params"]["update"]["sessionUpdate"] == "config_option_update"
    assert answer["result"]["configOptions"][0]["currentValue"] == "plan"


@pytest.mark.parametrize("start", [None, {"type": "start"}])
def test_a_resume_tells_the_state_before_its_answer_and_the_conversation_on_request(start: Object | None) -> None:
    """docs/acp.md, requirement 58."""
    agent = Agent(version="2")
    agent.initialize()
    call = ToolCall("c1", "Read", {"file_path": "a"})
    messages = (
        Item("m1", 1, Message("user", (Text("hi"),))),
        Item("m2", 2, Message("assistant", (Text("I read."), call))),
        Item("m3", 3, Message("tool", (ToolResult("c1", "Read", "text"),))),
    )
    params = {"sessionId": "old", "mcpServers": None} | ({"replayFrom": start} if start else {})
    agent.open("session/resume", params, messages=messages, id="r")
    *history, snapshot, answer = agent.read()
    assert snapshot["params"]["update"] == state("idle")
    assert (answer["id"], set(answer["result"])) == ("r", {"configOptions"})
    kinds = [one["params"]["update"]["sessionUpdate"] for one in history]
    assert kinds == (["user_message_chunk", "agent_message_chunk", "tool_call_update"] if start else [])


@pytest.mark.parametrize("start", [{"type": "end"}, {}, "start", 7, []])
def test_a_replay_from_elsewhere_is_refused(start: Any) -> None:
    """docs/acp.md, requirement 58."""
    agent = Agent(version="2")
    agent.initialize()
    assert agent.ask("session/resume", {"sessionId": "old", "cwd": "/w", "replayFrom": start}) == []
    [answer] = agent.read()
    assert answer["error"]["code"] == -32602


def test_who_resumes_a_session_that_runs_sees_that_it_runs() -> None:
    """docs/acp.md, requirement 58."""
    agent, session = begun()
    for command in agent.ask("session/resume", {"sessionId": session, "cwd": "/w"}):
        agent.send(e.Reply(command.ref, session=session))
    snapshot, answer = agent.read()
    assert (snapshot["params"]["update"], "result" in answer) == (state("running"), True)


# Turns.


def test_a_prompt_is_answered_when_its_turn_begins_and_the_state_tells_the_end() -> None:
    """docs/acp.md, requirements 54 and 55."""
    agent, session = second()
    send(agent, session)
    assert agent.read() == []
    agent.send(e.TurnStarted(**T), e.UserMessage("hi", **T))
    message, answer, running = agent.read()
    id = answer["result"]["messageId"]
    content = [{"type": "text", "text": "hi"}]
    assert message["params"]["update"] == {"sessionUpdate": "user_message", "messageId": id, "content": content}
    assert running["params"]["update"] == state("running")
    agent.send(e.TextDelta("Yes.", **T), e.TurnEnded("end", Usage(3, 2, 1), 1, **T))
    text, idle = agent.updates()
    assert text["sessionUpdate"] == "agent_message_chunk"
    usage = {"totalTokens": 6, "inputTokens": 3, "outputTokens": 2, "cachedReadTokens": 1}
    assert idle == state("idle", stopReason="end_turn", usage=usage, _meta={"polylect": {"steps": 1}})
    assert agent.notify("$/cancel_request", {"requestId": "t1"}) == []


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("length", "max_tokens"), ("limit", "max_turn_requests"), ("refused", "refusal"), ("cancelled", "cancelled")],
)
def test_each_end_has_its_reason(reason: Any, stop: str) -> None:
    """docs/acp.md, requirement 55."""
    agent, _ = begun()
    agent.send(e.TurnEnded(reason, **T))
    assert agent.updates() == [state("idle", stopReason=stop)]


def test_a_failure_after_the_answer_is_in_the_state() -> None:
    """docs/acp.md, requirement 56."""
    agent, _ = begun()
    agent.send(e.TurnEnded("error", failure=BROKEN, **T))
    [idle] = agent.updates()
    assert (idle["state"], idle["stopReason"]) == ("idle", "error")
    assert (idle["error"]["code"], idle["error"]["message"]) == (-32603, "500: it broke")


def test_an_error_of_a_turn_that_the_client_has_cancelled_is_a_cancel() -> None:
    """docs/acp.md, requirement 55."""
    agent, session = begun()
    assert agent.notify("session/cancel", {"sessionId": session}) == [c.Cancel(session=session)]
    agent.send(e.TurnEnded("error", failure=BROKEN, **T))
    assert [one["stopReason"] for one in agent.updates()] == ["cancelled"]


def test_a_prompt_that_never_becomes_a_message_is_an_error() -> None:
    """docs/acp.md, requirement 56: refused, dropped by a cancel, withdrawn, failed before its turn."""
    agent, session = begun()
    [refused] = agent.ask("session/prompt", prompt(session, turn="t2"), id="t2")
    agent.send(e.Reply(refused.ref, failure=Failure("bad_attachment", "a.png is too large", "host")))
    send(agent, session, "t3")
    agent.notify("$/cancel_request", {"requestId": "t3"})
    agent.send(e.TurnEnded("cancelled", turn="t3"))
    send(agent, session, "t4")
    agent.send(e.TurnEnded("error", failure=BROKEN, turn="t4"))
    assert [(one["id"], one["error"]["code"]) for one in agent.read()] == [
        ("t2", -32602),
        ("t3", -32800),
        ("t4", -32603),
    ]


def test_a_second_prompt_is_answered_after_the_end_of_the_first() -> None:
    """docs/acp.md, requirements 39 and 54."""
    agent, session = begun()
    send(agent, session, "t2")
    agent.send(e.TurnEnded("end", **T), e.TurnStarted(turn="t2"))
    idle, message, answer, running = agent.read()
    assert idle["params"]["update"] == state("idle", stopReason="end_turn")
    assert (answer["id"], answer["result"]["messageId"]) == ("t2", message["params"]["update"]["messageId"])
    assert running["params"]["update"] == state("running")


def test_a_turn_that_the_engine_begins_is_told_by_states_alone() -> None:
    """docs/acp.md, requirement 55."""
    agent, _ = second()
    agent.send(e.TurnStarted("engine", turn="x"), e.TurnEnded("end", turn="x"))
    running, idle = agent.updates()
    own = {"id": "x", "state": "started", "cause": "engine"}
    assert running == state("running", _meta={"polylect": {"turn": own}})
    ended = {"id": "x", "state": "ended", "reason": "end"}
    assert idle == state("idle", stopReason="end_turn", _meta={"polylect": {"turn": ended}})


def test_the_state_tells_when_all_work_waits_for_the_person() -> None:
    """docs/acp.md, requirement 55."""
    agent, _ = begun()
    agent.send(
        e.ToolCalled("c1", "Read", {}, **T),
        e.ToolCalled("c2", "Bash", {"command": "ls"}, **T),
        e.ToolStarted("c1", "Read", **T),
        e.Ask("a", call="c2", name="Bash", args={"command": "ls"}, **T),
    )
    assert states(agent) == []
    agent.send(e.ToolFinished("c1", "Read", "x", **T))
    assert states(agent) == ["requires_action"]
    agent.send(e.AskClosed("a", "allowed", **T))
    assert states(agent) == ["running"]
    agent.send(e.StepStarted(**T), e.Ask("m", call="c2", name="Bash", **T), e.Ask("k", call="k1", agent="k", **T))
    assert states(agent) == [], "the model writes"
    agent.send(e.ReplyEnded("calls", **T))
    assert states(agent) == ["requires_action"]
    agent.send(e.AskClosed("m", "allowed", **T))
    assert states(agent) == ["running"], "that of a sub-agent does not count"
    agent.send(e.ToolStarted("c2", "Bash", **T), e.Ask("b", "text", "c2", title="Which?", **T))
    assert states(agent) == ["requires_action"]
    agent.send(e.TurnEnded("cancelled", **T))
    assert states(agent) == ["idle"]


def states(agent: Agent) -> list[str]:
    updates = [one["params"]["update"] for one in agent.read() if one.get("method") == "session/update"]
    return [update["state"] for update in updates if update["sessionUpdate"] == "state_update"]


def test_a_session_that_is_closed_becomes_idle_first() -> None:
    """docs/acp.md, requirements 23 and 55: with a prompt that waits, and with a turn that the engine began."""
    agent, session = begun()
    send(agent, session, "t2")
    [command] = agent.ask("session/close", {"sessionId": session}, id="close")
    agent.send(e.Reply(command.ref))
    idle, waiting, closed = agent.read()
    assert idle["params"]["update"] == state("idle", stopReason="cancelled")
    assert (waiting["id"], waiting["error"]["code"], closed["id"]) == ("t2", -32800, "close")
    session = agent.open()
    agent.send(e.TurnStarted("engine", turn="x", session=session))
    agent.read()
    [command] = agent.ask("session/close", {"sessionId": session}, id="again")
    agent.send(e.Reply(command.ref))
    assert [one.get("id") for one in agent.read()] == [None, "again"]


def test_messages_that_join_a_turn_are_shown_to_every_client() -> None:
    """docs/acp.md, requirement 54."""
    agent, _ = begun()
    agent.send(e.UserMessage("faster", "steer", **T), e.UserMessage("a hook says", "engine", **T))
    [update] = agent.updates()
    assert (update["sessionUpdate"], update["content"]["text"]) == ("user_message_chunk", "faster")


def test_a_steer_that_begins_a_turn_is_shown_with_it() -> None:
    """docs/acp.md, requirements 48 and 54."""
    agent, session = second()
    [steer] = agent.ask("_session/steering", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
    [command] = agent.send(e.Reply(steer.ref, failure=Failure("idle", "nothing runs", "host"), session=session))
    assert isinstance(command, c.Prompt)
    agent.read()
    agent.send(e.TurnStarted(turn=command.turn), e.UserMessage("go", turn=command.turn))
    message, running = agent.updates()
    assert (message["messageId"], message["content"]) == (command.turn, [{"type": "text", "text": "go"}])
    agent.send(e.TurnEnded("end", turn=command.turn))
    assert agent.updates() == [state("idle", stopReason="end_turn")]
    assert running == state("running")


# Calls.


def test_a_command_has_a_terminal_whose_output_is_sent_in_chunks() -> None:
    """docs/acp.md, requirement 57."""
    agent, _ = begun()
    agent.send(
        e.ToolCalled("c1", "Bash", {"command": "make"}, "exec", **T),
        e.ToolStarted("c1", "Bash", **T),
        e.ToolOutput("c1", "é\n", **T),
        e.ToolFinished("c1", "Bash", "Exit code: 2\né\n", "error", **T),
    )
    terminal, called, started, chunk, ended, finished = agent.updates()
    assert terminal == {"sessionUpdate": "terminal_update", "terminalId": "c1", "command": "make", "cwd": "/w"}
    assert (called["sessionUpdate"], called["status"]) == ("tool_call_update", "pending")
    assert called["content"] == [{"type": "terminal", "terminalId": "c1"}]
    assert started["status"] == "in_progress"
    assert (chunk["sessionUpdate"], b64decode(chunk["data"]).decode()) == ("terminal_output_chunk", "é\n")
    assert ended == {"sessionUpdate": "terminal_update", "terminalId": "c1", "exitStatus": {"exitCode": 2}}
    assert (finished["status"], "content" in finished) == ("failed", False)


def test_a_cancelled_call_says_so() -> None:
    """docs/acp.md, requirement 57: told by the engine, and left open by it."""
    agent, _ = begun()
    calls = [e.ToolCalled(id, "Read", {"file_path": "a"}, **T) for id in ("c1", "c2")]
    agent.send(*calls, e.ToolFinished("c1", "Read", "", "cancelled", **T), e.TurnEnded("cancelled", **T))
    statuses = [(one["toolCallId"], one["status"]) for one in agent.updates() if "toolCallId" in one]
    assert statuses[2:] == [("c1", "cancelled"), ("c2", "cancelled")]


PATCHES = {
    "Write": (
        {"file_path": "a.py", "content": "x\ny"},
        "add",
        "diff --git /w/a.py /w/a.py\nnew file mode 100644\n--- /dev/null\n+++ /w/a.py\n@@ -0,0 +1,2 @@\n+x\n+y\n"
        "\\ No newline at end of file\n",
    ),
    "Edit": (
        {"file_path": "/a.py", "old_string": "1\n2\n3\n4\nold\n6\n", "new_string": "1\n2\n3\n4\nnew\nmore\n6\n"},
        "modify",
        "diff --git /a.py /a.py\n--- /a.py\n+++ /a.py\n@@ -2,5 +2,6 @@\n 2\n 3\n 4\n-old\n+new\n+more\n 6\n",
    ),
    "Edit to nothing": (
        {"file_path": "/a.py", "old_string": "old\n", "new_string": ""},
        "modify",
        "diff --git /a.py /a.py\n--- /a.py\n+++ /a.py\n@@ -1,1 +0,0 @@\n-old\n",
    ),
    "Write nothing": ({"file_path": "a", "content": ""}, "add", None),
    "Write a strange name": ({"file_path": "ä", "content": "x"}, "add", None),
}


@pytest.mark.parametrize("name", PATCHES)
def test_an_edit_names_its_files_and_has_a_patch(name: str) -> None:
    """docs/acp.md, requirement 57."""
    args, operation, patch = PATCHES[name]
    agent, _ = begun()
    agent.send(e.ToolCalled("c1", name.split()[0], args, "edit", **T))
    [called] = agent.updates()
    [diff] = called["content"]
    assert [change["operation"] for change in diff["changes"]] == [operation]
    assert diff["changes"][0]["path"].startswith("/")
    assert diff.get("patch") == (patch and {"format": "git_patch", "text": patch})


def test_a_permission_request_has_a_title_a_reason_and_the_call() -> None:
    """docs/acp.md, requirement 32."""
    agent, session = begun()
    args = {"command": "rm a"}
    agent.send(e.ToolCalled("c1", "Bash", args, "exec", **T))
    agent.read()
    agent.send(e.Ask("a", call="c1", name="Bash", args=args, category="exec", reason="It deletes.", **T))
    request, _ = agent.read()
    params = request["params"]
    assert (params["title"], params["description"], params["sessionId"]) == ("`rm a`", "It deletes.", session)
    assert (params["subject"]["type"], params["subject"]["toolCall"]["toolCallId"]) == ("tool_call", "c1")
    chosen = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    assert agent.answer(request["id"], chosen) == [c.Answer("a", "allow", session=session)]
    agent.send(e.Ask("b", call="c1", name="Bash", args=args, **T))
    *_, request = [one for one in agent.read() if "id" in one]
    [answer] = agent.answer(request["id"], {"outcome": {"outcome": "_perhaps"}})
    assert isinstance(answer, c.Answer)
    assert answer.verdict == "deny"


# What needs no capability.


def test_plans_notices_and_compactions_are_always_told() -> None:
    agent, _ = begun()
    agent.send(
        e.PlanChanged((PlanItem("first"),), **T),
        e.Notice("careful", "warning", **T),
        e.CompactionStarted(**T),
        e.CompactionEnded(True, "short", **T),
        e.SettingChanged("mode", "plan"),
    )
    plan, notice, *compactions, config = agent.updates()
    assert (plan["sessionUpdate"], plan["plan"]["type"], len(plan["plan"]["entries"])) == ("plan_update", "items", 1)
    assert notice["title"] == "careful"
    assert [one["status"] for one in compactions] == ["in_progress", "completed"]
    assert config["sessionUpdate"] == "config_option_update"


@pytest.mark.parametrize("shown", [True, False])
def test_sub_agents_are_sessions_where_the_client_says_that_it_shows_them(shown: bool) -> None:
    """docs/acp.md, requirement 49: the stable schema does not have them, and there is no capability in version 2."""
    agent = Agent(version="2", unstable=shown)
    agent.initialize({"subagents": {}} if shown else {})
    agent.open()
    agent.send(e.TurnStarted("engine", **T), e.ToolCalled("c1", "Agent", {}, **T), e.ToolStarted("c1", "Agent", **T))
    agent.read()
    agent.send(e.AgentStarted(call="c1", name="scout", agent="k", **T), e.AgentEnded(True, "done", agent="k", **T))
    assert [one["sessionUpdate"] for one in agent.updates()] == (["subagent_update"] * 2 if shown else [])
