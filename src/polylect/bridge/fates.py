"""What becomes of every command and every event between a host of one wire and an engine of another. Pure.

The table is computed from what each dialect says of itself (`dialects/*/unsaid.py`), so nobody keeps it by hand:

    carried   it arrives with all that the sender's wire can say of it
    weaker    it arrives, and part of it is lost; the detail says which
    made      the engine's wire has no frame for it, and our end derives it from others
    lost      the receiver's wire has no word for it: a command is refused, an event is not shown

What the sender's wire cannot say has no fate. `polylect bridge --explain` prints a table, docs/bridges.md has them all.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from polylect import plug
from polylect.vocab.commands import Command, MalformedCommand, UnknownCommand
from polylect.vocab.events import Event, MalformedEvent, UnknownEvent

Fate = Literal["carried", "weaker", "made", "lost"]
_OUR_OWN = (MalformedCommand, UnknownCommand, MalformedEvent, UnknownEvent)
_BY_METHOD = {
    "Ready": "the bridge writes the first frame of the front from what the engine said of itself",
    "Quit": "the end of the front's connection ends the engine",
    "Hello": "what the host offers to the engine is refused",
}
"""Words that the bridge handles itself, with the reason."""


class Wire(Struct, frozen=True):
    """A wire at one end of a bridge: the name of its dialect, and a version of it."""

    dialect: str
    version: str

    @property
    def unsaid(self) -> tuple[str, ...]:
        return self._table("UNSAID")

    @property
    def made(self) -> tuple[str, ...]:
        return self._table("MADE")

    def _table(self, name: str) -> tuple[str, ...]:
        tables: dict[str, tuple[str, ...]] = getattr(plug.load(f"dialects.{self.dialect}", "unsaid"), name)
        return tables[self.version]


class Row(Struct, frozen=True):
    """The fate of one kind of command or event. `detail` says what is lost of it, or why it is so."""

    kind: Literal["command", "event"]
    name: str
    fate: Fate
    detail: str = ""


def fates(front: Wire, engine: Wire) -> list[Row]:
    """The fates of all commands from the host to the engine, then of all events back."""
    return [
        *_rows("command", _names(Command), sender=front, receiver=engine, weak=_weak(engine)),
        *_rows("event", _names(Event), sender=engine, receiver=front, weak=()),
    ]


def _rows(
    kind: Literal["command", "event"], names: list[str], *, sender: Wire, receiver: Wire, weak: tuple[str, ...]
) -> Iterator[Row]:
    for name in names:
        if name in _BY_METHOD and (name != "Hello" or name in receiver.unsaid):
            if name not in sender.unsaid:
                yield Row(kind, name, "lost" if name == "Hello" else "made", _BY_METHOD[name])
        elif name not in sender.unsaid:
            yield Row(kind, name, *_fate(kind, name, sender, receiver, weak))


def _fate(
    kind: Literal["command", "event"], name: str, sender: Wire, receiver: Wire, weak: tuple[str, ...]
) -> tuple[Fate, str]:
    if name in receiver.unsaid and name not in receiver.made:
        return "lost", "refused with an error" if kind == "command" else "not shown"
    known = set(sender.unsaid)
    missing = [path for path in receiver.unsaid if _is_part(path, name) and path not in known and ".turn" not in path]
    if name.lower() in weak:
        return "weaker", "becomes a turn of its own"
    if missing:
        return "weaker", "without " + ", ".join(dict.fromkeys(path[len(name) :].lstrip(".") for path in missing))
    return ("made", "derived from other frames") if kind == "event" and name in sender.made else ("carried", "")


def _is_part(path: str, name: str) -> bool:
    return path.startswith((f"{name}.", f"{name} "))


def _weak(engine: Wire) -> tuple[str, ...]:
    weak: tuple[str, ...] = plug.load("dialects", engine.dialect).DIALECT.weak
    return weak


def _names(base: type[Struct]) -> list[str]:
    return [kind.__name__ for kind in base.__subclasses__() if kind not in _OUR_OWN]
