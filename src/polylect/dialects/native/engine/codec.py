"""The engine's end of the native wire: lines of a host to commands, events to lines.

Every event gets the next number of its session and is written as it is. A line that is no command is answered: by a
`reply` if it has a `ref`, else by `failed`. Serving code makes one `EngineSide` a connection.
"""

from collections import defaultdict
from typing import Any, Literal

import msgspec

from polylect.dialects import line_limit
from polylect.dialects.base import Env
from polylect.dialects.line_codec import LineCodec
from polylect.dialects.native.engine.event_log import EventLog
from polylect.dialects.native.frames import WIRE_COMMANDS, Attach, WireCommand
from polylect.dialects.native.head import first_line
from polylect.dialects.native.versions import MAX_FRAME, VERSIONS
from polylect.vocab import json_form
from polylect.vocab.commands import CloseSession, Command, MalformedCommand, UnknownCommand
from polylect.vocab.content import Failure
from polylect.vocab.events import Event, Failed, Ready, Reply, SettingChanged, TextDelta, ThinkingDelta
from polylect.vocab.json_words import misfit
from polylect.wire import jsonl

_BY_QUERY = 'The query "messages" has the whole conversation'
_LONG_DELTA = MAX_FRAME // 16
"""Characters of one delta. A longer one is written as several; escaped, a character has up to twelve bytes."""


class _TextLine(msgspec.Struct, omit_defaults=True, gc=False):
    """The line of a `TextDelta` in its plain case."""

    seq: int
    type: Literal["text_delta"]
    text: str
    turn: str = ""


class EngineSide(LineCodec[Command]):
    """The engine's end of one connection. `version` is 1; `max_line` the longest line that is read.

    The events of each session are numbered and kept by an `EventLog`. Those without a session, and those of the session
    that `ready` named, are one.
    """

    exit_code = 0

    def __init__(self, env: Env, *, version: str = VERSIONS[0], max_line: int = jsonl.MAX_LINE) -> None:
        super().__init__(env, max_line)
        self._stream = ""
        self._session = ""
        self._logs: defaultdict[str, EventLog] = defaultdict(EventLog)
        self._main = self._logs[""]
        self._out: list[bytes] = []
        self._texts: list[_TextLine] = []
        """Lines of `_main` that follow `_out` and are in no log yet: see `_send_text`."""
        self._unknown: dict[str, UnknownCommand] = {}
        """Commands of unknown types that wait for their reply, by ref."""
        self._closing: dict[str, CloseSession] = {}
        """Further sessions that are being closed, by the ref of the command; its reply is their last event."""

    # The interface of a codec.

    def send(self, event: Event) -> list[Command]:
        if type(event) is TextDelta:
            self._send_text(event)
        elif isinstance(event, ThinkingDelta):
            self._send_delta(event)
        elif isinstance(event, Ready):
            self._send_head(event)
        else:
            if isinstance(event, SettingChanged) and event.key == "session":
                self._session = str(event.value)
            elif isinstance(event, Reply) and (command := self._unknown.pop(event.ref, None)) and event.failure:
                event = msgspec.structs.replace(event, failure=_unknown_type(command))
            self._write(event)
            if isinstance(event, Reply) and event.ref in self._closing:
                self._closed(event)
        return []

    def _closed(self, reply: Reply) -> None:
        """Forgets the events of a session that was closed, unless that was refused."""
        session = self._closing.pop(reply.ref).session
        if reply.failure is None and session != self._session:
            self._logs.pop(session, None)

    def data_to_send(self) -> bytes:
        self._flush_texts()
        data = b"".join(self._out)
        self._out.clear()
        return data

    def due(self) -> int | None:
        """Nothing is ever held back."""
        return None

    def note_sent(self, data: bytes) -> list[Command]:
        for line in self._own_lines.feed(data):
            if isinstance(line, bytes):
                fields = jsonl.parse(line)
                self._note_head(str(fields.get("stream")), str(fields.get("session", "")), line + b"\n")
        return []

    # Events.

    def _send_text(self, event: TextDelta) -> None:
        """The most frequent event, so the plain case has a path of its own, which writes what `_write` would."""
        text, log = event.text, self._main
        if event.session or event.agent or event.unknown_fields or len(text) > _LONG_DELTA:
            return self._send_delta(event)
        log.last += 1
        self._texts.append(_TextLine(log.last, "text_delta", text, event.turn))

    def _flush_texts(self) -> None:
        """Log texts and put them in line for sending. Comes before anything else is logged or sent."""
        if texts := self._texts:
            lines = jsonl.dump_lines(texts)
            self._main.append(lines, len(texts))
            self._out.append(lines)
            texts.clear()

    def _send_delta(self, event: TextDelta | ThinkingDelta) -> None:
        if len(event.text) <= _LONG_DELTA:
            return self._write(event)
        for piece in line_limit.pieces(event.text, _LONG_DELTA):
            self._write(msgspec.structs.replace(event, text=piece))

    def _send_head(self, event: Ready) -> None:
        if not self._stream:
            self._stream, self._session = self._env.new_id(), event.session
        fields = event.to_dict()
        del fields["type"]
        _, _, line = first_line(self._stream, fields.pop("session", ""), fields).partition(b",")  # without its number
        self._flush_texts()
        self._out.append(self._log(event.session).number(b"{" + line))

    def _note_head(self, stream: str, session: str, line: bytes) -> None:
        self._stream, self._session = stream, session
        self._main.note(line, 1)

    def _write(self, event: Event) -> None:
        encodable = json_form.encodable(event)
        line = jsonl.dump(encodable)
        if len(line) > MAX_FRAME:
            line = line_limit.line(msgspec.to_builtins(encodable), MAX_FRAME - 32)
        self._flush_texts()
        self._out.append(self._log(event.session).number(line))

    def _log(self, session: str) -> EventLog:
        return self._main if session in ("", self._session) else self._logs[session]

    # Lines of the host.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[Command]:
        if isinstance(line, jsonl.TooLong):
            return [self._malformed(line.start, f"the line is longer than {line.limit} bytes", {})]
        fields: dict[str, Any] = {}
        try:
            fields = jsonl.parse(line)
            if kind := WIRE_COMMANDS.get(str(fields.get("type"))):
                self._handle_here(_wire_command(fields, kind))
                return []
            command = json_form.command_from(fields, line)
        except ValueError as error:
            return [self._malformed(line, str(error), fields)]
        if isinstance(command, CloseSession) and command.session and command.ref:
            self._closing[command.ref] = command
        if isinstance(command, UnknownCommand):
            if command.ref:  # whoever passes it on to a newer engine answers it
                self._unknown[command.ref] = command
            else:
                self._refuse("", _unknown_type(command), command.session)
        return [command]

    def _malformed(self, line: bytes, why: str, fields: dict[str, Any]) -> Command:
        ref, session = (text if isinstance(text := fields.get(key), str) else "" for key in ("ref", "session"))
        hint = "" if fields else '. Send one JSON object with a "type" on each line'
        self._refuse(ref, Failure("malformed", f"Invalid command: {why}{hint}", "host"), session)
        return MalformedCommand(line, why)

    def _refuse(self, ref: str, failure: Failure, session: str) -> None:
        self.send(Reply(ref, failure=failure, session=session) if ref else Failed(failure, session=session))

    # Commands about the connection.

    def _handle_here(self, command: WireCommand) -> None:
        if command.session != self._session and command.session not in self._logs:
            message = f"there is no session {command.session!r} here: name one that is open, or none for the first"
            self._refuse(command.ref, Failure("unknown_session", message, "host"), "")
        elif failure := self._attach(command) if isinstance(command, Attach) else None:
            self._refuse(command.ref, failure, command.session)
        elif command.ref:
            self.send(Reply(command.ref, session=command.session))

    def _attach(self, command: Attach) -> Failure | None:
        """Write again what the host has missed."""
        self._flush_texts()
        log = self._log(command.session)
        if command.stream and command.stream != self._stream:
            why = f"the number {command.after} is of another process: this one has the stream {self._stream!r}"
            return Failure("other_stream", f"{why}. Attach after 0. {_BY_QUERY}", "host")
        lines = log.after(command.after) if command.after else log.after(log.first - 1)
        if lines is None:
            why = f"the events {log.first} to {log.last} are kept, not all after {command.after}. Attach after 0"
            return Failure("not_kept", f"{why} for those. {_BY_QUERY}", "host")
        self._out += lines
        return None


def _wire_command(fields: dict[str, Any], kind: type[WireCommand]) -> WireCommand:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{fields['type']}: {misfit(error, kind)}") from None


def _unknown_type(command: UnknownCommand) -> Failure:
    from difflib import get_close_matches  # 3 ms, and only for hosts that misspell

    near = get_close_matches(command.kind[:80], (*json_form.COMMANDS, *WIRE_COMMANDS), n=1)
    hint = f". Did you mean {near[0]}?" if near else ""
    return Failure("unknown_command", f"Unknown command type: {command.kind[:80]}{hint}", "host")
