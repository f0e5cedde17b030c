"""The beginning of a connection: what the client offers, what the agent has, and how a session is opened.

`AgentInfo` is read once, from the answer to `initialize`. Everything that is not always there is asked for here before
it is sent: an agent must never get a request that it did not advertise.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from polylect.dialects.acp.frames import client
from polylect.dialects.acp.frames.content import Shape
from polylect.dialects.host_base import Refusal
from polylect.dialects.lenient import Object, inner, objects, text, words
from polylect.vocab.content import Server

PROTOCOL = 1
How = Literal["new", "load", "resume", "fork"]


class CannotStart(Exception):
    """The connection cannot be used. The text says why, and what to do."""


class AgentInfo(Struct, frozen=True):
    """What an agent says of itself. `result` is its answer to `initialize`."""

    result: Object = {}

    @property
    def name(self) -> str:
        return text(inner(self.result, "agentInfo"), "name")

    @property
    def version(self) -> str:
        return text(inner(self.result, "agentInfo"), "version")

    @property
    def ours(self) -> bool:
        """Whether it is polylect, which reads and writes more than the protocol has, below `_meta.polylect`."""
        return self.name == "polylect"

    @property
    def steering(self) -> bool:
        return inner(inner(self.result, "_meta"), "steering").get("supported") is True

    @property
    def loads(self) -> bool:
        return inner(self.result, "agentCapabilities").get("loadSession") is True

    def takes(self, what: str) -> bool:
        """Whether a prompt may have this kind of content: `image`, `audio` or `embeddedContext`."""
        return self._capabilities("promptCapabilities").get(what) is True

    def reaches(self, transport: str) -> bool:
        """Whether it connects to MCP servers of this transport; `host` is inside of this program."""
        name = "acp" if transport == "host" else transport
        return self._capabilities("mcpCapabilities").get(name, name == "stdio") is True

    def has(self, what: str) -> bool:
        """Whether it has this capability of sessions: `list`, `resume`, `close`, `delete`, `fork`, `title` ..."""
        return isinstance(self._capabilities("sessionCapabilities").get(what), dict)

    def logs_out(self) -> bool:
        return isinstance(self._capabilities("auth").get("logout"), dict)

    def login_methods(self) -> list[Object]:
        return objects(self.result, "authMethods")

    def _capabilities(self, what: str) -> Object:
        return inner(inner(self.result, "agentCapabilities"), what)


def initialize(version: str, *, read: bool, write: bool, terminal: bool) -> client.Initialize:
    """The params of `initialize`: version 1, and what this end can be asked."""
    there = client.Empty()
    return client.Initialize(
        protocol_version=PROTOCOL,
        client_info=client.Implementation(name="polylect", version=version),
        client_capabilities=client.ClientCapabilities(
            fs=client.FileCapabilities(read_text_file=read, write_text_file=write),
            terminal=terminal,
            session=client.ClientSession(
                config_options=client.ConfigCapabilities(boolean=there), notices=there, compaction=there
            ),
            elicitation=client.Elicitation(form=there, url=there),
            subagents=there,
        ),
    )


def read_agent(result: Object) -> AgentInfo:
    """The agent that answered `initialize` so. Raises CannotStart for a version that is not spoken here.

    goose echoes any number and speaks version 1, so that the shape of the answer counts as well as the number.
    """
    number = result.get("protocolVersion")
    second_shape = "capabilities" in result and "agentCapabilities" not in result
    first_shape = "agentCapabilities" in result or "agentInfo" in result
    if second_shape or (number != PROTOCOL and not first_shape):
        raise CannotStart(
            f"the agent speaks version {number} of the protocol, and polylect speaks version {PROTOCOL}: "
            "set the agent to that version, or update polylect"
        )
    return AgentInfo(result)


def login_needed(agent: AgentInfo, message: str, data: object = None) -> str:
    """The sentence for somebody who has to log in first: what the agent says, and what can be run."""
    methods = agent.login_methods() or (objects(data, "authMethods") if isinstance(data, dict) else [])
    ways = [_way(method) for method in methods]
    hint = f": {'; or '.join(ways)}" if ways else ": log in with the agent's own program, then start again"
    return f"{message or 'Authentication required'}{hint}"


def _way(method: Object) -> str:
    older = inner(inner(method, "_meta"), "terminal-auth")
    args, command = words(method, "args") or words(older, "args"), text(older, "command")
    name = text(method, "name") or text(method, "id")
    if args or command:
        return f"{name} (run {' '.join((command or 'the same program', *args))} in a terminal)"
    return f"{name} (authenticate with {text(method, 'id')!r})"


def is_terminal_login(method: Object) -> bool:
    """Whether a method runs in a terminal; it must not be asked for over the wire."""
    return text(method, "type") == "terminal" or text(inner(method, "_meta"), "type") == "terminal"


# Sessions.


class Opening(Struct, frozen=True):
    """How a session is opened.

    Attributes:
        how: `resume` becomes a load whose replay is left out, if that is all that the agent has.
        target: The id of the session that is loaded, resumed or forked; `latest` for the newest one of `cwd`.
        name: What commands and events call it; empty for the main session.
        ref: Of the command that opens it; empty for the first session of a connection.
    """

    how: How = "new"
    target: str = ""
    cwd: str = "/"
    folders: tuple[str, ...] = ()
    servers: tuple[Server, ...] = ()
    name: str = ""
    ref: str = ""


def open_request(opening: Opening, agent: AgentInfo) -> tuple[str, Shape]:
    """The method and the params that open a session. Raises Refusal for what the agent does not offer."""
    servers = [server_entry(server) for server in opening.servers if agent.reaches(server.transport)]
    folders = list(opening.folders) or None
    if folders and not agent.has("additionalDirectories"):
        raise Refusal("this agent works in one folder only: leave the additional folders out")
    target, cwd = opening.target, opening.cwd
    match opening.how:
        case "new":
            return "session/new", client.NewSession(cwd=cwd, mcp_servers=servers, additional_directories=folders)
        case "fork" if agent.has("fork"):
            fork = client.ForkSession(session_id=target, cwd=cwd, mcp_servers=servers, additional_directories=folders)
            return "session/fork", fork
        case "resume" if agent.has("resume"):
            resume = client.ResumeSession(
                session_id=target, cwd=cwd, mcp_servers=servers, additional_directories=folders
            )
            return "session/resume", resume
        case "load" | "resume" if agent.loads:
            load = client.LoadSession(session_id=target, cwd=cwd, mcp_servers=servers, additional_directories=folders)
            return "session/load", load
    raise Refusal(f"this agent cannot {opening.how} sessions")


def unreachable(servers: Sequence[Server], agent: AgentInfo) -> list[Server]:
    """The MCP servers that the agent cannot be told of, because it did not advertise their transport."""
    return [server for server in servers if not agent.reaches(server.transport)]


def server_entry(server: Server) -> client.McpServer:
    """A server as the wire has it. `args`, `env` and `headers` are always there: agents refuse an entry without."""
    if server.transport == "stdio":
        env = [client.NameValue(name=name, value=value) for name, value in server.env.items()]
        return client.McpServer(name=server.name, command=server.command, args=list(server.args), env=env)
    if server.transport == "host":
        return client.McpServer(name=server.name, type="acp", server_id=server.name)
    headers = [client.NameValue(name=name, value=value) for name, value in server.headers.items()]
    return client.McpServer(name=server.name, type=server.transport, url=server.url, headers=headers)
