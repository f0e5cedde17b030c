"""What a host can ask of an engine.

Every command may carry a `ref`. A command with one gets exactly one `Reply` of the same ref: it was accepted, or why
not. Accepted work reports through events.
"""

from typing import Any, Literal

from msgspec import Struct

from polylect.vocab.content import Attachment, Rule, Server


class _Command(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="do"):
    ref: str = ""
    session: str = ""


class Hello(_Command, frozen=True, tag="hello"):
    """The host introduces itself. `offers` is what it can do for the engine:

    `hooks`: for each moment (PreToolUse ...) a list of `{"matcher": str | None, "ids": [str], "timeout": seconds}`;
    `servers`: names of MCP servers inside the host; `tools`: tools that the host runs, as `{"name", "description",
    "parameters"}`. An engine that hears it tells its `tools`, `agents`, `skills`, `commands` and `cwd` as settings.
    """

    host: str = ""
    version: str = ""
    offers: dict[str, Any] = {}


class Authenticate(_Command, frozen=True, tag="authenticate"):
    """Log in by a method the engine named; with no method, log out."""

    method: str = ""


class OpenSession(_Command, frozen=True, tag="open_session"):
    """Go on in another session: a new one, a known one with replay (`load`) or without, or a fork at an entry."""

    how: Literal["new", "load", "resume", "fork"]
    target: str = ""
    at: str = ""
    parent: str = ""
    cwd: str = ""
    folders: tuple[str, ...] = ()
    servers: tuple[Server, ...] = ()


class CloseSession(_Command, frozen=True, tag="close_session"):
    """Cancel what runs there and let it go; with `delete`, also remove it from disk."""

    target: str = ""
    delete: bool = False


class Prompt(_Command, frozen=True, tag="prompt"):
    """Begin a turn, or queue one while another runs. `query=False` only adds to the context."""

    turn: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    busy: Literal["queue", "refuse", "interrupt"] = "queue"
    query: bool = True
    verbatim: bool = False


class Steer(_Command, frozen=True, tag="steer"):
    """Join the running turn: `soon` after the calls under way, `last` before it would end.

    With `idle` `keep` it waits for the next turn if none runs; else it is refused then.
    """

    text: str
    attachments: tuple[Attachment, ...] = ()
    when: Literal["soon", "last"] = "soon"
    idle: Literal["refuse", "keep"] = "refuse"


class Cancel(_Command, frozen=True, tag="cancel"):
    """Stop something that runs. Idle is a no-op. `queued` says what becomes of prompts that wait."""

    what: Literal["turn", "retry", "shell", "compaction", "agent", "prompt", "steers"] = "turn"
    target: str = ""
    queued: Literal["keep", "drop"] = "drop"


class Answer(_Command, frozen=True, tag="answer"):
    """Answer an ask. Anything but `allow` is a no. `args` replaces what the model wanted; `always` is remembered."""

    ask: str
    verdict: Literal["allow", "deny", "cancelled"]
    value: Any = None
    reason: str = ""
    args: dict[str, Any] | None = None
    always: Rule | None = None
    interrupt: bool = False


class HostReply(_Command, frozen=True, tag="host_reply"):
    """The host's answer to a `HostCall`; with `partial`, only how far it has come."""

    call: str
    result: Any = None
    error: str = ""
    partial: bool = False


class HostSays(_Command, frozen=True, tag="host_says"):
    """Something of the host's own that nobody called for: a server inside it has other tools now."""

    method: str
    params: Any = None


class Configure(_Command, frozen=True, tag="configure"):
    """Change settings: model, mode, thinking, effort, name, queue modes, switches ... Unnamed ones stay."""

    settings: dict[str, Any]


class AddContext(_Command, frozen=True, tag="add_context"):
    """Text from before this conversation: rules, a persona, a summary."""

    text: str


class AddServer(_Command, frozen=True, tag="add_server"):
    server: Server


class ChangeServer(_Command, frozen=True, tag="change_server"):
    name: str
    action: Literal["remove", "reconnect", "enable", "disable"]


class Grant(_Command, frozen=True, tag="grant"):
    """Give a standing permission, a larger budget or, with `revoke`, take a permission back."""

    rule: Rule | None = None
    tokens: int = 0
    cost: float = 0.0
    revoke: bool = False
    id: str = ""
    until_ms: int = 0


class Compact(_Command, frozen=True, tag="compact"):
    """Replace the conversation's beginning by a summary. `busy` says what becomes of a turn that runs."""

    instructions: str = ""
    busy: Literal["refuse", "interrupt"] = "refuse"


class RunShell(_Command, frozen=True, tag="run_shell"):
    """A command of the user's own, outside any turn; its output becomes context."""

    command: str


class Rewind(_Command, frozen=True, tag="rewind"):
    """Put files back to what they were before a message."""

    to: str
    dry_run: bool = False


class Query(_Command, frozen=True, tag="query"):
    """Ask for something that changes nothing: state, messages, stats, models, context, servers, sessions, export ..."""

    what: str
    args: dict[str, Any] = {}


class Quit(_Command, frozen=True, tag="quit"):
    reason: str = ""


class UnknownCommand(_Command, frozen=True, tag="unknown"):
    """Well-formed, but not a word of this dialect. Answered by whoever consumes it."""

    kind: str
    raw: bytes = b""


class MalformedCommand(_Command, frozen=True, tag="malformed"):
    """Not a command at all. The codec has already answered it in its own form; this is for the log."""

    line: bytes
    why: str


Command = (
    Hello
    | Authenticate
    | OpenSession
    | CloseSession
    | Prompt
    | Steer
    | Cancel
    | Answer
    | HostReply
    | HostSays
    | Configure
    | AddContext
    | AddServer
    | ChangeServer
    | Grant
    | Compact
    | RunShell
    | Rewind
    | Query
    | Quit
    | UnknownCommand
    | MalformedCommand
)
