"""Translates commands between frames of the wire and the vocabulary, in both directions and without state.

The first half reads frames for the engine's end and raises ValueError with a text for people. The second half makes
frames for the host's end and raises `Refusal` for what the wire cannot carry.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from polylect.dialects.host_base import Refusal
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.versions import OUR_MODES
from polylect.vocab.answers import THINKING_TOKENS
from polylect.vocab.commands import AddContext, AddServer, Cancel, Command, Configure, Prompt
from polylect.vocab.content import Attachment, File, Link, Server

_TRANSPORTS: dict[str, Literal["stdio", "sse", "http"]] = {
    "stdio": "stdio",
    "sse": "sse",
    "streamable-http": "http",
    "streamable_http": "http",
}
_TRANSPORT_WORDS = {"stdio": "stdio", "sse": "sse", "http": "streamable-http"}


# As the engine reads them. Each raises ValueError with a reason for people.


def _message(frame: shapes.Message | shapes.OldMessage, ref: str) -> Command:
    text = frame.content if isinstance(frame, shapes.Message) else frame.input
    return Prompt(frame.msg_id, text, tuple(File(path) for path in frame.files), ref=ref)


def _set_mode(frame: shapes.SetMode, ref: str) -> Command:
    if frame.mode not in OUR_MODES:
        raise ValueError(f"unknown mode {frame.mode[:80]!r}; modes are default, auto_edit, force, plan, dont_ask")
    return Configure({"mode": OUR_MODES[frame.mode]}, ref=ref)


def _set_config(frame: shapes.SetConfig, ref: str) -> Command:
    named = {name: value for name in frame.__struct_fields__ if (value := getattr(frame, name)) is not None}
    if "compaction" in named:
        named["compaction"] = named["compaction"].lower()  # as wayland-core reads it
    return Configure(named, ref=ref)


def _add_mcp_server(frame: shapes.AddMcpServer, ref: str) -> Command:
    if frame.transport not in _TRANSPORTS:
        raise ValueError(f"unknown transport {frame.transport[:80]!r}; use {', '.join(_TRANSPORT_WORDS.values())}")
    server = Server(
        frame.name,
        _TRANSPORTS[frame.transport],
        frame.command or "",
        tuple(frame.args or ()),
        frame.env or {},
        frame.url or "",
        frame.headers or {},
        {"cwd": frame.cwd} if frame.cwd else {},
    )
    return AddServer(server, ref=ref)


COMMANDS: dict[type[shapes.Frame], Callable[[Any, str], Command]] = {
    shapes.Message: _message,
    shapes.OldMessage: _message,
    shapes.Stop: lambda frame, ref: Cancel("turn", queued="drop", ref=ref),
    shapes.InitHistory: lambda frame, ref: AddContext(frame.text, ref=ref),
    shapes.SetMode: _set_mode,
    shapes.SetConfig: _set_config,
    shapes.OldSetConfig: _set_config,
    shapes.AddMcpServer: _add_mcp_server,
}


# As the host writes them. Each raises Refusal.


def message_frame(prompt: Prompt, version: str, context: str = "") -> shapes.Frame:
    """The frame of a prompt. `context` is text for an engine that has no other place for it."""
    text = f"{context}\n\n{prompt.text}" if context else prompt.text
    files = [_path(attachment) for attachment in prompt.attachments]
    if not prompt.query:
        raise Refusal("json-stream has no word for a prompt that only adds to the context")
    if version == "0.1.0":
        return shapes.OldMessage(prompt.turn, text, text, files)
    return shapes.Message(prompt.turn, text, files)


def _path(attachment: Attachment) -> str:
    match attachment:
        case File(path):
            return path
        case Link(uri) if uri.startswith("file://"):
            return uri.removeprefix("file://")
        case _:
            raise Refusal("json-stream can attach only files that have a path")


def configure_frames(
    settings: dict[str, Any], modes: Mapping[str, str], shape: type[shapes.SetConfig] = shapes.SetConfig
) -> list[shapes.Frame]:
    """The frames that make these settings. `modes` are the words that the engine has for our modes."""
    frames: list[shapes.Frame] = []
    for key in settings:
        if key != "mode" and key not in shape.__struct_fields__:
            raise Refusal(f"json-stream has no word for the setting {key!r}")
    if (mode := settings.get("mode")) is not None:
        if mode not in modes:
            raise Refusal(f"this engine has no mode {mode!r}; its modes are {', '.join(modes)}")
        frames.append(shapes.SetMode(modes[mode]))
    if others := _thinking({key: value for key, value in settings.items() if key != "mode" and value is not None}):
        try:
            frames.append(msgspec.convert(others, shape))
        except msgspec.ValidationError as error:
            raise Refusal(f"json-stream cannot say this setting: {error}") from None
    return frames


def _thinking(settings: dict[str, Any]) -> dict[str, Any]:
    """Thinking is a switch and a budget here; elsewhere it may be one number."""
    match settings.get("thinking"):
        case None | "enabled" | "disabled":
            return settings
        case str(level) if level in THINKING_TOKENS:
            return _thinking({**settings, "thinking": THINKING_TOKENS[level]})
        case str(level):
            words = ", ".join(("enabled", "disabled", *THINKING_TOKENS))
            raise Refusal(f"thinking {level!r} is none of {words}", "bad_setting")
        case bool(on):
            return {**settings, "thinking": "enabled" if on else "disabled"}
        case int(tokens) if tokens > 0:
            return {**settings, "thinking": "enabled", "thinking_budget": tokens}
        case _:
            return {**settings, "thinking": "disabled"}


def server_frame(server: Server) -> shapes.AddMcpServer:
    if server.transport not in _TRANSPORT_WORDS:
        raise Refusal(f"json-stream has no word for the transport {server.transport!r}")
    return shapes.AddMcpServer(
        server.name,
        _TRANSPORT_WORDS[server.transport],
        server.command or None,
        list(server.args) or None,
        server.env or None,
        server.url or None,
        server.headers or None,
        server.extras.get("cwd"),
    )
