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
from polylect.vocab.hooks import Happening, Heard, Opinion, Scene, Watch
from polylect.vocab.ports import ToolReturn


class EngineScene(Struct, kw_only=True):
    """One turn of one agent, or the session as a whole: the `Scene` of the port."""

    session: str
    turn: str
    agent: str
    workspace: str
    mode: str
    emitter: Callable[[Event], None]
    put: Callable[[Ask, Callable[[Event], None]], Awaitable[Answer]]

    def say(self, event: Event) -> None:
        self.emitter(event)

    async def ask(self, question: Ask) -> Answer:
        return await self.put(question, self.emitter)


class NoHooks:
    """Nobody has anything to say: the `Hooks` of an engine without extensions."""

    def begin(self, scene: Scene, *, resumed: bool) -> None:
        pass

    async def opened(self) -> Sequence[str]:
        return ()

    async def prompt(self, scene: Scene, text: str, *, verbatim: bool) -> Heard:
        return Heard(text)

    async def before_tool(self, scene: Scene, call: ToolCall) -> Opinion:
        return Opinion()

    async def after_tool(self, scene: Scene, call: ToolCall, returned: ToolReturn) -> Opinion:
        return Opinion()

    async def compaction(self, scene: Scene, reason: str) -> Opinion:
        return Opinion()

    async def stopping(self, scene: Scene, said: str, *, again: bool) -> str:
        return ""

    async def happened(self, scene: Scene, what: Happening, name: str) -> str:
        return ""

    async def commands(self) -> Sequence[CommandCard]:
        return ()

    def watch(self) -> Watch | None:
        return None

    async def close(self) -> None:
        pass
