"""Events of the engine as updates of a session.

One `SessionWriter` writes for one session of the wire; a sub-agent has a session and a writer of its own where the
client shows that (`subagents`). It keeps only what is open: the ids of the message under way, calls, a compaction.
Lines are held until the request that opened the session is answered: clients drop updates of a session that they do
not know yet.

    TextDelta, ThinkingDelta      -> agent_message_chunk, agent_thought_chunk; one message id for each reply
    ToolCalled ... ToolFinished   -> tool_call, tool_call_update
    PlanChanged, SettingChanged   -> plan, config_option_update, current_mode_update, session_info_update ...
    CompactionStarted, Notice ... -> compaction_update and notice, where the client has them
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from polylect.dialects import line_limit
from polylect.dialects.acp.engine import tool_calls
from polylect.dialects.acp.engine.config_options import ConfigOptions
from polylect.dialects.acp.engine.connection import MAX_CONTENT, Connection
from polylect.dialects.acp.engine.tool_calls import OpenCall
from polylect.dialects.acp.frames import updates
from polylect.dialects.acp.frames.content import TerminalContent, TextBlock
from polylect.dialects.acp.frames.own_meta import own_meta
from polylect.dialects.acp.versions import MAX_FRAME
from polylect.vocab import events as e
from polylect.vocab.answers import CommandCard
from polylect.wire import jsonl

_encode = msgspec.json.Encoder().encode
_UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
_PIECE = MAX_FRAME // 16
"""Characters of one chunk. A longer delta becomes several; escaped, a character has up to twelve bytes."""
_NOTICE = 500
"""Characters of the title of a notice. The whole of a longer one is its description."""
COMPACTION = "Compact conversation"
"""The title of the call that stands for a compaction where the client has no other form for it."""


class SessionWriter:
    """Writes the updates of the session `id`, whose folder is `cwd`. They are held until `release`."""

    def __init__(self, connection: Connection, id: str, cwd: str) -> None:
        self.id = id
        self.cwd = cwd
        self.out: list[bytes] = []
        """Where lines go: they are held here, or those of the connection."""
        self.is_known = False
        """Whether the client knows of the session."""
        self.config = ConfigOptions()
        self.calls: dict[str, OpenCall] = {}
        """Calls that have not ended."""
        self.turn = ""
        """The turn that runs."""
        self._connection = connection
        self._start = b'%b%b,"update":' % (_UPDATE, jsonl.dump(id)[:-1])
        """The beginning of every line."""
        self._message = ""
        """The id of the message under way; empty before its first chunk."""
        self._heads: dict[str, bytes] = {}
        """The beginnings of the lines of its chunks, by kind."""
        self._compaction = ""
        self._remark = ""
        """The last remark of the turn that the client could not show."""
        self._usage = (0, 0)
        self._cost: float | None = None

    def release(self) -> None:
        """The client knows the session now: write what was held."""
        if not self.is_known:
            self._connection.out += self.out
            self.out = self._connection.out
            self.is_known = True

    def update(self, update: object) -> None:
        v2 = self._connection.v2
        for form in v2.updates(update) if v2 else (update,):
            self.out.append(b"%b%b}}\n" % (self._start, line_limit.line(form, MAX_CONTENT)[:-1]))

    def write(self, event: e.Event) -> None:
        """Write an event, if this wire has a form for it; tests/dialects/acp/unsaid.py lists what it has none for."""
        if write := _WRITERS.get(type(event)):
            write(self, event)

    # Messages.

    def text(self, event: e.TextDelta) -> None:
        """The most frequent event: the line is its beginning, which is prepared, the text and the end."""
        text, head = event.text, self._heads.get("agent_message_chunk") or self._head("agent_message_chunk")
        if len(text) > _PIECE:
            return self._pieces(head, text)
        quoted = _encode(text) if text.isascii() else jsonl.dump(text)[:-1]
        self.out.append(b"".join((head, quoted, b"}}}}\n")))

    def thinking(self, event: e.ThinkingDelta) -> None:
        self._pieces(self._heads.get("agent_thought_chunk") or self._head("agent_thought_chunk"), event.text)

    def user_message(self, event: e.UserMessage) -> None:
        """Clients of version 1 show what they send themselves, so only our own host is told of messages in a turn."""
        client, joins = self._connection.client, event.origin in ("steer", "follow_up")
        if (client.own and event.origin != "prompt") or (client.steers and joins):
            self.write_user(event)

    def write_user(self, event: e.UserMessage) -> None:
        id, meta = self._connection.env.new_id(), own_meta(origin=event.origin)
        for piece in line_limit.pieces(event.text, _PIECE):
            self.update(updates.UserChunk(content=TextBlock(text=piece), message_id=id, meta=meta))

    def chunk(self, kind: str, text: str, message: str) -> None:
        """Write a whole message, or thought, of a replay."""
        self._pieces(self._chunk_head(kind, message), text)

    def _pieces(self, head: bytes, text: str) -> None:
        for piece in line_limit.pieces(text, _PIECE):
            self.out.append(b"".join((head, jsonl.dump(piece)[:-1], b"}}}}\n")))

    def _head(self, kind: str) -> bytes:
        self._message = self._message or self._connection.env.new_id()
        self._heads[kind] = head = self._chunk_head(kind, self._message)
        return head

    def _chunk_head(self, kind: str, message: str) -> bytes:
        start = b'%b{"sessionUpdate":"%b","messageId":%b' % (self._start, kind.encode(), jsonl.dump(message)[:-1])
        return start + b',"content":{"type":"text","text":'

    def end_message(self, event: e.Event | None = None) -> None:
        """What follows is another message."""
        self._message = ""
        self._heads.clear()

    # Calls.

    def tool_called(self, event: e.ToolCalled, agent: dict[str, Any] | None = None) -> None:
        terminal = self._connection.client.output and tool_calls.kind(event.name, event.category) == "execute"
        update = tool_calls.called(event, self.cwd, agent, terminal=terminal)
        self.calls[event.call] = OpenCall(event.call, terminal=terminal, content=update.content)
        self.update(update)

    def tool_started(self, event: e.ToolStarted) -> None:
        if call := self.calls.get(event.call):
            content = call.replacing(event.before)
            self.update(updates.ToolCallChanged(tool_call_id=call.id, status="in_progress", content=content))

    def tool_output(self, event: e.ToolOutput) -> None:
        call, now = self.calls.get(event.call), self._connection.env.now()
        if call is None or call.in_client:
            return
        if call.terminal:
            self._terminal_output(call, event.text)
        elif call.output(event.text, now, replace=event.replace):
            self.update(call.progress(now))
        else:
            self._connection.delayed.add(call, lambda: self.update(call.progress(self._connection.env.now())))

    def _terminal_output(self, call: OpenCall, text: str) -> None:
        call.fed = True
        for piece in line_limit.pieces(text, _PIECE):
            meta = {"terminal_output": {"terminal_id": call.id, "data": piece}}
            self.update(updates.ToolCallChanged(tool_call_id=call.id, meta=meta))

    def show_terminal(self, call: str, terminal: str) -> None:
        """A call runs in a terminal of the client: it is shown in the place of the output."""
        if open_call := self.calls.get(call):
            open_call.in_client, open_call.terminal = True, False
            shown = TerminalContent(terminal_id=terminal)
            self.update(updates.ToolCallChanged(tool_call_id=call, content=[shown]))

    def tool_finished(self, event: e.ToolFinished) -> None:
        if event.call not in self.calls:  # clients draw a call only after its first update
            self.tool_called(e.ToolCalled(event.call, event.name, category="info"))
        call = self.calls.pop(event.call)
        self._connection.delayed.drop(call)
        call.terminal = call.terminal and event.outcome != "denied"  # then it never ran, and the reason is shown
        if call.terminal and not call.fed:
            self._terminal_output(call, event.output)
        self.update(call.finished(event))

    def abandon_calls(self) -> None:
        """The turn ends: nothing may be open after it."""
        for call in self.calls.values():
            self._connection.delayed.drop(call)
            self.update(call.abandoned())
        self.calls.clear()

    def alive(self, event: e.Alive) -> None:
        """An update that changes nothing, so that the client sees that the turn runs."""
        known = event.call in self.calls
        self.update(updates.ToolCallChanged(tool_call_id=event.call) if known else updates.SessionInfoChanged())

    # The session.

    def plan(self, event: e.PlanChanged) -> None:
        rows = [
            updates.PlanEntry(content=item.text, priority=item.priority, status=item.status) for item in event.items
        ]
        self.update(updates.Plan(entries=rows))

    def setting(self, event: e.SettingChanged) -> None:
        match event.key, event.value:
            case "commands", (tuple() | list()) as cards:
                self.update(updates.CommandsChanged(available_commands=_commands(cards)))
            case "title" | "name", str(title):
                self.update(updates.SessionInfoChanged(title=title or None))
            case key, value:
                self.change_config(lambda: self.config.change(key, value))

    def change_config(self, change: Callable[[], None]) -> None:
        """Carry out a change of the settings, and report what the client sees of it. The first are in an answer."""
        mode, options = self.config.mode, self.config.options()
        change()
        if not self.is_known:
            return
        if self.config.mode != mode:
            self.update(updates.ModeChanged(current_mode_id=self.config.mode))
        if (now := self.config.options()) != options:
            self.update(updates.ConfigChanged(config_options=now))

    def ready(self, event: e.Ready) -> None:
        self.change_config(lambda: self.config.ready(event))

    def context_used(self, event: e.ContextUsed) -> None:
        self._usage = (event.used, event.size)
        self._write_usage()

    def cost_changed(self, event: e.CostChanged) -> None:
        self._cost = event.total.cost
        self._write_usage()

    def _write_usage(self) -> None:
        used, size = self._usage
        if size:  # both numbers are required
            cost = None if self._cost is None else updates.Cost(amount=self._cost, currency="USD")
            self.update(updates.UsageChanged(used=used, size=size, cost=cost))

    # Compactions and notices.

    def compaction_started(self, event: e.CompactionStarted) -> None:
        self._compaction = self._connection.env.new_id()
        if self._connection.client.compactions:
            meta = own_meta(reason=event.reason)
            self.update(updates.CompactionChanged(compaction_id=self._compaction, status="in_progress", meta=meta))
        elif self.turn:  # clients have no place for calls outside a turn
            id = self._compaction
            self.update(updates.ToolCalled(tool_call_id=id, title=COMPACTION, kind="think", status="in_progress"))
            self.calls[id] = OpenCall(id)

    def compaction_ended(self, event: e.CompactionEnded) -> None:
        id, self._compaction = self._compaction or self._connection.env.new_id(), ""
        if self._connection.client.compactions:
            self.update(
                updates.CompactionChanged(
                    compaction_id=id,
                    status="completed" if event.ok else "failed",
                    summary=[TextBlock(text=event.summary)] if event.summary else UNSET,
                    error=event.error or UNSET,
                    meta=own_meta(before=event.before, after=event.after, first_kept=event.first_kept),
                )
            )
        elif self.calls.pop(id, None):
            counts = {"preTokens": event.before, "postTokens": event.after}
            content = tool_calls.shown(event.summary if event.ok else event.error)
            status = "completed" if event.ok else "failed"
            self.update(updates.ToolCallChanged(tool_call_id=id, status=status, content=content, raw_output=counts))

    def notice(self, event: e.Notice) -> None:
        self.notify(event.level, event.text)

    def notify(self, severity: str, text: str) -> None:
        """A remark for the person, if the client shows those. Otherwise the last is kept, for `explain`."""
        if not self._connection.client.notices:
            self._remark = text
            return
        line = text.strip().partition("\n")[0][:_NOTICE] or "Notice"
        whole = text if text.strip() != line else None
        self.update(updates.Notice(severity=severity, title=line, description=whole))

    def explain(self, event: e.TurnEnded) -> None:
        """Say as a message why a turn ends early, to a client that shows no notices: the stop reason says little."""
        remark, self._remark = self._remark, ""
        text = event.failure.message if event.failure else remark
        if event.reason in ("limit", "refused") and text and not self._connection.client.notices:
            self.end_message()
            self.text(e.TextDelta(text))

    def retry_started(self, event: e.RetryStarted) -> None:
        why = f" ({event.error})" if event.error else ""
        self.notify("warning", f"The model's service failed{why}; attempt {event.attempt} of {event.most} follows")

    def failed(self, event: e.Failed) -> None:
        self.notify("error", event.failure.message)

    def server_changed(self, event: e.ServerChanged) -> None:
        if event.status == "failed":
            self.notify("warning", f"The MCP server {event.name} cannot be used: {event.reason}")

    def budget_exceeded(self, event: e.BudgetExceeded) -> None:
        self.notify("warning", f"The turn ends: {event.reason} is {event.observed}, the limit {event.limit}")

    def extension_failed(self, event: e.ExtensionFailed) -> None:
        self.notify("warning", f"The extension {event.extension} failed in {event.moment}: {event.error}")

    def extension_rejected(self, event: e.ExtensionRejected) -> None:
        self.notify("warning", f"The extension {event.extension} is not used: {event.message}")


def _commands(cards: tuple[Any, ...] | list[Any]) -> list[updates.AvailableCommand]:
    """The commands that a client offers. A new conversation is a new session here, with an id that the client knows."""
    known = [card for card in cards if isinstance(card, CommandCard) and not (card.builtin and card.name == "clear")]
    return [
        updates.AvailableCommand(
            name=card.name,
            description=card.description or card.name,
            input=updates.CommandInput(hint=card.hint) if card.hint else None,
        )
        for card in known
    ]


_WRITERS: dict[type[e.Event], Callable[[SessionWriter, Any], None]] = {
    e.TextDelta: SessionWriter.text,
    e.ThinkingDelta: SessionWriter.thinking,
    e.UserMessage: SessionWriter.user_message,
    e.StepStarted: SessionWriter.end_message,
    e.ReplyEnded: SessionWriter.end_message,
    e.ToolCalled: SessionWriter.tool_called,
    e.ToolStarted: SessionWriter.tool_started,
    e.ToolOutput: SessionWriter.tool_output,
    e.ToolFinished: SessionWriter.tool_finished,
    e.Alive: SessionWriter.alive,
    e.PlanChanged: SessionWriter.plan,
    e.SettingChanged: SessionWriter.setting,
    e.Ready: SessionWriter.ready,
    e.ContextUsed: SessionWriter.context_used,
    e.CostChanged: SessionWriter.cost_changed,
    e.CompactionStarted: SessionWriter.compaction_started,
    e.CompactionEnded: SessionWriter.compaction_ended,
    e.Notice: SessionWriter.notice,
    e.RetryStarted: SessionWriter.retry_started,
    e.Failed: SessionWriter.failed,
    e.ServerChanged: SessionWriter.server_changed,
    e.BudgetExceeded: SessionWriter.budget_exceeded,
    e.ExtensionFailed: SessionWriter.extension_failed,
    e.ExtensionRejected: SessionWriter.extension_rejected,
}
