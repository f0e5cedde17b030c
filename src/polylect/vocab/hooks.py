"""The protocol of hooks: user code that the engine calls before and after what it does.

The engine (`engine/turn/`) knows only the protocol `Hooks`. `extensions/extensions.py` fulfils it with Python files and
shell commands, `engine/host_hooks.py` adds the callbacks of the host on top, and `engine/hooks.py` has the empty form.

The invariant: no method raises. A hook that fails is reported by an event, and its result is empty, or a denial where
the user asked for that.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Answer
from polylect.vocab.content import StreamRule, ToolCall
from polylect.vocab.events import Ask, Event
from polylect.vocab.ports import ModelEvent, ToolReturn


class HookContext(Protocol):
    """The turn, or the session, in which a hook is called. Events and questions of the hook go there.

    Attributes:
        session: The id of the session.
        turn: The id of the turn; empty for a hook that belongs to none, such as the start of the session.
        agent: The id of the agent; empty for the main one.
        workspace: The folder that the work is about.
        mode: The approval mode.
    """

    session: str
    turn: str
    agent: str
    workspace: str
    mode: str

    def emit(self, event: Event) -> None:
        """Sends an event to the host.

        Args:
            event: The event; it gets the turn and the agent of this context.
        """

    async def ask(self, question: Ask) -> Answer:
        """Asks the person and waits for the answer.

        Args:
            question: The question; it gets the turn and the agent of this context.

        Returns:
            The answer. Where nobody can be asked, it is a denial.
        """


class PreparedPrompt(Struct, frozen=True):
    """A prompt after the hooks and slash commands have seen it.

    Attributes:
        text: The prompt for the model, perhaps changed.
        contexts: Texts that the model gets beside it.
        refused: Why the prompt is not sent to the model; empty if it is.
        answer: The output of a slash command that was run instead of asking the model; None for other prompts.
    """

    text: str
    contexts: tuple[str, ...] = ()
    refused: str = ""
    answer: str | None = None


class HookResult(Struct, frozen=True):
    """What a hook returned, in one form for all kinds of hooks.

    Attributes:
        decision: `allow`, `ask` or `deny`; empty leaves the decision to the rules.
        reason: Why; the model or the person sees it.
        args: Arguments to run the call with, instead of those that the model gave.
        output: Output for the model, instead of what the tool returned.
        context: A text that the model gets in addition.
        interrupt: Whether the turn ends here.
    """

    decision: Literal["", "allow", "ask", "deny"] = ""
    reason: str = ""
    args: dict[str, Any] | None = None
    output: str | None = None
    context: str = ""
    interrupt: bool = False


HookNotification = Literal["agent_started", "asked"]
"""Events that hooks are informed of but cannot decide on: a sub-agent started, or the person was asked something."""

ObservedEvent = Literal[
    "PostToolBatch", "PermissionDenied", "UserPromptExpansion", "StopFailure", "PostCompact", "DirectoryAdded"
]
"""Events, by Claude Code's names, that hooks are informed of with the fields of their input."""

ReplyWatcher = Callable[[ModelEvent], Sequence[StreamRule]]
"""Gets each event of a reply and returns the rules that the reply matches since that event."""


class Hooks(Protocol):
    """All hooks of a session. No method raises: a hook that fails is reported by an event.

    A class that inherits from this one has no hook where it defines no method.
    """

    def start(self, context: HookContext, *, resumed: bool) -> None:
        """Starts to load the hooks in the background. Every other method waits until they are loaded.

        Args:
            context: The session, for hooks that belong to no turn.
            resumed: Whether the session has messages already.
        """

    async def session_contexts(self) -> Sequence[str]:
        """Returns the texts that hooks add at the start of the session. The second call returns none."""
        return ()

    async def prompt(self, context: HookContext, text: str, *, verbatim: bool) -> PreparedPrompt:
        """Lets the hooks judge and change a prompt.

        Args:
            context: The turn of the prompt.
            text: The prompt.
            verbatim: Whether a slash at its beginning is part of the text and no command.
        """
        return PreparedPrompt(text)

    async def before_tool(self, context: HookContext, call: ToolCall) -> HookResult:
        """Lets the hooks allow, deny or change a call before it runs.

        Args:
            context: The turn of the call.
            call: The call, as the model made it.
        """
        return HookResult()

    async def after_tool(self, context: HookContext, call: ToolCall, returned: ToolReturn) -> HookResult:
        """Lets the hooks change the output of a call.

        Args:
            context: The turn of the call.
            call: The call, as it ran.
            returned: What the tool returned.
        """
        return HookResult()

    async def before_compaction(self, context: HookContext, reason: str) -> HookResult:
        """Lets the hooks deny a compaction. The `context` of the result is added to the instructions of the summary.

        Args:
            context: The turn, or the session, that is compacted.
            reason: `threshold`, `overflow`, `manual` or `idle`, as in `CompactionStarted`.
        """
        return HookResult()

    async def before_stop(self, context: HookContext, reply: str, *, again: bool) -> str:
        """Returns why the turn should go on instead of ending; empty if it may end.

        Args:
            context: The turn that would end.
            reply: The last text of the model.
            again: Whether a hook has sent this turn back before.
        """
        return ""

    async def notify(self, context: HookContext, what: HookNotification, name: str) -> str:
        """Informs the hooks, and returns a text for the model; mostly an empty one.

        Args:
            context: The turn in which it happened.
            what: What happened.
            name: The kind of the sub-agent, or the title of the question.
        """
        return ""

    async def permission(self, context: HookContext, call: ToolCall) -> HookResult:
        """Lets the hooks answer in the place of the person who would be asked whether a call may run.

        Args:
            context: The turn of the call.
            call: The call, as it would run.

        Returns:
            `allow` or `deny`; without a decision the person is asked.
        """
        return HookResult()

    async def observe(self, context: HookContext, event: ObservedEvent, fields: dict[str, Any], about: str = "") -> str:
        """Informs the hooks, and returns a text for the model; mostly an empty one.

        Args:
            context: The turn, or the session, in which it happened.
            event: What happened.
            fields: The input of the event, besides the fields that every hook gets.
            about: What a matcher is compared with.
        """
        return ""

    async def commands(self) -> Sequence[CommandCard]:
        """Returns the slash commands that extensions add."""
        return ()

    def watch(self) -> ReplyWatcher | None:
        """Returns a watcher for one reply; None if there are no stream rules."""
        return None

    async def close(self) -> None:
        """Calls the hooks for the end of the session. Takes a bounded time."""
