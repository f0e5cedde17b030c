"""Words of others on somebody's terminal: what would move, hide or colour something there is shown, not done."""

import re

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]")
"""All that controls a terminal but for tabs and new lines; what turns the direction of writing; half characters."""


def visible(text: str) -> str:
    return _UNSEEN.sub(_shown, text.replace("\r\n", "\n"))


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
