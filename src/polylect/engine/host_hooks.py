"""Hooks that run inside the host's own program.

A host that offers hooks in its hello gets a `HostCall` for each event that it subscribed to, in the shape of Claude
Code's hook input. The user's own hooks (`extensions/`) run first, and the host is not asked about what they deny. Where
several answers come, the strictest counts. `commands/host_capabilities.py` installs it.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from polylect.engine.agent import Agent
from polylect.engine.host_calls import HostFault
from polylect.vocab import hook_format
from polylect.vocab.answers import CommandCard
from polylect.vocab.content import ToolCall
from polylect.vocab.events import Notice
from polylect.vocab.hooks import (
    HookContext,
    HookNotification,
    HookResult,
    ObservedEvent,
    PreparedPrompt,
    ReplyWatcher,
)
from polylect.vocab.ports import ToolReturn
from polylect.vocab.tool_names import names_of
from polylect.wire.lazy_regex import pattern

DEADLINE = 60.0
END_BOUND = 1.0
"""Seconds that all have together when the session ends."""
_GUARDS = ("PreToolUse", "PermissionRequest", "UserPromptSubmit", "PreCompact")
"""Moments at which a callback that fails can stand for a no."""
MOMENTS = (
    *_GUARDS,
    *("PostToolUse", "PostToolUseFailure", "SessionStart", "SessionEnd", "Stop", "SubagentStart", "SubagentStop"),
    "Notification",
    *get_args(ObservedEvent),
)
_MOST_NAMED = 200
_ANYTHING = pattern(".*", re.DOTALL)


class Callbacks(Struct, frozen=True):
    """One row of the host's table. `matcher` is a regular expression for the tool's name or the event's subject."""

    ids: tuple[str, ...]
    matcher: str | None = None
    timeout: Annotated[float, Meta(ge=0)] | None = None
    """In seconds; 0 says nothing."""
    on_failure: Literal["continue", "block"] = "continue"

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.matcher) if self.matcher and self.matcher != "*" else _ANYTHING


Table = Mapping[str, Sequence[Callbacks]]


def read_table(rows_by_event: Any) -> Table:
    """Parse the host's table of hooks by event. Raises ValueError."""
    try:
        table = msgspec.convert(rows_by_event or {}, dict[str, tuple[Callbacks, ...]])
        for row in (row for rows in table.values() for row in rows):
            _ = row.pattern
    except re.error as error:
        raise ValueError(f"a matcher is not a pattern: {error}") from None
    return table


class HostHooks:
    """The `Hooks` of an engine whose host has hooks: asks the user's hooks first, then the host's."""

    def __init__(self, agent: Agent) -> None:
        self.table: Table = {}
        self._agent = agent
        self._own = agent.hooks
        self._resumed = bool(agent.session.messages)
        self._opened = False
        self._names: dict[str, str] = {}
        """The names of agents by their ids."""
        self._reported: set[str] = set()
        """Fields of answers that the host was told about: each has no effect here."""

    def start(self, context: HookContext, *, resumed: bool) -> None:
        self._own.start(context, resumed=resumed)

    async def session_contexts(self) -> Sequence[str]:
        contexts = list(await self._own.session_contexts())
        if not self._opened:
            self._opened = True
            hook_input = hook_format.session_start_input(resumed=self._resumed)
            result = await self._consult("SessionStart", self._agent.hook_context(), hook_input, [hook_input["source"]])
            contexts += filter(None, [result.context])
        return contexts

    async def prompt(self, context: HookContext, text: str, *, verbatim: bool) -> PreparedPrompt:
        verdict = await self._own.prompt(context, text, verbatim=verbatim)
        if verdict.refused or verdict.answer is not None:
            return verdict
        result = await self._consult("UserPromptSubmit", context, {"prompt": verdict.text})
        if result.decision == "deny":
            return replace(verdict, refused=result.reason or "a hook of the host refused the prompt")
        return replace(verdict, contexts=(*verdict.contexts, *filter(None, [result.context])))

    async def before_tool(self, context: HookContext, call: ToolCall) -> HookResult:
        own = await self._own.before_tool(context, call)
        if own.decision == "deny":
            return own
        call = call if own.args is None else replace(call, args=own.args)
        hook_input = hook_format.call_input(call.call, call.name, call.args)
        return hook_format.merge(
            own, await self._consult("PreToolUse", context, hook_input, self._called(call), call.call)
        )

    async def after_tool(self, context: HookContext, call: ToolCall, returned: ToolReturn) -> HookResult:
        own = await self._own.after_tool(context, call, returned)
        output = returned.output if own.output is None else own.output
        hook_input = hook_format.call_input(call.call, call.name, call.args)
        if returned.ok:
            event, hook_input = "PostToolUse", hook_input | hook_format.result_input(replace(returned, output=output))
        else:
            event, hook_input = "PostToolUseFailure", {**hook_input, "error": output, "is_interrupt": False}
        result = await self._consult(event, context, hook_input, self._called(call), call.call)
        return hook_format.merge(own, hook_format.deny_as_context(result))

    async def before_compaction(self, context: HookContext, reason: str) -> HookResult:
        own = await self._own.before_compaction(context, reason)
        hook_input = hook_format.compaction_input(reason)
        return hook_format.merge(own, await self._consult("PreCompact", context, hook_input, [hook_input["trigger"]]))

    async def before_stop(self, context: HookContext, reply: str, *, again: bool) -> str:
        own = await self._own.before_stop(context, reply, again=again)
        hook_input = hook_format.stop_input(reply, again=again)
        if context.agent:
            name = self._names.get(context.agent, "")
            hook_input |= {"agent_type": name, "agent_transcript_path": ""}
            result = await self._consult("SubagentStop", context, hook_input, [name])
        else:
            result = await self._consult("Stop", context, hook_input)
        return "\n".join(filter(None, (own, result.reason if result.decision == "deny" else "")))

    async def notify(self, context: HookContext, what: HookNotification, name: str) -> str:
        own = await self._own.notify(context, what, name)
        if what == "agent_started":
            self._names[context.agent] = name
            result = await self._consult("SubagentStart", context, {"agent_type": name}, [name])
        else:
            kind = "permission_prompt"
            hook_input = {"message": name, "title": "", "notification_type": kind}
            result = await self._consult("Notification", context, hook_input, [kind])
        return "\n".join(filter(None, (own, result.context)))

    async def permission(self, context: HookContext, call: ToolCall) -> HookResult:
        own = await self._own.permission(context, call)
        if own.decision:
            return own
        hook_input = {"tool_name": call.name, "tool_input": call.args}
        return await self._consult("PermissionRequest", context, hook_input, self._called(call), call.call)

    async def observe(self, context: HookContext, event: ObservedEvent, fields: dict[str, Any], about: str = "") -> str:
        own = await self._own.observe(context, event, fields, about)
        result = await self._consult(event, context, fields, [about])
        return "\n".join(filter(None, (own, result.context)))

    async def commands(self) -> Sequence[CommandCard]:
        return await self._own.commands()

    def watch(self) -> ReplyWatcher | None:
        return self._own.watch()

    async def close(self) -> None:
        ending = self._consult("SessionEnd", self._agent.hook_context(), {"reason": "other"}, ["other"])
        try:
            await asyncio.wait_for(ending, END_BOUND)
        except TimeoutError:
            pass  # the host has been told that nobody waits
        await self._own.close()

    # Asking.

    def _called(self, call: ToolCall) -> list[str]:
        """The names of a tool that a matcher may use."""
        return [*names_of(call.name), getattr(self._agent.tools.get(call.name), "long_name", call.name)]

    def _at(self, event: str, about: Sequence[str]) -> Iterator[tuple[str, Callbacks]]:
        for row in self.table.get(event, ()):
            if any(row.pattern.fullmatch(one) for one in about):
                yield from ((id, row) for id in row.ids)

    async def _consult(
        self, event: str, context: HookContext, hook_input: dict[str, Any], about: Sequence[str] = ("",), call: str = ""
    ) -> HookResult:
        """Ask all matching callbacks at the same time and combine their results; the strictest counts."""
        hook_input = hook_format.common_input(event, context, self._agent.session.store.file) | hook_input
        pending = [
            self._ask(event, context, row, {"callback": id, "input": hook_input, "call": call})
            for id, row in self._at(event, about)
        ]
        return reduce(hook_format.merge, await asyncio.gather(*pending), HookResult())

    async def _ask(self, event: str, context: HookContext, row: Callbacks, params: dict[str, Any]) -> HookResult:
        try:
            output = await self._agent.host_calls.call("hook", params, context.emit, timeout=row.timeout or DEADLINE)
            result = hook_format.parse_output(event, output, str(params["input"].get("tool_name", "")))
        except (HostFault, ValueError) as fault:
            context.emit(Notice(f"A hook of the host failed ({event}): {fault}", "warning"))
            blocks = row.on_failure == "block" and event in _GUARDS
            return HookResult("deny", f"a hook of the host failed: {fault}") if blocks else HookResult()
        if message := hook_format.system_message(output or {}):
            context.emit(Notice(message, "warning"))
        if ignored := [name for name in hook_format.ignored_fields(output or {}) if name not in self._reported]:
            self._reported.update(ignored)
            text = f"Fields of a hook's answer have no effect here ({event}): {', '.join(ignored)[:_MOST_NAMED]}"
            context.emit(Notice(text, "warning"))
        return result
