r"""Escapes control characters in untrusted text, so that it cannot move the cursor, hide text or set colours.

Folder names, settings, session titles, names of models and what models say come from strangers. On a terminal a control
character in them is obeyed: ESC begins a sequence that moves the cursor or fills the clipboard, C1 characters do the
same in one byte, bidirectional controls make text read otherwise than it runs, characters of no width hide in names.
Everything that is printed for people goes through `escape_controls` or `escape_line`, JSON through `escape_json`.

>>> escape_controls("a\x1b[31mb")
'a\\x1b[31mb'
"""

import re
from functools import cache

_CONTROLS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and new line, DEL, C1
    "\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # direction, no width, new lines
    "\U000e0000-\U000e007f\ud800-\udfff"  # tags, halves of characters
)
# Joiners belong into words of some scripts and into emoji; beside ASCII they only hide.
_JOINERS = "(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"


def escape_controls(text: str) -> str:
    r"""Returns `text` of several lines, with `\x1b` in the place of ESC and so on. Tabs and new lines stay."""
    return _controls().sub(_escaped, text.replace("\r\n", "\n"))


def escape_line(text: str) -> str:
    """Returns `text` escaped for one line: tabs and new lines are escaped too."""
    return _controls("\t\n").sub(_escaped, text)


def escape_json(text: str) -> str:
    r"""Returns JSON `text` with control characters inside its strings as `\u009b`. Its meaning stays the same."""
    return _controls().sub(_escaped_in_json, text)


@cache
def _controls(more: str = "") -> re.Pattern[str]:
    """What is escaped, and `more` characters. Compiled at the first use: it takes 0.7 ms, and few starts need it."""
    return re.compile(f"[{more}{_CONTROLS}]|{_JOINERS}")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped_in_json(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
