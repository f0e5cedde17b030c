"""File patterns mean what a plain translation says, and matching them is bounded for every pattern and path."""

import re
import time
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polylect.tools.text.glob_pattern import MOST_ALTERNATIVES, compile_pattern
from polylect.wire.path_patterns import MOST_LENGTH

SOON = 1.0
"""Seconds. Each case takes milliseconds; what backtracks takes hours."""


def plainly_translated(pattern: str) -> re.Pattern[str]:
    """The meaning of a pattern, sign by sign. It backtracks without bounds, so it is for short texts only."""
    signs = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")"}
    parts: list[str] = []
    at = depth = 0
    while at < len(pattern):
        size, sign = 1, pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            size, part = 3, "(?:[^/]+/)*"
        elif pattern.startswith("**", at):
            size, part = 2, ".*"
        elif sign == "[" and (end := pattern.find("]", at + 2)) > 0:
            chosen = pattern[at + 1 : end].replace("\\", "\\\\")
            size, part = end + 1 - at, f"(?!/)[{'^' + chosen[1:] if chosen[0] in '!^' else chosen}]"
        elif sign == "\\" and at + 1 < len(pattern):
            size, part = 2, re.escape(pattern[at + 1])
        elif sign == "," and depth:
            part = "|"
        elif sign == "}" and not depth:
            part = "\\}"
        else:
            part = signs.get(sign) or re.escape(sign)
        depth += (part == "(?:") - (part == ")")
        parts.append(part)
        at += size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about `[[`
        return re.compile("".join(parts) + r"\Z", re.DOTALL)


signs = st.sampled_from(["a", "b", "a", "b", "/", "/", "*", "**", "**/", "/**/", "?", "[ab]", "[!a]", "*a", ".", "\n"])
flat = st.lists(signs, max_size=7).map("".join)
braced = st.builds("{}{{{},{}}}{}".format, flat, flat, flat, flat)
odd = st.text("ab/*?[]!^-\\{},.", max_size=9)
paths = st.lists(st.text("ab.\n", min_size=1, max_size=3), max_size=5).map("/".join)


@given(pattern=flat | braced | odd, path=paths)
@example(pattern="**a*b", path="a/ab")
@example(pattern="**/a*/**b*", path="a/ab/b")
@example(pattern="*ab", path="abab")
@example(pattern="[[]a", path="[a")
def test_a_pattern_means_what_its_plain_translation_means(pattern: str, path: str) -> None:
    try:
        meant = plainly_translated(pattern).match(path)
    except re.error:
        with pytest.raises(re.error):
            compile_pattern(pattern)
        return
    assert bool(compile_pattern(pattern).match(path)) == bool(meant)


HOSTILE = [
    ("**?" * 12, "src/polylect/engine/" + "abc/" * 30 + "x" * 60 + "/"),
    ("*a*a*a*a*a*b[c]", "a" * 200),
    ("**/a/**/b/**/*.pem", "a/b/" * 2048 + "x"),
    ("*a" * 500, "a" * 4000 + "b"),
    ("**a" * 300 + "b", "a" * 4000),
    ("**/*a/" * 160 + "b", "a/" * 2000 + "c"),
    ("**/" + "*a/" * 300 + "b", "a/" * 2000 + "c"),
    ("**" + "?" * 900 + "b", "a" * 4000),
    ("**/" * 330 + "b", "a/" * 2000 + "c"),
    ("{a*,*a}" * 6 + "b", "a" * 4000),
    ("**[!b]" * 160 + "b", "a" * 4000),
]


@pytest.mark.parametrize(("pattern", "path"), HOSTILE, ids=[pattern[:20] for pattern, _ in HOSTILE])
def test_a_hostile_pattern_and_path_are_matched_at_once(pattern: str, path: str) -> None:
    begin = time.monotonic()
    assert not compile_pattern(pattern).match(path)
    assert time.monotonic() - begin < SOON


def test_fifty_thousand_paths_are_matched_at_once() -> None:
    names = [
        f"src/package{number % 50}/deep/er/module{number}.{'py' if number % 2 else 'txt'}" for number in range(50_000)
    ]
    match = compile_pattern("src/**/*.py").match
    begin = time.monotonic()
    assert sum(1 for name in names if match(name)) == 25_000
    assert time.monotonic() - begin < SOON


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a" * (MOST_LENGTH + 1), f"one of at most {MOST_LENGTH}"),
        ("{a,b}" * 7, f"more than {MOST_ALTERNATIVES} alternatives"),
        ("{" * 400 + "a" + ",b}" * 30, "a brace is not closed"),
        ("{a,b}" * 6 + "x" * 900, "very long"),
    ],
)
def test_a_pattern_that_is_too_large_is_refused_with_a_reason(pattern: str, words: str) -> None:
    with pytest.raises(re.error, match=words):
        compile_pattern(pattern)
