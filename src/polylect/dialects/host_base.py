"""What the host sides of all dialects use: the refusal of a command, and replies.

`host_codec.py` has the codec that they are made of. It turns a `Refusal` into the reply to the command.
"""

from typing import Any

from polylect.vocab.commands import Command, OpenSession, Steer
from polylect.vocab.content import Failure
from polylect.vocab.events import Event, Reply

ENGINE_GONE = Failure("engine_gone", "the engine went away before the turn ended", "engine")
"""The failure of turns that were open when the engine went away."""


class Refusal(Exception):
    """Raised for a command that cannot go over this wire, mostly because there is no frame for it."""

    def __init__(self, message: str, code: str = "unsaid") -> None:
        super().__init__(message)
        self.code = code


_METHODS = {"RunShell": "shell", "Compact": "compact", "AddServer": "add_server", "AddContext": "add_context"}
"""The method of the SDK's agent that sends a command."""


def inexpressible(wire: str, command: Command) -> Refusal:
    """The refusal of a command for which a wire has no frame. It names the method of the agent that was called."""
    name = type(command).__name__
    method = _METHODS.get(name, "")
    if isinstance(command, OpenSession):
        method = "new_session" if command.how == "new" else str(command.how)
    if not method:
        return Refusal(f"{wire} cannot express {name}: use an engine with another wire")
    hint = f"agent.can({method!r}) tells in advance; use an engine with another wire"
    return Refusal(f"{wire} cannot express {method}(): {hint}")


def refuse_to_agent(command: Steer) -> None:
    """Raise Refusal for a message to a sub-agent, which most wires cannot address."""
    if command.to:
        raise Refusal("this engine has no word for a message to a sub-agent")


def accepted(command: Command, data: Any = None) -> list[Event]:
    """The reply to a command that succeeded, with `data`; nothing if the command has no ref."""
    return [Reply(command.ref, data, session=command.session)] if command.ref else []
