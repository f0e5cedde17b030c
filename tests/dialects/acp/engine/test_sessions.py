"""Opening, listing, closing and configuring sessions. Requirements are those of docs/acp.md."""

from typing import Any

import pytest

from dialects.acp.engine.agent import ALL, STATE, Agent, Object, prompt, started
from polylect.dialects.acp.frames.client import AuthMethod
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.answers import CommandCard, Item, ModelCard, SessionCard, SessionOpened, ShellResult, State
from polylect.vocab.content import (
    Abilities,
    Failure,
    Image,
    Message,
    PlanItem,
    Server,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

GONE = Failure("no_such_session", "there is no session 'x'", "host")
IN_USE = Failure("session_in_use", "another process has it", "host")
NO_KEY = Failure("not_configured", "no API key for anthropic", "user")
MODELS = (ModelCard("anthropic", "big", thinking=True), ModelCard("anthropic", "small"), ModelCard("other", "small"))


def item(number: int, role: Any, *content: Any, **fields: Any) -> Item:
    return Item(f"e{number}", number, Message(role, content), **fields)


CONVERSATION = (
    item(1, "user", Text("look"), Image("image/gif", "R0lG")),
    item(2, "assistant", Thinking("hm"), Text("I look."), ToolCall("c1", "Read", {"file_path": "a"})),
    item(3, "tool", ToolResult("c1", "Read", "one")),
    item(4, "assistant", ToolCall("c2", "Edit", {"file_path": "/w/a", "old_string": "one", "new_string": "two"})),
    item(5, "tool", ToolResult("c2", "Edit", "@@ -1 +1 @@")),
    item(6, "assistant", ToolCall("c3", "Bash", {"command": "rm a"}), ToolCall("c4", "Bash", {"command": "ls"})),
    item(7, "tool", ToolResult("c3", "Bash", "Tool denied: no", "denied")),
    item(8, "assistant", Text("Done.")),
    item(9, "user", kind="shell", shell=ShellResult("ls", "a\n", 0)),
    item(10, "user", Text("They looked."), kind="summary"),
)


def text_of(update: Object) -> str:
    return f"{update['sessionUpdate']}: {update['content']['text']}"


# Opening.


def test_a_session_is_opened_with_its_folder_and_its_servers() -> None:
    """docs/acp.md, requirements 11, 14 and 15."""
    agent = Agent()
    agent.initialize()
    servers = [
        {"name": "a", "command": "/bin/a", "args": ["x"], "env": [{"name": "K", "value": "v"}]},
        {"name": "b", "type": "http", "url": "http://127.0.0.1/", "headers": [{"name": "H", "value": "v"}]},
        {"name": "c", "type": "sse", "url": "http://127.0.0.1/", "headers": []},
    ]
    [opening] = agent.ask("session/new", {"cwd": "/w", "mcpServers": servers, "additionalDirectories": ["/more"]})
    assert opening == c.OpenSession(
        "new",
        cwd="/w",
        folders=("/more",),
        servers=(
            Server("a", "stdio", "/bin/a", ("x",), {"K": "v"}),
            Server("b", "http", url="http://127.0.0.1/", headers={"H": "v"}),
            Server("c", "sse", url="http://127.0.0.1/"),
        ),
        session="id-1",
        ref=opening.ref,
    )


@pytest.mark.parametrize(
    "params",
    [
        {"cwd": "relative", "mcpServers": []},
        {"cwd": "/w", "mcpServers": [], "additionalDirectories": ["relative"]},
        {"cwd": "/w", "mcpServers": [], "additionalDirectories": [7]},
        {"mcpServers": []},
        {"cwd": "/w"},
        {"cwd": 7, "mcpServers": []},
        {"cwd": "/w", "mcpServers": [{"name": "a"}]},
        {"cwd": "/w", "mcpServers": [{"name": "a", "command": "/bin/a"}]},
        {"cwd": "/w", "mcpServers": [{"name": "a", "command": "/bin/a", "args": [7], "env": []}]},
        {"cwd": "/w", "mcpServers": [{"name": "a", "type": "http", "url": "http://x/"}]},
        {"cwd": "/w", "mcpServers": [{"name": "a", "type": "acp"}]},
        {"cwd": "/w", "mcpServers": [{"name": "a", "type": "websocket", "url": "ws://x"}]},
        {"cwd": "/w", "mcpServers": [{"name": "a", "type": "carrier pigeon"}]},
        {"cwd": "/w", "mcpServers": ["a"]},
        [],
        None,
    ],
)
def test_bad_params_of_a_session_are_refused(params: Any) -> None:
    """docs/acp.md, requirements 11 and 15."""
    agent = Agent()
    agent.initialize()
    assert agent.ask("session/new", params) == []
    [answer] = agent.read()
    assert answer["error"]["code"] == -32602
    assert answer["error"]["message"]


def test_null_servers_are_none() -> None:
    agent = Agent()
    agent.initialize()
    [opening] = agent.ask("session/new", {"cwd": "/w", "mcpServers": None, "additionalDirectories": None})
    assert isinstance(opening, c.OpenSession)
    assert (opening.servers, opening.folders) == ((), ())


def test_no_update_comes_before_the_answer() -> None:
    """docs/acp.md, requirement 12."""
    agent = Agent()
    agent.initialize(ALL)
    [opening] = agent.ask("session/new", {"cwd": "/w", "mcpServers": []})
    session = opening.session
    agent.send(
        e.Ready("1", "big", "plan", Abilities(modes=("default", "plan")), session=session),
        e.Notice("careful", session=session),
    )
    requested = agent.send(e.Reply(opening.ref, SessionOpened(session), session=session))
    assert [(type(one), getattr(one, "what", "")) for one in requested] == [
        (c.Hello, ""),
        (c.Query, "models"),
        (c.Query, "state"),
    ]
    assert {one.session for one in requested} == {session}
    cards = (CommandCard("compact", "Makes room", "what to keep"), CommandCard("clear", "Begins anew", builtin=True))
    agent.send(e.SettingChanged("commands", cards, session=session))
    for command, data in zip(requested, (None, MODELS, State("s", "big", "plan", "high", name="A talk")), strict=True):
        assert agent.read() == []
        agent.send(e.Reply(command.ref, data, session=session))
    answer, *updates = agent.read()
    assert answer["result"]["sessionId"] == session
    assert [update["params"]["sessionId"] for update in updates] == [session] * len(updates)
    assert [update["params"]["update"]["sessionUpdate"] for update in updates] == [
        "notice",
        "available_commands_update",
        "session_info_update",
    ]
    assert updates[1]["params"]["update"]["availableCommands"] == [
        {"name": "compact", "description": "Makes room", "input": {"hint": "what to keep"}}
    ]


def test_what_the_client_offers_is_told_to_the_engine() -> None:
    agent = Agent()
    params = {"protocolVersion": 1, "clientInfo": {"name": "ed", "version": "4"}, "clientCapabilities": ALL}
    agent.ask("initialize", params)
    [opening] = agent.ask("session/new", {"cwd": "/w", "mcpServers": []})
    hello = agent.send(e.Reply(opening.ref))[0]
    offers = {"files": {"read": True, "write": True}, "terminal": True}
    assert hello == c.Hello("ed", "4", offers, session=opening.session, ref=hello.ref)


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
@pytest.mark.parametrize(("failure", "code"), [(GONE, -32002), (IN_USE, -32603), (NO_KEY, -32000)])
def test_a_session_that_cannot_be_opened(method: str, failure: Failure, code: int) -> None:
    """docs/acp.md, requirements 22 and 26."""
    agent = Agent()
    agent.initialize()
    [opening] = agent.ask(method, {"sessionId": "x", "cwd": "/w", "mcpServers": []})
    assert agent.send(e.Reply(opening.ref, failure=failure)) == []
    [answer] = agent.read()
    error = answer["error"]
    assert (error["code"], error["message"][: len(failure.message)]) == (code, failure.message)
    assert error["data"]["details"] == failure.message
    assert error["data"].get("sessionId") == ("x" if code == -32002 else None)
    assert agent.open(method, {"sessionId": "x"})  # it can be tried again


def test_prompt_and_settings_of_an_unknown_session_are_refused() -> None:
    """docs/acp.md, requirement 22."""
    agent, _ = started()
    assert agent.ask("session/prompt", prompt("x")) == []
    assert agent.ask("session/set_mode", {"sessionId": "x", "modeId": "plan"}) == []
    assert agent.ask("session/set_config_option", {"sessionId": "x", "configId": "mode", "value": "plan"}) == []
    assert agent.ask("_session/steering", prompt("x")) == []
    errors = [answer["error"] for answer in agent.read()]
    assert [(error["code"], error["data"]) for error in errors] == [(-32002, {"sessionId": "x"})] * 4


# Load, resume, fork.


def test_a_load_replays_everything_and_answers_last() -> None:
    """docs/acp.md, requirements 16 and 17."""
    agent = Agent()
    agent.initialize({**ALL, "_meta": {"terminal_output": True}})
    agent.open("session/load", {"sessionId": "old"}, messages=CONVERSATION, id=7)
    *messages, answer = agent.read()
    assert answer["id"] == 7
    assert set(answer["result"]) == {"modes", "configOptions"}
    assert {message["method"] for message in messages} == {"session/update"}
    assert {message["params"]["sessionId"] for message in messages} == {"old"}
    user, image, thought, text, read, edit, denied, unfinished, done, shell, summary = (
        message["params"]["update"] for message in messages
    )
    assert [text_of(one) for one in (user, thought, text, done)] == [
        "user_message_chunk: look",
        "agent_thought_chunk: hm",
        "agent_message_chunk: I look.",
        "agent_message_chunk: Done.",
    ]
    assert (user["messageId"], thought["messageId"], text["messageId"]) == ("e1", "e2", "e2")
    assert image["content"] == {"type": "image", "mimeType": "image/gif", "data": "R0lG"}
    assert read == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c1",
        "title": "Read a",
        "name": "Read",
        "kind": "read",
        "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": "one"}}],
        "locations": [{"path": "/w/a"}],
        "rawInput": {"file_path": "a"},
    }
    assert edit["content"] == [{"type": "diff", "path": "/w/a", "oldText": "one", "newText": "two"}]
    assert [one["status"] for one in (denied, unfinished, shell, summary)] == [
        "failed",
        "failed",
        "completed",
        "completed",
    ]
    assert b"terminal" not in repr(messages).encode()


def test_a_load_ends_with_the_plan_and_tells_the_context_after_its_answer() -> None:
    """docs/acp.md, requirement 16."""
    agent = Agent()
    agent.initialize()
    card = ModelCard("anthropic", "big", window=100)
    state = State("s", "big", "default", name="A talk", card=card, context=40, plan=(PlanItem("first"),))
    agent.open("session/load", {"sessionId": "old"}, messages=CONVERSATION[:1], state=state)
    kinds = [message.get("params", {}).get("update", {}).get("sessionUpdate") for message in agent.read()]
    assert kinds == ["user_message_chunk", "user_message_chunk", "plan", None, "session_info_update", "usage_update"]


def test_a_resume_writes_nothing_before_its_answer() -> None:
    """docs/acp.md, requirement 18."""
    agent = Agent()
    agent.initialize()
    [opening] = agent.ask("session/resume", {"sessionId": "old", "cwd": "/w"})
    assert opening == c.OpenSession("resume", "old", cwd="/w", session="old", ref=opening.ref)
    requested = agent.send(e.Reply(opening.ref, SessionOpened("old", resumed=True)))
    assert [one.what for one in requested if isinstance(one, c.Query)] == ["models", "state"]
    for command in requested:
        agent.send(e.Reply(command.ref))
    [answer] = agent.read()
    assert set(answer["result"]) == {"modes", "configOptions"}


def test_a_fork_has_an_id_of_its_own() -> None:
    agent, _ = started()
    [opening] = agent.ask("session/fork", {"sessionId": "old", "cwd": "/w"})
    assert isinstance(opening, c.OpenSession)
    assert (opening.how, opening.target) == ("fork", "old")
    assert opening.session not in ("old", "")
    new = agent.open("session/fork", {"sessionId": "old"})
    [answer] = agent.read()
    assert answer["result"]["sessionId"] == new


def test_an_open_session_that_is_loaded_again_is_replayed() -> None:
    agent = Agent()
    agent.initialize()
    agent.open("session/load", {"sessionId": "old"})
    agent.read()
    requested = agent.ask("session/load", {"sessionId": "old", "cwd": "/w", "mcpServers": []})
    assert [getattr(one, "what", "hello") for one in requested] == ["hello", "models", "state", "messages"]
    for command, data in zip(requested, (None, (), STATE, CONVERSATION[:1]), strict=True):
        agent.send(e.Reply(command.ref, data))
    *messages, answer = agent.read()
    assert [message["params"]["update"]["sessionUpdate"] for message in messages] == ["user_message_chunk"] * 2
    assert "configOptions" in answer["result"]


def test_sessions_are_apart() -> None:
    agent = Agent()
    agent.initialize()
    one, two = agent.open(), agent.open()
    agent.read()
    assert agent.ask("session/prompt", prompt(one, turn="t"))[0].session == one
    assert agent.ask("session/prompt", prompt(two, turn="t"))[0].session == two
    agent.send(e.TextDelta("two", session=two), e.TextDelta("one", session=one), e.TextDelta("none", session="x"))
    messages = agent.read()
    assert [message["params"]["sessionId"] for message in messages] == [two, one]
    agent.send(e.TurnEnded("end", turn="t", session=two))
    [answer] = agent.read()
    assert answer["id"] == 104


# List, close, delete.


def test_a_list_has_pages_to_an_end() -> None:
    """docs/acp.md, requirement 20."""
    agent, _ = started()
    cards = tuple(SessionCard(f"s{number:03}", "/w", at=number // 2) for number in range(120))
    seen: list[str] = []
    params: Object = {"cwd": "/w"}
    while True:
        [query] = agent.ask("session/list", params)
        assert query == c.Query("sessions", {"cwd": "/w"}, ref=query.ref)
        agent.send(e.Reply(query.ref, cards))
        [answer] = agent.read()
        seen += [row["sessionId"] for row in answer["result"]["sessions"]]
        if "nextCursor" not in answer["result"]:
            break
        params["cursor"] = answer["result"]["nextCursor"]
    assert len(seen) == len(set(seen)) == 120
    assert seen[0] == "s118"


def test_a_list_of_nothing_is_empty() -> None:
    """docs/acp.md, requirement 20."""
    agent, _ = started()
    for params in (None, {}, {"cwd": None, "cursor": None}):
        [query] = agent.ask("session/list", params)
        assert query == c.Query("sessions", {}, ref=query.ref)
        agent.send(e.Reply(query.ref, ()))
    assert [answer["result"] for answer in agent.read()] == [{"sessions": []}] * 3


@pytest.mark.parametrize("cursor", ["", "x", "e30=", "WzEsIDJd", "é", 7])
def test_a_bad_cursor_is_refused(cursor: Any) -> None:
    """docs/acp.md, requirement 20."""
    agent, _ = started()
    assert agent.ask("session/list", {"cursor": cursor}) == []
    assert [answer["error"]["code"] for answer in agent.read()] == [-32602]


def test_a_listed_session_has_a_title_and_a_date() -> None:
    agent, _ = started()
    [query] = agent.ask("session/list")
    named, first = SessionCard("a", "/w", "A talk", 1500, 2, "hi"), SessionCard("b", "/v", first="hello\nthere")
    agent.send(e.Reply(query.ref, (named, first)))
    [answer] = agent.read()
    assert answer["result"]["sessions"] == [
        {"sessionId": "a", "cwd": "/w", "title": "A talk", "updatedAt": "1970-01-01T00:00:01.500Z"},
        {"sessionId": "b", "cwd": "/v", "title": "hello"},
    ]


@pytest.mark.parametrize("failure", [None, GONE])
def test_what_is_not_there_can_be_closed_and_deleted(failure: Failure | None) -> None:
    """docs/acp.md, requirement 21."""
    agent, _ = started()
    assert agent.ask("session/close", {"sessionId": "x"}) == []
    [delete] = agent.ask("session/delete", {"sessionId": "x"})
    assert delete == c.CloseSession("x", delete=True, ref=delete.ref)
    agent.send(e.Reply(delete.ref, failure=failure))
    assert [answer["result"] for answer in agent.read()] == [{}, {}]


def test_a_delete_that_fails_is_told() -> None:
    agent, _ = started()
    [delete] = agent.ask("session/delete", {"sessionId": "x"})
    agent.send(e.Reply(delete.ref, failure=IN_USE))
    assert [answer["error"]["code"] for answer in agent.read()] == [-32603]


def test_a_close_answers_the_prompts_first() -> None:
    """docs/acp.md, requirement 23."""
    agent, session = started()
    agent.ask("session/prompt", prompt(session), id="p")
    agent.send(e.TurnStarted(turn="t1", session=session))
    agent.send(e.Ask("a1", call="c1", name="Bash", turn="t1", session=session))
    agent.read()
    [close] = agent.ask("session/close", {"sessionId": session}, id="c")
    assert close == c.CloseSession(session=session, ref=close.ref)
    assert agent.read() == []
    agent.send(e.Reply(close.ref, session=session))
    withdrawn, failed, ended, closed = agent.read()
    assert withdrawn["method"] == "$/cancel_request"
    assert failed["params"]["update"]["status"] == "failed"
    assert (ended["id"], ended["result"]["stopReason"]) == ("p", "cancelled")
    assert (closed["id"], closed["result"]) == ("c", {})
    agent.send(e.TextDelta("late", session=session))
    assert agent.read() == []
    agent.ask("session/prompt", prompt(session))
    assert [answer["error"]["code"] for answer in agent.read()] == [-32002]


def test_an_open_session_that_is_deleted_is_gone() -> None:
    """docs/acp.md, requirement 21."""
    agent, session = started()
    [delete] = agent.ask("session/delete", {"sessionId": session})
    assert delete == c.CloseSession(session, delete=True, ref=delete.ref)
    agent.send(e.Reply(delete.ref))
    assert [answer["result"] for answer in agent.read()] == [{}]
    agent.ask("session/prompt", prompt(session))
    assert [answer["error"]["code"] for answer in agent.read()] == [-32002]


def test_a_session_that_cannot_be_deleted_stays_open() -> None:
    agent, session = started()
    [delete] = agent.ask("session/delete", {"sessionId": session})
    agent.send(e.Reply(delete.ref, failure=Failure("session", "another was forked from it", "host")))
    assert [answer["error"]["code"] for answer in agent.read()] == [-32603]
    [sent] = agent.ask("session/prompt", prompt(session))
    assert isinstance(sent, c.Prompt)


# Withdrawn requests.


def test_a_request_that_opens_a_session_can_be_withdrawn() -> None:
    """docs/acp.md, requirement 38."""
    agent, _ = started()
    [opening] = agent.ask("session/new", {"cwd": "/w", "mcpServers": []}, id="n")
    assert agent.notify("$/cancel_request", {"requestId": "n"}) == [c.CloseSession(session=opening.session)]
    [answer] = agent.read()
    assert (answer["id"], answer["error"]["code"]) == ("n", -32800)
    assert agent.send(e.Reply(opening.ref, SessionOpened(opening.session))) == []
    assert agent.notify("$/cancel_request", {"requestId": "n"}) == []
    assert agent.read() == []


@pytest.mark.parametrize("failure", [None, GONE])
def test_a_session_that_is_closed_while_it_opens_is_not_open(failure: Failure | None) -> None:
    """docs/acp.md, requirement 38."""
    agent, _ = started()
    [opening] = agent.ask("session/load", {"sessionId": "x", "cwd": "/w", "mcpServers": []}, id="l")
    [close] = agent.ask("session/close", {"sessionId": "x"}, id="c")
    agent.send(e.Reply(close.ref, session="x"))
    assert agent.send(e.Reply(opening.ref, failure=failure, session="x")) == []
    closed, opened = agent.read()
    assert (closed["id"], closed["result"]) == ("c", {})
    assert (opened["id"], opened["error"]["code"]) == ("l", -32800)


def test_a_list_can_be_withdrawn_and_a_change_of_mode_gets_its_answer() -> None:
    """docs/acp.md, requirement 38."""
    agent, session = started()
    [query] = agent.ask("session/list", id="l")
    [configure] = agent.ask("session/set_mode", {"sessionId": session, "modeId": "plan"}, id="m")
    assert agent.notify("$/cancel_request", {"requestId": "l"}) == []
    assert agent.notify("$/cancel_request", {"requestId": "m"}) == []
    agent.send(e.Reply(query.ref, ()), e.Reply(configure.ref))
    listed, changed = agent.read()
    assert (listed["id"], listed["error"]["code"]) == ("l", -32800)
    assert (changed["id"], changed["result"]) == ("m", {})


# Settings.


def options_of(result: Object) -> dict[str, Any]:
    return {option["id"]: option["currentValue"] for option in result["configOptions"]}


def opened_with_models() -> tuple[Agent, str, Object]:
    agent = Agent()
    agent.initialize()
    session = agent.open(state=State("s", "small", "plan", "", provider="other"), models=MODELS)
    [answer] = agent.read()
    return agent, session, answer["result"]


def test_modes_and_models_are_options() -> None:
    """docs/acp.md, requirement 40."""
    _, _, result = opened_with_models()
    assert result["modes"]["currentModeId"] == "plan"
    assert options_of(result) == {"mode": "plan", "model": "other/small"}
    mode, model = result["configOptions"]
    assert [row["value"] for row in mode["options"]] == [mode["id"] for mode in result["modes"]["availableModes"]]
    assert [row["value"] for row in model["options"]] == ["big", "anthropic/small", "other/small"]


def test_a_changed_option_is_answered_with_all_of_them() -> None:
    """docs/acp.md, requirement 40."""
    agent, session, _ = opened_with_models()
    [configure] = agent.ask("session/set_config_option", {"sessionId": session, "configId": "model", "value": "big"})
    assert configure == c.Configure({"model": "big"}, session=session, ref=configure.ref)
    agent.send(e.SettingChanged("provider", "anthropic", session=session))
    agent.send(e.SettingChanged("model", "big", session=session), e.Reply(configure.ref))
    *_, update, answer = agent.read()
    assert options_of(update["params"]["update"]) == options_of(answer["result"])
    assert options_of(answer["result"]) == {"mode": "plan", "model": "big", "thought_level": "off"}
    [configure] = agent.ask(
        "session/set_config_option", {"sessionId": session, "configId": "thought_level", "value": "high"}
    )
    assert configure == c.Configure({"thinking": "high"}, session=session, ref=configure.ref)
    agent.send(e.SettingChanged("thinking", "high", session=session), e.Reply(configure.ref))
    _, answer = agent.read()
    assert options_of(answer["result"])["thought_level"] == "high"


@pytest.mark.parametrize("method", ["session/set_mode", "session/set_config_option"])
def test_both_forms_of_the_mode_stay_equal(method: str) -> None:
    """docs/acp.md, requirement 40."""
    agent, session = started()
    params = {"sessionId": session, "modeId": "force", "configId": "mode", "value": "force"}
    [configure] = agent.ask(method, params)
    assert configure == c.Configure({"mode": "force"}, session=session, ref=configure.ref)
    agent.send(e.SettingChanged("mode", "force", session=session), e.Reply(configure.ref))
    mode, config, answer = agent.read()
    assert mode["params"]["update"] == {"sessionUpdate": "current_mode_update", "currentModeId": "force"}
    assert options_of(config["params"]["update"])["mode"] == "force"
    if method == "session/set_config_option":
        assert options_of(answer["result"])["mode"] == "force"


@pytest.mark.parametrize(
    ("option", "value"), [("mode", "yolo"), ("model", "none"), ("mode", True), ("thought_level", "high"), ("x", "y")]
)
def test_a_wrong_value_changes_nothing(option: str, value: Any) -> None:
    """docs/acp.md, requirement 40."""
    agent, session = started()
    assert agent.ask("session/set_config_option", {"sessionId": session, "configId": option, "value": value}) == []
    assert [answer["error"]["code"] for answer in agent.read()] == [-32602]


def test_a_setting_that_the_engine_refuses_is_refused() -> None:
    """docs/acp.md, requirement 40."""
    agent, session = started()
    [configure] = agent.ask("session/set_mode", {"sessionId": session, "modeId": "force"})
    agent.send(e.Reply(configure.ref, failure=Failure("bad_setting", "force is not allowed here", "host")))
    [answer] = agent.read()
    assert answer["error"]["code"] == -32602
    assert answer["error"]["message"] == "force is not allowed here"


def test_a_title_is_set_and_cleared() -> None:
    agent, session = started()
    agent.send(e.SettingChanged("title", "A talk", session=session), e.SettingChanged("title", "", session=session))
    assert [update["title"] for update in agent.updates()] == ["A talk", None]


# Login.


def test_logging_in_and_out() -> None:
    """docs/acp.md, requirement 51."""
    login = AuthMethod(id="login", name="Log in", type="terminal", args=["login"])
    agent = Agent(auth=(AuthMethod(id="key", name="Key"), login), logout=True)
    agent.initialize(ALL)
    [authenticate] = agent.ask("authenticate", {"methodId": "key"})
    assert authenticate == c.Authenticate("key", ref=authenticate.ref)
    agent.send(e.Reply(authenticate.ref))
    [logout] = agent.ask("logout", {})
    assert logout == c.Authenticate(ref=logout.ref)
    agent.send(e.Reply(logout.ref, failure=NO_KEY))
    assert agent.ask("authenticate", {"methodId": "login"}) == []
    assert agent.ask("authenticate", {"methodId": "other"}) == []
    accepted, failed, *refused = agent.read()
    assert accepted["result"] == {}
    assert failed["error"]["code"] == -32000
    assert [answer["error"]["code"] for answer in refused] == [-32602, -32602]
