"""The values that an extension registers: hooks, commands, stream rules and tools, collected in one `Registry`.

`api.py` fills a registry while an extension is loaded, and `shell_hooks.py` makes hooks of the shell commands in the
settings. `extensions.py` puts both into force.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from polylect.vocab.content import Category, StreamRule

Moment = Literal[
    "before_tool",
    "permission",
    "after_tool",
    "prompt",
    "session_start",
    "session_end",
    "compaction",
    "stop",
    "observed",
]
"""`observed` stands for all events of `ObservedEvent`; the name of the hook says which."""


class Call(Struct, frozen=True):
    """A call of a tool, as a hook gets it."""

    id: str
    name: str
    args: dict[str, Any]
    agent: str = ""


class HookFailed(Exception):
    """A command that is a hook ended with an exit status that decides nothing.

    After every other failure of a `before_tool` hook the call is denied, because the hook may be a guard.
    """


class Hook(Struct, frozen=True):
    """A function to call at a moment. With `tools`, only for tools whose whole name matches."""

    moment: Moment
    act: Callable[..., Any]
    timeout: float
    path: str
    name: str
    """The name of the moment where this hook was defined."""
    tools: re.Pattern[str] | None = None
    slots: asyncio.Semaphore | None = None
    """Limits how many run at once. The time in which it waits for a slot is not part of `timeout`."""


class Command(Struct, frozen=True):
    name: str
    description: str
    act: Callable[..., Any]
    timeout: float
    path: str


class OfferedTool(Struct, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]
    act: Callable[..., Any]
    category: Category
    timeout: float
    path: str


class Registry(Struct):
    """Everything that one extension has registered."""

    """Everything that one extension has registered."""

    path: str
    hooks: list[Hook] = []
    commands: list[Command] = []
    rules: list[StreamRule] = []
    tools: list[OfferedTool] = []


def matcher(pattern: str) -> re.Pattern[str] | None:
    """The compiled pattern of tool names (`Bash|Edit`); None for all tools (empty or `*`). Raises ValueError."""
    if pattern in ("", "*"):
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a pattern: {error}") from None
