"""The conversation of `polylect chat`: reads a line, shows the turn, asks the person what the turn asks.

`app/cli/chat.py` makes one `Chat` for each engine that it connects to. A turn is always read to its end, so that its
last line is shown: quitting and Ctrl-C cancel the turn, and the engine then ends it. Like any host, this one uses only
the SDK (`polylect.host`).
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.text import Text

from polylect.host.agent import Agent
from polylect.host.asks import Ask
from polylect.host.errors import EngineDied, HostError, Refused, Unsupported
from polylect.host.turn import Turn
from polylect.tui.view import View, call_preview, escaped
from polylect.vocab.answers import SessionCard
from polylect.vocab.escape import escape_controls
from polylect.vocab.modes import MODES

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
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
_REQUIRED_COMMANDS = {"model": "model", "mode": "mode", "thinking": "thinking", "shell": "shell"}
"""Commands of the chat that need this command on the engine's wire. The rest work with every engine."""
_HELP_KEYS = """\
  /quit             or Ctrl-D
  Ctrl-C stops what runs; twice ends the chat. Any other /command goes to the engine."""
_QUIT = ("/quit", "/exit")
_QUIT_REASON = "the person wants to stop here"
_INTERRUPT_HINT = "  Ctrl-C again ends the chat"

SessionLister = Callable[[], Awaitable[Sequence[SessionCard]]]


class SwitchSession(Exception):
    """Raised to open another session, or a new one, when the engine has to be started again for that."""

    def __init__(self, session: str, previous: str) -> None:
        self.session = session
        self.previous = previous
        """The session that was open, if a prompt was sent in it."""


class Chat:
    """One conversation with one engine.

    `sessions` lists its sessions; `session_fault` says why a session cannot be opened, as far as that is known before
    the engine is ended for it. `history` is the file for typed lines.
    """

    def __init__(
        self,
        agent: Agent,
        console: Console,
        *,
        sessions: SessionLister,
        session_fault: Callable[[str], str],
        history: str = "",
    ) -> None:
        self._agent = agent
        self._list_sessions = sessions
        self._session_fault = session_fault
        self._has_prompted = False
        self._console = console
        self._view = View(console)
        input_history: History = FileHistory(history) if history else InMemoryHistory()
        words = WordCompleter([f"/{name}" for name in _COMMANDS if self._supports(name)], sentence=True)
        self._input: PromptSession[str] = PromptSession(history=input_history, completer=words)
        self._turn: Turn | None = None
        self._quitting = False
        """The person has quit the running turn: its further asks are denied without being shown."""
        self._interrupted = False
        """The last key was Ctrl-C, so that another one ends the chat."""
        self._ending = False
        """Ctrl-D or /quit was typed at a question: the chat ends with the running turn."""

    async def run(self) -> int:
        """Runs the conversation and returns the exit code. Raises SwitchSession."""
        self._main_task = asyncio.ensure_future(self._run_prompts())
        self._signal = signal.SIGINT
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)
        try:
            return await self._main_task
        except asyncio.CancelledError:
            return 128 + self._signal

    def _on_signal(self, number: signal.Signals) -> None:
        self._signal = number
        self._main_task.cancel()

    async def _run_prompts(self) -> int:
        settings = self._agent.settings
        session = f"session {self._agent.session}" if self._agent.session else ""
        facts = (session, str(settings.get("model") or ""), str(settings.get("mode") or ""), "/help for help")
        self._console.print(escaped("  ".join(filter(None, facts)), "dim"))
        while not self._ending and (text := await self._read()) is not None:
            try:
                if not await self._command(text):
                    await self._run_turn(text)
            except EngineDied as error:
                self._console.print(escaped(str(error), "red"))
                return 1
            except HostError as error:
                self._console.print(escaped(str(error), "red"))
        return 0

    async def _read(self) -> str | None:
        """The next line; None at the end. Ctrl-C on a line with text in it only empties the line."""
        while True:
            try:
                with patch_stdout(raw=True):
                    text = (await self._input.prompt_async("› ")).strip()
            except KeyboardInterrupt:
                if self._interrupted and not self._input.default_buffer.text:
                    raise asyncio.CancelledError from None
                self._interrupted = True
                self._console.print(escaped(_INTERRUPT_HINT, "dim"))
                continue
            except EOFError:
                return None
            self._interrupted = False
            if text in _QUIT:
                return None
            if text:
                return text

    async def _run_turn(self, text: str) -> None:
        self._turn = self._agent.prompt(text)
        self._has_prompted = True
        self._quitting = False
        self._start_view()
        try:
            async for event in self._turn:
                self._view.update(event)
                if isinstance(event, Ask) and event.open:
                    with _ignore_closed_ask():
                        await self._decide(event)
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
            self._view.stop()
            self._turn = None

    async def _decide(self, ask: Ask) -> None:
        if self._quitting:
            return await ask.deny(_QUIT_REASON)
        self._view.stop()
        self._console.print(
            Text.assemble(
                ("? ", "yellow"),
                (escape_controls(ask.title or ask.name), "bold"),
                (escape_controls(f"  {ask.reason}"), "dim"),
            )
        )
        if ask.kind == "permission":
            self._console.print(call_preview(ask.name, ask.args))
            answer = await self._ask_permission(ask)
        else:
            answer = await self._ask_question(ask)
        self._start_view()
        await answer
        return None

    def _start_view(self) -> None:
        """Starts the live view. Every prompt removes our handler of Ctrl-C, so it is set again here."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._on_interrupt)
        self._view.start()

    async def _ask_permission(self, ask: Ask) -> Awaitable[None]:
        """The answer that the person has chosen, still to be sent."""
        match await self._read_key("  allow it? [y]es  [n]o  [a]lways  [q]uit the turn ", "ynaq"):
            case "y":
                return ask.allow()
            case "a":
                return ask.allow(always=True)
            case "q":
                return self._quit_turn()
            case _:
                return ask.deny("the person said no")

    async def _quit_turn(self) -> None:
        """Denies all open asks of the turn and cancels it."""
        self._quitting = True
        for ask in self._agent.asks:
            with _ignore_closed_ask():
                await ask.deny(_QUIT_REASON, interrupt=True)  # at once: else the model might answer before the cancel
        await self._agent.cancel()

    async def _ask_question(self, ask: Ask) -> Awaitable[None]:
        """Yes or no by a key, a choice by its number or label, or a text; still to be sent."""
        if ask.kind == "confirm":
            match await self._read_key("  [y]es  [n]o  [q]uit the turn ", "ynq"):
                case "y":
                    return ask.answer(True)
                case "q":
                    return self._quit_turn()
                case _:
                    return ask.deny("the person said no")
        for number, option in enumerate(ask.options, 1):
            self._console.print(escaped(f"  {number}. {option.label}  {option.description}"))
        try:
            text = (await PromptSession[str]().prompt_async("  ", default=ask.default)).strip()
        except KeyboardInterrupt:
            self._interrupted = True
            return self._quit_turn()
        except EOFError:
            self._ending = True
            return self._quit_turn()
        if text.isdigit() and 0 < int(text) <= len(ask.options):
            text = ask.options[int(text) - 1].label
        return ask.answer(text)

    async def _read_key(self, question: str, keys: str) -> str:
        """The key that answers the question. A line of text, such as a command of the chat, is no answer."""
        prompt: PromptSession[str] = PromptSession(key_bindings=_single_key_bindings(keys))
        while True:
            try:
                answer = (await prompt.prompt_async(question)).strip()
            except KeyboardInterrupt:
                self._interrupted = True
                return "q"
            except EOFError:
                answer = _QUIT[0]
            if answer in _QUIT:
                self._ending = True
                return "q"
            if answer in tuple(keys):
                return answer
            self._console.print(escaped(f"  {answer} is no answer: press {', '.join(keys[:-1])} or {keys[-1]}", "dim"))

    def _on_interrupt(self) -> None:
        """Ctrl-C while a turn runs: the first one stops the turn, a second one ends the chat."""
        if self._interrupted or self._turn is None:
            self._main_task.cancel()
            return
        self._interrupted = True
        self._view.show(escaped(_INTERRUPT_HINT, "dim"))
        self._cancel_task = asyncio.ensure_future(self._stop(self._turn))

    async def _stop(self, turn: Turn) -> None:
        with suppress(HostError):
            await turn.cancel()

    # Commands of the chat itself.

    async def _command(self, text: str) -> bool:
        """Runs a command of the chat. Returns False if the text is meant for the engine."""
        if not text.startswith("/"):
            return False
        name, _, rest = text[1:].partition(" ")
        do = _COMMANDS.get(name)
        if do is None:
            return False
        if name == "compact" and not self._agent.can("compact"):
            return False
        if not self._supports(name):
            raise Unsupported(f"this engine has no /{name}; /help lists what it has")
        self._console.print(escaped(str(await do(self, rest.strip())), "dim"))
        return True

    def _supports(self, name: str) -> bool:
        return name not in _REQUIRED_COMMANDS or self._agent.can(_REQUIRED_COMMANDS[name])

    async def _help(self, rest: str) -> str:
        modes = ", ".join(mode for mode in MODES if self._agent.can(f"mode:{mode}"))
        rows = [(words, text or modes) for name, (words, text) in _HELP.items() if self._supports(name)]
        return "\n".join([*(f"  {words:<16}  {text}" for words, text in rows), _HELP_KEYS])

    async def _set(self, name: str, value: str) -> str:
        if value:
            await self._agent.configure(**{name: value})
        return f"{name}: {value or self._agent.settings.get(name)}"

    async def _set_thinking(self, rest: str) -> str:
        await self._agent.configure(thinking=rest or "medium")
        return f"thinking: {rest or 'medium'}"

    async def _new(self, rest: str) -> str:
        if not self._agent.can("new_session"):
            raise SwitchSession("", self._previous_session)
        return f"session {(await self._agent.new_session()).session}"

    async def _resume(self, rest: str) -> str:
        if not rest:
            return "which one? /sessions lists them"
        if not self._agent.can("resume"):
            if fault := self._session_fault(rest):
                return fault
            raise SwitchSession(rest, self._previous_session)
        return f"session {(await self._agent.resume(rest)).session}"

    @property
    def _previous_session(self) -> str:
        return self._agent.session if self._has_prompted else ""

    async def _sessions(self, rest: str) -> str:
        cards = await self._list_sessions()
        lines = [f"  {card.id}  {card.messages} messages  {card.name or card.first[:60]}" for card in cards]
        return "\n".join(lines) or "  none yet"

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
    "model": lambda chat, value: chat._set("model", value),
    "mode": lambda chat, value: chat._set("mode", value),
    "thinking": Chat._set_thinking,
    "new": Chat._new,
    "resume": Chat._resume,
    "sessions": Chat._sessions,
    "compact": Chat._compact,
    "shell": Chat._shell,
}


@contextmanager
def _ignore_closed_ask() -> Iterator[None]:
    """Ignores that an ask was closed before it was answered: the end of its call has been shown."""
    try:
        yield
    except Refused as refusal:
        if refusal.failure.code != "unknown_ask":
            raise


def _single_key_bindings(keys: str) -> KeyBindings:
    """Key bindings for a prompt that one key answers, if it is the first of the line. Enter alone counts as no."""
    bindings = KeyBindings()
    at_start = Condition(lambda: not get_app().current_buffer.text)

    def answer_with(key: str) -> Callable[[KeyPressEvent], None]:
        return lambda event: event.app.exit(result=key)

    for key in keys:
        bindings.add(key, filter=at_start)(answer_with(key))
    bindings.add("enter", filter=at_start)(answer_with("n"))
    return bindings
