"""Questions that change nothing, and their answers; vocab/answers.py has a table of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from polylect.vocab.answers import State, Stats
from polylect.vocab.content import Failure, Message

if TYPE_CHECKING:
    from polylect.engine.engine import Engine


class Refused(Exception):
    """A question that cannot be answered."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


Args = Mapping[str, Any]


def _state(engine: Engine, args: Args) -> State:
    settings, session = engine.settings, engine.agent.session
    return State(
        session=session.id,
        model=settings.model,
        mode=settings.mode,
        thinking=str(settings.thinking) if settings.thinking else "",
        busy=bool(engine.turns.running),
        compacting=engine.turns.busy and not engine.turns.running,
        queued=engine.turns.waiting,
        messages=len(session.messages),
    )


def _messages(engine: Engine, args: Args) -> list[Message]:
    return list(engine.agent.session.messages)


def _stats(engine: Engine, args: Args) -> Stats:
    return engine.agent.session.stats()


def _servers(engine: Engine, args: Args) -> list[Any]:
    return list(engine.servers.status()) if engine.servers else []


QUERIES: dict[str, Callable[[Engine, Args], Any]] = {
    "state": _state,
    "messages": _messages,
    "stats": _stats,
    "servers": _servers,
}
