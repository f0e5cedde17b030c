"""What an engine can say.

A **turn** runs from a prompt to `TurnEnded`. A **step** is one model reply and the calls it asked for. Every
event names its agent; the id of the main one is empty. `grammar.py` says which event may follow which.
"""

from typing import Any, Literal

from msgspec import Struct, field

from polylect.vocab.content import (
    Abilities,
    Attachment,
    Block,
    CallRecord,
    Category,
    Failure,
    Form,
    Image,
    Option,
    Outcome,
    PlanItem,
    Stop,
    StreamRule,
    Usage,
)


class _Event(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="is"):
    turn: str = ""
    agent: str = ""
    session: str = ""


# The connection and its settings.


class Ready(_Event, frozen=True, tag="ready"):
    """The engine can be spoken to. Said once; `session` may come later as a setting."""

    version: str = ""
    model: str = ""
    mode: str = "default"
    abilities: Abilities = Abilities()


class SettingChanged(_Event, frozen=True, tag="setting_changed"):
    """Session, model, mode, thinking, effort, name, title, commands, abilities ... now have this value."""

    key: str
    value: Any


class Reply(_Event, frozen=True, tag="reply"):
    """The one answer to the command with this ref."""

    ref: str
    data: Any = None
    failure: Failure | None = None


class ServerChanged(_Event, frozen=True, tag="server_changed"):
    """An MCP server came up with these tools, failed for this reason, or went away."""

    name: str
    status: Literal["ready", "failed", "removed"]
    tools: tuple[str, ...] = ()
    reason: str = ""


class QueueChanged(_Event, frozen=True, tag="queue_changed"):
    prompts: tuple[str, ...] = ()
    soon: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


class Settled(_Event, frozen=True, tag="settled"):
    """Nothing runs and nothing waits."""


# A turn.


class TurnStarted(_Event, frozen=True, tag="turn_started"):
    cause: Literal["prompt", "engine"] = "prompt"


class UserMessage(_Event, frozen=True, tag="user_message"):
    """These words entered the context now."""

    text: str
    origin: Literal["prompt", "steer", "follow_up", "engine", "replay"] = "prompt"
    attachments: tuple[Attachment, ...] = ()


class StepStarted(_Event, frozen=True, tag="step_started"):
    pass


class TextDelta(_Event, frozen=True, tag="text_delta", gc=False):
    text: str


class ThinkingDelta(_Event, frozen=True, tag="thinking_delta", gc=False):
    text: str


class ArgsDelta(_Event, frozen=True, tag="args_delta", gc=False):
    """A fragment of the JSON arguments of a call that has not been called yet."""

    call: str
    name: str
    text: str


class BlockEnded(_Event, frozen=True, tag="block_ended"):
    """The whole block whose deltas came before it: together they equal it."""

    block: Block


class ReplyEnded(_Event, frozen=True, tag="reply_ended"):
    """The model has stopped talking; calls may still be under way. `error` says why it broke off."""

    stop: Stop
    usage: Usage = Usage()
    model: str = ""
    request: str = ""
    error: str = ""


class StepEnded(_Event, frozen=True, tag="step_ended"):
    pass


class TurnEnded(_Event, frozen=True, tag="turn_ended"):
    """The one terminal event of an accepted prompt. `usage` sums all agents of this turn."""

    reason: Literal["end", "cancelled", "length", "refused", "limit", "error"]
    usage: Usage = Usage()
    steps: int = 0
    failure: Failure | None = None


# Calls and asks. A call has four marks: called, asked, started, finished.


class ToolCalled(_Event, frozen=True, tag="tool_called"):
    call: str
    name: str
    args: dict[str, Any] = {}
    category: Category = "exec"
    description: str = ""


class Ask(_Event, frozen=True, tag="ask"):
    """A question to a person. `call` is the call that waits for it, if any. A `form` has its JSON Schema in `args`."""

    ask: str
    kind: Literal["permission", "choice", "text", "confirm", "form", "url"] = "permission"
    call: str = ""
    name: str = ""
    args: dict[str, Any] = {}
    category: Category = "exec"
    title: str = ""
    reason: str = ""
    options: tuple[Option, ...] = ()
    multiple: bool = False
    default: str = ""
    timeout_ms: int = 0


class AskClosed(_Event, frozen=True, tag="ask_closed"):
    """Exactly one for each ask, before its call's next mark."""

    ask: str
    how: Literal["allowed", "denied", "answered", "cancelled", "timeout", "unsaid"]
    reason: str = ""


class ToolStarted(_Event, frozen=True, tag="tool_started"):
    call: str
    name: str
    pid: int = 0


class ToolOutput(_Event, frozen=True, tag="tool_output"):
    """Output so far: to append, or instead of all that came before."""

    call: str
    text: str
    replace: bool = False


class ToolFinished(_Event, frozen=True, tag="tool_finished"):
    """`output` is what the model is told; `reason` is why a call was denied, cancelled or skipped."""

    call: str
    name: str
    output: str
    outcome: Outcome = "ok"
    form: Form = "text"
    reason: str = ""
    metadata: dict[str, Any] | None = None
    images: tuple[Image, ...] = ()


class ToolCrashed(_Event, frozen=True, tag="tool_crashed"):
    """A tool raised something that it should not have. The `ToolFinished` of the call, as an error, still comes."""

    call: str
    name: str
    error: str


class HostCall(_Event, frozen=True, tag="host_call"):
    """Work that only the host can do, as it offered: `hook` (callback, input, call), `mcp_message` (server_name,
    message), `tool` (name, args, call), a file or terminal of its own."""

    call: str
    method: str
    params: Any = None


class HostCallEnded(_Event, frozen=True, tag="host_call_ended"):
    """The engine no longer waits for it."""

    call: str


class Display(_Event, frozen=True, tag="display"):
    """Something for the host to show, with no answer: a notification, a widget, a status, an artifact."""

    method: str
    params: dict[str, Any] = {}


# Agents.


class AgentStarted(_Event, frozen=True, tag="agent_started"):
    """The agent `agent` begins, asked for by `call` of the agent `parent`."""

    parent: str = ""
    call: str = ""
    name: str = ""
    task: str = ""
    background: bool = False


class AgentProgress(_Event, frozen=True, tag="agent_progress"):
    text: str = ""
    usage: Usage = Usage()
    calls: int = 0


class AgentEnded(_Event, frozen=True, tag="agent_ended"):
    """`summary` has its last words; `failure` says why it did not come to an end of its own, `cancelled` if stopped."""

    ok: bool = True
    summary: str = ""
    failure: Failure | None = None


# What happens around a turn.


class RetryStarted(_Event, frozen=True, tag="retry_started"):
    attempt: int
    most: int
    delay_ms: int
    error: str = ""


class RetryEnded(_Event, frozen=True, tag="retry_ended"):
    ok: bool
    attempt: int = 0
    error: str = ""


class CompactionStarted(_Event, frozen=True, tag="compaction_started"):
    reason: Literal["threshold", "overflow", "manual", "idle"] = "threshold"


class CompactionEnded(_Event, frozen=True, tag="compaction_ended"):
    ok: bool = True
    summary: str = ""
    before: int = 0
    after: int = 0
    first_kept: str = field(default="", name="kept")
    error: str = ""

    @property
    def kept(self) -> str:
        """The old name of `first_kept`."""
        return self.first_kept


class CircuitChanged(_Event, frozen=True, tag="circuit_changed"):
    """The model service `primary` is no longer asked because it keeps failing (`open`), is tried again (`half_open`) or
    works again (`closed`). `fallback` is asked in its place, if there is one."""

    primary: str
    state: Literal["closed", "open", "half_open"]
    fallback: str = ""
    error: str = ""


class RulesMatched(_Event, frozen=True, tag="rules_matched"):
    """The model's text matched these rules. It is reminded of them and asked again."""

    rules: tuple[StreamRule, ...]


class StructuredAnswer(_Event, frozen=True, tag="structured_answer"):
    """The answer of a turn whose answer has a JSON Schema. At most once a turn, before its end."""

    value: Any


class StepTraced(_Event, frozen=True, tag="step_traced"):
    """What one model request took, after its step ended; only where traces are on.

    `number` counts the requests of the engine. `ended` is the time of the reply's last chunk. Times are in nanoseconds
    since 1970.
    """

    number: int
    provider: str
    model: str
    stop: Stop
    usage: Usage
    calls: tuple[CallRecord, ...]
    began: int
    ended: int
    error: str = ""


class ExtensionRejected(_Event, frozen=True, tag="extension_rejected"):
    """An extension, or one of its parts (`surface`: hooks, commands, tools), is not used.

    `code` is `load`, `config`, `duplicate` or `reserved`.
    """

    extension: str
    surface: str
    code: str
    message: str


class ExtensionFailed(_Event, frozen=True, tag="extension_failed"):
    """A hook or a command of an extension raised, or took too long. `moment` says which."""

    extension: str
    moment: str
    error: str


class ExtensionEvent(_Event, frozen=True, tag="extension_event"):
    """Something of an extension's own, for hosts that know it."""

    extension: str
    kind: str
    payload: Any = None


class ContextUsed(_Event, frozen=True, tag="context_used"):
    used: int
    size: int = 0


class CostChanged(_Event, frozen=True, tag="cost_changed"):
    """The session's ledger so far: one row a model call."""

    total: Usage
    rows: tuple[dict[str, Any], ...] = ()


class BudgetExceeded(_Event, frozen=True, tag="budget_exceeded"):
    reason: str
    observed: str
    limit: str


class PlanChanged(_Event, frozen=True, tag="plan_changed"):
    items: tuple[PlanItem, ...]


class Alive(_Event, frozen=True, tag="alive"):
    """Nothing new, but still at work, on this call if one is named."""

    call: str = ""
    name: str = ""


class Notice(_Event, frozen=True, tag="notice"):
    text: str
    level: Literal["info", "warning"] = "info"


class Failed(_Event, frozen=True, tag="failed"):
    """Something went wrong and nothing ended by it."""

    failure: Failure


class Extra(_Event, frozen=True, tag="extra"):
    """A frame that only one wire has, by its name there: browsers, rate limits, hooks. Only dialects make it."""

    kind: str
    data: dict[str, Any] = {}


class UnknownEvent(_Event, frozen=True, tag="unknown"):
    """Well-formed, but not a word this side knows: to be passed on or dropped, never a fault."""

    kind: str
    raw: bytes = b""


class MalformedEvent(_Event, frozen=True, tag="malformed"):
    line: bytes
    why: str


Event = (
    Ready
    | SettingChanged
    | Reply
    | ServerChanged
    | QueueChanged
    | Settled
    | TurnStarted
    | UserMessage
    | StepStarted
    | TextDelta
    | ThinkingDelta
    | ArgsDelta
    | BlockEnded
    | ReplyEnded
    | StepEnded
    | TurnEnded
    | ToolCalled
    | Ask
    | AskClosed
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | ToolCrashed
    | HostCall
    | HostCallEnded
    | Display
    | AgentStarted
    | AgentProgress
    | AgentEnded
    | RetryStarted
    | RetryEnded
    | CompactionStarted
    | CompactionEnded
    | CircuitChanged
    | RulesMatched
    | StructuredAnswer
    | StepTraced
    | ExtensionRejected
    | ExtensionFailed
    | ExtensionEvent
    | ContextUsed
    | CostChanged
    | BudgetExceeded
    | PlanChanged
    | Alive
    | Notice
    | Failed
    | Extra
    | UnknownEvent
    | MalformedEvent
)
