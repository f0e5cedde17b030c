"""Which event may follow which, in one session. `lanes.py` has the table; here it is applied."""

from collections.abc import Callable

from polylect.vocab import events as e
from polylect.vocab.content import Text, Thinking, ToolCall
from polylect.vocab.errors import GrammarError
from polylect.vocab.lanes import AGENTS_ONLY, ANYTIME, IDLE, MAIN_ONLY, REPLY, TABLE, TURN, Call, Lane, Rule


class Grammar:
    """Takes the events of one session in order. Blind to roles: an engine checks itself with it, a host its peer."""

    def __init__(self) -> None:
        self.main = Lane()
        self.lanes: dict[str, Lane] = {"": self.main}
        self.asks: dict[str, e.Ask] = {}
        self.turns_over: set[str] = set()
        self._ready = False
        # The lane that spoke last: where the next delta most likely belongs.
        self._speaking: type[e.Event] | None = None
        self._speaker = ("", "")
        self._hear: Callable[[str], None] = self.main.parts.append

    def check(self, event: e.Event) -> None:
        """Take an event, or raise GrammarError."""
        rule = self.accept(event)
        if rule is not None:
            lane = self.lanes.get(event.agent)
            where = f"phase {lane.phase.value}, turn {lane.turn!r}" if lane else "not running"
            said = f"{type(event).__name__} of turn {event.turn!r}, agent {event.agent!r} ({where})"
            raise GrammarError(f"{said}: {rule.value}")

    def accept(self, event: e.Event) -> Rule | None:
        """Take an event, or say which rule it breaks and stay as before."""
        kind = type(event)
        if kind is self._speaking and (event.turn, event.agent) == self._speaker:
            self._hear(event.text)  # type: ignore[union-attr]  # a delta, by far the most frequent, and it matters
            return None
        if kind in ANYTIME:
            return None
        if own := _OWN_RULES.get(kind):
            return own(self, event)
        lane = self.lanes.get(event.agent)
        if lane is None:
            return Rule.AGENT
        if isinstance(event, e.TurnEnded) and lane is self.main and event.turn != lane.turn:
            return self._queued_turn_ended(event)
        return self._in_phase(lane, event, kind)

    @property
    def open(self) -> tuple[str, ...]:
        """What has begun and not ended, for people."""
        lanes = [lane for lane in self.lanes.values() if lane is not self.main]
        return (
            *([f"turn {self.main.turn}"] if self.main.turn else []),
            *(f"agent {lane.agent}" for lane in lanes),
            *(f"ask {ask}" for ask in self.asks),
            *(f"compaction of {lane.agent!r}" for lane in self.lanes.values() if lane.compacting),
        )

    def finish(self) -> None:
        """Nothing more will be said: raises GrammarError if something is still open."""
        if self.open:
            raise GrammarError(f"still open at the end: {', '.join(self.open)}")

    @property
    def attached(self) -> list[Lane]:
        """The agents that the running turn has to wait for."""
        return [lane for lane in self.lanes.values() if lane is not self.main and not lane.detached]

    def children(self, agent: str, call: str | None = None) -> list[Lane]:
        """The agents that this one, or one call of it, has to wait for."""
        lanes = [lane for lane in self.lanes.values() if lane is not self.main and not lane.background]
        return [lane for lane in lanes if lane.parent == agent and call in (None, lane.call)]

    def asks_of(self, lane: Lane) -> list[e.Ask]:
        """The asks that a lane, or with the main one its turn, has to wait for."""
        if lane is not self.main:
            return [ask for ask in self.asks.values() if ask.agent == lane.agent]
        return [ask for ask in self.asks.values() if ask.turn == lane.turn and not self.lanes[ask.agent].detached]

    # Events that move a lane from phase to phase.

    def _in_phase(self, lane: Lane, event: e.Event, kind: type[e.Event]) -> Rule | None:
        if lane.foreign(event.turn) and not (kind is e.TurnStarted and lane.phase is IDLE):
            return Rule.TURN
        phase = TABLE[lane.phase].get(kind)
        if phase is None or kind in (MAIN_ONLY if lane.agent else AGENTS_ONLY):
            return Rule.PHASE
        rule = _LANE_RULES[kind](self, lane, event) if kind in _LANE_RULES else None
        if rule is None:
            lane.phase = phase
        return rule

    def _turn_started(self, lane: Lane, event: e.TurnStarted) -> Rule | None:
        if not event.turn:
            return Rule.TURN_NAMED
        self.turns_over.discard(event.turn)
        lane.turn, lane.session = event.turn, event.session
        lane.past = set()
        return None

    def _queued_turn_ended(self, event: e.TurnEnded) -> Rule | None:
        """A prompt that only waited ends without ever having begun."""
        if event.turn in self.turns_over:
            return Rule.TURN_OVER
        if not event.turn or event.reason not in ("cancelled", "error"):
            return Rule.TURN
        self.turns_over.add(event.turn)
        return None

    def _turn_ended(self, lane: Lane, event: e.TurnEnded) -> Rule | None:
        if self.asks_of(lane):
            return Rule.ASK_OPEN
        if self.attached:
            return Rule.AGENT_RUNS
        if lane.retry is not None:
            return Rule.RETRY_OPEN
        self.turns_over.add(lane.turn)
        self._speaking = None
        for every in self.lanes.values():
            every.turn = ""
        return None

    def _agent_ended(self, lane: Lane, event: e.AgentEnded) -> Rule | None:
        if self.asks_of(lane):
            return Rule.ASK_OPEN
        if self.children(lane.agent):
            return Rule.AGENT_RUNS
        if lane.retry is not None:
            return Rule.RETRY_OPEN
        if lane.compacting:
            return Rule.COMPACTION_OPEN
        del self.lanes[lane.agent]
        return None

    def _step_started(self, lane: Lane, event: e.StepStarted) -> Rule | None:
        lane.spoken = False
        lane.calls = {}
        return None

    def _step_ended(self, lane: Lane, event: e.StepEnded) -> Rule | None:
        if lane.open_calls:
            return Rule.CALL_OPEN
        lane.past.update(lane.calls)
        lane.calls = {}
        return None

    def _reply_ended(self, lane: Lane, event: e.ReplyEnded) -> Rule | None:
        # Arguments that broke off are no call, so nothing has to close them.
        if lane.block not in (None, e.ArgsDelta):
            return Rule.BLOCK_OPEN
        self._close_block(lane)
        return None

    def _retry_started(self, lane: Lane, event: e.RetryStarted) -> Rule | None:
        if lane.phase is REPLY and lane.spoken:
            return Rule.PHASE
        lane.retry = event.attempt
        return None

    def _retry_ended(self, lane: Lane, event: e.RetryEnded) -> Rule | None:
        if lane.retry is None:
            return Rule.RETRY
        lane.retry = None
        return None

    # Blocks. Those of a lane never interleave.

    def _delta(self, lane: Lane, event: e.TextDelta | e.ThinkingDelta | e.ArgsDelta) -> Rule | None:
        if rule := lane.without_room():
            return rule
        call = event.call if isinstance(event, e.ArgsDelta) else ""
        if lane.block not in (None, type(event)) or (lane.block and lane.block_call != call):
            return Rule.BLOCK_OPEN
        if lane.block is None:
            lane.block, lane.block_call, lane.parts = type(event), call, []
            lane.block_name = event.name if isinstance(event, e.ArgsDelta) else ""
            lane.spoken = True
        lane.parts.append(event.text)
        if not isinstance(event, e.ArgsDelta):
            self._speaking, self._speaker, self._hear = lane.block, (event.turn, event.agent), lane.parts.append
        return None

    def _block_ended(self, lane: Lane, event: e.BlockEnded) -> Rule | None:
        if rule := lane.without_room():
            return rule
        match event.block:
            case ToolCall(call):
                if lane.block not in (None, e.ArgsDelta) or (lane.block and lane.block_call != call):
                    return Rule.BLOCK_OPEN
            case Text(text) | Thinking(text):
                if lane.block not in (None, e.TextDelta if isinstance(event.block, Text) else e.ThinkingDelta):
                    return Rule.BLOCK_OPEN
                if text != ("".join(lane.parts) if lane.block else ""):
                    return Rule.BLOCK_EQUAL
            case _ if lane.block:
                return Rule.BLOCK_OPEN
        self._close_block(lane)
        lane.spoken = True
        return None

    def _close_block(self, lane: Lane) -> None:
        lane.block, lane.parts = None, []
        self._speaking = None

    # Calls: called, asked, started, finished.

    def _tool_called(self, lane: Lane, event: e.ToolCalled) -> Rule | None:
        if event.call in lane.calls:
            return Rule.CALL_NEW
        if rule := lane.without_room():
            return rule
        if lane.block and (lane.block is not e.ArgsDelta or lane.block_call != event.call):
            return Rule.BLOCK_OPEN
        self._close_block(lane)
        lane.spoken = True
        lane.calls[event.call] = Call(event.name)
        return None

    def _mark(self, event: e.ToolStarted | e.ToolOutput | e.ToolFinished) -> Rule | None:
        lane = self.lanes.get(event.agent)
        if lane is None:
            return Rule.AGENT
        if lane.foreign(event.turn):
            return Rule.TURN
        if rule := lane.without_call(event.call):
            return rule
        return _MARKS[type(event)](self, lane, lane.calls[event.call], event)

    def _started(self, lane: Lane, call: Call, event: e.ToolStarted) -> Rule | None:
        if call.started:
            return Rule.CALL_STARTED
        if self._asked(lane, event.call):
            return Rule.CALL_ASKED
        call.started = True
        return None

    def _output(self, lane: Lane, call: Call, event: e.ToolOutput) -> Rule | None:
        return None if call.started else Rule.CALL_UNSTARTED

    def _finished(self, lane: Lane, call: Call, event: e.ToolFinished) -> Rule | None:
        if self._asked(lane, event.call):
            return Rule.CALL_ASKED
        if event.outcome == "ok" and not call.started:
            return Rule.CALL_UNSTARTED
        if self.children(lane.agent, event.call):
            return Rule.AGENT_RUNS
        call.finished = True
        return None

    def _asked(self, lane: Lane, call: str) -> bool:
        return any(ask.call == call and ask.agent == lane.agent for ask in self.asks.values())

    # Asks, agents and the rest, each legal whatever the phase.

    def _ask(self, event: e.Ask) -> Rule | None:
        lane = self.lanes.get(event.agent)
        if lane is None:
            return Rule.AGENT
        if event.ask in self.asks:
            return Rule.ASK_NEW
        if event.call and (rule := lane.without_call(event.call)):
            return rule
        if lane.foreign(event.turn) and (event.turn or event.call):
            return Rule.TURN
        self.asks[event.ask] = event
        return None

    def _ask_closed(self, event: e.AskClosed) -> Rule | None:
        return None if self.asks.pop(event.ask, None) else Rule.ASK

    def _agent_started(self, event: e.AgentStarted) -> Rule | None:
        if not event.agent or event.agent in self.lanes:
            return Rule.AGENT_NEW
        parent = self.lanes.get(event.parent)
        if parent is None:
            return Rule.AGENT
        if event.call and (rule := parent.without_call(event.call)):
            return rule
        if parent.foreign(event.turn) and not (event.background and not event.turn):
            return Rule.TURN
        if parent.phase is IDLE and not event.background:
            return Rule.PHASE
        self.lanes[event.agent] = Lane(
            agent=event.agent,
            parent=event.parent,
            call=event.call,
            background=event.background,
            detached=event.background or parent.detached,
            session=event.session,
            phase=TURN,
            turn=parent.turn,
        )
        return None

    def _compaction_started(self, event: e.CompactionStarted) -> Rule | None:
        lane = self.lanes.get(event.agent)
        if lane is None:
            return Rule.AGENT
        if lane.compacting:
            return Rule.COMPACTION_OPEN
        lane.compacting = True
        return None

    def _compaction_ended(self, event: e.CompactionEnded) -> Rule | None:
        lane = self.lanes.get(event.agent)
        if lane is None:
            return Rule.AGENT
        if not lane.compacting:
            return Rule.COMPACTION
        lane.compacting = False
        return None

    def _on_ready(self, event: e.Ready) -> Rule | None:
        if self._ready:
            return Rule.READY
        self._ready = True
        return None

    def _settled(self, event: e.Settled) -> Rule | None:
        return Rule.SETTLED if self.main.turn or len(self.lanes) > 1 else None


_LANE_RULES: dict[type[e.Event], Callable[..., Rule | None]] = {
    e.TurnStarted: Grammar._turn_started,
    e.TurnEnded: Grammar._turn_ended,
    e.AgentEnded: Grammar._agent_ended,
    e.StepStarted: Grammar._step_started,
    e.StepEnded: Grammar._step_ended,
    e.ReplyEnded: Grammar._reply_ended,
    e.RetryStarted: Grammar._retry_started,
    e.RetryEnded: Grammar._retry_ended,
    e.TextDelta: Grammar._delta,
    e.ThinkingDelta: Grammar._delta,
    e.ArgsDelta: Grammar._delta,
    e.BlockEnded: Grammar._block_ended,
    e.ToolCalled: Grammar._tool_called,
}
_MARKS: dict[type[e.Event], Callable[..., Rule | None]] = {
    e.ToolStarted: Grammar._started,
    e.ToolOutput: Grammar._output,
    e.ToolFinished: Grammar._finished,
}
_OWN_RULES: dict[type[e.Event], Callable[..., Rule | None]] = {
    **dict.fromkeys(_MARKS, Grammar._mark),
    e.Ask: Grammar._ask,
    e.AskClosed: Grammar._ask_closed,
    e.AgentStarted: Grammar._agent_started,
    e.CompactionStarted: Grammar._compaction_started,
    e.CompactionEnded: Grammar._compaction_ended,
    e.Ready: Grammar._on_ready,
    e.Settled: Grammar._settled,
}
