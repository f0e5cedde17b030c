"""Payloads of control responses: replies of the engine to queries, in the shapes of this wire.

`QUERIES` has one function for each request that is a query. They take the data of the reply and the `EventWriter`,
which knows what the wire wants besides (model, mode, usage by model).
"""

from binascii import b2a_base64
from collections.abc import Callable
from typing import Any

import msgspec

from polylect.dialects.claude.engine.encode import EventWriter
from polylect.dialects.claude.engine.engine_info import commands_of, models_of
from polylect.dialects.claude.frames import control
from polylect.dialects.claude.permissions import rule_text, written
from polylect.vocab.answers import ContextReport, FileContent, Ledger, Rewound, ServerCard, State, TaskOutput
from polylect.vocab.content import Rule, ToolCall, Usage
from polylect.vocab.tool_names import EXIT_PLAN

_PARTS = {"system prompt": "system_prompt", "tools": "system_tools"}
"""The ids that hosts know a part of the window by, where they are not its name."""


def _servers(data: Any, writer: EventWriter) -> dict[str, Any]:
    return {"mcpServers": [_server(card) for card in data or () if isinstance(card, ServerCard)]}


def _server(card: ServerCard) -> dict[str, Any]:
    row: dict[str, Any] = {"name": card.name, "status": card.status, "tools": [{"name": name} for name in card.tools]}
    if card.transport:
        row |= {"transport": card.transport, "source": "sdk" if card.transport == "host" else "dynamic"}
    if card.version:
        name, _, version = card.version.rpartition(" ")
        row["serverInfo"] = {"name": name or version, "version": version if name else ""}
    return row | ({"error": card.error} if card.error else {})


def context_usage(data: Any, state: Any, model: str) -> dict[str, Any]:
    """With all fields that the types of the SDKs require; what the engine does not count is empty."""
    report = data if isinstance(data, ContextReport) else ContextReport(0)
    parts = [
        {"id": _PARTS.get(part.name, part.name), "name": part.name, "tokens": part.tokens, "color": "", "kind": "used"}
        for part in report.parts
    ]
    return {
        "categories": parts,
        "totalTokens": report.used,
        "maxTokens": report.size,
        "rawMaxTokens": report.size,
        "percentage": round(100 * report.used / report.size) if report.size else 0,
        "model": model,
        "isAutoCompactEnabled": not isinstance(state, State) or state.auto_compaction,
        "gridRows": [],
        "memoryFiles": [],
        "mcpTools": [],
        "agents": [],
        "apiUsage": None,
    }


def _settings(data: Any, writer: EventWriter) -> dict[str, Any]:
    state = data if isinstance(data, State) else State()
    model, mode = state.model or writer.info.model, writer.info.wire_mode
    effective = {**msgspec.to_builtins(state.settings), "model": model, "permissions": {"defaultMode": mode}}
    return {"effective": effective, "sources": [], "applied": {"model": model, "effort": writer.info.effort or None}}


def _cost(data: Any, writer: EventWriter) -> dict[str, Any]:
    ledger = data if isinstance(data, Ledger) else Ledger()
    return {"text": f"Total cost: {_dollars(ledger.total)} for {len(ledger.rows)} requests, {_tokens(ledger.total)}"}


def _usage(data: Any, writer: EventWriter) -> dict[str, Any]:
    ledger = data if isinstance(data, Ledger) else Ledger()
    used = {"total_cost_usd": ledger.total.cost or 0.0, "model_usage": writer.cost.models}
    return {"session": used, "rate_limits": None}


def _dollars(usage: Usage) -> str:
    return "unknown" if usage.cost is None else f"${usage.cost:.4f}"


def _tokens(usage: Usage) -> str:
    return (
        f"{usage.input} tokens in, {usage.output} out, {usage.cache_read} from the cache, {usage.cache_write} into it"
    )


def _models(data: Any, writer: EventWriter) -> dict[str, Any]:
    return {"models": models_of(data)}


def _rules(data: Any, writer: EventWriter) -> dict[str, Any]:
    """Where a rule came from is not known here: all of them count for this session."""
    rows = [written(rule) for rule in data or () if isinstance(rule, Rule)]
    rules = [{**row, "rule": rule_text(row), "source": "session", "editability": "session"} for row in rows]
    folders = [{"path": writer.info.cwd, "source": "session"}]
    return {
        "state": {
            "rules": rules,
            "workspaceDirectories": folders,
            "originalCwd": writer.info.cwd,
            "managedOnly": False,
        }
    }


def _version(data: Any, writer: EventWriter) -> dict[str, Any]:
    return {"version": writer.out.version, "engine": str(data)}


def _task_output(data: Any, writer: EventWriter) -> dict[str, Any]:
    task = data if isinstance(data, TaskOutput) else TaskOutput("", 0, False)
    return {"output": task.output, "total_bytes": task.size, "truncated": task.truncated}


def _plan(data: Any, writer: EventWriter) -> dict[str, Any]:
    """The last plan that the model has shown by ExitPlanMode. It is in the conversation, and in no file."""
    blocks = [block for item in data or () for block in item.message.content if isinstance(block, ToolCall)]
    plans = [str(call.args.get("plan") or "") for call in blocks if call.name == EXIT_PLAN]
    return {"exists": True, "content": plans[-1]} if plans else {"exists": False}


def _exported(data: Any, writer: EventWriter) -> dict[str, Any]:
    return {"text": str(data or ""), "default_filename": f"conversation-{writer.out.session}.md"}


def file_content(data: Any, encoding: str) -> dict[str, Any]:
    file = data if isinstance(data, FileContent) else FileContent("", b"")
    fields = {"absPath": file.path, **({"truncated": True} if file.truncated else {})}
    if encoding == "base64":
        return {"contents": b2a_base64(file.data, newline=False).decode(), **fields, "encoding": "base64"}
    text = file.data.decode(errors="replace")
    return {"contents": text, **fields, "lossy": text.encode() != file.data}


def _skills(data: Any, writer: EventWriter) -> dict[str, Any]:
    return {"skills": commands_of(data or ())}


def _status(data: Any, writer: EventWriter) -> dict[str, Any]:
    state = data if isinstance(data, State) else State()
    rows = {
        "Version": writer.out.version,
        "Session ID": state.session,
        "Session name": state.name,
        "cwd": writer.info.cwd,
        "Provider": state.provider,
        "Model": state.model or writer.info.model,
        "Permission mode": writer.info.wire_mode,
    }
    shown = [{"label": label, "value": value} for label, value in rows.items() if value]
    return {"sections": [{"title": "Session", "rows": shown}]}


def reloaded(commands: Any, personas: Any, servers: Any) -> dict[str, Any]:
    """Commands are read from disk for every answer, so there is nothing to reload; there are no plugins."""
    agents = [{"name": card.name, "description": card.description} for card in personas or ()]
    listed = {"commands": commands_of(commands or ()), "agents": agents}
    return {**listed, "plugins": [], "mcpServers": [_server(card) for card in servers or ()], "error_count": 0}


def conversation_rewound(data: Any, target: str) -> dict[str, Any]:
    text = data.prompt if isinstance(data, Rewound) else ""
    return {"rewound": True, "targetMessageUuid": target, "prefillText": text, "precedingAssistantUuid": None}


def not_rewound(error: str, reason: str) -> dict[str, Any]:
    nothing = {"rewound": False, "prefillText": None, "precedingAssistantUuid": None}
    return {**nothing, "error": error, "reason": reason}


def rewound(data: Any) -> dict[str, Any]:
    result = data if isinstance(data, Rewound) else Rewound()
    counts = {"insertions": result.insertions, "deletions": result.deletions}
    return {"canRewind": True, "filesChanged": list(result.files), **counts}


QUERIES: dict[type[control.Request], Callable[[Any, EventWriter], dict[str, Any]]] = {
    control.McpStatus: _servers,
    control.GetSettings: _settings,
    control.GetStatus: _status,
    control.ReloadSkills: _skills,
    control.GetSessionCost: _cost,
    control.GetUsage: _usage,
    control.ListModels: _models,
    control.ListPermissionRules: _rules,
    control.GetBinaryVersion: _version,
    control.GetTaskOutput: _task_output,
    control.GetPlan: _plan,
    control.ExportConversation: _exported,
}
FIXED: dict[type[control.Request], dict[str, Any]] = {
    control.ForkConversation: {
        "forked": False,
        "error": "start another engine with --resume ID --fork-session",
        "reason": "unsupported",
    },
    control.MoveToBackground: {"backgrounded": False},  # a call that runs cannot be moved
    control.ReloadOutputStyles: {"available_output_styles": ["default"]},
    control.SetHasSubscribers: {},
}
"""Answers that are always the same."""
