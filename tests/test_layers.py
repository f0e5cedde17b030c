"""The house: a row imports rows below it, never its neighbours, and what understands bytes is pure."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "polylect"

ROWS = (
    (7, "__main__ embed"),  # the doors for `python -m polylect` and for programs: they only lead to app
    (6, "app"),
    (5, "bridge conform web tui fleet"),
    (4, "host tape engine providers tools mcp extensions"),
    (3, "sessions permissions http"),
    (2, "dialects apis"),
    (1, "vocab wire"),
    (0, "plug system"),
)
ROW = {folder: row for row, folders in ROWS for folder in folders.split()}
IMPURE = frozenset(["asyncio", "os", "sys", "socket", "subprocess", "time", "random", "uuid"])
BAD_NAMES = frozenset(["core", "utils", "common", "shared", "manager"])
LONGEST = 600
MOST_MODULES = 20

MODULES = sorted(SRC.rglob("*.py"))


def place(path: Path) -> str:
    """The folder of a module below polylect, or the name of a module that stands alone; polylect itself is ""."""
    first, *rest = path.relative_to(SRC).parts
    if first == "dialects" and len(rest) == 2 and rest[1].startswith("start"):
        return "app"  # how the program starts with this wire: it stands in the dialect's folder, so that that is all
    return first.removesuffix(".py").replace("__init__", "")


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Every module imported anywhere in the tree, also inside functions, by its whole name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module, names, level):
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - level + 1], *filter(None, [module])]) if level else module
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)


def faults(source: str, folder: str, package: str) -> list[str]:
    """What a module of this folder imports and must not."""
    row = ROW.get(folder, 0)
    actual = []
    for line, name in imports(ast.parse(source), package):
        top, *below = name.split(".")
        if top != "polylect":
            if row in (1, 2) and top in IMPURE:
                actual.append(f"{line}: {folder} is pure and imports {top}")
        elif below and below[0] in ROW and below[0] != folder and ROW[below[0]] >= row:
            actual.append(f"{line}: {folder or 'polylect'} imports {below[0]}")
    return actual


def extras(source: str) -> list[int]:
    """The lines that make an event `Extra`."""
    if "Extra" not in source:
        return []
    names = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [name.lineno for name in names if ast.unparse(name).split(".")[-1] == "Extra"]


def package_of(path: Path) -> str:
    return ".".join(["polylect", *path.relative_to(SRC).parts[:-1]])


# Each of these looks at every module in one test: a test for each module would take longer to set up than to run.


def test_a_module_imports_only_from_below() -> None:
    actual = {path: faults(path.read_text(), place(path), package_of(path)) for path in MODULES}
    assert {path: faults for path, faults in actual.items() if faults} == {}


def test_only_the_login_imports_the_official_sdk_of_mcp() -> None:
    """It takes a second and 50 MiB to load, and is installed only with the extra `oauth`."""
    sdk = ("mcp", "mcp_types", "httpx2", "pydantic", "anyio")
    actual = {
        path.relative_to(SRC).as_posix()
        for path in MODULES
        for _, name in imports(ast.parse(path.read_text()), package_of(path))
        if name.split(".")[0] in sdk
    }
    assert actual == {"mcp/auth/oauth.py"}


def test_the_language_of_mcp_does_no_io() -> None:
    allowed = ("polylect.vocab.", "polylect.wire", "polylect.mcp.protocol", "polylect.mcp.transports.base.")
    for path in (SRC / "mcp" / "protocol").glob("*.py"):
        names = [name for _, name in imports(ast.parse(path.read_text()), package_of(path))]
        assert not [name for name in names if name.split(".")[0] in IMPURE], path
        assert not [name for name in names if name.startswith("polylect.") and not name.startswith(allowed)], path


def test_no_file_is_too_long_to_read() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in MODULES}
    assert {path: count for path, count in lines.items() if count > LONGEST} == {}


def test_only_dialects_make_events_that_are_named_after_frames() -> None:
    made = {path: extras(path.read_text()) for path in MODULES if place(path) != "dialects"}
    assert {path: lines for path, lines in made.items() if lines} == {}


def test_no_folder_has_more_modules_than_one_can_oversee() -> None:
    modules = Counter(path.parent for path in MODULES)
    assert {folder: count for folder, count in modules.items() if count > MOST_MODULES} == {}


def test_every_folder_has_a_row_and_none_has_a_name_that_says_nothing() -> None:
    folders = [path for path in SRC.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    assert not {path.name for path in folders} & BAD_NAMES
    assert {path.name for path in folders if path.parent == SRC} <= set(ROW)
    assert {place(path) for path in MODULES} <= {*ROW, ""}


@pytest.mark.parametrize(
    ("folder", "source", "expected"),
    [
        ("vocab", "import msgspec\nfrom polylect.vocab.content import Text", []),
        ("vocab", "from polylect import plug", []),
        ("engine", "from polylect import __version__, plug\nfrom polylect.dialects import base\nimport asyncio", []),
        ("app", "from polylect.engine.turn.loop import Turn\nfrom polylect.tools import read", []),
        ("vocab", "from polylect.wire import jsonl", ["1: vocab imports wire"]),
        ("vocab", "from .. import wire", ["1: vocab imports wire"]),
        ("vocab", "from ..wire.jsonl import dump", ["1: vocab imports wire"]),
        ("vocab", "from . import content", []),
        ("wire", "import polylect.dialects.base", ["1: wire imports dialects"]),
        ("tools", "def f():\n    from polylect.engine.turn import loop", ["2: tools imports engine"]),
        ("engine", "if True:\n    import polylect.app.main as m", ["2: engine imports app"]),
        ("plug", "from polylect.vocab import content", ["1: plug imports vocab"]),
        ("", "from polylect.vocab import content", ["1: polylect imports vocab"]),
        ("dialects", "import os.path, json", ["1: dialects is pure and imports os"]),
        ("apis", "def f():\n    from time import sleep", ["2: apis is pure and imports time"]),
        ("providers", "import os, time", []),
    ],
)
def test_the_check_itself_sees_every_kind_of_import(folder: str, source: str, expected: list[str]) -> None:
    assert faults(source, folder, f"polylect.{folder}") == expected
