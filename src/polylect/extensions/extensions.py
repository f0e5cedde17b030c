"""Runs the user's extensions in one session: the `Hooks` of the port, over Python files, packages and shell commands.

Extensions are loaded in the background while the engine starts, and each hook waits until that is done. One that fails
to load is reported and left out, unless it is required: then `loaded` raises, and the caller (`app/serving/serve.py`
or `app/serving/own_engine.py`) ends the engine before a prompt runs, because the extension may guard something.

Hooks run one after the other in the order in which they were registered. A hook of `before_tool` that fails denies the
call; a failure of any other hook is reported and has no effect.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

from msgspec.structs import replace

from polylect.extensions.api import Polylect
from polylect.extensions.discovery import Extend, Source, from_file, installed_extensions
from polylect.extensions.hook_runner import ExtensionFault, HookRunner
from polylect.extensions.registry import Call, Command, Hook, HookFailed, Moment, Registry
from polylect.extensions.shell_hooks import ShellHooks, Wrap
from polylect.extensions.stream_rules import watcher
from polylect.extensions.tool import ExtensionTool
from polylect.vocab import hook_format
from polylect.vocab.answers import CommandCard
from polylect.vocab.content import StreamRule, ToolCall
from polylect.vocab.errors import StartError
from polylect.vocab.events import ExtensionFailed, ExtensionRejected, Notice
from polylect.vocab.hooks import HookContext, HookResult, Hooks, ObservedEvent, PreparedPrompt, ReplyWatcher
from polylect.vocab.ports import Processes, Tool, ToolReturn
from polylect.vocab.tool_names import is_reserved, names_of

LOAD_BOUND = 10.0
"""Seconds that an extension has to load."""
END_BOUND = 1.0
"""Seconds that all have together when the session ends."""


async def _unchanged(argv: Sequence[str]) -> Sequence[str]:
    return argv


class Extensions(Hooks):
    """Files, packages and shell commands, in this order. The caller has decided which of them are trusted."""

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
        wrap: Wrap = _unchanged,
    ) -> None:
        self._tools = tools
        self._processes = processes
        self._files = files
        self._required = required
        """Files without which the session must not start."""
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
        self._runner = HookRunner(context)
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
            return PreparedPrompt(text, answer=await self._run_command(command, context, words.strip()))
        contexts: list[str] = []
        for hook in self._hooks_for("prompt"):
            result = await self._call_hook(hook, context, text)
            if result.decision == "deny":
                return PreparedPrompt(text, refused=result.reason or f"{hook.path} refused the prompt")
            text = text if result.output is None else result.output
            contexts += filter(None, [result.context])
        return PreparedPrompt(text, tuple(contexts))

    async def before_tool(self, context: HookContext, call: ToolCall) -> HookResult:
        await asyncio.shield(self._loading)
        result = HookResult(args=call.args)
        for hook in self._hooks_for("before_tool", *self._names_of(call)):
            seen = Call(call.call, call.name, deepcopy(result.args or {}), context.agent)
            result = hook_format.merge(result, await self._call_hook(hook, context, seen))
            if result.decision == "deny":
                break
        return result if result.args is not call.args else replace(result, args=None)

    async def after_tool(self, context: HookContext, call: ToolCall, returned: ToolReturn) -> HookResult:
        result = HookResult(output=returned.output)
        for hook in self._hooks_for("after_tool", *self._names_of(call)):
            seen = Call(call.call, call.name, deepcopy(call.args), context.agent)
            verdict = await self._call_hook(hook, context, seen, replace(returned, output=result.output or ""))
            result = hook_format.merge(result, hook_format.deny_as_context(verdict))
        return result

    async def permission(self, context: HookContext, call: ToolCall) -> HookResult:
        result = HookResult()
        for hook in self._hooks_for("permission", *self._names_of(call)):
            seen = Call(call.call, call.name, deepcopy(call.args), context.agent)
            result = hook_format.merge(result, await self._call_hook(hook, context, seen))
        return result

    async def observe(self, context: HookContext, event: ObservedEvent, fields: dict[str, Any], about: str = "") -> str:
        hooks = [hook for hook in self._hooks_for("observed", about) if hook.name == event]
        results = [await self._call_hook(hook, context, fields) for hook in hooks]
        return "\n".join(result.context for result in results if result.context)

    async def before_compaction(self, context: HookContext, reason: str) -> HookResult:
        await asyncio.shield(self._loading)
        result = HookResult()
        for hook in self._hooks_for("compaction"):
            result = hook_format.merge(result, await self._call_hook(hook, context, reason))
        return result

    async def commands(self) -> Sequence[CommandCard]:
        await asyncio.shield(self._loading)
        return [CommandCard(command.name, command.description) for command in self._commands.values()]

    async def before_stop(self, context: HookContext, reply: str, *, again: bool) -> str:
        if context.agent:  # the reply of a sub-agent goes to its parent, not to the person
            return ""
        reasons = [await self._call_hook(hook, context, reply, again) for hook in self._hooks_for("stop")]
        return "\n".join(result.reason for result in reasons if result.decision == "deny" and result.reason)

    def watch(self) -> ReplyWatcher | None:
        return watcher(self._rules) if self._rules else None

    async def close(self) -> None:
        if not self._loading.done():
            self._loading.cancel()
            await asyncio.wait([self._loading])
            return
        ends = [replace(hook, timeout=min(hook.timeout, END_BOUND)) for hook in self._hooks_for("session_end")]
        await asyncio.gather(*(self._call_hook(hook, self._session) for hook in ends))

    # Loading.

    async def _load(self) -> None:
        """Load all extensions at the same time, then register them in order. Never raises."""
        sources: list[Source] = [(path, partial(from_file, path)) for path in self._files]
        if self._packages:
            sources += await self._installed_packages()
        for registry in await asyncio.gather(*(self._load_one(path, loader) for path, loader in sources)):
            if registry is not None:
                self._register(registry)
        self._registered.set()
        if self._missing:
            return
        shell = ShellHooks(self._processes, self._env, self._wrap, resumed=self._resumed)
        try:
            self._hooks += shell.hooks(self._table, lambda: self._runner.context)
        except (LookupError, ValueError) as error:
            self._report_unregistered("settings", "hooks", "config", str(error))
        for hook in self._hooks_for("session_start"):
            if context := (await self._call_hook(hook, self._session)).context:
                self._contexts.append(context)

    async def _installed_packages(self) -> list[Source]:
        try:
            sources: list[Source] = await self._runner.run(installed_extensions, timeout=LOAD_BOUND)
        except ExtensionFault as fault:
            self._report_unregistered("installed packages", "hooks", "load", str(fault))
            return []
        return sources

    async def _load_one(self, path: str, loader: Callable[[], Extend]) -> Registry | None:
        registry = Registry(path)
        api = Polylect(
            registry,
            self._runner,
            workspace=self._session.workspace,
            session=self._session.session,
            resumed=self._resumed,
        )
        try:
            await self._runner.run(lambda: loader()(api), timeout=LOAD_BOUND)
        except ExtensionFault as fault:
            if path in self._required:
                self._missing = self._missing or f"the extension {path} cannot be loaded: {fault}"
            else:
                self._report_unregistered(path, "hooks", "load", str(fault))
            return None
        return registry

    def _register(self, registry: Registry) -> None:
        self._hooks += registry.hooks
        self._rules += registry.rules
        for command in registry.commands:
            if self._commands.setdefault(command.name, command) is not command:
                reason = f"another extension has the command /{command.name}"
                self._report_unregistered(registry.path, "commands", "duplicate", reason)
        for offered in registry.tools:
            if is_reserved(offered.name):
                reason = f"{offered.name} is a name of the engine's own tools: call yours something else"
                self._report_unregistered(registry.path, "tools", "reserved", reason)
            elif offered.name in self._tools:
                reason = f"there is a tool {offered.name} already"
                self._report_unregistered(registry.path, "tools", "duplicate", reason)
            else:
                self._tools[offered.name] = ExtensionTool(offered, self._runner, self._session)

    # Calling.

    def _names_of(self, call: ToolCall) -> list[str]:
        """The names that a matcher can match: all of the tool's, and of a server's tool also `mcp__server__tool`."""
        return [*names_of(call.name), getattr(self._tools.get(call.name), "long_name", call.name)]

    def _hooks_for(self, moment: Moment, *tools: str) -> Iterator[Hook]:
        for hook in self._hooks:
            if hook.moment == moment and (hook.tools is None or any(hook.tools.fullmatch(tool) for tool in tools)):
                yield hook

    async def _call_hook(self, hook: Hook, context: HookContext, *arguments: Any) -> HookResult:
        try:
            async with hook.slots or nullcontext():
                returned = await self._runner.run(hook.act, *arguments, context=context, timeout=hook.timeout)
            return _hook_result(hook, returned)
        except ExtensionFault as fault:
            self._report_failure(context, hook.path, hook.name, str(fault))
            guards = hook.moment == "before_tool" and not isinstance(fault.__cause__, HookFailed)
            return HookResult("deny", f"the extension {hook.path} failed: {fault}") if guards else HookResult()

    async def _run_command(self, command: Command, context: HookContext, words: str) -> str:
        try:
            answer = await self._runner.run(command.act, words, context=context, timeout=command.timeout)
        except ExtensionFault as fault:
            self._report_failure(context, command.path, f"command:{command.name}", str(fault))
            return ""
        return "" if answer is None else str(answer)

    # Reporting: once for the wires that have a frame for it, and once as a notice for all.

    def _report_failure(self, context: HookContext, path: str, event: str, error: str) -> None:
        context.emit(ExtensionFailed(path, event, error))
        context.emit(Notice(f"The extension {path} failed ({event}): {error}", "warning"))

    def _report_unregistered(self, path: str, surface: str, kind: str, message: str) -> None:
        self._session.emit(ExtensionRejected(path, surface, kind, message))
        self._session.emit(Notice(f"The extension {path} is not used as it should be: {message}", "warning"))


def _hook_result(hook: Hook, returned: Any) -> HookResult:
    """What a hook returned, as a HookResult. The meaning of a text depends on the moment. Raises ExtensionFault."""
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
    raise ExtensionFault(f"it returned {returned!r}, which means nothing here")
