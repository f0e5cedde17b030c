"""What holds for every dialect and version, whatever its words."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conversations import CONVERSATIONS, READY
from dialects.everything import ABILITIES
from dialects.pair import DIALECTS, ENDS, NAMES, Pair, env
from grammar_check import Grammar
from polylect.dialects.base import Dialect
from polylect.vocab.commands import (
    AddContext,
    AddServer,
    Answer,
    Cancel,
    Command,
    Configure,
    MalformedCommand,
    Prompt,
    RunShell,
    Steer,
    UnknownCommand,
)
from polylect.vocab.content import File, Image, Server, Usage
from polylect.vocab.events import (
    Ask,
    AskClosed,
    Event,
    MalformedEvent,
    Notice,
    Ready,
    Reply,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from thoroughness import up_to

every_end = pytest.mark.parametrize(("dialect", "version"), ENDS, ids=NAMES)
FLAGGED = {
    f"{name}, with all it may say": [replace(READY, abilities=ABILITIES), *CONVERSATIONS[name][1:]]
    for name in ("two calls, one denied", "a sub-agent with a call of its own", "an agent in the background")
}
every_conversation = pytest.mark.parametrize(
    "conversation", [*CONVERSATIONS.values(), *FLAGGED.values()], ids=[*CONVERSATIONS, *FLAGGED]
)
quick = settings(max_examples=up_to(20), deadline=None, suppress_health_check=list(HealthCheck))
"""A law is tried on every conversation in every version of every dialect: over a hundred times so many."""

COMMANDS: dict[str, list[Command]] = {
    "native": [
        AddServer(Server("team", "stdio", "node", ("bridge.js",), {"TOKEN": "t"}), ref="r1"),
        AddContext("Be brief.", ref="r2"),
        Configure({"mode": "force", "thinking": "high"}, ref="r3"),
        Prompt("m1", "Hello\nthere \u2028 é", (File("/a.png"), Image("image/gif", "R0lG")), busy="refuse", ref="r4"),
        Steer("faster", (), "last", "keep", ref="r5"),
        RunShell("ls", private=True, ref="r6"),
        Cancel(queued="keep", ref="r7"),
    ],
    "jsonstream": [
        AddServer(Server("team", "stdio", "node", ("bridge.js",), {"TOKEN": "t"}), ref="r1"),
        AddContext("Be brief.", ref="r2"),
        Configure({"mode": "force"}, ref="r3"),
        Prompt("m1", "Hello\nthere \u2028 é", (File("/a.png"),), ref="r4"),
        Cancel(ref="r5"),
    ],
    "claude": [
        AddServer(Server("team", "stdio", "node", ("bridge.js",), {"TOKEN": "t"}), ref="r1"),
        Configure({"mode": "force"}, ref="r2"),
        Prompt("m1", "Hello\nthere \u2028 é", (Image("image/gif", "R0lG"),), verbatim=True, ref="r3"),
        Cancel(queued="keep", ref="r4"),
    ],
    "omp": [
        Configure({"steering_mode": "all"}, ref="r1"),
        Prompt("m1", "Hello\nthere \u2028 é", (Image("image/gif", "R0lG"),), busy="refuse", ref="r2"),
        Steer("faster", (), "last", "keep", ref="r3"),
        RunShell("ls", ref="r4"),
        Cancel(what="retry", ref="r5"),
    ],
    "acp": [
        Configure({"mode": "force"}, ref="r1"),
        Prompt("m1", "Hello\nthere \u2028 é", (File("/a.png"), Image("image/gif", "R0lG")), busy="refuse", ref="r2"),
        Steer("faster", (), "last", "keep", ref="r3"),
        Cancel(queued="keep", ref="r4"),
    ],
}
"""What each dialect can say word for word."""


_played: dict[tuple[str, str, int], Pair] = {}


def played(dialect: Dialect, version: str, conversation: list[Event]) -> Pair:
    """Both ends after a conversation. Every law starts from it, so it is played once; nobody may go on with it."""
    name = dialect.name, version, id(conversation)
    if name not in _played:
        _played[name] = Pair(dialect, version)
        _played[name].play(conversation)
    return _played[name]


# What goes over the wire arrives.


@every_end
@every_conversation
def test_a_conversation_keeps_its_substance(dialect: Dialect, version: str, conversation: list[Event]) -> None:
    pair = played(dialect, version, conversation)
    assert list(substance(pair.received)) == list(substance(conversation))


@every_end
@every_conversation
def test_what_came_over_the_wire_once_goes_over_it_again_unchanged(
    dialect: Dialect, version: str, conversation: list[Event]
) -> None:
    first, second = played(dialect, version, conversation), Pair(dialect, version)
    received = [event for event in first.received if not isinstance(event, Reply)]
    second.play(received)
    assert [event for event in second.received if not isinstance(event, Reply)] == received


@every_end
@every_conversation
def test_an_answer_reaches_the_ask_it_was_given_to(dialect: Dialect, version: str, conversation: list[Event]) -> None:
    pair = played(dialect, version, conversation)
    answered = [event.ask for event in conversation if isinstance(event, Ask)]
    assert [command.ask for command in pair.commands if isinstance(command, Answer)] == [
        ask for ask in closed_by_answer(conversation) if ask in answered
    ]
    assert not [event for event in pair.received if isinstance(event, Reply) and event.failure]


@every_end
def test_commands_arrive_as_they_were_meant(dialect: Dialect, version: str) -> None:
    pair = Pair(dialect, version)
    pair.send(Ready(session="s"))
    said = COMMANDS[dialect.name]
    result = [understood for command in said for understood in pair.ask(command)]
    assert [strip(command) for command in result] == [strip(command) for command in said]
    assert [event.ref for event in pair.received if isinstance(event, Reply)] == [command.ref for command in said]


# Order.


@every_end
@every_conversation
def test_what_is_decoded_is_grammatical(dialect: Dialect, version: str, conversation: list[Event]) -> None:
    pair = Pair(dialect, version)
    pair.play(conversation)
    check(pair.received + pair.host.receive_eof())


@every_end
@every_conversation
def test_a_tape_of_strangers_is_understood(dialect: Dialect, version: str, conversation: list[Event]) -> None:
    """The end of a conversation that nobody here took part in, from each of its lines on."""
    lines = played(dialect, version, conversation).to_host.splitlines(keepends=True)
    for start in range(len(lines)):
        host = dialect.host_side(env(), version=version)
        received = host.receive(b"".join(lines[start:])) + host.receive_eof()
        check(received)
        assert not [event for event in received if isinstance(event, MalformedEvent)]


# Bytes.


@every_end
@every_conversation
@given(data=st.data())
@quick
def test_any_chunking_gives_the_same_events(
    dialect: Dialect, version: str, conversation: list[Event], data: st.DataObject
) -> None:
    wire = played(dialect, version, conversation).to_host
    whole, parts = dialect.host_side(env(), version=version), dialect.host_side(env(), version=version)
    received = [event for chunk in chunks(wire, data) for event in parts.receive(chunk)]
    assert received == whole.receive(wire)


@every_end
@given(data=st.data())
@quick
def test_any_chunking_gives_the_same_commands(dialect: Dialect, version: str, data: st.DataObject) -> None:
    pair = Pair(dialect, version)
    pair.send(Ready(session="s"))
    for command in COMMANDS[dialect.name]:
        pair.ask(command)
    whole, parts = dialect.engine_side(env(), version=version), dialect.engine_side(env(), version=version)
    result = [command for chunk in chunks(pair.to_engine, data) for command in parts.receive(chunk)]
    assert result == whole.receive(pair.to_engine)


@every_end
@given(text=st.text(), turn=st.text(min_size=1, max_size=20))
@quick
def test_a_frame_holds_no_raw_line_separator(dialect: Dialect, version: str, text: str, turn: str) -> None:
    awkward = f"{text}\n\r\u2028\u2029\x85\ud800"
    pair = Pair(dialect, version)
    pair.send(Ready(session="s"))
    pair.ask(Prompt(turn, awkward))
    for event in (
        TurnStarted(turn=turn),
        TextDelta(awkward, turn=turn),
        ThinkingDelta(awkward, turn=turn),
        Notice(awkward, turn=turn),
        ToolCalled("c1", "Bash", {awkward: awkward}, turn=turn),
        Ask("a1", call="c1", name="Bash", args={awkward: awkward}, title=awkward, turn=turn),
        ToolFinished("c1", "Bash", awkward, "denied", reason=awkward, turn=turn),
        TurnEnded("end", turn=turn),
    ):
        pair.send(event)
    for wire in (pair.to_host, pair.to_engine):
        assert all(line.startswith(b"{") and line.endswith(b"}") for line in wire.rstrip(b"\n").split(b"\n"))
        assert "\u2028" not in wire.decode()
        assert "\u2029" not in wire.decode()


@every_end
def test_no_frame_is_longer_than_the_limit(dialect: Dialect, version: str) -> None:
    tenth = dialect.max_frame // 10
    long = "\x00" * (tenth // 5) + "x" * (10 * tenth)  # the former are six bytes each
    pair = Pair(dialect, version)
    for event in (
        Ready(session="s"),
        TurnStarted(turn="t"),
        TextDelta(long, turn="t"),
        Notice(long, turn="t"),
        ToolCalled("c1", "Write", {"content": long}, turn="t"),
        Ask("a1", call="c1", name="Write", args={"content": long, "more": [{str(n): n} for n in range(9)]}, turn="t"),
        ToolFinished("c1", "Write", long, turn="t"),
        TurnEnded("end", turn="t"),
    ):
        pair.send(event)
    assert max(map(len, pair.to_host.splitlines(keepends=True))) <= dialect.max_frame
    assert "".join(event.text for event in pair.received if isinstance(event, TextDelta)) == long


# Garbage.


@every_end
@given(garbage=st.binary())
@quick
def test_garbage_is_data_to_an_engine_and_each_bad_line_is_answered_once(
    dialect: Dialect, version: str, garbage: bytes
) -> None:
    engine = dialect.engine_side(env(), version=version)
    result = engine.receive(garbage) + engine.receive(b"\n") + engine.receive_eof()
    assert all(isinstance(command, MalformedCommand | UnknownCommand) for command in result)
    assert len(engine.data_to_send().splitlines()) == len(result)


@every_end
@given(garbage=st.binary())
@quick
def test_garbage_is_data_to_a_host(dialect: Dialect, version: str, garbage: bytes) -> None:
    host = dialect.host_side(env(), version=version)
    check(host.receive(garbage) + host.receive(b"\n") + host.receive_eof())


@every_end
@every_conversation
@given(data=st.data())
@quick
def test_a_damaged_conversation_is_still_grammatical(
    dialect: Dialect, version: str, conversation: list[Event], data: st.DataObject
) -> None:
    lines = played(dialect, version, conversation).to_host.splitlines(keepends=True)
    order = data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=2 * len(lines)))
    damaged = bytearray(b"".join(lines[index] for index in order))
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3)):
        if damaged:
            damaged[place % len(damaged)] = value
    host = dialect.host_side(env(), version=version)
    check(host.receive(bytes(damaged)) + host.receive_eof())


@pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])
def test_the_default_version_comes_first(dialect: Dialect) -> None:
    one, two = dialect.engine_side(env()), dialect.engine_side(env(), version=dialect.versions[0])
    one.send(Ready(session="s"))
    two.send(Ready(session="s"))
    assert one.data_to_send() == two.data_to_send()


def check(events: list[Event]) -> None:
    grammar = Grammar()
    for event in events:
        grammar.check(event)


def strip(command: Command) -> dict[str, object]:
    """A command without its ref and its session, which are the business of each end."""
    return {name: getattr(command, name) for name in command.__struct_fields__ if name not in ("ref", "session")}


def chunks(wire: bytes, data: st.DataObject) -> Iterator[bytes]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=12)))
    return (wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True))


def closed_by_answer(conversation: list[Event]) -> Iterator[str]:
    for event in conversation:
        match event:
            case AskClosed(ask, "allowed" | "denied" | "answered"):
                yield ask


def substance(events: list[Event]) -> Iterator[tuple[object, ...]]:
    """What no dialect may lose: the main agent's words, every call and how it ended, and how each turn ended."""
    words: dict[str, str] = {}
    for event in events:
        match event:
            case TextDelta(text, agent="", turn=turn):
                words[turn] = words.get(turn, "") + text
            case ToolFinished(call, name, outcome=outcome, turn=turn):
                yield turn, call, name, outcome
            case TurnEnded(reason, usage, failure=failure, turn=turn):
                spent = Usage(usage.input, usage.output, usage.cache_read, usage.cache_write)
                yield turn, words.get(turn, ""), reason, spent, failure and (failure.message, failure.owner)
