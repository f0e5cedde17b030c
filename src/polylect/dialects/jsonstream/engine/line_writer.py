"""Frames to lines. Keeps what has been said, because that decides what may still be said."""

from collections import Counter
from typing import Literal

import msgspec

from polylect.dialects import line_limit
from polylect.dialects.jsonstream import events
from polylect.dialects.jsonstream.engine import asks as questions
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import families
from polylect.dialects.jsonstream.ready import capabilities
from polylect.dialects.jsonstream.versions import (
    ERRORS_END_TURNS,
    FAMILIES,
    FINISH_REASONS,
    FLAGS,
    NULL_MSG_ID,
    SAYS_MCP_FAILED,
    SORTS_MAPS,
)
from polylect.vocab.content import Abilities, Usage
from polylect.vocab.events import Ask, Event
from polylect.wire import jsonl

MAX_FRAME = 8 * 1024 * 1024
"""Deployed readers drop longer lines, or end the engine for one."""

_encode = msgspec.json.Encoder().encode


class Pen:
    def __init__(self, version: str, abilities: Abilities | None = None) -> None:
        self.lost: Counter[str] = Counter()
        """What this wire has no word for, by the name of the event."""
        self.asks: dict[str, Ask] = {}
        """Asks that wait for their answer, by the call id that went over the wire."""
        self.suspended: dict[str, Ask | None] = {}
        """Asks that are answered by `approval_resume`, by its token; None once that has come."""
        self._version = version
        self._out: list[bytes] = []
        self._turns: dict[str, bytes] = {}
        """Turns that were accepted and have not ended, each with the end of its text frames."""
        self._ended: set[str] = set()
        self._running: dict[str, str] = {}
        """Calls that run: their tool's name."""
        self._ready = False
        self._session = ""
        self._abilities = abilities or Abilities()
        self._mode = "default"
        self._model = ""

    def take(self) -> bytes:
        """The bytes written since the last time."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    @property
    def busy(self) -> bool:
        """A turn was accepted and has not ended."""
        return bool(self._turns)

    def says(self, kind: str) -> bool:
        """Whether events of this kind may be written: always, or while a flag is on."""
        flags = FAMILIES.get(kind, ())
        return not flags or any(self._abilities.extras.get(flag) for flag in flags if flag in FLAGS[self._version])

    def say(self, frame: shapes.Frame) -> None:
        self.note(frame)
        sort: Literal["deterministic"] | None = "deterministic" if SORTS_MAPS[self._version] else None
        self._out.append(line_limit.line(msgspec.to_builtins(frame, order=sort), MAX_FRAME))

    def note(self, frame: shapes.Frame) -> None:
        """Our end says this, here or by other means."""
        match frame:
            case shapes.Ready(session_id=session) | shapes.OldReady(session_id=session):
                self._ready = True
                self._session = session or ""
            case shapes.StreamStart(msg_id):
                self.open(msg_id)
            case shapes.StreamEnd(msg_id) | shapes.OldStreamEnd(msg_id):
                self._turns.pop(msg_id, None)
                self._ended.add(msg_id)
            case shapes.ToolRequest(call_id=call_id):
                self.asks.setdefault(call_id, questions.ask_of(frame))
            case shapes.ToolRunning(call_id=call_id, tool_name=name):
                self._running[call_id] = name
            case shapes.ToolResult(call_id=call_id) | shapes.ToolCancelled(call_id=call_id):
                self._running.pop(call_id, None)
                self.asks.pop(call_id, None)
            case families.ApprovalRequired(resume_token=token) if token:
                self.suspended.setdefault(token, questions.suspended_of(frame))
            case families.ApprovalResumed(token):
                self.suspended.pop(token, None)

    def note_abilities(self, abilities: Abilities, mode: str) -> None:
        self._abilities = abilities
        self._mode = mode

    # What is also said in answer to commands.

    def open(self, turn: str) -> None:
        """From now on there may be frames with this msg_id."""
        self._turns.setdefault(turn, b',"msg_id":' + quote(turn) + b"}\n")
        self._ended.discard(turn)

    def error(self, fault: shapes.Fault, msg_id: str | None = None) -> None:
        shape = shapes.OldError if NULL_MSG_ID[self._version] else shapes.Error
        self.say(shape(msg_id=msg_id, error=fault))

    def refuse(self, fault: shapes.Fault, msg_id: str = "") -> None:
        """Something came to nothing and no turn ends by it, so it must not look as if one did."""
        if self._turns and ERRORS_END_TURNS[self._version]:
            self.say(shapes.Info(msg_id, fault.message))
        else:
            self.error(fault, msg_id or None)

    def stream_end(self, turn: str, reason: str, usage: Usage) -> None:
        said = events.usage(usage)
        finish = FINISH_REASONS[self._version].get(reason)
        self.say(shapes.StreamEnd(turn, finish, said) if finish else shapes.OldStreamEnd(turn, said))

    def server_failed(self, name: str, reason: str, *, explained: bool = False) -> None:
        if SAYS_MCP_FAILED[self._version]:
            self.say(shapes.McpFailed(name, reason))
            return
        if not explained:
            self.say(shapes.Info("", f"The MCP server {name} could not be used: {reason}"))
        self.say(shapes.McpReady(name, []))

    # What many events share.

    def _info(self, event: Event, message: str) -> None:
        self.say(shapes.Info(self._turn(event), message))

    def _turn(self, event: Event) -> str:
        """Nothing carries the msg_id of a turn that has ended: hosts would take it for a new beginning."""
        return event.turn if event.turn in self._turns else ""

    def _capabilities(self, *, complete: bool) -> dict[str, object]:
        return capabilities(
            self._version,
            approval=self._abilities.approval,
            thinking=self._abilities.thinking,
            effort_levels=self._abilities.effort_levels,
            modes=self._abilities.modes,
            mode=self._mode,
            mcp=self._abilities.mcp,
            model=self._model if complete else "",
            extras=self._abilities.extras,
            complete=complete,
        )


def quote(text: str) -> bytes:
    try:
        return jsonl.armour(_encode(text))
    except UnicodeEncodeError:  # a lone surrogate
        return jsonl.dump(text)[:-1]
