"""Arguments as a person is shown them, where nothing else is known of a tool."""

from typing import Any

import msgspec

_MOST = 200


def arguments(args: dict[str, Any]) -> str:
    told = msgspec.json.encode(args).decode()
    return told if len(told) <= _MOST else f"{told[:_MOST]}..."
