"""The values that the modules of this folder share: the state of a server, its prompts and resources, its set-up."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from polylect.vocab.commands import Answer
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import Ask, Event
from polylect.vocab.ports import Children

CONNECT_TIMEOUT = 30.0
ENDED = "the server ended the connection"
SEARCH_ABOVE_TOKENS = 20_000
"""Tokens of servers' tools that are described to a model from the start: a tenth of a window of 200 000."""
Condition = Literal["connecting", "ready", "failed", "disabled"]


class ServerFault(PolylectError):
    """A server could not do what was requested. The text is for people and for the model."""


class ServerSetup(Struct, frozen=True):
    """What all servers of an engine have in common: how they are started, time limits, and the engine's callbacks."""

    children: Children
    env: Mapping[str, str]
    workspace: str
    report: Callable[[Event], None]
    connect_timeout: float = CONNECT_TIMEOUT
    call_timeout: float = 120.0
    ask: Callable[[Ask], Awaitable[Answer]] | None = None
    """Gets questions that belong to no call."""
    on_commands: Callable[[], None] = lambda: None
    """Is called when the prompts that servers offer have changed."""
    host: Callable[[str, Any], Awaitable[Any]] | None = None
    """Sends a message to a server inside the host and returns its answer. Raises PolylectError."""
    inboxes: dict[str, Callable[[Any], None]] = {}
    """For each connected server inside the host, the callback that gets the messages it sends unasked."""
    search_above_tokens: int = SEARCH_ABOVE_TOKENS
    """A server whose tools would make it more tokens than this is left to ToolSearch."""
    token_store: Literal["file", "keyring"] = "file"
    """Where logins at servers are stored, see `auth/token_store.py`."""
    sampling: Literal["off", "ask", "allow"] = "off"
    """Whether servers may ask the model, see `sampling.py`."""
    sampling_max_tokens: int = 0
    trusted: bool = False
    """Whether servers may load code from the workspace, and so run in it; else they run in an empty folder."""


def search_budget(setting: int | None, window: int) -> int:
    """The tokens of servers' tools that a model is told of: the setting, else a tenth of the model's window.

    `window` is zero where it is not known. Without a setting it is never more than SEARCH_ABOVE_TOKENS, because every
    request pays for them, however large the window is.
    """
    if setting is not None:
        return setting
    return min(SEARCH_ABOVE_TOKENS, window // 10) if window else SEARCH_ABOVE_TOKENS


class PromptCommand(Struct, frozen=True):
    """A prompt that a server offers, to be used as a slash command."""

    name: str
    description: str
    arguments: tuple[str, ...] = ()


class Resource(Struct, frozen=True):
    uri: str
    name: str
    media_type: str = ""
    description: str = ""


class ServerStatus(Struct, frozen=True):
    """The present state of a server."""

    name: str
    transport: str
    status: Condition
    reason: str = ""
    version: str = ""
    tools: tuple[str, ...] = ()
    prompts: tuple[PromptCommand, ...] = ()
    resources: tuple[Resource, ...] = ()
    revision: str = ""
    """The revision of the protocol that both ends speak, as 2025-11-25."""
    capabilities: tuple[str, ...] = ()
    """What the server says that it offers, as `tools` and `logging`."""
    error_output: tuple[str, ...] = ()
    """The last lines that it wrote to standard error."""
