"""The frames of the seeds, byte for byte: read, understood, and said again."""

from pathlib import Path

import pytest

from dialects.pair import Pair, env
from polylect.dialects.jsonstream.dialect import DIALECT
from polylect.dialects.jsonstream.frames import table as frames
from polylect.vocab.commands import (
    AddContext,
    AddServer,
    Answer,
    Cancel,
    Command,
    Configure,
    MalformedCommand,
    Prompt,
    UnknownCommand,
)
from polylect.vocab.content import Abilities, Failure, File, Rule, Server, Usage
from polylect.vocab.events import (
    Ask,
    Event,
    Failed,
    MalformedEvent,
    Notice,
    Ready,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UnknownEvent,
)
from polylect.wire import jsonl

GOLDEN = Path(__file__).parents[2] / "golden" / "jsonstream"
CONVERSATIONS = sorted(path.name for path in GOLDEN.glob("*.jsonl") if not path.name.startswith(("events", "commands")))

IN = {"turn": "abc-123"}
WRITE = {"file_path": "/src/main.rs", "content": "fn main() { ... }"}
DIFF = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1,3 +1,3 @@\n-old line\n+new line"
RATE_LIMIT = Failure("rate_limit", "Rate limit exceeded", "provider", retryable=True)

SEED_EVENTS: list[Event] = [
    Ready(session="a1b2c3", abilities=Abilities(thinking=True, mcp=True)),
    TurnStarted(**IN),
    TextDelta("Hello, ", **IN),
    ThinkingDelta("Let me analyze the code structure...", **IN),
    ToolCalled("tool-call-001", "Write", WRITE, "edit", "Write to /src/main.rs", **IN),
    Ask("ask-1", call="tool-call-001", name="Write", args=WRITE, category="edit", **IN),
    ToolStarted("tool-call-001", "Write", **IN),
    ToolFinished("tool-call-001", "Write", "File written successfully", **IN),
    ToolFinished("tool-call-002", "Edit", DIFF, form="diff", metadata={"file_path": "/src/main.rs"}, **IN),
    ToolFinished("tool-call-001", "Write", "Tool denied: User denied", "denied", reason="User denied", **IN),
    Notice("Stream interrupted, retrying... (1/2)", **IN),
    TurnEnded("error", Usage(1500, 320, 800, 200), failure=RATE_LIMIT, **IN),
    Failed(Failure("unknown_command", "Unknown command type: foo", "host")),
    Failed(Failure("no_key", "ANTHROPIC_API_KEY not set", "user")),
]

SEED_COMMANDS: list[Command] = [
    AddContext("Previous conversation summary:\nUser asked about X...\nAssistant replied with Y..."),
    Configure({"mode": "force"}),
    Prompt("abc-123", "Read the file src/main.rs and explain the code", (File("/path/to/attached/file.png"),)),
    Answer("tool-call-001", "allow"),
    Answer("tool-call-002", "deny", reason="Not allowed to write this file"),
    Cancel(),
]


def test_the_engine_says_what_the_seed_shows() -> None:
    engine = DIALECT.engine_side(env(), version="0.1.0")
    for event in SEED_EVENTS:
        engine.send(event)
    assert engine.data_to_send() == (GOLDEN / "events-0.1.0.jsonl").read_bytes()


def test_the_host_says_what_the_seed_shows() -> None:
    """And the text a second time, as aionrs calls it today."""
    pair = Pair(DIALECT, "0.1.0")
    pair.send(Ready(session="a1b2c3"))
    for command in SEED_COMMANDS:
        if command == SEED_COMMANDS[3]:
            pair.send(TurnStarted(turn="abc-123"))
            pair.send(Ask("tool-call-001", call="tool-call-001", name="Write", category="edit", **IN))
            pair.send(Ask("tool-call-002", call="tool-call-002", name="Write", category="edit", **IN))
        pair.ask(command)
    text = b'"Read the file src/main.rs and explain the code"'
    both = pair.to_engine.replace(b'"input":%s,"content":%s' % (text, text), b'"input":%s' % text)
    assert both != pair.to_engine
    assert both == (GOLDEN / "commands-0.1.0.jsonl").read_bytes()


def test_the_host_says_every_command_of_0_2_0() -> None:
    pair = Pair(DIALECT, "0.2.0")
    pair.send(Ready(session="s", abilities=Abilities(extras={"hitl_suspend": True})))
    for command in (
        AddServer(Server("team-tools", "stdio", "node", ("bridge.js",), {"TOKEN": "abc"})),
        AddContext("Be brief."),
        Configure({"mode": "force"}),
        Configure({"model": "m", "thinking": 500, "effort": "high", "compaction": "safe"}),
        Prompt("m1", "Go", (File("/a.png"),)),
    ):
        pair.ask(command)
    pair.send(TurnStarted(turn="m1"))
    for call in ("t1", "t2", "t3"):
        pair.send(Ask(call, call=call, name="Edit", category="edit", turn="m1"))
    pair.send(ToolStarted("s", "Script", turn="m1"))
    for token in ("apr-1", "apr-2"):
        pair.send(Ask(token, call="s", name="Bash", turn="m1"))
    for answer in (
        Answer("t1", "allow"),
        Answer("t2", "allow", always=Rule("path", "/p")),
        Answer("t3", "deny", reason="no"),
        Answer("apr-1", "allow", args={"command": "ls"}),
        Answer("apr-2", "deny"),
        Cancel(),
    ):
        pair.ask(answer)
    assert pair.to_engine == (GOLDEN / "commands-0.2.0.jsonl").read_bytes()
    assert not [command for command in pair.commands if isinstance(command, MalformedCommand | UnknownCommand)]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_understood_and_can_be_said_again(name: str) -> None:
    """Each event of the tape, decoded by a host and said by an engine, is the same line again."""
    version = name.removesuffix(".jsonl").rpartition("-")[2]
    engine, host = DIALECT.engine_side(env(), version=version), DIALECT.host_side(env(), version=version)
    events, said = b"", b""
    for line in (GOLDEN / name).read_bytes().splitlines(keepends=True):
        if jsonl.parse(line)["type"] not in frames.EVENTS[version]:
            engine.receive(line)
            host.note_sent(line)
            continue
        events += line
        said += engine.data_to_send()
        for event in [] if said == events else host.receive(line):
            assert not isinstance(event, UnknownEvent | MalformedEvent)
            engine.send(event)
        said += engine.data_to_send()
    assert said.splitlines() == events.splitlines()
