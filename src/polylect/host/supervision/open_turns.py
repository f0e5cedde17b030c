"""The turns of an agent that were begun: what each needs while it runs, and their order.

An `OpenTurn` is behind each `Turn` of a host (`host/turn.py`). The conversation passes every event of the turn to
`OpenTurn.receive`. The turn watches its limits and cancels itself when one is passed. `OpenTurns` is the queue of them.
"""

import asyncio
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from polylect.host.asks import Ask
from polylect.host.backlog import Backlog
from polylect.host.errors import EngineDied, TimedOut, WrongState
from polylect.host.limits import Limits, describe, dollars
from polylect.host.results import Result, update
from polylect.vocab import events
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Failure, Usage

if TYPE_CHECKING:
    from polylect.host.supervision.conversation import Conversation

_SOME_LIMIT = "the engine reached a limit and did not say which"
UNPRICED = (
    "the price of the model is not known, so a cap in dollars cannot hold: "
    "give the price in [prices] of the settings, leave the cap out, or connect with allow_unpriced=True"
)
_SECOND_READER = "another task reads this turn: read its events in one place, or those of all turns by `agent.events()`"
_UNANSWERED = (
    "the turn has been waiting for {:g} s for an answer to a question ({}): await ask.allow() or ask.deny('why') where "
    "you read its events, or give connect an approve= that answers"
)
_ASK_PATIENCE = 10.0
"""Seconds after which a program that reads on without having answered a question is told that the turn waits."""
_LEAST_LIMIT = 1e-6
_LAST_WORDS = 2.0
"""How long a turn that took too long may take to end once it is cancelled."""


class OpenTurn:
    """A turn from its making to its end.

    Args:
        conversation: What the prompt is sent through.
        prompt: The prompt, which is sent when the first event is asked for.
        limits: The limits of the turn.
    """

    def __init__(self, conversation: "Conversation", prompt: Prompt, limits: Limits) -> None:
        self._conversation = conversation
        self._prompt = prompt
        self._limits = limits
        self._deadline: float | None = None
        """None while it waits for other turns: that time is not its own."""
        self._timer: asyncio.Timeout | None = None
        """Of somebody who waits for the next event."""
        self._watchdog: asyncio.TimerHandle | None = None
        """Keeps the limits of time while nobody waits."""
        self._last_event = 0.0
        self._complaint = ""
        """The limit of time that was passed while nobody waited."""
        self._backlog = Backlog()
        self._beginning: asyncio.Task[None] | None = None
        self._spent = Usage()
        self._stopped: events.BudgetExceeded | None = None
        self._cost_before: float | None = None
        self._unpriced = False
        """Whether it was stopped because the price of a reply is not known."""
        self._started = False
        self._warned = False
        """Whether it was said that a question waits for an answer."""
        self._notice = ""
        """What the engine said last beside the model: why it stops, for one."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop in which it runs, once it was begun."""
        self.attended = True
        """Whether somebody may answer what it asks."""
        self.unwanted = False
        """Whether it was cancelled: then its prompt is not sent any more."""
        self.id = prompt.turn
        self.result = Result(self.id)
        """As far as it has been read."""

    async def finish(self) -> Result:
        """Reads the rest of it and returns its result. What it asks is denied, because nobody reads it.

        If the task that waits here is cancelled, so is the turn: nobody wants its result. Raises WrongState.
        """
        if self.attended:
            self.check_no_reader()
        self.attended = False
        self._conversation.unattended(self.id)
        try:
            while await self.next() is not None:
                pass
        except asyncio.CancelledError:
            self._conversation.cancel_soon(self)
            raise
        return self.result

    def check_no_reader(self) -> None:
        """Raises WrongState if another task waits for the next event: each event has one reader."""
        if self._timer is not None:
            raise WrongState(_SECOND_READER)

    def abandon(self) -> None:
        """Nobody can read it any more. Its limits still hold."""
        self._backlog.end()
        self.attended = False
        self._conversation.unattended(self.id)

    def leave(self) -> None:
        """Asks that were read are in somebody's hands; those that were not are not."""
        self.attended = False
        self._conversation.unattended(self.id, [event.ask for event in self._backlog if isinstance(event, events.Ask)])

    async def cancel(self) -> None:
        """It ends soon, with the reason `cancelled`; if it waits for others, at the latest when its time has come."""
        self.unwanted = True  # if only now it should start
        turns = self._conversation.turns
        place = turns.place(self.id)
        if place < 0 or self._beginning is None:
            return
        if place == 0 and turns.running:
            await self._conversation.stop(self.id)
        else:
            await asyncio.wait([self._beginning])
            if turns.place(self.id) >= 0:  # it was sent before
                await self._conversation.withdraw(self.id)

    async def cancel_in_time(self) -> None:
        """Cancels it. An engine that does not answer is not waited for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self.cancel()

    def receive(self, event: events.Event) -> None:
        """Adds an `event` to what is read, and stops the turn where it passes a limit. Called by the conversation."""
        self._last_event = asyncio.get_running_loop().time()
        if isinstance(event, events.TurnEnded) and event.turn == self.id:
            self._backlog.put(self._ended_with_limits(event))
            return self._end()
        if isinstance(event, events.BudgetExceeded) and self._deadline is not None:
            if self._stopped:
                return None  # of the same cap, which the engine watches too
            self._stopped = event
        self._backlog.put(event)
        match event:
            case events.TurnStarted():
                self._started = True
                if self.unwanted:
                    self._conversation.stop_soon(self.id)
            case events.Notice(text, agent=""):
                self._notice = text
            case events.ReplyEnded(usage=usage):
                self._spent += usage
                self._watch(self._spent)
                if self._lacks_cost(usage) and self._conversation.options.reply_costs and not self._unpriced:
                    self._unpriced = True
                    self._conversation.stop_soon(self.id)
            case events.CostChanged() if self._deadline is not None:
                self._watch_session()
        return None

    def _watch_session(self) -> None:
        """For wires that tell what the session has cost and not what a reply did."""
        if not self._started:
            # A session that goes on tells what it had cost before.
            self._cost_before = self._conversation.session_cost.total
        elif (cost := self._conversation.session_cost.since(self._cost_before)) is not None:
            self._watch(Usage(cost=cost))

    def _watch(self, spent: Usage) -> None:
        if over := self._over(spent):
            self._stop(over)

    @property
    def caps_cost(self) -> bool:
        """Whether it has a cap in dollars."""
        return bool(self._limits.cost)

    def limits_left(self) -> Limits:
        """Its limits, without what it has used of them. What is used up has the smallest value: zero is no limit."""
        limits, usage = self._limits, self.result.usage
        until = self._deadline or 0.0
        return Limits(
            total=max(until - asyncio.get_running_loop().time(), _LEAST_LIMIT) if limits.total else 0.0,
            idle=limits.idle,
            cost=max(limits.cost - (usage.cost or 0.0), _LEAST_LIMIT) if limits.cost else 0.0,
            tokens=max(limits.tokens - usage.tokens, 1) if limits.tokens else 0,
        )

    def refuse_unpriced(self) -> None:
        """Ends it before its prompt is sent, because its cap in dollars could not hold. Called by the conversation."""
        self._backlog.put(events.TurnEnded("limit", failure=Failure("budget", UNPRICED, "user"), turn=self.id))
        self._end()

    def fail(self, why: BaseException) -> None:
        """Raises `why` for whoever reads the turn. Called by the conversation when the engine is gone."""
        self._end(why)

    def _end(self, why: BaseException | None = None) -> None:
        self._backlog.end(why)
        if self._watchdog:
            self._watchdog.cancel()

    def _ended_with_limits(self, ended: events.TurnEnded) -> events.TurnEnded:
        """The last event, with the cost of the turn added, and with the reason `limit` if a limit was passed."""
        if ended.usage.cost is None and (cost := self._conversation.session_cost.since(self._cost_before)) is not None:
            ended = replace(ended, usage=replace(ended.usage, cost=cost))
        if self._stopped is None and (over := self._over(ended.usage)):
            self._stopped = over
            self._backlog.put(over)
        if self._stopped is None:
            if self._unpriced or (ended.reason == "end" and self._lacks_cost(ended.usage)):
                return replace(ended, reason="limit", failure=Failure("budget", UNPRICED, "user"))
            if ended.reason == "limit" and ended.failure is None:
                return replace(ended, failure=Failure("limit", self._notice or _SOME_LIMIT, "user"))
            return ended
        return replace(ended, reason="limit", failure=Failure("budget", describe(self._stopped), "user"))

    def _lacks_cost(self, usage: Usage) -> bool:
        """Whether it has a cap in dollars that has to hold, and nobody can tell what this usage has cost."""
        if not self._limits.cost or self._conversation.options.allow_unpriced or not usage.tokens:
            return False
        return usage.cost is None and not self._conversation.session_cost.is_priced

    def _over(self, spent: Usage) -> events.BudgetExceeded | None:
        limits = self._limits
        if limits.cost and spent.cost is not None and spent.cost >= limits.cost:
            return events.BudgetExceeded("cost", dollars(spent.cost), dollars(limits.cost), turn=self.id)
        if limits.tokens and spent.tokens >= limits.tokens:
            return events.BudgetExceeded("tokens", str(spent.tokens), str(limits.tokens), turn=self.id)
        return None

    def _stop(self, over: events.BudgetExceeded) -> None:
        """A turn that costs more than it may is stopped where it is."""
        if self._stopped is None:
            self._stopped = over
            self._backlog.put(over)
            self._conversation.stop_soon(self.id)

    def start_limits(self) -> None:
        """The turns before it have ended: from here on time and money are its own."""
        if self._deadline is None:
            self._cost_before = self._conversation.session_cost.total
            total = self._limits.total
            self._last_event = asyncio.get_running_loop().time()
            self._deadline = self._last_event + total if total else float("inf")
            if self._timer:
                self._timer.reschedule(self._until())
            self._keep_time()

    def _keep_time(self) -> None:
        """Stops the turn where it takes too long and nobody waits for it. Whoever waits does so by himself."""
        assert self._deadline is not None
        due = min(self._deadline, self._last_event + self._limits.idle if self._limits.idle else float("inf"))
        loop = asyncio.get_running_loop()
        if due == float("inf"):
            return
        if loop.time() < due:
            self._watchdog = loop.call_at(due, self._keep_time)
        elif self._timer is None:
            self._complaint = self._time_passed()
            self._conversation.stop_soon(self.id)

    def _time_passed(self) -> str:
        late = self._deadline is not None and asyncio.get_running_loop().time() >= self._deadline
        limit = f"took longer than {self._limits.total:g} s" if late else f"was silent for {self._limits.idle:g} s"
        return f"the turn {limit} and was cancelled"

    def _until(self) -> float | None:
        """When it has taken too long, or has been silent for too long from now."""
        if self._deadline is None:
            return None
        idle = self._limits.idle
        until = min(self._deadline, asyncio.get_running_loop().time() + idle if idle else float("inf"))
        return None if until == float("inf") else until

    async def next(self) -> events.Event | None:
        """Returns the next event, None after the last. The first call sends the prompt.

        Raises TimedOut, EngineDied, Refused, and what else `Conversation.send` raises.
        """
        if self.result.reason:
            return None
        if self._beginning is None:
            self.loop = asyncio.get_running_loop()
            self._beginning = self._conversation.begin(self, self._prompt)
        try:
            async with asyncio.timeout_at(self._until()) as self._timer:
                if not self._beginning.done() or self._beginning.exception():
                    await asyncio.shield(self._beginning)
                event = await self._backlog.get()
        except TimeoutError:
            return await self._give_up()
        finally:
            self._timer = None
        if event is not None:
            self._update(event)
            if isinstance(event, Ask) and self._conversation.reader_answers:
                asyncio.get_running_loop().call_later(_ASK_PATIENCE, self._warn_unanswered, event)
            if self._complaint and self.result.reason:
                raise TimedOut(self._complaint, self.result)
        return event

    def _warn_unanswered(self, ask: Ask) -> None:
        """Says once that the turn waits, if its reader waits for more events and has left the `ask` open."""
        if ask.open and self._timer and self._conversation.reader_answers and not self._warned:
            self._warned = True
            warnings.warn(_UNANSWERED.format(_ASK_PATIENCE, ask.title or ask.name), RuntimeWarning, stacklevel=2)

    def _update(self, event: events.Event) -> None:
        self.result.session_id = self._conversation.session_id
        update(self.result, event)

    async def _give_up(self) -> events.Event | None:
        complaint = self._complaint or self._time_passed()
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await self.cancel()
                while (event := await self._backlog.get()) is not None:
                    self._update(event)
        except TimeoutError:
            self._conversation.turns.leave(self.id)  # those behind it wait no longer
        raise TimedOut(complaint, self.result)


class OpenTurns:
    """The turns that were begun and have not ended, in order: the first one runs.

    They are kept until they end, also those that nobody reads any more: their limits hold all the same.
    """

    def __init__(self) -> None:
        self._order: dict[str, Prompt | None] = {}
        """Their prompts; None for those that were not sent yet."""
        self._turns: dict[str, OpenTurn] = {}

    def __iter__(self) -> Iterator[OpenTurn]:
        """The turns, in order."""
        return iter(list(self._turns.values()))

    @property
    def busy(self) -> bool:
        """Whether a turn runs or waits."""
        return bool(self._order)

    def get(self, id: str) -> OpenTurn | None:
        """Returns the turn with this `id`, unless it has ended."""
        return self._turns.get(id)

    def join(self, turn: OpenTurn) -> None:
        """Adds a `turn` at the end."""
        self._turns[turn.id] = turn
        self._order[turn.id] = None
        self._start_first()

    @property
    def sent(self) -> list[Prompt]:
        """The prompts that were sent and whose turns have not ended."""
        return [prompt for prompt in self._order.values() if prompt]

    @property
    def running(self) -> str:
        """The id of the first turn if its prompt was sent, else nothing."""
        first = next(iter(self._order.values()), None)
        return first.turn if first else ""

    @property
    def unsent(self) -> list[OpenTurn]:
        """The turns whose prompts were not sent yet."""
        return [turn for id, turn in self._turns.items() if self._order.get(id) is None]

    def add(self, prompt: Prompt) -> None:
        """Adds a turn whose `prompt` was sent and that has no reader here."""
        self._order[prompt.turn] = prompt

    def note_sent(self, prompt: Prompt) -> None:
        """The `prompt` of a turn was sent."""
        if prompt.turn in self._order:
            self._order[prompt.turn] = prompt

    def leave(self, id: str) -> None:
        """Removes the turn with this `id`, because it has ended."""
        self._turns.pop(id, None)
        self._order.pop(id, None)
        self._start_first()

    def place(self, id: str) -> int:
        """Returns the place of the turn with this `id`: 0 if it runs, more if it waits, -1 if it is not here."""
        return list(self._order).index(id) if id in self._order else -1

    def fail(self, death: EngineDied) -> None:
        """Ends all turns with the error `death`, because the engine is gone."""
        failed = list(self)
        self._turns.clear()
        self._order.clear()
        for turn in failed:
            turn.fail(death)

    def _start_first(self) -> None:
        if (first := next(iter(self._order), None)) and (turn := self._turns.get(first)):
            turn.start_limits()
