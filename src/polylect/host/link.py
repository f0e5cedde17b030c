"""Connections to an engine.

`Link` is what an `Agent` needs of a connection. `ProcessLink` is an engine in a child process: it passes bytes between
the process and the host-side codec of its dialect. `app/serving/in_process.py` has the link to an engine in the same
process. After `open`, a link calls `on_event` for every event and `on_gone` exactly once.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol

from polylect.dialects.base import Dialect, Env, HostSide, Successor
from polylect.host.errors import EngineDied, NoSuchSession, NotConfigured, SessionInUse
from polylect.host.process import EngineProcess, Spawn, marked, spawn
from polylect.host.supervision.start_errors import StartErrors
from polylect.host.supported_commands import supports
from polylect.system.clock_and_ids import new_id, now_ms
from polylect.vocab.commands import Cancel, Command
from polylect.vocab.events import Event, Failed, Ready, StepStarted, TextDelta, ThinkingDelta, TurnEnded

Tap = Callable[[Literal["in", "out"], bytes], None]
"""Sees the bytes of the wire: `in` to the engine, `out` from it."""
OnEvent = Callable[[Event], None]
OnGone = Callable[[EngineDied], None]

_LAST_EVENTS = 1.0
"""How long what an ended engine has said may take to be read: something it started may keep its stdout open."""
_MOST_LINE = 32 * 1024 * 1024
"""Bytes of a line. A longer one is skipped and logged. Engines in use write up to 8 MiB."""
_MOST_TEXT = 32 * 1024 * 1024
"""Characters of text and thinking in one step. An engine that says more is ended, because all of it is kept."""
_START_ERRORS: dict[str, type[EngineDied]] = {
    "auth": NotConfigured,
    "not_configured": NotConfigured,
    "no_such_session": NoSuchSession,
    "session_in_use": SessionInUse,
}
"""What is raised for an engine that cannot be used, by the code of its failure."""
_log = logging.getLogger(__name__)


class Link(Protocol):
    """What an `Agent` needs of a connection."""

    wait_for_reader: Callable[[], Awaitable[None]]
    """Is awaited before more is read from the engine: a bridge waits there for a host that reads slowly."""

    @property
    def pid(self) -> int:
        """The engine's process; our own if it is in ours."""

    async def open(self, on_event: OnEvent, on_gone: OnGone) -> None:
        """Connects to the engine.

        Args:
            on_event: Is called with every event from here on.
            on_gone: Is called once, when there will be no more events.

        Raises:
            EngineDied: The engine cannot be started.
        """

    def send(self, command: Command) -> list[Event]:
        """Sends `command`. Returns the events that this end makes by itself, such as a refusal. Raises EngineDied."""

    def can(self, word: str) -> bool:
        """Whether the wire can express `word`; see `host/supported_commands.py`. Raises LookupError for no word."""

    @property
    def successor(self) -> Successor:
        """Not empty once the engine ends because it is of no more use: how the conversation goes on in another one."""

    def memory(self, *, new_session: bool) -> Mapping[str, Any]:
        """What the link to the next engine of the same conversation has to know."""

    async def wait_if_gone(self) -> None:
        """If the engine is gone, or ends, returns only after `on_gone` was called."""

    def abandon(self, what: str) -> None:
        """Ends the engine without waiting for it, because of `what` it did; `death` says so then."""

    async def drain(self) -> None: ...

    async def close(self) -> int:
        """Ends the engine in bounded time and returns its exit code."""

    def death(self, what: str = "") -> EngineDied:
        """Returns the error that says `what` happened to the engine, with the end of its stderr. Of one that did not
        start, the reason that it gave on the wire comes before that."""


async def _never_wait() -> None:
    """Whoever gets the events takes all that come."""


class Channel(Protocol):
    """What carries bytes to an engine and back: a child process (`EngineProcess`), or a WebSocket."""

    @property
    def pid(self) -> int: ...

    @property
    def code(self) -> int | None: ...

    @property
    def gone(self) -> bool: ...

    @property
    def last_words(self) -> str: ...

    async def read(self) -> bytes: ...

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    async def last_breath(self) -> None: ...

    async def close(self) -> int: ...

    def note_family(self) -> None: ...

    def kill(self) -> None: ...


class ProcessLink:
    """An engine as a child process, or at the other end of what `connect` makes."""

    def __init__(
        self,
        argv: Sequence[str],
        dialect: Dialect,
        *,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        tap: Tap = lambda way, data: None,
        name: str = "",
        install: str = "",
        spawn: Spawn = spawn,
        start_errors: StartErrors = StartErrors(),  # noqa: B008  (frozen)
        connect: Callable[[], Awaitable[Channel]] | None = None,
        **options: Any,
    ) -> None:
        self._argv = argv
        self._connect = connect or self._start_process
        self._name = name or argv[0]
        self._install = install
        """How it could be had, if it is not there."""
        self._start_errors = start_errors
        self._cwd = cwd
        self._env = os.environ if env is None else env
        self._tap = tap
        self._spawn = spawn
        if dialect.opens_sessions:
            options["cwd"] = os.path.abspath(cwd)
        self._make: Callable[..., HostSide] = lambda **more: dialect.host_side(
            Env(now_ms, new_id), **{"max_line": _MOST_LINE, **options, **more}
        )
        self._codec: HostSide = self._make()
        self._weak = dialect.weak
        self._process: Channel | None = None
        self._text = 0
        """Characters that the engine has said in this step."""
        self._ready = False
        self._start_failure = ""
        """What the engine said on its wire before it was ready: why it does not start."""
        self._what = "has ended"
        """What happened to the engine, for people."""
        self._closing: asyncio.Future[int] | None = None
        self.wait_for_reader: Callable[[], Awaitable[None]] = _never_wait
        self._waking: asyncio.TimerHandle | None = None
        self._on_event: OnEvent = lambda event: None

    @property
    def successor(self) -> Successor:
        return self._codec.successor

    def memory(self, *, new_session: bool) -> Mapping[str, Any]:
        return self._codec.memory(new_session=new_session)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def _start_process(self) -> Channel:
        mark = new_id()
        try:
            child = self._spawn(self._argv, self._cwd, marked(self._env, mark))
        except OSError as error:
            hint = f"; to install it: {self._install}" if self._install and error.filename == self._argv[0] else ""
            raise EngineDied(f"{self._name} cannot be started: {error.strerror}: {error.filename}{hint}") from None
        watched = self._spawn is spawn and self._argv[0] != sys.executable  # our own engine notices our death itself
        return await EngineProcess.around(child, mark, watched=watched)

    async def open(self, on_event: OnEvent, on_gone: OnGone) -> None:
        self._process = await self._connect()
        self._text, self._ready, self._start_failure = 0, False, ""
        self._codec, self._on_event = self._make(), on_event
        for event in self._codec.start():
            on_event(event)
        self._flush()
        self._reading = asyncio.create_task(self._read(self._process, on_event, on_gone))

    def send(self, command: Command) -> list[Event]:
        if self._process is None or self._reading.done():
            raise self.death()
        if isinstance(command, Cancel):
            self._process.note_family()  # an engine that is told to stop may leave what it has started
        events = self._codec.send(command)
        self._flush()
        self._retire()
        self._wake_later()
        return events

    def can(self, word: str) -> bool:
        return word not in self._weak and supports(partial(self._make, **self._codec.known), word)

    async def wait_if_gone(self) -> None:
        if self._process and (self._process.gone or self._closing):
            await asyncio.wait([self._reading])

    def abandon(self, what: str) -> None:
        self._what = what
        self._end()

    async def drain(self) -> None:
        if self._process:
            await self._process.drain()

    async def close(self) -> int:
        if self._process is None:
            return 0
        self._stop_waking()
        code = await (self._closing or self._process.close())
        await asyncio.wait([self._reading], timeout=_LAST_EVENTS)
        self._reading.cancel()
        return code

    async def _read(self, process: Channel, on_event: OnEvent, on_gone: OnGone) -> None:
        try:
            while data := await process.read():
                self._tap("out", data)
                self._deliver(self._codec.receive(data), on_event)
                self._flush()
                self._retire()
                self._wake_later()
                if self._text > _MOST_TEXT:
                    process.kill()
                    break
                await self.wait_for_reader()
            await process.last_breath()  # so that whoever hears of the end can also hear why
            self._deliver(self._codec.receive_eof(), on_event)
        except Exception:
            _log.exception("reading from the engine failed")
            raise
        finally:
            self._stop_waking()
            on_gone(self.death())

    def _deliver(self, events: list[Event], on_event: OnEvent) -> None:
        for event in events:
            if isinstance(event, TextDelta | ThinkingDelta):
                self._text += len(event.text)
            elif isinstance(event, StepStarted | TurnEnded):
                self._text = 0 if self._text <= _MOST_TEXT else self._text
            elif isinstance(event, Ready):
                self._ready = True
            elif isinstance(event, Failed) and not self._ready:
                self._start_failure = event.failure.message
            on_event(event)
        for line in self._codec.to_log():
            _log.warning("%s: %s", self._name, line)

    def _wake_later(self) -> None:
        """Wakes the codec when it has to be, if nothing comes before that."""
        self._stop_waking()
        if (due := self._codec.due()) is not None:
            self._waking = asyncio.get_running_loop().call_later(due / 1000, self._wake)

    def _stop_waking(self) -> None:
        if self._waking:
            self._waking.cancel()
        self._waking = None

    def _wake(self) -> None:
        self._deliver(self._codec.wake(), self._on_event)
        self._flush()
        self._retire()
        self._wake_later()

    def _flush(self) -> None:
        if (data := self._codec.data_to_send()) and self._process:
            self._tap("in", data)
            self._process.write(data)

    def _retire(self) -> None:
        """Ends an engine that is of no more use."""
        if self._codec.successor or self._codec.start_failure:
            self._end()

    def _end(self) -> None:
        if self._process and self._closing is None:
            self._closing = asyncio.ensure_future(self._process.close())

    def death(self, what: str = "") -> EngineDied:
        process, what = self._process, what or self._what
        if failure := self._codec.start_failure:
            kind = _START_ERRORS.get(failure.code, EngineDied)
            code = process.code if process else None
            return kind(f"the engine {self._name} cannot be used: {failure.message}", code, failure.message)
        if self._text > _MOST_TEXT:
            what = f"said more than {_MOST_TEXT} characters in one step and was ended,"
        code, words = (process.code, process.last_words) if process else (None, "")
        kind, advice = EngineDied, words
        if not self._ready:
            words = self._start_failure or words
            kind, advice = self._start_errors.kind(code, words), self._start_errors.in_parameters(words)
        exit_code = f" with exit code {code}" if code is not None else ""
        last_words = f"; it said: {advice}" if advice else ""
        return kind(f"the engine {self._name} {what}{exit_code}{last_words}", code, words)
