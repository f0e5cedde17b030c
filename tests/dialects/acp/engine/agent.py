"""An agent's end without an engine: tests speak for its client and for the engine behind it.

Every line that it writes is held against the published schema.
"""

import json
from itertools import count
from typing import Any

from dialects.acp.published_schema import check
from polylect.dialects.acp.engine.codec import EngineSide
from polylect.dialects.base import Env
from polylect.vocab.answers import SessionOpened, State
from polylect.vocab.commands import Command, Hello, OpenSession, Query
from polylect.vocab.events import Event, Reply

Object = dict[str, Any]
ALL: Object = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}
STATE = State("s", "m", "default")


class Agent:
    """The codec. `clock` is the time in milliseconds; `unstable` whether lines may use what is not stable."""

    def __init__(self, *, unstable: bool = False, **options: Any) -> None:
        numbers = count(1)
        self.clock = 0
        self.codec = EngineSide(Env(now=lambda: self.clock, new_id=lambda: f"id-{next(numbers)}"), **options)
        self._unstable = unstable
        self.version = int(options.get("version", 1))
        """The version that the client asks for."""
        self._methods: dict[Any, str] = {}
        self._ids = count(100)

    # The client.

    def ask(self, method: str, params: Any = None, *, id: Any = None) -> list[Command]:
        """A request; returns what the engine is told."""
        id = next(self._ids) if id is None else id
        self._methods[id] = method
        return self.line({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def notify(self, method: str, params: Any = None) -> list[Command]:
        return self.line({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, id: Any, result: Any) -> list[Command]:
        return self.line({"jsonrpc": "2.0", "id": id, "result": result})

    def line(self, message: Object) -> list[Command]:
        return self.codec.receive(json.dumps(message).encode() + b"\n")

    def read(self) -> list[Object]:
        """All messages since the last time."""
        lines = self.codec.data_to_send().splitlines(keepends=True)
        assert all(line.endswith(b"}\n") for line in lines)
        messages = [json.loads(line) for line in lines]
        for message in messages:
            method = self._methods.get(message.get("id"), "")
            check(message, method, unstable=self._unstable, version=self.version)
        return messages

    def updates(self) -> list[Object]:
        """All messages since the last time, which have to be updates: what is in them."""
        messages = self.read()
        assert [message.get("method") for message in messages] == ["session/update"] * len(messages)
        return [message["params"]["update"] for message in messages]

    # The engine.

    def send(self, *events: Event) -> list[Command]:
        return [command for event in events for command in self.codec.send(event)]

    # Both.

    def initialize(self, capabilities: Object | None = None) -> Object:
        """Begin; returns the result of `initialize`."""
        params: Object = {"protocolVersion": self.version}
        if self.version == 2:
            params |= {"info": {"name": "test", "version": "1"}, "capabilities": capabilities or {}}
        elif capabilities is not None:
            params["clientCapabilities"] = capabilities
        self.ask("initialize", params)
        [answer] = self.read()
        result: Object = answer["result"]
        return result

    def open(
        self,
        method: str = "session/new",
        params: Object | None = None,
        *,
        state: object = STATE,
        models: object = (),
        messages: object = (),
        id: Any = None,
    ) -> str:
        """Open a session; returns its id. Nothing is read."""
        [opening] = self.ask(method, {"cwd": "/w", "mcpServers": [], **(params or {})}, id=id)
        assert isinstance(opening, OpenSession)
        data = {"state": state, "models": models, "messages": messages}
        for command in self.send(Reply(opening.ref, SessionOpened(opening.session), session=opening.session)):
            assert isinstance(command, Hello | Query)
            answer = data[command.what] if isinstance(command, Query) else None
            self.send(Reply(command.ref, answer, session=command.session))
        return opening.session


def started(capabilities: Object | None = None, *, unstable: bool = False, **options: Any) -> tuple[Agent, str]:
    """An agent with one open session, and its id; nothing is left to read."""
    agent = Agent(unstable=unstable, **options)
    agent.initialize(capabilities)
    session = agent.open()
    agent.read()
    return agent, session


def prompt(session: str, text: str = "hi", turn: str = "t1") -> Object:
    """The params of a prompt."""
    blocks = [{"type": "text", "text": text}]
    return {"sessionId": session, "prompt": blocks, "_meta": {"polylect": {"turn": turn}}}
