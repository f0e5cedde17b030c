"""Tool calls in the words of this wire: kind, title, locations, diffs, and how each ends.

    ToolCalled     -> tool_call, pending         Edit has its diff, Bash a terminal where the client draws one
    ToolStarted    -> tool_call_update, in_progress
    ToolOutput     -> tool_call_update with the end of the output so far, a few times in a second
    ToolFinished   -> tool_call_update, completed or failed

Clients decide by the kind what they approve without a question, so nothing that changes something is a `read` or a
`search`. `encode.SessionWriter` is the caller; a call is forgotten when it has ended.
"""

import posixpath
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from polylect.dialects.acp.frames.content import (
    AnyContent,
    BlockContent,
    CallUpdate,
    DiffContent,
    ImageBlock,
    Location,
    TerminalContent,
    TextBlock,
)
from polylect.dialects.acp.frames.own_meta import own_meta
from polylect.dialects.acp.frames.updates import ToolCallChanged, ToolCalled
from polylect.vocab import events as e
from polylect.vocab.content import Category, Image
from polylect.vocab.tool_names import own_name

_KINDS = {
    "Read": "read",
    "BashOutput": "read",
    "Glob": "search",
    "Grep": "search",
    "ToolSearch": "search",
    "Write": "edit",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Bash": "execute",
    "KillBash": "execute",
    "Script": "execute",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "TodoWrite": "think",
    "Agent": "think",
    "Spawn": "think",
    "ExitPlanMode": "switch_mode",
}
"""The kinds of the built-in tools. Only the engine itself can have tools of these names."""
_CATEGORIES: dict[Category, str] = {"edit": "edit", "exec": "execute"}
_PATHS = ("file_path", "notebook_path", "path")
_TAIL = 16 * 1024
"""Characters of the output of a running call that are shown."""
PAUSE_MS = 250
"""Milliseconds between two updates with the output of one call: each repeats what is shown, so they are rationed."""


class OpenCall:
    """A call that has not ended.

    Attributes:
        id: Its id.
        terminal: Whether its output is shown as a terminal that we feed.
        fed: Whether that terminal has got output.
        in_client: Whether it runs in a terminal of the client, which shows the output itself.
    """

    def __init__(self, id: str, *, terminal: bool = False, content: Sequence[AnyContent] = ()) -> None:
        self.id = id
        self.terminal = terminal
        self.fed = False
        self.in_client = False
        self._content = content
        self._output = ""
        self._sent_at: int | None = None

    def output(self, text: str, now: int, *, replace: bool) -> bool:
        """Add output of the call. Returns whether an update with it is due at once."""
        self._output = ("" if replace else self._output) + text
        self._output = self._output[-_TAIL:]
        return self._sent_at is None or now - self._sent_at >= PAUSE_MS

    def due_in(self, now: int) -> int:
        return max(0, (self._sent_at or 0) + PAUSE_MS - now)

    def progress(self, now: int) -> ToolCallChanged:
        """The update with the end of the output so far."""
        self._sent_at = now
        return ToolCallChanged(tool_call_id=self.id, content=[_text(self._output)])

    def finished(self, event: e.ToolFinished) -> ToolCallChanged:
        """The last update. A diff or a terminal that is shown stays, unless the call has failed."""
        ok, metadata = event.outcome == "ok", event.metadata or {}
        keeps = self.terminal or self.in_client or (self._content and ok)
        raw: Any = {"output": event.output, **metadata} if keeps else metadata or UNSET
        words = "" if event.outcome in ("ok", "error") else event.outcome
        form = "" if event.form == "text" else event.form
        meta = own_meta(outcome=words, reason=event.reason, form=form, metadata=event.metadata) or {}
        return ToolCallChanged(
            tool_call_id=self.id,
            status="completed" if ok else "failed",
            content=UNSET if keeps else shown(event.output, event.images),
            raw_output=raw,
            meta=(meta | _terminal_exit(event) if self.terminal else meta) or None,
        )

    def replacing(self, before: str | None) -> list[AnyContent] | UnsetType:
        """What the call shows, with the text that it replaces; unset if that is not known, so that nothing changes."""
        return UNSET if before is None or not self._content else replacing(self._content, before)

    def abandoned(self) -> ToolCallChanged:
        """The last update of a call whose turn has ended without it."""
        stays = self.terminal or self.in_client
        content: list[AnyContent] | UnsetType = UNSET if stays else [_text("The call was cancelled.")]
        meta = own_meta(outcome="cancelled")
        return ToolCallChanged(tool_call_id=self.id, status="failed", content=content, meta=meta)


class DelayedOutput:
    """Calls of all sessions with output that was not sent yet, and the functions that send it."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._calls: dict[OpenCall, Callable[[], None]] = {}

    def add(self, call: OpenCall, send: Callable[[], None]) -> None:
        self._calls[call] = send

    def drop(self, call: OpenCall) -> None:
        self._calls.pop(call, None)

    def send(self) -> None:
        """Send what is due."""
        if not self._calls:
            return
        now = self._now()
        for call in [call for call in self._calls if not call.due_in(now)]:
            self._calls.pop(call)()

    def due(self) -> int | None:
        """Milliseconds until something is due; None if nothing waits."""
        if not self._calls:
            return None
        now = self._now()
        return min(call.due_in(now) for call in self._calls)


def called(event: e.ToolCalled, cwd: str, agent: dict[str, Any] | None, *, terminal: bool) -> ToolCalled:
    """The first update of a call.

    Args:
        event: The call.
        cwd: The folder of the session, for relative paths.
        agent: What is said of the sub-agent whose call it is; None for the main agent.
        terminal: Whether the client shows its output as a terminal.
    """
    meta = own_meta(category=event.category, agent=agent) or {}
    content = tuple(diffs(event.name, event.args, cwd))
    if terminal:
        content = (TerminalContent(terminal_id=event.call),)
        meta["terminal_info"] = {"terminal_id": event.call, "cwd": cwd}
    return ToolCalled(
        tool_call_id=event.call,
        title=title(event.name, event.args, event.description),
        name=event.name,
        kind=kind(event.name, event.category),
        status="pending",
        content=content,
        locations=tuple(locations(event.args, cwd)),
        raw_input=event.args,
        meta=meta or None,
    )


def asked(ask: e.Ask, cwd: str) -> CallUpdate:
    """The call that permission is asked for, in full: clients draw the question from this alone."""
    return CallUpdate(
        tool_call_id=ask.call or ask.ask,
        title=title(ask.name, ask.args, ask.title),
        name=ask.name or UNSET,
        kind=kind(ask.name, ask.category),
        status="pending",
        content=replacing(diffs(ask.name, ask.args, cwd), ask.before) or UNSET,
        locations=locations(ask.args, cwd) or UNSET,
        raw_input=ask.args,
    )


def kind(name: str, category: Category) -> str:
    return _KINDS.get(own_name(name)) or _CATEGORIES.get(category, "other")


def title(name: str, args: dict[str, Any], description: str) -> str:
    """One line for people: the command as code, the description, or the name with the argument that tells most.

    Clients write the kind before it, so that `Execute: Execute: ls` would be shown.
    """
    command = args.get("command")
    if own_name(name) == "Bash" and isinstance(command, str) and (line := command.strip().partition("\n")[0]):
        return f"`{line[:200]}`"
    if description:
        return description
    known = (args.get(key) for key in (*_PATHS, "command", "pattern", "url", "query", "description"))
    first = next((value for value in known if isinstance(value, str) and value), "")
    return f"{name} {first}".strip()[:200] or "Tool call"


def locations(args: dict[str, Any], cwd: str) -> list[Location]:
    path, line = _path(args, cwd), args.get("offset")
    whole = line if isinstance(line, int) and not isinstance(line, bool) and line > 0 else None
    return [Location(path=path, line=whole)] if path else []


def diffs(name: str, args: dict[str, Any], cwd: str) -> list[AnyContent]:
    """The changes that a call makes to a file, as far as its arguments tell them: the texts that are replaced."""
    path = _path(args, cwd)
    match own_name(name), args:
        case _ if not path:
            return []
        case "Write", {"content": str(new)}:
            return [DiffContent(path=path, new_text=new)]
        case "Edit", {"old_string": str(old), "new_string": str(new)}:
            return [DiffContent(path=path, old_text=old or None, new_text=new)]
        case "MultiEdit", {"edits": list(edits)}:
            pairs = [(edit.get("old_string"), edit.get("new_string")) for edit in edits if isinstance(edit, dict)]
            return [
                DiffContent(path=path, old_text=old or None, new_text=new)
                for old, new in pairs
                if isinstance(old, str) and isinstance(new, str)
            ]
    return []


def replacing(content: Sequence[AnyContent], before: str | None) -> list[AnyContent]:
    """The changes of a call that replaces a whole file, with what was in it."""
    if before is None:
        return list(content)
    return [replace(item, old_text=before) if isinstance(item, DiffContent) else item for item in content]


def shown(output: str, images: tuple[Image, ...] = ()) -> list[AnyContent]:
    """The output of a call as content."""
    texts: list[AnyContent] = [_text(output)] if output else []
    pictures = [ImageBlock(data=image.data, mime_type=image.media_type) for image in images if image.data]
    return [*texts, *(BlockContent(content=picture) for picture in pictures)]


def _text(text: str) -> BlockContent:
    return BlockContent(content=TextBlock(text=text))


def _path(args: dict[str, Any], cwd: str) -> str:
    """The absolute path of the file that a call is about; empty for none."""
    path = next((value for key in _PATHS if isinstance(value := args.get(key), str)), "")
    joined = posixpath.join(cwd, path)
    return posixpath.normpath(joined) if path and joined.startswith("/") else ""


def _terminal_exit(event: e.ToolFinished) -> dict[str, Any]:
    """How the terminal of a call ends. The output of Bash begins with the exit code."""
    name, _, number = event.output.partition("\n")[0].partition(": ")
    code = int(number) if name == "Exit code" and number.isdecimal() and len(number) < 10 else None
    return {"terminal_exit": {"terminal_id": event.call, "exit_code": code, "signal": None}}
