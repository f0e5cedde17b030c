"""Every vendor's wire through the real process: a conversation with all that belongs to it, and all that goes wrong."""

import gzip
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from e2e.service import VENDORS, Service, Vendor
from engine_process import Engine, Frame, Place, eventually
from machine import within
from polylect.vocab.content import Text, Thinking, ToolCall
from providers.loopback import CUT, STALL, WAIT, Step, chunk, head, reply
from providers.wires import SECRET

SIGNATURE = "c2lnbmF0dXJl"
PIXEL = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
HELLO = Text("Hello there.")
GREETED = [("text_delta", "Hello there."), ("stream_end", "stop")]
STOP = {"type": "stop"}


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    return VENDORS[request.param]


def ask(engine: Engine, text: str, *files: str) -> None:
    engine.send({"type": "message", "msg_id": text, "content": text, "files": list(files)})


def heard(engine: Engine) -> list[tuple[str, str]]:
    """A turn in short: the frames that every host reads, and what matters in each; deltas in a row are one."""
    actual: list[tuple[str, str]] = []
    for frame in engine.until("stream_end"):
        kind = frame["type"]
        if kind not in SAYS:
            continue
        text = SAYS[kind](frame)
        if actual and kind in ("text_delta", "thinking") and actual[-1][0] == kind:
            text = actual.pop()[1] + text
        actual.append((kind, text))
    return actual


SAYS: dict[str, Callable[[Frame], str]] = {
    "thinking": lambda frame: frame["text"],
    "text_delta": lambda frame: frame["text"],
    "tool_running": lambda frame: frame["call_id"],
    "tool_result": lambda frame: frame["call_id"],
    "info": lambda frame: frame["message"],
    "error": lambda frame: frame["error"]["message"],
    "stream_end": lambda frame: frame["finish_reason"],
}


def refused(status: int, text: str = "no", **headers: str) -> list[Step]:
    return reply(b'{"error":{"message":"%b"}}' % text.encode(), status=status, kind="application/json", **headers)


def test_a_whole_conversation(vendor: Vendor, service: Service, place: Place) -> None:
    """A retry, thinking, text, two tools at once, an image; then an error, a cancel, and on it goes."""
    (place.workspace / "notes.txt").write_text("alpha\n")
    (place.workspace / "pixel.png").write_bytes(PIXEL)
    engine = vendor.engine(place, service.url, "--force")

    calls = (ToolCall("t1", "Read", {"file_path": "notes.txt"}), ToolCall("t2", "Bash", {"command": "echo beta"}))
    said = vendor.says(Thinking("Let me look.", SIGNATURE), Text("I will read both."), *calls)
    service.give(refused(429, retry_after="0.01"), said, vendor.says(Text("Alpha and beta.")))
    ask(engine, "Look", "pixel.png")
    retried, thought, text, *tools, answer, end = heard(engine)
    assert retried[0] == "info"
    assert "(429)" in retried[1]
    assert (thought, text) == (("thinking", "Let me look."), ("text_delta", "I will read both."))
    assert sorted(tools) == sorted((kind, call.call) for call in calls for kind in ("tool_running", "tool_result"))
    assert (answer, end) == (("text_delta", "Alpha and beta."), ("stream_end", "stop"))

    first, second, third = (request.body.decode() for request in service.requests)
    assert first == second
    assert b64encode(PIXEL).decode() in second
    assert "alpha" in third
    assert "beta" in third
    assert (SIGNATURE in third) == vendor.replays_thinking

    service.give(refused(400, "this makes no sense"))
    ask(engine, "Break")
    error, end = heard(engine)
    assert "(400): this makes no sense" in error[1]
    assert end == ("stream_end", "error")

    service.give(cut(STALL, shown=True)(vendor)[0])
    ask(engine, "Hang")
    assert engine.until("text_delta")[-1]["text"] == "Hell"
    with within(3.0):
        engine.send(STOP)
        assert engine.until("stream_end")
        eventually(lambda: service.left == 1)

    service.give(vendor.says(HELLO))
    ask(engine, "Again")
    assert heard(engine) == GREETED
    assert all(text in service.requests[-1].body.decode() for text in ("Look", "Alpha and beta.", "Hell", "Again"))
    frames, code = engine.finish()
    assert (frames, code) == ([], 0)
    assert SECRET not in engine.errors


def test_steps_of_a_turn_share_one_connection(vendor: Vendor, service: Service, place: Place) -> None:
    (place.workspace / "notes.txt").write_text("alpha\n")
    engine = vendor.engine(place, service.url)
    read = [vendor.says(ToolCall(f"t{number}", "Read", {"file_path": "notes.txt"})) for number in range(3)]
    service.give(*read, vendor.says(HELLO))
    for prompt in ("First", "Second"):
        ask(engine, prompt)
        assert heard(engine)[-2:] == GREETED
    assert (len(service.requests), service.connections) == (5, 1)


def test_a_stop_hangs_up_even_before_the_first_byte(vendor: Vendor, service: Service, place: Place) -> None:
    engine = vendor.engine(place, service.url)
    service.give([STALL])
    ask(engine, "Hang")
    eventually(lambda: len(service.requests) == 1)
    engine.send(STOP)
    assert [kind for kind, _ in heard(engine)] == ["stream_end"]
    eventually(lambda: service.left == 1)
    service.give(vendor.says(HELLO))
    ask(engine, "Again")
    assert heard(engine) == GREETED


# Misbehaviour. After each, the same engine has to be usable.


class Trial(NamedTuple):
    answers: Callable[[Vendor], list[list[Step]]]
    expected: list[tuple[str, str]]
    """The kinds of frames, each with something that has to be in it."""


def dressed(dress: Callable[[bytes], bytes], kind: str = "", **headers: str) -> Callable[[Vendor], list[list[Step]]]:
    """The whole reply in other clothes."""
    return lambda vendor: [
        reply(dress(b"".join(vendor.frames(HELLO))), status=200, kind=kind or vendor.kind, **headers)
    ]


def then_well(*bad: list[Step]) -> Callable[[Vendor], list[list[Step]]]:
    return lambda vendor: [*bad, vendor.says(HELLO)]


def cut(*end: Step, shown: bool) -> Callable[[Vendor], list[list[Step]]]:
    """Headers, the events up to the first text, which may be shown, and half of the event after that."""

    def answers(vendor: Vendor) -> list[list[Step]]:
        frames = vendor.frames(HELLO, width=4)
        whole = vendor.before_text(HELLO, 4) + shown
        sent = [*frames[:whole], frames[whole][: len(frames[whole]) // 2]]
        return [[*vendor.says()[:1], *map(chunk, sent), *end], vendor.says(HELLO)]

    return answers


def closing(vendor: Vendor) -> list[list[Step]]:
    """Neither a length nor chunks: the end of the connection is the end of the body."""
    return [[head(200, content_type=vendor.kind), *vendor.frames(HELLO), CUT]]


def byte_by_byte(vendor: Vendor) -> list[list[Step]]:
    return [reply(*(bytes([byte]) for byte in b"".join(vendor.frames(HELLO))), kind=vendor.kind)]


LONG = "long line " * 102_000
RETRIED = [("info", "retrying"), *GREETED]
ANYWHERE = {
    "429 with retry-after": Trial(then_well(refused(429, retry_after="0.01")), [("info", "(429)"), *GREETED]),
    "500": Trial(then_well(refused(500, retry_after="0")), [("info", "(500)"), *GREETED]),
    "503, twice": Trial(
        then_well(refused(503, retry_after="0"), refused(503, retry_after_ms="1")),
        [("info", "(1/4)"), ("info", "(2/4)"), *GREETED],
    ),
    "529": Trial(then_well(refused(529, retry_after="0")), [("info", "overloaded"), *GREETED]),
    "401": Trial(
        then_well(refused(401)), [("error", "the credentials were refused (401): set "), ("stream_end", "error")]
    ),
    "404": Trial(then_well(refused(404)), [("error", "--model"), ("stream_end", "error")]),
    "closed while it was idle": Trial(then_well([CUT]), GREETED),
    "closed before the headers": Trial(then_well([CUT], [CUT]), RETRIED),
    "cut after half a frame": Trial(cut(CUT, shown=False), RETRIED),
    "cut after half a frame, politely": Trial(cut(b"0\r\n\r\n", shown=False), RETRIED),
    "cut when something was shown": Trial(
        cut(CUT, shown=True),
        [("text_delta", "Hell"), ("error", "before the answer was complete"), ("stream_end", "error")],
    ),
    "garbage": Trial(dressed(lambda body: b"data: {nonsense\n\n" * 9), [("error", ""), ("stream_end", "error")]),
    "no HTTP at all": Trial(
        then_well([b"\x15\x03\x01\x00\x02\x02\x28", CUT]), [("error", "--base-url"), ("stream_end", "error")]
    ),
    "HTML": Trial(
        then_well(reply(b"<!doctype html><p>Welcome", kind="text/html")),
        [("error", "--base-url"), ("stream_end", "error")],
    ),
    "a redirect": Trial(
        then_well(reply(status=308, location="https://elsewhere.example/v1")),
        [("error", "https://elsewhere.example/v1"), ("stream_end", "error")],
    ),
    "an error with status 200": Trial(
        then_well(reply(b'{"error":{"message":"loading"}}', kind="application/json")),
        [("error", "loading"), ("stream_end", "error")],
    ),
    "gzip that nobody asked for": Trial(dressed(gzip.compress, content_encoding="gzip"), GREETED),
    "broken gzip": Trial(
        dressed(lambda body: b"\x1f\x8bnonsense", content_encoding="gzip"),
        [("error", "broken gzip"), ("stream_end", "error")],
    ),
    "a wrong content type": Trial(dressed(bytes, kind="text/plain; charset=utf-8"), GREETED),
    "no length, no chunks": Trial(closing, GREETED),
    "byte by byte": Trial(byte_by_byte, GREETED),
    "a line of a megabyte": Trial(
        lambda vendor: [vendor.says(Text(LONG), width=len(LONG))], [("text_delta", LONG), ("stream_end", "stop")]
    ),
}
IN_TEXT = {
    "CRLF": Trial(dressed(lambda body: body.replace(b"\n", b"\r\n")), GREETED),
    "CR": Trial(dressed(lambda body: body.replace(b"\n", b"\r")), GREETED),
    "comments": Trial(dressed(lambda body: body.replace(b"\n\n", b"\n\n: keep-alive\n\n:\n")), GREETED),
    "a byte order mark": Trial(dressed(lambda body: b"\xef\xbb\xbf" + body), GREETED),
}


def test_whatever_a_service_does_is_said_and_survived(vendor: Vendor, service: Service, place: Place) -> None:
    engine = vendor.engine(place, service.url)
    trials = ANYWHERE if vendor.provider == "bedrock" else {**ANYWHERE, **IN_TEXT}
    for name, trial in trials.items():
        service.give(*trial.answers(vendor))
        ask(engine, name)
        actual = heard(engine)
        assert [kind for kind, _ in actual] == [kind for kind, _ in trial.expected], (name, str(actual)[:2000])
        for (_, said), (_, expected) in zip(actual, trial.expected, strict=True):
            assert expected in said, name
        if trial.expected[-1] != GREETED[-1]:
            service.give(vendor.says(HELLO))
            ask(engine, f"after {name}")
            assert heard(engine) == GREETED, name
    assert engine.finish() == ([], 0)
    assert SECRET not in engine.errors


def test_a_slow_first_byte_is_waited_for(vendor: Vendor, service: Service, place: Place) -> None:
    """For ever, if that is what was asked for."""
    engine = vendor.engine(place, service.url, "--stream-timeout", "0")
    service.give([WAIT, *vendor.says(HELLO)])
    ask(engine, "Hello")
    eventually(lambda: len(service.requests) == 1)
    service.go()
    assert heard(engine) == GREETED


def test_l6_silence_is_cut_and_said(vendor: Vendor, service: Service, place: Place) -> None:
    """Before anything was shown it is tried again; afterwards the turn ends with an error."""
    engine = vendor.engine(place, service.url, "--stream-timeout", "0.6")
    service.give([STALL], vendor.says(HELLO))
    ask(engine, "Hello")
    retried, *rest = heard(engine)
    assert retried[0] == "info"
    assert "0.6 s (stream_timeout)" in retried[1]
    assert rest[-2:] == GREETED
    service.give(cut(STALL, shown=True)(vendor)[0])
    ask(engine, "Stall")
    *early, text, error, end = heard(engine)
    assert {kind for kind, _ in early} <= {"info"}, "on a slow machine the first byte may be too late too"
    assert text == ("text_delta", "Hell")
    assert "0.6 s (stream_timeout)" in error[1]
    assert end == ("stream_end", "error")
    eventually(lambda: service.left >= 2)


def test_a_pause_that_the_service_asked_for_is_not_its_silence(service: Service, place: Place) -> None:
    vendor = VENDORS["anthropic"]
    engine = vendor.engine(place, service.url, "--stream-timeout", "0.5")
    service.give(refused(429, retry_after="1"), vendor.says(HELLO))
    ask(engine, "Hello")
    assert heard(engine)[-2:] == GREETED
