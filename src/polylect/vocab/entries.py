"""What a session's log is made of. Each line of it is one entry; each entry names the one before it.

A log is one line of history, but where an entry names as its parent an earlier one than the last: there it goes on
from that one, and what came between is left. A fork is a log of its own: its first entry names the session it left,
and as its parent the entry there after which it goes its own way. So all logs together are a tree, and forking
writes one line.
"""

from typing import Any

from msgspec import Struct, field

from polylect.vocab.answers import ShellResult
from polylect.vocab.content import Message, Usage

VERSION = 1
"""A log of a later version is read as far as it can be, and never written to."""


class Opened(Struct, frozen=True, omit_defaults=True, tag="opened"):
    """The first entry of every log. `parent` is the session that this one was forked from."""

    session: str
    cwd: str
    version: int = VERSION
    parent: str = ""


class MessageAdded(Struct, frozen=True, omit_defaults=True, tag="said"):
    """A message was accepted. `request` is an id of the model request; usage is counted once for each."""

    message: Message
    turn: str = ""
    request: str = ""


class ContextAdded(Struct, frozen=True, tag="context_added"):
    text: str


class Configured(Struct, frozen=True, tag="configured"):
    """What was set about the session: its `name`, the `model` ... The last one counts."""

    settings: dict[str, Any]


class Compacted(Struct, frozen=True, omit_defaults=True, tag="compacted"):
    """From here on the model sees `summary` in the place of all messages before number `first_kept`."""

    summary: str
    first_kept: int = field(name="kept")
    before: int = 0


class TurnOpened(Struct, frozen=True, tag="turn_opened"):
    """The prompt, or message for a turn, with this id left the queue: it takes its place in the conversation here."""

    turn: str


class TurnClosed(Struct, frozen=True, omit_defaults=True, tag="turn_closed"):
    """A turn ended. What waited until now under this id was dropped."""

    turn: str
    reason: str
    usage: Usage = Usage()


class ShellRan(Struct, frozen=True, tag="shell_ran"):
    """A command of the user's own; the model is told of it like of a message."""

    result: ShellResult


class FileSaved(Struct, frozen=True, omit_defaults=True, tag="file_kept"):
    """What a file was before a call of this turn changed it: the name of a blob, or none if there was no file."""

    turn: str
    path: str
    blob: str = ""
    mode: int = 0


Body = Opened | MessageAdded | ContextAdded | Configured | Compacted | TurnOpened | TurnClosed | ShellRan | FileSaved


class Entry(Struct, frozen=True, omit_defaults=True):
    """`at` is milliseconds since 1970."""

    id: str
    parent: str
    at: int
    body: Body
