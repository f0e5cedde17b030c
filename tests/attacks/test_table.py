"""The table "What was tried" in docs/safety.md names files that there are, and every file of attacks."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "safety.md"


def rows() -> list[list[str]]:
    table = PAGE.read_text(encoding="utf-8").partition("\n## What was tried\n")[2]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if ".py`" in line]


def test_every_row_has_its_four_cells_and_names_files_that_there_are() -> None:
    assert len(rows()) > 30
    for row in rows():
        assert len(row) == 4, row
        named = re.findall(r"`([\w/]+\.py)`", row[-1])
        assert named, row
        assert all((TESTS / file).is_file() for file in named), row


def test_every_file_of_attacks_is_in_it() -> None:
    named = {file for row in rows() for file in re.findall(r"`attacks/(test_\w+\.py)`", row[-1])}
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")} - {Path(__file__).name}
    assert files == named
