"""Opens our engine in this process, set up by flags and files exactly as an engine process is.

`polylect run` uses it for its one task. `embed.py` is different: there the program that embeds the engine decides
everything, and no settings are read.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from polylect.app.cli.terminal import print_error
from polylect.app.serving.assembly import Assembly
from polylect.app.serving.in_process import EventSink, always_writable
from polylect.app.serving.open_provider import keys
from polylect.app.startup import config, secrets
from polylect.app.startup.args import parse
from polylect.app.startup.open_session import is_long, open_session
from polylect.app.startup.start import CannotStart, Start, lock_session, resolve_settings
from polylect.engine.engine import Engine
from polylect.host.errors import EngineDied
from polylect.sessions import folder
from polylect.system.threads import run_in_thread
from polylect.vocab.errors import PolylectError, StartError


@asynccontextmanager
async def own_engine(words: Sequence[str], on_event: EventSink) -> AsyncIterator[Engine]:
    """Opens an engine with the flags in `words`; `on_event` receives every event. Raises EngineDied if it cannot start.

    When the context is left, what runs is stopped and every process has ended.
    """
    start = _check_start(words)
    secrets.conceal(keys(start.values))
    logging.disable()  # as in an engine process: what matters is in the events
    try:
        opened = await run_in_thread(open_session, start) if is_long(start) else open_session(start)
        assembly = Assembly(start, always_writable, lambda: False)
        engine = Engine(lambda callbacks: assembly.agent(callbacks, *opened), on_event)
    except PolylectError as error:
        raise EngineDied(f"polylect cannot start: {error}") from None
    try:
        await _load_required(assembly)
        asyncio.get_running_loop().call_soon(assembly.begin, engine)  # after the host has received `Ready`
        yield engine
    finally:
        await engine.close()
        await assembly.close()


async def _load_required(assembly: Assembly) -> None:
    try:
        await assembly.required()
    except StartError as error:
        raise EngineDied(f"polylect cannot start: {error}") from None


def _check_start(words: Sequence[str]) -> Start:
    options, _ = parse(list(words))
    env = dict(os.environ)
    notes: list[str] = []
    try:
        values = resolve_settings({"protocol": "0.2.0", **options}, env, notes)
        place = lock_session(values, env)
    except (CannotStart, config.ConfigError, folder.FolderError) as error:
        raise EngineDied(f"polylect cannot start: {error}") from None
    except OSError as error:  # most often a full disk
        what = error.filename or "the session folder"
        raise EngineDied(f"polylect cannot start: {error.strerror}: {what}") from None
    for note in notes:
        print_error(note)
    return Start(values, env, place, (-1, -1), -1, place.session if place else "", b"")
