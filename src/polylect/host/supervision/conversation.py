"""The conversation of an agent with its engine: what stands behind the public methods of `Agent`, `Turn` and `Ask`.

Commands go out by `send`, which waits for their replies. Events of the engine come in by `_receive`, which updates
settings, costs and open asks, and passes each event to its turn and to the readers of `events`. Every command with a
reply ends: with the reply, or with `EngineDied`. An engine that dies or is replaced is the business of
`engine_supervisor.py`; what its successor has to be told is here, in `_handshake`.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

from msgspec import Struct
from msgspec.structs import replace

from polylect.host.asks import Ask as HostAsk
from polylect.host.asks import Policy, bind, decide, deny_all
from polylect.host.backlog import Backlog
from polylect.host.client_services.faults import ServiceFault
from polylect.host.errors import EngineDied, HostError, Refused, Unsupported
from polylect.host.host_hooks import HostHooks
from polylect.host.host_tools import HostTool, HostTools
from polylect.host.limits import SessionCost
from polylect.host.link import Link
from polylect.host.server_starts import ServerStarts
from polylect.host.supervision.answer_watch import AnswerWatch, Silence
from polylect.host.supervision.background_tasks import BackgroundTasks
from polylect.host.supervision.engine_supervisor import EngineSupervisor, MakeLink
from polylect.host.supervision.known_prices import KnownPrices
from polylect.host.supervision.open_turns import OpenTurn, OpenTurns
from polylect.host.supervision.pending_replies import PendingReplies, data_of
from polylect.host.supervision.session_names import SessionNames
from polylect.host.supervision.transcript import Transcript
from polylect.host.supported_commands import check
from polylect.system.clock_and_ids import new_id
from polylect.vocab import answers, commands
from polylect.vocab.commands import Command
from polylect.vocab.content import Failure, Server
from polylect.vocab.events import (
    Ask,
    AskClosed,
    CompactionEnded,
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

if TYPE_CHECKING:
    from polylect.host.client_services.services import ClientServices

Value = TypeVar("Value")
_OF_THE_MOMENT = (commands.Answer, commands.Cancel, commands.HostReply)
"""Commands that only the running engine can use: no engine is restarted for them."""
_SILENCE = 4
"""How many times longer than until it is ready an engine may say nothing about a prompt: hooks may run before."""
_NO_ANSWER = (
    "said nothing about a prompt within {:g} s and was ended (update it, connect with the dialect and version that it "
    "speaks, or raise ready_within)"
)
_NO_END = "said nothing for {:g} s after its turn was cancelled and was ended"
_NEW_SESSION = "the engine cannot go on with its session, so the conversation goes on in a new one, {}; it was told {}"


class Relay(Protocol):
    """Gets all that an engine says, for a host that this program stands in front of; see `Conversation.relay_to`."""

    def put(self, event: Event) -> None:
        """An event, in order."""

    def end(self) -> None:
        """The engine is gone. Another one may follow."""

    async def wait_writable(self) -> None:
        """Waits while the host behind the relay reads too slowly."""


class ConversationOptions(Struct, frozen=True, kw_only=True):
    """What an agent wants of its conversation.

    Attributes:
        approve: Answers asks in the place of whoever reads.
        tools: Tools of this program.
        hooks: Functions of this program that the engine calls at certain moments.
        services: Serves files and terminals to the engine; None if it gets none.
        servers: MCP servers that every engine of this conversation is told of.
        settings: Settings that every engine of this conversation is told.
        ready_within: Seconds that an engine has until it is ready.
        restarts: How often an engine that died is started again.
        caps_cost: Whether turns have a limit in dollars unless they have limits of their own.
        allow_unpriced: Whether limits in dollars are accepted where the price of the model is not known.
        reply_costs: Whether the engine tells what each reply of the model has cost, if it knows the price.
        resumed: Whether the session has a past.
        session: The session that was asked for; some wires name theirs only when the first turn begins.
        names: What the program calls its sessions.
        can_resume: Whether an engine can be made to resume a session.
    """

    approve: Policy | None
    tools: Sequence[HostTool]
    hooks: HostHooks
    services: "ClientServices | None"
    servers: Sequence[Server]
    settings: Mapping[str, Any]
    ready_within: float
    restarts: int
    caps_cost: bool
    allow_unpriced: bool
    reply_costs: bool
    resumed: bool
    session: str
    names: SessionNames
    can_resume: bool


class Conversation:
    """What an agent and its engine have to say to each other. Belongs to one event loop.

    Args:
        make_link: Makes a link to an engine; see `EngineSupervisor`.
        options: What the agent wants of it.
    """

    def __init__(self, make_link: MakeLink, options: ConversationOptions) -> None:
        self.options = options
        self.supervisor = EngineSupervisor(
            make_link,
            on_event=self._receive,
            on_gone=self._engine_gone,
            on_retired=self._engine_retired,
            handshake=self._handshake,
            ready_within=options.ready_within,
            restarts=options.restarts,
            can_resume=options.can_resume,
        )
        self._answer_watch = AnswerWatch(
            self._silence(_SILENCE * options.ready_within, _NO_ANSWER), self._silence(options.ready_within, _NO_END)
        )
        self._transcript = Transcript()
        self._tools = HostTools(options.tools)
        self._services = options.services
        self._settings_to_send = dict(options.settings)
        """What every engine of this agent is told once it is ready: as in `connect`, and as it was changed since."""
        self.turns = OpenTurns()
        """Its turns that have not ended, in order."""
        self._listeners: WeakSet[Backlog | Relay] = WeakSet()
        self._relay: Relay | None = None
        self._replies = PendingReplies()
        self.asks: dict[str, HostAsk] = {}
        """Questions that wait for an answer, by their ids."""
        self.server_starts = ServerStarts(self)
        self._background = BackgroundTasks()
        self.session_cost = SessionCost(resumed=options.resumed)
        self._prices = KnownPrices(allow_unpriced=options.allow_unpriced)
        self._names = options.names
        self._has_prompt = False
        """Whether a prompt was sent, so that there is a session to resume."""
        self.ready = Ready()
        """What the engine said of itself."""
        self._order = asyncio.Lock()
        self.settings: dict[str, Any] = {}
        """What it has said about itself since: `session`, `model`, `mode`, `name` ..."""
        self.failed = False
        """Whether the block of the agent was left by an exception."""

    def _silence(self, seconds: float, what: str) -> Silence:
        return Silence(seconds, lambda: self.supervisor.abandon(what.format(seconds)))

    @property
    def session(self) -> str:
        """The id of the session as the engine has it; some wires tell it only when the first turn begins."""
        return str(self.settings.get("session") or "")

    @property
    def session_id(self) -> str:
        """The name or id of the session, for the program."""
        return self._names.to_program(self.session)

    def can(self, word: str) -> bool:
        """Whether the wire can express `word` and the engine has it, as its `ready` says. Raises LookupError."""
        return self.supervisor.can(word) and word not in self.ready.abilities.extras.get("lacks", ())

    async def open(self) -> None:
        """Starts the engine. Raises EngineDied."""
        try:
            await self.supervisor.open()
        except EngineDied as death:
            message, last_words = map(self._names.in_names, (str(death), death.last_words))
            raise type(death)(message, death.code, last_words) from death.__cause__

    async def close(self) -> int:
        """Ends the engine in bounded time and returns its exit code."""
        self._background.cancel_all()
        self._answer_watch.cancel()
        try:
            return await self.supervisor.close(commands.Cancel() if self.turns.busy else None)
        finally:
            if self._services:
                await self._services.close()

    def events(self) -> AsyncIterator[Event]:
        """All that the engine says from now on, whatever turn it belongs to. Ends with the engine."""
        backlog = Backlog()
        if self.supervisor.lost:
            backlog.end()
        self._listeners.add(backlog)
        return backlog.read()

    def relay_to(self, relay: Relay) -> None:
        """Passes everything to `relay` from now on, also what is answered here else: asks, host calls and replies.

        The caller keeps the relay, and sends what its host says by `forward`.
        """
        self._relay = relay
        self._listeners.add(relay)
        self.supervisor.wait_for_reader = relay.wait_writable

    async def forward(self, command: Command) -> None:
        """Sends a `command` as it is. Its reply goes to the relay, like every event. Raises HostError."""
        of_the_moment = isinstance(command, _OF_THE_MOMENT)
        link = await (self.supervisor.current_link() if of_the_moment else self._ensure_link())
        follows = link.send(command)
        match command:
            case commands.Prompt():
                self._has_prompt = True
                self.turns.add(command)
                self._answer_watch.wait_for(self.turns.running)
            case commands.Configure(settings):
                self._settings_to_send |= settings
            case commands.AddContext(text):
                self._transcript.add(text)
        for event in follows:
            self._receive(event)
        if not of_the_moment:
            await link.drain()

    async def send(self, command: Command) -> Any:
        """Sends a `command` and returns the data of its answer. `Agent.send` says what it raises."""
        check(command)
        if isinstance(command, commands.Cancel) and command.what == "turn" and not command.target:
            self._cancel_unsent(command)
        if isinstance(command, _OF_THE_MOMENT):
            try:
                return await self._send_now(command)
            finally:
                if isinstance(command, commands.Cancel) and self._stops_running(command) and self._services:
                    self._services.end_terminals()  # goose 1.43 leaves them running
        link = await self._ensure_link()
        data = await self._send(link, command)
        match command:
            case commands.Configure(settings):
                self._settings_to_send |= settings
            case commands.AddContext(text):
                self._transcript.add(text)
        return data

    def _cancel_unsent(self, command: commands.Cancel) -> None:
        """Turns that were begun and that the engine does not know yet are cancelled like those that it knows."""
        unsent = self.turns.unsent
        if command.queued == "keep":
            unsent = [] if self.turns.running else unsent[:1]
        for turn in unsent:
            turn.unwanted = True

    def _stops_running(self, command: commands.Cancel) -> bool:
        return command.what == "turn" and command.target in ("", self.turns.running)

    async def _send_now(self, command: Command) -> Any:
        try:
            link = await self.supervisor.current_link()
        except EngineDied:
            if self.supervisor.retired and isinstance(command, commands.Cancel):
                return None  # nothing runs: the engine has ended, and the next one has not begun
            raise
        return await self._send(link, command)

    async def _ensure_link(self) -> Link:
        return await self.supervisor.ensure_link(self.session if self._has_prompt else "")

    async def _send(self, link: Link, command: Command) -> Any:
        command = replace(command, ref=command.ref or new_id())
        with self._replies.expect(command.ref) as reply:
            follows = link.send(command)
            if isinstance(command, commands.Prompt):
                self.turns.note_sent(command)
                self._answer_watch.wait_for(self.turns.running)
            elif isinstance(command, commands.Cancel) and self.turns.running and self._stops_running(command):
                self._answer_watch.wait_for_end(self.turns.running)
            for event in follows:
                self._receive(event)
            await link.drain()
            return data_of(await reply)

    async def steer(self, message: commands.Steer) -> None:
        """Adds a `message` to the running turn. Raises Unsupported where the wire has no word for it."""
        word = "follow_up" if message.when == "last" else "steer"
        if not self.can(word):
            raise Unsupported(f"this wire has no word for {word!r}: send a prompt, which waits for its turn")
        await self.send(message)

    async def compact(self, command: commands.Compact) -> None:
        """Compacts the conversation. The answer to the command says on most wires only that it has begun."""
        events = self.events()  # from before the command: the end may come with its answer
        await self.send(command)
        async for event in events:
            if isinstance(event, CompactionEnded) and not event.agent:
                if event.ok:
                    return
                raise Refused(Failure("compaction", event.error, "engine"))
        raise self.supervisor.death()

    async def open_session(self, command: commands.OpenSession) -> answers.SessionOpened:
        """Goes on in another session."""
        command = replace(command, target=self._names.to_engine(command.target))
        opened = as_answer(answers.SessionOpened, await self.send(command))
        self._names.store(opened.session, command.target)
        self.session_cost = SessionCost(resumed=command.how != "new")
        self._transcript = Transcript()
        if command.how != "new":
            await self._read_cost(await self._ensure_link())
        return opened

    async def state(self) -> answers.State:
        """Asks for model, mode, session and what is running."""
        return as_answer(answers.State, await self.send(commands.Query("state")))

    # For turns and asks.

    def begin(self, turn: OpenTurn, prompt: commands.Prompt) -> "asyncio.Task[None]":
        """Sends the `prompt` of a `turn`. Cancelling the task that is returned does not withdraw the prompt."""
        self.turns.join(turn)
        saying = asyncio.ensure_future(self._prompt(turn, prompt))
        saying.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may wait for it any more
        return saying

    @property
    def reader_answers(self) -> bool:
        """Whether only the reader of a turn can answer what it asks: no policy, and nobody reads `events`."""
        return not self._listeners and self.options.approve is None

    def unattended(self, turn: str, asks: Collection[str] | None = None) -> None:
        """Denies what the `turn` has asked, or only these `asks`, because nobody reads it.

        Not where somebody reads `events`, or `approve` answers.
        """
        for ask in self.asks.values() if self.reader_answers else ():
            if ask.turn == turn and (asks is None or ask.ask in asks):
                self._background.start(partial(decide, deny_all, ask))

    async def reply_to(self, answer: commands.Answer) -> None:
        """Sends the `answer` to an ask."""
        await self.send(answer)  # what cannot be said so still waits for an answer
        self.asks.pop(answer.ask, None)

    def stop_soon(self, turn: str) -> None:
        """Stops the `turn` without waiting for it."""
        self._background.start(partial(self.stop, turn))

    def cancel_soon(self, turn: OpenTurn) -> None:
        """Cancels the `turn`, whether it runs or waits, without waiting for it. One that has ended is left alone."""
        if self.turns.place(turn.id) >= 0:
            self._background.start(turn.cancel_in_time)

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
        self._prices.read_ready(ready)
        session = ready.session or self.session or self.options.session
        self.settings |= {"session": session, "model": ready.model, "mode": ready.mode}
        if offers := self._offers():
            await self._send(link, commands.Hello("polylect", offers=offers))
        for server in self.options.servers:
            await self._send(link, check(commands.AddServer(server)))
        if self._settings_to_send:
            await self._send(link, check(commands.Configure(self._settings_to_send)))
        if self._names.needs_file:
            state = await self._state(link)
            self._names.store(state.session, state.file)
        if self.options.caps_cost and await self._lacks_price(link):
            self._prices.accept_unpriced()
        if self.supervisor.in_new_session:
            await self._hand_over(link, session)
        elif self.options.resumed or self._has_prompt:
            await self._read_cost(link)

    async def _read_cost(self, link: Link) -> None:
        """Asks an engine that has resumed a session what that has cost, if it can be asked."""
        if self.can("query:cost"):
            with suppress(Refused, Unsupported):
                self.session_cost.start_at((await self._send(link, commands.Query("cost"))).total.cost)

    def _offers(self) -> dict[str, Any]:
        """What this program offers the engine. Raises Unsupported if the wire cannot carry it."""
        tools, hooks = self._tools.offers(direct=self.can("host_tools")), self.options.hooks.offers()
        if tools and not self.can("tools"):
            raise Unsupported(
                "this engine's wire carries no tools of the host: use polylect, claude, omp 18 or an MCP server"
            )
        if hooks and not self.can("hooks"):
            raise Unsupported("this engine's wire carries no hooks of the host: use polylect or claude")
        services = self._services.offers() if self._services else {}
        if services and not self.can("client_services"):
            raise Unsupported("this engine's wire carries no files and terminals of the host")
        return {**tools, **hooks, **services}

    async def _hand_over(self, link: Link, session: str) -> None:
        """Tells a new session what was said in the one before."""
        self.session_cost.begin_session()
        history = self._transcript.text if self.can("add_context") else ""
        if history:
            await self._send(link, commands.AddContext(history))
        context = "what was said before" if history else "nothing: this program does not know what was said before"
        self._deliver(SettingChanged("session", session))
        self._deliver(Notice(_NEW_SESSION.format(self._names.to_program(session), context), "warning"))

    async def _prompt(self, turn: OpenTurn, prompt: commands.Prompt) -> None:
        try:
            async with self._order:  # a prompt that has nothing to wait for does not overtake one that has
                if turn.caps_cost and await self._lacks_price():
                    if not self.options.allow_unpriced:
                        turn.refuse_unpriced()
                        return self.turns.leave(turn.id)
                    self._prices.accept_unpriced()
            link = None if turn.unwanted else await self._ensure_link()
            if link is None or turn.unwanted:  # it was cancelled before the engine was told of it
                return self._deliver(TurnEnded("cancelled", turn=turn.id))
            await self._send(link, prompt)
            self._has_prompt = True
        except BaseException:
            self.turns.leave(prompt.turn)
            raise

    async def _lacks_price(self, link: Link | None = None) -> bool:
        """Whether the engine does not know what its model costs. Before it is ready it is asked by its `link`."""
        state = partial(self._state, link) if link else self.state
        return await self._prices.lacking(state if self.can("query:state") else None)

    async def _state(self, link: Link) -> answers.State:
        return as_answer(answers.State, await self._send(link, commands.Query("state")))

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
        self._replies.fail(death)
        self.server_starts.fail(death)
        self.asks.clear()
        if self._services:
            self._services.forget_terminals()

    async def _send_again(self) -> None:
        for prompt in self.turns.sent:
            try:
                await self.send(prompt)
            except HostError as error:
                failure = Failure("engine_gone", str(error), "engine")
                self._deliver(TurnEnded("error", failure=failure, turn=prompt.turn))

    def _receive(self, event: Event) -> None:
        match event:
            case Reply(failure=Failure(code="engine_gone")) if not self._relay:
                return  # `_fail_commands` follows, and says how the engine ended
            case Reply() if self._replies.receive(event):
                return
            case HostCall(call) if not self._relay:
                self._background.start(partial(self._work, event), call)
            case HostCallEnded(call):
                self._background.cancel_named(call)
            case Ask() if not self._relay:
                event = self._bind_ask(event)
            case AskClosed(ask):
                self.asks.pop(ask, None)
            case ServerChanged():
                self.server_starts.receive(event)
            case SettingChanged(key, value):
                self.settings[key] = value
                self._prices.read_setting(key, value)
            case CostChanged(total):
                self.session_cost.set_total(total)
            case TurnEnded(failure=Failure("engine_gone")):
                again = self.supervisor.restarts > 0
                event = replace(event, failure=Failure("engine_gone", str(self.death()), "engine", retryable=again))
        self._deliver(event)

    def _bind_ask(self, event: Ask) -> HostAsk:
        ask = self.asks[event.ask] = bind(event, self)
        policy = self.options.approve
        turns = [turn for turn in self.turns if turn.attended and event.turn in ("", turn.id)]
        if policy is None and not turns and not self._listeners:
            policy = deny_all
        if policy is not None:
            self._background.start(partial(decide, policy, ask))
        return ask

    def _deliver(self, event: Event) -> None:
        self._answer_watch.receive(event.turn, ended=isinstance(event, TurnEnded))
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
        if self._services and self._services.serves(call.method):
            return await self._serve(self._services, call)
        result, error = await (self.options.hooks if call.method == "hook" else self._tools).run(call)
        await self.send(commands.HostReply(call.call, result, error))

    async def _serve(self, services: "ClientServices", call: HostCall) -> None:
        """Answers a call for a file or a terminal. A terminal that the engine does not hear of is released."""
        try:
            result = await services.handle(call.method, call.params)
        except ServiceFault as fault:
            await self.send(commands.HostReply(call.call, error=str(fault), code=fault.code))
            return
        try:
            await self.send(commands.HostReply(call.call, result))
        except BaseException:
            await services.undo(call.method, result)
            raise

    def death(self) -> EngineDied:
        """Why the engine is gone."""
        return self.supervisor.death()


def as_answer(kind: type[Value], data: Any) -> Value:
    """Returns the `data` of a reply as a value of this `kind`; some codecs answer with plain dicts."""
    return data if isinstance(data, kind) else kind(**data) if isinstance(data, dict) else data
