"""Keeps one server: connects it, restarts it once if it crashes, calls its tools, says when anything changes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any

from polylect.mcp.results import prompt_blocks, returned
from polylect.mcp.server_log import Remarks
from polylect.mcp.tool import Listed
from polylect.mcp.values import Condition, Fault, Place, PromptCommand, Resource, ServerStatus
from polylect.system.threads import run_in_thread
from polylect.vocab.commands import Answer
from polylect.vocab.content import Block, Server
from polylect.vocab.events import Ask
from polylect.vocab.ports import ToolContext, ToolReturn

if TYPE_CHECKING:  # it loads the SDK
    from polylect.mcp.link import Link

RESTARTS = 1
STEADY = 60.0
"""A server that was up for so many seconds may crash once more."""
REFRESH_PAUSE = 0.05
"""What is said again and again within this time is heard once."""
MOST_PROGRESS = 50_000
MOST_FAULT = 2000
MOST_QUESTIONS = 5
"""Questions of one server that may wait for a person at the same time."""
_MISSING = "MCP needs the Python package mcp, and it is not installed here: pip install mcp"


class Keeper:
    """One server and what is known of it. `on_change` is called whenever a host should hear of it again."""

    def __init__(self, server: Server, place: Place, on_change: Callable[["Keeper"], Awaitable[None]]) -> None:
        self.server = server
        self.condition: Condition = "connecting"
        self.added = monotonic()
        self.reported = False
        """Whether the host has heard at least once that it came up or failed."""
        self.reason = ""
        self.listed: list[Listed] = []
        self.prompts: tuple[PromptCommand, ...] = ()
        self.resources: tuple[Resource, ...] = ()
        self._place = place
        self._on_change = on_change
        self._remarks = Remarks(server)
        self._version = ""
        self._link: Link | None = None
        self._decided = asyncio.Event()
        self._callers: list[_Caller] = []
        self._questions = 0
        self._errands: set[asyncio.Task[Any]] = set()
        self._stale: set[str] = set()
        self._work = asyncio.create_task(self._keep())

    def status(self, tools: tuple[str, ...]) -> ServerStatus:
        transport = self.server.transport
        facts = (self.reason, self._version, tools, self.prompts, self.resources)
        return ServerStatus(self.server.name, transport, self.condition, *facts)

    async def stop(self) -> None:
        """Ends when the server has. Can be given up on: custody outlives it."""
        self._link, self.reason = None, "the server was removed"
        self._decided.set()
        self._work.cancel()
        await asyncio.wait((self._work,))

    # Keeping.

    async def _keep(self) -> None:
        chances = RESTARTS
        while True:
            began = monotonic()
            fault = await self._live()
            self._link = None
            came_up = self.condition == "ready"
            if came_up and monotonic() - began > STEADY:
                chances = RESTARTS
            if not came_up or not chances:
                again = "" if came_up or chances else "it crashed and did not come up again: "
                return await self._fail(f"{again}{fault}")
            chances -= 1
            self._remarks.log(logging.WARNING, f"{fault}; starting it again")
            self.condition = "connecting"
            self._decided.clear()

    async def _live(self) -> str:
        """From connecting to the end of the connection, and why it ended."""
        try:
            async with self._place.loading:
                link = await run_in_thread(import_module, "polylect.mcp.link")  # see there what it costs
        except ImportError as error:
            return _MISSING if (error.name or "").split(".")[0] != "polylect" else str(error)
        try:
            async with asyncio.timeout(self._place.connect_timeout) as deadline:
                async with link.connected(
                    self.server, self._place, self._remarks, self._ask, self._refresh
                ) as self._link:
                    self.listed = await self._link.tools()
                    deadline.reschedule(None)
                    await self._come_up()
                    await self._link.lost.wait()
            return self._explained("the server ended")
        except TimeoutError:
            return self._explained(f"no answer within {self._place.connect_timeout:g} s")
        except Exception as error:  # noqa: BLE001  (whatever a server or the SDK does, it is that server's end only)
            return self._explained(link.why(error))

    async def _come_up(self) -> None:
        assert self._link
        self._version = self._link.version
        self.condition = "ready"
        self._decided.set()
        await self._on_change(self)
        self._refresh("prompts")
        self._refresh("resources")

    async def _fail(self, reason: str) -> None:
        self.condition, self.reason = "failed", reason
        had_prompts = bool(self.prompts)
        self.listed, self.prompts, self.resources = [], (), ()
        if had_prompts:
            self._place.on_commands()
        self._decided.set()
        await self._on_change(self)

    def _explained(self, fault: str) -> str:
        summary = self._remarks.summary()
        return self._remarks.clean(f"{fault} ({summary})" if summary else fault)

    # Lists that change.

    def _refresh(self, what: str) -> None:
        """Ask again for what has changed; however often a server says so, one question is under way."""
        if what in self._stale:
            return
        self._stale.add(what)
        self._errand(self._ask_again(what))

    async def _ask_again(self, what: str) -> None:
        link = self._link
        await asyncio.sleep(REFRESH_PAUSE)
        self._stale.discard(what)
        if not link or link.lost.is_set():
            return
        try:
            async with asyncio.timeout(self._place.connect_timeout):
                match what:
                    case "tools":
                        await self._renew_tools(link)
                    case "prompts":
                        await self._renew_prompts(link)
                    case _:
                        self.resources = tuple(await link.resources())
        except Exception as error:  # noqa: BLE001  (the old list stays)
            if self._link is link:
                self._remarks.log(logging.WARNING, f"cannot list its {what}: {str(error) or type(error).__name__}")

    async def _renew_tools(self, link: "Link") -> None:
        listed = await link.tools()
        if listed != self.listed and self.condition == "ready":
            self.listed = listed
            await self._on_change(self)

    async def _renew_prompts(self, link: "Link") -> None:
        prompts = tuple(await link.prompts())
        if prompts != self.prompts and self.condition == "ready":
            self.prompts = prompts
            self._place.on_commands()

    # Using.

    async def call(self, tool: str, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        """One call. When it is cancelled or takes too long, the server is told, and nobody waits for its answer."""
        work: asyncio.Task[Any] | None = None
        try:
            async with asyncio.timeout(self._place.call_timeout) as deadline:
                link = await self._connected()
                work = self._errand(link.call(tool, args, _bounded(context)))
                with _Caller(context, deadline, self._callers):
                    return returned(await asyncio.shield(work), context)
        except Fault as fault:
            return ToolReturn(self._remarks.clean(f"MCP server {self.server.name}: {fault}", MOST_FAULT), ok=False)
        except TimeoutError:
            late = f"did not answer within {self._place.call_timeout:g} s, and the call was cancelled"
            return ToolReturn(f"MCP server {self.server.name}: {tool} {late}", ok=False)
        finally:
            if work:
                work.cancel()

    async def prompt(self, name: str, args: dict[str, str]) -> tuple[Block, ...]:
        """The words of a prompt. Raises Fault."""
        try:
            async with asyncio.timeout(self._place.call_timeout):
                link = await self._connected()
                return prompt_blocks(await link.prompt(name, args))
        except TimeoutError:
            raise Fault(f"no answer within {self._place.call_timeout:g} s") from None

    async def _connected(self) -> "Link":
        """The link, also if the server has to be started again first."""
        if self._link and self._link.lost.is_set():
            self._decided.clear()
        await self._decided.wait()
        if not self._link:
            raise Fault(self.reason or "the server is gone")
        return self._link

    async def _ask(self, question: Ask) -> Answer:
        """A question of the server's, asked on behalf of its latest call if it has any."""
        if self._questions >= MOST_QUESTIONS:
            return Answer(question.ask, "deny", reason="too many questions at once")
        self._questions += 1
        try:
            if self._callers:
                return await self._callers[-1].ask(question, self._place.call_timeout)
            return await self._place.ask(question) if self._place.ask else Answer(question.ask, "cancelled")
        finally:
            self._questions -= 1

    def _errand(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # looked at, also if nobody waits
        return task


class _Caller:
    """A call under way, among those of its server. What a server asks meanwhile ends with it."""

    def __init__(self, context: ToolContext, deadline: asyncio.Timeout, among: list["_Caller"]) -> None:
        self._context = context
        self._deadline = deadline
        self._among = among
        self._asking: set[asyncio.Task[Answer]] = set()
        self._over = False

    def __enter__(self) -> None:
        self._among.append(self)

    def __exit__(self, *exc: object) -> None:
        self._among.remove(self)
        self._over = True
        for asking in self._asking:
            asking.cancel()

    async def ask(self, question: Ask, time_left: float) -> Answer:
        """The call's time stands still while a person thinks."""
        asking = asyncio.create_task(self._put(question))
        self._asking.add(asking)
        self._deadline.reschedule(None)
        try:
            return await asking
        except asyncio.CancelledError:
            if self._over:
                return Answer(question.ask, "cancelled")
            raise
        finally:
            self._asking.discard(asking)
            if not self._over and not self._asking:
                self._deadline.reschedule(asyncio.get_running_loop().time() + time_left)

    async def _put(self, question: Ask) -> Answer:
        return await self._context.ask(question)


def _bounded(context: ToolContext) -> Callable[[str], None]:
    """A call's progress, up to a bound."""
    left = MOST_PROGRESS

    def show(text: str) -> None:
        nonlocal left
        if left > 0:
            left -= len(text)
            context.progress(text)

    return show
