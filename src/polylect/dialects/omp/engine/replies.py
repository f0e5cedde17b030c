"""Turns the engine's replies into the `data` of responses.

There is one small function for each command whose response has data; `DATA` lists them by the type of the command's
frame. Each takes the request and the reply's data and returns what is encoded. Called by `codec`.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from polylect.dialects.omp.engine.messages import MessageAuthor, conversation, item_messages, model
from polylect.dialects.omp.frames import commands as r
from polylect.dialects.omp.frames import messages as m
from polylect.vocab import answers
from polylect.wire import jsonl

_PAGE, _MOST, _LONGEST_PAGE = 100, 256, 768 * 1024
"""How many messages a page has unless told, and at most; and its bytes, unless a single message has more."""


class BadRequest(ValueError):
    """Raised when a request cannot be answered; `code` is the error code of the response."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class ReplyContext(Struct, frozen=True):
    """The request that is answered, the author of assistant messages, and whether the request began a turn."""

    frame: Any
    author: MessageAuthor
    begins: bool = False

    @property
    def version(self) -> str:
        return self.author.version


def disposition(context: ReplyContext, data: None) -> dict[str, str] | UnsetType:
    """Since 0.99 hosts of pi read from it what became of a text. omp has nothing like it."""
    if context.version != "pi":
        return UNSET
    return {"disposition": "started" if context.begins else "queued"}


def state(context: ReplyContext, data: answers.State) -> m.State:
    pi = context.version == "pi"
    card = data.card or (
        answers.ModelCard(data.provider or context.author.provider, data.model) if data.model else None
    )
    return m.State(
        model=model(card) if card else UNSET,
        thinking_level=data.thinking or UNSET,
        is_streaming=data.busy,
        is_compacting=data.compacting,
        steering_mode=data.steering_mode,
        follow_up_mode=data.follow_up_mode,
        interrupt_mode=UNSET if pi else data.interrupt_mode,
        session_file=data.file or UNSET,
        session_id=data.session,
        session_name=data.name or UNSET,
        auto_compaction_enabled=data.auto_compaction,
        message_count=data.messages,
        queued_message_count=UNSET if pi else data.queued,
        pending_message_count=data.queued if pi else UNSET,
        **(_newer_state(data, card) if context.version == "18" else {}),
    )


def _newer_state(data: answers.State, card: answers.ModelCard | None) -> dict[str, Any]:
    """What omp 18 adds. There is no fast mode here, and nobody measures the speed of a reply."""
    window = card.window if card else 0
    percent = 100 * data.context / window if window and data.context is not None else None
    tasks = [{"content": item.text, "status": item.status} for item in data.plan]
    return {
        "fast_mode_enabled": False,
        "fast_mode_active": False,
        "tokens_per_second": None,
        "has_pending_async_work": data.background,
        "is_settled": data.settled,
        "todo_phases": [{"name": "Plan", "tasks": tasks}] if tasks else [],
        "context_usage": {"tokens": data.context, "contextWindow": window, "percent": percent} if window else UNSET,
    }


def stats(context: ReplyContext, data: answers.Stats) -> m.Stats:
    usage = data.usage
    return m.Stats(
        session_file=data.file or UNSET,
        session_id=data.session,
        user_messages=data.users,
        assistant_messages=data.assistants,
        tool_calls=data.calls,
        tool_results=data.results,
        total_messages=data.users + data.assistants + data.results,
        tokens=m.Tokens(usage.input, usage.output, usage.cache_read, usage.cache_write, usage.tokens),
        cost=usage.cost or 0,
        premium_requests=UNSET if context.version == "pi" else 0,
    )


def bash(context: ReplyContext, data: answers.ShellResult) -> m.BashResult:
    return m.BashResult(
        output=data.output,
        cancelled=data.cancelled,
        truncated=data.truncated,
        exit_code=UNSET if data.code is None else data.code,
        full_output_path=data.path or UNSET,
        total_lines=data.lines,
        total_bytes=data.size,
        output_lines=data.output.count("\n") + 1 if data.output else 0,
        output_bytes=len(data.output.encode(errors="replace")),
    )


def chosen_model(context: ReplyContext, data: Sequence[answers.ModelCard]) -> m.Model:
    """`set_model` is answered with the model itself, which the list of models knows."""
    frame: r.SetModel = context.frame
    same = [card for card in data if (card.provider, card.name) == (frame.provider, frame.model_id)]
    return model(same[0] if same else answers.ModelCard(frame.provider, frame.model_id))


def cycled_model(context: ReplyContext, data: answers.Cycled | None) -> dict[str, Any] | None:
    if data is None or data.model is None:
        return None
    level = {"thinkingLevel": data.thinking} if data.thinking else {}
    return {"model": model(data.model), **level, "isScoped": False}


def cycled_level(context: ReplyContext, data: answers.Cycled | None) -> dict[str, Any] | None:
    return {"level": data.thinking} if data and data.thinking else None


def messages_page(context: ReplyContext, data: Sequence[answers.Item]) -> dict[str, Any]:
    """A cursor has the number of messages that came before, and what the conversation was then."""
    frame: r.GetMessagesPage = context.frame
    all_messages = conversation(data, context.author)
    now = f"{len(all_messages)}.{data[-1].id if data else ''}"
    first, _, then = (frame.cursor or f"0.{now}").partition(".")
    start, size = int(first) if first.isascii() and first.isdigit() else -1, min(frame.limit or _PAGE, _MOST)
    if not 0 <= start <= len(all_messages) or size < 1 or then != now:
        raise BadRequest("this cursor names no page of these messages", "stale_cursor")
    end, room = start, _LONGEST_PAGE
    for message in all_messages[start : start + size]:
        room -= len(jsonl.dump(message))
        if room < 0 and end > start:
            break
        end += 1
    more = {"nextCursor": f"{end}.{now}"} if end < len(all_messages) else {}
    return {"messages": all_messages[start:end], **more, "totalMessages": len(all_messages)}


def entries(context: ReplyContext, data: Sequence[answers.Item]) -> dict[str, Any]:
    """One entry a message, each the child of the one before. With `since`, only what came after that one."""
    frame: r.GetEntries = context.frame
    rows = _entries(context, data)
    leaf = {"leafId": rows[-1]["id"] if rows else None}
    if not isinstance(frame.since, UnsetType):
        ids = [entry["id"] for entry in rows]
        if frame.since not in ids:
            raise BadRequest(f"Entry not found: {frame.since}", "unknown_since")
        rows = rows[ids.index(frame.since) + 1 :]
    return {"entries": rows, **leaf}


def tree(context: ReplyContext, data: Sequence[answers.Item]) -> Raw:
    """A fork is a session of its own here, so the tree is one chain, nested as deep as the conversation is long. It is
    written as text, because encoders limit how deep they go."""
    rows = _entries(context, data)
    nested = b"".join(b'[{"entry":' + jsonl.dump(row)[:-1] + b',"children":' for row in rows)
    leaf = jsonl.dump(rows[-1]["id"] if rows else None)[:-1]
    return Raw(b'{"tree":' + nested + b"[]" + b"}]" * len(rows) + b',"leafId":' + leaf + b"}")


def _entries(context: ReplyContext, data: Sequence[answers.Item]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for item in data:
        for number, message in enumerate(item_messages(item, context.author)):
            parent = rows[-1]["id"] if rows else None
            id = f"{item.id}-{number}" if number else item.id
            rows.append(
                {"type": "message", "id": id, "parentId": parent, "timestamp": _iso(item.at), "message": message}
            )
    return rows


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fork_points(context: ReplyContext, data: Sequence[answers.ForkPoint]) -> dict[str, Any]:
    return {"messages": [m.ForkMessage(point.entry, point.text) for point in data]}


def switched(context: ReplyContext, data: answers.SessionOpened) -> dict[str, Any]:
    return {"cancelled": data.cancelled}


def branched(context: ReplyContext, data: answers.SessionOpened) -> dict[str, Any]:
    return {"text": data.text, "cancelled": data.cancelled}


def opened(context: ReplyContext, data: answers.SessionOpened) -> dict[str, Any]:
    file = {"sessionFile": data.file} if data.file else {}
    return {"cancelled": data.cancelled, "resumed": data.resumed, "sessionId": data.session, **file}


def queue(context: ReplyContext, data: answers.Queue) -> dict[str, Any]:
    return {"steering": list(data.soon), "followUp": list(data.last)}


def commands(context: ReplyContext, data: Sequence[answers.CommandCard]) -> dict[str, Any]:
    rows = [command(card) for card in data]
    return {
        "commands": [{**row, "sourceInfo": _source(row["name"])} for row in rows] if context.version == "pi" else rows
    }


def command(card: answers.CommandCard) -> dict[str, Any]:
    hint = {"argumentHint": card.hint} if card.hint else {}
    return {"name": card.name, "description": card.description, "source": "prompt", **hint}


def _source(name: str) -> dict[str, str]:
    """Where a command comes from, which pi's hosts expect of each. The brackets say that the path is no file's."""
    return {"path": f"<polylect:{name}>", "source": "polylect", "scope": "user", "origin": "top-level"}


def agents(context: ReplyContext, data: Sequence[answers.AgentCard]) -> dict[str, Any]:
    rows = [
        {"id": card.id, "index": index, "agent": card.name, "task": card.task, "status": "running"}
        for index, card in enumerate(data)
    ]
    return {"subagents": rows}


def agent_messages(context: ReplyContext, data: Sequence[answers.Item]) -> dict[str, Any]:
    """The transcript from `fromByte` on, or from its beginning if that is past its end."""
    frame: r.GetSubagentMessages = context.frame
    start = frame.from_byte if isinstance(frame.from_byte, int) and frame.from_byte > 0 else 0
    rows, sizes = _entries(context, data), [0]
    for row in rows:
        sizes.append(sizes[-1] + len(jsonl.dump(row)))
    reset = start > sizes[-1]
    start = 0 if reset else start
    later = [row for row, before in zip(rows, sizes, strict=False) if before >= start]
    return {
        "sessionFile": "",
        "fromByte": start,
        "nextByte": sizes[-1],
        "reset": reset,
        "entries": later,
        "messages": [row["message"] for row in later],
    }


def tool_names(context: ReplyContext, data: Any) -> dict[str, Any]:
    frame: r.SetHostTools = context.frame
    return {"toolNames": [str(tool.get("name", "")) for tool in frame.tools]}


DATA: dict[type[r.Request], Callable[[ReplyContext, Any], Any]] = {
    r.Prompt: disposition,
    r.Steer: disposition,
    r.FollowUp: disposition,
    r.GetState: state,
    r.GetSessionStats: stats,
    r.Bash: bash,
    r.GetAvailableModels: lambda context, data: {"models": [model(card) for card in data]},
    r.SetModel: chosen_model,
    r.CycleModel: cycled_model,
    r.CycleThinkingLevel: cycled_level,
    r.GetAvailableThinkingLevels: lambda context, data: {"levels": list(data)},
    r.GetMessages: lambda context, data: {"messages": conversation(data, context.author)},
    r.GetMessagesPage: messages_page,
    r.GetEntries: entries,
    r.GetTree: tree,
    r.GetLastAssistantText: lambda context, data: {"text": data},
    r.GetBranchMessages: fork_points,
    r.GetForkMessages: fork_points,
    r.ExportHtml: lambda context, data: {"path": data.path},
    r.NewSession: switched,
    r.SwitchSession: switched,
    r.Clone: switched,
    r.Branch: branched,
    r.Fork: branched,
    r.OpenSession: opened,
    r.GetQueue: queue,
    r.ClearQueue: queue,
    r.AbortAndRestoreQueue: queue,
    r.RemoveQueuedMessage: lambda context, data: {"removed": data},
    r.PromoteQueuedMessage: lambda context, data: {"promoted": data},
    r.GetAvailableCommands: commands,
    r.GetCommands: commands,
    r.GetSubagents: agents,
    r.GetSubagentMessages: agent_messages,
    r.CancelSubagent: lambda context, data: {"cancelled": True},
    r.SetHostTools: tool_names,
    r.SetHostUriSchemes: lambda context, data: {"schemes": context.frame.schemes},
    r.SetTodos: lambda context, data: {"todoPhases": context.frame.phases},
    r.Login: lambda context, data: {"providerId": context.frame.provider_id},
}
"""By the type of the command's frame. Other commands are answered without data."""

ALWAYS_WITH_DATA = (
    r.Prompt,
    r.Steer,
    r.FollowUp,
    r.CycleModel,
    r.CycleThinkingLevel,
    r.GetLastAssistantText,
    r.CancelSubagent,
    r.SetHostTools,
    r.SetHostUriSchemes,
    r.SetTodos,
    r.Login,
)
"""Commands whose response has data even if the engine's reply has none."""
