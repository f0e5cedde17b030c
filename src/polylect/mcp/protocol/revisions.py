"""The revisions of the protocol that we speak, and what differs between them for a client.

Up to 2025-11-25 a connection begins with a handshake (`initialize`), and each end sends requests to the other. From
2026-07-28 on there is none: every request names version and capabilities in its `_meta`, the server answers
`input_required` where it needs something, and it notifies only clients that listen (`subscriptions/listen`).
"""

from collections.abc import Iterable

from msgspec import Struct


class Revision(Struct, frozen=True):
    """One revision. Of two features with a year between them, the older one is in every newer revision too."""

    version: str
    handshake: bool = True
    """Whether it begins with `initialize`. Without one, requests carry `_meta` and only the client sends requests."""
    batches: bool = False
    """Whether a message may be an array of messages."""
    elicitation: tuple[str, ...] = ()
    """The ways in which a server may ask the person."""
    sampling_tools: bool = False
    """Whether a server may give the model tools when it requests a message."""


REVISIONS = (
    Revision("2026-07-28", handshake=False, elicitation=("form", "url"), sampling_tools=True),
    Revision("2025-11-25", elicitation=("form", "url"), sampling_tools=True),
    Revision("2025-06-18", elicitation=("form",)),
    Revision("2025-03-26", batches=True),
    Revision("2024-11-05"),
)
"""From the newest to the oldest."""

NEWEST = REVISIONS[0]
NEWEST_WITH_HANDSHAKE = next(revision for revision in REVISIONS if revision.handshake)


def revision(version: str) -> Revision | None:
    """The revision with this version, if we speak it."""
    return next((one for one in REVISIONS if one.version == version), None)


def newest_of(versions: Iterable[str], *, handshake: bool) -> Revision | None:
    """The newest revision that both ends speak: with the handshake or without it."""
    offered = set(versions)
    return next((one for one in REVISIONS if one.version in offered and one.handshake is handshake), None)
