"""Serves one conversation on stdin and stdout: bytes to commands, commands to the engine, events to bytes.

`startup/start.py` calls `load` and `run` after `ready`. Commands that arrive before the engine is open are stored and
handled then; a cancel of them is answered at once. Every prompt gets its end, also if the engine cannot be opened (L1).
What a codec's `send` returns is queued, never handled in place.
"""

import asyncio
import gc
import logging
import os
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from polylect import plug
from polylect.app.cli.terminal import print_error
from polylect.app.serving import stdio
from polylect.app.serving.assembly import Assembly
from polylect.app.serving.further_sessions import FurtherSessions
from polylect.app.serving.open_provider import keys
from polylect.app.startup import secrets
from polylect.app.startup.open_session import is_long, open_session
from polylect.app.startup.packed import PackedImports
from polylect.app.startup.start import ENDING_SIGNALS, Start, dialect_start, refusal_frame
from polylect.dialects.base import EngineSide, Env
from polylect.engine.engine import Engine
from polylect.sessions.library import FileLibrary
from polylect.sessions.session import Session
from polylect.system.clock_and_ids import new_id, now_ms
from polylect.system.threads import run_in_thread
from polylect.vocab.commands import Cancel, Command, Configure, Prompt, Quit
from polylect.vocab.content import Failure
from polylect.vocab.errors import PolylectError
from polylect.vocab.escape import escape_controls
from polylect.vocab.events import Event, Failed, Reply, TurnEnded
from polylect.wire.jsonl import MAX_LINE

if TYPE_CHECKING:
    from polylect.app.serving.stored_sessions import StoredSessions

_PATIENCE = 10.0
"""Seconds that a host which has closed our input may read nothing before the engine ends."""
_WARM_UP_DELAY = 0.01
"""Seconds after the start in which a first command is handled before anything is loaded ahead."""
_log = logging.getLogger(__name__)


def load(values: Mapping[str, object]) -> None:
    """Imports the codec and the provider that will be used, while `LazyImports` makes imports cheap."""
    plug.load(f"dialects.{values.get('dialect') or 'jsonstream'}.engine", "codec")
    with suppress(ImportError, LookupError):  # reported when it is opened
        _ = plug.load("providers", str(values["provider"])).open_provider


def run(start: Start, packed: PackedImports) -> int:
    secrets.conceal(keys(start.values))
    _log_to_stderr(str(start.values.get("log_level", "")))
    with asyncio.Runner() as runner:
        code = runner.run(_Conversation(start, packed).run())
        sys.stderr.flush()
        os._exit(code)  # the runner would wait for tools and threads that ignore their end


class _Conversation:
    def __init__(self, start: Start, packed: PackedImports) -> None:
        self._start = start
        self._packed = packed
        self._inbox: deque[Command] = deque()
        self._end = asyncio.Event()
        self._signal = 0
        self._early_commands: list[Command] | None = []
        """Commands that came before the engine was opened; None afterwards."""
        self._engine_ready = asyncio.Event()
        self._further = FurtherSessions(start, self._emit, self._wait_writable)
        wire = dialect_start(start.values)
        self._several = bool(wire and wire.SEVERAL_SESSIONS)
        """Whether this wire carries several sessions at once."""
        self._has_first = wire is None or bool(wire.FIRST_SESSION)
        """Whether the connection begins with a conversation."""
        self._assembly: Assembly | None = None
        self._engine: Engine | StoredSessions
        self._ready = not start.values.get("required_extensions")
        """Whether anything may be written: not before required extensions are loaded."""
        self._ready_frame = b""

    async def run(self) -> int:
        start = self._start
        self._codec = _codec(start)
        self._out = stdio.Outgoing(start.stdout, self._data_to_send, self._on_host_gone, self._codec.due)
        asyncio.get_running_loop().add_reader(self._start.signals, self._on_signal)
        reading = asyncio.create_task(self._read())
        ended = asyncio.create_task(self._end.wait())
        try:
            if not await self._open_engine(ended):
                return 128 + self._signal if self._signal else self._codec.exit_code
            if not self._ready and not await self._wait_for_extensions(ended):
                return 128 + self._signal
        except PolylectError as error:
            await asyncio.sleep(0)  # reads what has been sent by now
            reading.cancel()
            return await self._report_start_error(str(error))
        self._begin()
        if self._start.values.get("force") and (seconds := self._start.values.get("force_seconds")):
            asyncio.get_running_loop().call_later(float(str(seconds)), self._end_force)
        asyncio.get_running_loop().call_later(_WARM_UP_DELAY, self._warm_up)
        unread = asyncio.create_task(self._host_stalled(reading))
        await asyncio.wait([reading, ended, unread], return_when=asyncio.FIRST_COMPLETED)
        failed = self._reading_failed(reading)
        if not failed and not self._end.is_set():
            finished = asyncio.create_task(self._settled())
            await asyncio.wait([finished, ended, unread], return_when=asyncio.FIRST_COMPLETED)
        await self._further.close()
        await self._engine.close()
        if self._assembly:
            await self._assembly.close()
        await self._out.drain(1.0 if self._signal else 0.0 if unread.done() else _PATIENCE)
        self._packed.wait_until_made()
        return 128 + self._signal if self._signal else failed or self._unread_exit_code() or self._codec.exit_code

    @property
    def _session(self) -> str:
        """The id of the first conversation, which may have gone on in another session."""
        if self._early_commands is None and isinstance(self._engine, Engine):
            return self._engine.agent.session.id
        return self._start.session

    async def _settled(self) -> None:
        await self._engine.settled()
        await self._further.settled()

    async def _wait_writable(self) -> None:
        await self._out.wait_writable()

    async def _host_stalled(self, reading: asyncio.Task[None]) -> None:
        """Returns when the host has closed our input and reads nothing for `_PATIENCE` seconds."""
        closed = asyncio.create_task(stdio.closed(self._start.stdin))
        await asyncio.wait([reading, closed], return_when=asyncio.FIRST_COMPLETED)
        closed.cancel()
        await self._out.stalled(_PATIENCE)

    def _unread_exit_code(self) -> int:
        """1 if the host did not read everything, else 0."""
        if not (count := self._out.unwritten):
            return 0
        why = f"the host closed stdin and read nothing from stdout for {_PATIENCE:g} s"
        print(f"polylect: {why}: ended with {count} bytes unread", file=sys.stderr)
        return 1

    def _reading_failed(self, reading: asyncio.Task[None]) -> int:
        """1 if reading has failed by a fault of our own, which is reported; else 0."""
        if not reading.done() or not (error := reading.exception()):
            return 0
        print_error(f"reading has failed: {type(error).__name__}: {error}. Please report this")
        _log.error("reading has failed", exc_info=error)
        return 1

    async def _open_engine(self, ended: asyncio.Task[Literal[True]]) -> bool:
        """Opens the engine of the first conversation, if there is one. False if the end came first."""
        if not self._has_first:
            from polylect.app.serving.stored_sessions import StoredSessions  # other wires do without

            self._engine = StoredSessions(self._start, self._further, self._emit)
            return True
        if (opened := await self._open_session(ended)) is None:
            return False
        self._assembly = assembly = Assembly(self._start, self._out.wait_writable, self._out.full)
        self._engine = Engine(lambda callbacks: assembly.agent(callbacks, *opened), self._emit)
        return True

    async def _open_session(self, ended: asyncio.Task[Literal[True]]) -> tuple[Session, FileLibrary | None] | None:
        """Opens the session; None if the end came first. A long log is read in a thread: commands do not wait (L4)."""
        if not is_long(self._start):
            return open_session(self._start)
        loading = asyncio.create_task(run_in_thread(open_session, self._start))
        await asyncio.wait([loading, ended], return_when=asyncio.FIRST_COMPLETED)
        return loading.result() if loading.done() else None

    def _begin(self) -> None:
        if self._assembly and isinstance(self._engine, Engine):
            self._assembly.begin(self._engine)
        early, self._early_commands = self._early_commands or [], None
        for command in early:
            self._engine.handle(command)
        self._engine_ready.set()

    async def _report_start_error(self, why: str) -> int:
        """Reports why the engine cannot be opened. If `ready` was written, every prompt so far gets its `TurnEnded`."""
        print_error(why)
        if self._ready:
            failure = Failure("start", why, "user")
            prompts = [command for command in self._early_commands or () if isinstance(command, Prompt)]
            for prompt in prompts:
                self._reply(prompt)
                self._emit(TurnEnded("error", failure=failure, turn=prompt.turn))
            if not prompts:
                self._emit(Failed(failure))
            await self._out.drain(1.0)
            return 1
        with suppress(OSError):
            os.write(self._start.stdout, refusal_frame(why, self._start.values))
        return 1

    async def _wait_for_extensions(self, ended: asyncio.Task[Literal[True]]) -> bool:
        """Waits for required extensions, then lets `ready` be written.

        Returns False if the end came first. Raises StartError. In both cases the engine is closed.
        """
        assert self._assembly
        loading = asyncio.create_task(self._assembly.required())
        await asyncio.wait([loading, ended], return_when=asyncio.FIRST_COMPLETED)
        if loading.done() and not loading.exception():
            self._ready_frame, self._ready = self._start.ready_frame, True
            self._out.wake()
            return True
        await self._engine.close()
        await self._assembly.close()
        if loading.done():
            loading.result()
        return False

    def _data_to_send(self) -> bytes:
        if not self._ready:
            return b""
        ready_frame, self._ready_frame = self._ready_frame, b""
        return ready_frame + self._codec.data_to_send()

    # Commands from the host.

    async def _read(self) -> None:
        one_shot = self._start.values.get("input_format") == "text"
        if one_shot:
            await self._engine_ready.wait()
        self._handle_all(self._codec.start())
        if not one_shot:
            await stdio.read(self._start.stdin, self._receive, self._out.wait_writable)
        self._handle_all(self._codec.receive_eof())
        await self._engine_ready.wait()
        stop = self._start.values.get("on_eof") == "stop"
        self._engine.input_closed(stop=stop)
        self._further.input_closed(stop=stop)

    def _receive(self, data: bytes) -> None:
        self._handle_all(self._codec.receive(data))

    def _handle_all(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Quit):
                return self._end.set()
            self._handle(command)
        self._out.wake()

    def _handle(self, command: Command) -> None:
        if self._several and command.session and command.session != self._session:
            self._further.handle(command)
        elif self._early_commands is None:
            self._engine.handle(command)
        elif isinstance(command, Cancel) and command.what == "turn":
            self._cancel_early(command)
        else:
            self._early_commands.append(command)

    def _cancel_early(self, command: Cancel) -> None:
        """Cancels prompts that wait for the engine."""
        waiting, self._early_commands = self._early_commands or [], []
        for one in waiting:
            if isinstance(one, Prompt) and command.queued == "drop":
                self._reply(one)
                self._emit(TurnEnded("cancelled", turn=one.turn))
            else:
                self._early_commands.append(one)
        self._reply(command)

    # Events to the host.

    def _reply(self, command: Command) -> None:
        if command.ref:
            self._emit(Reply(command.ref))

    def _emit(self, event: Event) -> None:
        if follows := self._codec.send(event):
            self._inbox.extend(follows)
            asyncio.get_running_loop().call_soon(self._handle_inbox)
        self._out.wake()

    def _handle_inbox(self) -> None:
        while self._inbox:
            self._handle(self._inbox.popleft())

    def _end_force(self) -> None:
        """The time that the launcher gave for working without questions is over."""
        self._handle(Configure({"mode": "default"}))

    def _on_host_gone(self) -> None:
        _log.info("the host has closed its end: stopping")
        self._end.set()

    def _warm_up(self) -> None:
        """Loads what the first request needs, while the host is idle, and makes the pack of later starts."""
        if self._assembly:
            self._assembly.warm_up()
        gc.freeze()
        self._packed.start_making()

    # Signals.

    def _on_signal(self) -> None:
        for number in os.read(self._start.signals, 64):
            if number in ENDING_SIGNALS:
                self._signal = number
                self._end.set()


def _codec(start: Start) -> EngineSide:
    values, limit = start.values, start.values.get("max_line")
    max_line = limit if isinstance(limit, int) and limit else MAX_LINE
    env = Env(now=now_ms, new_id=new_id)
    if ours := dialect_start(values):
        engine_side = plug.load(f"dialects.{values['dialect']}.engine", "codec").EngineSide
        options = ours.codec_options(values, start.env, start.session)
        codec: EngineSide = engine_side(Env(env.now, ours.new_id), max_line=max_line, **options)
    else:
        from polylect.dialects.jsonstream.engine.codec import EngineSide as JsonStream  # other wires do without: 4 ms

        codec = JsonStream(
            env,
            version=str(values["protocol"]),
            max_line=max_line,
            path_grants=bool(values.get("path_grants")),
            budget_grants=bool(values.get("budget_grants")),
            announce_calls=bool(values.get("assistant") or values.get("announce_calls")),
        )
    codec.note_sent(start.ready_frame)
    return codec


class _EscapingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))


def _log_to_stderr(level: str) -> None:
    if level:
        form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_EscapingFormatter(form))
        logging.basicConfig(handlers=[handler], level=level.upper())
    else:
        logging.disable()
