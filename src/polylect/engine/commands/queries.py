"""Queries: questions of the host that change nothing.

`QUERIES` maps each name to a function; `vocab/answers.py` has a table of the names and answers. A query that takes long
runs in the background, so that commands are served meanwhile (L4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from polylect import __version__
from polylect.engine.commands.background import fault
from polylect.engine.subagents.personas import GENERAL
from polylect.engine.turn import thinking
from polylect.engine.turn.compaction import estimate
from polylect.sessions.replay import Replay
from polylect.system.threads import run_in_thread
from polylect.vocab.answers import (
    AgentCard,
    CommandCard,
    ContextPart,
    ContextReport,
    Exported,
    ForkPoint,
    Item,
    Ledger,
    ModelCard,
    Queue,
    ServerCard,
    SessionCard,
    State,
    Stats,
)
from polylect.vocab.commands import Query
from polylect.vocab.content import Failure, Rule
from polylect.vocab.errors import SessionError
from polylect.vocab.ports import Library

if TYPE_CHECKING:
    from polylect.engine.engine import Engine


class Refused(Exception):
    """A query that cannot be answered."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


Args = Mapping[str, Any]


def answer(engine: Engine, command: Query) -> None:
    """Answer a query now, or in the background if it takes long; if the host reads too slowly, once it has read."""
    if engine.agent.full():
        return engine.hold(command)
    answer = QUERIES.get(command.what)
    if answer is None:
        message = f"there is no {command.what!r} to ask for; ask for {', '.join(sorted(QUERIES))}"
        return engine.reply(command, failure=Failure("unsupported", message, "host"))
    try:
        data = answer(engine, command.args)
    except Exception as error:  # noqa: BLE001  (a question is answered, whatever our own code does)
        return engine.reply(command, failure=_why_not(error))
    if isinstance(data, Coroutine):
        return engine.background.start(_answer_later(engine, command, data))
    engine.reply(command, data)


async def _answer_later(engine: Engine, command: Query, work: Coroutine[None, None, Any]) -> None:
    data, failure = None, None
    try:
        data = await work
    except asyncio.CancelledError:
        failure = Failure("closing", "the engine ended before this was done", "engine")
    except Exception as error:  # noqa: BLE001  (as above)
        failure = _why_not(error)
    engine.reply(command, data, failure)


def _why_not(error: Exception) -> Failure:
    match error:
        case Refused():
            return error.failure
        case SessionError():
            return Failure("session", str(error), "host")
        case _:
            return fault(error)


def _state(engine: Engine, args: Args) -> State:
    """The state of the engine. Changes of settings that wait for the end of a turn count as made."""
    (settings, provider), session = engine.changes.planned, engine.agent.session
    return State(
        session=session.id,
        model=settings.model,
        mode=settings.mode,
        thinking=thinking.current(settings, engine.changes.info(provider, settings.model)),
        busy=bool(engine.turns.running),
        compacting=engine.agent.compactor.running,
        queued=engine.turns.waiting + len(engine.agent.steer_queue),
        messages=len(session.messages),
        name=session.name,
        provider=provider,
        card=_card(engine, provider, settings.model),
        file=session.store.file,
        steering_mode=settings.steering_mode,
        follow_up_mode=settings.follow_up_mode,
        interrupt_mode=settings.interrupt_mode,
        auto_compaction=settings.auto_compaction,
        auto_retry=settings.auto_retry,
    )


def _card(engine: Engine, provider: str, name: str) -> ModelCard | None:
    """What is known of a model, whether or not it is listed."""
    if not name:
        return None
    listed = [card for card in _models(engine, {}) if (card.provider, card.name) == (provider, name)]
    info = engine.changes.info(provider, name)
    return (
        listed[0]
        if listed
        else ModelCard(
            provider,
            name,
            window=info.window,
            max_output=info.max_output,
            thinking=info.thinking,
            effort_levels=info.effort_levels,
            images=info.images,
        )
    )


def _thinking_levels(engine: Engine, args: Args) -> tuple[str, ...]:
    settings, provider = engine.changes.planned
    return thinking.levels(engine.changes.info(provider, settings.model))


def _models(engine: Engine, args: Args) -> tuple[ModelCard, ...]:
    return tuple(engine.agent.models.cards()) if engine.agent.models else ()


# The conversation.


def _messages(engine: Engine, args: Args) -> tuple[Item, ...]:
    return engine.agent.session.items()


def _last_text(engine: Engine, args: Args) -> str | None:
    return engine.agent.session.last_text()


def _stats(engine: Engine, args: Args) -> Stats:
    return engine.agent.session.stats()


def _cost(engine: Engine, args: Args) -> Ledger:
    return Ledger(engine.agent.session.usage, tuple(engine.agent.session.ledger))


def _queue(engine: Engine, args: Args) -> Queue:
    return engine.turns.queue


def _context(engine: Engine, args: Args) -> ContextReport:
    """How full the model's window is: parts are estimated, the total is as the provider reported it."""
    agent = engine.agent
    system, tools = agent.prompt_tokens()
    parts = (
        ContextPart("system prompt", system),
        ContextPart("tools", tools),
        ContextPart("messages", sum(map(estimate, agent.session.context()))),
    )
    return ContextReport(agent.compactor.used(), agent.provider.info(agent.settings.model).window, parts)


# Sessions.


def _fork_points(engine: Engine, args: Args) -> tuple[ForkPoint, ...]:
    return tuple(Replay(engine.agent.session.store.entries).fork_points())


def _sessions(engine: Engine, args: Args) -> tuple[SessionCard, ...]:
    return tuple(_library(engine).sessions(str(args.get("cwd") or "")))


async def _export(engine: Engine, args: Args) -> Exported:
    """Runs in a thread, one at a time: long conversations take seconds (L4)."""
    library, store = _library(engine), engine.agent.session.store
    async with engine.background.threads:
        return Exported(await run_in_thread(library.export, store, str(args.get("path") or "")))


def _library(engine: Engine) -> Library:
    if engine.agent.library is None:
        raise Refused(Failure("session", "sessions are not kept here, so there is none to list or to export", "host"))
    return engine.agent.library


# What there is to work with.


def _servers(engine: Engine, args: Args) -> tuple[ServerCard, ...]:
    return tuple(engine.capabilities.servers())


def _commands(engine: Engine, args: Args) -> tuple[CommandCard, ...]:
    return tuple(engine.capabilities.commands())


def _agents(engine: Engine, args: Args) -> tuple[AgentCard, ...]:
    return engine.running_agents.cards


def _personas(engine: Engine, args: Args) -> tuple[CommandCard, ...]:
    """Agents that can be started, and what each is for."""
    described = [CommandCard(one.name, one.description) for one in engine.personas.values()]
    return (CommandCard(GENERAL, "For work that no other agent is made for."), *described)


def _tools(engine: Engine, args: Args) -> tuple[str, ...]:
    return tuple(engine.agent.usable())


def _rules(engine: Engine, args: Args) -> tuple[Rule, ...]:
    return tuple(engine.agent.rules)


def _version(engine: Engine, args: Args) -> str:
    return __version__


QUERIES: dict[str, Callable[[Engine, Args], Any]] = {
    "state": _state,
    "models": _models,
    "thinking_levels": _thinking_levels,
    "messages": _messages,
    "last_text": _last_text,
    "stats": _stats,
    "cost": _cost,
    "queue": _queue,
    "context": _context,
    "fork_points": _fork_points,
    "sessions": _sessions,
    "export": _export,
    "servers": _servers,
    "commands": _commands,
    "agents": _agents,
    "personas": _personas,
    "tools": _tools,
    "rules": _rules,
    "version": _version,
}
