"""What the engine asks of the user's own code, and where."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Answer
from polylect.vocab.content import ToolCall
from polylect.vocab.events import Ask, Event
from polylect.vocab.ports import ModelEvent, ToolReturn


class Scene(Protocol):
    """Where the user's own code is asked: what it says and asks itself belongs there."""

    session: str
    turn: str
    agent: str
    workspace: str
    mode: str

    def say(self, event: Event) -> None: ...

    async def ask(self, question: Ask) -> Answer: ...


class Heard(Struct, frozen=True):
    """What a prompt has become. With `answer` it was a command and is carried out; if `refused`, nobody hears it."""

    text: str
    contexts: tuple[str, ...] = ()
    refused: str = ""
    answer: str | None = None


class Opinion(Struct, frozen=True):
    """On something that is about to happen, or has. Without a decision it is left to the rules."""

    decision: Literal["", "allow", "ask", "deny"] = ""
    reason: str = ""
    args: dict[str, Any] | None = None
    """What a call is to be made with, instead of what the model wanted."""
    output: str | None = None
    """What the model is told, instead of what the tool returned."""
    context: str = ""
    """What the model is told besides."""
    interrupt: bool = False
    """The turn is to end here."""


class StreamRule(Struct, frozen=True):
    """What the model is reminded of when its text matches."""

    name: str
    pattern: str
    text: str
    path: str = ""


Happening = Literal["agent_started", "asked"]
"""What nobody's code decides on, but some may want to know of."""

Watch = Callable[[ModelEvent], Sequence[StreamRule]]
"""Takes a reply as it comes, and tells the rules that it has just broken."""


class Hooks(Protocol):
    """The user's own code: extensions and commands. Never raises: what fails in it is reported."""

    def begin(self, scene: Scene, *, resumed: bool) -> None:
        """Load it, in the background. All that follows waits for that."""
        ...

    async def opened(self) -> Sequence[str]:
        """What it has to say to the model before the first prompt; told once."""
        ...

    async def prompt(self, scene: Scene, text: str, *, verbatim: bool) -> Heard: ...

    async def before_tool(self, scene: Scene, call: ToolCall) -> Opinion: ...

    async def after_tool(self, scene: Scene, call: ToolCall, returned: ToolReturn) -> Opinion: ...

    async def compaction(self, scene: Scene, reason: str) -> Opinion:
        """The context of the opinion is what the summary should heed."""
        ...

    async def stopping(self, scene: Scene, said: str, *, again: bool) -> str:
        """Why the turn should not end with what was said, if it should not."""
        ...

    async def happened(self, scene: Scene, what: Happening, name: str) -> str:
        """An agent of this name has started, or the person is asked this. What the model should know besides."""
        ...

    async def commands(self) -> Sequence[CommandCard]:
        """Its slash commands, once it is loaded."""
        ...

    def watch(self) -> Watch | None:
        """For one reply; None if there is nothing to watch for."""
        ...

    async def close(self) -> None:
        """The session ends. Bounded."""
        ...
