"""The grammar of events as data: the phases of an agent, which event leads to which phase, and the rules.

The steps of an agent go round `TURN -> REPLY -> CALLS -> TURN`. The main agent, whose id is empty, is in `IDLE` between
turns. `grammar.py` applies these tables to the events of a session; `complete.py` uses them to find out
which event is missing. An event that has no entry here breaks `Rule.PHASE`, so a new event needs an entry.
"""

from enum import Enum

from msgspec import Struct

from polylect.vocab import events as e


class Phase(Enum):
    """Where an agent is: in no turn, between two steps, in the reply of the model, or in the calls of that reply."""

    IDLE = "idle"
    TURN = "turn"
    REPLY = "reply"
    CALLS = "calls"


class Rule(Enum):
    """The rules that an event can break; the value is the text of the error."""

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
"""The phase that follows, by phase and event. Calls, asks, agents and compactions have rules of their own."""

ANYTIME: frozenset[type[e.Event]] = frozenset(
    {
        e.SettingChanged, e.Reply, e.ServerChanged, e.QueueChanged, e.HostCall, e.HostCallEnded, e.Display,
        e.ShellOutput,
        e.ToolCrashed, e.CircuitChanged, e.RulesMatched, e.StructuredAnswer, e.StepTraced, e.ExtensionRejected,
        e.ExtensionFailed, e.ExtensionEvent, e.ContextUsed, e.CostChanged, e.BudgetExceeded, e.PlanChanged, e.Notice,
        e.Failed, e.Extra, e.UnknownEvent, e.MalformedEvent,
    }
)  # fmt: skip
"""Events that are allowed in every phase."""

MAIN_ONLY: tuple[type[e.Event], ...] = (e.TurnStarted, e.TurnEnded)
AGENTS_ONLY: tuple[type[e.Event], ...] = (e.AgentProgress, e.AgentEnded)


class Call(Struct):
    """A call that was made in the step under way: `name` of the tool, whether it has `started` and has `finished`."""

    name: str
    started: bool = False
    finished: bool = False


class AgentState(Struct):
    """What the grammar knows of one agent.

    Attributes:
        id: The id of the agent; empty for the main one.
        parent: The id of the agent that started it.
        call: The call that started it.
        background: Whether its parent does not wait for it.
        detached: Whether it may outlive the turn: it or one of its parents is in the background.
        session: The session of its events.
        phase: Where it is.
        turn: The turn that it works in; empty for none.
        steps: How many steps that turn has had.
        spoken: Whether the reply under way has content.
        block: The kind of the block that is open; None if none is.
        block_call: The id of the call whose arguments are the open block.
        block_name: The tool of that call.
        parts: The deltas of the open block.
        calls: The calls of this step.
        past: The calls of earlier steps of this turn.
        retry: The number of the attempt, while a request is repeated.
        compacting: Whether its conversation is being compacted.
    """

    id: str = ""
    parent: str = ""
    call: str = ""
    background: bool = False
    detached: bool = False
    session: str = ""
    phase: Phase = IDLE
    turn: str = ""
    steps: int = 0
    spoken: bool = False
    block: type[e.TextDelta | e.ThinkingDelta | e.ArgsDelta] | None = None
    block_call: str = ""
    block_name: str = ""
    parts: list[str] = []
    calls: dict[str, Call] = {}
    past: set[str] = set()
    retry: int | None = None
    compacting: bool = False

    @property
    def open_calls(self) -> list[str]:
        """The calls of this step that have not finished."""
        return [call for call, marks in self.calls.items() if not marks.finished]

    def reply_over(self) -> Rule | None:
        """Returns the broken rule if the reply can have no more content; None if it can.

        A reply with calls is over when all of them have finished; an open block may still go on.
        """
        over = not self.block and not self.open_calls and (self.calls or self.phase is CALLS)
        return Rule.PHASE if over else None

    def call_closed(self, call: str) -> Rule | None:
        """Returns the broken rule if the call with the id `call` is not open in this step; None if it is."""
        state = self.calls.get(call)
        if state and not state.finished:
            return None
        return Rule.CALL_OVER if state or call in self.past else Rule.CALL

    def foreign(self, turn: str) -> bool:
        """Whether an event of `turn` does not belong to this agent's turn. Detached agents may leave the turn out."""
        return turn != self.turn and not (self.detached and not turn)
