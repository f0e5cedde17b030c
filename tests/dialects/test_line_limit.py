from polylect.dialects import line_limit
from polylect.wire import jsonl

LIMIT = 10_000


def test_what_fits_is_left_alone() -> None:
    frame = {"type": "info", "message": "x" * 100}
    assert line_limit.line(frame, LIMIT) == jsonl.dump(frame)


def test_long_text_loses_its_middle_and_says_so() -> None:
    actual = jsonl.parse(line_limit.line({"type": "t", "output": "a" * LIMIT + "b" * LIMIT}, LIMIT).rstrip())
    assert actual["output"].startswith("aaa")
    assert actual["output"].endswith("bbb")
    assert "characters left out" in actual["output"]


def test_many_keys_and_items_are_cut_too_but_never_what_a_peer_matches_by() -> None:
    frame = {"type": "t", "msg_id": "m" * 200, "args": {str(n): ["x" * 50] * 50 for n in range(5000)}}
    line = line_limit.line(frame, LIMIT)
    assert len(line) <= LIMIT
    assert jsonl.parse(line.rstrip())["msg_id"] == "m" * 200


def test_a_delta_is_split_and_never_shortened() -> None:
    assert line_limit.pieces("abcde", 2) == ["ab", "cd", "e"]
    assert line_limit.pieces("", 2) == [""]


def test_a_large_frame_comes_out_the_same_without_being_encoded_first() -> None:
    for text in ("a" * LIMIT * 100, "a\n" * LIMIT, "\u2028é" * LIMIT, "short", "\ud800" * LIMIT):
        frame = {"type": "t", "content": [text, {"more": text}] * 5}
        assert line_limit.line(frame, LIMIT, large=True) == line_limit.line(frame, LIMIT)
