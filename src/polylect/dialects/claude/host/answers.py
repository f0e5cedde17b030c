"""Reads the payload of a control response as the reply to a query: `mcp_status` as server cards, and so on.

`_ANSWERS` has one function for each subtype. A subtype that is not in it gives its payload unchanged. `requests` is
the caller.
"""

from binascii import a2b_base64
from collections.abc import Callable
from typing import Any, Literal

from polylect.dialects.claude.permissions import entry_of, rule_of
from polylect.dialects.lenient import Object, inner, objects, text, whole, words
from polylect.vocab.answers import (
    ContextPart,
    ContextReport,
    FileContent,
    ModelCard,
    Rewound,
    ServerCard,
    TaskOutput,
)
from polylect.vocab.content import Rule

_STATES: dict[str, Literal["connected", "failed", "pending", "disabled"]] = {
    "connected": "connected",
    "failed": "failed",
    "needs-auth": "failed",
    "disabled": "disabled",
}


class Declined(Exception):
    """The engine answered that it cannot do what was requested."""


def _context(response: Object) -> ContextReport:
    parts = [row for row in objects(response, "categories") if text(row, "kind") not in ("free", "buffer")]
    used_parts = tuple(ContextPart(text(row, "name"), whole(row, "tokens")) for row in parts)
    return ContextReport(whole(response, "totalTokens"), whole(response, "maxTokens"), used_parts)


def _servers(response: Object) -> tuple[ServerCard, ...]:
    return tuple(
        ServerCard(
            text(row, "name"),
            _STATES.get(text(row, "status"), "pending"),
            tuple(text(tool, "name") for tool in objects(row, "tools")) or tuple(words(row, "tools")),
            text(row, "error") or ("needs-auth" if text(row, "status") == "needs-auth" else ""),
            text(row, "transport") or text(inner(row, "config"), "type"),
            " ".join(filter(None, (text(inner(row, "serverInfo"), key) for key in ("name", "version")))),
        )
        for row in objects(response, "mcpServers")
    )


def _models(response: Object) -> tuple[ModelCard, ...]:
    return tuple(
        ModelCard("anthropic", text(row, "value"), effort_levels=tuple(words(row, "supportedEffortLevels")))
        for row in objects(response, "models")
    )


def _rules(response: Object) -> tuple[Rule, ...]:
    """Rules that have a counterpart here. The wire also lists folders, which are left out."""
    rows = objects(response, "rules") or objects(inner(response, "state"), "rules")
    rules = []
    for row in rows:
        try:
            entry = row if "toolName" in row else entry_of(text(row, "rule"))
            rules.append(rule_of(entry, text(row, "behavior") or text(row, "ruleBehavior"), ""))
        except ValueError:
            continue
    return tuple(rules)


def _rewound(response: Object) -> Rewound:
    if response.get("canRewind") is False:
        raise Declined(text(response, "error") or "the files cannot be put back")
    return Rewound(tuple(words(response, "filesChanged")), whole(response, "insertions"), whole(response, "deletions"))


def _conversation_rewound(response: Object) -> Rewound:
    if response.get("rewound") is not True:
        raise Declined(text(response, "error") or "the conversation cannot be taken back")
    return Rewound(prompt=text(response, "prefillText"))


def _task_output(response: Object) -> TaskOutput:
    return TaskOutput(text(response, "output"), whole(response, "total_bytes"), response.get("truncated") is True)


def _file(response: Object) -> FileContent:
    contents = text(response, "contents")
    try:
        data = a2b_base64(contents) if response.get("encoding") == "base64" else contents.encode()
    except ValueError as error:
        raise Declined(f"the content of the file cannot be decoded: {error}") from None
    return FileContent(text(response, "absPath"), data, response.get("truncated") is True)


_ANSWERS: dict[str, Callable[[Object], Any]] = {
    "get_context_usage": _context,
    "mcp_status": _servers,
    "list_models": _models,
    "list_permission_rules": _rules,
    "get_binary_version": lambda response: text(response, "version"),
    "get_task_output": _task_output,
    "read_file": _file,
    "export_conversation": lambda response: text(response, "text"),
    "rewind_files": _rewound,
    "rewind_conversation": _conversation_rewound,
    **dict.fromkeys(
        ("initialize", "interrupt", "set_permission_mode", "set_model", "set_max_thinking_tokens", "mcp_set_servers"),
        lambda response: None,
    ),
}


def answer(subtype: str, response: Object) -> Any:
    """The data of the reply to a request of this subtype. Raises Declined."""
    return _ANSWERS[subtype](response) if subtype in _ANSWERS else response or None
