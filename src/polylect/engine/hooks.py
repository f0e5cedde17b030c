"""The hooks of an engine without extensions, and the scene in which hooks are called.

`vocab/hooks.py` defines the protocol `Hooks`: user code that may judge prompts, calls and turn ends. `NoHooks` is its
empty form; `extensions/` and `host_hooks.py` have the real ones.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Answer
from polylect.vocab.content import ToolCall
from polylect.vocab.events import Ask, Event
from polylect.vocab.hooks import HookContext, HookNotification, HookResult, PreparedPrompt, ReplyWatcher
from polylect.vocab.ports import ToolReturn


class EngineHookContext(Struct, kw_only=True):
    """One turn of one agent, or the session as a whole: the `Scene` of the port."""

    session: str
    turn: str
    agent: str
    workspace: str
    mode: str
    emitter: Callable[[Event], None]
    asker: Callable[[Ask, Callable[[Event], None]], Awaitable[Answer]]

    def emit(self, event: Event) -> None:
        self.emitter(event)

    async def ask(self, question: Ask) -> Answer:
        return await self.asker(question, self.emitter)


class NoHooks:
    """Nobody has anything to say: the `Hooks` of an engine without extensions."""

    def start(self, context: HookContext, *, resumed: bool) -> None:
        pass

    async def session_contexts(self) -> Sequence[str]:
        return ()

    async def prompt(self, context: HookContext, text: str, *, verbatim: bool) -> PreparedPrompt:
        return PreparedPrompt(text)

    async def before_tool(self, context: HookContext, call: ToolCall) -> HookResult:
        return HookResult()

    async def after_tool(self, context: HookContext, call: ToolCall, returned: ToolReturn) -> HookResult:
        return HookResult()

    async def before_compaction(self, context: HookContext, reason: str) -> HookResult:
        return HookResult()

    async def before_stop(self, context: HookContext, reply: str, *, again: bool) -> str:
        return ""

    async def notify(self, context: HookContext, what: HookNotification, name: str) -> str:
        return ""

    async def commands(self) -> Sequence[CommandCard]:
        return ()

    def watch(self) -> ReplyWatcher | None:
        return None

    async def close(self) -> None:
        pass
