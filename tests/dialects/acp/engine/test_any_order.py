"""Whatever a client sends, in whatever order, and whatever the engine does meanwhile."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conversations import CONVERSATIONS
from dialects.acp.engine.agent import ALL, STATE, Agent, prompt
from dialects.everything import EVENTS
from polylect.dialects.acp.frames import client
from polylect.dialects.acp.versions import VERSIONS
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.answers import SessionCard
from polylect.vocab.content import Failure
from thoroughness import up_to

SESSION = "s"
FAILURES = (None, None, None, Failure("no_such_session", "gone", "host"), Failure("x", "broken", "engine"))
DATA = {"state": STATE, "sessions": (SessionCard("s", "/w"),), "models": (), "messages": ()}
SPOKEN = [event for conversation in (*CONVERSATIONS.values(), EVENTS) for event in conversation]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["", "s", "x", "mode", "plan", "/w", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "uri", "a"]), inner),
    max_leaves=6,
)
VALUES = {
    "sessionId": st.sampled_from([SESSION, "id-1", "x"]),
    "cwd": st.sampled_from(["/w", "w"]),
    "mcpServers": st.just([]) | JSON,
    "prompt": st.just([{"type": "text", "text": "hi"}]) | JSON,
    "modeId": st.sampled_from(["plan", "yolo"]),
    "configId": st.sampled_from(["mode", "model", "x"]),
    "value": st.sampled_from(["plan", "m", True]),
    "methodId": st.just("key"),
    "requestId": st.integers(0, 40),
    "cursor": st.just("x"),
    "replayFrom": st.just({"type": "start"}) | JSON,
    "_meta": JSON,
}
LIKELY = ("sessionId", "cwd", "mcpServers", "prompt", "modeId", "configId", "value")
PARAMS = st.one_of(
    st.fixed_dictionaries({name: VALUES[name] for name in LIKELY}, optional={"_meta": JSON}),
    st.fixed_dictionaries({}, optional=VALUES),
    JSON,
)
METHODS = [*client.REQUESTS, "auth/login", "auth/logout", "$/cancel_request", "session/cancel", "nonsense"]
GOOD = st.sampled_from(
    [
        ("request", "session/prompt", prompt(SESSION, turn="")),
        ("request", "session/prompt", prompt(SESSION, turn="t1")),
        ("request", "_session/steering", prompt(SESSION)),
        ("request", "session/new", {"cwd": "/w", "mcpServers": []}),
        ("request", "session/resume", {"sessionId": SESSION, "cwd": "/w", "replayFrom": {"type": "start"}}),
        ("request", "session/load", {"sessionId": SESSION, "cwd": "/w", "mcpServers": []}),
        ("request", "session/set_mode", {"sessionId": SESSION, "modeId": "plan"}),
        ("request", "session/close", {"sessionId": SESSION}),
        ("request", "session/delete", {"sessionId": SESSION}),
        ("request", "session/list", {}),
        ("notification", "session/cancel", {"sessionId": SESSION}),
        ("notification", "$/cancel_request", {"requestId": 1000}),
        ("notification", "$/cancel_request", {"requestId": 1001}),
    ]
)
CLIENT = st.tuples(st.sampled_from(["request", "notification"]), st.sampled_from(METHODS), PARAMS)
ANSWER = st.tuples(st.just("answer"), st.integers(0, 4), JSON | st.just({"outcome": {"outcome": "cancelled"}}))
ENGINE = st.tuples(st.just("event"), st.sampled_from(SPOKEN), st.sampled_from(["", SESSION, "id-1"]))
REPLY = st.tuples(st.just("reply"), st.integers(0, 9), st.sampled_from(FAILURES))
STEPS = st.lists(GOOD | CLIENT | ANSWER | ENGINE | REPLY, min_size=8, max_size=40)


class Run:
    """An agent with an open session, the commands that wait for replies, and how often each request was answered."""

    def __init__(self, version: str, capabilities: Any) -> None:
        self.agent = Agent(unstable=True, version=version)
        self.agent.initialize(capabilities)
        self.agent.open("session/resume", {"sessionId": SESSION})
        self.agent.read()
        self.waiting: list[c.Command] = []
        self.turns: list[c.Prompt] = []
        self.sent = 0
        self.answers: Counter[int] = Counter()

    def step(self, step: tuple[Any, Any, Any]) -> None:
        match step:
            case "request", method, params:
                self.reported(self.agent.ask(method, params, id=1000 + self.sent))
                self.sent += 1
            case "notification", method, params:
                self.reported(self.agent.notify(method, params))
            case "answer", id, result:
                self.reported(self.agent.answer(id, result))
            case "event", event, session:
                self.reported(self.agent.send(replace(event, session=session)))
            case "reply", place, failure if self.waiting:
                self.reply(self.waiting.pop(place % len(self.waiting)), failure)
        self.read()

    def reported(self, commands: list[c.Command]) -> None:
        self.waiting += [command for command in commands if command.ref]
        self.turns += [command for command in commands if isinstance(command, c.Prompt)]

    def reply(self, command: c.Command, failure: Failure | None) -> None:
        data = DATA.get(command.what) if isinstance(command, c.Query) else None
        self.reported(
            self.agent.send(e.Reply(command.ref, None if failure else data, failure, session=command.session))
        )

    def read(self) -> None:
        for message in self.agent.read():
            if "method" not in message:
                self.answers[message["id"]] += 1

    def finish(self) -> None:
        """The engine replies to everything, and every turn ends."""
        while self.waiting:
            self.reply(self.waiting.pop(0), None)
        for turn in self.turns:
            self.agent.send(e.TurnEnded("end", turn=turn.turn, session=turn.session))
        self.read()


@pytest.mark.parametrize("version", VERSIONS)
@given(steps=STEPS, capabilities=st.sampled_from([None, ALL, {**ALL, "subagents": {}}]))
@settings(max_examples=up_to(200), deadline=None)
def test_every_request_gets_one_answer_and_every_line_is_as_published(
    version: str, steps: list[Any], capabilities: Any
) -> None:
    """docs/acp.md, requirements 5, 38 and 44."""
    run = Run(version, capabilities)
    for step in steps:
        run.step(step)
    assert all(count == 1 for count in run.answers.values())
    run.finish()
    assert sorted(run.answers) == [1000 + number for number in range(run.sent)]
    assert all(count == 1 for count in run.answers.values())


@pytest.mark.parametrize("version", VERSIONS)
@given(line=st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON))
@settings(max_examples=up_to(200), deadline=None)
def test_any_object_is_data(version: str, line: dict[str, Any]) -> None:
    """docs/acp.md, requirement 3."""
    agent = Agent(version=version)
    agent.initialize()
    agent.codec.receive(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
    assert len(agent.codec.data_to_send().splitlines()) <= 1
    assert agent.open()
