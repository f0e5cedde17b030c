"""The events: what an engine reports to its host, as values.

The engine emits them, dialects translate them to and from frames, and hosts read them (`Agent.events`, `Turn`).

A **turn** runs from a prompt to `TurnEnded`. A **step** is one model reply and the calls it asked for. Every
event names its agent; the id of the main one is empty. `grammar/` says which event may follow which.
"""

from typing import Any, Literal

from polylect.vocab.content import (
    Abilities,
    Attachment,
    Block,
    CallRecord,
    Category,
    CircuitState,
    Failure,
    Form,
    Image,
    Option,
    Outcome,
    PlanItem,
    Reason,
    Stop,
    StreamRule,
    Usage,
)
from polylect.vocab.item import Item


class Event(Item, frozen=True, kw_only=True):
    """Any event, and the fields that every event has beside those of `Item`.

    Attributes:
        turn: The turn that it belongs to; empty for none.
        agent: The id of the agent that it is about; empty for the main one.
    """

    turn: str = ""
    agent: str = ""

    @staticmethod
    def from_json(text: str | bytes) -> "Event":
        """Returns the event whose JSON is `text`, an `UnknownEvent` for a type that is not known. Raises ValueError."""
        from polylect.vocab.json_form import event_of_json  # it imports this module

        return event_of_json(text)


# The connection and its settings.


class Ready(Event, frozen=True, tag="ready"):
    """The engine can get commands. Comes once; the session may follow as a setting.

    `version`: the version of the engine; `model`: the model in use; `mode`: the approval mode; `abilities`: what
    the engine offers.
    """

    version: str = ""
    model: str = ""
    mode: str = "default"
    abilities: Abilities = Abilities()


class SettingChanged(Event, frozen=True, tag="setting_changed"):
    """The setting `key` has the new `value`: session, model, mode, thinking, effort, name, title, commands ..."""

    key: str
    value: Any


class Reply(Event, frozen=True, tag="reply"):
    """The one answer to a command.

    Attributes:
        ref: The `ref` of the command.
        data: The answer; `vocab/answers.py` lists its types.
        failure: Why the command was refused; None if it was accepted.
    """

    ref: str
    data: Any = None
    failure: Failure | None = None


class ServerChanged(Event, frozen=True, tag="server_changed"):
    """An MCP server came up, failed or was removed.

    `name`: its name; `status`: its state; `tools`: the tools that it has; `reason`: why it failed.
    """

    name: str
    status: Literal["ready", "failed", "removed"]
    tools: tuple[str, ...] = ()
    reason: str = ""


class QueueChanged(Event, frozen=True, tag="queue_changed"):
    """What waits has changed.

    `prompts`: the turns of the prompts that wait; `soon`: the texts that join the running turn after the calls
    under way; `last`: the texts that join it before it would end.
    """

    prompts: tuple[str, ...] = ()
    soon: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


class ShellOutput(Event, frozen=True, tag="shell_output"):
    """A shell command of the user's has printed `text`. `command` is the ref of its `RunShell`, whose reply has all."""

    command: str
    text: str


class Settled(Event, frozen=True, tag="settled"):
    """Nothing runs and nothing waits."""


# A turn.


class TurnStarted(Event, frozen=True, tag="turn_started"):
    """A turn begins. Its `cause` is `engine` if no prompt began it."""

    cause: Literal["prompt", "engine"] = "prompt"


class UserMessage(Event, frozen=True, tag="user_message"):
    """A message of the user entered the conversation.

    `text`: the message; `origin`: where it comes from; `attachments`: what goes with it.
    """

    text: str
    origin: Literal["prompt", "steer", "follow_up", "engine", "replay"] = "prompt"
    attachments: tuple[Attachment, ...] = ()


class StepStarted(Event, frozen=True, tag="step_started"):
    """A step begins: the model is asked."""


class TextDelta(Event, frozen=True, tag="text_delta", gc=False):
    """`text` is the next piece of the model's text."""

    text: str


class ThinkingDelta(Event, frozen=True, tag="thinking_delta", gc=False):
    """`text` is the next piece of the model's reasoning."""

    text: str


class ArgsDelta(Event, frozen=True, tag="args_delta", gc=False):
    """`text` is the next piece of the JSON arguments of `call`, of the tool `name`, which has not been made yet."""

    call: str
    name: str
    text: str


class BlockEnded(Event, frozen=True, tag="block_ended"):
    """A `block` of the reply is complete. It equals its deltas, which came before."""

    block: Block


class ReplyEnded(Event, frozen=True, tag="reply_ended"):
    """The model has stopped writing. Calls may still run.

    `stop`: why it stopped; `usage`: what the reply took; `model`: the model that wrote it; `request`: the vendor's
    id of the request; `error`: why it broke off.
    """

    stop: Stop
    usage: Usage = Usage()
    model: str = ""
    request: str = ""
    error: str = ""


class StepEnded(Event, frozen=True, tag="step_ended"):
    """A step ends: the reply and all its calls are finished."""


class TurnEnded(Event, frozen=True, tag="turn_ended"):
    """The last event of a turn. Every accepted prompt gets exactly one.

    `reason`: why it ended; `usage`: what the turn took, all agents together; `steps`: how many steps it had;
    `failure`: what went wrong, if it did.
    """

    reason: Reason
    usage: Usage = Usage()
    steps: int = 0
    failure: Failure | None = None


# Calls and asks. A call has four marks: called, asked, started, finished.


class ToolCalled(Event, frozen=True, tag="tool_called"):
    """The model made a call.

    `call`: the id of the call; `name`: the name of the tool; `args`: the arguments; `category`: what the tool may
    do; `description`: one line for people.
    """

    call: str
    name: str
    args: dict[str, Any] = {}
    category: Category = "exec"
    description: str = ""


class Ask(Event, frozen=True, tag="ask"):
    """A question to a person.

    Attributes:
        ask: The id of the question.
        kind: What kind of answer it needs.
        call: The call that waits for the answer; empty for none.
        name: The tool of that call.
        args: The arguments of that call; the JSON Schema of a `form`.
        category: What the tool may do.
        title: The question, in one line.
        reason: Why it is asked.
        options: The choices.
        multiple: Whether several can be chosen.
        default: The answer that is proposed.
        timeout_ms: Milliseconds until it is closed by itself; 0 for never.
        before: The text that the call replaces in a file, for hosts that show it; None where that is not known.
    """

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
    before: str | None = None


class AskClosed(Event, frozen=True, tag="ask_closed"):
    """The question `ask` needs no answer any more. Exactly one for each, before the next event of its call.

    `how` says how it was closed (`unsaid`: the engine did not say), `reason` why it was denied.
    """

    ask: str
    how: Literal["allowed", "denied", "answered", "cancelled", "timeout", "unsaid"]
    reason: str = ""


class ToolStarted(Event, frozen=True, tag="tool_started"):
    """The `call` of the tool `name` begins to run, in the process `pid`, if that is known; `before` as in `Ask`."""

    call: str
    name: str
    pid: int = 0
    before: str | None = None


class ToolOutput(Event, frozen=True, tag="tool_output"):
    """The running `call` printed `text`; with `replace`, in the place of all its output before."""

    call: str
    text: str
    replace: bool = False


class ToolFinished(Event, frozen=True, tag="tool_finished"):
    """A call has ended.

    Attributes:
        call: The id of the call.
        name: The name of the tool.
        output: What the model is told.
        outcome: How it ended.
        form: How to show the output.
        reason: Why it was denied, cancelled or skipped.
        metadata: Data of the tool for hosts, such as the exit code.
        images: Images for the model.
    """

    call: str
    name: str
    output: str
    outcome: Outcome = "ok"
    form: Form = "text"
    reason: str = ""
    metadata: dict[str, Any] | None = None
    images: tuple[Image, ...] = ()


class ToolCrashed(Event, frozen=True, tag="tool_crashed"):
    """The tool `name` raised `error`, which is a bug of the tool. The `ToolFinished` of its `call` still comes."""

    call: str
    name: str
    error: str


class HostCall(Event, frozen=True, tag="host_call"):
    """Work that only the host can do, as it offered in `Hello`. The host answers with `HostReply`, which lists results.

    `call`: an id of this call; `method`: `hook` (callback, input, call), `mcp_message` (server_name, message), `tool`
    (name, args, call), `read_text_file` (path, line, limit), `write_text_file` (path, content), `create_terminal`
    (command, args, env, cwd, limit), `terminal_output`, `wait_for_terminal_exit`, `kill_terminal` or `release_terminal`
    (terminal); `params`: the fields of that method. Paths are absolute.
    """

    call: str
    method: str
    params: Any = None


class HostCallEnded(Event, frozen=True, tag="host_call_ended"):
    """The engine no longer waits for the `HostCall` with the id `call`."""

    call: str


class Display(Event, frozen=True, tag="display"):
    """The host should show something (`method`: a notification, a widget ...) with `params`, without an answer."""

    method: str
    params: dict[str, Any] = {}


# Agents.


class AgentStarted(Event, frozen=True, tag="agent_started"):
    """The agent that the event names begins.

    `parent`: the id of the agent that started it; `call`: the call that started it; `name`: the kind of agent;
    `task`: what it is asked to do; `background`: whether its parent does not wait for it.
    """

    parent: str = ""
    call: str = ""
    name: str = ""
    task: str = ""
    background: bool = False


class AgentProgress(Event, frozen=True, tag="agent_progress"):
    """What an agent has done so far.

    `text`: what it does now; `usage`: what it took so far; `calls`: how many calls it made.
    """

    text: str = ""
    usage: Usage = Usage()
    calls: int = 0


class AgentEnded(Event, frozen=True, tag="agent_ended"):
    """An agent has ended.

    Attributes:
        ok: Whether it did what it was asked.
        summary: Its last text.
        failure: Why it did not end by itself; the code is `cancelled` if it was stopped.
    """

    ok: bool = True
    summary: str = ""
    failure: Failure | None = None


# What happens around a turn.


class RetryStarted(Event, frozen=True, tag="retry_started"):
    """A request failed and is repeated.

    `attempt`: the number of the attempt; `most`: how many attempts there may be; `delay_ms`: milliseconds until it
    is made; `error`: why the request failed.
    """

    attempt: int
    most: int
    delay_ms: int
    error: str = ""


class RetryEnded(Event, frozen=True, tag="retry_ended"):
    """The repeated request was answered (`ok`), or given up after `attempt` because of `error`."""

    ok: bool
    attempt: int = 0
    error: str = ""


class CompactionStarted(Event, frozen=True, tag="compaction_started"):
    """The beginning of the conversation is being replaced by a summary, for this `reason`."""

    reason: Literal["threshold", "overflow", "manual", "idle"] = "threshold"


class CompactionEnded(Event, frozen=True, tag="compaction_ended"):
    """A compaction has ended.

    `ok`: whether it succeeded; `summary`: the summary; `before`: tokens before; `after`: tokens after;
    `first_kept`: the first message, or entry, that is still there; `error`: why it failed.
    """

    ok: bool = True
    summary: str = ""
    before: int = 0
    after: int = 0
    first_kept: str = ""
    error: str = ""

    @property
    def kept(self) -> str:
        """The old name of `first_kept`."""
        return self.first_kept


class CircuitChanged(Event, frozen=True, tag="circuit_changed"):
    """A model service that keeps failing is no longer asked, or is asked again.

    Attributes:
        primary: The service.
        state: `open`: not asked; `half_open`: tried again; `closed`: it works again.
        fallback: The service that is asked in its place; empty for none.
        error: Why it failed.
    """

    primary: str
    state: CircuitState
    fallback: str = ""
    error: str = ""


class RulesMatched(Event, frozen=True, tag="rules_matched"):
    """The model's text matched these `rules`. It is reminded of them and asked again."""

    rules: tuple[StreamRule, ...]


class StructuredAnswer(Event, frozen=True, tag="structured_answer"):
    """The answer of a turn whose answer has a JSON Schema is `value`. At most one for each turn, before its end."""

    value: Any


class StepTraced(Event, frozen=True, tag="step_traced"):
    """What one model request took, after its step ended; only where traces are on. Times are in nanoseconds since 1970.

    Attributes:
        number: Counts the requests of the engine.
        provider: The provider that was asked.
        model: The model that was asked.
        stop: Why the model stopped.
        usage: What the reply took.
        calls: The calls of the step.
        began: When the request was made.
        ended: When the last chunk of the reply came.
        error: Why it failed.
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


class ExtensionRejected(Event, frozen=True, tag="extension_rejected"):
    """An extension, or a part of it, is not used.

    Attributes:
        extension: Its path.
        surface: The part: `hooks`, `commands` or `tools`.
        code: `load`, `config`, `duplicate` or `reserved`.
        message: A sentence for people.
    """

    extension: str
    surface: str
    code: str
    message: str


class ExtensionFailed(Event, frozen=True, tag="extension_failed"):
    """A hook or a command of an extension raised, or took too long.

    `extension`: its path; `moment`: the hook, or the command; `error`: what went wrong.
    """

    extension: str
    moment: str
    error: str


class ExtensionEvent(Event, frozen=True, tag="extension_event"):
    """An event of an extension's own, for hosts that know it.

    `extension`: the name of the extension; `kind`: the type of the event; `payload`: the content.
    """

    extension: str
    kind: str
    payload: Any = None


class ContextUsed(Event, frozen=True, tag="context_used"):
    """Of `size` tokens in the model's window, `used` are in use. A size of 0 is not known."""

    used: int
    size: int = 0


class CostChanged(Event, frozen=True, tag="cost_changed"):
    """The cost of the session so far is `total`; `rows` has one row for each model request."""

    total: Usage
    rows: tuple[dict[str, Any], ...] = ()


class BudgetExceeded(Event, frozen=True, tag="budget_exceeded"):
    """A limit was passed; the turn ends.

    Attributes:
        reason: Which limit: `cost`, `tokens` ...
        observed: What was used, as a text.
        limit: The limit, as a text.
    """

    reason: str
    observed: str
    limit: str


class PlanChanged(Event, frozen=True, tag="plan_changed"):
    """The plan of the agent has these `items`, in the place of those before."""

    items: tuple[PlanItem, ...]


class Alive(Event, frozen=True, tag="alive"):
    """Nothing new, but the turn still runs; if `call` is not empty, on that call of the tool `name`."""

    call: str = ""
    name: str = ""


class Notice(Event, frozen=True, tag="notice"):
    """`text` is a sentence of the engine for the person; `level` says how important it is."""

    text: str
    level: Literal["info", "warning"] = "info"


class Failed(Event, frozen=True, tag="failed"):
    """Something went wrong, as `failure` says, and nothing ended by it."""

    failure: Failure


class Extra(Event, frozen=True, tag="extra"):
    """An event of a `kind` that only one family of engines has, with its `data`: plugins, browsers, rate limits ..."""

    kind: str
    data: dict[str, Any] = {}


class UnknownEvent(Event, frozen=True, tag="unknown"):
    """A well-formed frame (`raw`) of a `kind` that this side does not know. It can be passed on or dropped."""

    kind: str
    raw: bytes = b""


class MalformedEvent(Event, frozen=True, tag="malformed"):
    """`line`, or its beginning, is no frame; `why` says what is wrong with it."""

    line: bytes
    why: str
