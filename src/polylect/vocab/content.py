"""What messages are made of."""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

Outcome = Literal["ok", "error", "denied", "cancelled", "skipped"]
"""How a call ended. Only `ok` and `error` mean that the tool ran to its end."""

Category = Literal["info", "edit", "exec", "mcp"]
"""What a tool may do to the world: look, change files, run commands, or ask a foreign server."""

Mode = Literal["default", "auto_edit", "force", "plan", "dont_ask"]
"""How much is asked of the person before calls run; `vocab/modes.py` has the words that hosts use for each."""

Origin = Literal["builtin", "extension", "host", "mcp"]
"""Where a tool comes from: the engine itself, an extension, the host, or an MCP server."""

Form = Literal["text", "diff", "image"]
"""How a host should show a tool's output."""

Stop = Literal["end", "calls", "length", "refused", "cancelled", "error"]
"""Why the model stopped talking."""


class Text(Struct, frozen=True, tag="text"):
    text: str


class Thinking(Struct, frozen=True, omit_defaults=True, tag="thinking"):
    """Reasoning. `signature` lets the vendor accept it back; `redacted` is reasoning that only the vendor can read."""

    text: str
    signature: str = ""
    redacted: str = ""


class Image(Struct, frozen=True, omit_defaults=True, tag="image"):
    """A picture, as base64 or, in stored history, as the name of a blob (`sha256:...`)."""

    media_type: str
    data: str = ""
    blob: str = ""


class Document(Struct, frozen=True, omit_defaults=True, tag="document"):
    """A file that the host handed over with its content: text, or base64 of something else."""

    name: str
    media_type: str
    text: str = ""
    data: str = ""


class File(Struct, frozen=True, tag="file"):
    """A file that the host named; the engine reads it when the prompt is taken."""

    path: str


class Link(Struct, frozen=True, omit_defaults=True, tag="link"):
    """A place that the host only points at."""

    uri: str
    name: str = ""
    media_type: str = ""


class ToolCall(Struct, frozen=True, omit_defaults=True, tag="tool_call"):
    """What the model wants done. `extra` is vendor data that has to travel back with it."""

    call: str
    name: str
    args: dict[str, Any]
    extra: dict[str, Any] = {}


UNPARSED = "unparsed"
"""In `ToolCall.extra`: what the model wrote where arguments should have been. Such a call is never run."""


class ToolResult(Struct, frozen=True, omit_defaults=True, tag="tool_result"):
    """What the model is told about a call, whether or not the tool ran."""

    call: str
    name: str
    output: str
    outcome: Outcome = "ok"
    images: tuple[Image, ...] = ()


Attachment = File | Image | Document | Link
Block = Text | Thinking | Image | Document | ToolCall | ToolResult


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens in four disjoint buckets, and dollars if the price is known: never invented."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            _add_cost(self, other),
        )

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


def _add_cost(one: Usage, two: Usage) -> float | None:
    """A sum is known only if every part that used tokens has a known price."""
    if not one.tokens and one.cost is None:
        return two.cost
    if not two.tokens and two.cost is None:
        return one.cost
    if one.cost is None or two.cost is None:
        return None
    return one.cost + two.cost


class Message(Struct, frozen=True, omit_defaults=True):
    """One entry of a conversation as the model sees it. Results of calls have a role of their own."""

    role: Literal["user", "assistant", "tool"]
    content: tuple[Block, ...]
    stop: Stop | None = None
    usage: Usage | None = None
    model: str = ""
    provider: str = ""


class Failure(Struct, frozen=True, omit_defaults=True):
    """What went wrong, whose it was to do right, and whether trying again can help."""

    code: str
    message: str
    owner: Literal["host", "user", "provider", "tool", "engine"]
    retryable: bool = False


class Abilities(Struct, frozen=True, omit_defaults=True):
    """What an engine offers with the model in use. Advisory: a host never refuses an event because of it."""

    approval: bool = True
    thinking: bool = False
    effort_levels: tuple[str, ...] = ()
    modes: tuple[str, ...] = ("default", "auto_edit", "force")
    mcp: bool = False
    images: bool | None = None
    extras: dict[str, Any] = {}


class Rule(Struct, frozen=True, omit_defaults=True):
    """A standing decision: on this category, this tool, exactly this command or those with this prefix, files at or
    below this path, or this domain. With a `tool`, on calls of that tool only, and the path is a pattern where it has
    `*` or `?` without a backslash before it."""

    kind: Literal["category", "tool", "prefix", "command", "path", "domain"]
    value: str = ""
    write: bool = True
    effect: Literal["allow", "deny", "ask"] = "allow"
    tool: str = ""


class Server(Struct, frozen=True, omit_defaults=True):
    """An MCP server as a host or a configuration names it: a `command`, `args` and `env`, or a `url` and `headers`.

    With a `url` and no `command`, the transport is `http`, of which `streamable-http` is another name; `sse` has to be
    named. Raises ValueError for a transport that there is not.
    """

    name: str
    transport: Literal["stdio", "sse", "http", "streamable-http", "host"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    extras: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.transport == "streamable-http" or (self.transport == "stdio" and self.url and not self.command):
            force_setattr(self, "transport", "http")
        elif self.transport not in ("stdio", "sse", "http", "host"):
            raise ValueError(
                f"there is no transport {self.transport!r}; choose stdio, streamable-http (or http) or sse"
            )


class Option(Struct, frozen=True, omit_defaults=True):
    """One choice of a question. `kind` says what it means where the wire does: allow_once, reject_always ..."""

    id: str
    label: str
    description: str = ""
    kind: str = ""


class PlanItem(Struct, frozen=True, omit_defaults=True):
    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"
    id: str = ""


class StreamRule(Struct, frozen=True):
    """A reminder that is sent to the model when its reply matches a pattern.

    Args:
        name: The name of the rule, for events about it.
        pattern: A regular expression that is searched for in the reply.
        text: The reminder.
        path: The file that the rule comes from.
    """

    name: str
    pattern: str
    text: str
    path: str = ""


class CallRecord(Struct, frozen=True):
    """One tool call of a trace. Times are in nanoseconds since 1970."""

    call: str
    name: str
    args: dict[str, Any]
    output: str
    outcome: Outcome
    began: int
    ended: int
