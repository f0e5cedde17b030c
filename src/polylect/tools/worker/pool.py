"""The engine's side of its workers: starts them, gives each request a worker, and kills those that take too long.

The first worker is started with the first request and stays for the next ones. A request that finds all of them busy
waits; after 20 ms of waiting another worker is started, up to four. A worker whose request is cancelled, takes too long
or breaks the protocol is killed, because the operation that it runs may never return. Each worker is in custody, so it
ends with the engine, and is confined by the same sandbox as commands. File tools reach this as `ToolContext.worker`.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from polylect.system.threads import run_in_thread
from polylect.tools.files.paths import is_hidden, is_inside
from polylect.tools.process.custody import Custody
from polylect.tools.process.open_child import OpenChild
from polylect.tools.process.programs import own_program
from polylect.tools.sandbox.sandbox import Sandbox
from polylect.tools.worker import protocol
from polylect.tools.worker.timeout_error import WorkerTimeout
from polylect.vocab.errors import NoSuchFile, ToolError
from polylect.vocab.ports import FileState

MOST_WORKERS = 4
START_ANOTHER_AFTER = 0.02
"""Seconds that a request waits for a busy worker before another one is started. Most requests take less time."""
START_TIMEOUT = 10.0
TIMEOUT = 30.0
_FIRST = 16 * 1024
_CHUNK = 256 * 1024


class WorkerPool:
    """The `Worker` of an engine. Starts nothing before `prepare` or the first request.

    `roots` are the folders, real paths all, that workers may change: the workspace first.
    """

    def __init__(self, custody: Custody, sandbox: Sandbox | None, roots: Sequence[str]) -> None:
        self._custody = custody
        self._sandbox = sandbox
        self._roots = tuple(roots)
        self._free: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._starting = 0
        self._waiting: deque[asyncio.Future[_Worker | None]] = deque()
        self._extra_start: asyncio.Task[_Worker] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def prepare(self) -> None:
        """Start the guardian, which takes as long as the judgement of the first call."""
        with suppress(OSError):  # the request reports it
            self._custody.prepare()

    # What a worker can reach.

    def hides(self, path: str, roots: Sequence[str]) -> bool:
        """Whether the sandbox hides it from commands, and none of these folders and files opens it."""
        if self._sandbox is None or self._sandbox.kind == "none":
            return False
        return is_hidden(path, self._sandbox.hidden(self._roots[0]), roots)

    def lets_change(self, path: str, roots: Sequence[str]) -> bool:
        """Whether the sandbox lets commands that may write in these folders and files change this path."""
        if self._sandbox is None or self._sandbox.kind == "none":
            return True
        return is_inside(path, (*roots, *self._sandbox.writable(self._roots[0])))

    async def detect_sandbox(self) -> None:
        """Find out which sandbox there is. Where the one of the settings cannot be had, the calls themselves fail."""
        if self._sandbox is not None and self._sandbox.kind is None:
            with suppress(ToolError):
                self._release(await self._acquire())

    def _hidden_now(self, roots: Sequence[str]) -> set[str]:
        """What a sandbox hides in these folders if it is created now. An older one may not hide all of it."""
        if self._sandbox is None or self._sandbox.kind == "none":
            return set()
        return {path for path in self._sandbox.fence(self._roots[0], self._roots).hidden if is_inside(path, roots)}

    def reaches(self, path: str) -> bool:
        """Whether a worker can open and change this path itself."""
        if self._sandbox is None or self._sandbox.kind == "none":
            return True
        return is_inside(path, self._roots) and not self.hides(path, self._roots)

    # Requests.

    async def request(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        data: bytes = b"",
        file: int = -1,
        timeout: float = TIMEOUT,
        roots: Sequence[str] = (),
    ) -> tuple[dict[str, Any], bytes]:
        """Run an operation in a worker and return its value and its bytes. Raises ToolError, also `WorkerTimeout`, or
        the OSError of the operation.

        With `roots` that the usual workers do not reach, a worker of its own is started that does.
        """
        frame = protocol.pack_request({"operation": operation, "arguments": dict(arguments)}, data)
        extra = [root for root in roots if not self.reaches(root)]
        worker = await (self._start(extra) if extra else self._acquire())
        if roots and not worker.hides(self._hidden_now(roots)):
            self._drop(worker)
            worker = await self._start(extra)
        try:
            async with asyncio.timeout(timeout):
                answer, payload = await worker.ask(frame, file)
        except TimeoutError:
            self._drop(worker)
            raise WorkerTimeout(timeout) from None
        except (_WorkerGone, ValueError):
            self._drop(worker)
            raise worker.ended_error() from None
        except BaseException:
            self._drop(worker)
            raise
        if extra:
            self._drop(worker)
        else:
            self._release(worker)
        return _value(answer), payload

    async def close(self) -> None:
        self._closed = True
        for worker in (*self._free, *self._busy):
            worker.kill()
        self._free, self._busy = [], set()

    # Files as they are, for checkpoints.

    async def file_state(self, path: str) -> FileState | None:
        """The state of the regular file at a real path; None if there is none. Raises ToolError or OSError."""
        if self.reaches(path):
            value, data = await self.request("snapshot", {"path": path})
            return FileState(data, value["mode"]) if value["there"] else None
        from polylect.tools.worker.checkpoint_files import read_state

        state = await run_in_thread(read_state, path)
        return FileState(*state) if state else None

    async def restore(self, path: str, state: FileState | None) -> None:
        """Restore a file, or delete it, never through a link. Raises ToolError or OSError."""
        if self.reaches(path):
            arguments = {"path": path, "there": state is not None, "mode": state.mode if state else 0}
            await self.request("restore", arguments, data=state.data if state else b"")
            return
        from polylect.tools.worker.checkpoint_files import restore_file

        await run_in_thread(restore_file, path, (state.data, state.mode) if state else None)

    async def count_changes(self, old: bytes, new: bytes) -> tuple[int, int]:
        """The number of added and of removed lines."""
        value, _ = await self.request("count_changes", {"size": len(old)}, data=old + new)
        return value["come"], value["go"]

    # Workers.

    async def _acquire(self) -> "_Worker":
        while True:
            while self._free:
                worker = self._free.pop()
                if not worker.ended:
                    self._busy.add(worker)
                    return worker
                worker.kill()
            if not self._busy and not self._starting:
                return await self._start()
            if other := await self._wait_for_free():
                return other

    async def _wait_for_free(self) -> "_Worker | None":
        """A worker that another request releases. None: try again, or start one."""
        waiter: asyncio.Future[_Worker | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._schedule_check()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and (worker := waiter.result()):
                self._release(worker)
            raise
        finally:
            with suppress(ValueError):
                self._waiting.remove(waiter)

    def _schedule_check(self) -> None:
        if self._timer is None and self._waiting and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(START_ANOTHER_AFTER, self._start_another)

    def _start_another(self) -> None:
        """If requests wait and no worker is being started, start another one, for any of them."""
        self._timer = None
        if self._waiting and not self._starting and not self._extra_start and len(self._busy) < MOST_WORKERS:
            self._extra_start = asyncio.ensure_future(self._start())
            self._extra_start.add_done_callback(self._added)
        self._schedule_check()

    def _added(self, task: "asyncio.Task[_Worker]") -> None:
        self._extra_start = None
        if not task.cancelled() and not task.exception():
            self._release(task.result())

    async def _start(self, extra: Sequence[str] = ()) -> "_Worker":
        self._starting += 1
        try:
            worker = await _Worker.start(self._custody, self._sandbox, (*self._roots, *extra))
            self._busy.add(worker)
            return worker
        finally:
            self._starting -= 1
            self._wake()

    def _release(self, worker: "_Worker") -> None:
        """Give the worker to the next request. Without one, one worker stays and others are killed."""
        if self._closed or (self._waiting and worker.ended):
            return self._drop(worker)
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter.set_result(worker)
        self._busy.discard(worker)
        if self._free:
            worker.kill()
        else:
            self._free.append(worker)

    def _drop(self, worker: "_Worker") -> None:
        self._busy.discard(worker)
        worker.kill()
        self._wake()

    def _wake(self) -> None:
        """If no worker is left or being started, let the request that has waited longest start one."""
        while self._waiting and not self._busy and not self._starting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter.set_result(None)


def _value(answer: dict[str, Any]) -> dict[str, Any]:
    """The value in a reply. Raises the error that the reply reports."""
    match answer.get("kind"):
        case None:
            value: dict[str, Any] = answer["value"]
            return value
        case "tool":
            raise ToolError(answer["error"])
        case "missing":
            raise NoSuchFile(answer["error"])
        case "os":
            raise OSError(answer["errno"], answer["error"])
        case _:
            raise RuntimeError(answer["error"])


class _WorkerGone(Exception):
    """The worker has ended."""


class _Worker:
    """One process and the socket to it. One request at a time."""

    def __init__(self, near: socket.socket, hidden: Collection[str]) -> None:
        self._socket = near
        self._loop = asyncio.get_running_loop()
        self._child: OpenChild | None = None
        self._hidden = set(hidden)
        self._stderr = b""

    @classmethod
    async def start(cls, custody: Custody, sandbox: Sandbox | None, roots: Sequence[str]) -> "_Worker":
        """Start a worker. The first one shows whether bubblewrap works here; where it does not, another sandbox is
        looked for."""
        program = own_program("worker.program")
        if sandbox is None:
            return await cls._launch(custody, program)
        custody.prepare()
        fence = sandbox.fence(roots[0], roots)
        if sandbox.expects_bwrap(roots[0]):
            with suppress(ToolError):
                worker = await cls._launch(custody, sandbox.confine(program, fence, roots[0]), fence.hidden)
                sandbox.confirm_bwrap()
                return worker
        await sandbox.detect(roots[0], custody)
        return await cls._launch(custody, sandbox.confine(program, fence, roots[0]), fence.hidden)

    @classmethod
    async def _launch(cls, custody: Custody, argv: Sequence[str], hidden: Collection[str] = ()) -> "_Worker":
        """Start this process and return once it serves. Raises ToolError if it ends before that or takes too long."""
        near, far = socket.socketpair()
        near.setblocking(False)
        worker = cls(near, hidden)
        env = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
        try:
            with far:
                worker._child = await custody.open(
                    argv, cwd="/", env=env, on_error_output=worker._note, stdin=far.fileno()
                )
            async with asyncio.timeout(START_TIMEOUT):
                greeting = await worker._loop.sock_recv(near, len(protocol.GREETING))
            if greeting != protocol.GREETING:
                raise worker.ended_error()
        except (TimeoutError, ConnectionError):
            worker.kill()
            raise worker.ended_error() from None
        except BaseException:
            worker.kill()
            raise
        return worker

    def hides(self, paths: set[str]) -> bool:
        """Whether its sandbox hides all of these paths."""
        return paths <= self._hidden

    @property
    def ended(self) -> bool:
        """Whether the process has ended: then its end of the socket is closed."""
        if self._socket.fileno() < 0:
            return True
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True  # a worker sends nothing unasked

    async def ask(self, frame: bytes, file: int) -> tuple[dict[str, Any], bytes]:
        """Send a request and return the reply. Raises _WorkerGone, or ValueError for an invalid reply."""
        try:
            await self._send(frame, file)
            body, whole = await self._receive()
        except OSError as error:
            raise _WorkerGone from error
        with memoryview(whole) as view:
            return protocol.unpack_reply(view[:body]), bytes(view[body:])

    async def _send(self, frame: bytes, file: int) -> None:
        if file >= 0:
            sent = socket.send_fds(self._socket, [frame[: protocol.HEAD]], [file])
        else:
            try:
                sent = self._socket.send(frame)
            except BlockingIOError:
                sent = 0
        if sent < len(frame):
            await self._loop.sock_sendall(self._socket, memoryview(frame)[sent:])

    async def _receive(self) -> tuple[int, bytearray]:
        """The length of the message, and the message with the bytes behind it. Most replies come in one piece."""
        start = b""
        while len(start) < protocol.HEAD:
            if not (piece := await self._loop.sock_recv(self._socket, _FIRST)):
                raise _WorkerGone
            start += piece
        body, data = protocol.lengths(start)
        whole, at = bytearray(body + data), len(start) - protocol.HEAD
        if at > len(whole):
            raise ValueError("more than one reply")
        whole[:at] = start[protocol.HEAD :]
        view = memoryview(whole)
        while at < len(whole):
            if not (count := await self._loop.sock_recv_into(self._socket, view[at : at + _CHUNK])):
                raise _WorkerGone
            at += count
        return body, whole

    def kill(self) -> None:
        """At once, with all that it has started."""
        self._socket.close()
        if self._child:
            self._child.kill()

    def ended_error(self) -> ToolError:
        """For the model, with the end of what the process printed, which says why it died."""
        printed = self._stderr.decode(errors="replace").strip().rpartition("\n")[2][:500]
        return ToolError(f"The process that does this was ended. {printed}".rstrip())

    def _note(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-4096:]
