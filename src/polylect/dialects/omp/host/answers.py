"""Turns the data of responses into answers of the vocabulary (`State`, `Stats`, `ModelCard` and others).

What an engine leaves out is empty. A field of the wrong type raises ValueError, which `replies` turns into a failure.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec.structs import replace

from polylect.dialects.omp.frames import commands as requests
from polylect.dialects.omp.host.fields import Fields, amount, flag, number, rows, table, text, texts
from polylect.dialects.omp.host.messages import item_of, tokens_of
from polylect.vocab import answers
from polylect.vocab.content import PlanItem, Usage

_STATUSES: dict[str, Literal["in_progress", "completed"]] = {"in_progress": "in_progress", "completed": "completed"}
Read = Callable[[Fields], Any]
"""Makes an answer of a response's data, or raises ValueError."""


def state(data: Fields) -> answers.State:
    model, used = table(data, "model"), table(data, "contextUsage")
    return answers.State(
        session=text(data, "sessionId"),
        model=text(model, "id"),
        thinking=text(data, "thinkingLevel"),
        busy=flag(data, "isStreaming"),
        compacting=flag(data, "isCompacting"),
        queued=number(data, "queuedMessageCount") or number(data, "pendingMessageCount"),
        messages=number(data, "messageCount"),
        name=text(data, "sessionName"),
        provider=text(model, "provider"),
        card=card(model) if model else None,
        file=text(data, "sessionFile"),
        steering_mode="all" if data.get("steeringMode") == "all" else "one-at-a-time",
        follow_up_mode="all" if data.get("followUpMode") == "all" else "one-at-a-time",
        interrupt_mode="wait" if data.get("interruptMode") == "wait" else "immediate",
        auto_compaction=data.get("autoCompactionEnabled") is not False,
        settled=flag(data, "isSettled"),
        background=flag(data, "hasPendingAsyncWork"),
        context=number(used, "tokens") if isinstance(used.get("tokens"), int) else None,
        plan=tuple(plan_item(task) for phase in rows(data, "todoPhases") for task in rows(phase, "tasks")),
    )


def plan_item(task: Fields) -> PlanItem:
    return PlanItem(text(task, "content"), _STATUSES.get(text(task, "status"), "pending"), id=text(task, "id"))


def card(model: Fields) -> answers.ModelCard:
    """A price of nothing is not known."""
    inputs, cost = texts(model, "input"), table(model, "cost")
    prices = tuple(cost.get(key) or None for key in ("input", "output", "cacheRead", "cacheWrite"))
    return answers.ModelCard(
        text(model, "provider"),
        text(model, "id"),
        text(model, "api"),
        text(model, "baseUrl"),
        number(model, "contextWindow"),
        number(model, "maxTokens"),
        thinking=flag(model, "reasoning"),
        images="image" in inputs if inputs else None,
        prices=prices if any(prices) else (),
    )


def stats(data: Fields) -> answers.Stats:
    return answers.Stats(
        session=text(data, "sessionId"),
        users=number(data, "userMessages"),
        assistants=number(data, "assistantMessages"),
        calls=number(data, "toolCalls"),
        results=number(data, "toolResults"),
        usage=_spent(data),
        file=text(data, "sessionFile"),
    )


def _spent(data: Fields) -> Usage:
    return replace(tokens_of(table(data, "tokens")), cost=amount(data, "cost") or None)


def messages(data: Fields) -> tuple[answers.Item, ...]:
    """Without the instructions and tools, which pi lists as a message with the role `system` since 0.84."""
    return tuple(item_of(row) for row in rows(data, "messages") if row.get("role") != "system")


def models(data: Fields) -> tuple[answers.ModelCard, ...]:
    return tuple(map(card, rows(data, "models")))


def cycled_model(data: Fields) -> answers.Cycled | None:
    return answers.Cycled(card(table(data, "model")), text(data, "thinkingLevel")) if data else None


def cycled_thinking(data: Fields) -> answers.Cycled | None:
    return answers.Cycled(thinking=text(data, "level")) if data else None


def fork_points(data: Fields) -> tuple[answers.ForkPoint, ...]:
    return tuple(answers.ForkPoint(text(row, "entryId"), text(row, "text")) for row in rows(data, "messages"))


def commands(data: Fields) -> tuple[answers.CommandCard, ...]:
    return tuple(map(_command, rows(data, "commands")))


def _command(row: Fields) -> answers.CommandCard:
    hint = row.get("input")
    return answers.CommandCard(
        text(row, "name"),
        text(row, "description"),
        text(hint, "hint") if isinstance(hint, dict) else "",
        builtin=row.get("source") == "builtin",
    )


def agents(data: Fields) -> tuple[answers.AgentCard, ...]:
    subagents = rows(data, "subagents")
    return tuple(answers.AgentCard(text(row, "id"), text(row, "agent"), text(row, "task")) for row in subagents)


def context(data: Fields) -> answers.ContextReport:
    """Only 18 tells, in its state."""
    used = table(data, "contextUsage")
    if not used:
        raise ValueError("the engine does not tell what fills the context")
    return answers.ContextReport(number(used, "tokens"), number(used, "contextWindow"))


def queue(data: Fields) -> answers.Queue:
    return answers.Queue(soon=texts(data, "steering"), last=texts(data, "followUp"))


def last_text(data: Fields) -> str | None:
    return text(data, "text") or None


def exported(data: Fields) -> answers.Exported:
    return answers.Exported(text(data, "path"))


def levels(data: Fields) -> tuple[str, ...]:
    return texts(data, "levels")


def ledger(data: Fields) -> answers.Ledger:
    return answers.Ledger(_spent(data))


def nothing(data: Fields) -> None:
    """What became of it is told by events."""


def raw(data: Fields) -> Any:
    """What has no type of ours."""
    return data or None


READS: dict[type[requests.Request], Read] = {
    requests.GetState: state,
    requests.GetMessages: messages,
    requests.GetMessagesPage: messages,
    requests.GetLastAssistantText: last_text,
    requests.GetAvailableModels: models,
    requests.GetSessionStats: stats,
    requests.ExportHtml: exported,
    requests.GetBranchMessages: fork_points,
    requests.GetForkMessages: fork_points,
    requests.GetQueue: queue,
    requests.ClearQueue: queue,
    requests.RemoveQueuedMessage: lambda data: flag(data, "removed"),
    requests.PromoteQueuedMessage: lambda data: flag(data, "promoted"),
    requests.GetCommands: commands,
    requests.GetAvailableCommands: commands,
    requests.GetSubagents: agents,
    requests.GetSubagentMessages: messages,
    requests.GetAvailableThinkingLevels: levels,
    requests.SetModel: nothing,
    requests.Compact: nothing,
    requests.CycleModel: cycled_model,
    requests.CycleThinkingLevel: cycled_thinking,
}
"""By the frame that asked. The data of others is handed on as it is."""
