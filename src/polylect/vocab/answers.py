"""What the data of a `Reply` is, for every question and for the commands that have more to say than yes.

Query("state") State            Query("models") tuple[ModelCard]        Query("commands") tuple[CommandCard]
Query("stats") Stats            Query("messages") tuple[Item]           Query("sessions") tuple[SessionCard]
Query("queue") Queue            Query("last_text") str | None           Query("fork_points") tuple[ForkPoint]
Query("cost") Ledger            Query("export", path=) Exported         Query("thinking_levels") tuple[str]
Query("context") ContextReport  Query("servers") tuple[ServerCard]      Query("agents") tuple[AgentCard]
Query("tools") tuple[str]       Query("rules") tuple[Rule]              Query("version") str

OpenSession SessionOpened       RunShell ShellResult, once it has ended
Rewind Rewound                  Configure({"cycle": "model" | "thinking"}) Cycled | None if there is only one
"""

from typing import Any, Literal

from msgspec import Struct

from polylect.vocab.content import Message, Usage

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
    """A model that can be used now. Prices are dollars for a million tokens: input, output, cache read, cache write."""

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
    """The answer to a `state` query. `file` is the log of the session, if it is kept; `thinking` one of LEVELS."""

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
    """What is known of the model in use."""
    file: str = ""
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    interrupt_mode: InterruptMode = "immediate"
    auto_compaction: bool = True
    auto_retry: bool = True
    settings: dict[str, Any] = {}


class Stats(Struct, frozen=True, omit_defaults=True):
    """The answer to a `stats` query: counts over the whole session."""

    session: str = ""
    users: int = 0
    assistants: int = 0
    calls: int = 0
    results: int = 0
    usage: Usage = Usage()
    file: str = ""


class Ledger(Struct, frozen=True, omit_defaults=True):
    """One row a model call: turn, model, provider, cost_usd, usage."""

    total: Usage = Usage()
    rows: tuple[dict[str, Any], ...] = ()


class Queue(Struct, frozen=True, omit_defaults=True):
    """What waits: prompts by their turns, messages for the running turn by their words."""

    prompts: tuple[str, ...] = ()
    soon: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


class ShellResult(Struct, frozen=True, omit_defaults=True):
    """A command of the user's own. `output` is the end of what it printed; `path` holds all of it if that is more."""

    command: str
    output: str = ""
    code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    path: str = ""
    lines: int = 0
    size: int = 0


class Item(Struct, frozen=True, omit_defaults=True):
    """A message with its place in the log. A `summary` stands for all that came before it."""

    id: str
    at: int
    message: Message
    kind: Literal["message", "shell", "summary"] = "message"
    shell: ShellResult | None = None
    request: str = ""
    before: int = 0
    """Of a summary: how many tokens there were before it."""


class ForkPoint(Struct, frozen=True):
    """A message of the user's at which the conversation can go another way."""

    entry: str
    text: str


class SessionOpened(Struct, frozen=True, omit_defaults=True):
    """`text` is the message that a fork left out, to be put differently."""

    session: str
    file: str = ""
    text: str = ""
    cancelled: bool = False


class SessionCard(Struct, frozen=True, omit_defaults=True):
    id: str
    cwd: str = ""
    name: str = ""
    at: int = 0
    messages: int = 0
    first: str = ""
    """How the first prompt begins."""


class Cycled(Struct, frozen=True, omit_defaults=True):
    """What it is now."""

    model: ModelCard | None = None
    thinking: str = ""


class CommandCard(Struct, frozen=True, omit_defaults=True):
    """A slash command; its name is without the slash."""

    name: str
    description: str = ""
    hint: str = ""
    builtin: bool = False


class AgentCard(Struct, frozen=True, omit_defaults=True):
    """A sub-agent that is at work."""

    id: str
    name: str = ""
    task: str = ""
    background: bool = False


class ServerCard(Struct, frozen=True, omit_defaults=True):
    name: str
    status: Literal["connected", "failed", "pending", "disabled"] = "pending"
    tools: tuple[str, ...] = ()
    error: str = ""
    transport: str = ""


class ContextPart(Struct, frozen=True):
    name: str
    tokens: int


class ContextReport(Struct, frozen=True, omit_defaults=True):
    """What fills the model's window. Parts are estimates, `used` is what the service last told plus an estimate."""

    used: int
    size: int = 0
    parts: tuple[ContextPart, ...] = ()


class Exported(Struct, frozen=True):
    path: str


class Rewound(Struct, frozen=True, omit_defaults=True):
    """Which files were put back, or would be."""

    files: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0
