"""The commands that belong to the native wire itself and not to the vocabulary, and the keys beside an event.

The engine's codec answers them; no engine ever sees them.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct


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


class Envelope(Struct, frozen=True):
    """The keys in the line of an event that are not part of the event.

    Attributes:
        seq: Counts the events of the session, from 1; 0 in the last line of an engine that crashes.
    """

    seq: Annotated[int, Meta(ge=0)]


class Head(Envelope, frozen=True):
    """The keys beside the event `ready`.

    Attributes:
        protocol: The name of the wire.
        protocol_version: The version of the wire, as `major.minor`.
        stream: An id of these numbers: another process has another stream.
    """

    protocol: Literal["polylect-native"]
    protocol_version: str
    stream: str


ENVELOPE = Head.__struct_fields__
