"""Opens our own engine for the first conversation of a process: its session, its parts, required extensions.

`serve.py` uses it as its `EngineSource`, unless the engines are those of a bridge.
"""

from collections.abc import Mapping

from polylect.app.serving.assembly import Assembly
from polylect.app.serving.engine_source import Emit
from polylect.app.serving.stdio import Outgoing
from polylect.app.startup.open_session import is_long, open_session
from polylect.app.startup.start import Start
from polylect.engine.engine import Engine
from polylect.system.threads import run_in_thread


class OwnSource:
    """The engine that the `start` of the process describes."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._assembly: Assembly | None = None
        self._engine: Engine | None = None

    async def open(self, emit: Emit, out: Outgoing) -> Engine:
        start = self._start
        # A long log is read in a thread: commands do not wait (L4).
        session, library = await run_in_thread(open_session, start) if is_long(start) else open_session(start)
        self._assembly = assembly = Assembly(start, out.wait_writable, out.full)
        self._engine = engine = Engine(lambda callbacks: assembly.agent(callbacks, session, library), emit)
        try:
            await assembly.required()
        except BaseException:
            await engine.close()
            await assembly.close()
            raise
        return engine

    def begin(self) -> None:
        if self._assembly and self._engine:
            self._assembly.begin(self._engine)

    def warm_up(self) -> None:
        if self._assembly:
            self._assembly.warm_up()

    async def close(self, lost: Mapping[str, int]) -> None:
        if self._assembly:
            await self._assembly.close()
