"""Exports a conversation as Markdown, for `polylect sessions show` and `export`."""

from collections.abc import Iterator

from polylect.sessions.formats.conversation import Conversation
from polylect.sessions.formats.wording import about, arguments, change, facts, heading, is_diff
from polylect.sessions.replay import longest_run
from polylect.vocab.content import Block, Document, Image, Text, Thinking, ToolCall, ToolResult
from polylect.vocab.entries import Compacted

_WHO = {"user": "## You", "assistant": "## Agent", "tool": ""}


def pieces(conversation: Conversation) -> Iterator[bytes]:
    """A message at a time, as the page is made."""
    for number, part in enumerate(_parts(conversation)):
        yield b"\n\n" if number else b""
        yield part.encode("utf-8", "replace")
    yield b"\n"


def _parts(conversation: Conversation) -> Iterator[str]:
    yield f"# {heading(conversation)}"
    yield "\n".join(f"- {name}: {value}" for name, value in facts(conversation))
    for context in conversation.replay.contexts:
        yield f"## Context\n\n{_quoted(context)}"
    speaker = ""
    for _, step in conversation.steps():
        if isinstance(step, Compacted):
            yield f"*From here on the model saw this summary of the beginning:*\n\n{_quoted(step.summary)}"
            continue
        who = _WHO[step.role]
        if who and who != speaker:
            yield who
            speaker = who
        yield from filter(None, map(_block, step.content))


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return text.strip("\n")
        case Thinking(text):
            return _quoted(text) if text.strip() else ""
        case ToolCall() as call:
            shown = _fenced(change(call), "diff") if change(call) else _fenced(arguments(call.args))
            return f"**{call.name}** {_inline(about(call))}\n\n{shown}"
        case ToolResult(_, name, output, outcome, images):
            pictures = f"\n\n({len(images)} pictures)" if images else ""
            how = "" if outcome == "ok" else f", {outcome}"
            shown = _fenced(output, "diff" if is_diff(output) else "") if output.strip() else "(nothing)"
            return f"Result of {name}{how}:\n\n{shown}{pictures}"
        case Image(media_type):
            return f"(a picture, {media_type})"
        case Document(name, _, text):
            return f"Attached: {_inline(name)}" + (f"\n\n{_fenced(text)}" if text else "")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def _fenced(text: str, language: str = "") -> str:
    fence = "`" * max(3, longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _inline(text: str) -> str:
    if not text:
        return ""
    fence = "`" * (longest_run(text) + 1)
    room = " " if "`" in text else ""
    return f"{fence}{room}{text}{room}{fence}"
