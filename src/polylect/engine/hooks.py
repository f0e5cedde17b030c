"""The hooks of an engine without extensions, and the scene in which hooks are called.

`vocab/hooks.py` defines the protocol `Hooks`: user code that may judge prompts, calls and turn ends. `NoHooks` is its
empty form; `extensions/` and `host_hooks.py` have the real ones.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from polylect.vocab.commands import Answer
from polylect.vocab.events import Ask, Event
from polylect.vocab.hooks import HookContext, Hooks


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


class NoHooks(Hooks):
    """No hook at all: every prompt, call and compaction passes as it is."""

    def start(self, context: HookContext, *, resumed: bool) -> None:
        pass

    async def close(self) -> None:
        pass
