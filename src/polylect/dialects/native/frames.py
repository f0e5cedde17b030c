"""The commands that belong to the native wire itself and not to the vocabulary, and the keys beside an event.

The engine's codec answers them; no engine ever sees them.
"""

from msgspec import Struct


class WireCommand(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    """A command about the connection. `ref` and `session` mean what they mean on every command."""

    ref: str = ""
    session: str = ""


class Ping(WireCommand, frozen=True, tag="ping"):
    """Is answered at once by a `reply`, whatever the engine does."""


class Attach(WireCommand, frozen=True, tag="attach"):
    """Asks for the events of a session again that came after one, and then for all that follow.

    Attributes:
        after: The `seq` of the last event that the host has; 0 for all that are kept.
        stream: The `stream` that this number belongs to, from `ready`; empty if there was only one.
    """

    after: int = 0
    stream: str = ""


WIRE_COMMANDS: dict[str, type[WireCommand]] = {"ping": Ping, "attach": Attach}
ENVELOPE = ("seq", "stream", "protocol", "protocol_version")
"""The keys of a line that are not part of the event: its number in `stream`, and in `ready` the name of the wire."""
