"""Opens our engine in this process, with the checks and the assembly of an engine process.

`polylect run` uses `own_engine` for its one task: flags, files and environment count as for an engine process, and this
process is treated as the engine's own. `app/embed.py` uses `resolve` and `open_resolved` for engines inside other
programs, whose process is left as it is. Whatever keeps the engine from starting raises EngineDied.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from polylect.app.cli.terminal import print_error
from polylect.app.serving.assembly import Assembly
from polylect.app.serving.in_process import EventSink, always_writable
from polylect.app.serving.open_provider import keys
from polylect.app.startup import config, secrets
from polylect.app.startup.args import parse
from polylect.app.startup.open_session import is_long, open_session
from polylect.app.startup.start import CONFIGURATION, CannotStart, Start, lock_session, resolve_settings
from polylect.engine.engine import Engine
from polylect.host.errors import EngineDied, NoSuchSession, NotConfigured, SessionExists, SessionInUse
from polylect.sessions import folder
from polylect.sessions.library import FileLibrary
from polylect.sessions.session import Session
from polylect.system.threads import run_in_thread
from polylect.vocab.errors import PolylectError
from polylect.vocab.ports import Provider


@asynccontextmanager
async def own_engine(words: Sequence[str], on_event: EventSink) -> AsyncIterator[Engine]:
    """Opens an engine with the flags in `words`; `on_event` receives every event. Raises EngineDied if it cannot start.

    When the context is left, what runs is stopped and every process has ended.
    """
    options, _ = parse(list(words))
    env = dict(os.environ)
    values, notes = resolve(options, env)
    secrets.conceal(keys(values))
    logging.disable()  # as in an engine process: what matters is in the events
    async with open_resolved(values, env, on_event, own_process=True) as engine:
        for note in notes:
            print_error(note)
        yield engine


def resolve(options: config.Values, env: dict[str, str]) -> tuple[config.Values, list[str]]:
    """All settings of an engine, checked, and remarks for the user. `options` are flags by name. Raises EngineDied."""
    notes: list[str] = []
    try:
        return resolve_settings({"protocol": "0.2.0", **options}, env, notes), notes
    except (CannotStart, config.ConfigError) as error:
        raise cannot_start(error) from None


@asynccontextmanager
async def open_resolved(
    values: config.Values,
    env: dict[str, str],
    on_event: EventSink,
    *,
    wait_writable: Callable[[], Awaitable[None]] = always_writable,
    provider: Provider | None = None,
    own_process: bool = False,
    share_servers: bool = False,
) -> AsyncIterator[Engine]:
    """Opens an engine with what `resolve` returned; `on_event` receives every event. Raises EngineDied.

    `wait_writable`, `provider`, `own_process` and `share_servers` are those of `Assembly`. When the context is left,
    what runs is stopped and every process has ended.
    """
    start = _lock(values, env)
    try:
        session, library = await _open_session(start)
    except PolylectError as error:
        raise cannot_start(error) from None
    try:
        assembly = Assembly(
            start,
            wait_writable,
            lambda: False,
            provider=provider,
            own_process=own_process,
            share_servers=share_servers,
        )
        engine = Engine(lambda callbacks: assembly.agent(callbacks, session, library), on_event)
    except PolylectError as error:
        session.store.close()
        raise cannot_start(error) from None
    try:
        await _load_required(assembly)
        asyncio.get_running_loop().call_soon(assembly.begin, engine)  # after the host has received `Ready`
        yield engine
    finally:
        await engine.close()
        await assembly.close()


def _lock(values: config.Values, env: dict[str, str]) -> Start:
    try:
        place = lock_session(values, env)
    except (CannotStart, folder.FolderError) as error:
        raise cannot_start(error) from None
    except OSError as error:  # most often a full disk
        raise cannot_start(f"{error.strerror}: {error.filename or 'the session folder'}") from None
    return Start(values, env, place, (-1, -1), -1, place.session if place else "", b"")


async def _open_session(start: Start) -> tuple[Session, FileLibrary | None]:
    """The session of the start. A long log is read in a thread; who does not wait for that leaves no lock behind."""
    if not is_long(start):
        return open_session(start)
    reading = asyncio.ensure_future(run_in_thread(open_session, start))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        reading.add_done_callback(_close_session)
        raise


def _close_session(reading: "asyncio.Future[tuple[Session, FileLibrary | None]]") -> None:
    if not reading.cancelled() and not reading.exception():
        reading.result()[0].store.close()


async def _load_required(assembly: Assembly) -> None:
    try:
        await assembly.required()
    except PolylectError as error:
        raise cannot_start(error) from None


def cannot_start(reason: object) -> EngineDied:
    """The error for an engine that does not start because of `reason`: an exception or a text."""
    message = f"polylect cannot start: {reason}"
    match reason:
        case folder.NoSuchSession():
            return NoSuchSession(message)
        case folder.SessionExists():
            return SessionExists(message)
        case folder.SessionInUse():
            return SessionInUse(message)
        case CannotStart(not_configured=True):
            return NotConfigured(message, CONFIGURATION)
    return EngineDied(message)
