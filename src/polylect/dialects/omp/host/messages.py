"""Turns messages of the wire into values of the vocabulary: blocks, text, usage, and the items of a conversation.

The host side uses it for events and for the answers to queries. A block of a type that it does not know is left out,
and the rest of its message stays.
"""

from typing import Any

from msgspec.structs import replace

from polylect.dialects.omp.host.fields import Fields, amount, flag, number, rows, table, text
from polylect.dialects.omp.stop_reasons import OUR_STOPS
from polylect.vocab.answers import Item, ShellResult
from polylect.vocab.content import Block, Image, Message, Outcome, Text, Thinking, ToolCall, ToolResult, Usage

INJECTED = ("developer", "custom", "hookMessage", "fileMention")
"""Roles of what entered the context although nobody typed it."""


def text_of(content: Any) -> str:
    """The text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "".join(text(block, "text") for block in _blocks(content) if block.get("type") == "text")


def images(content: Any) -> tuple[Image, ...]:
    blocks = [block for block in _blocks(content) if block.get("type") == "image"]
    return tuple(Image(text(block, "mimeType") or "image/png", text(block, "data")) for block in blocks)


def block_of(block: Fields) -> Block | None:
    match block.get("type"):
        case "text":
            return Text(text(block, "text"))
        case "thinking":
            return Thinking(text(block, "thinking"), text(block, "thinkingSignature"))
        case "redactedThinking":
            return Thinking("", redacted=text(block, "data"))
        case "toolCall":
            return ToolCall(text(block, "id"), text(block, "name"), table(block, "arguments"))
        case "image":
            return Image(text(block, "mimeType") or "image/png", text(block, "data"))
        case _:
            return None


def usage_of(usage: Fields) -> Usage:
    """A cost of nothing means that the price is not known: it is never invented (T6)."""
    cost = amount(table(usage, "cost"), "total")
    return replace(tokens_of(usage), cost=cost or None)


def tokens_of(fields: Fields) -> Usage:
    return Usage(
        number(fields, "input"), number(fields, "output"), number(fields, "cacheRead"), number(fields, "cacheWrite")
    )


def shell_of(fields: Fields, command: str) -> ShellResult:
    code = fields.get("exitCode")
    return ShellResult(
        command,
        text(fields, "output"),
        code if isinstance(code, int) else None,
        cancelled=flag(fields, "cancelled"),
        truncated=flag(fields, "truncated"),
        path=text(fields, "fullOutputPath"),
        lines=number(fields, "totalLines"),
        size=number(fields, "totalBytes"),
    )


def item_of(fields: Fields) -> Item:
    """A message of `get_messages`. The wire does not say where it is in the log."""
    at, role = number(fields, "timestamp"), text(fields, "role")
    match role:
        case "assistant":
            return Item("", at, _assistant(fields), request=text(fields, "responseId"))
        case "toolResult":
            return Item("", at, Message("tool", (_result(fields),)))
        case "bashExecution":
            shell = shell_of(fields, text(fields, "command"))
            return Item("", at, _user(f"{shell.command}\n{shell.output}"), "shell", shell)
        case "compactionSummary" | "branchSummary":
            summary = _user(text(fields, "summary"))
            return Item("", at, summary, "summary", before=number(fields, "tokensBefore"))
        case "fileMention":
            return Item("", at, _user("\n".join(text(file, "path") for file in rows(fields, "files"))))
        case _:
            content = fields.get("content")
            return Item("", at, Message("user", (Text(text_of(content)), *images(content))))


def _assistant(fields: Fields) -> Message:
    blocks = tuple(block for part in rows(fields, "content") if (block := block_of(part)))
    stop, usage = OUR_STOPS.get(text(fields, "stopReason")), usage_of(table(fields, "usage"))
    return Message("assistant", blocks, stop, usage, text(fields, "model"), text(fields, "provider"))


def _result(fields: Fields) -> ToolResult:
    content = fields.get("content")
    outcome: Outcome = "error" if flag(fields, "isError") else "ok"
    return ToolResult(text(fields, "toolCallId"), text(fields, "toolName"), text_of(content), outcome, images(content))


def _user(body: str) -> Message:
    return Message("user", (Text(body),))


def _blocks(content: Any) -> list[Fields]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
