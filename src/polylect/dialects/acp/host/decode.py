"""Updates of an agent to events: one reader for a session, and one more for each of its sub-agents.

The events are raw. They name no turn, agent or session unless they begin or end one; `Session` adds these, and its
`Completer` adds what the wire leaves out: steps, the ends of blocks, the start of a call. An update of an unknown kind
is None, and one that lacks what it is about raises `BadFrame`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from polylect.dialects.acp.host.content import attachment_of, block_image, block_text
from polylect.dialects.acp.host.failures import OWNERS
from polylect.dialects.acp.host.settings import Settings
from polylect.dialects.acp.host.tool_calls import BadFrame, ToolCalls
from polylect.dialects.acp.host.usage import SessionUsage, our_usage
from polylect.dialects.lenient import Object, inner, objects, text, whole
from polylect.vocab import events as e
from polylect.vocab.content import Attachment, Document, Failure, PlanItem, Reason

STOP_REASONS: dict[str, Reason] = {
    "end_turn": "end",
    "max_tokens": "length",
    "max_turn_requests": "limit",
    "refusal": "refused",
    "cancelled": "cancelled",
}
"""Why a turn ended. An unknown word ends it, too, as if it had come to its end."""
_REASONS: dict[str, Reason] = {name: name for name in ("end", "cancelled", "length", "refused", "limit", "error")}
_ATTEMPT = re.compile(r"(\d+)\s*/\s*(\d+)")
_MODE_TEXT = re.compile(r"\[MODE_UPDATE\] (\S+)")
_DEAD_SERVER = re.compile(r"mcp__(.+)__startup")
_STATUSES: dict[str, Any] = {name: name for name in ("pending", "in_progress", "completed")}
_PRIORITIES: dict[str, Any] = {name: name for name in ("high", "medium", "low")}


class UserText:
    """A message of the user that arrives in chunks, during a replay."""

    def __init__(self) -> None:
        self._id = ""
        self.text = ""
        self.attachments: list[Attachment] = []

    def __bool__(self) -> bool:
        return bool(self.text or self.attachments)

    def continues(self, id: str) -> bool:
        return id == self._id

    def add(self, id: str, block: Object) -> None:
        self._id = id
        if (attachment := attachment_of(block)) is not None:
            self.attachments.append(attachment)
        elif (words := block_text(block)) != self.text or id:  # kimi replays each message twice
            self.text += words


class UpdateReader:
    """Reads the updates of one session of the wire, which is a session of ours or one of its sub-agents.

    Args:
        settings, usage: Those of the session. Sub-agents have settings of their own, which nobody needs.
        now: The clock, in milliseconds.
    """

    def __init__(self, settings: Settings, usage: SessionUsage, now: Callable[[], int]) -> None:
        self.settings = settings
        self.usage = usage
        self.calls = ToolCalls(now)
        self.run = ""
        """goose's id of the running turn."""
        self._messages: dict[str, str] = {}
        """The last message id of each kind of chunk in this step."""
        self._retry = 0
        self._compactions: dict[str, str] = {}
        """By the id of each that has begun: its summary so far. None is left once it has ended."""
        self._compacted: set[str] = set()
        self.service_error: str | None = None
        """What codex has said in this turn since it reported that the model's service has failed; None if it has not.
        It ends such a turn as any other."""

    def turn_began(self) -> None:
        self.calls.reset()
        self._messages.clear()
        self._retry = 0
        self.service_error = None

    def read(self, update: Object, *, idle: bool = False) -> list[e.Event] | None:
        """The events of an update; None if its kind is not known. Raises BadFrame.

        `idle`: no turn runs.
        """
        kind = text(update, "sessionUpdate")
        if not kind:
            raise BadFrame("sessionUpdate: expected the kind of the update")
        if idle and (events := self._outside_a_turn(kind, update)) is not None:
            return events
        handler = _KINDS.get(kind)
        return None if handler is None else handler(self, update)

    # Messages.

    def _agent_chunk(self, update: Object) -> list[e.Event]:
        return self._chunk(update, e.TextDelta)

    def _thought_chunk(self, update: Object) -> list[e.Event]:
        return self._chunk(update, e.ThinkingDelta)

    def _chunk(self, update: Object, delta: Callable[[str], e.Event]) -> list[e.Event]:
        block = block_of(update)
        if meta := inner(update, "_meta"):
            self.usage.reply_used(meta)
        events = [*self._retried(), *self.calls.before_text(), *self._step(update)]
        if words := block_text(block):
            if self.service_error is not None:
                self.service_error += words
            return [*events, delta(words)]
        if image := block_image(block):
            return [*events, e.BlockEnded(image)]
        if text(block, "type") == "audio":
            return [*events, e.BlockEnded(Document("audio", text(block, "mimeType"), data=text(block, "data")))]
        return []

    def _step(self, update: Object) -> list[e.Event]:
        """A message with another id than the one before is another reply of the model, so a step begins.

        Ids differ by kind in opencode, and are not there in gemini, qwen and kimi. After calls the step begins anyway.
        """
        id, kind = text(update, "messageId"), text(update, "sessionUpdate")
        if self.calls.any and not self.calls.open:
            self._messages.clear()
        before = self._messages.get(kind, id)
        if before != id and id:
            self._messages = {kind: id}
            return [e.StepStarted()]
        self._messages[kind] = id
        return []

    def _user_chunk(self, update: Object) -> list[e.Event]:
        """A message of the user in a running turn; in a replay `Session` collects it."""
        origin = text(inner(inner(update, "_meta"), "polylect"), "origin")
        block = block_of(update)
        attachment = attachment_of(block)
        words = block_text(block) if attachment is None else ""
        known: Any = origin if origin in ("prompt", "steer", "follow_up", "engine", "replay") else "engine"
        return [e.UserMessage(words, known, (attachment,) if attachment else ())]

    # Calls, plans, settings.

    def _tool_call(self, update: Object) -> list[e.Event]:
        return [*self._retried(), *self.calls.update(update)]

    def _plan(self, update: Object) -> list[e.Event]:
        return [e.PlanChanged(_plan_items(update))]

    def _plan_update(self, update: Object) -> list[e.Event]:
        plan = inner(update, "plan")
        if isinstance(plan.get("entries"), list):
            return [e.PlanChanged(_plan_items(plan))]
        words = text(plan, "content") or text(plan, "markdown")
        return [e.PlanChanged((PlanItem(words, id=text(plan, "planId")),) if words else ())]

    def _plan_removed(self, update: Object) -> list[e.Event]:
        return [e.PlanChanged(())]

    def _commands(self, update: Object) -> list[e.Event]:
        return self.settings.commands(objects(update, "availableCommands"))

    def _mode(self, update: Object) -> list[e.Event]:
        id = text(update, "currentModeId") or text(update, "modeId")
        if not id:
            raise BadFrame("currentModeId: expected the id of a mode")
        return self.settings.mode_changed(id)

    def _config(self, update: Object) -> list[e.Event]:
        return self.settings.options_changed(update)

    def _info(self, update: Object) -> list[e.Event]:
        events: list[e.Event] = []
        if "title" in update:
            title = text(update, "title")
            if self.settings.values.get("title", "") != title:
                self.settings.values["title"] = title
                events.append(e.SettingChanged("title", title))
        meta = inner(update, "_meta")
        if "activeRunId" in (goose := inner(meta, "goose")):
            self.run = text(goose, "activeRunId")
        codex = inner(meta, "codex")
        if status := text(inner(codex, "threadStatus"), "type"):
            self.service_error = "" if status == "systemError" else None
        if error := inner(codex, "error"):
            events += self._codex_error(error)
        return events

    def _codex_error(self, error: Object) -> list[e.Event]:
        message = text(error, "message")
        if error.get("willRetry") is not True:
            return [e.Notice(message, "warning")]
        count = _ATTEMPT.search(message)
        self._retry = int(count[1]) if count else self._retry + 1
        return [e.RetryStarted(self._retry, int(count[2]) if count else 0, 0, message)]

    def _retried(self) -> list[e.Event]:
        """The model speaks again, so a retry has succeeded."""
        attempt, self._retry = self._retry, 0
        return [e.RetryEnded(True, attempt)] if attempt else []

    def _usage(self, update: Object) -> list[e.Event]:
        return self.usage.changed(update)

    def _notice(self, update: Object) -> list[e.Event]:
        title, description = text(update, "title"), text(update, "description")
        serious = text(update, "severity") in ("warning", "error")
        return [e.Notice("\n".join(filter(None, (title, description))), "warning" if serious else "info")]

    # Compactions.

    def _compaction(self, update: Object) -> list[e.Event]:
        id, status = text(update, "compactionId"), text(update, "status")
        own = inner(inner(update, "_meta"), "polylect")
        if id in self._compacted:  # claude says `completed` twice
            return []
        events: list[e.Event] = []
        if id not in self._compactions:
            reason: Any = text(own, "reason")
            known = reason in ("threshold", "overflow", "manual", "idle")
            events.append(e.CompactionStarted(reason) if known else e.CompactionStarted())
        blocks = objects(update, "summary")
        summary = "".join(map(block_text, blocks)) if blocks else self._compactions.get(id, "")
        self._compactions[id] = summary
        if status not in ("completed", "failed", "cancelled"):
            return events
        del self._compactions[id]
        self._compacted.add(id)
        ok = status == "completed"
        error = "" if ok else text(update, "error") or status
        tokens = (whole(own, "before"), whole(own, "after"))
        return [*events, e.CompactionEnded(ok, summary, *tokens, text(own, "first_kept"), error)]

    def _summary_chunk(self, update: Object) -> list[e.Event]:
        id = text(update, "compactionId")
        events = [] if id in self._compactions or id in self._compacted else [e.CompactionStarted()]
        self._compactions[id] = self._compactions.get(id, "") + block_text(block_of(update))
        return [*events]

    # What comes while no turn runs.

    def _outside_a_turn(self, kind: str, update: Object) -> list[e.Event] | None:
        """Two agents report states in the words of a turn, though none runs. None for everything else."""
        if kind == "agent_message_chunk":  # gemini, after `session/set_mode`
            words = block_text(inner(update, "content"))
            mode = _MODE_TEXT.fullmatch(words.strip())
            return self.settings.mode_changed(mode[1]) if mode else None
        if kind == "tool_call" and text(update, "status") == "failed":  # codex, for a server that did not start
            server = _DEAD_SERVER.fullmatch(text(update, "title"))
            why = "".join(block_text(inner(item, "content")) for item in objects(update, "content"))
            return [e.ServerChanged(server[1], "failed", reason=why)] if server else None
        if kind == "tool_call_update":  # of a call that we have closed
            known = self.calls.get(text(update, "toolCallId"))
            return [] if known and known.finished else None
        return None


def block_of(update: Object) -> Object:
    """The content of a chunk. Raises BadFrame."""
    if not isinstance(block := update.get("content"), dict):
        raise BadFrame("content: expected a content block")
    return block


def _plan_items(fields: Object) -> tuple[PlanItem, ...]:
    return tuple(
        PlanItem(
            text(row, "content"),
            _STATUSES.get(text(row, "status"), "completed" if text(row, "status") == "cancelled" else "pending"),
            _PRIORITIES.get(text(row, "priority"), "medium"),
        )
        for row in objects(fields, "entries")
    )


def turn_ended(fields: Object) -> e.TurnEnded:
    """The end of a turn that polylect began by itself, or of a prompt that never ran: `_meta.polylect.turn`."""
    return e.TurnEnded(
        _REASONS.get(text(fields, "reason"), "end"),
        our_usage(inner(fields, "usage")),
        whole(fields, "steps"),
        read_failure(inner(fields, "failure")),
        turn=text(fields, "id"),
    )


def read_failure(fields: Object) -> Failure | None:
    """A failure in our own words; None if there is none."""
    owner = OWNERS.get(text(fields, "owner"))
    if owner is None:
        return None
    return Failure(text(fields, "code"), text(fields, "message"), owner, fields.get("retryable") is True)


_KINDS: Mapping[str, Callable[[UpdateReader, Object], list[e.Event]]] = {
    "user_message_chunk": UpdateReader._user_chunk,
    "agent_message_chunk": UpdateReader._agent_chunk,
    "agent_thought_chunk": UpdateReader._thought_chunk,
    "tool_call": UpdateReader._tool_call,
    "tool_call_update": UpdateReader._tool_call,
    "plan": UpdateReader._plan,
    "plan_update": UpdateReader._plan_update,
    "plan_removed": UpdateReader._plan_removed,
    "available_commands_update": UpdateReader._commands,
    "current_mode_update": UpdateReader._mode,
    "config_option_update": UpdateReader._config,
    "session_info_update": UpdateReader._info,
    "usage_update": UpdateReader._usage,
    "notice": UpdateReader._notice,
    "compaction_update": UpdateReader._compaction,
    "compaction_summary_chunk": UpdateReader._summary_chunk,
}
"""The kinds of updates. Those of sub-agents are handled by `Session`, because they are about several sessions."""
