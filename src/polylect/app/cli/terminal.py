"""Prints text for people on stdout and stderr.

Names, titles, settings and errors may hold characters that a stranger chose. These functions escape control characters
(see `vocab/escape.py`), so that such a text cannot move the cursor, hide something or set colours. Every subcommand
prints through them.
"""

import sys

from polylect.vocab.escape import escape_controls, escape_json, escape_line


def print_line(text: str) -> None:
    """Prints one line on stdout; line breaks in `text` are escaped."""
    print(escape_line(text))


def print_error(message: object, program: str = "polylect", *, several_lines: bool = False) -> None:
    """Prints an error or a note on stderr. `several_lines` keeps line breaks, for the stderr of another engine."""
    escape = escape_controls if several_lines else escape_line
    print(f"{program}: {escape(str(message))}", file=sys.stderr, flush=True)


def print_json(text: str) -> None:
    """Prints a JSON document on stdout."""
    print(escape_json(text))
