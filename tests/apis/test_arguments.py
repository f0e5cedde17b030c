"""Arguments of calls: those that no model writes are not taken."""

import pytest

from polylect.apis.arguments import DEEPEST, MOST_TEXT, MOST_VALUES, ReplyCalls
from polylect.vocab.content import UNPARSED, ToolCall


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{{"a": {}1{}}}'.format("[" * DEEPEST, "]" * DEEPEST),
        '{"a": [%s0]}' % ("0," * MOST_VALUES),
        '{"a": [%s0]}' % ("[[]]," * (MOST_VALUES // 2)),
        '{"a": "%s"}' % ("x" * MOST_TEXT),
        "[1]",
        '{"a": ',
    ],
    ids=["deep", "deep object", "many", "many deeper", "long", "no object", "cut off"],
)
def test_arguments_that_are_not_taken(text: str) -> None:
    call = ReplyCalls().parse("c1", "Bash", text)
    assert call.args == {}
    assert text.startswith(call.extra[UNPARSED])
    assert len(call.extra[UNPARSED]) <= 65536


@pytest.mark.parametrize(
    "text",
    ["", " ", "{}", '{"a": [%s0]}' % ("0," * (MOST_VALUES - 2)), '{"a": "%s"}' % ("x" * (MOST_TEXT - 9))],
    ids=["none", "space", "empty", "many", "long"],
)
def test_arguments_that_are_taken(text: str) -> None:
    call = ReplyCalls().parse("c1", "Bash", text)
    assert UNPARSED not in call.extra
    assert bool(call.args) == bool(text.strip("{} "))


def test_a_name_is_cut() -> None:
    assert ReplyCalls().parse("c1", "x" * 1000, "{}").name == "x" * 256


def test_the_calls_of_a_reply_share_the_limits() -> None:
    for text, most in [('{"a": "%s"}' % ("x" * (MOST_TEXT // 10)), 10), ('{"a": [%s0]}' % ("0," * 998), 10)]:
        calls = ReplyCalls()
        made = [calls.parse("c1", "Bash", text) for _ in range(200)]
        assert [bool(call.args) for call in made].count(True) in (most - 1, most)
        assert not any(call.args for call in made[most:])
        assert sum(len(call.extra.get(UNPARSED, "")) + len(str(call.args)) for call in made) < 1.1 * MOST_TEXT


def test_arguments_that_a_server_sends_as_an_object_count_too() -> None:
    assert UNPARSED in ReplyCalls().parse("c1", "Bash", "", {"a": "x" * (MOST_TEXT + 1)}).extra


def test_the_limit_for_calls_that_are_made_already() -> None:
    calls = ReplyCalls()
    call = ToolCall("c1", "Bash", {"command": "x" * (MOST_TEXT // 2)}, {"signature": "s"})
    assert calls.limited(call) is call
    assert calls.limited(call) == ToolCall("c1", "Bash", {}, {"signature": "s", UNPARSED: ""})
