"""The hinge: what every dialect provides, on both of its ends.

A codec is one end of one conversation. It is pure: the same calls with the same `Env` give the same results. It never
raises for what the peer sent. What `send` returns follows on our own side from having said something; the caller
queues it and never handles it in place.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from polylect.vocab.commands import Command
from polylect.vocab.events import Event

In = TypeVar("In")
Out_contra = TypeVar("Out_contra", contravariant=True)


class Env(Struct, frozen=True):
    """What a codec may not find out by itself: milliseconds since 1970, and ids nobody has used."""

    now: Callable[[], int]
    new_id: Callable[[], str]


class Codec(Protocol[In, Out_contra]):
    def start(self) -> list[In]:
        """What the peer has said merely by connecting."""
        ...

    def receive(self, data: bytes) -> list[In]:
        """Bytes from the peer, in any pieces."""
        ...

    def receive_eof(self) -> list[In]:
        """The peer will say no more."""
        ...

    def send(self, item: Out_contra) -> list[In]:
        """Say something; what follows from that on our own side comes back."""
        ...

    def data_to_send(self) -> bytes:
        """What has to go to the peer now. To be asked for after every call above."""
        ...

    def overhear(self, data: bytes) -> list[In]:
        """Whole lines that our own end has said by other means: an early `ready`, a tape."""
        ...


EngineSide = Codec[Command, Event]
HostSide = Codec[Event, Command]


class Dialect(Struct, frozen=True):
    """A host wire: its name, its versions (the default first) and how to make either end of it.

    The makers take `(env, **options)`; every dialect knows the options `version` and `max_line`.
    """

    name: str
    versions: tuple[str, ...]
    engine_side: Callable[..., EngineSide]
    host_side: Callable[..., HostSide]
    max_frame: int
    """The longest line this side writes."""
    shapes: dict[str, dict[str, Any]]
    """For each version, its frames by direction and name: what `schemas/` is generated from."""
    weak: tuple[str, ...] = ()
    """Commands that it carries in a weaker form: a steer that becomes a turn of its own."""
