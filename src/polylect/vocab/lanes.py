"""The grammar as data: the phases of a lane, what moves it from one to the next, and the rules an event can break.

A lane is one agent. Its steps go round `TURN -> REPLY -> CALLS -> TURN`; the main lane, named "", rests in `IDLE`.
"""

from enum import Enum

from msgspec import Struct

from polylect.vocab import events as e


class Phase(Enum):
    IDLE = "idle"
    TURN = "turn"
    REPLY = "reply"
    CALLS = "calls"


class Rule(Enum):
    """What an event can break."""

    PHASE = "it has no place in this phase"
    AGENT = "its agent is not running"
    AGENT_NEW = "it opens an agent that has no name or runs already"
    AGENT_RUNS = "an agent in the foreground has not ended"
    TURN = "it belongs to another turn than the running one"
    TURN_NAMED = "a turn has an id"
    TURN_OVER = "a turn ends once"
    BLOCK_OPEN = "another block is open"
    BLOCK_EQUAL = "a block equals its deltas"
    CALL = "its call was not called"
    CALL_NEW = "a call is called once"
    CALL_OVER = "its call has finished"
    CALL_STARTED = "its call has started already"
    CALL_UNSTARTED = "its call has not started"
    CALL_ASKED = "its call waits for an answer"
    CALL_OPEN = "a call has not finished"
    ASK = "no such ask is open"
    ASK_NEW = "an ask of this id is open already"
    ASK_OPEN = "an ask is not closed"
    RETRY = "no retry is under way"
    RETRY_OPEN = "a retry has not ended"
    COMPACTION = "no compaction is under way"
    COMPACTION_OPEN = "a compaction has not ended"
    READY = "ready is said once"
    SETTLED = "something still runs"


IDLE, TURN, REPLY, CALLS = Phase
_WITHIN: tuple[type[e.Event], ...] = (e.UserMessage, e.RetryEnded, e.Alive, e.AgentProgress)
_CONTENT: tuple[type[e.Event], ...] = (e.TextDelta, e.ThinkingDelta, e.ArgsDelta, e.BlockEnded, e.ToolCalled)

TABLE: dict[Phase, dict[type[e.Event], Phase]] = {
    IDLE: {e.UserMessage: IDLE, e.TurnStarted: TURN},
    TURN: {
        **dict.fromkeys(_WITHIN, TURN),
        e.RetryStarted: TURN,
        e.StepStarted: REPLY,
        e.AgentEnded: IDLE,
        e.TurnEnded: IDLE,
    },
    # A retry is of the request: once the model has spoken, it is too late for one.
    REPLY: {**dict.fromkeys((*_WITHIN, *_CONTENT), REPLY), e.RetryStarted: REPLY, e.ReplyEnded: CALLS},
    # Some engines run the first call while the model still talks: its reply may go on as long as a call is open.
    CALLS: {**dict.fromkeys(_WITHIN, CALLS), **dict.fromkeys(_CONTENT, REPLY), e.StepEnded: TURN},
}
"""What each event makes of a lane's phase. Marks of calls, asks, agents and compactions have rules of their own."""

ANYTIME: frozenset[type[e.Event]] = frozenset(
    {
        e.SettingChanged, e.Reply, e.ServerChanged, e.QueueChanged, e.HostCall, e.HostCallEnded, e.Display,
        e.ContextUsed, e.CostChanged, e.BudgetExceeded, e.PlanChanged, e.Notice, e.Failed, e.Extra,
        e.UnknownEvent, e.MalformedEvent,
    }
)  # fmt: skip
"""What may be said whatever else is going on."""

MAIN_ONLY: tuple[type[e.Event], ...] = (e.TurnStarted, e.TurnEnded)
AGENTS_ONLY: tuple[type[e.Event], ...] = (e.AgentProgress, e.AgentEnded)


class Call(Struct):
    name: str
    started: bool = False
    finished: bool = False


class Lane(Struct):
    """One agent. `detached` lanes, a background agent's and its children's, may outlive the turn."""

    agent: str = ""
    parent: str = ""
    call: str = ""
    background: bool = False
    detached: bool = False
    session: str = ""
    phase: Phase = IDLE
    turn: str = ""
    spoken: bool = False
    block: type[e.TextDelta | e.ThinkingDelta | e.ArgsDelta] | None = None
    block_call: str = ""
    block_name: str = ""
    parts: list[str] = []
    calls: dict[str, Call] = {}
    """The calls of this step."""
    past: set[str] = set()
    """The calls of this turn's earlier steps."""
    retry: int | None = None
    compacting: bool = False

    @property
    def open_calls(self) -> list[str]:
        return [call for call, marks in self.calls.items() if not marks.finished]

    def without_room(self) -> Rule | None:
        """A reply that has called is over when all its calls have finished; an open block may still go on."""
        over = not self.block and not self.open_calls and (self.calls or self.phase is CALLS)
        return Rule.PHASE if over else None

    def without_call(self, call: str) -> Rule | None:
        known = self.calls.get(call)
        if known and not known.finished:
            return None
        return Rule.CALL_OVER if known or call in self.past else Rule.CALL

    def foreign(self, turn: str) -> bool:
        """Detached lanes may name their turn or not; all others have to."""
        return turn != self.turn and not (self.detached and not turn)
