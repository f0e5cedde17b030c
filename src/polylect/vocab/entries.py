"""The entries of a session's log, one on each line; each entry names the one before it.

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
    """The first entry of every log.

    Attributes:
        session: The id of the session.
        cwd: The folder that it is about.
        version: The version of the log's format.
        parent: The session that this one was forked from.
    """

    session: str
    cwd: str
    version: int = VERSION
    parent: str = ""


class MessageAdded(Struct, frozen=True, omit_defaults=True, tag="said"):
    """A message was accepted.

    Attributes:
        message: The message.
        turn: The turn that it belongs to. A prompt with a turn waits until `TurnOpened`.
        request: An id of the model request; usage is counted once for each.
        schema: What the answer to a prompt has to fit.
        max_cost: Dollars that the turn of a prompt may cost.
        max_tokens: Tokens that the turn of a prompt may use.
    """

    message: Message
    turn: str = ""
    request: str = ""
    schema: dict[str, Any] = {}
    max_cost: float = 0.0
    max_tokens: int = 0


class ContextAdded(Struct, frozen=True, tag="context_added"):
    """Text was added to the conversation without a turn.

    Attributes:
        text: The text.
    """

    text: str


class Configured(Struct, frozen=True, tag="configured"):
    """Settings of the session were changed. The last value of each counts.

    Attributes:
        settings: Values by name: `name`, `model` ...
    """

    settings: dict[str, Any]


class Compacted(Struct, frozen=True, omit_defaults=True, tag="compacted"):
    """From here on the model sees a summary in the place of the first messages. They stay in the log.

    Attributes:
        summary: The summary.
        first_kept: The number of the first message that the model still sees.
        before: How many tokens there were before.
    """

    summary: str
    first_kept: int = field(name="kept")
    before: int = 0


class TurnOpened(Struct, frozen=True, tag="turn_opened"):
    """A prompt, or a message for a turn, left the queue and takes its place in the conversation here.

    Attributes:
        turn: The id of the prompt or message.
    """

    turn: str


class TurnClosed(Struct, frozen=True, omit_defaults=True, tag="turn_closed"):
    """A turn ended. A prompt of this id that still waited was dropped.

    Attributes:
        turn: The id of the turn.
        reason: The reason of `TurnEnded`.
        usage: What the turn took.
    """

    turn: str
    reason: str
    usage: Usage = Usage()


class ShellRan(Struct, frozen=True, tag="shell_ran"):
    """A shell command of the user's. The model sees it as a message.

    Attributes:
        result: Its result.
    """

    result: ShellResult


class FileSaved(Struct, frozen=True, omit_defaults=True, tag="file_kept"):
    """The state of a file before a call of this turn changed it.

    Attributes:
        turn: The turn of the call.
        path: The path of the file.
        blob: The name of the stored content; empty if there was no file.
        mode: The permission bits of the file.
    """

    turn: str
    path: str
    blob: str = ""
    mode: int = 0


Body = Opened | MessageAdded | ContextAdded | Configured | Compacted | TurnOpened | TurnClosed | ShellRan | FileSaved


class Entry(Struct, frozen=True, omit_defaults=True):
    """One line of the log.

    Attributes:
        id: Its id.
        parent: The id of the entry that it follows.
        at: When it was added, in milliseconds since 1970.
        body: What happened.
    """

    id: str
    parent: str
    at: int
    body: Body
