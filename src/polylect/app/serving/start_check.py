"""Starts an engine to see whether it starts, for `polylect doctor`.

It does what a start does, in this process: settings are checked, the session folder is created, locked and written,
extensions are loaded. Then everything is ended, and nothing is left behind. Commands of hooks are not run, MCP servers
are not started (`server_probe.py` does that), and no model is asked.
"""

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field

from polylect.app.serving.assembly import Assembly
from polylect.app.serving.in_process import always_writable
from polylect.app.serving.open_provider import keys
from polylect.app.startup import config, secrets
from polylect.app.startup.open_session import open_session
from polylect.app.startup.start import CannotStart, Start, lock_session, resolve_settings
from polylect.engine.engine import Engine
from polylect.sessions import folder
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import Event, ExtensionFailed, ExtensionRejected

_PROBE_BYTES = 64 * 1024
"""Bytes that have to fit on the disk. A first prompt writes about a tenth of this."""
_LEFT_OUT = ("hooks", "mcp_servers")
_EXTENSIONS_TIMEOUT = 15.0
"""Seconds for extensions to load; each has ten."""


@dataclass
class StartReport:
    """The result. `error` says why an engine would not start; it is empty if it would."""

    values: config.Values
    error: str = ""
    session_error: str = ""
    """The same text, if the reason is the session folder."""
    extension_errors: list[tuple[str, str]] = field(default_factory=list)
    """The path of each extension that could not be used, and why."""


def check_start(flags: config.Values, env: dict[str, str]) -> StartReport:
    """Start an engine with these flags and end it again."""
    report = StartReport({})
    try:
        report.values = resolve_settings(flags, env, [])
    except (CannotStart, config.ConfigError) as error:
        report.error = str(error)
        return report
    values = {name: value for name, value in report.values.items() if name not in _LEFT_OUT}
    try:
        place = lock_session(values, env)
        if place:
            _write_probe(place)
    except (CannotStart, folder.FolderError) as error:
        report.error = report.session_error = str(error)
        return report
    except OSError as error:
        report.error = report.session_error = f"{error.strerror}: {error.filename or 'the session folder'}"
        return report
    secrets.conceal(keys(values))
    start = Start(values, env, place, (-1, -1), -1, place.session if place else "", b"")
    asyncio.run(_run(start, report))
    return report


def _write_probe(place: folder.Folder) -> None:
    """Writes more than a first prompt would, and removes it. Raises OSError; the folder is closed then."""
    path = os.path.join(place.path, "probe")
    try:
        with open(path, "wb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):  # it may not exist
            os.unlink(path)
        place.close(discard=not os.path.exists(place.log))
        raise OSError(error.errno, error.strerror, place.path) from None
    os.unlink(path)


async def _run(start: Start, report: StartReport) -> None:
    def receive(event: Event) -> None:
        match event:
            case ExtensionFailed(path, error=why) | ExtensionRejected(path, message=why):
                report.extension_errors.append((path, why))

    opened = None
    try:
        opened = session, library = open_session(start)
        assembly = Assembly(start, always_writable, lambda: False)
        engine = Engine(lambda callbacks: assembly.agent(callbacks, session, library), receive)
    except PolylectError as error:
        report.error = str(error)
        if opened:
            session.store.close()
        return
    try:
        await assembly.required()
        async with asyncio.timeout(_EXTENSIONS_TIMEOUT):
            await engine.agent.hooks.session_contexts()
        assembly.begin(engine)
    except (PolylectError, TimeoutError) as error:
        report.error = str(error) or f"extensions were not loaded within {_EXTENSIONS_TIMEOUT:g} s"
    finally:
        await engine.close()
        await assembly.close()
