"""Lists the sessions that an engine has stored for a folder, without starting a conversation.

Our engine is asked by its own listing command (`EngineSpec.listing`). The sessions of claude, omp and pi are read where
those keep them (`EngineSpec.store`).
"""

import asyncio
import os
from collections.abc import Mapping
from subprocess import DEVNULL, PIPE

import msgspec
from msgspec.structs import replace

from polylect.host import engine_registry
from polylect.host.errors import EngineDied, InvalidType, Unsupported
from polylect.host.supervision.session_names import SessionNames
from polylect.system.threads import run_in_thread
from polylect.vocab.answers import SessionCard


async def list_sessions(
    engine: str = "polylect", *, cwd: str | os.PathLike[str] = ".", env: Mapping[str, str] | None = None
) -> list[SessionCard]:
    """Lists the sessions of a folder, the one that was active last first.

    `connect(engine, cwd=..., resume=card.id)` goes on with one of them.

    Args:
        engine: The name of an engine.
        cwd: The folder that the sessions are about.
        env: The environment of the engine, instead of this process's own.

    Raises:
        UnknownEngine: There is no engine of this name.
        InvalidType: The engine is not a name.
        Unsupported: Nobody can tell from outside which sessions the engine has (aionrs, wayland-core).
        EngineDied: The engine cannot be started, or fails.
    """
    if not isinstance(engine, str):
        raise InvalidType(f"engine takes the name of an engine, not {engine!r}: a command line has no list of sessions")
    one = engine_registry.engine_spec(engine)
    names = SessionNames(one, env).stored_names() if one.session_ids == "own" else {}
    if store := engine_registry.session_store(one, os.environ if env is None else env):
        from polylect.sessions.formats.listing import stored_sessions  # 30 ms, and not for our own engine

        return [_named(card, names) for card in await run_in_thread(stored_sessions, store, os.fspath(cwd))]
    if not one.listing:
        raise Unsupported(f"{engine} does not tell from outside which sessions it has")
    try:
        child = await asyncio.create_subprocess_exec(
            *engine_registry.find(one),
            *one.listing,
            cwd=cwd,
            env=engine_registry.variables(one, os.environ if env is None else env, ""),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
    except OSError as error:
        raise EngineDied(f"{engine} cannot be started: {error.strerror}: {error.filename}") from None
    output, why = await child.communicate()
    if child.returncode:
        raise EngineDied(f"{engine} cannot list its sessions: {why.decode().strip()}", child.returncode)
    return [_named(_card(row), names) for row in msgspec.json.decode(output, type=list[dict[str, str | int]])]


def _named(card: SessionCard, names: Mapping[str, str]) -> SessionCard:
    """The card with the name that a program gave the session, unless the engine has one for it."""
    known = (name for session, name in names.items() if card.id == session or f"_{card.id}." in session)
    return card if card.name else replace(card, name=next(known, ""))


def _card(row: dict[str, str | int]) -> SessionCard:
    return msgspec.convert(
        {
            "id": row["session"],
            "cwd": row["workspace"],
            "name": row.get("name", ""),
            "at": row["active"],
            "messages": row["messages"],
            "first": row.get("words", ""),
        },
        SessionCard,
    )
