"""JSON Lines: I1 (lines), I2 (what is no frame), I3 (what is written)."""

import json
import math
import tracemalloc
from itertools import pairwise
from time import perf_counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylect.vocab.events import TextDelta
from polylect.wire.jsonl import MAX_LINE, Splitter, TooLong, dump, escape_separators, parse

BOM = b"\xef\xbb\xbf"


def lines(*pieces: bytes, max_line: int = MAX_LINE) -> list[bytes | TooLong]:
    splitter = Splitter(max_line)
    return [line for piece in pieces for line in splitter.feed(piece)] + splitter.end()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{}\n[]\n", [b"{}", b"[]"]),
        (b"{}\r\n[]\r\n", [b"{}", b"[]"]),
        (b"\n\r\n  \t\n{}\n\n", [b"{}"]),
        (BOM + b"{}\n", [b"{}"]),
        (BOM + b"\n{}\n", [b"{}"]),
        (b"{}\n" + BOM + b"{}\n", [b"{}", BOM + b"{}"]),
        (b"{}", [b"{}"]),
        (b"{}\n{", [b"{}", b"{"]),
        (b"", []),
        (b"a\rb\n", [b"a\rb"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf".encode()]),
        (b"a\0b\n\xff\n", [b"a\0b", b"\xff"]),
    ],
)
def test_i1_lines_end_at_lf_and_nowhere_else(data: bytes, expected: list[bytes]) -> None:
    assert lines(data) == expected
    assert lines(*(data[i : i + 1] for i in range(len(data)))) == expected


@given(
    st.lists(st.sampled_from([b"\n", b"\r", b" ", b"\t", BOM, b"{", b"}", b"xyz", b"\xe2\x80\xa8", b"\0"])),
    st.lists(st.integers(0, 10_000)),
)
def test_i1_any_chunking_gives_the_same_lines(parts: list[bytes], places: list[int]) -> None:
    data = b"".join(parts)
    assert lines(*cut(data, places)) == lines(data)


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 10_000)), st.integers(1, 8))
def test_i1_any_chunking_drops_the_same_lines(parts: list[bytes], places: list[int], limit: int) -> None:
    data = b"\n".join(parts)
    whole = [line if isinstance(line, bytes) else "too long" for line in lines(data, max_line=limit)]
    pieces = [line if isinstance(line, bytes) else "too long" for line in lines(*cut(data, places), max_line=limit)]
    assert pieces == whole


def test_i1_a_line_at_the_limit_is_kept_and_one_past_it_is_reported_once() -> None:
    assert lines(b"12345\n123456\n1\n", max_line=5) == [b"12345", TooLong(b"123456", 5), b"1"]


def test_i1_a_line_that_is_too_long_is_reported_as_soon_as_that_is_known() -> None:
    splitter = Splitter(5)
    assert splitter.feed(b"1234") == []
    assert splitter.feed(b"56") == [TooLong(b"123456", 5)]
    assert splitter.feed(b"7" * 1000) == []
    assert splitter.feed(b"89\nok\n") == [b"ok"]


def test_i1_a_line_that_is_too_long_at_the_end_is_reported_once() -> None:
    assert lines(b"123456", max_line=5) == [TooLong(b"123456", 5)]


def test_i1_a_report_shows_only_how_the_line_began() -> None:
    assert lines(b"x" * 10_000, max_line=5000) == [TooLong(b"x" * 200, 5000)]


def test_i1_a_line_without_end_costs_no_memory() -> None:
    splitter = Splitter(64 * 1024)
    tracemalloc.start()
    try:
        for index in range(2000):
            splitter.feed(bytes(4096) + str(index).encode())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1024 * 1024


def seconds(megabytes: int) -> float:
    splitter, piece = Splitter(), b"x" * 4096
    start = perf_counter()
    for _ in range(megabytes * 256):
        assert splitter.feed(piece) == []
    (line,) = splitter.feed(b"\n")
    taken = perf_counter() - start
    assert isinstance(line, bytes)
    assert len(line) == megabytes * 1024 * 1024
    return taken


def test_i1_a_long_line_in_small_pieces_takes_linear_time() -> None:
    """Quadratic work on 20 MB in 4 KiB pieces would copy 50 GB."""
    assert seconds(20) < 2.0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"hello", "invalid JSON: Expecting value at character 0"),
        (b'{"a": 1', "invalid JSON: Expecting ',' delimiter at character 7"),
        (b"{} {}", "invalid JSON: Extra data at character 3"),
        (b"[1]", "expected a JSON object"),
        (b'"a"', "expected a JSON object"),
        (b"null", "expected a JSON object"),
        (b'{"a": 1, "a": 2}', "the key 'a' appears twice"),
        (b'{"x": {"b": 1, "a": 1, "b": 2}}', "the key 'b' appears twice"),
        (rb'{"a": 1, "\u0061": 2}', "the key 'a' appears twice"),
        (b'{"a": NaN}', "invalid JSON: NaN is not a JSON number"),
        (b'{"a": -Infinity}', "invalid JSON: -Infinity is not a JSON number"),
        (b'{"a": "\xff"}', "invalid UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "invalid UTF-8 at byte 7"),
        (b'{"a": "\x01"}', "invalid JSON: Invalid control character at at character 7"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "invalid JSON: nested too deeply"),
        (b"[" * 100_000, "invalid JSON: nested too deeply"),
    ],
)
def test_i2_what_is_no_frame_is_refused_with_a_reason(line: bytes, why: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the text is compared below
        parse(line)
    if "control character" in why or "delimiter" in why:  # Python's own words, which differ between versions
        assert str(caught.value).startswith("invalid JSON: ")
    else:
        assert str(caught.value) == why


def test_i2_a_number_of_too_many_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid JSON: a number of 100000 digits is too long"):
        parse(b'{"a": ' + b"9" * 100_000 + b"}")


@given(st.binary())
def test_i2_any_bytes_are_an_object_or_a_value_error(line: bytes) -> None:
    try:
        assert isinstance(parse(line), dict)
    except ValueError:
        pass


def inmost(depth: int, value: bytes) -> Any:
    try:
        actual: Any = parse(b'{"a":' * depth + value + b"}" * depth)
    except ValueError as error:
        return str(error)
    for _ in range(depth):
        actual = actual["a"]
    return actual


@pytest.mark.parametrize("depth", [100, 400, 700, 4000])
def test_i2_nesting_is_read_or_refused_at_every_depth(depth: int) -> None:
    assert inmost(depth, b'"x"') in ("x", "invalid JSON: nested too deeply")


@pytest.mark.parametrize("depth", [100, 400, 700, 5000])
def test_i2_surrogates_are_found_or_refused_at_every_depth(depth: int) -> None:
    assert inmost(depth, rb'"\ud800"') in ("\ufffd", "invalid JSON: nested too deeply")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (rb'{"a": "\ud83d\ude00"}', "\U0001f600"),
        (rb'{"a": "x\ud83dy"}', "x\ufffdy"),
        (rb'{"a": "\ude00\ud83d"}', "\ufffd\ufffd"),
        (rb'{"a": "\u2028"}', "\u2028"),
        (rb'{"a": "\u0000"}', "\0"),
        ('{"a": "\u2028"}'.encode(), "\u2028"),
    ],
)
def test_i2_lone_surrogates_are_replaced_and_pairs_are_kept(line: bytes, text: str) -> None:
    assert parse(line) == {"a": text}


def test_i2_surrogates_are_replaced_wherever_they_are() -> None:
    line = rb'{"\ud800": [{"b": ["\ud800", 1, null, true, 1.5]}]}'
    assert parse(line) == {"\ufffd": [{"b": ["\ufffd", 1, None, True, 1.5]}]}


def test_i3_a_frame_is_one_line() -> None:
    assert dump({"a": "x\ny\r\u2028\u2029"}) == b'{"a":"x\\ny\\r\\u2028\\u2029"}\n'
    assert dump({"\u2028": 1}) == b'{"\\u2028":1}\n'
    assert dump(TextDelta("\u2029", turn="t")) == b'{"type":"text_delta","text":"\\u2029","turn":"t"}\n'
    assert dump({"raw": msgspec.Raw('"\u2028"'.encode())}) == b'{"raw":"\\u2028"}\n'


def test_i3_lone_surrogates_never_reach_the_wire() -> None:
    assert dump({"a\udc00": ["\ud800x", ("\udfff",)]}) == '{"a\ufffd":["\ufffdx",["\ufffd"]]}\n'.encode()
    assert dump(TextDelta("\ud83d", turn="t")) == '{"type":"text_delta","text":"\ufffd","turn":"t"}\n'.encode()


def test_i3_only_the_two_separators_are_escaped() -> None:
    near = "\u2027\u202a\u2020\u3028\u00a8"
    assert escape_separators(near.encode()) == near.encode()
    assert escape_separators(f"{near}\u2028{near}\u2029".encode()) == f"{near}\\u2028{near}\\u2029".encode()


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_i3_whatever_is_written_is_one_clean_line_and_reads_the_same(frame: dict[str, Any]) -> None:
    line = dump(frame)
    text = line.decode()
    assert [text.count(separator) for separator in "\n\r\u2028\u2029"] == [1, 0, 0, 0]
    assert text.endswith("\n")
    assert parse(line) == clean(frame) == json.loads(text)


def clean(value: Any) -> Any:
    match value:
        case str():
            return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in value)
        case dict():
            return {clean(key): clean(item) for key, item in value.items()}
        case list():
            return [clean(item) for item in value]
    return value


def test_numbers_that_json_cannot_say_become_null() -> None:
    assert dump({"a": math.inf, "b": math.nan}) == b'{"a":null,"b":null}\n'
