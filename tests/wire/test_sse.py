from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylect.wire.sse import Event, EventParser, Parser


def read(*pieces: bytes) -> list[bytes]:
    parser = Parser()
    actual = [event for piece in pieces for event in parser.feed(piece)]
    return actual + parser.end()


def test_each_event_gives_its_data() -> None:
    assert read(b"event: a\ndata: one\n\ndata: two\n\n") == [b"one", b"two"]


def test_several_data_lines_are_one_value_with_newlines() -> None:
    assert read(b"data: one\ndata:two\ndata\n\n") == [b"one\ntwo\n"]


def test_comments_ids_and_other_fields_are_skipped() -> None:
    assert read(b": hello\n\nid: 7\nretry: 10\ndata: one\nid: 8\n\nevent: ping\n\n") == [b"one"]


def test_only_one_space_after_the_colon_is_dropped() -> None:
    assert read(b"data:  one\n\ndata:two\n\n") == [b" one", b"two"]


def test_a_word_that_looks_like_data_inside_another_field_is_not_data() -> None:
    assert read(b"event: data: x\n\nevent: data: x\ndata: y\n\nmydata: z\n\n") == [b"y"]


def test_a_byte_order_mark_is_tolerated_in_pieces() -> None:
    assert read(b"\xef", b"\xbb\xbfdata: one\n", b"\n") == [b"one"]


def test_a_last_event_with_whole_lines_counts_without_its_blank_line() -> None:
    assert read(b"data: one\n\ndata: two\n") == [b"one", b"two"]


def test_a_last_line_that_was_cut_does_not_count() -> None:
    assert read(b"data: one\n\ndata: tw") == [b"one"]


def test_an_event_that_never_ends_is_refused_before_it_fills_memory() -> None:
    parser = Parser(max_event=1000)
    with pytest.raises(ValueError, match="longer than 1000"):
        for _ in range(11):
            parser.feed(b"data: " + b"x" * 100)


def test_a_long_line_in_small_pieces_is_read_in_linear_time() -> None:
    line = b"data: " + b"x" * 1_000_000 + b"\n\n"
    assert read(*(line[at : at + 100] for at in range(0, len(line), 100))) == [b"x" * 1_000_000]


STREAM = b': c\nevent: a\ndata: {"a": 1}\n\n\ndata: two\ndata: lines\n\ndata: \xe2\x80\xa8\n\nid: 1\n\n'
EVENTS = [b'{"a": 1}', b"two\nlines", b"\xe2\x80\xa8"]


@given(st.lists(st.integers(0, 200)), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_chunking_and_any_line_end_gives_the_same_events(cuts: list[int], newline: bytes) -> None:
    stream = STREAM.replace(b"\n", newline)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    assert read(*(stream[a:b] for a, b in pairwise(edges))) == EVENTS


@given(st.lists(st.binary()))
def test_garbage_never_raises(pieces: list[bytes]) -> None:
    read(*pieces)


# Events with all their fields.


def read_events(*pieces: bytes) -> list[Event]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)] + parser.end()


def test_an_event_has_its_name_id_and_time() -> None:
    assert read_events(b"event: endpoint\ndata: /post\n\n", b"id: 7\nretry: 250\ndata: a\nda", b"ta: b\n\n") == [
        Event(b"/post", "endpoint"),
        Event(b"a\nb", id="7", retry=250),
    ]


def test_an_event_without_data_still_has_its_id_and_time() -> None:
    assert read_events(b"id: 1\ndata:\n\n: comment\n\nretry: 5\n\nid\n\n\n\nother: x\n\n") == [
        Event(id="1"),
        Event(retry=5),
        Event(id=""),
    ]


def test_ids_and_times_that_are_none_are_ignored() -> None:
    assert read_events(b"id: a\0b\nretry: soon\ndata: x\n\nretry: 99999999999\ndata: y\n\n") == [
        Event(b"x"),
        Event(b"y"),
    ]


def test_an_event_of_too_many_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 100000 lines"):
        read_events(b"data:\n" * 100_002 + b"\n")
