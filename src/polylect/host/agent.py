"""The agent: one object that drives an engine, whatever wire the engine speaks.

`connect` makes it. This is the whole of its public face, and nothing else: the methods send commands through the
conversation with the engine (`host/supervision/conversation.py`), which passes the events to turns and readers.
"""

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec.structs import replace

from polylect.host.asks import Ask, Policy
from polylect.host.attachments import as_attachments
from polylect.host.errors import InvalidType
from polylect.host.host_hooks import Hooks, HostHooks
from polylect.host.host_tools import HostTool, tool
from polylect.host.limits import Limits, checked, unreported, warn_caller
from polylect.host.results import Result
from polylect.host.server_starts import BOUND as SERVER_BOUND
from polylect.host.structured_output import ask_for_value, object_schema
from polylect.host.supervision.conversation import Conversation, ConversationOptions, as_answer
from polylect.host.supervision.engine_supervisor import MakeLink
from polylect.host.supervision.session_names import SessionNames
from polylect.host.supported_commands import check
from polylect.host.turn import Turn
from polylect.system.clock_and_ids import new_id
from polylect.vocab import answers, commands
from polylect.vocab.commands import Command
from polylect.vocab.content import Attachment, Server
from polylect.vocab.events import Event, Ready

if TYPE_CHECKING:
    from polylect.host.client_services.services import ClientServices


def conversation_of(agent: "Agent") -> Conversation:
    """The conversation behind an agent, for a bridge: it is no part of the public face."""
    return agent._conversation


class Agent:
    """Made by `connect`; starts its engine on entering and ends it on leaving. Belongs to one event loop."""

    def __init__(
        self,
        make_link: MakeLink,
        *,
        approve: Policy | None = None,
        tools: Sequence[HostTool | Callable[..., Any]] = (),
        hooks: Hooks | None = None,
        services: "ClientServices | None" = None,
        servers: Sequence[Server] = (),
        settings: Mapping[str, Any] | None = None,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        allow_unpriced: bool = False,
        ready_within: float = 30.0,
        restarts: int = 0,
        resumed: bool = False,
        session: str = "",
        names: SessionNames | None = None,
        name: str = "the engine",
        reported: Collection[str] = ("tokens", "cost"),
        enforced: Collection[str] = (),
        can_resume: bool = True,
    ) -> None:
        if approve is not None and not callable(approve):
            raise InvalidType(f"approve is a function that takes an Ask, not {approve!r}")
        self._limits = checked(limits)
        self._name = name
        self._reported = reported
        self._warnings: set[str] = set()
        """What was said about limits that cannot be watched while a turn runs."""
        self._warn(limits, [*reported, *enforced])  # an engine that was given a cap keeps it, whatever it tells
        options = ConversationOptions(
            approve=approve,
            tools=[each if isinstance(each, HostTool) else tool(each) for each in tools],
            hooks=HostHooks(hooks or {}),
            services=services,
            servers=servers,
            settings=settings or {},
            ready_within=ready_within,
            restarts=restarts,
            caps_cost=bool(limits.cost),
            allow_unpriced=allow_unpriced,
            reply_costs="cost" in reported,
            resumed=resumed,
            session=session,
            names=names or SessionNames(),
            can_resume=can_resume,
        )
        self._conversation = Conversation(make_link, options)

    async def __aenter__(self) -> Self:
        await self._conversation.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self._conversation.failed = kind is not None
        await self.close()

    # Who it is.

    @property
    def pid(self) -> int:
        """The engine's process."""
        return self._conversation.supervisor.pid

    @property
    def session_id(self) -> str:
        """What the conversation can be resumed by: the name that you gave it, else the id that the engine made.

        Some wires tell the engine's id only when the first turn begins.
        """
        return self._conversation.session_id

    @property
    def session(self) -> str:
        """The same as `session_id`."""
        return self.session_id

    @property
    def cost(self) -> float | None:
        """Dollars for the session so far, if they are known.

        None for a session that was resumed, where the engine does not say what it had cost before: see "Sessions" in
        docs/host-sdk.md.
        """
        return self._conversation.session_cost.total

    @property
    def asks(self) -> Sequence[Ask]:
        """Questions that wait for an answer."""
        return tuple(self._conversation.asks.values())

    @property
    def ready(self) -> Ready:
        """What the engine said of itself when it was ready: its version, model, mode, abilities."""
        return self._conversation.ready

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the engine has said of itself since: `session`, `model`, `mode`, `name` ..."""
        return self._conversation.settings

    def can(self, *words: str) -> bool:
        """Whether this engine's wire can express all of these, and the engine did not say that it lacks one.

        Args:
            *words: Names of methods ("steer", "compact", "shell", "new_session"), "query:state", "mode:plan" ...

        Raises:
            LookupError: There is no such word; the text lists those that there are.
        """
        return all(map(self._conversation.can, words))

    # Talking.

    def prompt(
        self,
        text: str,
        *,
        files: Sequence[str | os.PathLike[str]] = (),
        attachments: Sequence[Attachment] = (),
        limits: Limits | None = None,
        busy: Literal["queue", "refuse", "interrupt"] = "queue",
        schema: Any = None,
    ) -> Turn:
        """Returns a turn. It begins when you read its events by `async for`, or `await` its result, and not before.

        The prompt is sent then, once; while another turn of this agent runs, it waits in the engine (see `busy`). A
        turn that is never read nor awaited is never sent, which a `RuntimeWarning` says.

        Args:
            text: What the model is told.
            files: Paths of files to attach, relative to the folder in which this program runs.
            attachments: Images and other attachments as values.
            limits: Limits for this turn, instead of those given to `connect`.
            busy: What to do while another turn runs: wait for it, be refused, or stop it.
            schema: What the answer has to fit, for engines that hold to a schema (`can("schema")`): a type that msgspec
                knows or a JSON Schema, either of an object. The answer comes as a `StructuredAnswer`, as plain data.
                `ask` takes a schema for every engine.

        Raises:
            InvalidType: An argument has the wrong type.
            InvalidValue: The schema is none, or not that of an object.
        """
        files_and_more = (*as_attachments(files, self.can), *attachments)
        prompt = check(commands.Prompt(new_id(), text, files_and_more, busy, schema=object_schema(schema)))
        if limits is not None:
            self._warn(checked(limits), self._reported)
            if (limits.cost or limits.tokens) and self.can("caps"):  # then it holds also while this program is busy
                prompt = replace(prompt, max_cost=float(limits.cost), max_tokens=limits.tokens)
        return Turn(self._conversation, prompt, self._limits if limits is None else limits)

    def _warn(self, limits: Limits, reported: Collection[str]) -> None:
        for text in unreported(limits, reported, self._name):
            if text not in self._warnings:
                self._warnings.add(text)
                warn_caller(text)

    async def ask(
        self,
        text: str,
        *,
        schema: Any = None,
        files: Sequence[str | os.PathLike[str]] = (),
        attachments: Sequence[Attachment] = (),
        limits: Limits | None = None,
    ) -> Result:
        """Sends a prompt and returns the result. What has to be approved is denied, unless `connect` got `approve`.

        Args:
            text: What the model is told.
            schema: A type that msgspec knows, or a JSON Schema; `.value` of the result is an answer that fits it.
            files: Paths of files to attach, relative to the folder in which this program runs.
            attachments: Images and other attachments as values.
            limits: Limits for this turn, instead of those given to `connect`.

        Raises:
            TurnFailed: The turn was cancelled, refused, cut off by a limit, or failed.
            SchemaNotMet: The answer does not fit the schema, after it was asked for again.
        """
        death = self._conversation.supervisor.death
        details = {"files": files, "attachments": attachments, "limits": limits}
        return await ask_for_value(self.prompt, death, text, schema, by_engine=self.can("schema"), **details)

    async def steer(self, text: str, *, last: bool = False) -> None:
        """Adds a message to the running turn. Raises Unsupported where the wire has no word for it.

        Args:
            text: The message.
            last: Hand it over before the turn would end, instead of after the calls under way.
        """
        await self._conversation.steer(commands.Steer(text, when="last" if last else "soon"))

    async def follow_up(self, text: str) -> None:
        """Adds the message `text` to the running turn before it would end: `steer` with `last`."""
        await self.steer(text, last=True)

    async def cancel(self, *, queued: Literal["keep", "drop"] = "drop") -> None:
        """Stops the running turn. Does nothing if none runs.

        Args:
            queued: Whether prompts that wait are kept or dropped.
        """
        await self.send(commands.Cancel(queued=queued))

    # Settings, sessions, servers.

    async def configure(self, **settings: Any) -> Any:
        """Changes settings of the engine for what follows.

        Args:
            **settings: `model`, `mode`, `thinking`, `name`, `effort` ..., as far as the wire has them.
        """
        return await self.send(commands.Configure(settings))

    async def add_context(self, text: str) -> None:
        """Adds `text` to what the model knows, without a turn."""
        await self.send(commands.AddContext(text))

    async def add_server(self, server: Server, *, within: float = SERVER_BOUND) -> None:
        """Adds an MCP server and returns when it is up, so that the next prompt has its tools.

        Args:
            server: The server and how it is reached.
            within: Seconds that it may take.

        Raises:
            ServerFailed: It failed, or is not up in time; the text says why.
            Refused: The engine does not take it (json-stream: after the first prompt).
            Unsupported: The wire has no word for servers.
        """
        await self._conversation.server_starts.add(server, within)

    async def compact(self, instructions: str = "") -> None:
        """Replaces the beginning of the conversation by a summary, and returns when that is done.

        Args:
            instructions: What the summary should keep.

        Raises:
            Refused: There is nothing to compact, or it failed; the text says why.
        """
        await self._conversation.compact(commands.Compact(instructions, busy="interrupt"))

    async def shell(self, command: str) -> answers.ShellResult:
        """Runs the shell command `command` in the engine's workspace, for the user. The model is told of it."""
        return as_answer(answers.ShellResult, await self.send(commands.RunShell(command)))

    async def new_session(self) -> answers.SessionOpened:
        """Goes on in a new session."""
        return await self._conversation.open_session(commands.OpenSession("new"))

    async def resume(self, session: str) -> answers.SessionOpened:
        """Goes on in the session with this id or name, `session`."""
        return await self._conversation.open_session(commands.OpenSession("resume", session))

    async def fork(self, at: str = "") -> answers.SessionOpened:
        """Goes on in a copy of the session.

        Args:
            at: The `entry` of one of `query("fork_points")`: the copy ends before that message. Empty: copy everything.
        """
        return await self._conversation.open_session(commands.OpenSession("fork", at=at))

    async def query(self, what: str, **args: Any) -> Any:
        """Asks the engine a question; `polylect.vocab.answers` lists them and their answers.

        Args:
            what: `state`, `stats`, `models`, `messages`, `sessions`, `fork_points` ...
            **args: Arguments of the question.
        """
        return await self.send(commands.Query(what, args))

    async def state(self) -> answers.State:
        """Asks for model, mode, session and what is running."""
        return await self._conversation.state()

    # Everything, as it comes.

    def events(self) -> AsyncIterator[Event]:
        """All that the engine says from now on, whatever turn it belongs to. Ends with the engine."""
        return self._conversation.events()

    async def send(self, command: Command) -> Any:
        """Sends a command and returns the data of its answer.

        Args:
            command: Any command of `polylect.vocab.commands`.

        Raises:
            Unsupported: The wire has no word for it; nothing was sent.
            Refused: The engine said no.
            EngineDied: The engine is gone.
        """
        return await self._conversation.send(command)

    async def close(self) -> int:
        """Ends the engine as leaving the block does: it has a few seconds to end by itself. Returns its exit code."""
        return await self._conversation.close()
