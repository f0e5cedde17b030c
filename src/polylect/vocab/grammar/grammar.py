"""Checks that the events of one session come in a legal order.

`rules.py` has the tables of phases and rules; here they are applied, one event after the other. The tests
check every conversation of our engine with it. On the host side `complete.py` uses it to repair what another
engine leaves out. An event that breaks a rule changes nothing, so it can be tried again.
"""

from collections.abc import Callable

from polylect.vocab import events as e
from polylect.vocab.content import Text, Thinking, ToolCall
from polylect.vocab.grammar.rules import (
    AGENTS_ONLY,
    ANYTIME,
    IDLE,
    MAIN_ONLY,
    REPLY,
    TABLE,
    TURN,
    AgentState,
    Call,
    Rule,
)


class Grammar:
    """The state of one session, as its events describe it. Both ends of a wire can use it."""

    def __init__(self) -> None:
        self.main = AgentState()
        self.agents: dict[str, AgentState] = {"": self.main}
        self.asks: dict[str, e.Ask] = {}
        self.turns_over: set[str] = set()
        self._ready = False
        # Kind and agent of the last delta: most deltas continue the same block, and need no other check.
        self._delta_kind: type[e.Event] | None = None
        self._delta_source = ("", "")
        self._append_delta: Callable[[str], None] = self.main.parts.append

    def accept(self, event: e.Event) -> Rule | None:
        """Accepts the next event, or returns the rule that it breaks and changes nothing.

        Args:
            event: The next event of the session.
        """
        kind = type(event)
        if kind is self._delta_kind and (event.turn, event.agent) == self._delta_source:
            self._append_delta(event.text)  # type: ignore[attr-defined]  # a delta, by far the most frequent, and it matters
            return None
        if kind in ANYTIME:
            return None
        if own := _OWN_RULES.get(kind):
            return own(self, event)
        agent = self.agents.get(event.agent)
        if agent is None:
            return Rule.AGENT
        if rule := _ANY_PHASE_RULES.get(kind):
            return rule(self, agent, event)
        if isinstance(event, e.TurnEnded) and agent is self.main and event.turn != agent.turn:
            return self._queued_turn_ended(event)
        return self._in_phase(agent, event, kind)

    @property
    def attached(self) -> list[AgentState]:
        """The agents that the running turn has to wait for."""
        return [agent for agent in self.agents.values() if agent is not self.main and not agent.detached]

    def children(self, parent: str, call: str | None = None) -> list[AgentState]:
        """Returns the agents that an agent has to wait for.

        Args:
            parent: The id of the waiting agent.
            call: Only agents that this call started; None for all.
        """
        agents = [agent for agent in self.agents.values() if agent is not self.main and not agent.background]
        return [agent for agent in agents if agent.parent == parent and call in (None, agent.call)]

    def asks_of(self, agent: AgentState) -> list[e.Ask]:
        """Returns the open asks that `agent` has to wait for; for the main agent, those of its turn."""
        if agent is not self.main:
            return [ask for ask in self.asks.values() if ask.agent == agent.id]
        return [ask for ask in self.asks.values() if ask.turn == agent.turn and not self.agents[ask.agent].detached]

    # Events that move an agent from phase to phase.

    def _in_phase(self, agent: AgentState, event: e.Event, kind: type[e.Event]) -> Rule | None:
        if agent.foreign(event.turn) and not (kind is e.TurnStarted and agent.phase is IDLE):
            return Rule.TURN
        phase = TABLE[agent.phase].get(kind)
        if phase is None or kind in (MAIN_ONLY if agent.id else AGENTS_ONLY):
            return Rule.PHASE
        rule = _AGENT_RULES[kind](self, agent, event) if kind in _AGENT_RULES else None
        if rule is None:
            agent.phase = phase
        return rule

    def _turn_started(self, agent: AgentState, event: e.TurnStarted) -> Rule | None:
        if not event.turn:
            return Rule.TURN_NAMED
        self.turns_over.discard(event.turn)
        agent.turn, agent.session = event.turn, event.session
        agent.steps, agent.past = 0, set()
        return None

    def _queued_turn_ended(self, event: e.TurnEnded) -> Rule | None:
        """A prompt that only waited ends without ever having begun."""
        if event.turn in self.turns_over:
            return Rule.TURN_OVER
        if not event.turn or event.reason not in ("cancelled", "error"):
            return Rule.TURN
        self.turns_over.add(event.turn)
        return None

    def _turn_ended(self, agent: AgentState, event: e.TurnEnded) -> Rule | None:
        if self.asks_of(agent):
            return Rule.ASK_OPEN
        if self.attached:
            return Rule.AGENT_RUNS
        if agent.retry is not None:
            return Rule.RETRY_OPEN
        self.turns_over.add(agent.turn)
        self._delta_kind = None
        for every in self.agents.values():
            every.turn = ""
        return None

    def _agent_ended(self, agent: AgentState, event: e.AgentEnded) -> Rule | None:
        if self.asks_of(agent):
            return Rule.ASK_OPEN
        if self.children(agent.id):
            return Rule.AGENT_RUNS
        if agent.retry is not None:
            return Rule.RETRY_OPEN
        if agent.compacting:
            return Rule.COMPACTION_OPEN
        del self.agents[agent.id]
        return None

    def _step_started(self, agent: AgentState, event: e.StepStarted) -> Rule | None:
        agent.steps += 1
        agent.spoken = False
        agent.calls = {}
        return None

    def _step_ended(self, agent: AgentState, event: e.StepEnded) -> Rule | None:
        if agent.open_calls:
            return Rule.CALL_OPEN
        agent.past.update(agent.calls)
        agent.calls = {}
        return None

    def _reply_ended(self, agent: AgentState, event: e.ReplyEnded) -> Rule | None:
        # Arguments that broke off are no call, so nothing has to close them.
        if agent.block not in (None, e.ArgsDelta):
            return Rule.BLOCK_OPEN
        self._close_block(agent)
        return None

    def _retry_started(self, agent: AgentState, event: e.RetryStarted) -> Rule | None:
        if agent.phase is REPLY and agent.spoken:
            return Rule.PHASE
        agent.retry = event.attempt
        return None

    def _retry_ended(self, agent: AgentState, event: e.RetryEnded) -> Rule | None:
        if agent.retry is None:
            return Rule.RETRY
        agent.retry = None
        return None

    # Blocks. Those of one agent never interleave.

    def _delta(self, agent: AgentState, event: e.TextDelta | e.ThinkingDelta | e.ArgsDelta) -> Rule | None:
        if rule := agent.reply_over():
            return rule
        call = event.call if isinstance(event, e.ArgsDelta) else ""
        if agent.block not in (None, type(event)) or (agent.block and agent.block_call != call):
            return Rule.BLOCK_OPEN
        if agent.block is None:
            agent.block, agent.block_call, agent.parts = type(event), call, []
            agent.block_name = event.name if isinstance(event, e.ArgsDelta) else ""
            agent.spoken = True
        agent.parts.append(event.text)
        if not isinstance(event, e.ArgsDelta):
            self._delta_kind, self._delta_source, self._append_delta = (
                agent.block,
                (event.turn, event.agent),
                agent.parts.append,
            )
        return None

    def _block_ended(self, agent: AgentState, event: e.BlockEnded) -> Rule | None:
        if rule := agent.reply_over():
            return rule
        match event.block:
            case ToolCall(call):
                if agent.block not in (None, e.ArgsDelta) or (agent.block and agent.block_call != call):
                    return Rule.BLOCK_OPEN
            case Text(text) | Thinking(text):
                if agent.block not in (None, e.TextDelta if isinstance(event.block, Text) else e.ThinkingDelta):
                    return Rule.BLOCK_OPEN
                if text != ("".join(agent.parts) if agent.block else ""):
                    return Rule.BLOCK_EQUAL
            case _ if agent.block:
                return Rule.BLOCK_OPEN
        self._close_block(agent)
        agent.spoken = True
        return None

    def _close_block(self, agent: AgentState) -> None:
        agent.block, agent.parts = None, []
        self._delta_kind = None

    # Calls: called, asked, started, finished.

    def _tool_called(self, agent: AgentState, event: e.ToolCalled) -> Rule | None:
        if event.call in agent.calls:
            return Rule.CALL_NEW
        if rule := agent.reply_over():
            return rule
        if agent.block and (agent.block is not e.ArgsDelta or agent.block_call != event.call):
            return Rule.BLOCK_OPEN
        self._close_block(agent)
        agent.spoken = True
        agent.calls[event.call] = Call(event.name)
        return None

    def _mark(self, agent: AgentState, event: e.ToolStarted | e.ToolOutput | e.ToolFinished) -> Rule | None:
        if agent.foreign(event.turn):
            return Rule.TURN
        if rule := agent.call_closed(event.call):
            return rule
        return _MARKS[type(event)](self, agent, agent.calls[event.call], event)

    def _started(self, agent: AgentState, call: Call, event: e.ToolStarted) -> Rule | None:
        if call.started:
            return Rule.CALL_STARTED
        if self._has_ask(agent, event.call):
            return Rule.CALL_ASKED
        call.started = True
        return None

    def _output(self, agent: AgentState, call: Call, event: e.ToolOutput) -> Rule | None:
        return None if call.started else Rule.CALL_UNSTARTED

    def _finished(self, agent: AgentState, call: Call, event: e.ToolFinished) -> Rule | None:
        if self._has_ask(agent, event.call):
            return Rule.CALL_ASKED
        if event.outcome == "ok" and not call.started:
            return Rule.CALL_UNSTARTED
        if self.children(agent.id, event.call):
            return Rule.AGENT_RUNS
        call.finished = True
        return None

    def _has_ask(self, agent: AgentState, call: str) -> bool:
        return any(ask.call == call and ask.agent == agent.id for ask in self.asks.values())

    # Asks, agents and the rest, each legal whatever the phase.

    def _ask(self, agent: AgentState, event: e.Ask) -> Rule | None:
        if event.ask in self.asks:
            return Rule.ASK_NEW
        if event.call and (rule := agent.call_closed(event.call)):
            return rule
        if agent.foreign(event.turn) and (event.turn or event.call):
            return Rule.TURN
        self.asks[event.ask] = event
        return None

    def _ask_closed(self, event: e.AskClosed) -> Rule | None:
        return None if self.asks.pop(event.ask, None) else Rule.ASK

    def _agent_started(self, event: e.AgentStarted) -> Rule | None:
        if not event.agent or event.agent in self.agents:
            return Rule.AGENT_NEW
        parent = self.agents.get(event.parent)
        if parent is None:
            return Rule.AGENT
        if event.call and (rule := parent.call_closed(event.call)):
            return rule
        if parent.foreign(event.turn) and not (event.background and not event.turn):
            return Rule.TURN
        if parent.phase is IDLE and not event.background:
            return Rule.PHASE
        self.agents[event.agent] = AgentState(
            id=event.agent,
            parent=event.parent,
            call=event.call,
            background=event.background,
            detached=event.background or parent.detached,
            session=event.session,
            phase=TURN,
            turn=parent.turn,
        )
        return None

    def _compaction_started(self, agent: AgentState, event: e.CompactionStarted) -> Rule | None:
        if agent.compacting:
            return Rule.COMPACTION_OPEN
        agent.compacting = True
        return None

    def _compaction_ended(self, agent: AgentState, event: e.CompactionEnded) -> Rule | None:
        if not agent.compacting:
            return Rule.COMPACTION
        agent.compacting = False
        return None

    def _on_ready(self, event: e.Ready) -> Rule | None:
        if self._ready:
            return Rule.READY
        self._ready = True
        return None

    def _settled(self, event: e.Settled) -> Rule | None:
        return Rule.SETTLED if self.main.turn or len(self.agents) > 1 else None


_AGENT_RULES: dict[type[e.Event], Callable[..., Rule | None]] = {
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
_ANY_PHASE_RULES: dict[type[e.Event], Callable[..., Rule | None]] = {
    **dict.fromkeys(_MARKS, Grammar._mark),
    e.Ask: Grammar._ask,
    e.CompactionStarted: Grammar._compaction_started,
    e.CompactionEnded: Grammar._compaction_ended,
}
"""Of an agent that runs, whatever its phase."""
_OWN_RULES: dict[type[e.Event], Callable[..., Rule | None]] = {
    e.AskClosed: Grammar._ask_closed,
    e.AgentStarted: Grammar._agent_started,
    e.Ready: Grammar._on_ready,
    e.Settled: Grammar._settled,
}
"""Of the session: no agent has to run."""
