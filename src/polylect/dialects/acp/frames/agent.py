"""What an agent asks of its client: permission, answers, files, terminals and MCP servers inside of it."""

from typing import Annotated, Any

from msgspec import UNSET, UnsetType

from polylect.dialects.acp.frames.client import CancelRequest, Empty, NameValue
from polylect.dialects.acp.frames.content import CallUpdate, Shape
from polylect.dialects.acp.frames.updates import SessionUpdate
from polylect.dialects.schema import one_of


class PermissionOption(Shape, frozen=True, kw_only=True):
    option_id: str
    name: str
    kind: Annotated[str, one_of("allow_once", "allow_always", "reject_once", "reject_always")]


class RequestPermission(Shape, frozen=True, kw_only=True):
    session_id: str
    tool_call: CallUpdate
    options: list[PermissionOption]


class Outcome(Shape, frozen=True, kw_only=True):
    """`selected` with an `option_id`, or `cancelled`."""

    outcome: Annotated[str, one_of("selected", "cancelled")]
    option_id: str | UnsetType = UNSET


class PermissionAnswer(Shape, frozen=True, kw_only=True):
    outcome: Outcome


class CreateElicitation(Shape, frozen=True, kw_only=True):
    """A question: a `form` with a flat schema, or a `url` to open."""

    message: str
    mode: Annotated[str, one_of("form", "url")]
    session_id: str
    tool_call_id: str | None = None
    requested_schema: dict[str, Any] | UnsetType = UNSET
    elicitation_id: str | UnsetType = UNSET
    url: str | UnsetType = UNSET


class ElicitationAnswer(Shape, frozen=True, kw_only=True):
    action: Annotated[str, one_of("accept", "decline", "cancel")]
    content: dict[str, Any] | None = None


class ElicitationComplete(Shape, frozen=True, kw_only=True):
    elicitation_id: str


class ReadTextFile(Shape, frozen=True, kw_only=True):
    """`line` counts from 1; `limit` is a number of lines."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class FileText(Shape, frozen=True, kw_only=True):
    content: str


class WriteTextFile(Shape, frozen=True, kw_only=True):
    session_id: str
    path: str
    content: str


class CreateTerminal(Shape, frozen=True, kw_only=True):
    """Starts a program. A `command` without `args` may be a whole shell line: agents send both."""

    session_id: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[NameValue, ...] = ()
    cwd: str | None = None
    output_byte_limit: int | None = None


class TerminalCreated(Shape, frozen=True, kw_only=True):
    terminal_id: str


class OneTerminal(Shape, frozen=True, kw_only=True):
    session_id: str
    terminal_id: str


class ExitStatus(Shape, frozen=True, kw_only=True):
    exit_code: int | None = None
    signal: str | None = None


class TerminalOutput(Shape, frozen=True, kw_only=True):
    """All output that is kept; `truncated` if its beginning was dropped. With `exit_status` the program has ended."""

    output: str
    truncated: bool
    exit_status: ExitStatus | None = None


class McpMessage(Shape, frozen=True, kw_only=True):
    """A request for an MCP server inside of the client. Not in the stable version."""

    server_id: str
    request_id: str
    method: str
    params: dict[str, Any] | None = None


class McpAnswer(Shape, frozen=True, kw_only=True):
    """What the server answers: a `result`, or an `error`."""

    result: Any = UNSET
    error: dict[str, Any] | UnsetType = UNSET


REQUESTS: dict[str, tuple[type[Shape], type[Shape]]] = {
    "session/request_permission": (RequestPermission, PermissionAnswer),
    "elicitation/create": (CreateElicitation, ElicitationAnswer),
    "fs/read_text_file": (ReadTextFile, FileText),
    "fs/write_text_file": (WriteTextFile, Empty),
    "terminal/create": (CreateTerminal, TerminalCreated),
    "terminal/output": (OneTerminal, TerminalOutput),
    "terminal/wait_for_exit": (OneTerminal, ExitStatus),
    "terminal/kill": (OneTerminal, Empty),
    "terminal/release": (OneTerminal, Empty),
    "mcp/message": (McpMessage, McpAnswer),
}
"""The requests of an agent: their params and their results."""

NOTIFICATIONS: dict[str, type[Shape]] = {
    "session/update": SessionUpdate,
    "elicitation/complete": ElicitationComplete,
    "$/cancel_request": CancelRequest,
}
"""The notifications of an agent."""
