"""The wire's messages as a host reads them: blocks, words, usage, and the items of a conversation."""

from typing import Any

from msgspec.structs import replace

from polylect.dialects.omp.host.fields import Found, amount, flag, number, rows, table, text
from polylect.vocab.answers import Item, ShellResult
from polylect.vocab.content import Block, Image, Message, Outcome, Stop, Text, Thinking, ToolCall, ToolResult, Usage

STOPS: dict[str, Stop] = {
    "stop": "end",
    "length": "length",
    "toolUse": "calls",
    "error": "error",
    "aborted": "cancelled",
}
INJECTED = ("developer", "custom", "hookMessage", "fileMention")
"""Roles of what entered the context although nobody typed it."""


def words(content: Any) -> str:
    """The text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "".join(text(block, "text") for block in _blocks(content) if block.get("type") == "text")


def images(content: Any) -> tuple[Image, ...]:
    found = [block for block in _blocks(content) if block.get("type") == "image"]
    return tuple(Image(text(block, "mimeType") or "image/png", text(block, "data")) for block in found)


def block_of(block: Found) -> Block | None:
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


def usage_of(usage: Found) -> Usage:
    """A cost of nothing means that the price is not known: it is never invented (T6)."""
    cost = amount(table(usage, "cost"), "total")
    return replace(tokens_of(usage), cost=cost or None)


def tokens_of(found: Found) -> Usage:
    return Usage(
        number(found, "input"), number(found, "output"), number(found, "cacheRead"), number(found, "cacheWrite")
    )


def shell_of(found: Found, command: str) -> ShellResult:
    code = found.get("exitCode")
    return ShellResult(
        command,
        text(found, "output"),
        code if isinstance(code, int) else None,
        cancelled=flag(found, "cancelled"),
        truncated=flag(found, "truncated"),
        path=text(found, "fullOutputPath"),
        lines=number(found, "totalLines"),
        size=number(found, "totalBytes"),
    )


def item_of(found: Found) -> Item:
    """A message of `get_messages`. The wire does not say where it is in the log."""
    at, role = number(found, "timestamp"), text(found, "role")
    match role:
        case "assistant":
            return Item("", at, _assistant(found), request=text(found, "responseId"))
        case "toolResult":
            return Item("", at, Message("tool", (_result(found),)))
        case "bashExecution":
            shell = shell_of(found, text(found, "command"))
            return Item("", at, _user(f"{shell.command}\n{shell.output}"), "shell", shell)
        case "compactionSummary" | "branchSummary":
            summary = _user(text(found, "summary"))
            return Item("", at, summary, "summary", before=number(found, "tokensBefore"))
        case "fileMention":
            return Item("", at, _user("\n".join(text(file, "path") for file in rows(found, "files"))))
        case _:
            content = found.get("content")
            return Item("", at, Message("user", (Text(words(content)), *images(content))))


def _assistant(found: Found) -> Message:
    blocks = tuple(block for part in rows(found, "content") if (block := block_of(part)))
    stop, usage = STOPS.get(text(found, "stopReason")), usage_of(table(found, "usage"))
    return Message("assistant", blocks, stop, usage, text(found, "model"), text(found, "provider"))


def _result(found: Found) -> ToolResult:
    content = found.get("content")
    outcome: Outcome = "error" if flag(found, "isError") else "ok"
    return ToolResult(text(found, "toolCallId"), text(found, "toolName"), words(content), outcome, images(content))


def _user(said: str) -> Message:
    return Message("user", (Text(said),))


def _blocks(content: Any) -> list[Found]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
