"""The engines of a bridge: opens them by `connect`, with what the flags of the front wire ask for.

`cli/bridge/command.py` makes one `Bridge` for the process. `serve.py` takes the engine of the first conversation from
it, and `further_sessions.py` one for each further session.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from polylect.app.cli.terminal import print_error
from polylect.app.serving.engine_source import Emit
from polylect.app.serving.stdio import Outgoing
from polylect.bridge.bridged_engine import BridgedEngine
from polylect.bridge.loss_report import LossReport
from polylect.host.connecting import connect
from polylect.host.engine_registry import engine_spec
from polylect.vocab.commands import OpenSession

_RESTARTS = 1000
"""An engine that died is started again by the next prompt, as the front's own program would be usable again."""
WaitWritable = Callable[[], Awaitable[None]]


class Bridge:
    """The engines behind one front.

    Args:
        engine: A name, or a command line as a list of words, as `connect` takes it.
        options: More arguments of `connect` for every engine.
        session: Arguments of `connect` that say in which session the first one begins.
        name: What the host in front calls that session; empty for the name that the engine has for it.
        losses: Counts what does not get across.
        report_file: Where the whole report goes at the end; empty for nowhere.
    """

    def __init__(
        self,
        engine: str | list[str],
        options: Mapping[str, Any],
        session: Mapping[str, Any],
        name: str,
        losses: LossReport,
        report_file: str,
    ) -> None:
        self._engine = engine
        self._options = options
        self._session = session
        self._name = name
        self._losses = losses
        self._report_file = report_file
        self._first: BridgedEngine | None = None

    async def open(self, emit: Emit, out: Outgoing) -> BridgedEngine:
        """Starts the engine of the first conversation, and tells the host in front what it is. Raises HostError."""
        agent = connect(self._engine, restarts=_RESTARTS, **self._options, **self._session)
        self._first = engine = BridgedEngine(agent, emit, self._losses, out.wait_writable, session=self._name)
        try:
            await engine.open()
        except BaseException:
            await engine.close()
            raise
        emit(engine.ready())
        return engine

    @asynccontextmanager
    async def opened(
        self, opening: OpenSession, emit: Emit, wait_writable: WaitWritable
    ) -> AsyncIterator[BridgedEngine]:
        """The engine of a further session, for as long as the block runs. Raises HostError."""
        options = {**self._options, **self._session_arguments(opening)}
        if opening.cwd:
            options["cwd"] = opening.cwd
        if opening.folders:
            options["add_dir"] = list(opening.folders)
        if opening.servers:
            options["servers"] = [*options.get("servers", ()), *opening.servers]
        agent = connect(self._engine, restarts=_RESTARTS, **options)
        engine = BridgedEngine(agent, emit, self._losses, wait_writable, session=opening.session)
        try:
            await engine.open()
            engine.begin()
            yield engine
        finally:
            await engine.close()

    def _write_report(self) -> None:
        try:
            with open(self._report_file, "wb") as file:
                file.write(self._losses.to_json())
        except OSError as error:
            print_error(f"--loss-report {self._report_file}: {error.strerror}")

    def _session_arguments(self, opening: OpenSession) -> dict[str, str]:
        if opening.how == "new":
            return named_session(self._engine, opening.session)
        return {"resume": opening.target or opening.session}

    def begin(self) -> None:
        """Commands reach the first engine now, and its events the host."""
        if self._first:
            self._first.begin()

    def warm_up(self) -> None:
        """Nothing: the engine behind does so itself."""

    async def close(self, lost: Mapping[str, int]) -> None:
        """Prints what was lost. `lost` is what the codec of the front has counted."""
        self._losses.add_events(lost)
        for line in self._losses.lines():
            print_error(line)
        if self._report_file:
            self._write_report()


def named_session(engine: str | list[str], name: str) -> dict[str, str]:
    """The argument of `connect` for a new session of this name; none if the engine cannot be told names."""
    if isinstance(engine, str) and name:
        one = engine_spec(engine)
        if "session" in one.flags or one.session_ids == "own":
            return {"session": name}
    return {}


def workspace_of(options: Mapping[str, Any]) -> str:
    """The folder that the front's flags name, else the current one."""
    return os.path.realpath(str(options.get("workspace") or os.getcwd()))
