"""What the host can do for the engine: hooks, servers and tools inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylect.vocab.commands import Hello, HostReply, HostSays
from polylect.vocab.content import Failure

if TYPE_CHECKING:
    from polylect.engine.engine import Engine


def greet(engine: Engine, command: Hello) -> Failure | None:
    return None


def take_reply(engine: Engine, command: HostReply) -> Failure | None:
    if engine.agent.host_calls.reply(command):
        return None
    return Failure("unknown_call", "nothing is asked of the host under this id: unknown, or answered before", "host")


def take_word(engine: Engine, command: HostSays) -> Failure | None:
    return Failure("unsupported", f"this engine does not listen to {command.method!r}", "host")
