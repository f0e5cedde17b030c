"""What the native wire has beside its events: the first line, numbers, attaching, answers to what is no command."""

import json
from typing import Any

import pytest

from dialects.pair import env
from polylect.dialects.native.engine.codec import EngineSide
from polylect.dialects.native.engine.event_log import EventLog
from polylect.dialects.native.host.codec import HostSide
from polylect.vocab.commands import CloseSession, MalformedCommand, Prompt, Query, UnknownCommand
from polylect.vocab.content import Abilities, Failure
from polylect.vocab.events import (
    Event,
    Failed,
    MalformedEvent,
    Notice,
    Ready,
    Reply,
    SettingChanged,
    Settled,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnStarted,
    UnknownEvent,
)

READY = Ready("1.2", "m", "plan", Abilities(thinking=True), session="s1")


def engine() -> EngineSide:
    side = EngineSide(env())
    side.send(READY)
    return side


def lines(side: EngineSide) -> list[dict[str, Any]]:
    return [json.loads(line) for line in side.data_to_send().splitlines()]


def send(side: EngineSide, **fields: Any) -> list[Any]:
    return side.receive(json.dumps(fields).encode() + b"\n")


def test_the_first_line_names_the_wire_and_is_the_event_ready() -> None:
    side = engine()
    line = side.data_to_send()
    wire = {"protocol": "polylect-native", "protocol_version": "1.0", "stream": "id-1", "seq": 1}
    assert json.loads(line) == {**wire, **READY.to_dict()}
    assert HostSide(env()).receive(line) == [READY]


def test_every_event_has_the_next_number_of_its_session() -> None:
    side = engine()
    for text, session in (("a", ""), ("b", "s2"), ("c", "s1"), ("d", "s2")):
        side.send(TextDelta(text, session=session))
    assert [(line.get("text"), line["seq"]) for line in lines(side)] == [
        (None, 1), ("a", 2), ("b", 1), ("c", 3), ("d", 2),
    ]  # fmt: skip


def test_a_session_that_is_switched_to_goes_on_with_the_same_numbers() -> None:
    side = engine()
    side.send(SettingChanged("session", "s9"))
    side.send(Settled(session="s9"))
    assert [line["seq"] for line in lines(side)] == [1, 2, 3]


def test_a_ready_line_that_others_have_written_counts() -> None:
    first, second = engine(), EngineSide(env())
    second.note_sent(first.data_to_send())
    second.send(Settled())
    assert [line["seq"] for line in lines(second)] == [2]
    send(second, type="attach", after=1, stream="id-1", ref="a")
    assert [line["type"] for line in lines(second)] == ["settled", "reply"]


def test_attaching_brings_what_was_missed_and_then_the_answer() -> None:
    side = engine()
    for number in range(5):
        side.send(TextDelta(str(number)))
    written = lines(side)
    assert send(side, type="attach", after=4, stream="id-1", ref="a1") == []
    side.send(Settled())
    assert lines(side) == [*written[4:], {"seq": 7, "type": "reply", "ref": "a1"}, {"seq": 8, "type": "settled"}]


def test_a_host_that_attaches_again_gets_every_event_once() -> None:
    side = engine()
    events: list[Event] = [Notice("a"), TurnStarted(turn="t"), TurnEnded("end", turn="t"), Settled()]
    for event in events:
        side.send(event)
    wire = side.data_to_send().splitlines(keepends=True)
    first = HostSide(env())
    assert first.receive(b"".join(wire[:2])) == [READY, events[0]]
    second = HostSide(env(), stream=first.stream, after=first.last())
    second.start()
    side.receive(second.data_to_send())
    side.receive(b'{"type":"attach","after":1}\n')  # and once more
    assert second.receive(side.data_to_send()) == events[1:]


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"after": 0}, "", ""),
        ({"after": 9}, "not_kept", "the events 1 to 1 are kept, not all after 9. Attach after 0 for those"),
        ({"after": 1, "stream": "other"}, "other_stream", "this one has the stream 'id-1'. Attach after 0"),
        ({"after": "x"}, "malformed", "attach: after: expected a whole number, got a string"),
    ],
)
def test_attaching_to_what_is_not_there_is_refused(fields: dict[str, Any], code: str, words: str) -> None:
    side = engine()
    lines(side)
    send(side, type="attach", ref="a", **fields)
    failure = lines(side)[-1].get("failure", {"code": "", "message": ""})
    assert failure["code"] == code
    assert words in failure["message"]


def test_what_is_kept_is_bounded_and_the_newest() -> None:
    log = EventLog(limit=100)
    for number in range(50):
        log.number(b'{"type":"x%d"}\n' % number)
    assert (log.first, log.last) == (47, 50)
    assert log.after(45) is None
    assert [json.loads(line)["seq"] for line in log.after(48) or ()] == [49, 50]
    assert log.after(50) == []
    assert log.after(51) is None
    log.number(b'{"type":"' + b"x" * 200 + b'"}\n')
    assert (log.first, log.last) == (51, 51)


def test_ping_is_answered_by_the_codec() -> None:
    side = engine()
    lines(side)
    assert send(side, type="ping", ref="p1") == []
    assert lines(side) == [{"seq": 2, "type": "reply", "ref": "p1"}]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"nonsense", "Invalid command: invalid JSON: Expecting value at character 0. Send one JSON object"),
        (b"[1]", "Invalid command: expected a JSON object. Send one JSON object"),
        (b'{"text":"x"}', 'Invalid command: the object has no "type"'),
        (b'{"type":"prompt","turn":"t"}', "Invalid command: prompt: the field text is missing"),
        (b'{"type":"prompt","turn":"t","text":"a","text":"b"}', "Invalid command: the key 'text' appears twice"),
        (
            b'{"type":"cancel","what":"everything"}',
            "Invalid command: cancel: what: 'everything' is none of turn, retry, ",
        ),
        (b'\xff{"type":"ping"}', "Invalid command: invalid UTF-8 at byte 0"),
    ],
)
def test_a_line_that_is_no_command_is_answered_and_what_follows_is_read(line: bytes, answer: str) -> None:
    side = engine()
    lines(side)
    result = side.receive(line + b'\n{"type":"query","what":"state"}\n')
    assert [type(command) for command in result] == [MalformedCommand, Query]
    (failed,) = lines(side)
    assert failed["type"] == "failed"
    assert failed["failure"]["message"].startswith(answer)


def test_a_bad_command_with_a_ref_gets_its_reply() -> None:
    side = engine()
    lines(side)
    send(side, type="prompt", ref="r1", text=7)
    (reply,) = lines(side)
    assert (reply["type"], reply["ref"], reply["failure"]["code"]) == ("reply", "r1", "malformed")


def test_an_unknown_command_is_answered_here_only_if_nobody_else_can() -> None:
    side = engine()
    lines(side)
    assert send(side, type="promt", ref="r1") == [UnknownCommand("promt", b'{"type": "promt", "ref": "r1"}', ref="r1")]
    assert lines(side) == []
    assert [type(command) for command in send(side, type="promt")] == [UnknownCommand]
    message = "Unknown command type: promt. Did you mean prompt?"
    assert [line["failure"]["message"] for line in lines(side)] == [message]
    side.send(Reply("r1", failure=Failure("unknown_command", "Unknown command type: promt", "host")))
    assert [line["failure"]["message"] for line in lines(side)] == [message]
    send(side, type="weather", ref="r2")
    side.send(Reply("r2", "sunny"))
    assert lines(side) == [{"seq": 4, "type": "reply", "ref": "r2", "data": "sunny"}]


def test_the_first_line_of_a_further_session_names_the_wire_too() -> None:
    side = engine()
    first, _ = lines(side), side.send(Ready("1.2", session="s2"))
    wire = {key: first[0][key] for key in ("type", "protocol", "protocol_version", "stream")}
    assert lines(side) == [{"seq": 1, **wire, "version": "1.2", "session": "s2"}]


def test_a_host_tells_the_first_session_from_further_ones() -> None:
    side, host = engine(), HostSide(env())
    events = [Ready("1.2", session="s2"), Notice("a", session="s1"), Notice("b", session="s2"), Notice("c")]
    for event in events:
        side.send(event)
    assert host.receive(side.data_to_send()) == [READY, *events]
    assert (host.stream, host.last(), host.last("s1"), host.last("s2")) == ("id-1", 3, 3, 2)


def test_attaching_to_a_session_that_is_not_there_is_refused() -> None:
    side = engine()
    lines(side)
    send(side, type="attach", session="s2", ref="r")
    send(side, type="ping", session="s2")
    why = "there is no session 's2' here: name one that is open, or none for the first"
    refused = {"failure": {"code": "unknown_session", "message": why, "owner": "host"}}
    assert lines(side) == [
        {"seq": 2, "type": "reply", "ref": "r", **refused},
        {"seq": 3, "type": "failed", **refused},
    ]


def test_a_line_that_is_too_long_is_answered() -> None:
    side = EngineSide(env(), max_line=100)
    assert side.receive(b"x" * 200 + b"\n") == [MalformedCommand(b"x" * 200, "the line is longer than 100 bytes")]
    assert [line["type"] for line in lines(side)] == ["failed"]


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (b'{"type":"settled"}', Settled()),
        (b'{ "seq" : 5, "type" : "settled" }', Settled()),
        (b'{"type":"settled","seq":5}', Settled()),
        (b'{"seq":5,"type":"settled","turn":""}', Settled()),
        (b'{"seq":5,"type":"settled","mood":"calm"}', Settled(unknown_fields={"mood": "calm"})),
        (b'{"seq":5,"type":"sunny"}', UnknownEvent("sunny", b'{"seq":5,"type":"sunny"}')),
    ],
)
def test_a_host_reads_lines_of_other_writers(line: bytes, event: Event) -> None:
    host = HostSide(env())
    assert host.receive(line + b"\n") == [event]


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"seq":"x","type":"settled"}', b'{"seq":1,"type":"text_delta"}', b"{}"]
)
def test_what_is_no_event_is_logged_and_what_follows_is_read(line: bytes) -> None:
    host = HostSide(env())
    malformed, settled = host.receive(line + b'\n{"seq":9,"type":"settled"}\n')
    assert isinstance(malformed, MalformedEvent)
    assert settled == Settled()
    assert len(host.to_log()) == 1


def test_turns_of_an_engine_that_goes_away_are_ended_in_every_session() -> None:
    host = HostSide(env())
    host.receive(b'{"seq":1,"type":"ready","session":"s1"}\n')
    host.send(Prompt("t1", "hi", ref="r1"))
    host.send(Prompt("t2", "hi", ref="r2"))
    host.send(Prompt("t3", "hi", ref="r3"))
    host.receive(b'{"type":"turn_started","turn":"t1"}\n{"type":"turn_started","turn":"u1","session":"other"}\n')
    host.receive(b'{"type":"reply","ref":"r3","failure":{"code":"full","message":"no","owner":"host"}}\n')
    ended = host.receive_eof()
    assert [(event.turn, event.session) for event in ended if isinstance(event, TurnEnded)] == [
        ("t1", ""), ("t2", ""), ("u1", "other"),
    ]  # fmt: skip


def test_a_command_that_is_too_long_is_refused() -> None:
    host = HostSide(env())
    (reply,) = host.send(Prompt("t", "x" * 33 * 1024 * 1024, ref="r"))
    assert isinstance(reply, Reply)
    assert reply.failure
    assert reply.failure.code == "too_long"
    assert host.data_to_send() == b""


@pytest.mark.parametrize("text", ["plain", "", 'a "b" \\ \n \x01', "Grüße 世界", "a\u2028b", "\ud800"])
@pytest.mark.parametrize("place", [{}, {"turn": "t"}, {"turn": 'ü"'}, {"turn": "t", "agent": "k"}, {"session": "s1"}])
def test_texts_take_a_quick_way_to_the_same_lines(text: str, place: dict[str, str]) -> None:
    side = engine()
    side.send(Notice("before"))
    side.send(TextDelta(text, **place))
    side.send(ThinkingDelta(text, **place))
    side.send(TextDelta(text, **place))
    _, _, first, thinking, last = side.data_to_send().splitlines(keepends=True)
    assert thinking == first.replace(b'3,"type":"text', b'4,"type":"thinking')
    assert last == first.replace(b'"seq":3', b'"seq":5')
    assert send(side, type="attach", after=2) == []
    assert side.data_to_send() == first + thinking + last


def test_a_delta_that_is_too_long_for_a_line_comes_in_pieces_and_whole() -> None:
    side = engine()
    side.data_to_send()
    side.send(TextDelta("ab" * 2**21))
    parts = [line["text"] for line in lines(side)]
    assert len(parts) == 2
    assert "".join(parts) == "ab" * 2**21


def test_a_failure_of_the_engine_itself_is_an_event_like_others() -> None:
    side, host = engine(), HostSide(env())
    failed = Failed(Failure("x", "y", "engine"))
    side.send(failed)
    assert host.receive(side.data_to_send()) == [READY, failed]


def test_a_session_that_is_closed_is_forgotten_unless_that_is_refused() -> None:
    side, host = engine(), HostSide(env())
    for ref, failure in (("r1", Failure("busy", "not now", "engine")), ("r2", None)):
        command = CloseSession(session="two", ref=ref)
        host.send(command)
        assert side.receive(host.data_to_send())[-1:] == [command]
        events = [Settled(session="two"), Reply(ref, failure=failure, session="two")]
        for event in events:
            side.send(event)
        assert host.receive(side.data_to_send())[-2:] == events
        send(side, type="ping", session="two", ref="p")
        known = "failure" not in lines(side)[-1]
        assert (known, host.last("two") > 0) == (failure is not None, failure is not None)
    side.send(Notice("again", session="two"))
    assert host.receive(side.data_to_send()) == [Notice("again", session="two")]
