"""One API for every engine: what a host says, hears and is asked."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Self, TypeVar
from weakref import WeakSet, WeakValueDictionary, finalize

from msgspec.structs import replace

from polylect.host import asking
from polylect.host.asking import Policy
from polylect.host.backlog import Backlog
from polylect.host.errors import EngineDied, Refused, Unsupported
from polylect.host.link import Link, new_id
from polylect.host.offering import HostTool, Offers, tool
from polylect.host.shaping import ask_for_value
from polylect.host.turn import Limits, Result, Turn
from polylect.host.words import UNSAID
from polylect.vocab import answers
from polylect.vocab.commands import (
    AddContext,
    AddServer,
    Answer,
    Cancel,
    Command,
    Compact,
    Configure,
    Hello,
    HostReply,
    OpenSession,
    Prompt,
    Query,
    RunShell,
    Steer,
)
from polylect.vocab.content import Attachment, Failure, File, Server
from polylect.vocab.events import Ask, AskClosed, CostChanged, Event, HostCall, Ready, Reply, SettingChanged, TurnEnded

_log = logging.getLogger(__name__)
Value = TypeVar("Value")


class Agent:
    """Made by `connect`; starts its engine on entering and ends it on leaving. Belongs to one event loop."""

    def __init__(
        self,
        make_link: Callable[[str], Link],
        *,
        approve: Policy | None = None,
        tools: Sequence[HostTool | Callable[..., Any]] = (),
        servers: Sequence[Server] = (),
        settings: Mapping[str, Any] | None = None,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        ready_within: float = 30.0,
        restarts: int = 0,
        resumed: bool = False,
    ) -> None:
        self._make_link = make_link
        """Given the session to go on with, or nothing."""
        self._approve = approve
        self._offers = Offers([each if isinstance(each, HostTool) else tool(each) for each in tools])
        self._servers = servers
        self._first_settings = dict(settings or {})
        self._limits = limits
        self._ready_within = ready_within
        self._restarts = restarts
        self._turns: WeakValueDictionary[str, Turn] = WeakValueDictionary()
        self._listeners: WeakSet[Backlog] = WeakSet()
        self._replies: dict[str, asyncio.Future[Reply]] = {}
        self._asks: dict[str, asking.Ask] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._death: EngineDied | None = None
        self._link: Link | None = None
        self.cost: float | None = None if resumed else 0.0
        """Dollars for the session so far, if they are known."""
        self._costs_told = False
        self._spoken = False
        """Something was said in the session, so there is one to go on with."""
        self.ready = Ready()
        """What the engine said of itself."""
        self.settings: dict[str, Any] = {}
        """What it has said about itself since: `session`, `model`, `mode`, `name` ..."""

    async def __aenter__(self) -> Self:
        await self._connect("")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Who it is.

    @property
    def pid(self) -> int:
        """The engine's process."""
        return self._link.pid if self._link else 0

    @property
    def session(self) -> str:
        return str(self.settings.get("session") or "")

    @property
    def asks(self) -> Sequence[asking.Ask]:
        """Questions that wait for an answer."""
        return tuple(self._asks.values())

    def can(self, *words: str) -> bool:
        """Whether this engine's wire has these words: "steer", "compact", "shell", "new_session", "query:state" ..."""
        return self._link is not None and all(map(self._link.can, words))

    # Talking.

    def prompt(
        self,
        text: str,
        *,
        files: Sequence[str] = (),
        attachments: Sequence[Attachment] = (),
        limits: Limits | None = None,
        busy: Literal["queue", "refuse", "interrupt"] = "queue",
    ) -> Turn:
        """Begin a turn: read it by `async for`, or `await` its result."""
        attached = (*map(File, files), *attachments)
        return Turn(self, Prompt(new_id(), text, attached, busy), limits or self._limits)

    async def ask(self, text: str, *, schema: Any = None, **details: Any) -> Result:
        """The answer to a prompt. What would have to be approved is denied unless `approve` was given to `connect`.

        With a `schema`, a type that msgspec knows or a JSON Schema, `.value` is an answer that fits it. Raises
        TurnFailed if the turn ends otherwise than by itself, SchemaNotMet if the answer does not fit.
        """
        return await ask_for_value(self, text, schema, **details)

    async def steer(self, text: str, *, last: bool = False) -> None:
        """Say something to the turn that runs, soon or before it would end."""
        word = "follow_up" if last else "steer"
        if not self.can(word):
            raise Unsupported(f"this wire has no word for {word!r}: send a prompt, which waits for its turn")
        await self.send(Steer(text, when="last" if last else "soon"))

    async def follow_up(self, text: str) -> None:
        await self.steer(text, last=True)

    async def cancel(self, *, queued: Literal["keep", "drop"] = "drop") -> None:
        """Stop the turn that runs. Nothing happens if none does."""
        await self.send(Cancel(queued=queued))

    # Settings, sessions, servers.

    async def configure(self, **settings: Any) -> Any:
        """Change the `model`, `mode`, `thinking` ... for what follows."""
        return await self.send(Configure(settings))

    async def add_context(self, text: str) -> None:
        await self.send(AddContext(text))

    async def add_server(self, server: Server) -> None:
        await self.send(AddServer(server))

    async def compact(self, instructions: str = "") -> None:
        await self.send(Compact(instructions, busy="interrupt"))

    async def shell(self, command: str) -> answers.ShellResult:
        """Run a command of the user's own in the engine's workspace; the model will be told of it."""
        return _of(answers.ShellResult, await self.send(RunShell(command)))

    async def new_session(self) -> answers.SessionOpened:
        return _of(answers.SessionOpened, await self.send(OpenSession("new")))

    async def resume(self, session: str) -> answers.SessionOpened:
        return _of(answers.SessionOpened, await self.send(OpenSession("resume", session)))

    async def fork(self, at: str = "") -> answers.SessionOpened:
        """Go another way from before the message `at`, one of `fork_points`; without one, from here."""
        return _of(answers.SessionOpened, await self.send(OpenSession("fork", at=at)))

    async def query(self, what: str, **args: Any) -> Any:
        """Anything that vocab/answers.py lists: `state`, `stats`, `models`, `messages`, `sessions` ..."""
        return await self.send(Query(what, args))

    async def state(self) -> answers.State:
        return _of(answers.State, await self.query("state"))

    # Everything, as it comes.

    async def events(self) -> AsyncIterator[Event]:
        """All that the engine says from now on, whatever turn it belongs to. Ends with the engine."""
        backlog = Backlog()
        self._listeners.add(backlog)
        while (event := await backlog.get()) is not None:
            yield event

    async def send(self, command: Command) -> Any:
        """Say any command and wait for its one answer. Raises Unsupported, Refused or EngineDied."""
        link = await self._alive()
        command = replace(command, ref=command.ref or new_id())
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[command.ref] = answer
        for event in link.send(command):
            self._hear(event)
        await link.drain()
        reply = await answer
        if reply.failure is None:
            return reply.data
        if reply.failure.code in UNSAID:
            raise Unsupported(f"{reply.failure.message} (agent.can tells ahead what an engine's wire has words for)")
        raise Refused(reply.failure)

    async def close(self) -> int:
        """Bounded: the engine has a few seconds to end by itself. Returns its exit code."""
        self._restarts = 0
        for chore in self._chores:
            chore.cancel()
        return await self._link.close() if self._link else 0

    # For turns and asks.

    async def begin(self, turn: Turn, prompt: Prompt) -> None:
        self._turns[turn.id] = turn
        loop = asyncio.get_running_loop()
        finalize(turn, _later, loop, self.unattended, turn.id).atexit = False
        await self.send(prompt)
        self._spoken = True

    def unattended(self, turn: str) -> None:
        """Nobody reads this turn any more: what it has asked is denied, unless somebody listens to everything."""
        for ask in self._asks.values() if not self._listeners and self._approve is None else ():
            if ask.turn == turn:
                self._do(partial(asking.decide, asking.deny_all, ask))

    async def reply_to(self, answer: Answer) -> None:
        self._asks.pop(answer.ask, None)
        await self.send(answer)

    def cost_since(self, before: float | None) -> float | None:
        """Dollars that the session has cost since it had cost so much. None if that is not known."""
        return None if before is None or self.cost is None or not self._costs_told else round(self.cost - before, 9)

    def stop_soon(self) -> None:
        self._do(self.cancel)

    # The connection.

    async def _connect(self, session: str) -> None:
        self._death = None
        self._waiting: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        link = self._make_link(session)
        await link.open(self._hear, self._gone)
        self._link = link
        try:
            async with asyncio.timeout(self._ready_within):
                self.ready = await self._waiting
            self.settings |= {"session": self.ready.session, "model": self.ready.model, "mode": self.ready.mode}
            await self._introduce()
        except TimeoutError:
            await self.close()
            raise link.death(f"was not ready within {self._ready_within:g} s and was ended") from None
        except BaseException:
            await self.close()
            raise

    async def _introduce(self) -> None:
        if offers := self._offers.told():
            if not self.can("tools"):
                raise Unsupported(
                    "this engine's wire carries no tools of the host: use claude, omp 18 or an MCP server"
                )
            await self.send(Hello("polylect", offers=offers))
        for server in self._servers:
            await self.send(AddServer(server))
        if self._first_settings:
            await self.send(Configure(self._first_settings))

    async def _alive(self) -> Link:
        """An engine that has died is started again, as often as was agreed, and goes on with its session."""
        if self._link is None:
            raise EngineDied("the engine was never started: use `async with`")
        await self._link.look()
        if self._death is None:
            return self._link
        if not self._restarts:
            raise self._death
        self._restarts -= 1
        _log.warning("%s: starting it again", self._death)
        await self._link.close()
        await self._connect(self.session if self._spoken else "")
        return self._link

    def _gone(self, death: EngineDied) -> None:
        """Nobody waits for an engine that is gone."""
        self._death = death
        waiters: list[asyncio.Future[Any]] = [self._waiting, *self._replies.values()]
        for waiting in waiters:
            if not waiting.done():
                waiting.set_exception(death)
                waiting.exception()  # not everyone who asked still waits
        self._replies.clear()
        self._asks.clear()
        for turn in list(self._turns.values()):
            turn.fail(death)
        self._turns.clear()
        for listener in list(self._listeners):
            listener.end()

    def _hear(self, event: Event) -> None:
        match event:
            case Reply(ref) if ref in self._replies:
                answer = self._replies.pop(ref)
                if not answer.done():
                    answer.set_result(event)
                return
            case Ready() if not self._waiting.done():
                self._waiting.set_result(event)
            case HostCall():
                self._do(partial(self._work, event))
            case Ask():
                event = self._asked(event)
            case AskClosed(ask):
                self._asks.pop(ask, None)
            case SettingChanged(key, value):
                self.settings[key] = value
            case CostChanged(total):
                self.cost = total.cost
                self._costs_told = True
            case TurnEnded(failure=Failure("engine_gone")) if self._link:
                why = Failure("engine_gone", str(self._link.death()), "engine", retryable=self._restarts > 0)
                event = replace(event, failure=why)
        self._deliver(event)

    def _asked(self, event: Ask) -> asking.Ask:
        ask = self._asks[event.ask] = asking.bound(event, self)
        policy = self._approve
        turns = [turn for turn in self._turns.values() if turn.attended and event.turn in ("", turn.id)]
        if policy is None and not turns and not self._listeners:
            policy = asking.deny_all
        if policy is not None:
            self._do(partial(asking.decide, policy, ask))
        return ask

    def _deliver(self, event: Event) -> None:
        turn = self._turns.get(event.turn)
        if turn is not None:
            turn.hear(event)
            if isinstance(event, TurnEnded):
                self._turns.pop(event.turn, None)
        elif not event.turn:
            for each in list(self._turns.values()):
                each.hear(event)
        for listener in list(self._listeners):
            listener.put(event)

    async def _work(self, call: HostCall) -> None:
        result, error = await self._offers.run(call)
        await self.send(HostReply(call.call, result, error))

    def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(self._quietly(work))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def _quietly(self, work: Callable[[], Awaitable[None]]) -> None:
        """An answer may come too late: the question is closed, the engine gone."""
        with suppress(EngineDied, Refused, Unsupported):
            await work()

    def death(self) -> EngineDied:
        """Why the engine is gone."""
        return self._death or (self._link.death() if self._link else EngineDied("the engine was never started"))


def _later(loop: asyncio.AbstractEventLoop, act: Callable[[str], None], turn: str) -> None:
    with suppress(RuntimeError):  # the loop has ended, and everything with it
        loop.call_soon_threadsafe(act, turn)


def _of(kind: type[Value], data: Any) -> Value:
    return data if isinstance(data, kind) else kind(**data) if isinstance(data, dict) else data
