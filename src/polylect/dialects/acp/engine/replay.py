"""The conversation so far as updates, for `session/load`: messages, thoughts and calls with their results, in order.

A call is one update with its final state. Nothing is asked and nothing runs by it; terminals are not named, because
they are gone. Commands of the user's and summaries are calls too: there is no other form for them.
"""

from collections.abc import Iterable
from typing import Any

from polylect.dialects.acp.engine import tool_calls
from polylect.dialects.acp.engine.encode import COMPACTION, SessionWriter
from polylect.dialects.acp.frames import updates
from polylect.dialects.acp.frames.content import ImageBlock, LinkBlock
from polylect.dialects.acp.frames.own_meta import own_meta
from polylect.vocab.answers import Item, ShellResult
from polylect.vocab.content import Block, Category, Document, Image, PlanItem, Text, Thinking, ToolCall, ToolResult
from polylect.vocab.events import PlanChanged


def replay(items: object, plan: tuple[PlanItem, ...], writer: SessionWriter) -> None:
    """Write the conversation, and the last plan.

    `items` is the data of the reply to the query `messages`; anything else writes nothing.
    """
    known = [item for item in items if isinstance(item, Item)] if isinstance(items, Iterable) else []
    results = {block.call: block for item in known for block in item.message.content if isinstance(block, ToolResult)}
    for item in known:
        if item.kind == "shell" and item.shell:
            writer.update(_shell(item.id, item.shell))
        elif item.kind == "summary":
            writer.update(_summary(item))
        else:
            for block in item.message.content:
                _write(block, item, results, writer)
    if plan:
        writer.plan(PlanChanged(plan))


def _write(block: Block, item: Item, results: dict[str, ToolResult], writer: SessionWriter) -> None:
    shape = updates.AgentChunk if item.message.role == "assistant" else updates.UserChunk
    id = item.turn or item.id  # in version 2 a prompt was answered with the former
    match block:
        case Text(text) if text:
            writer.chunk(str(shape.__struct_config__.tag), text, id)
        case Thinking(text) if text:
            writer.chunk("agent_thought_chunk", text, id)
        case ToolCall():
            writer.update(_call(block, results.get(block.call), writer.cwd))
        case Image(media_type, data) if data:
            writer.update(shape(content=ImageBlock(data=data, mime_type=media_type), message_id=id))
        case Document(name, media_type):
            link = LinkBlock(uri=name, name=name, mime_type=media_type)
            writer.update(shape(content=link, message_id=id))


def _call(call: ToolCall, result: ToolResult | None, cwd: str) -> updates.ToolCalled:
    ok = result is not None and result.outcome == "ok"
    outcome = "cancelled" if result is None else "" if result.outcome in ("ok", "error") else result.outcome
    category: Category = "info"
    diffs = tool_calls.diffs(call.name, call.args, cwd) if ok else []
    output = tool_calls.shown(result.output, result.images) if result else []
    raw: dict[str, Any] = {"raw_output": {"output": result.output}} if diffs and result else {}
    return updates.ToolCalled(
        tool_call_id=call.call,
        title=tool_calls.title(call.name, call.args, ""),
        name=call.name,
        kind=tool_calls.kind(call.name, category),
        status="completed" if ok else "failed",
        content=tuple(diffs or output),
        locations=tuple(tool_calls.locations(call.args, cwd)),
        raw_input=call.args,
        meta=own_meta(outcome=outcome),
        **raw,
    )


def _shell(id: str, shell: ShellResult) -> updates.ToolCalled:
    return updates.ToolCalled(
        tool_call_id=id,
        title=shell.command,
        kind="execute",
        status="failed" if shell.code or shell.cancelled else "completed",
        content=tuple(tool_calls.shown(shell.output)),
        raw_input={"command": shell.command},
    )


def _summary(item: Item) -> updates.ToolCalled:
    text = "\n".join(block.text for block in item.message.content if isinstance(block, Text))
    content = tuple(tool_calls.shown(text))
    return updates.ToolCalled(tool_call_id=item.id, title=COMPACTION, kind="think", status="completed", content=content)
