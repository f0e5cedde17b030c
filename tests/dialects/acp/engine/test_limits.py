"""Long lines, many deltas, and what is kept of a conversation."""

import sys
from typing import Any

import pytest

from dialects.acp.engine.agent import ALL, Agent, prompt, started
from polylect.dialects.acp.engine.sessions import Session
from polylect.dialects.acp.versions import MAX_FRAME
from polylect.vocab import events as e
from polylect.vocab.content import Failure

LONG = "\x00" * (MAX_FRAME // 50) + "x" * MAX_FRAME
"""The former are six bytes each, as JSON; a text of nothing else would take long to encode."""


@pytest.mark.parametrize(
    "event",
    [
        e.Notice(LONG),
        e.ToolCalled("c1", "Write", {"file_path": "/w/a", "content": LONG}, "edit"),
        e.ToolCalled("c1", "X", {str(number): "x" for number in range(100)} | {"long": LONG}),
        e.ToolFinished("c1", "Write", LONG),
        e.ToolFinished("c1", "Write", LONG, "error", metadata={"long": LONG}),
        e.Ask("a1", call="c1", name="Write", args={"content": LONG}),
        e.Ask("a1", "text", title=LONG),
        e.SettingChanged("title", LONG),
        e.CompactionEnded(True, LONG),
        e.TurnEnded("error", failure=Failure("x", LONG, "provider"), turn="t1"),
        e.HostCall("h1", "write_text_file", {"path": "/a", "content": LONG}),
    ],
    ids=lambda event: type(event).__name__,
)
def test_no_line_is_longer_than_the_limit(event: e.Event) -> None:
    agent, session = started(ALL)
    agent.ask("session/prompt", prompt(session))
    agent.send(event)
    lines = agent.codec.data_to_send().splitlines(keepends=True)
    assert lines
    assert max(map(len, lines)) <= MAX_FRAME
    assert all(session.encode() in line or b'"id":' in line for line in lines)


@pytest.mark.parametrize("delta", [e.TextDelta, e.ThinkingDelta])
def test_a_long_delta_becomes_several(delta: Any) -> None:
    agent, _ = started()
    agent.send(delta(LONG + "é"))
    lines = agent.codec.data_to_send().splitlines(keepends=True)
    assert len(lines) > 1
    assert max(map(len, lines)) <= MAX_FRAME
    agent.send(delta(LONG + "é"))
    assert "".join(update["content"]["text"] for update in agent.updates()) == LONG + "é"


def deep_size(value: object, seen: set[int]) -> int:
    """The size of a value with everything in it, as far as it is ours or plain data."""
    if id(value) in seen or isinstance(value, type) or callable(value):
        return 0
    seen.add(id(value))
    inside: list[object] = []
    if isinstance(value, dict):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set):
        inside = [*value]
    elif hasattr(value, "__dict__"):
        inside = [*vars(value).values()]
    return sys.getsizeof(value) + sum(deep_size(one, seen) for one in inside)


def one_turn(agent: Agent, session: str, number: int) -> None:
    where: Any = {"turn": f"t{number}", "session": session}
    [command] = agent.ask("session/prompt", prompt(session, turn=where["turn"]))
    agent.send(
        e.Reply(command.ref, session=session),
        e.TurnStarted(**where),
        e.StepStarted(**where),
        *(e.TextDelta("word ", **where) for _ in range(5)),
        e.ToolCalled(f"c{number}", "Bash", {"command": "make"}, **where),
        e.Ask(f"a{number}", call=f"c{number}", name="Bash", args={"command": "make"}, **where),
    )
    request = agent.read()[-1]
    agent.answer(request["id"], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    agent.send(
        e.AskClosed(f"a{number}", "allowed", **where),
        e.ToolStarted(f"c{number}", "Bash", **where),
        e.ToolOutput(f"c{number}", "out", **where),
        e.ToolOutput(f"c{number}", "out", **where),
        e.ToolFinished(f"c{number}", "Bash", "x" * 1000, **where),
        e.AgentStarted(agent=f"k{number}", **where),
        e.TextDelta("mine", agent=f"k{number}", **where),
        e.AgentEnded(agent=f"k{number}", **where),
        e.CompactionStarted(**where),
        e.CompactionEnded(**where),
        e.TurnEnded("end", **where),
    )
    agent.read()


def test_what_is_kept_does_not_grow_with_the_conversation() -> None:
    agent, session = started(ALL | {"subagents": {}}, unstable=True)
    sizes = []
    for number in range(60):
        one_turn(agent, session, number)
        if number % 20 == 19:
            sizes.append(deep_size(agent.codec, set()))
    assert max(sizes) - min(sizes) < 500
    assert len(agent.codec._sessions) == 1
    assert isinstance(agent.codec._sessions[session], Session)


def test_what_is_kept_does_not_grow_with_the_sessions_of_a_connection() -> None:
    agent, _ = started()
    sizes = []
    for _ in range(3):
        for _ in range(10):
            session = agent.open()
            [close] = agent.ask("session/close", {"sessionId": session})
            agent.send(e.Reply(close.ref))
            agent.read()
        sizes.append(deep_size(agent.codec, set()))
    assert max(sizes) - min(sizes) < 500
