"""All of the user's own code in one session: the `Hooks` of the port.

Loading runs beside the engine. An extension that fails to load is reported and left out, unless it is required: then
`loaded` raises, and whoever puts the engine together (`app/serving/assembly.py`, `app/embed.py`) ends it before a
prompt runs, because the extension may be a guard.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from polylect.extensions.api import Polylect
from polylect.extensions.find import Extend, from_file, installed
from polylect.extensions.hook_runner import Fault, Stage
from polylect.extensions.registry import Book, Call, Command, Hook, Moment
from polylect.extensions.rules import watcher
from polylect.extensions.shell_hooks import ShellHooks, Wrap
from polylect.extensions.tool import ExtensionTool
from polylect.vocab import hook_format
from polylect.vocab.answers import CommandCard
from polylect.vocab.content import ToolCall
from polylect.vocab.errors import StartError
from polylect.vocab.events import Extra, Notice
from polylect.vocab.hooks import HookContext, HookNotification, HookResult, PreparedPrompt, ReplyWatcher, StreamRule
from polylect.vocab.ports import Processes, Tool, ToolReturn
from polylect.vocab.tool_names import is_reserved

LOAD_BOUND = 10.0
"""Seconds that an extension has to load."""
END_BOUND = 1.0
"""Seconds that all have together when the session ends."""


async def _as_it_is(argv: Sequence[str]) -> Sequence[str]:
    return argv


class Extensions:
    """Files, packages and commands, in this order. Which of them may be trusted has been decided before."""

    def __init__(
        self,
        tools: MutableMapping[str, Tool],
        processes: Processes,
        *,
        files: Sequence[str] = (),
        required: Collection[str] = (),
        packages: bool = False,
        commands: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        env: Mapping[str, str] | None = None,
        wrap: Wrap = _as_it_is,
    ) -> None:
        self._tools = tools
        self._processes = processes
        self._files = files
        self._required = required
        """Those of the files without which the session must not begin."""
        self._missing = ""
        self._registered = asyncio.Event()
        self._packages = packages
        self._table = commands or {}
        self._env = env or {}
        self._wrap = wrap
        self._hooks: list[Hook] = []
        self._commands: dict[str, Command] = {}
        self._rules: list[StreamRule] = []
        self._contexts: list[str] = []

    def start(self, context: HookContext, *, resumed: bool) -> None:
        self._session = context
        self._resumed = resumed
        self._stage = Stage(context)
        self._loading = asyncio.create_task(self._load())

    async def loaded(self) -> None:
        """Returns once all are loaded. Raises StartError if a required one is not."""
        await self._registered.wait()
        if self._missing:
            raise StartError(self._missing)

    async def session_contexts(self) -> Sequence[str]:
        await asyncio.shield(self._loading)
        contexts, self._contexts = self._contexts, []
        return contexts

    async def prompt(self, context: HookContext, text: str, *, verbatim: bool) -> PreparedPrompt:
        await asyncio.shield(self._loading)
        name, _, words = text.removeprefix("/").partition(" ")
        if text.startswith("/") and not verbatim and (command := self._commands.get(name.strip())):
            return PreparedPrompt(text, answer=await self._carry_out(command, context, words.strip()))
        contexts: list[str] = []
        for hook in self._at("prompt"):
            result = await self._consult(hook, context, text)
            if result.decision == "deny":
                return PreparedPrompt(text, refused=result.reason or f"{hook.path} refused the prompt")
            text = text if result.output is None else result.output
            contexts += filter(None, [result.context])
        return PreparedPrompt(text, tuple(contexts))

    async def before_tool(self, context: HookContext, call: ToolCall) -> HookResult:
        await asyncio.shield(self._loading)
        result = HookResult(args=call.args)
        for hook in self._at("before_tool", *self._called(call)):
            seen = Call(call.call, call.name, deepcopy(result.args or {}), context.agent)
            result = hook_format.merge(result, await self._consult(hook, context, seen))
            if result.decision == "deny":
                break
        return result if result.args is not call.args else replace(result, args=None)

    async def after_tool(self, context: HookContext, call: ToolCall, returned: ToolReturn) -> HookResult:
        result = HookResult(output=returned.output)
        for hook in self._at("after_tool", *self._called(call)):
            seen = Call(call.call, call.name, deepcopy(call.args), context.agent)
            verdict = await self._consult(hook, context, seen, replace(returned, output=result.output or ""))
            result = hook_format.merge(result, hook_format.deny_as_context(verdict))
        return result

    async def before_compaction(self, context: HookContext, reason: str) -> HookResult:
        await asyncio.shield(self._loading)
        result = HookResult()
        for hook in self._at("compaction"):
            result = hook_format.merge(result, await self._consult(hook, context, reason))
        return result

    async def notify(self, context: HookContext, what: HookNotification, name: str) -> str:
        return ""

    async def commands(self) -> Sequence[CommandCard]:
        await asyncio.shield(self._loading)
        return [CommandCard(command.name, command.description) for command in self._commands.values()]

    async def before_stop(self, context: HookContext, reply: str, *, again: bool) -> str:
        if context.agent:  # what it says is for its parent to judge
            return ""
        reasons = [await self._consult(hook, context, reply, again) for hook in self._at("stop")]
        return "\n".join(result.reason for result in reasons if result.decision == "deny" and result.reason)

    def watch(self) -> ReplyWatcher | None:
        return watcher(self._rules) if self._rules else None

    async def close(self) -> None:
        if not self._loading.done():
            self._loading.cancel()
            await asyncio.wait([self._loading])
            return
        ends = [replace(hook, timeout=min(hook.timeout, END_BOUND)) for hook in self._at("session_end")]
        await asyncio.gather(*(self._consult(hook, self._session) for hook in ends))

    # Loading.

    async def _load(self) -> None:
        """Never raises. All are loaded at the same time, and registered in order."""
        found: list[tuple[str, Callable[[], Extend]]] = [(path, _opener(path)) for path in self._files]
        if self._packages:
            found += await self._installed()
        for book in await asyncio.gather(*(self._read(path, opener) for path, opener in found)):
            if book is not None:
                self._register(book)
        self._registered.set()
        if self._missing:
            return
        shell = ShellHooks(self._processes, self._env, self._wrap, resumed=self._resumed)
        try:
            self._hooks += shell.hooks(self._table, lambda: self._stage.context)
        except (LookupError, ValueError) as error:
            self._unregistered("settings", "hooks", "config", str(error))
        for hook in self._at("session_start"):
            if context := (await self._consult(hook, self._session)).context:
                self._contexts.append(context)

    async def _installed(self) -> list[tuple[str, Callable[[], Extend]]]:
        try:
            found: list[tuple[str, Callable[[], Extend]]] = await self._stage.run(installed, timeout=LOAD_BOUND)
        except Fault as fault:
            self._unregistered("installed packages", "hooks", "load", str(fault))
            return []
        return found

    async def _read(self, path: str, opener: Callable[[], Extend]) -> Book | None:
        book = Book(path)
        handed = Polylect(
            book,
            self._stage,
            workspace=self._session.workspace,
            session=self._session.session,
            resumed=self._resumed,
        )
        try:
            await self._stage.run(lambda: opener()(handed), timeout=LOAD_BOUND)
        except Fault as fault:
            if path in self._required:
                self._missing = self._missing or f"the extension {path} cannot be loaded: {fault}"
            else:
                self._unregistered(path, "hooks", "load", str(fault))
            return None
        return book

    def _register(self, book: Book) -> None:
        self._hooks += book.hooks
        self._rules += book.rules
        for command in book.commands:
            if self._commands.setdefault(command.name, command) is not command:
                told = f"another extension has the command /{command.name}"
                self._unregistered(book.path, "commands", "duplicate", told)
        for offered in book.tools:
            if is_reserved(offered.name):
                told = f"{offered.name} is a name of the engine's own tools: call yours something else"
                self._unregistered(book.path, "tools", "reserved", told)
            elif offered.name in self._tools:
                self._unregistered(book.path, "tools", "duplicate", f"there is a tool {offered.name} already")
            else:
                self._tools[offered.name] = ExtensionTool(offered, self._stage, self._session)

    # Asking.

    def _called(self, call: ToolCall) -> list[str]:
        """The names that a matcher may mean by it: of a server's tool also `mcp__server__tool`."""
        return [call.name, getattr(self._tools.get(call.name), "long_name", call.name)]

    def _at(self, moment: Moment, *tools: str) -> Iterator[Hook]:
        for hook in self._hooks:
            if hook.moment == moment and (hook.tools is None or any(hook.tools.fullmatch(tool) for tool in tools)):
                yield hook

    async def _consult(self, hook: Hook, context: HookContext, *given: Any) -> HookResult:
        try:
            return _hook_result(hook, await self._stage.run(hook.act, *given, context=context, timeout=hook.timeout))
        except Fault as fault:
            self._failed(context, hook.path, hook.name, str(fault))
            guards = hook.guard and hook.moment == "before_tool"
            return HookResult("deny", f"the extension {hook.path} failed: {fault}") if guards else HookResult()

    async def _carry_out(self, command: Command, context: HookContext, words: str) -> str:
        try:
            answer = await self._stage.run(command.act, words, context=context, timeout=command.timeout)
        except Fault as fault:
            self._failed(context, command.path, f"command:{command.name}", str(fault))
            return ""
        return "" if answer is None else str(answer)

    # Reporting: in the one word that a wire may have for it, and in one that all have.

    def _failed(self, context: HookContext, path: str, event: str, error: str) -> None:
        context.emit(Extra("extension_error", {"extensionPath": path, "event": event, "error": error}))
        context.emit(Notice(f"The extension {path} failed ({event}): {error}", "warning"))

    def _unregistered(self, path: str, surface: str, kind: str, message: str) -> None:
        told = {"plugin_name": path, "surface": surface, "error_kind": kind, "message": message}
        self._session.emit(Extra("plugin_registration_failed", told))
        self._session.emit(Notice(f"The extension {path} is not used as it should be: {message}", "warning"))


def _opener(path: str) -> Callable[[], Extend]:
    return lambda: from_file(path)


def _hook_result(hook: Hook, returned: Any) -> HookResult:
    """What a hook returned, in one form. A text means what the moment says it means."""
    match returned:
        case None:
            return HookResult()
        case HookResult():
            return returned
        case str() if hook.moment in ("prompt", "after_tool"):
            return HookResult(output=returned)
        case str() if hook.moment in ("session_start", "compaction"):
            return HookResult(context=returned)
        case str() if hook.moment == "stop":
            return HookResult("deny", returned)
        case _ if hook.moment == "session_end":
            return HookResult()
    raise Fault(f"it returned {returned!r}, which means nothing here")
