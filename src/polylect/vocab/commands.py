"""The commands: what a host sends to an engine, as values.

Dialects translate frames to and from them; `engine/engine.py` handles them, and the host SDK sends them.

Every command may carry a `ref`. A command with one gets exactly one `Reply` of the same ref: it was accepted, or why
not. Accepted work reports through events.
"""

from typing import Any, Literal

from polylect.vocab.content import Attachment, Rule, Server
from polylect.vocab.item import Item


class Command(Item, frozen=True, kw_only=True):
    """Any command, and the fields that every command has beside those of `Item`.

    Attributes:
        ref: An id; a command that has one gets exactly one `Reply` with the same.
    """

    ref: str = ""

    @staticmethod
    def from_json(text: str | bytes) -> "Command":
        """Returns the command whose JSON is `text`; `UnknownCommand` if its type is not known. Raises ValueError."""
        from polylect.vocab.json_form import command_of_json  # it imports this module

        return command_of_json(text)


class Hello(Command, frozen=True, tag="hello"):
    """The host introduces itself and offers what it can do.

    An engine that gets it reports its `tools`, `agents`, `skills`, `commands` and `cwd` as settings.

    Attributes:
        host: The name of the host.
        version: The version of the host.
        offers: `hooks`: for each moment (PreToolUse ...) a list of `{"matcher": str | None, "ids": [str], "timeout":
            seconds}`; `servers`: names of MCP servers inside the host; `tools`: tools that the host runs, as `{"name",
            "description", "parameters"}`; `files`: `{"read": bool, "write": bool}`, whether the engine may ask for text
            files; `terminal`: whether it may run commands in terminals of the host (`HostCall` has the methods).
    """

    host: str = ""
    version: str = ""
    offers: dict[str, Any] = {}


class Authenticate(Command, frozen=True, tag="authenticate"):
    """Logs in, or out.

    Attributes:
        method: A method that the engine named; empty logs out.
    """

    method: str = ""


class OpenSession(Command, frozen=True, tag="open_session"):
    """Goes on in another session. The answer is a `SessionOpened`.

    Attributes:
        how: `new`; `resume` for a stored one; `load` for one whose messages are replayed as events; `fork` for a copy.
        target: The id of the session, or the path of its file.
        at: For a fork, the entry before which the copy ends; empty for a copy of everything.
        parent: For a new session, the session that it comes from.
        within: For `resume` without a target, a folder of sessions: its newest one is resumed, or a new one is begun
            in it. If the open session is there, nothing changes.
        cwd: The folder that the session is about.
        folders: Other folders that may be used.
        servers: MCP servers to start.
        system_prompt: What the model is told beside the engine's own instructions, for a session of its own.
    """

    how: Literal["new", "load", "resume", "fork"]
    target: str = ""
    at: str = ""
    parent: str = ""
    within: str = ""
    cwd: str = ""
    folders: tuple[str, ...] = ()
    servers: tuple[Server, ...] = ()
    system_prompt: str = ""


class CloseSession(Command, frozen=True, tag="close_session"):
    """Cancels what runs in a session and closes it.

    Attributes:
        target: The id of the session; empty for the open one.
        delete: Whether it is also deleted from disk.
    """

    target: str = ""
    delete: bool = False


class Prompt(Command, frozen=True, tag="prompt"):
    """Begins a turn, or queues one while another runs.

    Attributes:
        turn: The id of the turn, chosen by the host.
        text: The prompt.
        attachments: Files, images, documents and links that go with it.
        busy: What to do while another turn runs: `queue`, `refuse` or `interrupt`.
        query: False only adds the text to the conversation and asks no model.
        verbatim: Whether a slash at the beginning is text and no command.
        schema: The JSON Schema of an object that the answer has to fit; the turn then has a `StructuredAnswer`.
        max_cost: Dollars that the turn may cost; 0 for no cap of its own. It ends after the request that passes it.
        max_tokens: Tokens that the turn may take, in and out together; 0 for no cap of its own.
    """

    turn: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    busy: Literal["queue", "refuse", "interrupt"] = "queue"
    query: bool = True
    verbatim: bool = False
    schema: dict[str, Any] = {}
    max_cost: float = 0.0
    max_tokens: int = 0


class Steer(Command, frozen=True, tag="steer"):
    """Adds a message to the running turn.

    Attributes:
        text: The message.
        attachments: Files, images, documents and links that go with it.
        when: `soon` after the calls under way, `last` before the turn would end.
        idle: If no turn runs: `refuse` it, or `keep` it for the next one.
        to: The id of the sub-agent that is meant; empty for the main agent.
    """

    text: str
    attachments: tuple[Attachment, ...] = ()
    when: Literal["soon", "last"] = "soon"
    idle: Literal["refuse", "keep"] = "refuse"
    to: str = ""


class ChangeSteer(Command, frozen=True, tag="change_steer"):
    """Changes a message that waits for the running turn, or for the next. The answer says whether there was one.

    Attributes:
        text: Its text; of several with the same text the first is meant.
        when: The moment that it waits for.
        action: `remove` drops it; `promote` makes it the last of those that are delivered soon.
    """

    text: str
    when: Literal["soon", "last"] = "last"
    action: Literal["remove", "promote"] = "remove"


class Cancel(Command, frozen=True, tag="cancel"):
    """Stops something that runs. Does nothing if it does not run.

    Attributes:
        what: What to stop.
        target: The id of the turn, agent or prompt; empty for the running one, or for all agents.
        queued: Whether prompts that wait are kept or dropped.
    """

    what: Literal["turn", "retry", "shell", "compaction", "agent", "prompt", "steers"] = "turn"
    target: str = ""
    queued: Literal["keep", "drop"] = "drop"


class Answer(Command, frozen=True, tag="answer"):
    """Answers an ask. Everything but `allow` is a no.

    Attributes:
        ask: The id of the ask.
        verdict: The decision.
        value: The chosen option, the text, or the values of a form.
        reason: Why not, for the model.
        args: Arguments to run the call with, instead of those that the model gave.
        always: A rule that is added, so that this is not asked again.
        interrupt: Whether the turn ends too.
    """

    ask: str
    verdict: Literal["allow", "deny", "cancelled"]
    value: Any = None
    reason: str = ""
    args: dict[str, Any] | None = None
    always: Rule | None = None
    interrupt: bool = False


class HostReply(Command, frozen=True, tag="host_reply"):
    """The host's answer to a `HostCall`.

    Attributes:
        call: The id of that call.
        result: The result, in the form that the method has.
        error: Why there is none.
        partial: Whether more will come: `result` is all of the output so far.
        code: A word for the kind of error: `missing` for a file that is not there.

    Methods that are about files and terminals of the host, and their results:

    - `read_text_file`: `{"content": text}`, the file as the host's editor has it, saved or not. All of it, or `limit`
      lines from `line` (counted from 1) on.
    - `write_text_file`: nothing. Missing files and folders are made.
    - `create_terminal`: `{"terminal": id}`, at once. `env` is an object with variables to add; the last `limit` bytes
      of the output are kept. If a `HostCallEnded` comes before the answer, the host ends the command.
    - `terminal_output`: `{"output", "truncated", "exit_code", "signal", "running"}`. Both streams are one text. If it
      is truncated, its beginning is missing.
    - `wait_for_terminal_exit`: `{"exit_code", "signal"}` once the command has ended; either may be null.
    - `kill_terminal`: nothing. The command is ended; its output can still be asked for.
    - `release_terminal`: nothing. The command is ended if it still runs, and the id is no longer valid.
    """

    call: str
    result: Any = None
    error: str = ""
    partial: bool = False
    code: str = ""


class HostSays(Command, frozen=True, tag="host_says"):
    """A message of the host that the engine did not ask for, such as a server inside the host whose tools have changed.

    Attributes:
        method: What it is about: `mcp_message` ...
        params: The content.
    """

    method: str
    params: Any = None


class Configure(Command, frozen=True, tag="configure"):
    """Changes settings for what follows. Others stay as they are.

    Attributes:
        settings: Values by name: model, mode, thinking, effort, name, steering_mode, auto_retry ...
    """

    settings: dict[str, Any]


class AddContext(Command, frozen=True, tag="add_context"):
    """Adds text to the conversation without a turn: rules, a persona, a summary of what came before.

    Attributes:
        text: The text.
    """

    text: str


class AddServer(Command, frozen=True, tag="add_server"):
    """Starts an MCP server. A `ServerChanged` says when it is up, or why not.

    Attributes:
        server: The server and how it is reached.
    """

    server: Server


class ChangeServer(Command, frozen=True, tag="change_server"):
    """Changes the state of an MCP server.

    Attributes:
        name: Its name.
        action: What to do with it.
    """

    name: str
    action: Literal["remove", "reconnect", "enable", "disable"]


class Grant(Command, frozen=True, tag="grant"):
    """Gives a standing permission or a larger budget, or takes a permission back.

    Attributes:
        rule: The permission.
        tokens: Tokens to add to the budget.
        cost: Dollars to add to the budget.
        revoke: Whether the rule is removed instead.
        id: An id of the grant, for the host.
        until_ms: When it ends, in milliseconds since 1970; 0 for never.
    """

    rule: Rule | None = None
    tokens: int = 0
    cost: float = 0.0
    revoke: bool = False
    id: str = ""
    until_ms: int = 0


class Compact(Command, frozen=True, tag="compact"):
    """Replaces the beginning of the conversation by a summary.

    Attributes:
        instructions: What the summary should keep.
        busy: What to do while a turn runs: `refuse`, or `interrupt` the turn.
    """

    instructions: str = ""
    busy: Literal["refuse", "interrupt"] = "refuse"


class RunShell(Command, frozen=True, tag="run_shell"):
    """Runs a shell command of the user's, outside any turn. The model sees its output with the next prompt.

    Attributes:
        command: The command line.
        private: Whether its output stays out of the conversation, so that the model never sees it.
    """

    command: str
    private: bool = False


class Rewind(Command, frozen=True, tag="rewind"):
    """Restores files to their content before a message, or takes that message and all after it out of the conversation.

    Attributes:
        to: The id of a turn, or of an entry; for a conversation, of a turn.
        dry_run: Whether nothing is changed, and only the answer says what would be. For files only.
        what: What is restored.
    """

    to: str
    dry_run: bool = False
    what: Literal["files", "conversation"] = "files"


class Query(Command, frozen=True, tag="query"):
    """Asks for something and changes nothing. `vocab/answers.py` lists the answers.

    Attributes:
        what: The question: state, messages, stats, models, context, servers, sessions, export ...
        args: Arguments of the question, such as `path` for export.
    """

    what: str
    args: dict[str, Any] = {}


class Quit(Command, frozen=True, tag="quit"):
    """Ends the engine.

    Attributes:
        reason: Why, for the log.
    """

    reason: str = ""


class UnknownCommand(Command, frozen=True, tag="unknown"):
    """A well-formed frame that is no command of this dialect. Whoever handles commands answers it.

    Attributes:
        kind: The type of the frame.
        raw: The frame.
    """

    kind: str
    raw: bytes = b""


class MalformedCommand(Command, frozen=True, tag="malformed"):
    """A line that is no frame. The codec has answered it already; this is for the log.

    Attributes:
        line: The line, or its beginning.
        why: What is wrong with it.
    """

    line: bytes
    why: str
