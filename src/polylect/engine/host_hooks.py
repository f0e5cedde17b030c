"""Hooks that run inside the host's own program.

A host that offers hooks in its hello gets a `HostCall` for each event that it subscribed to, in the shape of Claude
Code's hook input. The user's own hooks (`extensions/`) run first, and the host is not asked about what they deny. Where
several answers come, the strictest counts. `commands/host_capabilities.py` installs it.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from polylect.engine.agent import Agent
from polylect.engine.host_calls import HostFault
from polylect.vocab import hook_words
from polylect.vocab.answers import CommandCard
from polylect.vocab.content import ToolCall
from polylect.vocab.events import Notice
from polylect.vocab.hooks import Happening, Heard, Opinion, Scene, Watch
from polylect.vocab.ports import ToolReturn

DEADLINE = 60.0
END_BOUND = 1.0
"""Seconds that all have together when the session ends."""
_GUARDS = ("PreToolUse", "UserPromptSubmit", "PreCompact")
"""Moments at which a callback that fails can stand for a no."""
MOMENTS = (
    *_GUARDS,
    *("PostToolUse", "PostToolUseFailure", "SessionStart", "SessionEnd", "Stop", "SubagentStart", "SubagentStop"),
    "Notification",
)
_ANYTHING = re.compile(".*", re.DOTALL)


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

    def begin(self, scene: Scene, *, resumed: bool) -> None:
        self._own.begin(scene, resumed=resumed)

    async def opened(self) -> Sequence[str]:
        contexts = list(await self._own.opened())
        if not self._opened:
            self._opened = True
            hook_input = hook_words.session_start(resumed=self._resumed)
            opinion = await self._consult("SessionStart", self._agent.scene(), hook_input, [hook_input["source"]])
            contexts += filter(None, [opinion.context])
        return contexts

    async def prompt(self, scene: Scene, text: str, *, verbatim: bool) -> Heard:
        verdict = await self._own.prompt(scene, text, verbatim=verbatim)
        if verdict.refused or verdict.answer is not None:
            return verdict
        opinion = await self._consult("UserPromptSubmit", scene, {"prompt": verdict.text})
        if opinion.decision == "deny":
            return replace(verdict, refused=opinion.reason or "a hook of the host refused the prompt")
        return replace(verdict, contexts=(*verdict.contexts, *filter(None, [opinion.context])))

    async def before_tool(self, scene: Scene, call: ToolCall) -> Opinion:
        own = await self._own.before_tool(scene, call)
        if own.decision == "deny":
            return own
        call = call if own.args is None else replace(call, args=own.args)
        hook_input = hook_words.call(call.call, call.name, call.args)
        return hook_words.both(own, await self._consult("PreToolUse", scene, hook_input, self._called(call), call.call))

    async def after_tool(self, scene: Scene, call: ToolCall, returned: ToolReturn) -> Opinion:
        own = await self._own.after_tool(scene, call, returned)
        output = returned.output if own.output is None else own.output
        hook_input = hook_words.call(call.call, call.name, call.args)
        if returned.ok:
            event, hook_input = "PostToolUse", hook_input | hook_words.result(replace(returned, output=output))
        else:
            event, hook_input = "PostToolUseFailure", {**hook_input, "error": output, "is_interrupt": False}
        opinion = await self._consult(event, scene, hook_input, self._called(call), call.call)
        return hook_words.both(own, hook_words.too_late(opinion))

    async def compaction(self, scene: Scene, reason: str) -> Opinion:
        own = await self._own.compaction(scene, reason)
        hook_input = hook_words.compaction(reason)
        return hook_words.both(own, await self._consult("PreCompact", scene, hook_input, [hook_input["trigger"]]))

    async def stopping(self, scene: Scene, said: str, *, again: bool) -> str:
        own = await self._own.stopping(scene, said, again=again)
        hook_input = hook_words.stop(said, again=again)
        if scene.agent:
            name = self._names.get(scene.agent, "")
            hook_input |= {"agent_type": name, "agent_transcript_path": ""}
            opinion = await self._consult("SubagentStop", scene, hook_input, [name])
        else:
            opinion = await self._consult("Stop", scene, hook_input)
        return "\n".join(filter(None, (own, opinion.reason if opinion.decision == "deny" else "")))

    async def happened(self, scene: Scene, what: Happening, name: str) -> str:
        own = await self._own.happened(scene, what, name)
        if what == "agent_started":
            self._names[scene.agent] = name
            opinion = await self._consult("SubagentStart", scene, {"agent_type": name}, [name])
        else:
            kind = "permission_prompt"
            hook_input = {"message": name, "title": "", "notification_type": kind}
            opinion = await self._consult("Notification", scene, hook_input, [kind])
        return "\n".join(filter(None, (own, opinion.context)))

    async def commands(self) -> Sequence[CommandCard]:
        return await self._own.commands()

    def watch(self) -> Watch | None:
        return self._own.watch()

    async def close(self) -> None:
        ending = self._consult("SessionEnd", self._agent.scene(), {"reason": "other"}, ["other"])
        try:
            await asyncio.wait_for(ending, END_BOUND)
        except TimeoutError:
            pass  # the host has been told that nobody waits
        await self._own.close()

    # Asking.

    def _called(self, call: ToolCall) -> list[str]:
        """The names of a tool that a matcher may use."""
        return [call.name, getattr(self._agent.tools.get(call.name), "long_name", call.name)]

    def _at(self, event: str, about: Sequence[str]) -> Iterator[tuple[str, Callbacks]]:
        for row in self.table.get(event, ()):
            if any(row.pattern.fullmatch(one) for one in about):
                yield from ((id, row) for id in row.ids)

    async def _consult(
        self, event: str, scene: Scene, hook_input: dict[str, Any], about: Sequence[str] = ("",), call: str = ""
    ) -> Opinion:
        """Ask all matching callbacks at the same time and combine their opinions; the strictest counts."""
        hook_input = hook_words.common(event, scene, self._agent.session.store.file) | hook_input
        pending = [
            self._ask(event, scene, row, {"callback": id, "input": hook_input, "call": call})
            for id, row in self._at(event, about)
        ]
        return reduce(hook_words.both, await asyncio.gather(*pending), Opinion())

    async def _ask(self, event: str, scene: Scene, row: Callbacks, params: dict[str, Any]) -> Opinion:
        try:
            result = await self._agent.host_calls.ask("hook", params, scene.say, timeout=row.timeout or DEADLINE)
            opinion = hook_words.opinion(event, result)
        except (HostFault, ValueError) as fault:
            scene.say(Notice(f"A hook of the host failed ({event}): {fault}", "warning"))
            blocks = row.on_failure == "block" and event in _GUARDS
            return Opinion("deny", f"a hook of the host failed: {fault}") if blocks else Opinion()
        if message := hook_words.message(result or {}):
            scene.say(Notice(message, "warning"))
        return opinion
