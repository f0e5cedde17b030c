"""Both ends of one dialect, joined: what one writes, the other reads."""

from itertools import count
from typing import Any

from polylect import plug
from polylect.dialects.base import Dialect, Env
from polylect.vocab.commands import Answer, Cancel, Command, MalformedCommand, Prompt, UnknownCommand
from polylect.vocab.events import Ask, AskClosed, Event, Reply, TurnEnded, TurnStarted, UserMessage

DIALECTS: list[Dialect] = [plug.load("dialects", name).DIALECT for name in plug.dialects()]
"""Every law holds for each dialect that there is."""

ENDS = [(dialect, version) for dialect in DIALECTS for version in dialect.versions]
NAMES = [f"{dialect.name} {version}" for dialect, version in ENDS]


def env() -> Env:
    numbers = count(1)
    return Env(now=lambda: 0, new_id=lambda: f"id-{next(numbers)}")


class Pair:
    """An engine and a host that talk. `frames` is what went over the wire, in order."""

    def __init__(self, dialect: Dialect, version: str, **options: Any) -> None:
        """The options are for the engine's end: what it says only to those who want it."""
        self.engine = dialect.engine_side(env(), version=version, **options)
        self.host = dialect.host_side(env(), version=version)
        self.commands: list[Command] = self.engine.start()
        self.received: list[Event] = self.host.start()
        self.to_host = b""
        self.to_engine = b""
        self._greet()

    def _greet(self) -> None:
        """What the host says merely by connecting is answered, and what the engine's end asks because of that."""
        self._pump()
        for command in self.commands:  # it grows
            if command.ref:
                self.send(Reply(command.ref))

    def send(self, event: Event) -> None:
        """The engine says something."""
        self.commands += self.engine.send(event)
        self._pump()

    def ask(self, command: Command) -> list[Command]:
        """The host says something; this is what the engine understood. Prompts are accepted at once."""
        before = len(self.commands)
        self.received += self.host.send(command)
        self._pump()
        result = self.commands[before:]
        for one in result:
            if one.ref and not isinstance(one, MalformedCommand | UnknownCommand):
                self.send(Reply(one.ref))
        return result

    def play(self, conversation: list[Event]) -> None:
        """The engine says all of it, and the host does what must have led to it."""
        asks: dict[str, str] = {}
        words = {event.turn: event for event in reversed(conversation) if isinstance(event, UserMessage)}
        running = ""
        for event in conversation:
            match event:
                case TurnStarted(turn=running):
                    prompt = words.get(running, UserMessage("go on"))
                    if not self.ask(Prompt(running, prompt.text, prompt.attachments)):  # it cannot attach that
                        self.ask(Prompt(running, prompt.text))
                case AskClosed(ask, how) if how in ("allowed", "answered"):
                    self.ask(Answer(asks[ask], "allow", ref="yes"))
                case AskClosed(ask, "denied", reason):
                    self.ask(Answer(asks[ask], "deny", reason=reason, ref="no"))
                case TurnEnded(reason="cancelled", turn=turn) if turn == running:
                    self.ask(Cancel(queued="keep"))
            self.send(event)
            if isinstance(event, Ask):
                asks[event.ask] = next(
                    received.ask for received in reversed(self.received) if isinstance(received, Ask)
                )

    def _pump(self) -> None:
        while (events := self.engine.data_to_send()) or (commands := self.host.data_to_send()):
            if events:
                self.to_host += events
                self.received += self.host.receive(events)
            else:
                self.to_engine += commands
                self.commands += self.engine.receive(commands)
