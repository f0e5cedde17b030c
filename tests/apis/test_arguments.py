"""Arguments of calls: those that no model writes are not taken."""

import pytest

from polylect.apis.arguments import DEEPEST, MOST_TEXT, MOST_VALUES, tool_call
from polylect.vocab.content import UNPARSED


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
    call = tool_call("c1", "Bash", text)
    assert call.args == {}
    assert text.startswith(call.extra[UNPARSED])
    assert len(call.extra[UNPARSED]) <= 65536


@pytest.mark.parametrize(
    "text",
    ["", " ", "{}", '{"a": [%s0]}' % ("0," * (MOST_VALUES - 2)), '{"a": "%s"}' % ("x" * (MOST_TEXT - 9))],
    ids=["none", "space", "empty", "many", "long"],
)
def test_arguments_that_are_taken(text: str) -> None:
    call = tool_call("c1", "Bash", text)
    assert UNPARSED not in call.extra
    assert bool(call.args) == bool(text.strip("{} "))


def test_a_name_is_cut() -> None:
    assert tool_call("c1", "x" * 1000, "{}").name == "x" * 256
