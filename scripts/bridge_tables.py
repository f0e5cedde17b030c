"""Write the tables of docs/bridges.md that follow from the dialects: `python scripts/bridge_tables.py`.

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`. tests/bridge/test_fates.py fails where the
page is old.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "bridges.md"
sys.path.insert(0, str(ROOT / "src"))

from polylect.app.cli.bridge.explain import front_wire  # noqa: E402
from polylect.bridge.fates import Row, Wire, fates  # noqa: E402

FRONTS = ("acp", "claude", "omp", "pi", "native", "json-stream", "aionrs")
ENGINES = {
    "polylect": Wire("native", "1"),
    "claude": Wire("claude", "2.1.325"),
    "omp": Wire("omp", "13"),
    "pi": Wire("omp", "pi"),
    "agents of ACP": Wire("acp", "1"),
    "wayland-core": Wire("jsonstream", "0.2.0"),
    "aionrs": Wire("jsonstream", "0.1.0"),
}
"""Engines by the wire that they speak."""


def page(text: str) -> str:
    """The page with its tables as they are now."""
    for name, table in (("pairs", pairs()), ("lost", lost())):
        start = f"<!-- table: {name} -->\n"
        before, _, rest = text.partition(start)
        text = f"{before}{start}{table}\n<!-- end of table -->{rest.partition('<!-- end of table -->')[2]}"
    return text


def pairs() -> str:
    rows = [_row("front \\ engine", *ENGINES), _row(*["---"] * (len(ENGINES) + 1))]
    for front in FRONTS:
        cells = [_cell(fates(front_wire(front), wire)) for wire in ENGINES.values()]
        rows += [_row(f"`{front}`", *cells)]
    return "\n".join(rows)


def lost() -> str:
    rows = [_row("front", "engine", "commands refused", "events not shown"), _row("---", "---", "---", "---")]
    for front in FRONTS:
        for engine, wire in ENGINES.items():
            missing = [row for row in fates(front_wire(front), wire) if row.fate == "lost"]
            named = [", ".join(row.name for row in missing if row.kind == kind) for kind in ("command", "event")]
            rows.append(_row(f"`{front}`", engine, *(names or "none" for names in named)))
    return "\n".join(rows)


def _cell(rows: list[Row]) -> str:
    return "; ".join(_counts([row for row in rows if row.kind == kind]) for kind in ("command", "event"))


def _counts(rows: list[Row]) -> str:
    numbers = [sum(row.fate == fate for row in rows) for fate in ("carried", "weaker", "made", "lost")]
    return f"{'+'.join(map(str, numbers[:3]))}/{numbers[3]}"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
