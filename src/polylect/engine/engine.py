"""The engine: takes commands, runs one turn after another, says events.

`handle` never waits: whatever runs, an answer, a cancel or a question gets through.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from polylect.engine import attach
from polylect.engine.agent import Agent
from polylect.engine.configure import BadSetting, configured
from polylect.engine.loop import Turn
from polylect.engine.settings import Settings
from polylect.vocab.commands import (
    AddContext,
    AddServer,
    Answer,
    Cancel,
    Command,
    Configure,
    Hello,
    MalformedCommand,
    Prompt,
    Query,
    Steer,
    UnknownCommand,
)
from polylect.vocab.content import Failure, Message, State
from polylect.vocab.errors import SessionError
from polylect.vocab.events import (
    Alive,
    ArgsDelta,
    ContextUsed,
    Event,
    Notice,
    Reply,
    SettingChanged,
    Settled,
    ToolOutput,
    TurnEnded,
)

_QUIET = (ToolOutput, ArgsDelta, ContextUsed)
"""Events that some dialects cannot say: they do not count as a sign of life."""
_log = logging.getLogger(__name__)


class Engine:
    """One conversation. Must be made and used inside a running event loop."""

    def __init__(self, make_agent: Callable[[Callable[[Event], None]], Agent], say: Callable[[Event], None]) -> None:
        self._say = say
        self._agent = make_agent(self._emit)
        self._queue: deque[Prompt] = deque()
        self._turn: Turn | None = None
        self._work: asyncio.Task[TurnEnded] | None = None
        self._stopping = False
        self._dropped: list[Prompt] = []
        self._later: list[dict[str, Any]] = []
        self._spoken = 0
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def settings(self) -> Settings:
        return self._agent.settings

    # From outside.

    def handle(self, command: Command) -> None:
        match command:
            case Prompt():
                failure = self._prompt(command)
            case Steer():
                failure = self._steer(command)
            case Cancel():
                failure = self._cancel(command)
            case Answer():
                failure = self._answer(command)
            case Configure(settings):
                failure = self._configure(settings)
            case AddContext(text):
                failure = self._add_context(text)
            case AddServer(server):
                failure = Failure(
                    "mcp", f"the MCP server {server.name!r} cannot be added: this version has no MCP yet", "host"
                )
            case Query():
                return self._query(command)
            case Hello():
                failure = None
            case MalformedCommand():
                return None  # its codec has answered it
            case UnknownCommand(kind):
                failure = Failure("unknown_command", f"Unknown command type: {kind}", "host")
            case _:
                failure = Failure("unsupported", f"this engine cannot do {type(command).__name__} yet", "host")
        self._reply(command, failure=failure)
        self._next()

    def input_closed(self, *, stop: bool) -> None:
        """Nobody will say more. What was accepted is finished unless `stop`; what would have to be asked is denied."""
        self._agent.asks.nobody_listens()
        if stop:
            self._cancel(Cancel())

    async def settled(self) -> None:
        """Returns once nothing runs and nothing waits."""
        await self._settled.wait()

    async def close(self) -> None:
        """Stop everything and let go of everything."""
        self._cancel(Cancel())
        await self._settled.wait()
        await self._agent.processes.close()
        with suppress(Exception):
            await self._agent.provider.close()
        self._agent.session.store.close()

    # Commands.

    def _prompt(self, command: Prompt) -> Failure | None:
        agent = self._agent
        if not command.turn:
            return Failure(
                "no_turn", "the prompt has no id: give it one, and every event of its turn will carry it", "host"
            )
        if command.turn in self._ids():
            return Failure("duplicate_turn", f"a prompt with the id {command.turn!r} is not finished yet", "host")
        if len(self._queue) >= agent.settings.queue:
            message = f"{len(self._queue)} prompts are waiting, which is the limit; send this one again later"
            return Failure("queue_full", message, "host", retryable=True)
        if command.busy == "refuse" and self._turn:
            return Failure("busy", "a turn is running", "host", retryable=True)
        said = self._read(command)
        if isinstance(said, Failure):
            return said
        try:
            agent.session.accept(command.turn, said)
        except SessionError as error:
            return Failure("session", str(error), "engine")
        self._queue_up(command)
        return None

    def _queue_up(self, command: Prompt) -> None:
        self._settled.clear()
        if command.busy == "interrupt":
            self._queue.appendleft(command)
            self._stop_turn()
        else:
            self._queue.append(command)

    def _steer(self, command: Steer) -> Failure | None:
        if self._turn is None:
            return Failure("idle", "no turn is running that could be steered; send a prompt", "host")
        said = self._read(command)
        if isinstance(said, Failure):
            return said
        self._agent.steers.append((command, said))
        return None

    def _read(self, command: Prompt | Steer) -> Message | Failure:
        """What the model will see of it, or why it cannot be taken."""
        try:
            content = attach.blocks(command.text, command.attachments, self.settings.workspace)
        except attach.AttachmentError as error:
            return Failure("bad_attachment", str(error), "host")
        return Message("user", content) if content else Failure("empty_prompt", "the prompt is empty", "host")

    def _cancel(self, command: Cancel) -> Failure | None:
        match command.what:
            case "turn":
                if command.queued == "drop":
                    self._dropped.extend(self._queue)
                    self._queue.clear()
                self._stop_turn()
            case "prompt":
                self._dropped.extend(prompt for prompt in self._queue if prompt.turn == command.target)
                self._queue = deque(prompt for prompt in self._queue if prompt.turn != command.target)
            case what:
                return Failure("unsupported", f"this engine has no {what} to cancel", "host")
        self._next()
        return None

    def _answer(self, command: Answer) -> Failure | None:
        if self._agent.asks.answer(command):
            return None
        return Failure("unknown_ask", "nothing is waiting for this answer: unknown, or answered before", "host")

    def _configure(self, changes: dict[str, Any]) -> Failure | None:
        try:
            planned = self.settings
            for change in (*self._later, changes):
                planned = self._changed(planned, change)
        except BadSetting as error:
            return Failure("bad_setting", str(error), "host")
        at_once = {key: value for key, value in changes.items() if key == "mode" or not self._turn}
        later = {key: value for key, value in changes.items() if key not in at_once}
        if later:
            self._later.append(later)
            self._emit(Notice(f"{', '.join(later)}: will be changed after the current response"))
        self._apply(at_once)
        return None

    def _apply(self, changes: dict[str, Any]) -> None:
        self._agent.settings = self._changed(self.settings, changes)
        for key, value in changes.items():
            if value is not None:
                self._emit(SettingChanged(key, value))

    def _changed(self, settings: Settings, changes: dict[str, Any]) -> Settings:
        return configured(settings, changes, self._agent.provider.info(str(changes.get("model") or settings.model)))

    def _add_context(self, text: str) -> Failure | None:
        try:
            self._agent.session.add_context(text)
        except SessionError as error:
            return Failure("session", str(error), "engine")
        return None

    def _query(self, command: Query) -> None:
        session = self._agent.session
        match command.what:
            case "state":
                self._reply(command, self._state())
            case "messages":
                self._reply(command, list(session.messages))
            case "stats":
                self._reply(command, session.stats())
            case what:
                failure = Failure(
                    "unsupported", f"there is no {what!r} to ask for; ask for state, messages or stats", "host"
                )
                self._reply(command, failure=failure)

    def _state(self) -> State:
        settings, session = self.settings, self._agent.session
        return State(
            session=session.id,
            model=settings.model,
            mode=settings.mode,
            thinking=str(settings.thinking) if settings.thinking else "",
            busy=self._turn is not None,
            queued=len(self._queue),
            messages=len(session.messages),
        )

    # Turns.

    def _next(self) -> None:
        """Start what waits, if nothing runs."""
        if self._turn is not None:
            return
        self._end_dropped()
        if self._queue:
            prompt = self._queue.popleft()
            self._turn = Turn(self._agent, prompt.turn, query=prompt.query)
            self._work = asyncio.create_task(self._turn.run())
            self._running = asyncio.create_task(self._see_through(self._turn, self._work))
        elif not self._settled.is_set():
            self._settled.set()
            self._emit(Settled())

    async def _see_through(self, turn: Turn, work: asyncio.Task[TurnEnded]) -> None:
        """Never cancelled itself: whatever becomes of the work, the turn ends here, once, and the next one begins."""
        pulse = asyncio.create_task(self._keep_alive(turn.id))
        await asyncio.wait([work])
        ended = TurnEnded("cancelled", turn=turn.id) if work.cancelled() else work.result()
        await self._close_books(ended)
        pulse.cancel()
        self._turn = self._work = None
        self._stopping = False
        self._drop_steers(turn.id)
        self._emit(ended)
        for changes in self._later:
            self._apply(changes)
        self._later.clear()
        self._next()

    async def _close_books(self, ended: TurnEnded) -> None:
        """On disk, whatever a power cut does, before the host hears that the turn has ended."""
        session = self._agent.session
        try:
            session.end(ended.turn, ended.reason, ended.usage)
            await asyncio.to_thread(session.store.sync)
        except (SessionError, OSError) as error:
            _log.error("%s", error)
            self._emit(Notice(f"This turn could not be saved: {error}", "warning", turn=ended.turn))

    def _stop_turn(self) -> None:
        if self._work is not None and not self._stopping:
            self._stopping = True
            self._work.cancel()

    def _drop_steers(self, turn: str) -> None:
        if count := len(self._agent.steers):
            self._emit(Notice(f"{count} messages meant for this turn were dropped with it", "warning", turn=turn))
            self._agent.steers.clear()

    def _end_dropped(self) -> None:
        for prompt in self._dropped:
            with suppress(SessionError):
                self._agent.session.forget(prompt.turn)
            self._emit(TurnEnded("cancelled", turn=prompt.turn))
        self._dropped.clear()

    async def _keep_alive(self, turn: str) -> None:
        """A host hears something at least every `heartbeat` seconds while a turn runs."""
        while self.settings.heartbeat:
            before = self._spoken
            await asyncio.sleep(self.settings.heartbeat / 2)
            if self._spoken == before:
                call, name = next(iter(self._agent.running.items()), ("", ""))
                self._emit(Alive(call, name, turn=turn))

    # Saying.

    def _ids(self) -> set[str]:
        running = {self._turn.id} if self._turn else set()
        return running | {prompt.turn for prompt in (*self._queue, *self._dropped)}

    def _reply(self, command: Command, data: Any = None, failure: Failure | None = None) -> None:
        if command.ref:
            self._emit(Reply(command.ref, data, failure))

    def _emit(self, event: Event) -> None:
        if not event.agent and not isinstance(event, _QUIET):
            self._spoken += 1
        self._say(event)
