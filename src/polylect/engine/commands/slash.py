"""Slash commands in prompts: built-in ones, Markdown files, and prompts of MCP servers.

A built-in command is carried out and answered without a model. The others are replaced by the prompt they stand for.
Text that names no command goes to the model unchanged. `turn/loop.py` calls `expand` for every prompt of a person.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from polylect import __version__
from polylect.engine.commands import switch_session
from polylect.engine.commands.background import LATER
from polylect.engine.commands.configure import BadSetting
from polylect.engine.commands.prompt_files import PromptFile, find_prompt_files
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import OpenSession
from polylect.vocab.content import Text, Usage
from polylect.vocab.errors import PolylectError, SessionError
from polylect.vocab.events import Event, Failed
from polylect.vocab.hooks import PreparedPrompt
from polylect.vocab.modes import MODES

if TYPE_CHECKING:
    from polylect.engine.engine import Engine

Emit = Callable[[Event], None]
_COMMAND = re.compile(r"/([\w:.-]+)(?:\s+(.*))?", re.DOTALL)


class _Builtin(Struct, frozen=True):
    description: str
    act: Callable[[Engine, str, Emit], Awaitable[str]]
    hint: str = ""


class SlashCommands:
    """The slash commands of one engine. `places` are searched for command files; later ones win."""

    def __init__(self, engine: Engine, places: tuple[str, ...]) -> None:
        self._engine = engine
        self._places = places

    def cards(self) -> list[CommandCard]:
        builtin = [CommandCard(name, one.description, one.hint, builtin=True) for name, one in _BUILTIN.items()]
        files = [
            CommandCard(name, file.description, file.hint)
            for name, file in self._files().items()
            if name not in _BUILTIN
        ]
        servers = self._engine.servers
        return [*builtin, *files, *(servers.commands() if servers else ())]

    async def expand(self, prompt: PreparedPrompt, emit: Emit) -> PreparedPrompt:
        """Carry out or expand a prompt that is a slash command; any other prompt is returned as it is."""
        match = _COMMAND.fullmatch(prompt.text.strip())
        if prompt.refused or prompt.answer is not None or match is None:
            return prompt
        name, words = match[1], (match[2] or "").strip()
        if builtin := _BUILTIN.get(name):
            return replace(prompt, answer=await builtin.act(self._engine, words, emit))
        if file := self._files().get(name):
            return replace(prompt, text=file.filled(words))
        return await self._ask_server(prompt, name, words)

    def _files(self) -> dict[str, PromptFile]:
        agent = self._engine.agent
        trusted = agent.settings.trust_workspace
        return find_prompt_files(self._places, trusted=trusted, fault=agent.reading_fault)

    async def _ask_server(self, prompt: PreparedPrompt, name: str, words: str) -> PreparedPrompt:
        servers = self._engine.servers
        if servers is None or name not in [card.name for card in servers.commands()]:
            return prompt
        try:
            blocks = await servers.expand(name, words.split())
        except (LookupError, PolylectError) as error:
            return replace(prompt, answer=f"/{name}: {error}")
        return replace(prompt, text="\n\n".join(block.text for block in blocks if isinstance(block, Text)))


# The engine's own. What each returns is shown to the person.


async def _help(engine: Engine, words: str, emit: Emit) -> str:
    cards = sorted(engine.capabilities.commands(), key=lambda card: (not card.builtin, card.name))
    return "\n".join(
        f"/{card.name}{' ' if card.hint else ''}{card.hint}  {card.description}".rstrip() for card in cards
    )


async def _compact(engine: Engine, words: str, emit: Emit) -> str:
    compactor = engine.agent.compactor
    if not compactor.possible():
        return "There is nothing to compact: the conversation is short."
    if why := engine.agent.meter.used_up():
        return f"A summary would cost more, and {why}."
    if await compactor.compact("manual", emit, words):
        return "The beginning of the conversation has become a summary."
    return "The conversation stays as it is."


async def _clear(engine: Engine, words: str, emit: Emit) -> str:
    """Start a new conversation. For a host without hello, which cannot follow a change, the session stays the same."""
    if not engine.capabilities.greeted:
        engine.agent.compactor.clear()
        return "A new conversation begins."

    def begin_anew() -> None:
        failure = switch_session.open_session(engine, OpenSession("new"), keep=True)
        if failure is not None and failure is not LATER:
            engine.emit(Failed(failure))

    engine.turns.after_current(begin_anew)
    return "A new conversation begins."


async def _cost(engine: Engine, words: str, emit: Emit) -> str:
    return _priced(engine.agent.session.usage)


def _priced(usage: Usage) -> str:
    if not usage.tokens:
        return "Nothing so far."
    price = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
    cache = f", {usage.cache_read} read from cache, {usage.cache_write} written to it"
    return f"{price}: {usage.input} tokens in, {usage.output} out{cache}"


async def _context(engine: Engine, words: str, emit: Emit) -> str:
    used, size = engine.agent.compactor.used(), engine.agent.provider.info(engine.settings.model).window
    return f"{used} of {size} tokens ({used * 100 // size} %)" if size else f"{used} tokens"


async def _model(engine: Engine, words: str, emit: Emit) -> str:
    if not words:
        return engine.settings.model or "No model is set."
    return _configured(engine, "model", words) or f"The model is {words} from the next prompt on."


async def _mode(engine: Engine, words: str, emit: Emit) -> str:
    if not words:
        return engine.settings.mode
    mode = MODES.get(words, words)
    return _configured(engine, "mode", mode) or f"The mode is {mode}."


def _configured(engine: Engine, key: str, value: str) -> str:
    """Change a setting. Returns why it cannot be changed, or nothing."""
    try:
        engine.changes.change({key: value}, quiet=True)
    except (BadSetting, SessionError) as error:
        return str(error)
    return ""


async def _status(engine: Engine, words: str, emit: Emit) -> str:
    agent, settings = engine.agent, engine.settings
    lines = {
        "polylect": __version__,
        "session": agent.session.id or "not kept",
        "workspace": settings.workspace,
        "model": f"{settings.model} ({agent.provider.name})",
        "mode": settings.mode,
        "tools": str(len(agent.tools)),
    }
    return "\n".join(f"{name}: {value}" for name, value in lines.items())


_BUILTIN = {
    "help": _Builtin("Lists the commands", _help),
    "compact": _Builtin("Puts a summary in place of the conversation so far", _compact, "[what to keep]"),
    "clear": _Builtin("Begins a new conversation", _clear),
    "cost": _Builtin("Tells what the conversation has cost", _cost),
    "context": _Builtin("Tells how full the model's window is", _context),
    "model": _Builtin("Tells or changes the model", _model, "[name]"),
    "mode": _Builtin("Tells or changes what has to be asked for", _mode, "[name]"),
    "status": _Builtin("Tells what is in use", _status),
}
