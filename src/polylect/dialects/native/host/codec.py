"""The host's end of the native wire: lines to events, commands to lines.

Events arrive as the engine emitted them, so nothing has to be rebuilt; they still pass a `Completer`, one for each
session, because an engine that is killed leaves turns open. A line that was received before, as its number tells, is
dropped: that is how a host that attaches again gets every event once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Union

import msgspec
from msgspec.structs import replace

from polylect.dialects.base import Env
from polylect.dialects.host_base import ENGINE_GONE, Refusal
from polylect.dialects.host_codec import HostCodec
from polylect.dialects.native.frames import ENVELOPE, Attach
from polylect.dialects.native.versions import MAX_FRAME, VERSIONS
from polylect.vocab import json_form
from polylect.vocab.commands import CloseSession, Command, Hello, Prompt
from polylect.vocab.events import Event, Ready, Reply, SettingChanged, TurnEnded, UnknownEvent
from polylect.vocab.grammar.complete import Completer
from polylect.wire import jsonl

_TOO_LONG = f"a line of the native wire holds at most {MAX_FRAME} bytes; put the text into a file and attach its path"
_decode = msgspec.json.Decoder(Union[tuple(json_form.EVENTS.values())]).decode  # noqa: UP007  (made of a table)
_encode = msgspec.json.Encoder().encode
_SEQ = b'{"seq":'


class HostSide(HostCodec):
    """The host's end of one connection.

    Options beside `version` and `max_line`:

    stream, after   of the last event that this host has seen: it attaches, and gets all that followed
    """

    carries_client_services = True
    carries_prompt_options = True

    def __init__(
        self,
        env: Env,
        *,
        version: str = VERSIONS[0],
        max_line: int = jsonl.MAX_LINE,
        stream: str = "",
        after: int = 0,
    ) -> None:
        super().__init__(env, max_line, hold=False)
        self.stream = stream
        """The id of the engine's numbers, from its `ready`."""
        self._session = ""
        self._last: defaultdict[str, int] = defaultdict(int, {"": after})
        self._completers: defaultdict[str, Completer] = defaultdict(partial(Completer, env.new_id))
        self._completers[""] = self._completer
        self._prompts: dict[str, Prompt] = {}
        """Prompts that were sent and whose turns have not ended, by turn."""
        self._closing: dict[str, str] = {}
        """Further sessions that are being closed, by the ref of the command."""

    def last(self, session: str = "") -> int:
        """The number of the last event of a session that was received; 0 for none."""
        return self._last[self._key(session)]

    # The interface of a codec.

    def start(self) -> list[Event]:
        """Says hello, so that the engine tells its tools and commands, and takes MCP servers at any time."""
        self._out.append(jsonl.dump(Hello("polylect")))
        if after := self._last[""]:
            self._out.append(jsonl.dump(Attach(after=after, stream=self.stream)))
        return []

    def receive_eof(self) -> list[Event]:
        received = super().receive_eof()
        others = [completer for session, completer in self._completers.items() if session]
        return [*received, *(event for completer in others for event in completer.close())]

    def _engine_gone(self) -> Iterator[Event]:
        for prompt in list(self._prompts.values()):
            yield TurnEnded("error", failure=ENGINE_GONE, turn=prompt.turn, session=prompt.session)

    def _handle(self, command: Command) -> list[Event]:
        if isinstance(command, Prompt) and not command.turn:
            command = replace(command, turn=self._env.new_id())
        line = jsonl.dump(json_form.encodable(command))
        if len(line) > MAX_FRAME:
            raise Refusal(_TOO_LONG, "too_long")
        self._note(command)
        self._out.append(line)
        return []

    def note_sent(self, data: bytes) -> list[Event]:
        for line in self._own_lines.feed(data):
            if isinstance(line, bytes):
                self._note(json_form.command_of_json(line))
        return []

    def _note(self, command: Command) -> None:
        if isinstance(command, Prompt):
            self._prompts.setdefault(command.turn, command)
        elif isinstance(command, CloseSession) and command.session and command.ref:
            self._closing[command.ref] = command.session

    # Lines of the engine.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[Event]:
        if isinstance(line, jsonl.TooLong):
            return self._malformed(line.start, f"the line is longer than {line.limit} bytes")
        try:
            number, event = self._read(line)
        except ValueError as error:
            return self._malformed(line, str(error))
        self.outcomes["unknown" if isinstance(event, UnknownEvent) else "known"] += 1
        key = self._key(event.session)
        if 0 < number <= self._last[key]:
            return []
        self._last[key] = number or self._last[key]
        self._follow(event)
        events = self._complete([event])
        if isinstance(event, Reply) and (closed := self._closing.pop(event.ref, "")) and not event.failure:
            self._last.pop(closed, None)  # if it is opened again, its events are numbered from 1
            self._completers.pop(closed, None)
        return events

    def _read(self, line: bytes) -> tuple[int, Event]:
        """The number and the event of a line. Raises ValueError.

        The quick way is for a line that our own encoder would write in the same way, so that it can have no field that
        is not known here.
        """
        if line.startswith(_SEQ) and (number := line[len(_SEQ) : (cut := line.find(b",", len(_SEQ)))]).isdigit():
            try:
                event: Event = _decode(line)
                if jsonl.escape_separators(_encode(json_form.encodable(event)))[1:] == line[cut + 1 :]:
                    return int(number), event
            except (msgspec.DecodeError, RecursionError):
                pass  # `_read_fields` finds out what is wrong
        return self._read_fields(line)

    def _read_fields(self, line: bytes) -> tuple[int, Event]:
        fields = jsonl.parse(line)
        envelope: dict[str, Any] = {key: fields.pop(key) for key in ENVELOPE if key in fields}
        event = json_form.event_from(fields, line)
        if isinstance(event, Ready) and not self._session:  # not that of a further session
            self.stream = str(envelope.get("stream", ""))
            self._session = event.session
        number = envelope.get("seq", 0)
        if not isinstance(number, int):
            raise ValueError(f"seq is a whole number, not {number!r}")
        return number, event

    def _follow(self, event: Event) -> None:
        match event:
            case TurnEnded(turn=turn):
                self._prompts.pop(turn, None)
            case SettingChanged("session", str(session)):
                self._session = session
            case Reply(ref, failure=failure) if failure and ref:
                refused = [turn for turn, prompt in self._prompts.items() if prompt.ref == ref]
                for turn in refused:
                    del self._prompts[turn]

    def _key(self, session: str) -> str:
        return "" if session == self._session else session

    def _complete(self, events: Iterable[Event]) -> list[Event]:
        return [complete for event in events for complete in self._completers[self._key(event.session)].add(event)]
