"""Prints text for people on stdout and stderr.

Names, titles, settings and errors may hold characters that a stranger chose. These functions escape control characters
(see `vocab/escape.py`), so that such a text cannot move the cursor, hide something or set colours. Subcommands print
through them whatever others may have written.
"""

import sys
from collections.abc import Sequence

from polylect.vocab.escape import escape_controls, escape_json, escape_line


def print_line(text: str) -> None:
    """Prints one line on stdout; line breaks in `text` are escaped."""
    print(escape_line(text))


def print_error(message: object, program: str = "polylect", *, several_lines: bool = False) -> None:
    """Prints an error or a note on stderr. `several_lines` keeps line breaks, for the stderr of another engine."""
    escape = escape_controls if several_lines else escape_line
    print(f"{program}: {escape(str(message))}", file=sys.stderr, flush=True)


def print_usage_error(words: Sequence[str], flags: Sequence[str], usage: str, program: str) -> int:
    """Prints which of the words is none of the flags, and the usage. Returns the exit code for that, 2."""
    wrong = next((word for word in words if word not in flags), words[-1])
    print_error(f"unknown flag {wrong}" if wrong not in flags else f"{wrong} is given twice", program)
    print(usage, file=sys.stderr)
    return 2


def print_json(value: object) -> None:
    """Prints a value that msgspec can encode as a JSON document on stdout."""
    import msgspec  # the engine starts without this module

    print(escape_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Prints rows on stdout, in columns that are as wide as their longest cell."""
    cells = [[escape_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
