"""Printing for people. Whatever strangers have put into a text, it stays text: see vocab/escape.py.

Every command of the program prints names, titles, settings and errors through these functions.
"""

import sys

from polylect.vocab.escape import escape_controls, escape_json, escape_line


def print_line(text: str) -> None:
    """One line on stdout, whatever it quotes."""
    print(escape_line(text))


def print_error(message: object, program: str = "polylect", *, several_lines: bool = False) -> None:
    """What went wrong, or a remark, on stderr. `several_lines` is for what an engine has said on its own stderr."""
    escape = escape_controls if several_lines else escape_line
    print(f"{program}: {escape(str(message))}", file=sys.stderr, flush=True)


def print_json(text: str) -> None:
    """JSON on stdout."""
    print(escape_json(text))
