"""A pattern that is compiled late is no different in use."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from polylect.wire.lazy_regex import pattern

_SOURCES = Path(__file__).parents[2] / "src"


def test_it_finds_what_a_compiled_one_finds() -> None:
    words = pattern(r"\w+", re.ASCII)
    assert words.findall("one, two") == re.compile(r"\w+", re.ASCII).findall("one, two")
    assert words.fullmatch("one") is not None
    assert words.sub("-", "a b") == "- -"
    assert words.pattern == r"\w+"


def test_flags_count() -> None:
    assert pattern("a", re.IGNORECASE).match("A")


def test_a_method_is_looked_up_once() -> None:
    digits = pattern(r"\d")
    assert digits.match is digits.match


def test_a_mistake_shows_at_the_first_use() -> None:
    broken = pattern("(")
    with pytest.raises(re.error):
        broken.match("")


def test_nothing_is_compiled_before_it_is_used() -> None:
    program = """
import re
from polylect.wire.lazy_regex import pattern
compiled = []
real, re.compile = re.compile, lambda *told: compiled.append(told) or real(*told)
late = pattern("a+")
assert not compiled
assert late.match("aa")
assert late.match("aa") and len(compiled) == 1
"""
    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": str(_SOURCES)}, timeout=30, check=True)
