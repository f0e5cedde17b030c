"""The same API for programs without an event loop.

with connect("polylect", provider="scripted", approve=allow_all) as agent:
    for event in agent.prompt("Tidy the imports"):
        ...
    print(agent.ask("Sum it up").text)
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Self, TypeVar

from polylect.host import agent as anyone
from polylect.host import asking, connecting
from polylect.host.turn import Result, Turn
from polylect.vocab import answers
from polylect.vocab.commands import Command
from polylect.vocab.content import Server
from polylect.vocab.events import Event

Value = TypeVar("Value")


class SyncTurn:
    """Iterate over its events, or `wait()` for its result; `result` is what is known of it so far."""

    def __init__(self, owner: "SyncAgent", turn: Turn) -> None:
        self._owner = owner
        self._turn = turn

    def __iter__(self) -> Iterator[Event]:
        while (event := self._owner.wait(_next(self._turn))) is not None:
            yield _SyncAsk.of(event, self._owner) if isinstance(event, asking.Ask) else event

    def wait(self) -> Result:
        return self._owner.wait(_finished(self._turn))

    @property
    def result(self) -> Result:
        return self._turn.result

    def cancel(self) -> None:
        self._owner.wait(self._turn.cancel())


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

    def can(self, *words: str) -> bool:
        return self._agent.can(*words)

    def prompt(self, text: str, **details: Any) -> SyncTurn:
        return SyncTurn(self, self._agent.prompt(text, **details))

    def ask(self, text: str, **details: Any) -> Result:
        return self.wait(self._agent.ask(text, **details))

    def steer(self, text: str, *, last: bool = False) -> None:
        self.wait(self._agent.steer(text, last=last))

    def follow_up(self, text: str) -> None:
        self.steer(text, last=True)

    def cancel(self) -> None:
        self.wait(self._agent.cancel())

    def configure(self, **settings: Any) -> Any:
        return self.wait(self._agent.configure(**settings))

    def add_context(self, text: str) -> None:
        self.wait(self._agent.add_context(text))

    def add_server(self, server: Server) -> None:
        self.wait(self._agent.add_server(server))

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
        """Do anything of the asynchronous API and wait for it; Ctrl-C ends the waiting."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def connect(engine: Any, **options: Any) -> SyncAgent:
    """As `polylect.host.connect`, to be entered with `with`."""
    return SyncAgent(connecting.connect(engine, **options))


class _SyncAsk(asking.Ask, frozen=True, tag="ask"):
    """A question whose answers are given without `await`."""

    owner: Any = None

    @classmethod
    def of(cls, ask: asking.Ask, owner: SyncAgent) -> "_SyncAsk":
        return cls(**{name: getattr(ask, name) for name in asking.Ask.__struct_fields__}, owner=owner)

    def allow(self, **details: Any) -> None:  # type: ignore[override]
        self.owner.wait(super().allow(**details))

    def deny(self, reason: str = "", **details: Any) -> None:  # type: ignore[override]
        self.owner.wait(super().deny(reason, **details))

    def answer(self, value: Any) -> None:  # type: ignore[override]
        self.owner.wait(super().answer(value))


async def _next(turn: Turn) -> Event | None:
    return await anext(turn, None)


async def _finished(turn: Turn) -> Result:
    return await turn
