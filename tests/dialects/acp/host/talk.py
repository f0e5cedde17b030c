"""The client's end by itself, and an agent of one line after the other. Every line that is sent is held to the schema.

Requirements are those of docs/acp.md.
"""

import json
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from grammar_check import Grammar
from polylect.dialects.acp.host.codec import HostSide
from polylect.dialects.base import Env
from polylect.vocab import events as e
from polylect.vocab.commands import Command, Prompt

Line = dict[str, Any]
PUBLISHED = Path(__file__).parents[1] / "published"

REQUESTS = {
    "initialize": "InitializeRequest",
    "authenticate": "AuthenticateRequest",
    "logout": "LogoutRequest",
    "session/new": "NewSessionRequest",
    "session/load": "LoadSessionRequest",
    "session/resume": "ResumeSessionRequest",
    "session/list": "ListSessionsRequest",
    "session/close": "CloseSessionRequest",
    "session/delete": "DeleteSessionRequest",
    "session/set_mode": "SetSessionModeRequest",
    "session/set_config_option": "SetSessionConfigOptionRequest",
    "session/prompt": "PromptRequest",
    "session/cancel": "CancelNotification",
}
SECOND = {
    **{method: name for method, name in REQUESTS.items() if method not in ("session/load", "session/set_mode")},
    "auth/login": "LoginAuthRequest",
    "auth/logout": "LogoutAuthRequest",
    "session/cancel": "CancelSessionNotification",
}
"""The requests of version 2."""
UNSTABLE = {"session/fork": "ForkSessionRequest", "session/set_title": "SetSessionTitleRequest"}
EXTENSIONS = ("_session/steering", "_goose/unstable/session/steer", "session/set_model")
"""Not in any schema; only for agents that have them."""
RESULTS = {
    "session/request_permission": "RequestPermissionResponse",
    "elicitation/create": "CreateElicitationResponse",
    "fs/read_text_file": "ReadTextFileResponse",
    "fs/write_text_file": "WriteTextFileResponse",
    "terminal/create": "CreateTerminalResponse",
    "terminal/output": "TerminalOutputResponse",
    "terminal/wait_for_exit": "WaitForTerminalExitResponse",
    "terminal/kill": "KillTerminalResponse",
    "terminal/release": "ReleaseTerminalResponse",
}
EVERYTHING = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {
        name: {} for name in ("list", "resume", "close", "delete", "fork", "title", "additionalDirectories")
    },
    "auth": {"logout": {}},
}
"""An agent that has everything."""
OPTIONS = [
    {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "ever", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


@cache
def validator(version: str, name: str) -> Draft202012Validator:
    schema = json.loads((PUBLISHED / f"{version}.json").read_text("utf-8"))
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})


def check(version: str, name: str, value: Any) -> None:
    """A value fits the schema, and has no field of our own beside those that the schema names."""
    schema = validator(version, name)
    schema.validate(value)
    named = properties({"$ref": f"#/$defs/{name}"}, schema.schema["$defs"])
    assert set(value) <= named, f"{name} has no {set(value) - named}"


def properties(node: Any, definitions: dict[str, Any]) -> set[str]:
    """The names of all fields that an object of this schema may have."""
    names = set(node.get("properties", ()))
    if "$ref" in node:
        names |= properties(definitions[node["$ref"].rpartition("/")[2]], definitions)
    for key in ("allOf", "anyOf", "oneOf"):
        names |= {one for part in node.get(key, ()) for one in properties(part, definitions)}
    return names


class Talk:
    """A host that talks with an agent. `events` has all that it has reported, `sent` all that it has written."""

    def __init__(self, **options: Any) -> None:
        self.now = 0
        numbers = count(1)
        self.host = HostSide(Env(lambda: self.now, lambda: f"id-{next(numbers)}"), **{"cwd": "/w", **options})
        self.version = options.get("version", "1")
        """The version that is spoken, for the schema."""
        self.events: list[e.Event] = self.host.start()
        self.sent: list[Line] = []
        self._grammar: dict[str, Grammar] = {}
        self._asked: dict[Any, str] = {}
        self._collect([])

    def _collect(self, events: list[e.Event]) -> list[e.Event]:
        data = self.host.data_to_send()
        assert not data or data.endswith(b"\n")
        for line in data.splitlines():
            self.sent.append(message := json.loads(line))
            self._check_line(message)
        for event in events:
            name = "" if isinstance(event, e.Ready) else event.session
            self._grammar.setdefault(name, Grammar()).check(event)
        self.events += events
        return events

    def _check_line(self, message: Line) -> None:
        assert message["jsonrpc"] == "2.0"
        schema = f"v{self.version}"
        if method := message.get("method"):
            if name := (REQUESTS if self.version == "1" else SECOND).get(method):
                inside = any(server.get("type") == "acp" for server in message["params"].get("mcpServers", ()))
                check(f"{schema}-unstable" if inside else schema, name, message["params"])
            elif method not in EXTENSIONS:
                check(f"{schema}-unstable", UNSTABLE[method], message["params"])
        elif "error" in message:
            check(schema, "Error", message["error"])
        else:
            check(schema, RESULTS[self._asked[message["id"]]], message["result"])

    def do(self, command: Command) -> list[e.Event]:
        """The host sends a command."""
        return self._collect(self.host.send(command))

    def receive(self, *messages: Line | bytes) -> list[e.Event]:
        """The agent writes lines."""
        events: list[e.Event] = []
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
            if isinstance(message, dict) and "method" in message and "id" in message:
                self._asked[message["id"]] = message["method"]
            events += self._collect(self.host.receive(line + b"\n"))
        return events

    def wait(self, milliseconds: int) -> list[e.Event]:
        """Time passes, in which the agent says nothing."""
        self.now += milliseconds
        due = self.host.due()
        return self._collect(self.host.wake()) if due is not None and due <= 0 else []

    def request(self, method: str) -> Line:
        """The last request of this method that was sent."""
        return next(line for line in reversed(self.sent) if line.get("method") == method)

    def methods(self) -> list[str]:
        """The methods of what was sent, in order; `result` and `error` for answers."""
        return [line.get("method") or ("error" if "error" in line else "result") for line in self.sent]

    def answer(self, method: str, result: Any = None, **error: Any) -> list[e.Event]:
        """The agent answers the last request of this method."""
        id = self.request(method)["id"]
        return self.receive({"id": id, "error": error} if error else {"id": id, "result": result})

    def update(self, kind: str, session: str = "s-1", /, **fields: Any) -> list[e.Event]:
        return self.receive(update(kind, session, **fields))

    def prompt(self, words: str = "hi", turn: str = "t1", **options: Any) -> list[e.Event]:
        return self.do(Prompt(turn, words, **options))

    def of(self, *kinds: type[e.Event]) -> list[e.Event]:
        """The events of these kinds so far."""
        return [event for event in self.events if isinstance(event, kinds)]


def update(kind: str, session: str = "s-1", /, **fields: Any) -> Line:
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
    return {"method": "session/update", "params": params}


def words(text: str) -> Line:
    return {"type": "text", "text": text}


def shown(text: str) -> list[Line]:
    """The content of a tool call that is a text."""
    return [{"type": "content", "content": words(text)}]


def permission(id: Any, call: Line, options: list[Line] = OPTIONS, session: str = "s-1") -> Line:
    params = {"sessionId": session, "toolCall": call, "options": options}
    return {"id": id, "method": "session/request_permission", "params": params}


def agent(name: str = "demo", version: str = "2.0", capabilities: Line | None = None, **more: Any) -> Line:
    """The answer to `initialize`."""
    capabilities = EVERYTHING if capabilities is None else capabilities
    info = {"name": name, "version": version}
    return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities, "authMethods": [], **more}


def opened(result: Line | None = None, session: Line | None = None, **options: Any) -> Talk:
    """A talk whose session is open."""
    talk = Talk(**options)
    talk.answer("initialize", result or agent())
    talk.answer("session/new", {"sessionId": "s-1", **(session or {})})
    return talk
