"""docs/promises.md defines every promise id that is cited, and every test file that it names exists.

A citation is a capital letter with one or two digits that stands as a word of its own (`(L1)`, `S2: ...`) in a
docstring or comment of a Python file, or in the text of a page outside code. A test may also carry it in its name
(`test_L3_...`). Names and values in code, JSON and examples are not citations.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "promises.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([A-Z]\d{1,2}) \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
DEFINED = {row[0] for row in ROWS}
ID = re.compile(r"(?<![\w./%+~:-])[A-Z]\d{1,2}(?![\w/%+-]|\.\w)")
TEST_NAME = re.compile(r"\bdef test_([a-zA-Z]\d{1,2})_")
OTHER_WORDS = {"C0", "C1", "X11", "M2", "T0"}
"""Control characters of ISO 6429, the window system, a folder of Maven, a moment in a benchmark: no promises.
Amazon's S3 is only ever written `Amazon S3`."""
FOLDERS = ("src", "tests", "bench", "scripts", "examples")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def ids(text: str) -> set[str]:
    return set(ID.findall(re.sub(r"Amazon S3", "", text))) - OTHER_WORDS


def prose(source: str) -> Iterator[str]:
    """Docstrings and comments of a Python file, and the ids in the names of its tests as words."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Constant(str(text))):
                yield text
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                if match := TEST_NAME.match(f"def {name}"):
                    yield match[1].upper()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def page_text(page: str) -> str:
    """A page without its code blocks and code spans."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE))


def undefined(path: Path) -> set[str]:
    """The ids that a file cites and the page does not define."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return ids(page_text(text)) - DEFINED
    in_names = {name.upper() for name in TEST_NAME.findall(text)}
    if ids(text) | in_names <= DEFINED:  # in code or not: reading the comments of 1000 files takes seconds
        return set()
    return ids("\n".join(prose(text))) - DEFINED


def test_every_id_that_is_cited_is_defined() -> None:
    actual = {str(path.relative_to(ROOT)): undefined(path) for path in (*SOURCES, *PAGES)}
    assert {path: ids for path, ids in actual.items() if ids} == {}


def test_every_id_is_defined_once_with_a_sentence_and_tests_that_exist() -> None:
    assert len(ROWS) == len(DEFINED) > 40
    assert [id for id, sentence, tests in ROWS if not sentence.endswith(".") or not tests.startswith("`")] == []
    named = re.findall(r"`((?!tests/)[\w/]+/test_\w+\.py)`", PAGE)
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_source_and_pages_quote_no_seed_document_by_its_number() -> None:
    exempt = (ROOT / "tests" / "seeds", ROOT / "tests" / "e2e" / "test_seed_004.py", Path(__file__))
    files = [path for path in [*SOURCES, *PAGES] if not any(path.is_relative_to(each) for each in exempt)]
    assert [str(path) for path in files if re.search(r"\bseed \d", path.read_text("utf-8"), re.IGNORECASE)] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""Nothing is lost (L1, T8)."""', {"L1", "T8"}),
        ("x = 1  # S2: before ready", {"S2"}),
        ("def test_l5_servers_come_later(): pass", {"L5"}),
        ("T1 = {'id': 'K1'}", set()),
        ('"""U+2028, %C3%A9, C1, aionrs-A1, v1.T1, Amazon S3"""', set()),
    ],
)
def test_the_check_sees_citations_and_no_other_words(source: str, expected: set[str]) -> None:
    assert ids("\n".join(prose(source))) == expected
