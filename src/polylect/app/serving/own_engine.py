"""Our engine in the process of its host, set up by flags and files just as one in a process of its own."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from polylect.app.cli.terminal import print_error
from polylect.app.serving.assembly import Assembly
from polylect.app.serving.in_process import Say, plenty
from polylect.app.serving.open_provider import keys
from polylect.app.startup import config, secrets
from polylect.app.startup.args import parse
from polylect.app.startup.open_session import is_long, open_session
from polylect.app.startup.start import CannotStart, Start, settle, take_session
from polylect.engine.engine import Engine
from polylect.host.errors import EngineDied
from polylect.sessions import folder
from polylect.system.threads import run_in_thread
from polylect.vocab.errors import PolylectError, StartError


@asynccontextmanager
async def own_engine(words: Sequence[str], say: Say) -> AsyncIterator[Engine]:
    """On leaving, what runs is stopped and every process is gone. Raises EngineDied if it cannot start."""
    start = _checked(words)
    secrets.conceal(keys(start.values))
    logging.disable()  # as in a process of its own: what matters is said in events
    try:
        opened = await run_in_thread(open_session, start) if is_long(start) else open_session(start)
        assembly = Assembly(start, plenty, lambda: False)
        engine = Engine(lambda callbacks: assembly.agent(callbacks, *opened), say)
    except PolylectError as error:
        raise EngineDied(f"polylect cannot start: {error}") from None
    try:
        await _required(assembly)
        asyncio.get_running_loop().call_soon(assembly.begin, engine)  # once the host has heard that it is ready
        yield engine
    finally:
        await engine.close()
        await assembly.close()


async def _required(assembly: Assembly) -> None:
    try:
        await assembly.required()
    except StartError as error:
        raise EngineDied(f"polylect cannot start: {error}") from None


def _checked(words: Sequence[str]) -> Start:
    options, _ = parse(list(words))
    env = dict(os.environ)
    notes: list[str] = []
    try:
        values = settle({"protocol": "0.2.0", **options}, env, notes)
        place = take_session(values, env)
    except (CannotStart, config.ConfigError, folder.FolderError) as error:
        raise EngineDied(f"polylect cannot start: {error}") from None
    except OSError as error:  # a full disk, above all
        what = error.filename or "the session folder"
        raise EngineDied(f"polylect cannot start: {error.strerror}: {what}") from None
    for note in notes:
        print_error(note)
    return Start(values, env, place, (-1, -1), -1, place.session if place else "", b"")
