"""docs/architecture.md names paths that exist, and the picture of the house shows the packages in their rows."""

import ast
import re
from pathlib import Path

from test_layers import ROW, SRC

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("architecture.md", "glossary.md")
FOLDERS = {path.name for path in SRC.iterdir() if path.is_dir() and path.name != "__pycache__"}
ENDS = {"frames", "engine", "host"}
"""Folders that every dialect has."""


def test_every_path_on_the_pages_exists() -> None:
    for page in PAGES:
        text = (DOCS / page).read_text("utf-8")
        paths = re.findall(r"`([\w/]+(?:\.py|/))`", text)
        roots = (SRC, SRC.parents[1])
        assert [path for path in paths if not any((root / path).exists() for root in roots) and "/" in path[:-1]] == []
        assert {path.rstrip("/") for path in paths if path.endswith("/") and "/" not in path[:-1]} <= FOLDERS | ENDS


def test_the_page_has_a_row_for_every_package() -> None:
    text = (DOCS / "architecture.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)) == FOLDERS


def test_the_picture_shows_every_package_in_its_row() -> None:
    picture = (DOCS / "house.svg").read_text("utf-8")
    names = re.findall(r'<text x="\d+" y="(\d+)" class="name">(\w+)</text>', picture)
    assert {name for _, name in names} == FOLDERS
    heights = sorted({int(y) for y, _ in names}, reverse=True)
    rows = sorted({ROW[name] for name in FOLDERS})
    assert {name: rows[heights.index(int(y))] for y, name in names} == {name: ROW[name] for name in FOLDERS}


def test_files_that_docstrings_name_exist() -> None:
    """A path in backticks is meant from the module's own folder, from the package, or from the root of the project."""
    missing = [
        f"{module.relative_to(SRC)}: {name}"
        for module in SRC.rglob("*.py")
        if ".py`" in (source := module.read_text())
        for name in re.findall(r"`([\w./-]+\.py)`", ast.get_docstring(ast.parse(source)) or "")
        if not any((place / name).is_file() for place in (module.parent, module.parent.parent, SRC, SRC.parents[1]))
    ]
    assert missing == []
