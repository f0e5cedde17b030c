"""Frames and control requests for commands: pure functions without state, one for each kind of command.

Each raises `Refusal` where the wire cannot express the command. `commands` is the caller.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from polylect.dialects.claude.frames import control
from polylect.dialects.claude.frames import turn as shapes
from polylect.dialects.claude.versions import WIRE_MODES
from polylect.dialects.host_base import Refusal
from polylect.dialects.lenient import Object
from polylect.vocab.answers import THINKING_TOKENS
from polylect.vocab.commands import ChangeServer, Configure, HostSays, Prompt, Query, Quit, Rewind
from polylect.vocab.content import Attachment, Document, File, Image, Link, Server

Request = control.Request
_HELD_BY_FLAGS = ("steering_mode", "follow_up_mode", "interrupt_mode", "compaction", "max_tokens", "max_turns", "cycle")
"""Settings of other wires, which are refused. A name that is not listed is sent on: the engine may know it."""


# What a host offers, and settings that can only be named at the start.


def initialize(offers: Object, fields: Object) -> Object:
    """The `initialize` request. `fields` are added to it as they are: agents, systemPrompt, jsonSchema and others."""
    unsaid = [key for key in offers if key not in ("hooks", "servers") and not (key == "tools" and "servers" in offers)]
    if unsaid:
        raise Refusal(f"stream-json has no word for offering {unsaid[0]}: tools belong into an MCP server of the host")
    hooks = {moment: [_matcher(row) for row in rows] for moment, rows in offers.get("hooks", {}).items()}
    optional = {"hooks": hooks, "sdkMcpServers": list(offers.get("servers", ()))}
    return {"subtype": "initialize", **{key: value for key, value in optional.items() if value}, **fields}


def _matcher(row: Object) -> Object:
    matcher = {"matcher": row.get("matcher"), "hookCallbackIds": list(row.get("ids", ()))}
    optional = {"timeout": row.get("timeout"), "onFailure": "block" if row.get("on_failure") == "block" else None}
    return matcher | {key: value for key, value in optional.items() if value is not None}


# Prompts.


def prompt(command: Prompt, *, ours: bool) -> Object:
    """The `user` frame of a prompt.

    `ours`: the engine is polylect and reads `file_attachments`. The vendor's program finds `@path` in the text.
    """
    files = [path for path in map(_path, command.attachments) if path]
    text = command.text if ours else "\n".join((command.text, *(f"@{path}" for path in files)))
    blocks = [block for one in command.attachments if (block := _block(one))]
    content: Any = [shapes.TextBlock(text), *blocks] if blocks else text
    frame = shapes.Prompt(
        message=shapes.Words(content),
        uuid=command.turn,
        priority="now" if command.busy == "interrupt" else "",
        shouldQuery=command.query,
        client_composed=command.verbatim,
    )
    fields: Object = {"session_id": "", "parent_tool_use_id": None, **msgspec.to_builtins(frame)}
    return fields | ({"file_attachments": [{"path": path} for path in files]} if ours and files else {})


def context(command: Prompt) -> Object:
    """A `user` frame that is read with the next prompt. The engine runs it as a turn that ends at once."""
    return {**prompt(command, ours=False), "isSynthetic": True}


def _path(attachment: Attachment) -> str:
    match attachment:
        case File(path):
            return path
        case Link(uri) if uri.startswith("file://"):
            return uri.removeprefix("file://")
        case Link(uri, media_type=kind) if not kind.startswith("image"):
            raise Refusal(f"stream-json cannot attach {uri}: only files and pictures may be linked to")
    return ""


def _block(attachment: Attachment) -> shapes.ImageBlock | shapes.DocumentBlock | None:
    match attachment:
        case Image(kind, data) if data:
            return shapes.ImageBlock(shapes.Source("base64", kind, data))
        case Image():
            raise Refusal("stream-json needs a picture's data")
        case Link(uri, media_type=kind) if kind.startswith("image"):
            return shapes.ImageBlock(shapes.Source("url", url=uri))
        case Document(name, kind, text, data) if data:
            return shapes.DocumentBlock(shapes.Source("base64", kind, data), name)
        case Document(name, _, text):
            return shapes.DocumentBlock(shapes.Source("text", "text/plain", text), name)
    return None


# Settings.


def configure(command: Configure) -> list[Request]:
    settings = {key: value for key, value in command.settings.items() if value is not None}
    requests = [say(settings.pop(key)) for key, say in _SETTINGS.items() if key in settings]
    requests += [control.SeedReadState(path=path, mtime=at) for path, at in settings.pop("seen", {}).items()]
    if thinking := {key: settings.pop(key) for key in _THINKING if key in settings}:
        requests.append(_thinking(thinking))
    if other := [key for key in settings if key in _HELD_BY_FLAGS]:
        raise Refusal(f"stream-json has no word for the setting {other[0]!r}")
    if (source := settings.pop("source", None)) is not None:
        return [*requests, control.UpdateSettings(source=str(source), settings=settings)]
    if "effort" in settings:
        settings["effortLevel"] = settings.pop("effort")
    return [*requests, control.ApplyFlagSettings(settings=settings)] if settings else requests


def _mode(value: Any) -> Request:
    if value not in WIRE_MODES:
        raise Refusal(f"stream-json has no word for the mode {value!r}")
    return control.SetPermissionMode(mode=WIRE_MODES[value])


_SETTINGS: dict[str, Callable[[Any], Request]] = {
    "mode": _mode,
    "model": lambda value: control.SetModel(model=str(value)),
    "name": lambda value: control.RenameSession(title=str(value)),
    "color": lambda value: control.SetColor(color=str(value)),
}
_THINKING = ("thinking", "thinking_budget", "thinking_display")


def _thinking(settings: Object) -> Request:
    """The token budget for thinking. None leaves it to the engine, 0 turns thinking off."""
    display = settings.get("thinking_display", msgspec.UNSET)
    budget = settings.get("thinking_budget")
    match settings.get("thinking"):
        case "disabled" | False | 0 | "off":
            budget = 0
        case bool() | None | "enabled":
            pass
        case int(tokens):
            budget = tokens
        case level if level in THINKING_TOKENS:
            budget = THINKING_TOKENS[level]
        case level:
            raise Refusal(f"thinking {level!r}: give one of {', '.join(THINKING_TOKENS)}, or a number of tokens")
    if budget is not None and not isinstance(budget, int):
        raise Refusal(f"stream-json counts thinking in tokens, so there is no word for {budget!r}")
    return control.SetMaxThinkingTokens(max_thinking_tokens=budget, thinking_display=display)


# Servers.


def server_config(server: Server) -> Object:
    match server.transport:
        case "stdio":
            folder = {"cwd": server.extras["cwd"]} if "cwd" in server.extras else {}
            return {"type": "stdio", "command": server.command, "args": list(server.args), "env": server.env, **folder}
        case "host":
            return {"type": "sdk", "name": server.name}
        case kind:
            return {"type": kind, "url": server.url, "headers": server.headers}


def change_server(command: ChangeServer) -> Request:
    if command.action == "reconnect":
        return control.McpReconnect(serverName=command.name)
    return control.McpToggle(serverName=command.name, enabled=command.action == "enable")


def host_says(command: HostSays) -> Request:
    match command.params:
        case {"server_name": str(name), "message": dict(message)} if command.method == "mcp_message":
            return control.McpMessage(server_name=name, message=message)
    raise Refusal(f"stream-json has no word for {command.method!r} of the host")


# Questions.


def query(command: Query) -> Request:
    make = _QUERIES.get(command.what)
    if make is None:
        raise Refusal(f"stream-json has no word for the question {command.what!r}")
    try:
        return make(command.args)
    except KeyError as missing:
        raise Refusal(f"the question {command.what!r} needs {missing}", "bad_args") from None


_QUERIES: dict[str, Callable[[Object], Request]] = {
    "servers": lambda args: control.McpStatus(),
    "context": lambda args: control.GetContextUsage(detail=args.get("detail", msgspec.UNSET)),
    "settings": lambda args: control.GetSettings(),
    "usage": lambda args: control.GetUsage(),
    "models": lambda args: control.ListModels(),
    "rules": lambda args: control.ListPermissionRules(),
    "hooks": lambda args: control.GetHooksListing(),
    "version": lambda args: control.GetBinaryVersion(),
    "resource": lambda args: control.McpReadResource(serverName=args["server"], uri=args["uri"]),
    "agent_output": lambda args: control.GetTaskOutput(task_id=args["task"]),
    "title": lambda args: control.GenerateSessionTitle(
        description=args.get("description", ""), persist=args.get("persist") is True
    ),
    "side_question": lambda args: control.SideQuestion(question=args["question"]),
    "file_suggestions": lambda args: control.FileSuggestions(query=args.get("query", "")),
    "file": lambda args: control.ReadFile(
        path=args["path"], max_bytes=args.get("most") or msgspec.UNSET, encoding="base64"
    ),
    "transcript": lambda args: control.ExportConversation(),
}


def rewind(command: Rewind) -> Request:
    if command.what == "conversation":
        return control.RewindConversation(target_message_uuid=command.to)
    return control.RewindFiles(user_message_id=command.to, dry_run=command.dry_run)


def end_session(command: Quit) -> Request:
    return control.EndSession(reason=command.reason)
