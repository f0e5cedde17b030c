"""Serves one conversation on stdin and stdout: opens its engine, and ends with the host, a signal or a failure.

`startup/start.py` calls `load` and `run` after `ready`. Commands and events pass through `Conversation`, bytes through
`stdio`. Every prompt gets its end, also if the engine cannot be opened (L1).
"""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from polylect import plug
from polylect.app.serving import stdio
from polylect.app.serving.conversation import Conversation
from polylect.app.serving.open_provider import keys
from polylect.app.startup import secrets
from polylect.app.startup.packed import PackedImports
from polylect.app.startup.start import ENDING_SIGNALS, Start, refusal_frame
from polylect.vocab.commands import Configure
from polylect.vocab.content import Failure
from polylect.vocab.errors import PolylectError

if TYPE_CHECKING:
    from polylect.app.serving.bridge import Bridge
    from polylect.app.serving.engine_source import EngineSource, ServedEngine

_PATIENCE = 10.0
"""Seconds that a host which has closed our input may read nothing before the engine ends."""
_WARM_UP_DELAY = 0.01
"""Seconds after the start in which a first command is handled before anything is loaded ahead."""
_log = logging.getLogger(__name__)


def load(values: Mapping[str, object], *, own: bool = True) -> None:
    """Imports what will be used, while `LazyImports` makes imports cheap: the codec, and, if the engine is our `own`,
    the engine and its provider."""
    plug.load(f"dialects.{values.get('dialect') or 'jsonstream'}.engine", "codec")
    if not own:
        return
    import polylect.app.serving.own_source  # noqa: F401  (`run` uses it)

    with suppress(ImportError, LookupError):  # reported when it is opened
        _ = plug.load("providers", str(values["provider"])).open_provider


def run(start: Start, packed: PackedImports, bridge: "Bridge | None" = None) -> int:
    secrets.conceal(keys(start.values))
    _log_to_stderr(str(start.values.get("log_level", "")))
    with asyncio.Runner() as runner:
        code = runner.run(_listen(start) if start.values.get("listen") else _serve(start, packed, bridge))
        sys.stderr.flush()
        os._exit(code)  # the runner would wait for tools and threads that ignore their end


async def _listen(start: Start) -> int:
    try:
        from polylect.app.serving.websocket.listener import Listener  # 40 ms, and only here
    except ModuleNotFoundError as error:
        _print_error(f"--listen needs {error.name}; run: pip install 'polylect[serve]'")
        return 1
    return await Listener(start).run()


async def _serve(start: Start, packed: PackedImports, bridge: "Bridge | None") -> int:
    if bridge:
        return await _StdioProcess(start, packed, bridge, bridge).run()
    from polylect.app.serving.own_source import OwnSource  # `load` has imported it

    return await _StdioProcess(start, packed, OwnSource(start)).run()


class _StdioProcess:
    """A conversation on stdin and stdout. `source` opens the first engine, `bridge` further ones if it is given."""

    def __init__(
        self, start: Start, packed: PackedImports, source: "EngineSource", bridge: "Bridge | None" = None
    ) -> None:
        self._start = start
        self._packed = packed
        self._source = source
        self._bridge = bridge
        self._signal = 0
        self._engine: ServedEngine | None = None
        self._ready = not start.values.get("required_extensions") and bridge is None
        """Whether anything may be written: not before required extensions are loaded, or the engine behind is ready."""
        self._ready_frame = b""
        self._opened = asyncio.Event()

    async def run(self) -> int:
        start = self._start
        self._out = stdio.Outgoing(start.stdout, self._data_to_send, self._on_host_gone, self._due)
        self._conversation = conversation = Conversation(start, self._out.wake, self._out.wait_writable, self._bridge)
        codec = conversation.codec
        asyncio.get_running_loop().add_reader(self._start.signals, self._on_signal)
        reading = asyncio.create_task(self._read())
        ended = asyncio.create_task(conversation.ended.wait())
        try:
            if not await self._open_engine(ended):
                return 128 + self._signal if self._signal else codec.exit_code
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
        if not failed and not conversation.ended.is_set():
            finished = asyncio.create_task(conversation.settled())
            await asyncio.wait([finished, ended, unread], return_when=asyncio.FIRST_COMPLETED)
        await conversation.close()
        await self._source.close(getattr(codec, "lost", {}))
        await self._out.drain(1.0 if self._signal else 0.0 if unread.done() else _PATIENCE)
        self._packed.wait_until_made()
        return 128 + self._signal if self._signal else failed or self._unread_exit_code() or codec.exit_code

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
        _print_error(f"reading has failed: {type(error).__name__}: {error}. Please report this")
        _log.error("reading has failed", exc_info=error)
        return 1

    async def _open_engine(self, ended: asyncio.Task[Literal[True]]) -> bool:
        """Opens the engine of the first conversation, if there is one. False if the end came first."""
        if self._conversation.has_first:
            opening = asyncio.create_task(self._source.open(self._conversation.emit, self._out))
            await asyncio.wait([opening, ended], return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                opening.cancel()
                await asyncio.wait([opening])
                return False
            self._engine = opening.result()
        if not self._ready:
            self._ready_frame, self._ready = self._start.ready_frame, True
            self._out.wake()
        self._opened.set()
        return True

    def _begin(self) -> None:
        self._source.begin()
        self._conversation.begin(self._engine)

    async def _report_start_error(self, why: str) -> int:
        """Reports why the engine cannot be opened. If `ready` was written, every prompt so far gets its `TurnEnded`."""
        _print_error(why)
        if self._ready:
            self._conversation.fail(Failure("start", why, "user"))
            await self._out.drain(1.0)
            return 1
        with suppress(OSError):
            os.write(self._start.stdout, refusal_frame(why, self._start.values))
        return 1

    def _data_to_send(self) -> bytes:
        if not self._ready:
            return b""
        ready_frame, self._ready_frame = self._ready_frame, b""
        return ready_frame + self._conversation.codec.data_to_send()

    def _due(self) -> int | None:
        return self._conversation.codec.due()

    async def _read(self) -> None:
        conversation = self._conversation
        if self._bridge:
            await self._opened.wait()  # what the host in front sends before is answered after `ready`
        one_shot = self._start.values.get("input_format") == "text"
        if one_shot:
            await conversation.opened.wait()
        conversation.handle_all(conversation.codec.start())
        if not one_shot:
            await stdio.read(self._start.stdin, conversation.receive, self._out.wait_writable)
        conversation.handle_all(conversation.codec.receive_eof())
        await conversation.opened.wait()
        conversation.input_closed(stop=self._start.values.get("on_eof") == "stop")

    def _end_force(self) -> None:
        """The time that the launcher gave for working without questions is over."""
        self._conversation.handle(Configure({"mode": "default"}))

    def _on_host_gone(self) -> None:
        _log.info("the host has closed its end: stopping")
        self._conversation.ended.set()

    def _warm_up(self) -> None:
        """Loads what the first request needs, while the host is idle, and makes the pack of later starts."""
        self._source.warm_up()
        gc.freeze()
        self._packed.start_making()

    # Signals.

    def _on_signal(self) -> None:
        for number in os.read(self._start.signals, 64):
            if number in ENDING_SIGNALS:
                self._signal = number
                self._conversation.ended.set()


def _print_error(message: str) -> None:
    from polylect.app.cli.terminal import print_error  # re: 8 ms, and only for an error

    print_error(message)


class _EscapingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        from polylect.vocab.escape import escape_controls  # re: 8 ms, and only where there is a log

        return escape_controls(super().format(record))


def _log_to_stderr(level: str) -> None:
    if level:
        form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_EscapingFormatter(form))
        logging.basicConfig(handlers=[handler], level=level.upper())
    else:
        logging.disable()
