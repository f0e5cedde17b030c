"""The queue of turns: prompts that wait, the turn that runs, and the start and end of each.

Prompts that arrive while a turn runs wait here (T2). `TurnStarted` and `TurnEnded` of the main agent are emitted only
here. Every prompt that was added ends with exactly one `TurnEnded` (L1), whatever happens to it, and only after the
turn is on disk. Exclusive work, such as a change of session, runs in place of a turn. `engine.py` adds prompts and
calls `next`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from polylect.engine.agent import Agent
from polylect.engine.commands.background import fault
from polylect.engine.heartbeat import Heartbeat
from polylect.system.threads import run_in_thread
from polylect.vocab.answers import Queue
from polylect.vocab.commands import Prompt
from polylect.vocab.errors import SessionError
from polylect.vocab.events import CostChanged, Failed, Notice, QueueChanged, Settled, TurnEnded, TurnStarted

if TYPE_CHECKING:
    from polylect.engine.turn.loop import TurnLoop

_log = logging.getLogger(__name__)


class TurnQueue:
    """Runs one turn after another.

    `on_end` is called for every turn that ran, before the next one starts. `at_work` says whether other work is left.
    """

    def __init__(
        self, agent: Agent, heartbeat: Heartbeat, *, on_end: Callable[[TurnEnded], None], at_work: Callable[[], bool]
    ) -> None:
        self._agent = agent
        self._on_end = on_end
        """Called with the end of every turn that ran, before the next one begins."""
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
        self._turn: TurnLoop | None = None
        self.running = ""
        """The turn that runs."""
        self._ended_ids: set[str] = set()
        """Ids of turns that have ended; a host may use one again."""
        self._last_queue = QueueChanged()

    @property
    def busy(self) -> bool:
        return self._work is not None

    @property
    def engaged(self) -> bool:
        """Whether a turn runs that is not being stopped, or another one waits."""
        return bool(self._waiting or (self.running and not self._stopping))

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def queue(self) -> Queue:
        """What waits: prompts by their turn ids, steers by their texts."""
        steer_queue = self._agent.steer_queue
        return Queue(
            tuple(prompt.turn for prompt in self._waiting), steer_queue.texts("soon"), steer_queue.texts("last")
        )

    @property
    def ids(self) -> set[str]:
        """The ids of turns that have not ended."""
        return {self.running, *(prompt.turn for prompt in (*self._waiting, *self._dropped))} - {""}

    def add(self, prompt: Prompt, cause: Literal["prompt", "engine"] = "prompt") -> None:
        """Queue a prompt. One with `busy="interrupt"` stops the running turn and is next."""
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
        """Cancel what runs; waiting prompts are next. Without `keep`, steers for the turn are dropped."""
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
        """Cancel everything for good. Steers that may wait for another turn stay in the session."""
        self.drop()
        self.drop_steers(keep=True)
        self.stop(keep=True)
        self.next()

    def cancel_retry(self) -> None:
        """Cancel the pause before another attempt of the running model request."""
        if self._turn is not None:
            self._turn.cancel_retry()

    def drop(self, turn: str = "", *, queued: bool = True) -> None:
        """Cancel waiting prompts: one turn or all. Without `queued`, only those that wanted to be next."""
        remaining: deque[Prompt] = deque()
        for prompt in self._waiting:
            meant = turn in ("", prompt.turn) and (queued or prompt.busy != "queue")
            (self._dropped if meant else remaining).append(prompt)
        self._waiting = remaining

    def take_waiting(self) -> list[Prompt]:
        """Remove and return the waiting prompts, to be added again."""
        waiting, self._waiting = list(self._waiting), deque()
        return waiting

    def after_current(self, act: Callable[[], None]) -> None:
        """Call this once what runs has ended, before the next turn starts."""
        self._after_current.append(act)

    def run_exclusive(self, work: Coroutine[None, None, None]) -> None:
        """Run other work in place of a turn: turns wait for it, and `stop` cancels it."""
        self._mark_unsettled()
        self.end_dropped()
        self._work = asyncio.create_task(work)
        self._watcher = asyncio.create_task(self._finish_exclusive(self._work))

    def stop_and_run_exclusive(self, work: Coroutine[None, None, None]) -> None:
        """Stop what runs, then run this work in place of a turn."""
        if self.busy:
            self.after_current(lambda: self.stop_and_run_exclusive(work))
            self.stop(keep=False)
        else:
            self.run_exclusive(work)

    def _mark_unsettled(self) -> None:
        self._settled.clear()
        self._settled_emitted = False

    @property
    def is_settled(self) -> bool:
        """Whether nothing runs or waits, here and beside the turns: what `Settled` tells the host."""
        return self._settled.is_set() and not self._at_work()

    async def settled(self) -> None:
        """Returns once nothing runs and nothing waits."""
        await self._settled.wait()

    def next(self) -> None:
        """Start the next turn if nothing runs; emit `Settled` if there is none."""
        if self.busy:
            return self.emit_queue()
        self.end_dropped()
        if self._waiting:
            prompt = self._waiting.popleft()
            from polylect.engine.turn.loop import TurnLoop  # an engine that is only started does without

            cause: Literal["prompt", "engine"] = "engine" if prompt.turn in self._engine_turns else "prompt"
            self._run(TurnLoop(self._agent, prompt.turn, prompt, cause=cause))
        else:
            self.emit_queue()
            self._settled.set()
            if not self._settled_emitted and not self._at_work():
                self._settled_emitted = True
                self._emit(Settled())

    def resume(self, turn: "TurnLoop") -> None:
        """Run a turn that began in an earlier process. Nothing else may run."""
        self._mark_unsettled()
        self._run(turn)

    def _run(self, turn: "TurnLoop") -> None:
        self.running = turn.id
        self.emit_queue()
        self._turn = turn
        self._work = work = asyncio.create_task(self._start_turn(turn))
        self._watcher = asyncio.create_task(self._finish_turn(turn.id, work))

    async def _start_turn(self, turn: "TurnLoop") -> TurnEnded:
        """Emit the start of the turn and run it. A task that is cancelled before its first step emits nothing."""
        self._emit(TurnStarted(turn.cause, turn=turn.id))
        return await turn.run()

    def emit_queue(self) -> None:
        """Emit what waits, if it has changed."""
        waiting = QueueChanged(*structs.astuple(self.queue))
        if waiting != self._last_queue:
            self._last_queue = waiting
            self._emit(waiting)

    async def _finish_turn(self, turn: str, work: asyncio.Task[TurnEnded]) -> None:
        """Wait for the turn's task, save the end and emit it, then start the next. Never cancelled itself."""
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
        """Write the end of the turn to disk before the host is told of it."""
        session = self._agent.session
        try:
            session.end(ended.turn, ended.reason, ended.usage)
            await run_in_thread(session.store.sync)
        except (SessionError, OSError) as error:
            _log.error("%s", error)
            self._emit(Notice(f"This turn could not be saved: {error}", "warning", turn=ended.turn))
        self._emit(CostChanged(session.usage, tuple(session.ledger), turn=ended.turn))

    def drop_steers(self, *, keep: bool) -> None:
        """Drop waiting steers; with `keep`, only those that must not wait for another turn."""
        dropped = self._agent.steer_queue.drop(keep=keep)
        self._settle_steers(dropped, self._agent.session.cancel, "messages meant for a turn were dropped", self.running)

    def keep_undelivered_steers(self) -> None:
        """The engine ends: steers that still wait stay in the conversation without an answer."""
        left = self._agent.steer_queue.drop(keep=False)
        what = "messages that waited for a turn stay in the conversation without an answer"
        self._settle_steers(left, self._agent.session.begin, what, "")

    def _settle_steers(self, ids: list[str], settle: Callable[[str], object], what: str, turn: str) -> None:
        for id in ids:
            with suppress(SessionError):
                settle(id)
        if ids:
            self._emit(Notice(f"{len(ids)} {what}", "warning", turn=turn))
            self.emit_queue()

    def end_dropped(self) -> None:
        """Emit the end of the prompts that were dropped. One that needs a start waits until nothing runs."""
        dropped, self._dropped = self._dropped, []
        for prompt in dropped:
            if self.running and prompt.turn in self._ended_ids:
                self._dropped.append(prompt)
                continue
            with suppress(SessionError):
                self._agent.session.cancel(prompt.turn)
            self._emit(self._cancelled_before_start(prompt.turn))
            self._ended_ids.add(prompt.turn)

    def _cancelled_before_start(self, turn: str) -> TurnEnded:
        """The end of a turn that never started. An id that was used before needs a start first."""
        if turn in self._ended_ids:
            self._emit(TurnStarted(turn=turn))
        return TurnEnded("cancelled", turn=turn)
