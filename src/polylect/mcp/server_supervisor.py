"""Supervises one MCP server: connects it, restarts it once after a crash, calls its tools and reports every change.

Every server has a task of its own (`ServerSupervisor._run`), so a server that hangs or crashes affects nobody else. A
call that arrives while the server is being restarted waits until that has succeeded or failed. A call that is cancelled
or takes too long is cancelled at the server too, and its answer is not waited for.

`Servers` creates one supervisor per server.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from time import monotonic
from typing import Any, TypeVar

import msgspec

from polylect.mcp.connection import Connection, connected
from polylect.mcp.protocol.frames import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    EmbeddedResource,
)
from polylect.mcp.responder import RequestRefused
from polylect.mcp.results import prompt_blocks, tool_return
from polylect.mcp.sampling import DENIED, Sampler
from polylect.mcp.server_log import ServerLog
from polylect.mcp.tool import ListedTool
from polylect.mcp.values import Condition, PromptCommand, Resource, ServerFault, ServerSetup, ServerStatus
from polylect.system.tasks import TaskSet
from polylect.vocab.commands import Answer
from polylect.vocab.content import Block, Server
from polylect.vocab.events import Ask
from polylect.vocab.ports import ToolContext, ToolReturn
from polylect.wire.jsonrpc import Error

T = TypeVar("T")
RESTARTS = 1
STEADY = 60.0
"""A server that was up for so many seconds may crash once more."""
REFRESH_PAUSE = 0.05
"""Seconds: change notifications of a server that arrive within this time cause one reload."""
MOST_PROGRESS = 50_000
MOST_FAULT = 2000
MOST_QUESTIONS = 5
"""Questions of one server that may wait for a person at the same time."""
QUESTION_WAIT = 30.0
"""Seconds that a question waits for a call to return while it is not clear which session it belongs to."""
_MOST_GIVEN_UP = 100
_current_call: ContextVar["_ActiveCall | None"] = ContextVar("current_call", default=None)
"""The call in whose task a question arises, as inside of an `input_required` result."""


class ServerSupervisor:
    """One server and what is known of it. `on_change` is called whenever its state has to be reported to the host."""

    def __init__(
        self, server: Server, setup: ServerSetup, on_change: Callable[["ServerSupervisor"], Awaitable[None]]
    ) -> None:
        self.server = server
        self.condition: Condition = "connecting"
        self.added = monotonic()
        self.reported = False
        """Whether the host was told at least once that it is ready or has failed."""
        self.reason = ""
        self.listed: list[ListedTool] = []
        self.prompts: tuple[PromptCommand, ...] = ()
        self.prompts_listed = asyncio.Event()
        """Set when its prompts are known, or cannot be: they are listed only after its tools."""
        self.resources: tuple[Resource, ...] = ()
        self.has_resources = False
        self.resources_listed = asyncio.Event()
        self._setup = setup
        self._on_change = on_change
        self._log = ServerLog(server)
        self._sampler = Sampler(server.name, setup.sampling, setup.sampling_max_tokens)
        self._version = self._revision = ""
        self._capabilities: tuple[str, ...] = ()
        self._connection: Connection | None = None
        self._start_finished = asyncio.Event()
        self._active_calls: list[_ActiveCall] = []
        self._given_up: deque[tuple[object, float]] = deque(maxlen=_MOST_GIVEN_UP)
        """Calls that were cancelled or took too long: the session and the time."""
        self._questions = 0
        self._tasks = TaskSet()
        self._stale: set[str] = set()
        self._work = asyncio.create_task(self._run())

    def status(self, tools: tuple[str, ...]) -> ServerStatus:
        transport = self.server.transport
        lists = (tools, self.prompts, self.resources)
        facts = (self._revision, self._capabilities, self._log.error_lines())
        return ServerStatus(self.server.name, transport, self.condition, self.reason, self._version, *lists, *facts)

    async def stop(self) -> None:
        """Return once the server has ended. A caller may stop waiting: custody ends the process in any case."""
        self._connection, self.reason = None, "the server was removed"
        self._start_finished.set()
        self._no_more_lists()
        self._work.cancel()
        await asyncio.wait((self._work,))

    # Connecting and restarting.

    async def _run(self) -> None:
        chances = RESTARTS
        while True:
            began = monotonic()
            fault = await self._connect_and_wait()
            self._connection = None
            was_ready = self.condition == "ready"
            if was_ready and monotonic() - began > STEADY:
                chances = RESTARTS
            if not was_ready or not chances:
                again = "" if was_ready or chances else "it crashed and did not come up again: "
                return await self._fail(f"{again}{fault}")
            chances -= 1
            self._log.log(logging.WARNING, f"{fault}; starting it again")
            self.condition = "connecting"
            self._start_finished.clear()

    async def _connect_and_wait(self) -> str:
        """Connect, then wait for the end of the connection. Returns why it ended."""
        try:
            async with asyncio.timeout(self._setup.connect_timeout) as deadline:
                sample = self._sample if self._setup.sampling != "off" else None
                async with connected(
                    self.server, self._setup, self._log, self._ask, self._refresh, sample
                ) as self._connection:
                    self.listed = await self._connection.tools()
                    deadline.reschedule(None)
                    await self._on_ready()
                    await self._connection.lost.wait()
            return self._with_details("the server ended")
        except TimeoutError:
            return self._with_details(f"no answer within {self._setup.connect_timeout:g} s")
        except Exception as error:  # noqa: BLE001  (whatever a server does, it is that server's end only)
            return self._with_details(str(error) or type(error).__name__)

    async def _on_ready(self) -> None:
        assert self._connection
        self._version, self._revision = self._connection.version, self._connection.protocol
        offers = self._connection.capabilities
        self._capabilities = tuple(name for name in offers.__struct_fields__ if getattr(offers, name) is not None)
        self.has_resources = self._connection.capabilities.resources is not None
        self.condition = "ready"
        self._start_finished.set()
        await self._on_change(self)
        self._refresh("prompts")
        self._refresh("resources")

    async def _fail(self, reason: str) -> None:
        self.condition, self.reason = "failed", reason
        had_prompts = bool(self.prompts)
        self.listed, self.prompts, self.resources = [], (), ()
        if had_prompts:
            self._setup.on_commands()
        self._start_finished.set()
        self._no_more_lists()
        await self._on_change(self)

    def _no_more_lists(self) -> None:
        self.prompts_listed.set()
        self.resources_listed.set()

    def _with_details(self, fault: str) -> str:
        summary = self._log.summary()
        return self._log.redact(f"{fault} ({summary})" if summary not in fault else fault)

    # Lists that change.

    def _refresh(self, what: str) -> None:
        """Request a changed list again. While one reload of a list is waiting, further notifications start no other."""
        if what in self._stale:
            return
        self._stale.add(what)
        self._start_task(self._reload(what))

    async def _reload(self, what: str) -> None:
        connection = self._connection
        await asyncio.sleep(REFRESH_PAUSE)
        self._stale.discard(what)
        if not connection or connection.lost.is_set():
            return
        try:
            async with asyncio.timeout(self._setup.connect_timeout):
                match what:
                    case "tools":
                        await self._reload_tools(connection)
                    case "prompts":
                        await self._reload_prompts(connection)
                    case _:
                        self.resources = tuple(await connection.resources())
        except Exception as error:  # noqa: BLE001  (the old list stays)
            if self._connection is connection:
                self._log.log(logging.WARNING, f"cannot list its {what}: {str(error) or type(error).__name__}")
        if what == "prompts":
            self.prompts_listed.set()
        elif what == "resources":
            self.resources_listed.set()

    async def _reload_tools(self, connection: Connection) -> None:
        listed = await connection.tools()
        if listed != self.listed and self.condition == "ready":
            self.listed = listed
            await self._on_change(self)

    async def _reload_prompts(self, connection: Connection) -> None:
        prompts = tuple(await connection.prompts())
        if prompts != self.prompts and self.condition == "ready":
            self.prompts = prompts
            self._setup.on_commands()

    # Calls.

    async def call(self, tool: str, args: dict[str, Any], context: ToolContext, session: object = None) -> ToolReturn:
        """One call. When it is cancelled or takes too long, the server is told, and nobody waits for its answer.

        `session` tells the sessions apart that share this server.
        """
        return await self._run_call(
            tool, context, session, lambda connection: connection.call(tool, args, _bounded(context))
        )

    async def read_resource(self, uri: str, context: ToolContext, session: object = None) -> ToolReturn:
        """The contents of a resource, as the result of a call."""

        async def read(connection: Connection) -> CallToolResult:
            contents = await connection.read_resource(uri)
            return CallToolResult(content=[EmbeddedResource(resource=one) for one in contents])

        return await self._run_call("the resource", context, session, read)

    async def templates(self) -> list[dict[str, Any]]:
        """The templates of resources, as JSON has them; none if the server does not answer."""
        try:
            async with asyncio.timeout(self._setup.connect_timeout):
                listed = await (await self._connected()).resource_templates()
                return [msgspec.to_builtins(template) for template in listed]
        except (ServerFault, TimeoutError):
            return []

    async def _run_call(
        self,
        what: str,
        context: ToolContext,
        session: object,
        start: Callable[[Connection], Coroutine[Any, Any, CallToolResult]],
    ) -> ToolReturn:
        work: asyncio.Task[Any] | None = None
        try:
            async with asyncio.timeout(self._setup.call_timeout) as deadline:
                connection = await self._connected()
                with _ActiveCall(context, deadline, self._active_calls, session):
                    work = self._start_task(start(connection))
                    return tool_return(await asyncio.shield(work), context)
        except ServerFault as fault:
            return ToolReturn(self._log.redact(f"MCP server {self.server.name}: {fault}", MOST_FAULT), ok=False)
        except TimeoutError:
            late = f"did not answer within {self._setup.call_timeout:g} s, and the call was cancelled"
            return ToolReturn(f"MCP server {self.server.name}: {what} {late}", ok=False)
        finally:
            if work and not work.done():
                self._given_up.append((session, monotonic()))
                work.cancel()

    async def prompt(self, name: str, args: dict[str, str]) -> tuple[Block, ...]:
        """The content of a prompt. Raises ServerFault."""
        try:
            async with asyncio.timeout(self._setup.call_timeout):
                connection = await self._connected()
                return prompt_blocks(await connection.prompt(name, args))
        except TimeoutError:
            raise ServerFault(f"no answer within {self._setup.call_timeout:g} s") from None

    async def _connected(self) -> Connection:
        """The connection. Waits where the server has to be restarted first. Raises ServerFault if there is none."""
        if self._connection and self._connection.lost.is_set():
            self._start_finished.clear()
        await self._start_finished.wait()
        if not self._connection:
            raise ServerFault(self.reason or "the server is gone")
        return self._connection

    async def _ask(self, question: Ask) -> Answer:
        """Ask a question of the server: as part of the call it belongs to, or of the session where none is active."""
        if self._questions >= MOST_QUESTIONS:
            return Answer(question.ask, "deny", reason="too many questions at once")
        self._questions += 1
        try:
            if call := _current_call.get() or await self._asking_call():
                return await call.ask(question, self._setup.call_timeout)
            return await self._setup.ask(question) if self._setup.ask else Answer(question.ask, "cancelled")
        finally:
            self._questions -= 1

    async def _sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Ask the model for the server, on behalf of the call that its request belongs to. Raises RequestRefused."""
        call = _current_call.get() or await self._asking_call()
        if call is None or self._questions >= MOST_QUESTIONS:
            raise RequestRefused(Error(DENIED, "No call is active, or too many requests are"))
        self._questions += 1
        try:
            time_left = self._setup.call_timeout
            work = self._sampler.create_message(params, call.context, lambda question: call.ask(question, time_left))
            return await call.wait_for(work, time_left)
        except CallEnded:
            raise RequestRefused(Error(DENIED, "The call has ended")) from None
        finally:
            self._questions -= 1

    async def _asking_call(self) -> "_ActiveCall | None":
        """The call that a question belongs to where the server does not say so: the latest.

        If calls of several sessions are active, wait until only those of one are: a call that asks does not return
        before it is answered. None if that cannot be decided, because no call returns, or because a call of another
        session was given up a moment ago, and the server may not have noticed.
        """
        if not (calls := list(self._active_calls)):
            return None
        while len({call.session for call in calls}) > 1:
            ended = [call.ended for call in calls]
            done, _ = await asyncio.wait(ended, timeout=QUESTION_WAIT, return_when=asyncio.FIRST_COMPLETED)
            calls = [call for call in calls if not call.ended.done()] if done else []
        given_up = {session for session, when in self._given_up if monotonic() - when < QUESTION_WAIT}
        if calls and given_up <= {calls[-1].session}:
            return calls[-1]
        self._log.log(logging.WARNING, "asked a question that belongs to no call for certain; it was declined")
        return None

    def _start_task(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self._tasks.start(work)
        # The exception is retrieved, so that asyncio does not log it.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task


class CallEnded(Exception):
    """The call ended before what its server asked for was done."""


class _ActiveCall:
    """A call that has not ended. Questions that the server asks during the call end with it."""

    def __init__(
        self, context: ToolContext, deadline: asyncio.Timeout, active: list["_ActiveCall"], session: object
    ) -> None:
        self.session = session
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.context = context
        self._deadline = deadline
        self._active = active
        self._questions_open: set[asyncio.Future[Any]] = set()
        self._over = False

    def __enter__(self) -> None:
        self._active.append(self)
        self._token = _current_call.set(self)

    def __exit__(self, *exc: object) -> None:
        _current_call.reset(self._token)
        self._active.remove(self)
        self.ended.set_result(None)
        self._over = True
        for task in self._questions_open:
            task.cancel()

    async def ask(self, question: Ask, time_left: float) -> Answer:
        """Ask the host. Where the call ends first, nobody has answered."""
        try:
            return await self.wait_for(self.context.ask(question), time_left)
        except CallEnded:
            return Answer(question.ask, "cancelled")

    async def wait_for(self, work: Awaitable[T], time_left: float) -> T:
        """Wait for something that the server asked for. The time limit of the call is suspended meanwhile.

        Raises CallEnded if the call ends first.
        """
        task = asyncio.ensure_future(work)
        self._questions_open.add(task)
        self._deadline.reschedule(None)
        try:
            return await task
        except asyncio.CancelledError:
            if self._over:
                raise CallEnded from None
            raise
        finally:
            self._questions_open.discard(task)
            if not self._over and not self._questions_open:
                self._deadline.reschedule(asyncio.get_running_loop().time() + time_left)


def _bounded(context: ToolContext) -> Callable[[str], None]:
    """The progress callback of a call, which passes on at most MOST_PROGRESS characters."""
    left = MOST_PROGRESS

    def show(text: str) -> None:
        nonlocal left
        if left > 0:
            left -= len(text)
            context.progress(text)

    return show
