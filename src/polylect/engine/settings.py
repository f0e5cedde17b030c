"""All settings of an engine with their defaults.

`app/startup` fills them from files, the environment and the command line; `commands/configure.py` checks the changes
that a host makes while the engine runs. The value is frozen: a change makes a new one.
"""

from typing import Any, Literal

from msgspec import Struct

from polylect.engine.context.output_cleanup import Level
from polylect.engine.turn.budget import Budget
from polylect.vocab.answers import InterruptMode, QueueMode
from polylect.vocab.content import Mode

MOST_REMINDERS = 3
"""How often in a turn the user's own code can send the model back: by rules, and when it would stop."""


class Settings(Struct, frozen=True):
    """The settings of one engine. Zero means no limit. Times are in seconds."""

    workspace: str
    model: str = ""
    mode: Mode = "default"
    keep_mode: bool = False
    """Whether a session that is gone on with has the mode that it had, but for `force`; clients of ACP expect that."""
    show_replaced: bool = False
    """Whether the host is told what is in a file that Write is about to replace, as clients of ACP show it."""
    thinking: int = 0
    effort: str = ""
    image_input: Literal["supported", "unsupported", "unknown"] = "unknown"
    """Whether the model can see pictures, if the host says it; where it cannot, it is sent none."""
    system_prompt: str = ""
    max_tokens: int = 0
    json_schema: dict[str, Any] = {}
    """What the answer of every turn has to fit, if anything; see structured.py."""
    max_turns: int = 300
    """Model requests in one turn: a model that goes round in circles ends somewhere."""
    budget: Budget = Budget()
    """For the whole session."""
    budget_anew: bool = False
    """Whether caps are kept as claude keeps them: a resumed session's count from its resumption on, and a turn whose
    last request passes one ends with the reason `limit`."""
    turn_budget: Budget = Budget()
    """For each turn of it."""
    cost_updates: Literal["turn", "step"] = "turn"
    """When the host is told what the session has cost: after each turn, or also after each model request."""
    folders: tuple[str, ...] = ()
    """Folders beside the workspace that tools may touch without asking."""
    allow_list: tuple[str, ...] = (
        *("Read", "Glob", "Grep"),
        *("BashOutput", "KillBash", "TodoWrite", "Skill", "ToolSearch"),
        "Script",
    )
    """Tools that never ask. Of a script, every step is judged."""
    allow: tuple[str, ...] = ()
    """Rules as `Bash(git log:*)`; see rules.py."""
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    one_agent: bool = False
    """Whether agents are asked for one at a time, as some hosts know it; see one_agent.py."""
    script_tool: bool = False
    """Whether the model may write scripts of calls; see script.py."""
    todo_reminder: bool = False
    """Whether a model that ends its turn before its own list is reminded of it."""
    structured_traces: bool = False
    """Whether the host is told of every model call what it took; see traces.py."""
    compact_at: float = 0.85
    """How full the model's window may get before the conversation's beginning becomes a summary."""
    output_cleanup: Level = "off"
    """How much is removed from what commands print before the model gets it; see context/output_cleanup.py."""
    auto_compaction: bool = True
    """Whether that is done without being asked for."""
    auto_retry: bool = True
    """Whether a request that failed is made again where that can help."""
    steering_mode: QueueMode = "one-at-a-time"
    """How many messages that wait to join a turn soon are delivered at a time."""
    follow_up_mode: QueueMode = "one-at-a-time"
    """The same for those that wait for its end."""
    interrupt_mode: InterruptMode = "immediate"
    """Whether a message that waits stops the calls of a step that have not finished when one of them has."""
    checkpoints: bool = False
    """Whether files are kept as they were before calls change them; see checkpoints.py."""
    client_files: Literal["auto", "off"] = "auto"
    """Whether file tools use the text files of a host that offers them; see client_files.py."""
    client_terminal: Literal["off", "auto"] = "off"
    """Whether commands run in terminals of a host that offers them, outside of our sandbox; see client_terminals.py."""
    client_timeout: float = 10.0
    """How long the host may take to answer about a file or a terminal."""
    queue: int = 64
    """How many prompts may wait."""
    approval_timeout: float = 0.0
    mcp_wait: float = 30.0
    """How long a prompt waits for MCP servers that are still starting; zero: it does not wait."""
    mcp_search_above_tokens: int | None = None
    """Tokens of servers' tools that the model is told of from the start; None: see `mcp.values.search_budget`."""
    mcp_token_store: Literal["file", "keyring"] = "file"
    """Where logins at MCP servers are stored."""
    mcp_share_servers: bool = True
    """Whether sessions of one program share MCP servers, where it can have several; see `mcp/shared_servers.py`."""
    mcp_sampling: Literal["off", "ask", "allow"] = "off"
    """Whether MCP servers may ask the model: never, if the person agrees, or always; see `mcp/sampling.py`."""
    mcp_sampling_max_tokens: int = 100_000
    """Tokens, in and out, that one MCP server may use for that."""
    mcp_call_timeout: float = 120.0
    """How long a tool of an MCP server may take."""
    stream_timeout: float = 300.0
    heartbeat: float = 9.0
    """The longest silence while a turn runs."""
    cancel_timeout: float = 3.0
    """How long a call may take to stop before it is left behind."""
    trust_workspace: bool = False
    """Whether the project's own files may also widen rights: choose models, replace the user's commands and agents."""
