"""The loop: a line is read, a turn is shown, what it asks is answered by a key."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
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
from polylect.host.errors import EngineDied, HostError
from polylect.host.turn import Turn
from polylect.tui.view import View, plain, wanted
from polylect.vocab.answers import SessionCard
from polylect.vocab.visible import visible

_ENDS = (signal.SIGTERM, signal.SIGHUP)
_HELP = """\
  /model NAME      another model             /mode NAME  default, auto_edit, force, plan
  /thinking LEVEL  off, low, medium, high    /new        a new session
  /resume ID       another session           /sessions   which there are
  /compact         shorten the conversation  /shell CMD  run it, and let the model know
  /quit            or Ctrl-D
  Ctrl-C stops what runs; twice ends the chat. Any other /command goes to the engine."""


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
        words = WordCompleter([f"/{name}" for name in _COMMANDS], sentence=True)
        self._line: PromptSession[str] = PromptSession(history=kept, completer=words)
        self._key: PromptSession[str] = PromptSession(key_bindings=_one_key("y", "n", "a", "q"))
        self._turn: Turn | None = None

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
        """None at the end."""
        while True:
            try:
                with patch_stdout(raw=True):
                    text = (await self._line.prompt_async("› ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None
            if text in ("/quit", "/exit"):
                return None
            if text:
                return text

    async def _converse(self, text: str) -> None:
        self._turn = self._agent.prompt(text)
        self._spoken = True
        self._begin()
        try:
            async for event in self._turn:
                self._view.hear(event)
                if isinstance(event, Ask):
                    await self._decide(event)
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
            self._view.end()
            self._turn = None

    async def _decide(self, ask: Ask) -> None:
        self._view.end()
        self._console.print(
            Text.assemble(
                ("? ", "yellow"), (visible(ask.title or ask.name), "bold"), (visible(f"  {ask.reason}"), "dim")
            )
        )
        if ask.kind == "permission":
            self._console.print(wanted(ask.name, ask.args))
            await self._permit(ask)
        else:
            await self._answer(ask)
        self._begin()

    def _begin(self) -> None:
        """Nothing is typed now: Ctrl-C comes as a signal, which each prompt takes for itself and gives back to none."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        self._view.begin()

    async def _permit(self, ask: Ask) -> None:
        match await self._press("  allow it? [y]es  [n]o  [a]lways  [q]uit the turn "):
            case "y":
                await ask.allow()
            case "a":
                await ask.allow(always=True)
            case "q":
                await ask.deny("the person wants to stop here", interrupt=True)
                await self._agent.cancel()
            case _:
                await ask.deny("the person said no")

    async def _answer(self, ask: Ask) -> None:
        """A choice by its number or label, or a text."""
        for number, option in enumerate(ask.options, 1):
            self._console.print(plain(f"  {number}. {option.label}  {option.description}"))
        try:
            text = (await PromptSession[str]().prompt_async("  ", default=ask.default)).strip()
        except (KeyboardInterrupt, EOFError):
            return await ask.deny("the person gave no answer")
        if ask.kind == "confirm" and text.lower() not in ("y", "yes"):
            return await ask.deny("the person said no")
        if text.isdigit() and 0 < int(text) <= len(ask.options):
            text = ask.options[int(text) - 1].label
        await ask.answer(text)

    async def _press(self, question: str) -> str:
        try:
            return await self._key.prompt_async(question)
        except (KeyboardInterrupt, EOFError):
            return "q"

    def _interrupt(self) -> None:
        """The first one stops the turn; a second one while that lasts ends the chat."""
        turn, self._turn = self._turn, None
        if turn is None:
            self._all.cancel()
            return
        self._stopping = asyncio.ensure_future(self._stop(turn))

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
        told = await do(self, rest.strip())
        self._console.print(plain(str(told), "dim"))
        return True

    async def _help(self, rest: str) -> str:
        return _HELP

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


def _one_key(*keys: str) -> KeyBindings:
    """A prompt that is answered by one key."""
    bindings = KeyBindings()

    def take(key: str) -> Callable[[KeyPressEvent], None]:
        return lambda event: event.app.exit(result=key)

    for key in keys:
        bindings.add(key)(take(key))
    bindings.add("enter")(lambda event: event.app.exit(result="n"))
    return bindings
