from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylect.wire.eventstream import Message, Parser
from wire.aws_messages import encode

MESSAGES = [
    Message({":message-type": "event", ":event-type": "chunk", "ü": "é"}, b"payload"),
    Message({}, b""),
    Message({":message-type": "exception"}, b"x" * 1000),
]
STREAM = b"".join(encode(message.headers, message.payload) for message in MESSAGES)

# What botocore 1.43 reads as {"a": True, "b": False, "c": 1, "d": 2, "e": 3, "f": 4, "g": b"xy", "h": "text",
# "i": a timestamp, "j": a uuid} with the payload b"{}".
ALL_TYPES = (
    b"\x01a\x00" b"\x01b\x01" b"\x01c\x02\x01" b"\x01d\x03\x00\x02" b"\x01e\x04\x00\x00\x00\x03"
    b"\x01f\x05" + (4).to_bytes(8, "big") + b"\x01g\x06\x00\x02xy" b"\x01h\x07\x00\x04text"
    b"\x01i\x08" + (5).to_bytes(8, "big") + b"\x01j\x09" + bytes(16)
)  # fmt: skip


def test_frames_are_as_others_write_them() -> None:
    assert encode({}, b"") == bytes.fromhex("000000100000000005c248eb7d98c8ff")


@given(st.lists(st.integers(0, len(STREAM))))
def test_any_chunking_gives_the_same_messages(cuts: list[int]) -> None:
    parser = Parser()
    edges = sorted({0, len(STREAM), *cuts})
    assert [message for a, b in pairwise(edges) for message in parser.feed(STREAM[a:b])] == MESSAGES


def test_headers_of_every_type_are_passed_over_and_texts_kept() -> None:
    from binascii import crc32

    sizes = (len(ALL_TYPES) + 18).to_bytes(4, "big") + len(ALL_TYPES).to_bytes(4, "big")
    data = sizes + crc32(sizes).to_bytes(4, "big") + ALL_TYPES + b"{}"
    assert Parser().feed(data + crc32(data).to_bytes(4, "big")) == [Message({"h": "text"}, b"{}")]


def test_damage_is_noticed() -> None:
    for at in (0, 9, 15, 40, len(encode(MESSAGES[0].headers, b"payload")) - 1):
        damaged = bytearray(STREAM)
        damaged[at] ^= 1
        with pytest.raises(ValueError, match=r"AWS event stream"):
            Parser().feed(bytes(damaged))


@given(st.binary())
def test_garbage_is_refused_and_nothing_else(data: bytes) -> None:
    try:
        Parser().feed(data)
    except ValueError:
        pass
