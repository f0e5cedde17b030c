"""Slash commands in prompts: built-in ones, Markdown files, and prompts of MCP servers.

A built-in command is carried out and answered without a model. The others are replaced by the prompt they stand for.
Text that names no command goes to the model unchanged; only `/mcp__...` with an unknown prompt is answered with a
notice. `turn/loop.py` calls `expand` for every prompt of a person.
"""

import re
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from polylect import __version__
from polylect.engine.commands.background import LATER
from polylect.engine.commands.configure import BadSetting
from polylect.engine.commands.context import CommandContext
from polylect.engine.commands.prompt_files import PromptFile, find_prompt_files
from polylect.engine.commands.switch_session import SessionSwitch
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import OpenSession
from polylect.vocab.content import Text, Usage
from polylect.vocab.errors import PolylectError, SessionError
from polylect.vocab.events import Event, Failed
from polylect.vocab.hooks import PreparedPrompt
from polylect.vocab.modes import MODE_WORDS
from polylect.wire.lazy_regex import pattern

Emit = Callable[[Event], None]
_COMMAND = pattern(r"/([\w:.-]+)(?:\s+(.*))?", re.DOTALL)


def command_cards(context: CommandContext) -> list[CommandCard]:
    """Every slash command there is."""
    builtin = [CommandCard(name, one.description, one.hint, builtin=True) for name, one in _BUILTIN.items()]
    files = [
        CommandCard(name, file.description, file.hint) for name, file in _files(context).items() if name not in _BUILTIN
    ]
    servers = context.servers.current
    cards = [*builtin, *files, *(servers.commands() if servers else ()), *context.extension_commands]
    return list({card.name: card for card in cards}.values())


def _files(context: CommandContext) -> dict[str, PromptFile]:
    agent = context.agent
    return find_prompt_files(context.places, trusted=agent.settings.trust_workspace, fault=agent.reading_fault)


class SlashCommands:
    """Carries out and expands slash commands. `hello_received` says whether the host follows changes of the session."""

    def __init__(self, context: CommandContext, sessions: SessionSwitch, hello_received: Callable[[], bool]) -> None:
        self._context = context
        self._agent = context.agent
        self._sessions = sessions
        self._hello_received = hello_received

    async def expand(self, prompt: PreparedPrompt, emit: Emit) -> PreparedPrompt:
        """Carry out or expand a prompt that is a slash command; any other prompt is returned as it is."""
        match = _COMMAND.fullmatch(prompt.text.strip())
        if prompt.refused or prompt.answer is not None or match is None:
            return prompt
        name, words = match[1], (match[2] or "").strip()
        if builtin := _BUILTIN.get(name):
            return replace(prompt, answer=await builtin.act(self, words, emit))
        if file := _files(self._context).get(name):
            expanded, kind = replace(prompt, text=file.filled(words)), "slash_command"
        else:
            expanded, kind = await self._ask_server(prompt, name, words), "mcp_prompt"
        if expanded is prompt or expanded.answer is not None:
            return expanded
        fields = {"expansion_type": kind, "command_name": name, "command_args": words, "prompt": prompt.text}
        hooks, context = self._agent.hooks, self._agent.hook_context()
        text = await hooks.observe(context, "UserPromptExpansion", fields, name)
        return replace(expanded, contexts=(*expanded.contexts, *filter(None, [text])))

    async def _ask_server(self, prompt: PreparedPrompt, name: str, words: str) -> PreparedPrompt:
        if not name.startswith("mcp__"):
            return prompt
        await self._context.servers.wait_for_prompts(name)
        servers = self._context.servers.current
        if servers is None:
            return replace(prompt, answer=f"/{name}: there are no MCP servers")
        try:
            blocks = await servers.expand(name, words.split())
        except (LookupError, PolylectError) as error:
            return replace(prompt, answer=f"/{name}: {error}")
        return replace(prompt, text="\n\n".join(block.text for block in blocks if isinstance(block, Text)))

    # The engine's own. What each returns is shown to the person.

    async def _help(self, words: str, emit: Emit) -> str:
        cards = sorted(command_cards(self._context), key=lambda card: (not card.builtin, card.name))
        return "\n".join(
            f"/{card.name}{' ' if card.hint else ''}{card.hint}  {card.description}".rstrip() for card in cards
        )

    async def _compact(self, words: str, emit: Emit) -> str:
        compactor = self._agent.compactor
        if not compactor.possible():
            return "There is nothing to compact: the conversation is short."
        if why := self._agent.meter.used_up():
            return f"A summary would cost more, and {why}."
        if await compactor.compact("manual", emit, words):
            return "The beginning of the conversation has become a summary."
        return "The conversation stays as it is."

    async def _clear(self, words: str, emit: Emit) -> str:
        """Start a new conversation. A host without hello cannot follow a change, so the session stays the same."""
        if not self._hello_received():
            self._agent.compactor.clear()
            return "A new conversation begins."

        def begin_anew() -> None:
            failure = self._sessions.open_session(OpenSession("new"), keep=True)
            if failure is not None and failure is not LATER:
                self._agent.emit(Failed(failure))

        self._context.turns.after_current(begin_anew)
        return "A new conversation begins."

    async def _cost(self, words: str, emit: Emit) -> str:
        return _priced(self._agent.session.usage)

    async def _window(self, words: str, emit: Emit) -> str:
        agent = self._agent
        used, size = agent.compactor.used(), agent.provider.info(agent.settings.model).window
        return f"{used} of {size} tokens ({used * 100 // size} %)" if size else f"{used} tokens"

    async def _model(self, words: str, emit: Emit) -> str:
        if not words:
            return self._agent.settings.model or "No model is set."
        return self._configured("model", words) or f"The model is {words} from the next prompt on."

    async def _mode(self, words: str, emit: Emit) -> str:
        if not words:
            return self._agent.settings.mode
        mode = MODE_WORDS.get(words, words)
        return self._configured("mode", mode) or f"The mode is {mode}."

    def _configured(self, key: str, value: str) -> str:
        """Change a setting. Returns why it cannot be changed, or nothing."""
        try:
            self._context.changes.change({key: value}, quiet=True)
        except (BadSetting, SessionError) as error:
            return str(error)
        return ""

    async def _status(self, words: str, emit: Emit) -> str:
        agent, settings = self._agent, self._agent.settings
        lines = {
            "polylect": __version__,
            "session": agent.session.id or "not kept",
            "workspace": settings.workspace,
            "model": f"{settings.model} ({agent.provider.name})",
            "mode": settings.mode,
            "tools": str(len(agent.tools)),
        }
        return "\n".join(f"{name}: {value}" for name, value in lines.items())


def _priced(usage: Usage) -> str:
    if not usage.tokens:
        return "Nothing so far."
    price = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
    cache = f", {usage.cache_read} read from cache, {usage.cache_write} written to it"
    return f"{price}: {usage.input} tokens in, {usage.output} out{cache}"


class _Builtin(Struct, frozen=True):
    description: str
    act: Callable[[SlashCommands, str, Emit], Awaitable[str]]
    hint: str = ""


_BUILTIN: dict[str, _Builtin] = {
    "help": _Builtin("Lists the commands", SlashCommands._help),
    "compact": _Builtin("Puts a summary in place of the conversation so far", SlashCommands._compact, "[what to keep]"),
    "clear": _Builtin("Begins a new conversation", SlashCommands._clear),
    "cost": _Builtin("Tells what the conversation has cost", SlashCommands._cost),
    "context": _Builtin("Tells how full the model's window is", SlashCommands._window),
    "model": _Builtin("Tells or changes the model", SlashCommands._model, "[name]"),
    "mode": _Builtin("Tells or changes what has to be asked for", SlashCommands._mode, "[name]"),
    "status": _Builtin("Tells what is in use", SlashCommands._status),
}
