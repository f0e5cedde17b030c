"""Turns commands of the wire into commands of the vocabulary, where that needs no state.

`COMMANDS` has one function for each type of frame. Commands that depend on what runs are in `codec`. The last part
turns the results of work that the host was asked to do into `HostReply`.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import UnsetType

from polylect.dialects.omp.frames import commands as r
from polylect.dialects.omp.frames import messages as m
from polylect.vocab import commands as c
from polylect.vocab.content import Image

_WHEN: dict[str, Literal["soon", "last"]] = {"steering": "soon", "followUp": "last"}
LEVELS = ("off", "progress", "events")
"""How much a host hears of sub-agents."""


def images(frame: r.Prompt | r.Steer | r.FollowUp | r.AbortAndPrompt) -> tuple[Image, ...]:
    return tuple(Image(image.mime_type, image.data) for image in frame.images)


def steer(frame: r.Steer | r.Prompt, ref: str) -> c.Steer:
    return c.Steer(frame.message, images(frame), "soon", "keep", ref=ref)


def follow_up(frame: r.FollowUp | r.Prompt, ref: str) -> c.Steer:
    return c.Steer(frame.message, images(frame), "last", "keep", ref=ref)


def _or_empty(value: str | UnsetType) -> str:
    return value if isinstance(value, str) else ""


def _query(what: str) -> Callable[[Any, str], c.Command]:
    return lambda frame, ref: c.Query(what, ref=ref)


def _set(key: str, field: str) -> Callable[[Any, str], c.Command]:
    return lambda frame, ref: c.Configure({key: getattr(frame, field)}, ref=ref)


COMMANDS: dict[type[r.Request], Callable[[Any, str], c.Command]] = {
    r.Steer: steer,
    r.FollowUp: follow_up,
    r.Abort: lambda frame, ref: c.Cancel("turn", queued="keep", ref=ref),
    r.ClearQueue: lambda frame, ref: c.Cancel("steers", ref=ref),
    r.RemoveQueuedMessage: lambda frame, ref: c.ChangeSteer(frame.message, _WHEN.get(frame.queue, "last"), ref=ref),
    r.PromoteQueuedMessage: lambda frame, ref: c.ChangeSteer(frame.message, "last", "promote", ref=ref),
    r.AbortAndRestoreQueue: lambda frame, ref: c.Cancel("steers", ref=ref),
    r.GetQueue: _query("queue"),
    r.GetState: _query("state"),
    r.GetMessages: _query("messages"),
    r.GetMessagesPage: _query("messages"),
    r.GetEntries: _query("messages"),
    r.GetTree: _query("messages"),
    r.GetLastAssistantText: _query("last_text"),
    r.SetModel: lambda frame, ref: c.Configure({"model": frame.model_id, "provider": frame.provider}, ref=ref),
    r.CycleModel: lambda frame, ref: c.Configure({"cycle": "model"}, ref=ref),
    r.GetAvailableModels: _query("models"),
    r.SetThinkingLevel: _set("thinking", "level"),
    r.CycleThinkingLevel: lambda frame, ref: c.Configure({"cycle": "thinking"}, ref=ref),
    r.GetAvailableThinkingLevels: _query("thinking_levels"),
    r.SetSteeringMode: _set("steering_mode", "mode"),
    r.SetFollowUpMode: _set("follow_up_mode", "mode"),
    r.SetInterruptMode: _set("interrupt_mode", "mode"),
    r.SetAutoCompaction: _set("auto_compaction", "enabled"),
    r.SetAutoRetry: _set("auto_retry", "enabled"),
    r.AbortRetry: lambda frame, ref: c.Cancel("retry", ref=ref),
    r.Compact: lambda frame, ref: c.Compact(_or_empty(frame.custom_instructions), "interrupt", ref=ref),
    r.Bash: lambda frame, ref: c.RunShell(frame.command, frame.exclude_from_context is True, ref=ref),
    r.AbortBash: lambda frame, ref: c.Cancel("shell", ref=ref),
    r.NewSession: lambda frame, ref: c.OpenSession("new", parent=_or_empty(frame.parent_session), ref=ref),
    r.GetSessionStats: _query("stats"),
    r.ExportHtml: lambda frame, ref: c.Query("export", {"path": _or_empty(frame.output_path)}, ref=ref),
    r.SwitchSession: lambda frame, ref: c.OpenSession("resume", frame.session_path, ref=ref),
    r.OpenSession: lambda frame, ref: c.OpenSession("resume", within=frame.session_dir, ref=ref),
    r.Branch: lambda frame, ref: c.OpenSession("fork", at=frame.entry_id, ref=ref),
    r.Fork: lambda frame, ref: c.OpenSession("fork", at=frame.entry_id, ref=ref),
    r.Clone: lambda frame, ref: c.OpenSession("fork", ref=ref),
    r.GetBranchMessages: _query("fork_points"),
    r.GetForkMessages: _query("fork_points"),
    r.SetSessionName: _set("name", "name"),
    r.GetCommands: _query("commands"),
    r.GetAvailableCommands: _query("commands"),
    r.GetSubagents: _query("agents"),
    r.GetSubagentMessages: lambda frame, ref: c.Query(
        "agent_messages", {"agent": _or_empty(frame.subagent_id)}, ref=ref
    ),
    r.CancelSubagent: lambda frame, ref: c.Cancel("agent", frame.subagent_id, ref=ref),
    r.SteerSubagent: lambda frame, ref: c.Steer(frame.message, to=frame.subagent_id, ref=ref),
    r.Handoff: lambda frame, ref: c.Compact(_or_empty(frame.custom_instructions), ref=ref),
    r.SetTodos: _set("todos", "phases"),
    r.SetHostTools: lambda frame, ref: c.Hello(offers={"tools": frame.tools}, ref=ref),
    r.SetHostUriSchemes: lambda frame, ref: c.Hello(offers={"uri_schemes": frame.schemes}, ref=ref),
    r.GetLoginProviders: _query("login_methods"),
    r.Login: lambda frame, ref: c.Authenticate(frame.provider_id, ref=ref),
}
"""All but those that depend on what runs (`prompt`, `abort_and_prompt`) or concern this end alone."""


# What a host was asked to do.


def tool_reply(frame: r.HostToolResult) -> c.HostReply:
    """A tool that failed still has something to say to the model, so that is a result too."""
    failed = {"isError": True} if frame.is_error is True else {}
    return c.HostReply(frame.id, {**_outcome(frame.result), **failed})


def tool_update(frame: r.HostToolUpdate) -> c.HostReply:
    return c.HostReply(frame.id, _outcome(frame.partial_result), partial=True)


def uri_reply(frame: r.HostUriResult) -> c.HostReply:
    if frame.is_error is True or isinstance(frame.error, str):
        return c.HostReply(frame.id, error=_or_empty(frame.error) or "the host could not read it")
    return c.HostReply(frame.id, {"content": _or_empty(frame.content), "contentType": _or_empty(frame.content_type)})


def _outcome(outcome: m.ToolOutcome) -> dict[str, Any]:
    details = {} if isinstance(outcome.details, UnsetType) else {"details": outcome.details}
    return {"content": [_block(block) for block in outcome.content], **details}


def _block(block: m.ContentBlock) -> dict[str, Any]:
    if isinstance(block, m.Image):
        return {"type": "image", "data": block.data, "mimeType": block.mime_type}
    return {"type": "text", "text": block.text}
