"""Queries: questions of the host that change nothing.

`QUERIES` maps each name to a function; `vocab/answers.py` has a table of the names and answers. A query that takes long
runs in the background, so that commands are served meanwhile (L4).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from polylect import __version__
from polylect.engine.commands.background import fault
from polylect.engine.commands.context import CommandContext
from polylect.engine.commands.slash import command_cards
from polylect.engine.subagents.personas import GENERAL
from polylect.engine.turn import thinking
from polylect.engine.turn.compaction import estimate
from polylect.permissions.rules import is_below
from polylect.sessions.replay import Replay
from polylect.system.plain_files import read_resolved
from polylect.system.threads import run_in_thread
from polylect.vocab.answers import (
    CommandCard,
    ContextPart,
    ContextReport,
    Exported,
    FileContent,
    Item,
    Ledger,
    ModelCard,
    State,
    TaskOutput,
)
from polylect.vocab.commands import Query
from polylect.vocab.content import Failure
from polylect.vocab.errors import SessionError
from polylect.vocab.ports import Library

Args = Mapping[str, Any]
MOST_OF_A_FILE = 160 * 1024
"""Bytes that the query `file` returns if it names no number."""


def answer(context: CommandContext, command: Query) -> None:
    """Answer a query now, or in the background if it takes long; if the host reads too slowly, once it has read."""
    if context.agent.full():
        return context.held.hold_until_writable(command)
    answer = QUERIES.get(command.what)
    if answer is None:
        message = f"there is no {command.what!r} to ask for; ask for {', '.join(sorted(QUERIES))}"
        return context.reply(command, failure=Failure("unsupported", message, "host"))
    try:
        data = answer(context, command.args)
    except Exception as error:  # noqa: BLE001  (a question is answered, whatever our own code does)
        return context.reply(command, failure=_why_not(error))
    if isinstance(data, Coroutine):
        context.background.start(_answer_later(context, command, data))
    else:
        context.reply(command, data)


async def _answer_later(context: CommandContext, command: Query, work: Coroutine[None, None, Any]) -> None:
    data, failure = None, None
    try:
        data = await work
    except asyncio.CancelledError:
        failure = Failure("closing", "the engine ended before this was done", "engine")
    except Exception as error:  # noqa: BLE001  (as above)
        failure = _why_not(error)
    context.reply(command, data, failure)


def _why_not(error: Exception) -> Failure:
    return Failure("session", str(error), "host") if isinstance(error, SessionError) else fault(error)


def _state(context: CommandContext, args: Args) -> State:
    """The state of the context. Changes of settings that wait for the end of a turn count as made."""
    (settings, provider), session = context.changes.planned, context.agent.session
    return State(
        session=session.id,
        model=settings.model,
        mode=settings.mode,
        thinking=thinking.current(settings, context.changes.info(provider, settings.model)),
        busy=bool(context.turns.running),
        compacting=context.agent.compactor.running,
        queued=context.turns.waiting + len(context.agent.steer_queue),
        messages=len(session.messages),
        name=session.name,
        provider=provider,
        card=_card(context, provider, settings.model),
        file=session.store.file,
        steering_mode=settings.steering_mode,
        follow_up_mode=settings.follow_up_mode,
        interrupt_mode=settings.interrupt_mode,
        auto_compaction=settings.auto_compaction,
        auto_retry=settings.auto_retry,
        settled=context.turns.is_settled,
        background=context.running_agents.busy,
        context=context.agent.compactor.used() if context.agent.session.context() else 0,
        plan=tuple(context.agent.todos),
    )


def _card(context: CommandContext, provider: str, name: str) -> ModelCard | None:
    """What is known of a model, whether or not it is listed."""
    if not name:
        return None
    info = context.changes.info(provider, name)
    limits = (info.window, info.max_output, info.thinking, info.effort_levels, info.images)
    return context.changes.card(provider, name) or ModelCard(provider, name, "", "", *limits)


def _thinking_levels(context: CommandContext, args: Args) -> tuple[str, ...]:
    settings, provider = context.changes.planned
    return thinking.levels(context.changes.info(provider, settings.model))


def _context(context: CommandContext, args: Args) -> ContextReport:
    """How full the model's window is: parts are estimated, the total is as the provider reported it."""
    agent = context.agent
    system, tools = agent.prompt_tokens()
    parts = (
        ContextPart("system prompt", system),
        ContextPart("tools", tools),
        ContextPart("messages", sum(map(estimate, agent.session.context()))),
    )
    return ContextReport(agent.compactor.used(), agent.provider.info(agent.settings.model).window, parts)


async def _export(context: CommandContext, args: Args) -> Exported:
    """Runs in a thread, one at a time: long conversations take seconds (L4)."""
    library, store = _library(context), context.agent.session.store
    async with context.background.threads:
        return Exported(await run_in_thread(library.export, store, str(args.get("path") or "")))


async def _transcript(context: CommandContext, args: Args) -> str:
    """The conversation in Markdown; in a thread, as `_export`."""
    from polylect.sessions.formats import markdown  # 10 ms, and only for those who export
    from polylect.sessions.formats.conversation import conversation_of

    conversation = conversation_of(context.agent.session.store, context.agent.settings.workspace)
    async with context.background.threads:
        return (await run_in_thread(b"".join, markdown.pieces(conversation))).decode()


async def _file(context: CommandContext, args: Args) -> FileContent:
    """The content of a file, if the model could read it without a question."""
    agent, named, most = context.agent, str(args.get("path") or ""), int(args.get("most") or MOST_OF_A_FILE)
    try:
        path = agent.real_path(named)
        if not any(is_below(path, root) for root in agent.roots("info")) or agent.reading_fault(path):
            raise SessionError(f"read denied: {named[:200]}")
        data = await run_in_thread(read_resolved, path, most + 1)
    except (OSError, ValueError) as error:
        raise SessionError(f"cannot read {named[:200]}: {getattr(error, 'strerror', '') or error}") from None
    return FileContent(path, data[:most], len(data) > most)


def _task_output(context: CommandContext, args: Args) -> TaskOutput:
    task = str(args.get("task") or "")
    output: TaskOutput | None = getattr(context.agent.tools.get("Bash"), "task_output", lambda task: None)(task)
    if output is None:
        raise SessionError(f"there is no command {task[:80]!r} in the background")
    return output


def _library(context: CommandContext) -> Library:
    if context.agent.library is None:
        raise SessionError("sessions are not kept here, so there is none to list or to export")
    return context.agent.library


def _agent_messages(context: CommandContext, args: Args) -> tuple[Item, ...]:
    """What a sub-agent has said and done so far. Its conversation is gone when it has ended."""
    name = str(args.get("agent") or "")
    if (agent := context.running_agents.find(name)) is None:
        raise SessionError(f"no agent {name!r} is at work")
    return agent.session.items()


def _personas(context: CommandContext, args: Args) -> tuple[CommandCard, ...]:
    """Agents that can be started, and what each is for."""
    described = [CommandCard(one.name, one.description) for one in context.personas.values()]
    return (CommandCard(GENERAL, "For work that no other agent is made for."), *described)


QUERIES: dict[str, Callable[[CommandContext, Args], Any]] = {
    "state": _state,
    "models": lambda context, args: tuple(context.changes.cards()),
    "thinking_levels": _thinking_levels,
    "messages": lambda context, args: context.agent.session.items(),
    "last_text": lambda context, args: context.agent.session.last_text(),
    "stats": lambda context, args: context.agent.session.stats(),
    "cost": lambda context, args: Ledger(context.agent.session.usage, tuple(context.agent.session.ledger)),
    "queue": lambda context, args: context.turns.queue,
    "context": _context,
    "fork_points": lambda context, args: tuple(Replay(context.agent.session.store.entries).fork_points()),
    "sessions": lambda context, args: tuple(_library(context).sessions(str(args.get("cwd") or ""))),
    "export": _export,
    "transcript": _transcript,
    "file": _file,
    "agent_output": _task_output,
    "servers": lambda context, args: context.servers.cards(),
    "commands": lambda context, args: tuple(command_cards(context)),
    "agents": lambda context, args: context.running_agents.cards,
    "agent_messages": _agent_messages,
    "personas": _personas,
    "skills": lambda context, args: tuple(getattr(context.agent.tools.get("Skill"), "cards", lambda: ())()),
    "tools": lambda context, args: tuple(context.agent.usable()),
    "rules": lambda context, args: tuple(context.agent.rules),
    "version": lambda context, args: __version__,
}
