"""The answers: the types of `Reply.data`, for every query and for the commands that return something.

The engine answers each query once, in these types; every dialect translates them to its own form.

Query("state") State            Query("models") tuple[ModelCard]        Query("commands") tuple[CommandCard]
Query("stats") Stats            Query("messages") tuple[Item]           Query("sessions") tuple[SessionCard]
Query("queue") Queue            Query("last_text") str | None           Query("fork_points") tuple[ForkPoint]
Query("cost") Ledger            Query("export", path=) Exported         Query("thinking_levels") tuple[str]
Query("context") ContextReport  Query("servers") tuple[ServerCard]      Query("agents") tuple[AgentCard]
Query("agent_messages", agent=) tuple[Item], of a sub-agent that runs
Query("tools") tuple[str]       Query("rules") tuple[Rule]              Query("version") str
Query("skills") tuple[CommandCard]                                      Query("personas") tuple[CommandCard]
Query("transcript") str         Query("file", path=, most=) FileContent Query("agent_output", task=) TaskOutput

OpenSession SessionOpened       RunShell ShellResult, once it has ended
Cancel("steers") Queue, of what was dropped           ChangeSteer bool: whether there was such a message
Rewind Rewound                  Configure({"cycle": "model" | "thinking"}) Cycled | None if there is only one
"""

from typing import Any, Literal

from msgspec import Struct

from polylect.vocab.content import Message, PlanItem, Usage

QueueMode = Literal["all", "one-at-a-time"]
"""How many messages that wait are taken at a time."""
InterruptMode = Literal["immediate", "wait"]
"""Whether a message for the running turn stops the calls that have not finished, or waits for all of them."""
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
"""How hard a model may think, in words."""
THINKING_TOKENS = {
    "off": 0,
    "minimal": 1024,
    "low": 4096,
    "medium": 10_000,
    "high": 20_000,
    "xhigh": 32_000,
    "max": 32_000,
}
"""The same where it is counted in tokens."""


class ModelCard(Struct, frozen=True, omit_defaults=True):
    """A model that can be used now.

    Attributes:
        provider: The name of the provider that serves it.
        name: The name of the model, as `Configure` takes it.
        api: The wire of the vendor: `anthropic`, `openai` ...
        base_url: The address of the service, if it is not the vendor's own.
        window: Tokens that fit into a request and its reply; 0 if not known.
        max_output: Tokens that a reply may have; 0 if not known.
        thinking: Whether it can think.
        effort_levels: The words for how hard it may think.
        images: Whether it sees images; None if not known.
        prices: Dollars for a million tokens: input, output, cache read, cache write; None for one that is not known.
    """

    provider: str
    name: str
    api: str = ""
    base_url: str = ""
    window: int = 0
    max_output: int = 0
    thinking: bool = False
    effort_levels: tuple[str, ...] = ()
    images: bool | None = None
    prices: tuple[float | None, ...] = ()


class State(Struct, frozen=True, omit_defaults=True):
    """The answer to the query `state`.

    Attributes:
        session: The id of the session.
        model: The model in use.
        mode: The approval mode.
        thinking: How hard the model thinks, one of `LEVELS`.
        busy: Whether a turn runs.
        compacting: Whether the conversation is being compacted.
        queued: How many prompts and messages wait.
        messages: How many messages the conversation has.
        name: The name that the user gave the session.
        provider: The provider in use.
        card: What is known of the model in use.
        file: The path of the session's log; empty if it is not stored.
        steering_mode: How many messages for the running turn are delivered at a time.
        follow_up_mode: How many messages for the end of a turn are delivered at a time.
        interrupt_mode: What a message for the running turn does to calls under way.
        auto_compaction: Whether a full window is compacted by itself.
        auto_retry: Whether failed requests are repeated.
        settings: Other settings, by name.
        settled: Whether nothing runs and no prompt waits, as `Settled` reports it.
        background: Whether sub-agents work in the background.
        context: Tokens in the model's window; None if not known.
        plan: The model's list of steps.
    """

    session: str = ""
    model: str = ""
    mode: str = ""
    thinking: str = ""
    busy: bool = False
    compacting: bool = False
    queued: int = 0
    messages: int = 0
    name: str = ""
    provider: str = ""
    card: ModelCard | None = None
    file: str = ""
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    interrupt_mode: InterruptMode = "immediate"
    auto_compaction: bool = True
    auto_retry: bool = True
    settings: dict[str, Any] = {}
    settled: bool = False
    background: bool = False
    context: int | None = None
    plan: tuple[PlanItem, ...] = ()


class Stats(Struct, frozen=True, omit_defaults=True):
    """The answer to the query `stats`: counts over the whole session.

    Attributes:
        session: The id of the session.
        users: Messages of the user.
        assistants: Messages of the model.
        calls: Calls that the model made.
        results: Results of calls.
        usage: Tokens and cost of everything.
        file: The path of the session's log; empty if it is not stored.
    """

    session: str = ""
    users: int = 0
    assistants: int = 0
    calls: int = 0
    results: int = 0
    usage: Usage = Usage()
    file: str = ""


class Ledger(Struct, frozen=True, omit_defaults=True):
    """The answer to the query `cost`.

    Attributes:
        total: Tokens and cost of the session.
        rows: One row for each model request, with turn, model, provider, cost_usd and usage.
    """

    total: Usage = Usage()
    rows: tuple[dict[str, Any], ...] = ()


class Queue(Struct, frozen=True, omit_defaults=True):
    """The answer to the query `queue`: what waits.

    Attributes:
        prompts: The turns of the prompts that wait.
        soon: The texts that join the running turn after the calls under way.
        last: The texts that join it before it would end.
    """

    prompts: tuple[str, ...] = ()
    soon: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


class ShellResult(Struct, frozen=True, omit_defaults=True):
    """The result of a shell command that the user ran.

    Attributes:
        command: The command line.
        output: The end of what it printed.
        code: The exit code; None if it did not exit.
        cancelled: Whether it was cancelled.
        truncated: Whether `output` is only a part.
        path: A file with all of the output, if that is more.
        lines: How many lines it printed.
        size: How many bytes it printed.
    """

    command: str
    output: str = ""
    code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    path: str = ""
    lines: int = 0
    size: int = 0


class Item(Struct, frozen=True, omit_defaults=True):
    """A message with its place in the log.

    Attributes:
        id: The id of its entry.
        at: When it was added, in milliseconds since 1970.
        message: The message.
        kind: `message`, `shell` for a command of the user's, or `summary` for what replaces all messages before it.
        shell: The result, for a command of the user's.
        request: The id of the model request that the message came from.
        before: For a summary, how many tokens there were before it.
        turn: For a prompt, the id of its turn.
    """

    id: str
    at: int
    message: Message
    kind: Literal["message", "shell", "summary"] = "message"
    shell: ShellResult | None = None
    request: str = ""
    before: int = 0
    turn: str = ""


class ForkPoint(Struct, frozen=True):
    """A message of the user's before which the session can be forked.

    Attributes:
        entry: The id of its entry, for `OpenSession.at`.
        text: The message.
    """

    entry: str
    text: str


class SessionOpened(Struct, frozen=True, omit_defaults=True):
    """The answer to `OpenSession`.

    Attributes:
        session: The id of the session that is open now.
        file: The path of its log; empty if it is not stored.
        text: The message that a fork left out, for the user to change.
        cancelled: Whether the session was not changed, because a hook or the host did not want it.
        resumed: With `OpenSession.within`, whether there was one in that folder.
    """

    session: str
    file: str = ""
    text: str = ""
    cancelled: bool = False
    resumed: bool = False


class SessionCard(Struct, frozen=True, omit_defaults=True):
    """A stored session.

    Attributes:
        id: The id, for `resume`.
        cwd: The folder that the session is about.
        name: The name that the user gave it.
        at: When something was last added, in milliseconds since 1970.
        messages: How many messages it has.
        first: The beginning of the first prompt.
        archived: Whether a client has put it aside; clients of ACP list such sessions only if they ask for them.
    """

    id: str
    cwd: str = ""
    name: str = ""
    at: int = 0
    messages: int = 0
    first: str = ""
    archived: bool = False


class Cycled(Struct, frozen=True, omit_defaults=True):
    """The answer to `Configure({"cycle": ...})`: the value after the change.

    Attributes:
        model: The model, if that was changed.
        thinking: How hard it thinks.
    """

    model: ModelCard | None = None
    thinking: str = ""


class CommandCard(Struct, frozen=True, omit_defaults=True):
    """A slash command.

    Attributes:
        name: Its name, without the slash.
        description: What it does.
        hint: What arguments it takes.
        builtin: Whether the engine itself has it, and no file or extension.
    """

    name: str
    description: str = ""
    hint: str = ""
    builtin: bool = False


class AgentCard(Struct, frozen=True, omit_defaults=True):
    """A sub-agent that runs.

    Attributes:
        id: Its id, as in events.
        name: Its kind.
        task: What it was asked to do.
        background: Whether its parent does not wait for it.
    """

    id: str
    name: str = ""
    task: str = ""
    background: bool = False


class ServerCard(Struct, frozen=True, omit_defaults=True):
    """An MCP server and its state.

    Attributes:
        name: Its name.
        status: Its state.
        tools: The tools that it has.
        error: Why it failed.
        transport: How it is reached: `stdio`, `http`, `sse` or `host`.
        version: What it calls itself, and its version.
    """

    name: str
    status: Literal["connected", "failed", "pending", "disabled"] = "pending"
    tools: tuple[str, ...] = ()
    error: str = ""
    transport: str = ""
    version: str = ""


class ContextPart(Struct, frozen=True):
    """One part of what fills the model's window.

    Attributes:
        name: What it is: system prompt, tools, messages ...
        tokens: An estimate of its size.
    """

    name: str
    tokens: int


class ContextReport(Struct, frozen=True, omit_defaults=True):
    """The answer to the query `context`: what fills the model's window.

    Attributes:
        used: Tokens in use: what the service last reported, plus an estimate for what came since.
        size: The size of the window; 0 if not known.
        parts: The parts, as estimates.
    """

    used: int
    size: int = 0
    parts: tuple[ContextPart, ...] = ()


class FileContent(Struct, frozen=True):
    """The answer to the query `file`: the content of a file that the model may read without a question.

    Attributes:
        path: The absolute path, with links resolved.
        data: The first bytes of it.
        truncated: Whether the file has more.
    """

    path: str
    data: bytes
    truncated: bool = False


class TaskOutput(Struct, frozen=True):
    """The answer to the query `agent_output`: what a command in the background has printed.

    Attributes:
        output: The end of it.
        size: How many bytes it has printed.
        truncated: Whether `output` is only a part.
    """

    output: str
    size: int
    truncated: bool


class Exported(Struct, frozen=True):
    """The answer to the query `export`.

    Attributes:
        path: The file that was written.
    """

    path: str


class Rewound(Struct, frozen=True, omit_defaults=True):
    """The answer to `Rewind`: what was restored, or would be.

    Attributes:
        files: The paths of the files.
        insertions: Lines that are added.
        deletions: Lines that are removed.
        prompt: For a conversation, the message that was taken out, for the user to change.
    """

    files: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0
    prompt: str = ""
