"""The same API for programs without an event loop.

with connect("polylect", provider="scripted", approve=allow_all) as agent:
    for event in agent.prompt("Tidy the imports"):
        ...
    print(agent.ask("Sum it up").text)
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from polylect.host import agent as anyone
from polylect.host import asks, connecting, sessions
from polylect.host.errors import WrongState
from polylect.host.results import Result
from polylect.host.turn import Turn, no_attribute
from polylect.vocab import answers
from polylect.vocab.events import Event, Ready

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")
_WHEN = "there is no engine outside of the block: use `with connect(...) as agent`"
_WHERE = "a policy or tool is called where the agent lives and cannot wait for it: make it `async`, with the async API"


def _as(model: Callable[Arguments, object]) -> Callable[[Callable[..., Value]], Callable[Arguments, Value]]:
    """The same arguments, for those who check types and for editors."""
    return wraps(model, ())


def _like(
    model: Callable[Concatenate[anyone.Agent, Arguments], object],
) -> Callable[[Callable[..., Value]], Callable[Concatenate["SyncAgent", Arguments], Value]]:
    """The same arguments as a method of the agent."""
    return wraps(model, ())


def _waiting(
    method: Callable[Concatenate[anyone.Agent, Arguments], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate["SyncAgent", Arguments], Value]:
    """A method of the agent, as one that waits until it is done."""

    @wraps(method)
    def wait(self: "SyncAgent", /, *args: Arguments.args, **options: Arguments.kwargs) -> Value:
        return self._loop.wait(method(self._agent, *args, **options))

    return wait


class _LoopThread:
    """An event loop in a thread of its own, in which an agent lives. There is none before `start`."""

    def __init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="polylect-host", daemon=True)

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        if self._thread.ident is not None:
            raise WrongState("an agent can be entered once: `connect` makes another one")
        self._loop = asyncio.new_event_loop()
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_forever()

    def wait(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Do anything of the asynchronous API and wait for it; Ctrl-C ends the waiting, and what was waited for."""
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            work.close()
            raise WrongState(_WHERE if self._thread.is_alive() else _WHEN)
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result()
        except BaseException:
            doing.cancel()
            raise

    def read(self, events: AsyncIterator[Event]) -> Iterator[Event]:
        """Whoever leaves early has left, as in an asynchronous loop."""
        try:
            while (event := self.wait(_next(events))) is not None:
                yield SyncAsk.of(event, self) if isinstance(event, asks.Ask) else event
        finally:
            if self._thread.is_alive() and isinstance(events, AsyncGenerator):
                self.wait(_closed(events))

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(_stop_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncTurn:
    """Iterate over its events, or `wait()` for its result; `result` is what is known of it so far."""

    def __init__(self, loop: _LoopThread, turn: Turn) -> None:
        self._loop = loop
        self._turn = turn

    def __iter__(self) -> Iterator[Event]:
        return self._loop.read(aiter(self._turn))

    def wait(self) -> Result:
        """Waits for its end and returns its result. What it asks is denied unless a policy answers."""
        return self._loop.wait(_finished(self._turn))

    @property
    def result(self) -> Result:
        return self._turn.result

    @property
    def id(self) -> str:
        return self._turn.id

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(name, "wait() for")

    def cancel(self) -> None:
        self._loop.wait(self._turn.cancel())

    def steer(self, text: str, *, last: bool = False) -> None:
        self._loop.wait(self._turn.steer(text, last=last))


class SyncAgent:
    """An `Agent` whose loop runs in a thread of its own; entered with `with`. Waits for as long as the engine takes."""

    def __init__(self, agent: anyone.Agent) -> None:
        self._agent = agent
        self._loop = _LoopThread()

    def __enter__(self) -> Self:
        self._loop.start()
        try:
            self._loop.wait(self._agent.__aenter__())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if not self._loop.runs:  # `close` was called inside of the block
            return
        try:
            self._loop.wait(self._agent.__aexit__(kind))
        finally:
            self._loop.stop()

    @property
    def pid(self) -> int:
        return self._agent.pid

    @property
    def session_id(self) -> str:
        """As `Agent.session_id`."""
        return self._agent.session_id

    @property
    def session(self) -> str:
        """The same as `session_id`."""
        return self._agent.session_id

    @property
    def ready(self) -> Ready:
        return self._agent.ready

    @property
    def settings(self) -> Mapping[str, Any]:
        return self._agent.settings

    @property
    def cost(self) -> float | None:
        return self._agent.cost

    @property
    def asks(self) -> Sequence["SyncAsk"]:
        return tuple(SyncAsk.of(ask, self._loop) for ask in self._agent.asks)

    def can(self, *words: str) -> bool:
        return self._agent.can(*words)

    @_like(anyone.Agent.prompt)
    def prompt(self, *text: Any, **options: Any) -> SyncTurn:
        """As `Agent.prompt`."""
        return SyncTurn(self._loop, self._agent.prompt(*text, **options))

    ask = _waiting(anyone.Agent.ask)
    steer = _waiting(anyone.Agent.steer)
    follow_up = _waiting(anyone.Agent.follow_up)
    cancel = _waiting(anyone.Agent.cancel)
    add_context = _waiting(anyone.Agent.add_context)
    add_server = _waiting(anyone.Agent.add_server)
    compact = _waiting(anyone.Agent.compact)
    shell = _waiting(anyone.Agent.shell)
    new_session = _waiting(anyone.Agent.new_session)
    resume = _waiting(anyone.Agent.resume)
    fork = _waiting(anyone.Agent.fork)
    send = _waiting(anyone.Agent.send)
    state = _waiting(anyone.Agent.state)

    def configure(self, **settings: Any) -> Any:
        return self._loop.wait(self._agent.configure(**settings))

    def query(self, what: str, **args: Any) -> Any:
        return self._loop.wait(self._agent.query(what, **args))

    def events(self) -> Iterator[Event]:
        return self._loop.read(self._loop.wait(_events(self._agent)))

    def close(self) -> None:
        """What leaving the block does; after it there is no engine."""
        self.__exit__(None)


@_as(connecting.connect)
def connect(*engine: Any, **options: Any) -> SyncAgent:
    """As `polylect.host.connect`, to be entered with `with`."""
    return SyncAgent(connecting.connect(*engine, **options))


def list_sessions(
    engine: str = "polylect", *, cwd: str | os.PathLike[str] = ".", env: Mapping[str, str] | None = None
) -> list[answers.SessionCard]:
    """As `polylect.host.list_sessions`."""
    return asyncio.run(sessions.list_sessions(engine, cwd=cwd, env=env))


class SyncAsk(asks.Ask, frozen=True, tag="ask"):
    """A question whose answers are given without `await`."""

    loop: Any = None

    @classmethod
    def of(cls, ask: asks.Ask, loop: _LoopThread) -> "SyncAsk":
        return cls(**{name: getattr(ask, name) for name in asks.Ask.__struct_fields__}, loop=loop)

    def allow(self, **details: Any) -> None:  # type: ignore[override]
        self.loop.wait(super().allow(**details))

    def deny(self, reason: str = "", **details: Any) -> None:  # type: ignore[override]
        self.loop.wait(super().deny(reason, **details))

    def answer(self, value: Any) -> None:  # type: ignore[override]
        self.loop.wait(super().answer(value))


Ask = SyncAsk
"""For `match`: what an agent of this module asks."""


async def _next(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)


async def _closed(events: AsyncGenerator[Event, None]) -> None:
    await events.aclose()


async def _events(agent: anyone.Agent) -> AsyncIterator[Event]:
    return agent.events()


async def _finished(turn: Turn) -> Result:
    return await turn


async def _stop_all() -> None:
    """Nobody is left to wait for what still waits."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
