"""What one extension has registered."""

import re
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from polylect.vocab.content import Category
from polylect.vocab.hooks import StreamRule

Moment = Literal["before_tool", "after_tool", "prompt", "session_start", "session_end", "compaction", "stop"]


class Call(Struct, frozen=True):
    """What the model wants done, as a hook sees it."""

    id: str
    name: str
    args: dict[str, Any]
    agent: str = ""


class Hook(Struct, frozen=True):
    """Something to do at a moment: for tools, only for those whose name `tools` matches as a whole."""

    moment: Moment
    act: Callable[..., Any]
    timeout: float
    path: str
    name: str
    """What the moment is called where this hook comes from."""
    guard: bool = True
    """If a guard fails, what it guards does not happen."""
    tools: re.Pattern[str] | None = None


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


class Book(Struct):
    path: str
    hooks: list[Hook] = []
    commands: list[Command] = []
    rules: list[StreamRule] = []
    tools: list[OfferedTool] = []


def matcher(told: str) -> re.Pattern[str] | None:
    """`Bash`, `Bash|Edit`, `mcp__.*`; nothing and `*` are all tools. Raises ValueError."""
    if told in ("", "*"):
        return None
    try:
        return re.compile(told)
    except re.error as error:
        raise ValueError(f"{told!r} is not a pattern: {error}") from None
