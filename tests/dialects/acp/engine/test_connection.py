"""Lines, ids and `initialize`. Requirements are those of docs/acp.md."""

import json
from typing import Any

import pytest

from dialects.acp.engine.agent import ALL, Agent, Object, prompt, started
from polylect.dialects.acp.frames.client import AuthMethod
from polylect.vocab.commands import MalformedCommand, Prompt
from polylect.vocab.events import TextDelta

METHODS = (
    AuthMethod(id="key", name="Use the key in the environment"),
    AuthMethod(id="login", name="Log in", type="terminal", args=["login"]),
)


def test_a_message_is_one_line_of_json_without_raw_separators() -> None:
    """docs/acp.md, requirement 1."""
    agent, session = started()
    agent.send(TextDelta("a\nb\r\u2028\u2029\x85é\ud800", session=session))
    data = agent.codec.data_to_send()
    assert data.endswith(b"}\n")
    assert len(data.decode().splitlines()) == 1 + data.decode().count("\x85")
    assert json.loads(data)["params"]["update"]["content"]["text"] == "a\nb\r\u2028\u2029\x85é\ufffd"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{bad json", -32700),
        (b"7", -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]', -32600),
        (b'{"id":1,"method":"initialize"}', -32600),
        (b'{"jsonrpc":"2.0","id":[],"method":"initialize"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"initialize"}', -32600),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","jsonrpc":"2.0"}', -32700),
    ],
)
def test_a_bad_line_is_answered_once_and_the_next_one_is_read(line: bytes, code: int) -> None:
    """docs/acp.md, requirement 3."""
    agent = Agent()
    [malformed] = agent.codec.receive(line + b"\n\n  \n")
    assert isinstance(malformed, MalformedCommand)
    [answer] = agent.read()
    assert answer["error"]["code"] == code
    assert answer["id"] in (None, 1)
    assert agent.initialize()["protocolVersion"] == 1


def test_a_line_above_the_limit_is_refused_and_the_next_one_is_read() -> None:
    """docs/acp.md, requirement 52."""
    agent = Agent(max_line=1000)
    assert [type(command) for command in agent.codec.receive(b"x" * 1001 + b"\n")] == [MalformedCommand]
    [answer] = agent.read()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert agent.initialize()


def test_a_line_of_32_mib_passes() -> None:
    """docs/acp.md, requirement 52."""
    agent, session = started()
    text = "x" * (32 * 1024 * 1024 - 1000)
    [command] = agent.ask("session/prompt", prompt(session, text))
    assert command == Prompt("t1", text, session=session, ref=command.ref)


@pytest.mark.parametrize("id", [0, 7, -1, "7", "6c0fa3ff-ad5f-4b9b-a9f8-9d4be0d0fd0a", "", 2**53])
def test_an_id_is_echoed_as_it_came(id: Any) -> None:
    """docs/acp.md, requirement 4."""
    agent = Agent()
    agent.ask("initialize", {"protocolVersion": 1}, id=id)
    [answer] = agent.read()
    assert answer["id"] == id
    assert type(answer["id"]) is type(id)


def test_notifications_and_stray_answers_are_not_answered() -> None:
    """docs/acp.md, requirement 5."""
    agent, session = started()
    assert agent.notify("nonsense") == []
    assert agent.notify("_nonsense", {"a": 1}) == []
    assert agent.notify("session/cancel") == []
    assert agent.notify("session/cancel", {"sessionId": "nobody"}) == []
    assert agent.notify("session/prompt", prompt(session)) == []
    assert agent.notify("$/cancel_request", {"requestId": 99}) == []
    assert agent.answer(4, {}) == []
    assert agent.answer(None, {}) == []
    assert agent.line({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}}) == []
    assert agent.read() == []


@pytest.mark.parametrize("method", ["nonsense", "_nonsense", "session/compact", "session/set_model", "logout"])
def test_an_unknown_request_is_refused_at_once_also_in_a_turn(method: str) -> None:
    """docs/acp.md, requirement 6."""
    agent, session = started()
    agent.ask("session/prompt", prompt(session))
    assert agent.ask(method, {"sessionId": session}) == []
    [answer] = agent.read()
    assert answer["error"]["code"] == -32601


@pytest.mark.parametrize("version", [0, 1, 2, 99])
def test_version_1_is_the_answer_to_any_version(version: int) -> None:
    """docs/acp.md, requirement 7."""
    agent = Agent()
    agent.ask("initialize", {"protocolVersion": version})
    [answer] = agent.read()
    assert answer["result"]["protocolVersion"] == 1


def test_nothing_is_done_before_initialize_and_that_comes_once() -> None:
    agent = Agent()
    assert agent.ask("session/new", {"cwd": "/w", "mcpServers": []}) == []
    assert [answer["error"]["code"] for answer in agent.read()] == [-32600]
    agent.initialize()
    agent.ask("initialize", {"protocolVersion": 1})
    assert [answer["error"]["code"] for answer in agent.read()] == [-32600]


@pytest.mark.parametrize("params", [None, {}, [], {"protocolVersion": "1"}, {"protocolVersion": None}])
def test_initialize_needs_a_version(params: Any) -> None:
    agent = Agent()
    agent.ask("initialize", params)
    assert [answer["error"]["code"] for answer in agent.read()] == [-32602]


def test_what_is_wrong_in_initialize_counts_as_absent() -> None:
    """docs/acp.md, requirement 44: unknown keys and `_meta` are tolerated."""
    agent = Agent(auth=METHODS)
    wrong: Object = {"fs": 7, "terminal": "yes", "auth": {"terminal": 1}, "session": [], "_meta": {"x": 1}, "y": 2}
    agent.ask("initialize", {"protocolVersion": 1, "clientInfo": 7, "clientCapabilities": wrong, "z": 3, "_meta": 4})
    [answer] = agent.read()
    assert [method["id"] for method in answer["result"]["authMethods"]] == ["key"]


def test_what_is_offered() -> None:
    result = Agent(agent_version="1.2", auth=METHODS, logout=True).initialize(ALL)
    assert result == {
        "protocolVersion": 1,
        "agentInfo": {"name": "polylect", "title": "polylect", "version": "1.2"},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True, "acp": True},
            "sessionCapabilities": {
                "list": {},
                "resume": {},
                "close": {},
                "delete": {},
                "fork": {},
                "additionalDirectories": {},
                "systemPrompt": {},
                "archive": {},
                "status": {},
                "title": {},
            },
            "auth": {"logout": {}, "status": {}},
        },
        "authMethods": [
            {"id": "key", "name": "Use the key in the environment"},
            {"id": "login", "name": "Log in", "type": "terminal", "args": ["login"]},
        ],
        "_meta": {"steering": {"supported": True}},
    }


def test_an_answer_that_was_written_before_is_not_written_again() -> None:
    agent = Agent(auth=METHODS)
    agent.codec.note_sent(b'{"jsonrpc":"2.0","id":100,"result":{}}\n')
    agent.ask("initialize", {"protocolVersion": 1, "clientCapabilities": ALL})
    assert agent.read() == []
    assert agent.open()
    assert agent.read()
