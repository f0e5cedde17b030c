"""The connection itself: versions, ids, bad lines, unknown requests, capabilities and logins."""

import json
from typing import Any

import pytest

from dialects.acp.host.talk import EVERYTHING, Talk, agent, opened, permission, update, words
from polylect.dialects.acp.versions import MAX_FRAME
from polylect.vocab import events as e
from polylect.vocab.answers import SessionCard
from polylect.vocab.commands import (
    AddServer,
    Answer,
    Authenticate,
    Cancel,
    CloseSession,
    Configure,
    Hello,
    OpenSession,
    Prompt,
    Query,
    Steer,
)
from polylect.vocab.content import Document, Failure, File, Image, Link, Server

PIXEL = Image("image/gif", "R0lG")


def failures(events: list[e.Event]) -> list[Failure]:
    return [event.failure for event in events if isinstance(event, e.Reply | e.Failed) and event.failure]


# Lines and ids.


def test_every_message_is_one_line_of_json() -> None:
    """Requirement 1 of docs/acp.md; `Talk` holds every line to it and to the schema."""
    talk = opened()
    talk.do(Prompt("t1", "one\ntwo\r\u2028three é"))
    assert talk.request("session/prompt")["params"]["prompt"][0]["text"] == "one\ntwo\r\u2028three é"


@pytest.mark.parametrize(
    ("line", "answer"), [(b"{bad json", -32700), (b"[1, 2]", -32600), (b"7", 0), (b"Loading tools ...", 0), (b"", 0)]
)
def test_a_bad_line_does_not_end_the_connection(line: bytes, answer: int) -> None:
    """Requirement 3 of docs/acp.md. A line of a log is not answered: nobody meant it as a message."""
    talk = opened()
    before = len(talk.sent)
    events = talk.receive(line)
    assert [type(event) for event in events] == [e.MalformedEvent] * bool(line)
    assert [(reply["id"], reply["error"]["code"]) for reply in talk.sent[before:]] == [(None, answer)] * bool(answer)
    assert talk.update("usage_update", used=1, size=2) == [e.ContextUsed(1, 2)]


@pytest.mark.parametrize("id", [0, 3, "p-4", "0f0e7c7c-3c38-4a5e-9d39-0f6e5f1e2a3b"])
def test_an_id_is_echoed_as_it_came(id: int | str) -> None:
    """Requirement 4 of docs/acp.md: request 3 of the agent is not the answer to request 3 of ours."""
    talk = opened()
    talk.prompt()
    assert talk.request("session/prompt")["id"] == 3
    talk.receive(permission(id, {"toolCallId": "c1", "title": "Run"}))
    (ask,) = talk.of(e.Ask)
    assert isinstance(ask, e.Ask)
    talk.do(Answer(ask.ask, "allow"))
    assert talk.sent[-1]["id"] == id
    assert type(talk.sent[-1]["id"]) is type(id)
    assert talk.of(e.TurnEnded) == []


def test_notifications_and_stray_answers_are_not_answered() -> None:
    """Requirement 5 of docs/acp.md."""
    talk = opened()
    before = len(talk.sent)
    status = {"method": "_auth/status_update", "params": {"authStatus": {"kind": "api_key"}}}
    assert [type(event) for event in talk.receive(status)] == [e.UnknownEvent]
    stray = {"id": 99, "result": {}}
    assert talk.receive(stray, {"id": None, "error": {"code": -32700, "message": "Parse error"}}) == []
    assert talk.sent[before:] == []


@pytest.mark.parametrize("method", ["craft/drainMidTurnQueue", "_vendor/thing", "fs/read_text_file", "terminal/create"])
def test_an_unknown_request_is_refused_at_once_in_the_middle_of_a_turn(method: str) -> None:
    """Requirement 6 of docs/acp.md. qwen waits for it after each call; files and terminals were not offered here."""
    talk = opened()
    talk.prompt()
    events = talk.receive({"id": 5, "method": method, "params": {"sessionId": "s-1"}})
    assert [(type(event), getattr(event, "kind", "")) for event in events] == [(e.UnknownEvent, method)]
    assert (talk.sent[-1]["id"], talk.sent[-1]["error"]["code"]) == (5, -32601)


def test_a_line_of_32_mib_passes_and_a_longer_one_is_refused() -> None:
    """Requirement 52 of docs/acp.md."""
    talk = opened(max_line=MAX_FRAME)
    talk.prompt()
    frame = json.dumps({"jsonrpc": "2.0", **update("agent_message_chunk", content=words(""))})
    line = frame.replace('"text": ""', '"text": "' + "x" * (MAX_FRAME - len(frame)) + '"').encode()
    assert len(line) == MAX_FRAME
    assert len("".join(event.text for event in talk.receive(line) if isinstance(event, e.TextDelta))) > MAX_FRAME - 1000
    assert [type(event) for event in talk.receive(line + b" " * 9)] == [e.MalformedEvent]
    assert talk.update("usage_update", used=1, size=2) == [e.ContextUsed(1, 2, turn="t1")]
    assert [failure.code for failure in failures(talk.do(Prompt("t2", "x" * MAX_FRAME, ref="r")))] == []
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert [event.failure and event.failure.code for event in talk.of(e.TurnEnded)] == [None, "too_long"]


# The handshake.


@pytest.mark.parametrize(
    "result",
    [
        {"protocolVersion": 2, "info": {"name": "x"}, "capabilities": {}},
        {"protocolVersion": 1, "info": {"name": "x"}, "capabilities": {}},
        {"protocolVersion": 0},
        {},
    ],
)
def test_a_version_that_we_do_not_speak_ends_the_start(result: dict[str, Any]) -> None:
    """Requirement 8 of docs/acp.md."""
    talk = Talk()
    (failure,) = failures(talk.answer("initialize", result))
    assert failure.code == "unsupported_version"
    assert "polylect speaks version 1" in failure.message
    assert talk.host.start_failure == failure
    assert talk.methods() == ["initialize"]


def test_a_version_that_is_only_an_echo_is_version_1() -> None:
    """Requirement 8 of docs/acp.md: goose echoes any number."""
    talk = Talk()
    talk.answer("initialize", {**agent("goose"), "protocolVersion": 99})
    assert talk.methods() == ["initialize", "session/new"]


def test_an_error_to_initialize_ends_the_start() -> None:
    talk = Talk()
    (failure,) = failures(talk.answer("initialize", code=-32022, message="Unsupported", data={"supported": [2]}))
    assert "Unsupported" in failure.message
    assert talk.host.start_failure


def test_what_this_end_offers() -> None:
    talk = Talk(files=True, terminal=True)
    offered = talk.request("initialize")["params"]["clientCapabilities"]
    assert offered["fs"] == {"readTextFile": True, "writeTextFile": True}
    assert offered["terminal"] is True
    assert set(offered["session"]) == {"configOptions", "notices", "compaction"}
    assert set(offered["elicitation"]) == {"form", "url"}


@pytest.mark.parametrize(
    ("method", "hint"),
    [
        (
            {"id": "in", "name": "Sign in", "type": "terminal", "args": ["--cli", "auth"]},
            "run the same program --cli auth",
        ),
        ({"id": "key", "name": "API key"}, "authenticate with 'key'"),
        (
            {"id": "login", "name": "Log in", "_meta": {"terminal-auth": {"command": "kimi", "args": ["login"]}}},
            "run kimi login",
        ),
    ],
)
def test_a_login_that_is_needed_says_what_to_run(method: dict[str, Any], hint: str) -> None:
    talk = Talk()
    talk.answer("initialize", agent(authMethods=[method]))
    (failure,) = failures(talk.answer("session/new", code=-32000, message="Authentication required"))
    assert (failure.code, failure.owner) == ("auth", "user")
    assert hint in failure.message


def test_a_login_is_asked_for_before_the_session_is_opened() -> None:
    talk = Talk(login="key")
    talk.answer("initialize", agent(authMethods=[{"id": "key", "name": "API key"}]))
    assert talk.methods() == ["initialize", "authenticate"]
    talk.answer("authenticate", {})
    assert talk.methods()[-1] == "session/new"


def test_logging_in_and_out_over_the_wire() -> None:
    methods = [{"id": "key", "name": "API key"}, {"id": "web", "name": "Web", "type": "terminal", "args": ["login"]}]
    talk = opened(agent(authMethods=methods))
    talk.do(Authenticate("key", ref="a"))
    assert talk.answer("authenticate", None) == [e.Reply("a")]
    (failure,) = failures(talk.do(Authenticate("web", ref="b")))
    assert "run the same program login" in failure.message
    talk.do(Authenticate(ref="c"))
    assert talk.answer("logout", {}) == [e.Reply("c")]


# What the agent did not offer.


@pytest.mark.parametrize(
    "command",
    [
        OpenSession("load", "x", ref="r"),
        OpenSession("resume", "x", ref="r"),
        OpenSession("fork", ref="r"),
        OpenSession("new", folders=("/other",), ref="r"),
        CloseSession(ref="r"),
        CloseSession("x", delete=True, ref="r"),
        Query("sessions", ref="r"),
        Authenticate(ref="r"),
        Configure({"name": "A talk"}, ref="r"),
        Configure({"mode": "plan"}, ref="r"),
        Configure({"model": "x"}, ref="r"),
        Steer("faster", ref="r"),
        AddServer(Server("team", command="x"), ref="r"),
        Hello("x", offers={"tools": []}, ref="r"),
        Cancel("agent", "k", ref="r"),
        Prompt("t", "x", query=False, ref="r"),
        Prompt("t", "x", schema={"type": "object"}, ref="r"),
        Prompt("t", "x", (PIXEL,), ref="r"),
        Prompt("t", "x", (Document("a.pdf", "application/pdf", data="eA=="),), ref="r"),
    ],
    ids=lambda command: f"{type(command).__name__} {getattr(command, 'how', '')}{getattr(command, 'what', '')}",
)
def test_what_the_agent_did_not_offer_is_never_sent(command: Any) -> None:
    """Requirement 19 of docs/acp.md."""
    talk = opened(agent(capabilities={}))
    before = len(talk.sent)
    (reply,) = talk.do(command)
    assert isinstance(reply, e.Reply)
    assert reply.failure
    assert reply.failure.code in ("unsaid", "unsupported")
    assert talk.sent[before:] == []


def test_attachments_of_every_kind() -> None:
    talk = opened()
    attachments = (
        File("/w/a b.txt"),
        Link("https://example.org/x", "x", "text/html"),
        PIXEL,
        Document("notes.md", "text/markdown", text="# Notes"),
        Document("a.wav", "audio/wav", data="eA=="),
    )
    talk.prompt("look", attachments=attachments)
    assert talk.request("session/prompt")["params"]["prompt"] == [
        words("look"),
        {"type": "resource_link", "uri": "file:///w/a%20b.txt", "name": "a b.txt"},
        {"type": "resource_link", "uri": "https://example.org/x", "name": "x", "mimeType": "text/html"},
        {"type": "image", "data": "R0lG", "mimeType": "image/gif"},
        {"type": "resource", "resource": {"uri": "file://notes.md", "text": "# Notes", "mimeType": "text/markdown"}},
        {"type": "audio", "data": "eA==", "mimeType": "audio/wav"},
    ]


def test_a_text_goes_as_text_to_an_agent_without_embedded_content() -> None:
    talk = opened(agent(capabilities={}))
    talk.prompt("look", attachments=(Document("notes.md", "text/markdown", text="# Notes"),))
    assert talk.request("session/prompt")["params"]["prompt"] == [words("look"), words("notes.md:\n\n# Notes")]


# MCP servers.

TEAM = Server("team", command="/bin/team", args=("-x",), env={"A": "1"})
WEB = Server("web", "http", url="https://example.org/mcp", headers={"K": "v"})


def test_servers_are_sent_as_far_as_they_were_offered() -> None:
    """Requirement 15 of docs/acp.md."""
    talk = Talk(servers=(Server("bare", command="/bin/bare"), TEAM, WEB))
    events = talk.answer("initialize", agent(capabilities={}))
    assert talk.request("session/new")["params"]["mcpServers"] == [
        {"name": "bare", "command": "/bin/bare", "args": [], "env": []},
        {"name": "team", "command": "/bin/team", "args": ["-x"], "env": [{"name": "A", "value": "1"}]},
    ]
    assert events == [e.ServerChanged("web", "failed", reason="this agent connects to no http servers")]


def test_servers_of_all_transports() -> None:
    talk = Talk(servers=(WEB, Server("old", "sse", url="https://example.org/sse")))
    talk.answer("initialize", agent())
    assert talk.request("session/new")["params"]["mcpServers"] == [
        {"name": "web", "type": "http", "url": "https://example.org/mcp", "headers": [{"name": "K", "value": "v"}]},
        {"name": "old", "type": "sse", "url": "https://example.org/sse", "headers": []},
    ]


# Sessions.


def test_sessions_are_listed_to_the_end() -> None:
    talk = opened()
    talk.do(Query("sessions", {"cwd": "/w"}, ref="q"))
    row = {"sessionId": "s-9", "cwd": "/w", "title": "Old", "updatedAt": "1970-01-01T00:00:01Z"}
    assert talk.answer("session/list", {"sessions": [row, 7], "nextCursor": "more"}) == []
    assert talk.request("session/list")["params"] == {"cwd": "/w", "cursor": "more"}
    (reply,) = talk.answer("session/list", {"sessions": [{"sessionId": "s-8", "cwd": "/w"}]})
    assert reply == e.Reply("q", (SessionCard("s-9", "/w", "Old", 1000), SessionCard("s-8", "/w")))


def test_several_sessions_over_one_connection() -> None:
    talk = opened()
    talk.do(OpenSession("new", session="two", cwd="/v", ref="o"))
    (reply,) = talk.answer("session/new", {"sessionId": "s-2"})
    assert (reply.session, getattr(reply, "data", None) and reply.data.session) == ("two", "s-2")
    talk.prompt()
    talk.do(Prompt("t2", "there", session="two"))
    assert talk.request("session/prompt")["params"]["sessionId"] == "s-2"
    talk.update("agent_message_chunk", "s-2", content=words("Two."))
    talk.update("agent_message_chunk", "s-1", content=words("One."))
    assert [(event.text, event.session, event.turn) for event in talk.of(e.TextDelta)] == [
        ("Two.", "two", "t2"),
        ("One.", "", "t1"),
    ]
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert [(event.session, event.turn) for event in talk.of(e.TurnEnded)] == [("two", "t2")]
    assert [event.session for event in talk.of(e.Settled)] == ["two"]
    talk.do(CloseSession(session="two", ref="c"))
    assert talk.request("session/close")["params"] == {"sessionId": "s-2"}
    assert talk.answer("session/close", {}) == [e.Reply("c", session="two")]
    assert [failure.code for failure in failures(talk.do(Prompt("t3", "x", session="two", ref="p")))] == [
        "no_such_session"
    ]


def test_another_main_session() -> None:
    talk = opened()
    talk.do(OpenSession("fork", ref="f"))
    assert talk.request("session/fork")["params"] == {"sessionId": "s-1", "cwd": "/w", "mcpServers": []}
    events = talk.answer("session/fork", {"sessionId": "s-2"})
    assert [type(event) for event in events] == [e.SettingChanged, e.Reply]
    talk.prompt()
    assert talk.request("session/prompt")["params"]["sessionId"] == "s-2"
    talk.update("agent_message_chunk", "s-2", content=words("Here."))
    assert [event.text for event in talk.of(e.TextDelta)] == ["Here."]


def test_the_main_session_before_is_closed_and_what_still_comes_for_it_is_passed_over() -> None:
    talk = opened()
    talk.do(OpenSession("resume", "s-2", ref="r"))
    talk.answer("session/resume", {})
    assert talk.request("session/close")["params"] == {"sessionId": "s-1"}
    assert talk.answer("session/close", {}) == []
    assert talk.update("session_info_update", "s-1", title="Late") == []
    talk.do(OpenSession("resume", "s-1", ref="r"))
    talk.answer("session/resume", {})
    assert talk.update("session_info_update", "s-1", title="Here") == [e.SettingChanged("title", "Here")]
    talk.do(OpenSession("resume", "s-1", ref="r"))
    talk.answer("session/resume", {})
    assert talk.methods().count("session/close") == 2


@pytest.mark.parametrize("how", ["load", "resume", "new", "fork"])
def test_the_main_session_goes_on_if_another_one_cannot_be_opened(how: Any) -> None:
    talk = opened()
    talk.do(OpenSession(how, "s-9", ref="r"))
    events = talk.answer(f"session/{how}", code=-32002, message="gone", data={"sessionId": "s-9"})
    assert [failure.code for failure in failures(events)] == ["no_such_session"]
    talk.prompt()
    assert talk.request("session/prompt")["params"]["sessionId"] == "s-1"
    assert talk.update("agent_message_chunk", content=words("Still here."))[-1] == e.TextDelta("Still here.", turn="t1")
    assert "session/close" not in talk.methods()


def test_a_session_is_loaded_in_the_place_of_the_main_one() -> None:
    talk = opened()
    talk.do(OpenSession("load", "s-2", ref="r"))
    talk.update("user_message_chunk", "s-2", content=words("hi"))
    talk.update("agent_message_chunk", "s-2", content=words("Hello."))
    talk.answer("session/load", {})
    events = talk.wait(80)
    assert [type(event) for event in events][-2:] == [e.SettingChanged, e.Reply]
    assert [event.origin for event in talk.of(e.UserMessage)] == ["replay"]
    talk.prompt()
    assert talk.request("session/prompt")["params"]["sessionId"] == "s-2"


def test_unknown_keys_do_no_harm() -> None:
    """Requirement 44 of docs/acp.md."""
    talk = Talk()
    talk.answer("initialize", agent(models=[], _meta={"x": {"y": 1}}, extra=7))
    talk.answer(
        "session/new", {"sessionId": "s-1", "models": None, "modes": 4, "configOptions": "?", "_meta": {"z": 1}}
    )
    talk.prompt()
    talk.update("agent_message_chunk", content={**words("Hi"), "annotations": {"zeal": 9}}, _meta={"a": []}, more=[1])
    talk.answer("session/prompt", {"stopReason": "end_turn", "usage": None, "more": 1, "_meta": None})
    assert [event.reason for event in talk.of(e.TurnEnded)] == ["end"]
    assert [event.text for event in talk.of(e.TextDelta)] == ["Hi"]


@pytest.mark.parametrize("line", [{"jsonrpc": "2.0"}, {"result": {"stopReason": "end_turn"}}])
def test_an_answer_that_is_no_message_ends_the_turn(line: dict[str, Any]) -> None:
    """Requirement 46."""
    talk = opened()
    talk.prompt()
    sent = len(talk.sent)
    talk.receive(json.dumps({"id": talk.request("session/prompt")["id"], **line}).encode())
    [ended] = talk.of(e.TurnEnded)
    assert isinstance(ended, e.TurnEnded)
    assert ended.reason == "error"
    assert len(talk.sent) == sent


def test_a_server_inside_the_host_is_sent_and_asked_only_where_the_agent_reaches_it() -> None:
    server = Server("mine", "host")
    question = {"serverId": "mine", "requestId": "7", "method": "tools/list"}
    told = Talk(servers=[server])
    told.answer("initialize", agent(capabilities={**EVERYTHING, "mcpCapabilities": {"acp": True}}))
    assert told.sent[-1]["params"]["mcpServers"] == [{"name": "mine", "type": "acp", "serverId": "mine"}]
    told.answer("session/new", {"sessionId": "s-1"})
    [called] = told.receive({"id": 1, "method": "mcp/message", "params": question})
    message = {"jsonrpc": "2.0", "id": "7", "method": "tools/list"}
    assert isinstance(called, e.HostCall)
    assert (called.method, called.params) == ("mcp_message", {"server_name": "mine", "message": message})
    plain = opened()
    plain.receive({"id": 1, "method": "mcp/message", "params": question})
    assert plain.sent[-1]["error"]["code"] == -32601
