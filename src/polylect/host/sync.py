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
from typing import Any, Literal, ParamSpec, Self, TypeVar

from polylect.host import agent as anyone
from polylect.host import asks, connecting, sessions
from polylect.host.limits import Limits
from polylect.host.server_starts import BOUND as SERVER_BOUND
from polylect.host.turn import Result, Turn
from polylect.vocab import answers
from polylect.vocab.commands import Command
from polylect.vocab.content import Attachment, Server
from polylect.vocab.events import Event, Ready

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")
_WHEN = "there is no engine outside of the block: use `with connect(...) as agent`"
_WHERE = "a policy or tool is called where the agent lives and cannot wait for it: make it `async`, with the async API"


class SyncTurn:
    """Iterate over its events, or `wait()` for its result; `result` is what is known of it so far."""

    def __init__(self, owner: "SyncAgent", turn: Turn) -> None:
        self._owner = owner
        self._turn = turn

    def __iter__(self) -> Iterator[Event]:
        return self._owner.read(aiter(self._turn))

    def wait(self) -> Result:
        return self._owner.wait(_finished(self._turn))

    @property
    def result(self) -> Result:
        return self._turn.result

    @property
    def id(self) -> str:
        return self._turn.id

    def cancel(self) -> None:
        self._owner.wait(self._turn.cancel())

    def steer(self, text: str, *, last: bool = False) -> None:
        self._owner.wait(self._turn.steer(text, last=last))


class SyncAgent:
    """An `Agent` whose loop runs in a thread of its own; entered with `with`. Waits for as long as the engine takes."""

    def __init__(self, agent: anyone.Agent) -> None:
        self._agent = agent
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="polylect-host", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.wait(self._agent.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.wait(self._agent.close())
        finally:
            self._stop()

    @property
    def pid(self) -> int:
        return self._agent.pid

    @property
    def session(self) -> str:
        return self._agent.session

    @property
    def ready(self) -> Ready:
        return self._agent.ready

    @property
    def settings(self) -> dict[str, Any]:
        return self._agent.settings

    @property
    def cost(self) -> float | None:
        return self._agent.cost

    @property
    def asks(self) -> Sequence["SyncAsk"]:
        return tuple(SyncAsk.of(ask, self) for ask in self._agent.asks)

    def can(self, *words: str) -> bool:
        return self._agent.can(*words)

    def prompt(
        self,
        text: str,
        *,
        files: Sequence[str | os.PathLike[str]] = (),
        attachments: Sequence[Attachment] = (),
        limits: Limits | None = None,
        busy: Literal["queue", "refuse", "interrupt"] = "queue",
    ) -> SyncTurn:
        turn = self._agent.prompt(text, files=files, attachments=attachments, limits=limits, busy=busy)
        return SyncTurn(self, turn)

    def ask(
        self,
        text: str,
        *,
        schema: Any = None,
        files: Sequence[str | os.PathLike[str]] = (),
        attachments: Sequence[Attachment] = (),
        limits: Limits | None = None,
    ) -> Result:
        return self.wait(self._agent.ask(text, schema=schema, files=files, attachments=attachments, limits=limits))

    def events(self) -> Iterator[Event]:
        return self.read(self.wait(_events(self._agent)))

    def steer(self, text: str, *, last: bool = False) -> None:
        self.wait(self._agent.steer(text, last=last))

    def follow_up(self, text: str) -> None:
        self.steer(text, last=True)

    def cancel(self, *, queued: Literal["keep", "drop"] = "drop") -> None:
        self.wait(self._agent.cancel(queued=queued))

    def configure(self, **settings: Any) -> Any:
        return self.wait(self._agent.configure(**settings))

    def add_context(self, text: str) -> None:
        self.wait(self._agent.add_context(text))

    def add_server(self, server: Server, *, within: float = SERVER_BOUND) -> None:
        self.wait(self._agent.add_server(server, within=within))

    def compact(self, instructions: str = "") -> None:
        self.wait(self._agent.compact(instructions))

    def shell(self, command: str) -> answers.ShellResult:
        return self.wait(self._agent.shell(command))

    def new_session(self) -> answers.SessionOpened:
        return self.wait(self._agent.new_session())

    def resume(self, session: str) -> answers.SessionOpened:
        return self.wait(self._agent.resume(session))

    def fork(self, at: str = "") -> answers.SessionOpened:
        return self.wait(self._agent.fork(at))

    def send(self, command: Command) -> Any:
        return self.wait(self._agent.send(command))

    def state(self) -> answers.State:
        return self.wait(self._agent.state())

    def query(self, what: str, **args: Any) -> Any:
        return self.wait(self._agent.query(what, **args))

    def wait(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Do anything of the asynchronous API and wait for it; Ctrl-C ends the waiting, and what was waited for."""
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(_WHERE if self._thread.is_alive() else _WHEN)
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

    def close(self) -> None:
        """What leaving the block does; after it there is no engine."""
        if self._thread.is_alive():
            self.__exit__()

    def _stop(self) -> None:
        asyncio.run_coroutine_threadsafe(_stop_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _as(model: Callable[Arguments, object]) -> Callable[[Callable[..., Value]], Callable[Arguments, Value]]:
    """The same arguments, for those who check types and for editors."""
    return wraps(model, ())


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

    owner: Any = None

    @classmethod
    def of(cls, ask: asks.Ask, owner: SyncAgent) -> "SyncAsk":
        return cls(**{name: getattr(ask, name) for name in asks.Ask.__struct_fields__}, owner=owner)

    def allow(self, **details: Any) -> None:  # type: ignore[override]
        self.owner.wait(super().allow(**details))

    def deny(self, reason: str = "", **details: Any) -> None:  # type: ignore[override]
        self.owner.wait(super().deny(reason, **details))

    def answer(self, value: Any) -> None:  # type: ignore[override]
        self.owner.wait(super().answer(value))


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
