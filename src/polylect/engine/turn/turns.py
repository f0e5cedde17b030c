"""One turn after another: prompts that wait, the one that runs, and how each of them ends."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Literal

from msgspec import structs

from polylect.engine.agent import Agent
from polylect.engine.commands.background import fault
from polylect.engine.heartbeat import Heartbeat
from polylect.engine.turn.loop import Turn
from polylect.system.threads import run_in_thread
from polylect.vocab.answers import Queue
from polylect.vocab.commands import Prompt
from polylect.vocab.errors import SessionError
from polylect.vocab.events import CostChanged, Failed, Notice, QueueChanged, Settled, TurnEnded, TurnStarted

_log = logging.getLogger(__name__)


class TurnQueue:
    """Every prompt that is added ends exactly once, whatever happens to it."""

    def __init__(
        self, agent: Agent, heartbeat: Heartbeat, *, on_end: Callable[[TurnEnded], None], at_work: Callable[[], bool]
    ) -> None:
        self._agent = agent
        self._on_end = on_end
        """Hears of every turn that ran and has ended, before the next one begins."""
        self._at_work = at_work
        """Whether anything goes on besides turns."""
        self._heartbeat = heartbeat
        self._emit = heartbeat.emit
        self._engine_turns: set[str] = set()
        """Turns that nobody asked for."""
        self._waiting: deque[Prompt] = deque()
        self._dropped: list[Prompt] = []
        self._after_current: list[Callable[[], None]] = []
        self._work: asyncio.Task[TurnEnded] | asyncio.Task[None] | None = None
        self._stopping = False
        self._keep_steers = False
        """Whether messages that came too late for the turn that runs go with the next one, whatever they say."""
        self._settled = asyncio.Event()
        self._settled.set()
        self._settled_emitted = True
        """Whether the host knows that nothing runs."""
        self._turn: Turn | None = None
        self.running = ""
        """The turn that runs."""
        self._ended_ids: set[str] = set()
        """Ids of turns that have ended; a host may use one again."""
        self._last_queue = QueueChanged()
        agent.steers.changed = self._emit_queue

    @property
    def busy(self) -> bool:
        return self._work is not None

    @property
    def engaged(self) -> bool:
        """Whether a turn runs and goes on, or another one is next."""
        return bool(self._waiting or (self.running and not self._stopping))

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def queue(self) -> Queue:
        """What waits: prompts by their turns, messages for a turn by their words."""
        steers = self._agent.steers
        return Queue(tuple(prompt.turn for prompt in self._waiting), steers.texts("soon"), steers.texts("last"))

    @property
    def ids(self) -> set[str]:
        """Turns that have not ended."""
        return {self.running, *(prompt.turn for prompt in (*self._waiting, *self._dropped))} - {""}

    def add(self, prompt: Prompt, cause: Literal["prompt", "engine"] = "prompt") -> None:
        self._mark_unsettled()
        if cause == "engine":
            self._engine_turns.add(prompt.turn)
        if prompt.busy == "interrupt":
            self.drop(queued=False)
            self._waiting.appendleft(prompt)
            self.stop(keep=True)
        else:
            self._waiting.append(prompt)

    def stop(self, *, keep: bool) -> None:
        """End what runs; prompts that wait are next. Messages that were meant for it wait on if they are to `keep`."""
        if not keep:
            self.drop_steers(keep=False)
        if self._work is not None and not self._stopping:
            self._keep_steers = keep
            self._stopping = True
            self._agent.asks.stop(self.running)
            if self.running:
                self._work.cancel()
            else:  # after its first step: work that never began could not say that it has ended
                asyncio.get_running_loop().call_soon(self._work.cancel)

    def end(self) -> None:
        """For good. Messages that would wait for another turn are not dropped: the session keeps them."""
        self.drop()
        self.drop_steers(keep=True)
        self.stop(keep=True)
        self.next()

    def cancel_retry(self) -> None:
        if self._turn is not None:
            self._turn.cancel_retry()

    def drop(self, turn: str = "", *, queued: bool = True) -> None:
        """End what waits: one turn, or all. Without `queued` only what did not mean to wait, but to be next."""
        remaining: deque[Prompt] = deque()
        for prompt in self._waiting:
            meant = turn in ("", prompt.turn) and (queued or prompt.busy != "queue")
            (self._dropped if meant else remaining).append(prompt)
        self._waiting = remaining

    def take_waiting(self) -> list[Prompt]:
        """What waits, to be added again."""
        waiting, self._waiting = list(self._waiting), deque()
        return waiting

    def after_current(self, act: Callable[[], None]) -> None:
        """Do this once what runs has ended, before the next turn begins."""
        self._after_current.append(act)

    def run_exclusive(self, work: Coroutine[None, None, None]) -> None:
        """Work of another kind that has to be alone: turns wait for it, and `stop` ends it."""
        self._mark_unsettled()
        self.end_dropped()
        self._work = asyncio.create_task(work)
        self._watcher = asyncio.create_task(self._finish_exclusive(self._work))

    def stop_and_run_exclusive(self, work: Coroutine[None, None, None]) -> None:
        """The same, as soon as what runs has been stopped."""
        if self.busy:
            self.after_current(lambda: self.stop_and_run_exclusive(work))
            self.stop(keep=False)
        else:
            self.run_exclusive(work)

    def _mark_unsettled(self) -> None:
        self._settled.clear()
        self._settled_emitted = False

    async def settled(self) -> None:
        """Returns once nothing runs and nothing waits."""
        await self._settled.wait()

    def next(self) -> None:
        """Start what waits, if nothing runs."""
        if self.busy:
            return self._emit_queue()
        self.end_dropped()
        if self._waiting:
            prompt = self._waiting.popleft()
            cause: Literal["prompt", "engine"] = "engine" if prompt.turn in self._engine_turns else "prompt"
            self._run(Turn(self._agent, prompt.turn, prompt, cause=cause))
        else:
            self._emit_queue()
            self._settled.set()
            if not self._settled_emitted and not self._at_work():
                self._settled_emitted = True
                self._emit(Settled())

    def resume(self, turn: Turn) -> None:
        """Go on with one that began in an earlier process. Nothing else may run."""
        self._mark_unsettled()
        self._run(turn)

    def _run(self, turn: Turn) -> None:
        self.running = turn.id
        self._emit_queue()
        self._turn = turn
        self._work = work = asyncio.create_task(turn.run())
        self._watcher = asyncio.create_task(self._finish_turn(turn.id, work))

    def _emit_queue(self) -> None:
        """What waits, if that has changed."""
        waiting = QueueChanged(*structs.astuple(self.queue))
        if waiting != self._last_queue:
            self._last_queue = waiting
            self._emit(waiting)

    async def _finish_turn(self, turn: str, work: asyncio.Task[TurnEnded]) -> None:
        """Never cancelled itself: whatever becomes of the work, the turn ends here, once, and the next one begins."""
        agent = self._agent
        beating = asyncio.create_task(self._heartbeat.beat(turn, agent.settings.heartbeat, agent.running))
        await asyncio.wait([work])
        ended = self._cancelled_before_start(turn) if work.cancelled() else work.result()
        await self._save_end(ended)
        beating.cancel()
        if not self._keep_steers:
            self.drop_steers(keep=True)
        self.running = ""
        self._emit(ended)
        self._ended_ids.add(turn)
        self._on_end(ended)
        self._start_next()

    async def _finish_exclusive(self, work: asyncio.Task[None]) -> None:
        await asyncio.wait([work])
        self._start_next()

    def _start_next(self) -> None:
        self._work = self._turn = None
        self._stopping = self._keep_steers = False
        acts, self._after_current = self._after_current, []
        for act in acts:
            try:
                act()
            except Exception as error:  # noqa: BLE001  (what waits goes on, whatever our own code does)
                self._emit(Failed(fault(error)))
        self.next()

    async def _save_end(self, ended: TurnEnded) -> None:
        """On disk, whatever a power cut does, before the host hears that the turn has ended."""
        session = self._agent.session
        try:
            session.end(ended.turn, ended.reason, ended.usage)
            await run_in_thread(session.store.sync)
        except (SessionError, OSError) as error:
            _log.error("%s", error)
            self._emit(Notice(f"This turn could not be saved: {error}", "warning", turn=ended.turn))
        self._emit(CostChanged(session.usage, tuple(session.ledger), turn=ended.turn))

    def drop_steers(self, *, keep: bool) -> None:
        """With `keep`, only those that do not want to wait for another turn."""
        dropped = self._agent.steers.drop(keep=keep)
        for id in dropped:
            with suppress(SessionError):
                self._agent.session.cancel(id)
        if dropped:
            message = f"{len(dropped)} messages meant for a turn were dropped"
            self._emit(Notice(message, "warning", turn=self.running))
            self._emit_queue()

    def keep_undelivered_steers(self) -> None:
        """No turn will come here any more. What was to wait for one was said, so it stays said."""
        left = self._agent.steers.drop(keep=False)
        for id in left:
            with suppress(SessionError):
                self._agent.session.begin(id)
        if left:
            message = f"{len(left)} messages that waited for a turn stay in the conversation without an answer"
            self._emit(Notice(message, "warning"))
            self._emit_queue()

    def end_dropped(self) -> None:
        for prompt in self._dropped:
            with suppress(SessionError):
                self._agent.session.cancel(prompt.turn)
            self._emit(self._cancelled_before_start(prompt.turn))
            self._ended_ids.add(prompt.turn)
        self._dropped.clear()

    def _cancelled_before_start(self, turn: str) -> TurnEnded:
        """The end of a turn that had no beginning; but where another one of this id has ended, it needs one."""
        if turn in self._ended_ids:
            self._emit(TurnStarted(turn=turn))
        return TurnEnded("cancelled", turn=turn)
