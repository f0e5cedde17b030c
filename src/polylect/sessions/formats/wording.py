"""Headings and labels that the Markdown and the HTML export share."""

from typing import Any

import msgspec

from polylect.sessions.formats.conversation import Conversation, iso
from polylect.vocab.content import ToolCall, Usage

_WORDS = ("command", "file_path", "path", "pattern", "query", "url", "description", "prompt")
"""The argument that says best what a call was about, if it has one of these."""
_MOST = 100


def heading(conversation: Conversation) -> str:
    return conversation.name or f"Session {conversation.session}"


def facts(conversation: Conversation) -> list[tuple[str, str]]:
    models = {message.model for message, _ in conversation.replay.replies if message.model}
    rows = [
        ("Workspace", conversation.cwd),
        ("Began", iso(conversation.at)[:16].replace("T", " ") + " UTC"),
        ("Messages", str(sum(mark is not None for mark in conversation.replay.marks))),
        ("Model", ", ".join(sorted(models))),
        ("Used", _used(conversation.usage)),
    ]
    return [(name, value) for name, value in rows if value]


def _used(usage: Usage) -> str:
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    inward = usage.input + usage.cache_read + usage.cache_write
    return f"{inward:,} tokens in, {usage.output:,} out{cost}" if usage.tokens else ""


def about(call: ToolCall) -> str:
    """One line."""
    argument = next((str(call.args[word]) for word in _WORDS if call.args.get(word)), "")
    line = " ".join(argument.split())
    return line if len(line) <= _MOST else line[: _MOST - 1] + "…"


def arguments(args: dict[str, Any]) -> str:
    """For people: texts as they are, the rest as JSON."""
    return "\n".join(f"{name}: {_value(value)}" for name, value in args.items())


def _value(value: Any) -> str:
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return f"\n{value.rstrip()}" if "\n" in value else value


def change(call: ToolCall) -> str:
    """An edit as lines with - and +; empty for a call of another kind."""
    edits = call.args.get("edits")
    pairs = edits if isinstance(edits, list) else [call.args]
    shown = [_pair(pair) for pair in pairs if isinstance(pair, dict) and {"old_string", "new_string"} <= pair.keys()]
    return "\n".join(shown)


def _pair(pair: dict[str, Any]) -> str:
    old, new = str(pair["old_string"]), str(pair["new_string"])
    gone = [f"-{line}" for line in old.splitlines()]
    come = [f"+{line}" for line in new.splitlines()]
    return "\n".join(gone + come)


def is_diff(text: str) -> bool:
    return text.startswith("--- ") and "\n+++ " in text[:2000]
