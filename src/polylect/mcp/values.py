"""The plain values that the parts of this folder hand to each other. None of them needs the SDK."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from polylect.vocab.commands import Answer
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import Ask
from polylect.vocab.ports import Children

Condition = Literal["connecting", "ready", "failed", "disabled"]


class Fault(PolylectError):
    """A server could not do it; the text is for people and for the model."""


class Place(Struct, frozen=True):
    """Where servers are started, and with what."""

    children: Children
    env: Mapping[str, str]
    workspace: str
    connect_timeout: float
    call_timeout: float
    ask: Callable[[Ask], Awaitable[Answer]] | None
    on_commands: Callable[[], None]
    host: Callable[[str, Any], Awaitable[Any]] | None
    """Hands a message to a server inside the host, and brings what that says to it. Raises PolylectError."""
    inboxes: dict[str, Callable[[Any], None]]
    """Of servers inside the host that are listened to: where their unasked messages go."""
    loading: asyncio.Lock
    """Held by whoever loads the SDK, so that a dozen servers do not take a dozen threads for it."""


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
    """What is known of a server now."""

    name: str
    transport: str
    status: Condition
    reason: str = ""
    version: str = ""
    tools: tuple[str, ...] = ()
    prompts: tuple[PromptCommand, ...] = ()
    resources: tuple[Resource, ...] = ()
