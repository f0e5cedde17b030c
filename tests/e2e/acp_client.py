"""A client of ACP for tests: it asks, answers permissions, and holds every message against the published schema."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dialects.acp.published_schema import check

Object = dict[str, Any]


class Client:
    """Checks every message of the agent, and answers permissions as `choose` says (None: never).

    `version` is the one that it asks for, and expects to be spoken.
    `agent` is what carries messages: an `Engine`, or anything else with `send` and `frame`.
    """

    def __init__(self, agent: Any, version: int = 1) -> None:
        self.agent = agent
        self.version = version
        self.seen: list[Object] = []
        self.choose: Callable[[Object], Object | None] = allow
        self.serve: Callable[[str, Object], Object] | None = None
        """Answers what is asked of an MCP server inside of the client, by method and params."""
        self._sent: dict[object, str] = {}
        self._answers: dict[object, Object] = {}

    def request(self, id: object, method: str, **params: object) -> None:
        self._sent[id] = method
        self.agent.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def notify(self, method: str, **params: object) -> None:
        self.agent.send({"jsonrpc": "2.0", "method": method, "params": params})

    def next(self) -> Object:
        """The next message of the agent. A request for permission is answered."""
        message = self.agent.frame()
        answered = "" if "method" in message else self._sent.get(message["id"], "")
        check(message, answered, version=self.version)
        self.seen.append(message)
        if message.get("method") == "session/request_permission":
            if (outcome := self.choose(message["params"])) is not None:
                self.agent.send({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})
        elif message.get("method") == "mcp/message" and self.serve:
            inner = message["params"]
            outcome = self.serve(inner["method"], inner.get("params") or {})
            self.agent.send({"jsonrpc": "2.0", "id": message["id"], "result": outcome})
        elif "method" not in message:
            self._answers[message["id"]] = message
        return message

    def answer(self, id: object) -> Object:
        """The answer to a request, when it comes."""
        while id not in self._answers:
            self.next()
        return self._answers.pop(id)

    def call(self, id: object, method: str, **params: object) -> Object:
        self.request(id, method, **params)
        return self.answer(id)

    def until(self, kind: str, **fields: object) -> Object:
        """The next update of this kind with these fields."""
        while True:
            update: Object = self.next().get("params", {}).get("update", {})
            if update.get("sessionUpdate") == kind and fields.items() <= update.items():
                return update

    def initialize(self, **capabilities: object) -> Object:
        params: Object = {"clientCapabilities": capabilities}
        if self.version == 2:
            params = {"capabilities": capabilities, "info": {"name": "test", "version": "1"}}
        answer = self.call("i", "initialize", protocolVersion=self.version, **params)
        result: Object = answer["result"]
        return result

    def open(self, cwd: Path, id: object = "n") -> str:
        answer = self.call(id, "session/new", cwd=str(cwd), mcpServers=[])
        session: str = answer["result"]["sessionId"]
        return session

    def prompt(self, id: object, session: str, text: str = "go") -> None:
        self.request(id, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def idle(self, session: str) -> Object:
        """The end of the turn in this session, in version 2."""
        while True:
            params: Object = self.next().get("params", {})
            update: Object = params.get("update", {})
            if params.get("sessionId") == session and update.get("state") == "idle":
                return update

    def text(self, session: str) -> str:
        """All that the agent has said in a session."""
        updates = [one["params"] for one in self.seen if one.get("method") == "session/update"]
        chunks = [one["update"] for one in updates if one["sessionId"] == session]
        return "".join(one["content"]["text"] for one in chunks if one["sessionUpdate"] == "agent_message_chunk")


def allow(params: Object) -> Object:
    """Chooses the first option that allows once."""
    [option, *_] = [one for one in params["options"] if one["kind"] == "allow_once"]
    return {"outcome": "selected", "optionId": option["optionId"]}
