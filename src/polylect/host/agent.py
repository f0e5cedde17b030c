"""The agent: one object that drives an engine, whatever wire the engine speaks.

`connect` makes it. Its methods send commands and wait for their replies; events of the engine come in by `_receive`,
which updates settings, costs and open asks, and passes each event to its turn and to the readers of `events()`. Every
command with a reply ends: with the reply, or with `EngineDied`. The engine itself is behind
`host/supervision/engine_supervisor.py`.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Self, TypeVar
from weakref import WeakSet, finalize

from msgspec.structs import replace

from polylect.host.asks import Ask as HostAsk
from polylect.host.asks import Policy, bind, decide, deny_all
from polylect.host.attachments import as_attachments
from polylect.host.background_tasks import BackgroundTasks
from polylect.host.backlog import Backlog
from polylect.host.errors import EngineDied, HostError, Refused, Unsupported
from polylect.host.host_tools import HostTool, HostTools, tool
from polylect.host.limits import Limits, SessionCost, checked
from polylect.host.link import Link
from polylect.host.server_starts import BOUND as SERVER_BOUND
from polylect.host.server_starts import ServerStarts
from polylect.host.structured_output import ask_for_value
from polylect.host.supervision.answer_watch import AnswerWatch
from polylect.host.supervision.engine_supervisor import EngineSupervisor, MakeLink
from polylect.host.supervision.transcript import Transcript
from polylect.host.supported_commands import UNSUPPORTED, check
from polylect.host.turn import OpenTurns, Result, Turn
from polylect.system.clock_and_ids import new_id
from polylect.vocab import answers, commands
from polylect.vocab.commands import Command
from polylect.vocab.content import Attachment, Failure, Server
from polylect.vocab.events import (
    Ask,
    AskClosed,
    CostChanged,
    Event,
    HostCall,
    HostCallEnded,
    Notice,
    Ready,
    Reply,
    ServerChanged,
    SettingChanged,
    TurnEnded,
)

Value = TypeVar("Value")
_OF_THE_MOMENT = (commands.Answer, commands.Cancel, commands.HostReply)
"""Commands that only the running engine can use: no engine is restarted for them."""
_SILENCE = 4
"""How many times longer than until it is ready an engine may say nothing about a prompt: hooks may run before."""
_NO_ANSWER = (
    "said nothing about a prompt within {:g} s and was ended (update it, connect with the dialect and version that it "
    "speaks, or raise ready_within)"
)
_NEW_SESSION = "the engine cannot go on with its session, so the conversation goes on in a new one, {}; it was told {}"


class Agent:
    """Made by `connect`; starts its engine on entering and ends it on leaving. Belongs to one event loop."""

    def __init__(
        self,
        make_link: MakeLink,
        *,
        approve: Policy | None = None,
        tools: Sequence[HostTool | Callable[..., Any]] = (),
        servers: Sequence[Server] = (),
        settings: Mapping[str, Any] | None = None,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        ready_within: float = 30.0,
        restarts: int = 0,
        resumed: bool = False,
        session: str = "",
        can_resume: bool = True,
    ) -> None:
        if approve is not None and not callable(approve):
            raise TypeError(f"approve is a function that takes an Ask, not {approve!r}")
        self._supervisor = EngineSupervisor(
            make_link,
            on_event=self._receive,
            on_gone=self._engine_gone,
            on_retired=self._engine_retired,
            handshake=self._handshake,
            ready_within=ready_within,
            restarts=restarts,
            can_resume=can_resume,
        )
        silence = _SILENCE * ready_within
        self._answer_watch = AnswerWatch(silence, lambda: self._supervisor.abandon(_NO_ANSWER.format(silence)))
        self._transcript = Transcript()
        self._approve = approve
        self._tools = HostTools([each if isinstance(each, HostTool) else tool(each) for each in tools])
        self._servers = servers
        self._settings_to_send = dict(settings or {})
        """What every engine of this agent is told once it is ready: as in `connect`, and as it was changed since."""
        self._limits = checked(limits)
        self.turns = OpenTurns()
        """Its turns that have not ended, in order."""
        self._listeners: WeakSet[Backlog] = WeakSet()
        self._replies: dict[str, asyncio.Future[Reply]] = {}
        self._asks: dict[str, HostAsk] = {}
        self._server_starts = ServerStarts(self)
        self._background = BackgroundTasks()
        self.session_cost = SessionCost(resumed=resumed)
        self._first_session = session
        """The session that was asked for; some wires name theirs only when the first turn begins."""
        self._has_prompt = False
        """Whether a prompt was sent, so that there is a session to resume."""
        self.ready = Ready()
        self._prices_known: bool | None = None
        """Whether the engine knows what its model costs; None if it has not said."""
        self._order = asyncio.Lock()
        """What the engine said of itself."""
        self.settings: dict[str, Any] = {}
        """What it has said about itself since: `session`, `model`, `mode`, `name` ..."""

    async def __aenter__(self) -> Self:
        await self._supervisor.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Who it is.

    @property
    def pid(self) -> int:
        """The engine's process."""
        return self._supervisor.pid

    @property
    def session(self) -> str:
        """The id of the conversation, to resume it by. Some wires tell it only when the first turn begins."""
        return str(self.settings.get("session") or "")

    @property
    def cost(self) -> float | None:
        """Dollars for the session so far, if they are known."""
        return self.session_cost.total

    @property
    def asks(self) -> Sequence[HostAsk]:
        """Questions that wait for an answer."""
        return tuple(self._asks.values())

    def can(self, *words: str) -> bool:
        """Whether this engine's wire can express all of these.

        Args:
            *words: Names of methods ("steer", "compact", "shell", "new_session"), "query:state", "mode:plan" ...

        Raises:
            LookupError: There is no such word; the text lists those that there are.
        """
        return all(map(self._supervisor.can, words))

    # Talking.

    def prompt(
        self,
        text: str,
        *,
        files: Sequence[str | os.PathLike[str]] = (),
        attachments: Sequence[Attachment] = (),
        limits: Limits | None = None,
        busy: Literal["queue", "refuse", "interrupt"] = "queue",
    ) -> Turn:
        """Returns a turn: read its events by `async for`, or `await` its result. Either sends the prompt.

        Args:
            text: What the model is told.
            files: Paths of files to attach, relative to the folder in which this program runs.
            attachments: Images and other attachments as values.
            limits: Limits for this turn, instead of those given to `connect`.
            busy: What to do while another turn runs: wait for it, be refused, or stop it.
        """
        prompt = check(commands.Prompt(new_id(), text, (*as_attachments(files, self.can), *attachments), busy))
        return Turn(self, prompt, self._limits if limits is None else checked(limits))

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
        return await ask_for_value(self, text, schema, files=files, attachments=attachments, limits=limits)

    async def steer(self, text: str, *, last: bool = False) -> None:
        """Adds a message to the running turn. Raises Unsupported where the wire has no word for it.

        Args:
            text: The message.
            last: Hand it over before the turn would end, instead of after the calls under way.
        """
        word = "follow_up" if last else "steer"
        if not self.can(word):
            raise Unsupported(f"this wire has no word for {word!r}: send a prompt, which waits for its turn")
        await self.send(commands.Steer(text, when="last" if last else "soon"))

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
        await self._server_starts.add(server, within)

    async def compact(self, instructions: str = "") -> None:
        """Replaces the beginning of the conversation by a summary; `instructions` say what it should keep."""
        await self.send(commands.Compact(instructions, busy="interrupt"))

    async def shell(self, command: str) -> answers.ShellResult:
        """Runs the shell command `command` in the engine's workspace, for the user. The model is told of it."""
        return _of(answers.ShellResult, await self.send(commands.RunShell(command)))

    async def new_session(self) -> answers.SessionOpened:
        """Goes on in a new session."""
        return await self._open(commands.OpenSession("new"))

    async def resume(self, session: str) -> answers.SessionOpened:
        """Goes on in the session with the id `session`."""
        return await self._open(commands.OpenSession("resume", session))

    async def fork(self, at: str = "") -> answers.SessionOpened:
        """Goes on in a copy of the session.

        Args:
            at: The `entry` of one of `query("fork_points")`: the copy ends before that message. Empty: copy everything.
        """
        return await self._open(commands.OpenSession("fork", at=at))

    async def _open(self, command: commands.OpenSession) -> answers.SessionOpened:
        opened = _of(answers.SessionOpened, await self.send(command))
        self.session_cost = SessionCost(resumed=command.how != "new")
        self._transcript = Transcript()
        return opened

    async def query(self, what: str, **args: Any) -> Any:
        """Asks the engine a question; `polylect.vocab.answers` lists them and their answers.

        Args:
            what: `state`, `stats`, `models`, `messages`, `sessions`, `fork_points` ...
            **args: Arguments of the question.
        """
        return await self.send(commands.Query(what, args))

    async def state(self) -> answers.State:
        """Asks for model, mode, session and what is running."""
        return _of(answers.State, await self.query("state"))

    # Everything, as it comes.

    def events(self) -> AsyncIterator[Event]:
        """All that the engine says from now on, whatever turn it belongs to. Ends with the engine."""
        backlog = Backlog()
        if self._supervisor.lost:
            backlog.end()
        self._listeners.add(backlog)
        return backlog.read()

    async def send(self, command: Command) -> Any:
        """Sends a command and returns the data of its answer.

        Args:
            command: Any command of `polylect.vocab.commands`.

        Raises:
            Unsupported: The wire has no word for it; nothing was sent.
            Refused: The engine said no.
            EngineDied: The engine is gone.
        """
        check(command)
        if isinstance(command, _OF_THE_MOMENT):
            return await self._send_now(command)
        link = await self._supervisor.ensure_link(self.session if self._has_prompt else "")
        data = await self._send(link, command)
        match command:
            case commands.Configure(settings):
                self._settings_to_send |= settings
            case commands.AddContext(text):
                self._transcript.add(text)
        return data

    async def _send_now(self, command: Command) -> Any:
        try:
            link = await self._supervisor.current_link()
        except EngineDied:
            if self._supervisor.retired and isinstance(command, commands.Cancel):
                return None  # nothing runs: the engine has ended, and the next one has not begun
            raise
        return await self._send(link, command)

    async def _send(self, link: Link, command: Command) -> Any:
        command = replace(command, ref=command.ref or new_id())
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[command.ref] = answer
        try:
            follows = link.send(command)
            if isinstance(command, commands.Prompt):
                self.turns.note_sent(command)
                self._answer_watch.wait_for(self.turns.running)
            for event in follows:
                self._receive(event)
            await link.drain()
            reply = await answer
        finally:
            self._replies.pop(command.ref, None)
        if reply.failure is None:
            return reply.data
        if reply.failure.code in UNSUPPORTED:
            unsupported = Unsupported(reply.failure.message)
            unsupported.add_note("agent.can(...) tells ahead what an engine's wire has words for")
            raise unsupported
        raise Refused(reply.failure)

    async def close(self) -> int:
        """Bounded: the engine has a few seconds to end by itself. Returns its exit code."""
        self._background.cancel_all()
        self._answer_watch.cancel()
        return await self._supervisor.close(commands.Cancel() if self.turns.busy else None)

    # For turns and asks.

    def begin(self, turn: Turn, prompt: commands.Prompt) -> "asyncio.Task[None]":
        """Sends the `prompt` of a `turn`. Cancelling the task that is returned does not withdraw the prompt."""
        self.turns.join(turn)
        finalize(turn, _later, asyncio.get_running_loop(), self.unattended, turn.id).atexit = False
        saying = asyncio.ensure_future(self._prompt(turn, prompt))
        saying.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may wait for it any more
        return saying

    def unattended(self, turn: str, asks: Collection[str] | None = None) -> None:
        """Denies what the `turn` has asked, or only these `asks`, because nobody reads it.

        Not where somebody reads `events`, or `approve` answers.
        """
        for ask in self._asks.values() if not self._listeners and self._approve is None else ():
            if ask.turn == turn and (asks is None or ask.ask in asks):
                self._background.start(partial(decide, deny_all, ask))

    async def reply_to(self, answer: commands.Answer) -> None:
        """Sends the `answer` to an ask."""
        await self.send(answer)  # what cannot be said so still waits for an answer
        self._asks.pop(answer.ask, None)

    def stop_soon(self, turn: str) -> None:
        """Stops the `turn` without waiting for it."""
        self._background.start(partial(self.stop, turn))

    async def stop(self, turn: str) -> None:
        """Stops the `turn` with this id and no other, as far as the wire can tell them apart."""
        await self.send(commands.Cancel(target=turn, queued="keep"))

    async def withdraw(self, turn: str) -> None:
        """Takes back the prompt of a `turn` that waits for others, if the wire has a word for that."""
        with suppress(Unsupported, Refused):
            await self.send(commands.Cancel("prompt", turn))

    # The connection.

    async def _handshake(self, link: Link, ready: Ready) -> None:
        self.ready = ready
        self._prices_known = ready.abilities.extras.get("cost_attribution")
        session = ready.session or self.session or self._first_session
        self.settings |= {"session": session, "model": ready.model, "mode": ready.mode}
        if offers := self._tools.offers():
            if not self.can("tools"):
                raise Unsupported(
                    "this engine's wire carries no tools of the host: use claude, omp 18 or an MCP server"
                )
            await self._send(link, commands.Hello("polylect", offers=offers))
        for server in self._servers:
            await self._send(link, check(commands.AddServer(server)))
        if self._settings_to_send:
            await self._send(link, check(commands.Configure(self._settings_to_send)))
        if self._supervisor.in_new_session:
            await self._hand_over(link, session)

    async def _hand_over(self, link: Link, session: str) -> None:
        """Tells a new session what was said in the one before."""
        history = self._transcript.text
        if history:
            await self._send(link, commands.AddContext(history))
        self.session_cost.begin_session()
        context = "what was said before" if history else "nothing: this program does not know what was said before"
        self._deliver(SettingChanged("session", session))
        self._deliver(Notice(_NEW_SESSION.format(session, context), "warning"))

    async def _prompt(self, turn: Turn, prompt: commands.Prompt) -> None:
        try:
            async with self._order:  # a prompt that has nothing to wait for does not overtake one that has
                if turn.caps_cost and await self._lacks_price():
                    turn.refuse_unpriced()
                    return self.turns.leave(turn.id)
            await self.send(prompt)
            self._has_prompt = True
        except BaseException:
            self.turns.leave(prompt.turn)
            raise

    async def _lacks_price(self) -> bool:
        """Whether the engine does not know what its model costs. One that can be asked and does not say is let pass."""
        if self._prices_known is None:
            if not self.can("query:state"):
                return True  # on json-stream, who knows prices says so
            card = (await self.state()).card
            self._prices_known = bool(card.prices) if card else None
        return self._prices_known is False

    def _engine_gone(self, death: EngineDied) -> None:
        """Fails everything that waits for the engine."""
        self._fail_commands(death)
        self.turns.fail(death)
        for listener in list(self._listeners):
            listener.end()

    def _engine_retired(self, death: EngineDied) -> None:
        """Another engine goes on: prompts that were not answered are sent to that one."""
        self._fail_commands(death)
        if self.turns.sent:
            self._background.start(self._send_again)

    def _fail_commands(self, death: EngineDied) -> None:
        self._answer_watch.cancel()
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_exception(death)
                waiting.exception()  # not everyone who asked still waits
        self._replies.clear()
        self._server_starts.fail(death)
        self._asks.clear()

    async def _send_again(self) -> None:
        for prompt in self.turns.sent:
            try:
                await self.send(prompt)
            except HostError as error:
                failure = Failure("engine_gone", str(error), "engine")
                self._deliver(TurnEnded("error", failure=failure, turn=prompt.turn))

    def _receive(self, event: Event) -> None:
        match event:
            case Reply(failure=Failure(code="engine_gone")):
                return  # `_fail_commands` follows, and says how the engine ended
            case Reply(ref) if ref in self._replies:
                answer = self._replies.pop(ref)
                if not answer.done():
                    answer.set_result(event)
                return
            case HostCall(call):
                self._background.start(partial(self._work, event), call)
            case HostCallEnded(call):
                self._background.cancel_named(call)
            case Ask():
                event = self._bind_ask(event)
            case AskClosed(ask):
                self._asks.pop(ask, None)
            case ServerChanged():
                self._server_starts.receive(event)
            case SettingChanged(key, value):
                self.settings[key] = value
                self._prices_known = _prices_known(key, value, self._prices_known)
            case CostChanged(total):
                self.session_cost.set_total(total)
            case TurnEnded(failure=Failure("engine_gone")):
                again = self._supervisor.restarts > 0
                event = replace(event, failure=Failure("engine_gone", str(self.death()), "engine", retryable=again))
        self._deliver(event)

    def _bind_ask(self, event: Ask) -> HostAsk:
        ask = self._asks[event.ask] = bind(event, self)
        policy = self._approve
        turns = [turn for turn in self.turns if turn.attended and event.turn in ("", turn.id)]
        if policy is None and not turns and not self._listeners:
            policy = deny_all
        if policy is not None:
            self._background.start(partial(decide, policy, ask))
        return ask

    def _deliver(self, event: Event) -> None:
        self._answer_watch.receive(event.turn)
        self._transcript.receive(event)
        if (turn := self.turns.get(event.turn)) is not None:
            turn.receive(event)
        elif not event.turn:
            for each in self.turns:
                each.receive(event)
        if isinstance(event, TurnEnded):
            self.session_cost.add(event.usage)
            self.turns.leave(event.turn)
            self._answer_watch.wait_for(self.turns.running)
        for listener in list(self._listeners):
            listener.put(event)

    async def _work(self, call: HostCall) -> None:
        result, error = await self._tools.run(call)
        await self.send(commands.HostReply(call.call, result, error))

    def death(self) -> EngineDied:
        """Why the engine is gone."""
        return self._supervisor.death()


def _later(loop: asyncio.AbstractEventLoop, act: Callable[[str], None], turn: str) -> None:
    with suppress(RuntimeError):  # the loop has ended, and everything with it
        loop.call_soon_threadsafe(act, turn)


def _of(kind: type[Value], data: Any) -> Value:
    return data if isinstance(data, kind) else kind(**data) if isinstance(data, dict) else data


def _prices_known(key: str, value: Any, before: bool | None) -> bool | None:
    """Whether prices are known after a setting has changed."""
    if key == "abilities":
        return bool(value.extras.get("cost_attribution"))
    return None if key == "model" else before
