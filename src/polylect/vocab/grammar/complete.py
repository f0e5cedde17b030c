"""Adds the events that a wire leaves out, so that every host sees the same grammar.

json-stream, for one, never says that a step began. Every host side (`dialects/*/host/codec.py`) passes its raw events
through a `Completer`, so that this is done once for all dialects. For each event that breaks a rule of the grammar, a
function of that rule adds the missing events, corrects the event or drops it; then the event is tried again.

The invariant: what comes out is grammatical. What was grammatical already passes unchanged, except that the steps of a
turn are counted where the engine names no number.
"""

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, Literal, TypedDict, TypeVar

import msgspec
from msgspec.structs import replace

from polylect.vocab import events as e
from polylect.vocab.content import Failure, Stop, Text, Thinking, ToolCall
from polylect.vocab.grammar.grammar import Grammar
from polylect.vocab.grammar.rules import AGENTS_ONLY, CALLS, IDLE, MAIN_ONLY, TURN, AgentState, Phase, Rule

_E = TypeVar("_E", bound=e.Event)

_BEGINNINGS = (
    e.StepStarted, e.TextDelta, e.ThinkingDelta, e.ArgsDelta, e.BlockEnded, e.ToolCalled, e.ToolStarted, e.Ask,
    e.RetryStarted, e.UserMessage, e.AgentStarted, e.AgentProgress,
)  # fmt: skip
"""What shows that work has begun, even if nobody said so. Other events, coming out of nowhere, are late."""

_How = Literal["allowed", "denied", "answered", "cancelled", "timeout", "unsaid"]
_STOPS: dict[str, Stop] = {"cancelled": "cancelled", "length": "length", "refused": "refused", "error": "error"}
_UNSAID = "the engine did not say how it ended"


class Completer:
    """Completes the events of one session. `lost` counts the events that were dropped, by type.

    Args:
        new_id: Makes ids for turns that nobody asked for; without it they are numbered.
    """

    def __init__(self, new_id: Callable[[], str] | None = None) -> None:
        self._grammar = Grammar()
        self._new_id = new_id or map("unasked-{}".format, count(1)).__next__
        self._unasked = ""
        self._out: list[e.Event] = []
        self.lost: Counter[str] = Counter()

    @property
    def idle(self) -> bool:
        """Whether no turn and no agent runs."""
        return not self._grammar.main.turn and len(self._grammar.agents) == 1

    def add(self, event: e.Event) -> list[e.Event]:
        """Returns the events that a raw `event` of the peer becomes; none if it has no place."""
        if type(event) is e.TurnEnded:
            event = self._with_steps(event)
        if self._grammar.accept(event) is None:
            return [event]
        self._emit(event)
        return self._pop_output()

    def close(self) -> list[e.Event]:
        """Returns the events that end everything which the peer, now gone, has left open."""
        grammar = self._grammar
        if grammar.main.turn:
            failure = Failure("engine_gone", "the engine went away before the turn ended", "engine")
            ended = e.TurnEnded("error", failure=failure, turn=grammar.main.turn, session=grammar.main.session)
            self._emit(self._with_steps(ended))
        while len(grammar.agents) > 1:
            self._end_agent(list(grammar.agents.values())[-1], ok=False)
        for ask in list(grammar.asks.values()):
            self._close_ask(ask, "cancelled")
        if grammar.main.compacting:
            self._emit(e.CompactionEnded(ok=False, error=_UNSAID, session=grammar.main.session))
        return self._pop_output()

    def _pop_output(self) -> list[e.Event]:
        out, self._out = self._out, []
        return out

    def _emit(self, event: e.Event | None) -> None:
        while event is not None and (rule := self._grammar.accept(event)) is not None:
            mended = _MENDS[rule](self, event) if rule in _MENDS else None
            if mended is None:
                self.lost[type(event).__name__] += 1
            event = mended
        if event is not None:
            self._out.append(event)

    def _agent_of(self, event: e.Event) -> AgentState:
        """The agent whose phase and turn decide about an event."""
        return self._grammar.agents[event.parent if isinstance(event, e.AgentStarted) else event.agent]

    # Turns.

    def _begin_turn(self, event: e.Event) -> None:
        if event.turn:
            self._emit(e.TurnStarted(turn=event.turn, session=event.session))
        else:
            self._unasked = self._new_id()
            self._emit(e.TurnStarted(cause="engine", turn=self._unasked, session=event.session))

    def _with_steps(self, event: e.TurnEnded) -> e.TurnEnded:
        main = self._grammar.main
        uncounted = not event.steps and event.turn in ("", main.turn)
        return replace(event, steps=main.steps) if uncounted else event

    def _name_turn(self, event: _E) -> _E:
        return replace(event, turn=self._new_id())

    def _right_turn(self, event: _E) -> _E | None:
        agent, over = self._agent_of(event), event.turn in self._grammar.turns_over
        if agent.id or not event.turn:
            return replace(event, turn=agent.turn)
        if isinstance(event, e.Ask) and over:
            return replace(event, turn="", call="")  # somebody waits for the answer, so it is never given up
        if over and not isinstance(event, e.TurnStarted):
            return None
        if agent.phase is IDLE:
            self._begin_turn(event)
        elif isinstance(event, (*_BEGINNINGS, *MAIN_ONLY)):
            self._break_off_turn(agent)
        else:
            return None
        return event

    def _break_off_turn(self, agent: AgentState) -> None:
        """The engine has gone on, so this one is over. One that nobody asked for has no other end."""
        ended = e.TurnEnded("end", steps=agent.steps, turn=agent.turn, session=agent.session)
        if agent.turn != self._unasked:
            ended = replace(ended, reason="error", failure=Failure("unsaid", _UNSAID, "engine"))
        self._emit(ended)

    def _settled(self, event: e.Settled) -> e.Settled | None:
        main = self._grammar.main
        if not main.turn:
            return None
        self._break_off_turn(main)
        return event

    # Phases. An agent is moved on, one phase at a time, until the event fits.

    def _move_on(self, event: _E) -> _E | None:
        agent = self._agent_of(event)
        if _misplaced(event, agent):
            return None
        match agent.phase:
            case Phase.IDLE:
                self._begin_turn(event)
            case Phase.TURN:
                self._emit(e.StepStarted(**_place(agent)))
            case Phase.REPLY:
                error = event.error if isinstance(event, e.RetryStarted) else ""
                self._emit(e.ReplyEnded(_stop(event, agent), error=error, **_place(agent)))
            case Phase.CALLS:
                self._emit(e.StepEnded(**_place(agent)))
        return event

    # Blocks.

    def _close_block(self, event: _E) -> _E:
        agent = self._agent_of(event)
        text = "".join(agent.parts)
        if agent.block is e.ArgsDelta:
            self._emit(e.BlockEnded(ToolCall(agent.block_call, agent.block_name, _arguments(text)), **_place(agent)))
        else:
            self._emit(e.BlockEnded(Text(text) if agent.block is e.TextDelta else Thinking(text), **_place(agent)))
        return event

    def _match_block(self, event: e.BlockEnded) -> e.BlockEnded:
        """A block that came whole gets its delta. If the deltas said something else, they stand: they were shown."""
        agent, block = self._agent_of(event), event.block
        if not isinstance(block, Text | Thinking):
            return event
        text = "".join(agent.parts)
        if not block.text.startswith(text):
            return replace(event, block=replace(block, text=text))
        delta = e.TextDelta if isinstance(block, Text) else e.ThinkingDelta
        self._emit(delta(block.text[len(text) :], **_place(agent)))
        return event

    # Calls and asks.

    def _call(self, event: e.ToolStarted | e.ToolOutput | e.ToolFinished | e.Ask | e.AgentStarted) -> e.Event | None:
        agent = self._agent_of(event)
        if isinstance(event, e.AgentStarted) or (agent.phase is IDLE and not isinstance(event, _BEGINNINGS)):
            return self._without_call(event)
        name = "" if isinstance(event, e.ToolOutput) else event.name
        called = e.ToolCalled(event.call, name, turn=event.turn, agent=event.agent, session=event.session)
        if isinstance(event, e.Ask):
            called = replace(called, args=event.args, category=event.category)
        self._emit(called)
        return self._without_call(event) if agent.call_closed(event.call) else event

    def _without_call(self, event: e.Event) -> e.Event | None:
        """An ask and the start of an agent are emitted without their call; other events of a call are dropped."""
        return replace(event, call="") if isinstance(event, e.Ask | e.AgentStarted) else None

    def _start_call(self, event: e.ToolOutput | e.ToolFinished) -> e.Event:
        agent = self._agent_of(event)
        self._emit(e.ToolStarted(event.call, agent.calls[event.call].name, **_place(agent)))
        return event

    def _finish_calls(self, event: _E) -> _E:
        agent = self._agent_of(event)
        for call in agent.open_calls:
            name = agent.calls[call].name
            self._emit(e.ToolFinished(call, name, "", "cancelled", reason=_UNSAID, **_place(agent)))
        return event

    def _close_call_asks(self, event: e.ToolStarted | e.ToolFinished) -> e.Event:
        for ask in list(self._grammar.asks.values()):
            if (ask.agent, ask.call) == (event.agent, event.call):
                self._close_ask(ask, _how(ask, event))
        return event

    def _close_asks(self, event: e.TurnEnded | e.AgentEnded) -> e.Event:
        broken = isinstance(event, e.TurnEnded) and event.reason in ("cancelled", "error")
        for ask in self._grammar.asks_of(self._agent_of(event)):
            self._close_ask(ask, "cancelled" if broken else "unsaid")
        return event

    def _close_ask(self, ask: e.Ask, how: _How) -> None:
        self._emit(e.AskClosed(ask.ask, how, turn=ask.turn, agent=ask.agent, session=ask.session))

    # Agents, retries, compactions.

    def _open_agent(self, event: _E) -> _E | None:
        if isinstance(event, e.AgentStarted):
            return replace(event, parent="", call="")
        if not isinstance(event, _BEGINNINGS):
            return None
        main = self._grammar.main
        if main.phase is IDLE and event.turn and event.turn not in self._grammar.turns_over:
            self._begin_turn(event)
        started = e.AgentStarted(background=main.phase is IDLE, agent=event.agent, session=event.session)
        self._emit(replace(started, turn=main.turn))
        return event

    def _end_agents(self, event: e.TurnEnded | e.AgentEnded | e.ToolFinished) -> e.Event:
        """One of those it waits for, the innermost first."""
        if isinstance(event, e.TurnEnded):
            agents = self._grammar.attached
        else:
            agents = self._grammar.children(event.agent, event.call if isinstance(event, e.ToolFinished) else None)
        agent = agents[-1]
        while agents := self._grammar.children(agent.id):
            agent = agents[-1]
        self._end_agent(agent, ok=_went_well(event))
        return event

    def _end_agent(self, agent: AgentState, *, ok: bool) -> None:
        self._emit(e.AgentEnded(ok, **_place(agent)))

    def _end_retry(self, event: e.TurnEnded | e.AgentEnded) -> e.Event:
        agent = self._agent_of(event)
        self._emit(e.RetryEnded(_went_well(event), agent.retry or 0, **_place(agent)))
        return event

    def _start_compaction(self, event: e.CompactionEnded) -> e.Event:
        self._emit(e.CompactionStarted(turn=event.turn, agent=event.agent, session=event.session))
        return event

    def _end_compaction(self, event: e.Event) -> e.Event | None:
        if isinstance(event, e.CompactionStarted):
            return None
        self._emit(e.CompactionEnded(ok=False, error=_UNSAID, **_place(self._agent_of(event))))
        return event


def _misplaced(event: e.Event, agent: AgentState) -> bool:
    """Some events are too late, or were said before: moving the agent on for them would end what still lives."""
    match event:
        case e.TurnStarted():
            return True
        case e.StepStarted():
            return bool(agent.open_calls)
        case e.ReplyEnded() if agent.phase is CALLS:
            return True
        case e.StepEnded() if agent.phase is TURN:
            return True
    elsewhere = MAIN_ONLY if agent.id else AGENTS_ONLY
    return isinstance(event, elsewhere) or (agent.phase is IDLE and not isinstance(event, _BEGINNINGS))


class _Place(TypedDict):
    turn: str
    agent: str
    session: str


def _place(agent: AgentState) -> _Place:
    return {"turn": agent.turn, "agent": agent.id, "session": agent.session}


def _stop(event: e.Event, agent: AgentState) -> Stop:
    if agent.calls:
        return "calls"
    if isinstance(event, e.RetryStarted):
        return "error"
    return _STOPS.get(event.reason, "end") if isinstance(event, e.TurnEnded) else "end"


def _how(ask: e.Ask, mark: e.ToolStarted | e.ToolFinished) -> _How:
    """What a call's next mark tells about the answer. A wire may call a denial an error, so that one tells nothing."""
    if isinstance(mark, e.ToolFinished) and mark.outcome in ("denied", "cancelled"):
        return "denied" if mark.outcome == "denied" else "cancelled"
    if ask.kind == "permission" and (isinstance(mark, e.ToolStarted) or mark.outcome == "ok"):
        return "allowed"
    return "unsaid"


def _went_well(event: e.TurnEnded | e.AgentEnded | e.ToolFinished) -> bool:
    match event:
        case e.TurnEnded():
            return event.reason not in ("cancelled", "error")
        case e.AgentEnded():
            return event.ok
        case e.ToolFinished():
            return event.outcome == "ok"


def _arguments(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


_MENDS: dict[Rule, Callable[..., e.Event | None]] = {
    Rule.PHASE: Completer._move_on,
    Rule.AGENT: Completer._open_agent,
    Rule.AGENT_RUNS: Completer._end_agents,
    Rule.TURN: Completer._right_turn,
    Rule.TURN_NAMED: Completer._name_turn,
    Rule.BLOCK_OPEN: Completer._close_block,
    Rule.BLOCK_EQUAL: Completer._match_block,
    Rule.CALL: Completer._call,
    Rule.CALL_OVER: Completer._without_call,
    Rule.CALL_UNSTARTED: Completer._start_call,
    Rule.CALL_ASKED: Completer._close_call_asks,
    Rule.CALL_OPEN: Completer._finish_calls,
    Rule.ASK_OPEN: Completer._close_asks,
    Rule.RETRY_OPEN: Completer._end_retry,
    Rule.COMPACTION: Completer._start_compaction,
    Rule.COMPACTION_OPEN: Completer._end_compaction,
    Rule.SETTLED: Completer._settled,
}
"""The other rules are broken by what was said before or makes no sense: it is given up."""
