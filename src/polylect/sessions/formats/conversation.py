"""What the import and export of all formats share.

`Conversation` is a session to export. `Importer` builds the entries of an imported one: it puts results behind their
calls, makes up missing results (T4) and counts messages. A format only translates its own lines to calls of it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from msgspec import Struct

from polylect.sessions.replay import PARENT, Replay, cut_off, missing_results, shell_message
from polylect.system.clock_and_ids import now_ms
from polylect.vocab.answers import ShellResult
from polylect.vocab.content import Block, Message, ToolCall, ToolResult, Usage
from polylect.vocab.entries import Body, Compacted, Configured, MessageAdded, ShellRan
from polylect.vocab.ports import Store

Line = TypeVar("Line")
Timed = tuple[int, Message | Compacted]
"""Milliseconds since 1970, and what happened then."""


class WrongFormat(Exception):
    """The file is not in this format. The text says why."""


class Conversation(Struct, frozen=True):
    """A session to export. `replay` is its content, `fill` loads the images of a message."""

    session: str
    cwd: str
    at: int
    replay: Replay
    fill: Callable[[Message], Message]

    @property
    def name(self) -> str:
        return str(self.replay.settings.get("name") or "")

    @property
    def parent(self) -> str:
        return str(self.replay.settings.get(PARENT) or "")

    @property
    def usage(self) -> Usage:
        counted: set[str] = set()
        total = Usage()
        for message, request in self.replay.replies:
            if message.usage and not (request and request in counted):
                total += message.usage
                counted.add(request)
        return total

    def steps(self) -> Iterator[Timed]:
        """Messages and compactions in order, with a result for every call."""
        for at, step in self.steps_and_commands():
            yield at, shell_message(step.result) if isinstance(step, ShellRan) else step

    def steps_and_commands(self) -> Iterator[tuple[int, Message | Compacted | ShellRan]]:
        """The same with the person's own commands as such."""
        at = self.at
        compactions = list(self.replay.compactions)
        for number, (message, mark) in enumerate(zip(self.replay.messages, self.replay.marks, strict=True)):
            while compactions and compactions[0][0] <= number:
                yield at, compactions.pop(0)[1]
            at = mark.at if mark else at
            yield at, mark.body if mark and isinstance(mark.body, ShellRan) else self.fill(message)
        if missing := missing_results(self.replay.messages):
            yield at, missing
        yield from ((at, compacted) for _, compacted in compactions)
        yield from ((at, self.fill(message)) for message in self.replay.waiting.values())


def conversation_of(store: Store, cwd: str) -> Conversation:
    """The session as it is now, for a thread to export: more may be said meanwhile. `cwd` is its workspace."""
    entries = tuple(store.entries)
    at = entries[0].at if entries else now_ms()
    return Conversation(store.session, cwd, at, Replay(entries), store.fill)


class Imported(Struct, frozen=True):
    """An imported conversation as bodies of log entries, and notes on what was left out."""

    cwd: str
    bodies: list[tuple[int, Body]]
    notes: list[str]


class Importer:
    """Builds a valid conversation: each call is followed by its results, in order (T4)."""

    def __init__(self) -> None:
        self.cwd = ""
        self.at = 0
        self.notes: list[str] = []
        self.messages = 0
        self._bodies: list[tuple[int, Body]] = []
        self._calls: Sequence[ToolCall] = ()
        self._results: dict[str, ToolResult] = {}

    @property
    def next(self) -> int:
        """The number of the next message, after results that are still missing."""
        return self.messages + bool(self._calls)

    def user(self, *blocks: Block) -> None:
        self._answer()
        if blocks:
            self._append(Message("user", blocks))

    def ran(self, result: ShellResult) -> None:
        """A command of the person's own."""
        self._answer()
        self._bodies.append((self.at, ShellRan(result)))
        self.messages += 1

    def reply(self, message: Message, request: str = "") -> None:
        self._answer()
        if message.content:
            self._append(message, request)
            self._calls = [block for block in message.content if isinstance(block, ToolCall)]

    def result(self, result: ToolResult) -> None:
        """A result for one of the last calls; it is dropped if it belongs to none of them."""
        self._results[result.call] = result

    def compacted(self, summary: str, first_kept: int, before: int) -> None:
        self._answer()
        self._bodies.append((self.at, Compacted(summary, min(first_kept, self.messages), before)))

    def configured(self, **settings: str) -> None:
        self._bodies.append((self.at, Configured(settings)))

    def decode(self, decode: Callable[[bytes], Line], lines: Sequence[bytes]) -> list[Line]:
        """The lines of a file that `decode` accepts. Notes how many it does not. Empty lines are skipped."""
        records: list[Line] = []
        damaged = 0
        for line in filter(bytes.strip, lines):
            try:
                records.append(decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                damaged += 1
        if damaged:
            self.notes.append(f"{damaged} lines could not be read")
        return records

    def finish(self) -> Imported:
        """The conversation. Raises WrongFormat if it has no messages."""
        self._answer()
        if not self.messages:
            raise WrongFormat("there is no message in it")
        return Imported(self.cwd, self._bodies, self.notes)

    def _answer(self) -> None:
        calls, self._calls = self._calls, ()
        if calls:
            self._append(Message("tool", tuple(self._results.get(call.call) or cut_off(call) for call in calls)))
        self._results.clear()

    def _append(self, message: Message, request: str = "") -> None:
        self._bodies.append((self.at, MessageAdded(message, "", request)))
        self.messages += 1


def iso(at: int) -> str:
    """Milliseconds since 1970 as an ISO 8601 time."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(text: str) -> int:
    """The reverse of `iso`; 0 for a text that is no time."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0
