"""Questions that change nothing, and their answers; vocab/answers.py has a table of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from polylect import __version__
from polylect.engine import thinking
from polylect.engine.compact import estimate
from polylect.engine.prompt import system_prompt
from polylect.engine.recall import Recalled
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
from polylect.vocab.content import Failure, Rule
from polylect.vocab.errors import SessionError
from polylect.vocab.ports import Library

if TYPE_CHECKING:
    from polylect.engine.engine import Engine


class Refused(Exception):
    """A question that cannot be answered."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


Args = Mapping[str, Any]


def _state(engine: Engine, args: Args) -> State:
    """What was set for after the turn at hand counts as set."""
    (settings, provider), session = engine.changes.planned, engine.agent.session
    return State(
        session=session.id,
        model=settings.model,
        mode=settings.mode,
        thinking=thinking.current(settings, engine.changes.info(provider, settings.model)),
        busy=bool(engine.turns.running),
        compacting=engine.agent.compactor.running,
        queued=engine.turns.waiting + len(engine.agent.steers),
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
    """What is known of a model, also if nobody lists it."""
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
    """Parts by their length; the whole as the service told it, where it has."""
    agent = engine.agent
    settings, session = agent.settings, agent.session
    system = system_prompt(settings.workspace, settings.system_prompt, session.contexts)
    specs = [tool.spec for tool in agent.tools.values() if not getattr(tool, "deferred", False)]
    parts = (
        ContextPart("system prompt", len(system) // 4),
        ContextPart("tools", len(msgspec.json.encode(specs)) // 4),
        ContextPart("messages", sum(map(estimate, session.context()))),
    )
    used = agent.compactor.used() if agent.compactor.told else sum(part.tokens for part in parts)
    return ContextReport(used, agent.provider.info(settings.model).window, parts)


# Sessions.


def _fork_points(engine: Engine, args: Args) -> tuple[ForkPoint, ...]:
    return tuple(Recalled(engine.agent.session.store.entries).fork_points())


def _sessions(engine: Engine, args: Args) -> tuple[SessionCard, ...]:
    return tuple(_library(engine).sessions(str(args.get("cwd") or "")))


def _export(engine: Engine, args: Args) -> Exported:
    try:
        return Exported(_library(engine).export(engine.agent.session.store, str(args.get("path") or "")))
    except SessionError as error:
        raise Refused(Failure("session", str(error), "host")) from None


def _library(engine: Engine) -> Library:
    if engine.agent.library is None:
        raise Refused(Failure("session", "sessions are not kept here, so there is none to list or to export", "host"))
    return engine.agent.library


# What there is to work with.


def _servers(engine: Engine, args: Args) -> tuple[ServerCard, ...]:
    return tuple(engine.offers.servers())


def _commands(engine: Engine, args: Args) -> tuple[CommandCard, ...]:
    return tuple(engine.offers.commands())


def _agents(engine: Engine, args: Args) -> tuple[AgentCard, ...]:
    return engine.crew.cards


def _tools(engine: Engine, args: Args) -> tuple[str, ...]:
    return tuple(engine.agent.tools)


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
    "tools": _tools,
    "rules": _rules,
    "version": _version,
}
