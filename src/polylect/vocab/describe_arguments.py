"""Describes a call to people where nothing is known of its tool but the arguments.

Tools of servers, extensions and hosts use it for `Tool.describe`; built-in tools have sentences of their own.
"""

from typing import Any

import msgspec

_MOST = 200


def arguments(args: dict[str, Any]) -> str:
    """Returns `args` as one line of JSON for people, at most 200 characters of it."""
    text = msgspec.json.encode(args).decode()
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."
