"""docs/mcp-requirements.md: every requirement is held by a test that cites its number."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "mcp-requirements.md").read_text("utf-8")
NUMBERS = [int(number) for number in re.findall(r"^\| (\d+) \| [CS]", PAGE, re.MULTILINE)]
TESTS = [*ROOT.glob("tests/mcp_servers/test_*.py"), *ROOT.glob("tests/**/test_mcp*.py")]
CITED = re.compile(r"requirements? ((?:\d+(?:, | and |, and )?)+)", re.IGNORECASE)


def test_the_requirements_are_numbered_without_a_gap() -> None:
    assert list(range(1, 72)) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_a_requirement_has_a_test_that_cites_it(number: int) -> None:
    texts = [path.read_text("utf-8") for path in TESTS]
    cited = {int(one) for text in texts for match in CITED.findall(text) for one in re.findall(r"\d+", match)}
    assert number in cited
