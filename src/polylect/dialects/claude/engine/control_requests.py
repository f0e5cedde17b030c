"""Requests of the host: a `control_request` becomes commands, their replies become one `control_response`.

    {"subtype": "set_model", "model": "m"}  ->  Configure({"model": "m"}, ref="r1")
    Reply("r1")                             ->  {"subtype": "success", "response": {"model": "m"}}

`_COMMANDS` has what each subtype leads to, `_PAYLOADS` what its answer holds. A request is answered exactly once, when
all of its commands have their reply. What cannot be understood is answered with an error (L2). The codec calls
`handle` and `reply`.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from polylect.dialects.claude.engine import replies as payloads
from polylect.dialects.claude.engine.asks import PendingAsks
from polylect.dialects.claude.engine.encode import EventWriter
from polylect.dialects.claude.engine.flag_settings import commands_of
from polylect.dialects.claude.engine.initialize import ignored_in, offers_of, settings_of
from polylect.dialects.claude.engine.line_writer import PIECE
from polylect.dialects.claude.engine.prompts import Prompts
from polylect.dialects.claude.frames import control, notices
from polylect.dialects.claude.versions import OUR_MODES
from polylect.dialects.schema import by_name
from polylect.vocab import commands as c
from polylect.vocab.content import Server
from polylect.vocab.events import Reply

_Transport = Literal["stdio", "sse", "http", "host"]
_TRANSPORTS: dict[str, _Transport] = {"stdio": "stdio", "sse": "sse", "http": "http", "sdk": "host"}
_SERVER_FIELDS = ("command", "args", "env", "url", "headers")


class Refused(Exception):
    """The request is answered with an error. `code` is its `error_code`."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class _OpenRequest(Struct):
    """A request, and the commands whose replies it waits for."""

    id: str
    request: control.Request
    commands: dict[str, c.Command]
    replies: dict[str, Reply] = {}


class ControlRequests:
    def __init__(self, writer: EventWriter, prompts: Prompts, asks: PendingAsks, *, pid: int) -> None:
        self._writer = writer
        self._out = writer.out
        self._prompts = prompts
        self._asks = asks
        self._pid = pid
        self._open: dict[str, _OpenRequest] = {}
        """By the ref of each of its commands."""
        self._servers: dict[str, Server] = {}
        """The servers that the last `mcp_set_servers` has set."""
        self._was_initialized = False
        self.open_initializes: set[str] = set()
        """Refs of `Hello` commands without a reply. Prompts wait for it: it may bring servers inside the host."""

    def handle(self, frame: dict[str, Any], raw: bytes) -> list[c.Command]:
        """The commands of a `control_request`. Raises ValueError if it has no `request_id`."""
        id, request_fields = frame.get("request_id"), frame.get("request")
        if not isinstance(id, str):
            raise ValueError("control_request: expected a request_id")
        kind = request_fields.get("subtype") if isinstance(request_fields, dict) else None
        if not isinstance(kind, str):
            why = "control_request: expected a request with a subtype"
            self._refuse(id, why, "invalid_request")
            return [c.MalformedCommand(raw, why)]
        if kind not in _SHAPES:
            instead = f". {_INSTEAD[kind]}" if kind in _INSTEAD else ""
            self._refuse(id, f"Unsupported control request subtype: {kind[:80]}{instead}", "unsupported_request")
            return [c.UnknownCommand(f"control_request/{kind}", raw)]
        try:
            request = msgspec.convert(request_fields, _SHAPES[kind])
            return self._submit(id, request, _COMMANDS[type(request)](self, request))
        except msgspec.ValidationError as error:
            self._refuse(id, f"Invalid {kind} request: {error}", "invalid_request")
            return [c.MalformedCommand(raw, str(error))]
        except Refused as refused:
            self._refuse(id, str(refused), refused.code)
            return [c.MalformedCommand(raw, str(refused))]

    def _submit(self, id: str, request: control.Request, commands: list[c.Command]) -> list[c.Command]:
        """Give each command a ref. A request without commands is answered at once."""
        if isinstance(request, control.EndSession):  # who ends may not get round to answering
            self._answer(_OpenRequest(id, request, {}))
            return commands
        commands = [msgspec.structs.replace(command, ref=self._out.new_id()) for command in commands]
        waiting = _OpenRequest(id, request, {command.ref: command for command in commands})
        self._open |= dict.fromkeys(waiting.commands, waiting)
        self.open_initializes |= {command.ref for command in commands if isinstance(command, c.Hello)}
        if not commands:
            self._answer(waiting)
        return commands

    def reply(self, event: Reply) -> bool:
        """Take the reply to a command. True if that command came from a request."""
        self.open_initializes.discard(event.ref)
        waiting = self._open.pop(event.ref, None)
        if waiting is None:
            return False
        waiting.replies[event.ref] = event
        if len(waiting.replies) == len(waiting.commands):
            self._answer(waiting)
        return True

    def _answer(self, waiting: _OpenRequest) -> None:
        request = waiting.request
        replies = [(command, waiting.replies.get(ref) or Reply(ref)) for ref, command in waiting.commands.items()]
        try:
            answer: _Answer = _PAYLOADS.get(type(request), _plain)
            payload = answer(self, request, replies)
        except Refused as refused:
            self._refuse(waiting.id, str(refused), refused.code)
        else:
            response = msgspec.UNSET if payload is None else payload
            success = control.Success(request_id=waiting.id, response=response)
            self._out.write(control.ControlResponse(response=success))
        if isinstance(request, control.SetPermissionMode) and self._writer.mode_waits:
            self._writer.write_mode()

    def _refuse(self, id: str, why: str, code: str = "") -> None:
        self._out.write(control.ControlResponse(response=control.Refusal(request_id=id, error=why, error_code=code)))

    # Commands of each request.

    def _initialize(self, request: control.Initialize) -> list[c.Command]:
        if request.forwardSubagentText is True:
            self._writer.tasks.forward = True
        context, offers = request.appendSystemPrompt, offers_of(request)
        again, self._was_initialized = self._was_initialized and not offers, True
        return [
            *([] if again else [c.Hello(offers=offers)]),  # a second `initialize` without offers takes none back
            *(c.Configure({name: value}) for name, value in settings_of(request).items()),
            *([c.AddContext(context)] if isinstance(context, str) and context else []),
            c.Query("personas"),
            c.Query("commands"),
            c.Query("models"),
        ]

    def _interrupt(self, request: control.Interrupt) -> list[c.Command]:
        self._asks.withdraw()
        self._writer.tasks.stop()
        return [c.Cancel(queued="drop" if request.cancel_queued else "keep")]

    def _stop_task(self, request: control.StopTask) -> list[c.Command]:
        self._writer.tasks.stop(request.task_id)
        return [c.Cancel("agent", request.task_id)]

    def _set_mode(self, request: control.SetPermissionMode) -> list[c.Command]:
        if request.mode not in OUR_MODES:
            raise Refused(f"there is no mode {request.mode[:80]!r}; modes are {', '.join(OUR_MODES)}", "invalid_mode")
        self._writer.mode_waits = True
        return [c.Configure({"mode": OUR_MODES[request.mode]})]

    def _set_model(self, request: control.SetModel) -> list[c.Command]:
        default = request.model in (None, "", "default")
        model = self._writer.info.first_model if default else request.model
        return [c.Configure({"model": model})] if model else []

    def _set_thinking(self, request: control.SetMaxThinkingTokens) -> list[c.Command]:
        return [c.Configure({"thinking": request.max_thinking_tokens or "disabled"})]

    def _mcp_toggle(self, request: control.McpToggle) -> list[c.Command]:
        return [c.ChangeServer(request.serverName, "enable" if request.enabled else "disable")]

    def _mcp_set_servers(self, request: control.McpSetServers) -> list[c.Command]:
        """Remove and add what differs from the servers that were set before."""
        try:
            servers = {name: _server_of(name, entry) for name, entry in request.servers.items()}
        except ValueError as error:
            raise Refused(str(error), "invalid_request") from None
        before, self._servers = self._servers, servers
        gone = [name for name, server in before.items() if servers.get(name) != server]
        new = [server for name, server in servers.items() if before.get(name) != server]
        return [*(c.ChangeServer(name, "remove") for name in gone), *map(c.AddServer, new)]

    def _apply_settings(self, request: control.ApplyFlagSettings | control.UpdateSettings) -> list[c.Command]:
        try:
            return commands_of(request.settings)
        except ValueError as error:
            raise Refused(str(error), "invalid_request") from None

    def _read_file(self, request: control.ReadFile) -> list[c.Command]:
        most = 3 * PIECE if request.encoding == "base64" else PIECE
        return [c.Query("file", {"path": request.path, "most": min(request.max_bytes or most, most)})]

    # Payloads of responses.

    def _initialized(self, request: control.Initialize, replies: "_Replies") -> dict[str, Any]:
        models: Any = ()
        for command, reply in replies:
            match command:
                case c.Hello() if reply.failure:
                    raise Refused(reply.failure.message, reply.failure.code)
                case c.Query("commands") if reply.data is not None:
                    self._writer.info.update("commands", reply.data)
                case c.Query("personas"):
                    self._writer.info.describe(reply.data)
                case c.Query("models"):
                    models = reply.data
                case c.Configure() | c.AddContext() if reply.failure:
                    self._out.inform(reply.failure.message, "warning")
        if ignored := ignored_in(request):
            self._out.inform(f"initialize: these have no effect here: {', '.join(ignored)}", "warning")
        busy = self._writer.turn is not None
        response = self._writer.info.initialize_response(self._out, models, pid=self._pid, busy=busy)
        if request.hooks:  # both SDKs end the session without it if a hook must not fail
            response["hooks_applied"] = True
        return response | ({"plugins_applied": False} if request.plugins else {})

    def _interrupted(self, request: control.Interrupt, replies: "_Replies") -> dict[str, Any] | None:
        """The receipt. The queue has not changed yet: the engine reports that after its reply."""
        _plain(self, request, replies)
        if request.cancel_queued:
            receipt = {"still_queued": [], "cancelled": self._prompts.withdraw()}
        else:
            receipt = {"still_queued": self._prompts.queue}
        return receipt if self._out.newer else None

    def _mode_set(self, request: Any, replies: "_Replies") -> dict[str, Any]:
        failure = replies[0][1].failure
        if failure:
            self._writer.mode_waits = False
            raise Refused(failure.message, "invalid_mode")
        return {"mode": request.mode}

    def _model_set(self, request: Any, replies: "_Replies") -> dict[str, Any]:
        _plain(self, request, replies)
        models = [command.settings["model"] for command, _ in replies if isinstance(command, c.Configure)]
        return {"model": models[0] if models else self._writer.info.model}

    def _stopped(self, request: Any, replies: "_Replies") -> dict[str, Any]:
        """Success also for a task that does not run any more."""
        return {}

    def _prompt_cancelled(self, request: control.CancelAsyncMessage, replies: "_Replies") -> dict[str, Any]:
        return {"cancelled": bool(self._prompts.withdraw(request.message_uuid))}

    def _servers_set(self, request: Any, replies: "_Replies") -> dict[str, Any]:
        outcome: dict[str, Any] = {"added": [], "removed": [], "errors": {}}
        for command, reply in replies:
            match command:
                case c.AddServer(server) | c.ChangeServer(server) if reply.failure:
                    name = server.name if isinstance(server, Server) else server
                    outcome["errors"][name] = reply.failure.message
                    self._servers.pop(name, None)
                case c.AddServer(server):
                    outcome["added"].append(server.name)
                case c.ChangeServer(name):
                    outcome["removed"].append(name)
        return outcome

    def _rewound(self, request: control.RewindFiles, replies: "_Replies") -> dict[str, Any]:
        reply = replies[0][1]
        if reply.failure and request.dry_run:
            return {"canRewind": False, "error": reply.failure.message}
        if reply.failure:
            raise Refused(reply.failure.message, reply.failure.code)
        return payloads.rewound(reply.data)

    def _conversation_rewound(self, request: control.RewindConversation, replies: "_Replies") -> dict[str, Any]:
        reply = replies[0][1]
        if failure := reply.failure:
            return payloads.not_rewound(failure.message, failure.code)
        self._prompts.forget(request.target_message_uuid)
        return payloads.conversation_rewound(reply.data, request.target_message_uuid)

    def _reloaded(self, request: Any, replies: "_Replies") -> dict[str, Any]:
        _plain(self, request, replies)
        commands, personas, servers = (reply.data for _, reply in replies)
        return payloads.reloaded(commands, personas, servers)

    def _renamed(self, request: control.RenameSession, replies: "_Replies") -> None:
        """As the vendor's program does it: first the frame, then the answer."""
        _plain(self, request, replies)
        if self._out.newer:
            self._out.write_new(notices.SessionTitleChanged, subtype="session_title_changed", title=request.title)

    def _context_used(self, request: Any, replies: "_Replies") -> dict[str, Any]:
        _plain(self, request, replies)
        return payloads.context_usage(replies[0][1].data, replies[1][1].data, self._writer.info.model)

    def _file_read(self, request: control.ReadFile, replies: "_Replies") -> dict[str, Any]:
        _plain(self, request, replies)
        return payloads.file_content(replies[0][1].data, request.encoding)

    def _queried(self, request: Any, replies: "_Replies") -> dict[str, Any] | None:
        _plain(self, request, replies)
        return payloads.QUERIES[type(request)](replies[0][1].data, self._writer)


_Replies = list[tuple[c.Command, Reply]]
_Answer = Callable[..., dict[str, Any] | None]
_UNSUPPORTED = ("unsupported", "unknown_command")


def _server_of(name: str, entry: dict[str, Any]) -> Server:
    """The server of an entry in `mcp_set_servers`. Raises ValueError, which names the server and what is wrong."""
    kind = entry.get("type") or ("http" if "url" in entry else "stdio")
    if kind not in _TRANSPORTS:
        raise ValueError(f"the MCP server {name!r} has the type {kind!r}; types are {', '.join(_TRANSPORTS)}")
    fields = {field: entry[field] for field in _SERVER_FIELDS if entry.get(field) is not None}
    extras = {key: value for key, value in entry.items() if key not in (*_SERVER_FIELDS, "type", "name")}
    try:
        return msgspec.convert({"name": name, "transport": _TRANSPORTS[kind], **fields, "extras": extras}, Server)
    except msgspec.ValidationError as error:
        raise ValueError(f"the MCP server {name!r}: {error}") from None


def _plain(requests: ControlRequests, request: Any, replies: _Replies) -> dict[str, Any] | None:
    """No payload. Raises Refused for the first reply that is a failure."""
    for _, reply in replies:
        if reply.failure:
            code = reply.failure.code
            raise Refused(reply.failure.message, "unsupported_request" if code in _UNSUPPORTED else code)
    return None


def _fixed(payload: dict[str, Any]) -> _Answer:
    return lambda requests, request, replies: payload


_COMMANDS: dict[type[control.Request], Callable[[ControlRequests, Any], list[c.Command]]] = {
    control.Initialize: ControlRequests._initialize,
    control.Interrupt: ControlRequests._interrupt,
    control.SetPermissionMode: ControlRequests._set_mode,
    control.SetModel: ControlRequests._set_model,
    control.SetMaxThinkingTokens: ControlRequests._set_thinking,
    control.McpStatus: lambda _, request: [c.Query("servers")],
    control.McpReconnect: lambda _, request: [c.ChangeServer(request.serverName, "reconnect")],
    control.McpToggle: ControlRequests._mcp_toggle,
    control.McpSetServers: ControlRequests._mcp_set_servers,
    control.McpMessage: lambda _, request: [c.HostSays("mcp_message", msgspec.structs.asdict(request))],
    control.RewindFiles: lambda _, request: [c.Rewind(request.user_message_id, request.dry_run)],
    control.RewindConversation: lambda _, request: [c.Rewind(request.target_message_uuid, what="conversation")],
    control.ReloadPlugins: lambda _, request: [c.Query("commands"), c.Query("personas"), c.Query("servers")],
    control.ReloadSkills: lambda _, request: [c.Query("skills")],
    control.GetStatus: lambda _, request: [c.Query("state")],
    control.GetContextUsage: lambda _, request: [c.Query("context"), c.Query("state")],
    control.GetSettings: lambda _, request: [c.Query("state")],
    control.ApplyFlagSettings: ControlRequests._apply_settings,
    control.UpdateSettings: ControlRequests._apply_settings,
    control.GetSessionCost: lambda _, request: [c.Query("cost")],
    control.GetUsage: lambda _, request: [c.Query("cost")],
    control.StopTask: ControlRequests._stop_task,
    control.GetTaskOutput: lambda _, request: [c.Query("agent_output", {"task": request.task_id})],
    control.CancelAsyncMessage: lambda _, request: [c.Cancel("prompt", request.message_uuid)],
    control.RenameSession: lambda _, request: [c.Configure({"name": request.title})],
    control.ListModels: lambda _, request: [c.Query("models")],
    control.ListPermissionRules: lambda _, request: [c.Query("rules")],
    control.GetBinaryVersion: lambda _, request: [c.Query("version")],
    control.ReadFile: ControlRequests._read_file,
    control.SeedReadState: lambda _, request: [c.Configure({"seen": {request.path: int(request.mtime)}})],
    control.GetPlan: lambda _, request: [c.Query("messages")],
    control.ExportConversation: lambda _, request: [c.Query("transcript")],
    control.ForkConversation: lambda _, request: [],
    control.MoveToBackground: lambda _, request: [],
    control.ReloadOutputStyles: lambda _, request: [],
    control.SetHasSubscribers: lambda _, request: [],
    control.EndSession: lambda _, request: [c.Quit(request.reason)],
}
_SHAPES = by_name(*_COMMANDS)
_NO_LOGIN = "Servers are not logged in to here: give the entry of the server an Authorization header."
_INSTEAD = {
    "mcp_call": "Let the model call the tool, or talk to the server in the host.",
    "mcp_read_resource": "Talk to the server in the host.",
    "mcp_authenticate": _NO_LOGIN,
    "mcp_oauth_callback_url": _NO_LOGIN,
    "mcp_clear_auth": _NO_LOGIN,
    "set_mcp_permission_mode_override": "Allow its tools by apply_flag_settings: permissions.allow mcp__SERVER.",
    "set_cwd": "Start an engine in that folder, or add the folder by permissions.additionalDirectories.",
    "register_repo_root": "Folders below the working folder can be used as they are.",
    "get_workspace_diff": "Run git diff in the folder.",
    "get_hooks_listing": "Hooks are those of the settings files and of initialize.",
    "generate_session_title": "Name the session by rename_session.",
    "side_question": "Send it as a prompt.",
    "file_suggestions": "List the files of the folder in the host.",
}
"""Requests of the vendor's program that are not served, and what to do instead."""
_PAYLOADS: dict[type[control.Request], _Answer] = {
    control.Initialize: ControlRequests._initialized,
    control.Interrupt: ControlRequests._interrupted,
    control.SetPermissionMode: ControlRequests._mode_set,
    control.SetModel: ControlRequests._model_set,
    control.McpSetServers: ControlRequests._servers_set,
    control.RewindFiles: ControlRequests._rewound,
    control.RenameSession: ControlRequests._renamed,
    control.RewindConversation: ControlRequests._conversation_rewound,
    control.ReloadPlugins: ControlRequests._reloaded,
    control.GetContextUsage: ControlRequests._context_used,
    control.ReadFile: ControlRequests._file_read,
    control.StopTask: ControlRequests._stopped,
    control.CancelAsyncMessage: ControlRequests._prompt_cancelled,
    **{shape: _fixed(payload) for shape, payload in payloads.FIXED.items()},
    **dict.fromkeys(payloads.QUERIES, ControlRequests._queried),
}
