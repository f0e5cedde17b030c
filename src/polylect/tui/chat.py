"""The conversation in a terminal: reads a line, shows the turn, has a key answer what the turn asks.

`polylect chat` makes one `Chat` for each engine it connects to. A turn is read to its end whatever the person does in
it, so that its end line is always shown: quitting and Ctrl-C cancel it, and the engine then ends it.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.text import Text

from polylect.host.agent import Agent
from polylect.host.asking import Ask
from polylect.host.errors import EngineDied, HostError, Refused, Unsupported
from polylect.host.turn import Turn
from polylect.tui.view import View, plain, wanted
from polylect.vocab.answers import SessionCard
from polylect.vocab.escape import escape_controls

_ENDS = (signal.SIGTERM, signal.SIGHUP)
_MODES = ("default", "auto_edit", "force", "plan", "dont_ask")
_HELP = {
    "model": ("/model NAME", "another model"),
    "mode": ("/mode NAME", ""),
    "thinking": ("/thinking LEVEL", "off, low, medium, high"),
    "new": ("/new", "a new session"),
    "resume": ("/resume ID", "another session"),
    "sessions": ("/sessions", "which there are"),
    "compact": ("/compact", "shorten the conversation"),
    "shell": ("/shell CMD", "run it, and let the model know"),
}
_NEEDS = {"model": "model", "mode": "mode", "thinking": "thinking", "shell": "shell"}
"""Commands that the engine's wire must have a word for. The rest work with every engine."""
_KEYS = """\
  /quit             or Ctrl-D
  Ctrl-C stops what runs; twice ends the chat. Any other /command goes to the engine."""
_QUIT = "the person wants to stop here"
_AGAIN = "  Ctrl-C again ends the chat"

Listing = Callable[[], Awaitable[Sequence[SessionCard]]]


class Elsewhere(Exception):
    """The person wants to be in another session, or in a new one, and this engine has to be started again for that."""

    def __init__(self, session: str, left: str) -> None:
        self.session = session
        self.left = left
        """Where they were, if they had said something there."""


class Chat:
    """One conversation with one engine. `sessions` lists those that there are."""

    def __init__(self, agent: Agent, console: Console, *, sessions: Listing, history: str = "") -> None:
        self._agent = agent
        self._list = sessions
        self._spoken = False
        self._console = console
        self._view = View(console)
        kept: History = FileHistory(history) if history else InMemoryHistory()
        words = WordCompleter([f"/{name}" for name in _COMMANDS if self._has(name)], sentence=True)
        self._line: PromptSession[str] = PromptSession(history=kept, completer=words)
        self._key: PromptSession[str] = PromptSession(key_bindings=_one_key("y", "n", "a", "q"))
        self._turn: Turn | None = None
        self._quitting = False
        """The person has quit the turn that runs: its further questions are denied unseen."""
        self._interrupted = False
        """The last thing the person did was Ctrl-C, so that another one ends the chat."""

    async def run(self) -> int:
        """Raises Elsewhere."""
        self._all = asyncio.ensure_future(self._talk())
        self._signal = signal.SIGINT
        for number in _ENDS:
            asyncio.get_running_loop().add_signal_handler(number, self._end, number)
        try:
            return await self._all
        except asyncio.CancelledError:
            return 128 + self._signal

    def _end(self, number: signal.Signals) -> None:
        self._signal = number
        self._all.cancel()

    async def _talk(self) -> int:
        told = self._agent.settings
        session = f"session {self._agent.session}" if self._agent.session else ""
        who = (session, str(told.get("model") or ""), str(told.get("mode") or ""), "/help for help")
        self._console.print(plain("  ".join(filter(None, who)), "dim"))
        while (text := await self._read()) is not None:
            try:
                if not await self._command(text):
                    await self._converse(text)
            except EngineDied as error:
                self._console.print(plain(str(error), "red"))
                return 1
            except HostError as error:
                self._console.print(plain(str(error), "red"))
        return 0

    async def _read(self) -> str | None:
        """The next line; None at the end. Ctrl-C on a line with text in it only empties the line."""
        while True:
            try:
                with patch_stdout(raw=True):
                    text = (await self._line.prompt_async("› ")).strip()
            except KeyboardInterrupt:
                if self._interrupted and not self._line.default_buffer.text:
                    raise asyncio.CancelledError from None
                self._interrupted = True
                self._console.print(plain(_AGAIN, "dim"))
                continue
            except EOFError:
                return None
            self._interrupted = False
            if text in ("/quit", "/exit"):
                return None
            if text:
                return text

    async def _converse(self, text: str) -> None:
        self._turn = self._agent.prompt(text)
        self._spoken = True
        self._quitting = False
        self._begin()
        try:
            async for event in self._turn:
                self._view.hear(event)
                if isinstance(event, Ask) and event.open:
                    with _unless_closed():
                        await self._decide(event)
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
            self._view.end()
            self._turn = None

    async def _decide(self, ask: Ask) -> None:
        if self._quitting:
            return await ask.deny(_QUIT)
        self._view.end()
        self._console.print(
            Text.assemble(
                ("? ", "yellow"),
                (escape_controls(ask.title or ask.name), "bold"),
                (escape_controls(f"  {ask.reason}"), "dim"),
            )
        )
        if ask.kind == "permission":
            self._console.print(wanted(ask.name, ask.args))
            answer = await self._permit(ask)
        else:
            answer = await self._answer(ask)
        self._begin()
        await answer
        return None

    def _begin(self) -> None:
        """Nothing is typed now: Ctrl-C comes as a signal, which each prompt takes for itself and gives back to none."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        self._view.begin()

    async def _permit(self, ask: Ask) -> Awaitable[None]:
        """The answer that the person has chosen, still to be sent."""
        match await self._press("  allow it? [y]es  [n]o  [a]lways  [q]uit the turn "):
            case "y":
                return ask.allow()
            case "a":
                return ask.allow(always=True)
            case "q":
                return self._quit()
            case _:
                return ask.deny("the person said no")

    async def _quit(self) -> None:
        """Denies all that the turn asks, and stops it."""
        self._quitting = True
        for ask in self._agent.asks:
            with _unless_closed():
                await ask.deny(_QUIT)
        await self._agent.cancel()

    async def _answer(self, ask: Ask) -> Awaitable[None]:
        """A choice by its number or label, or a text; still to be sent."""
        for number, option in enumerate(ask.options, 1):
            self._console.print(plain(f"  {number}. {option.label}  {option.description}"))
        try:
            text = (await PromptSession[str]().prompt_async("  ", default=ask.default)).strip()
        except KeyboardInterrupt:
            self._interrupted = True
            return self._quit()
        except EOFError:
            return ask.deny("the person gave no answer")
        if ask.kind == "confirm" and text.lower() not in ("y", "yes"):
            return ask.deny("the person said no")
        if text.isdigit() and 0 < int(text) <= len(ask.options):
            text = ask.options[int(text) - 1].label
        return ask.answer(text)

    async def _press(self, question: str) -> str:
        try:
            return await self._key.prompt_async(question)
        except KeyboardInterrupt:
            self._interrupted = True
            return "q"
        except EOFError:
            return "q"

    def _interrupt(self) -> None:
        """Ctrl-C while a turn runs: the first one stops the turn, a second one ends the chat."""
        if self._interrupted or self._turn is None:
            self._all.cancel()
            return
        self._interrupted = True
        self._view.show(plain(_AGAIN, "dim"))
        self._stopping = asyncio.ensure_future(self._stop(self._turn))

    async def _stop(self, turn: Turn) -> None:
        with suppress(HostError):
            await turn.cancel()

    # What the terminal itself knows.

    async def _command(self, text: str) -> bool:
        """False if it is for the engine."""
        if not text.startswith("/"):
            return False
        name, _, rest = text[1:].partition(" ")
        do = _COMMANDS.get(name)
        if do is None:
            return False
        if name == "compact" and not self._agent.can("compact"):
            return False
        if not self._has(name):
            raise Unsupported(f"this engine has no /{name}; /help lists what it has")
        self._console.print(plain(str(await do(self, rest.strip())), "dim"))
        return True

    def _has(self, name: str) -> bool:
        return name not in _NEEDS or self._agent.can(_NEEDS[name])

    async def _help(self, rest: str) -> str:
        modes = ", ".join(mode for mode in _MODES if self._agent.can(f"mode:{mode}"))
        rows = [(words, text or modes) for name, (words, text) in _HELP.items() if self._has(name)]
        return "\n".join([*(f"  {words:<16}  {text}" for words, text in rows), _KEYS])

    async def _set_model(self, rest: str) -> str:
        if rest:
            await self._agent.configure(model=rest)
        return f"model: {rest or self._agent.settings.get('model')}"

    async def _set_mode(self, rest: str) -> str:
        if rest:
            await self._agent.configure(mode=rest)
        return f"mode: {rest or self._agent.settings.get('mode')}"

    async def _set_thinking(self, rest: str) -> str:
        await self._agent.configure(thinking=rest or "medium")
        return f"thinking: {rest or 'medium'}"

    async def _new(self, rest: str) -> str:
        if not self._agent.can("new_session"):
            raise Elsewhere("", self._left)
        return f"session {(await self._agent.new_session()).session}"

    async def _resume(self, rest: str) -> str:
        if not rest:
            return "which one? /sessions lists them"
        if not self._agent.can("resume"):
            raise Elsewhere(rest, self._left)
        return f"session {(await self._agent.resume(rest)).session}"

    @property
    def _left(self) -> str:
        return self._agent.session if self._spoken else ""

    async def _sessions(self, rest: str) -> str:
        cards = await self._list()
        told = [f"  {card.id}  {card.messages} messages  {card.name or card.first[:60]}" for card in cards]
        return "\n".join(told) or "  none yet"

    async def _compact(self, rest: str) -> str:
        await self._agent.compact(rest)
        return "asked for"

    async def _shell(self, rest: str) -> str:
        if not rest:
            return "which command? /shell git status"
        result = await self._agent.shell(rest)
        return f"{result.output}\n[{'stopped' if result.cancelled else result.code}]"


_COMMANDS: dict[str, Callable[[Chat, str], Awaitable[Any]]] = {
    "help": Chat._help,
    "model": Chat._set_model,
    "mode": Chat._set_mode,
    "thinking": Chat._set_thinking,
    "new": Chat._new,
    "resume": Chat._resume,
    "sessions": Chat._sessions,
    "compact": Chat._compact,
    "shell": Chat._shell,
}


@contextmanager
def _unless_closed() -> Iterator[None]:
    """An answer to a question that was closed meanwhile needs no words: its call has ended, and that was shown."""
    try:
        yield
    except Refused as refusal:
        if refusal.failure.code != "unknown_ask":
            raise


def _one_key(*keys: str) -> KeyBindings:
    """A prompt that is answered by one key."""
    bindings = KeyBindings()

    def take(key: str) -> Callable[[KeyPressEvent], None]:
        return lambda event: event.app.exit(result=key)

    for key in keys:
        bindings.add(key)(take(key))
    bindings.add("enter")(lambda event: event.app.exit(result="n"))
    return bindings
