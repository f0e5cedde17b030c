"""The host's end: bytes to events, commands to bytes. Drives omp 13, omp 18, pi and our own engine side.

The id of a prompt is its turn. The codec asks for the state by itself: to learn the session and the model, and where an
engine does not say whether a turn is over.
"""

from collections.abc import Iterable, Iterator

import msgspec

from polylect.dialects.base import Env
from polylect.dialects.host_base import ENGINE_GONE, Diagnostics, Refusal, refused
from polylect.dialects.omp.frames import commands as requests
from polylect.dialects.omp.frames import read as reading
from polylect.dialects.omp.frames.table import VERSIONS
from polylect.dialects.omp.host import answers as host_answers
from polylect.dialects.omp.host.chunks import Chunks
from polylect.dialects.omp.host.command_writer import Speaker
from polylect.dialects.omp.host.fields import Found
from polylect.dialects.omp.host.replies import Asked
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.complete import Completer
from polylect.wire import jsonl

_UPDATE = b'{"type":"message_update"'


class _Delta(msgspec.Struct):
    type: str
    delta: str = ""


class _Update(msgspec.Struct):
    assistantMessageEvent: _Delta  # noqa: N815  # read past the message so far, which may be large


_quick = msgspec.json.Decoder(_Update)


class HostSide(Speaker):
    def __init__(self, env: Env, *, version: str = VERSIONS[0], max_line: int = jsonl.MAX_LINE) -> None:
        super().__init__(env, version)
        self._lines = jsonl.Splitter(max_line)
        self._own_lines = jsonl.Splitter(max_line)
        self._chunks = Chunks(max_line)
        self._completer = Completer(env.new_id)
        self._settled = True
        self._ready = False
        self._diagnostics = Diagnostics(env.now)
        self.outcomes = self._diagnostics.outcomes

    # The hinge.

    def start(self) -> list[e.Event]:
        """pi says nothing until it is asked."""
        if self._version == "pi":
            self._ask_state()
        return []

    def receive(self, data: bytes) -> list[e.Event]:
        events = [event for line in self._lines.feed(data) for event in self._hear(line)]
        if self._reader.curious or (self._runs.unsure and not self._replies.asks_state):
            self._ask_state()
        return events

    def receive_eof(self) -> list[e.Event]:
        heard = [event for line in self._lines.end() for event in self._hear(line)]
        gone = self._runs.gone(ENGINE_GONE)
        waiting = [e.TurnEnded("error", failure=ENGINE_GONE, turn=prompt.turn) for prompt in self._queue.drop()]
        return [*heard, *self._complete([*gone, *waiting]), *self._completer.close()]

    def send(self, command: c.Command) -> list[e.Event]:
        try:
            follows = self._speak(command)
        except Refusal as refusal:
            return [refused(command, refusal)]
        return self._complete(follows)

    def data_to_send(self) -> bytes:
        data = b"".join(self._out)
        self._out.clear()
        return data

    def overhear(self, data: bytes) -> list[e.Event]:
        heard = [reading.read(line) for line in self._own_lines.feed(data)]
        known = [frame for frame in heard if isinstance(frame, reading.Heard)]
        return [event for frame in known for event in self._complete(self._note_heard(frame))]

    def to_log(self) -> list[str]:
        return self._diagnostics.to_log()

    # What the engine says.

    def _hear(self, line: bytes | jsonl.TooLong) -> list[e.Event]:
        late = self._complete(self._reader.dialogs.overdue())
        if isinstance(line, jsonl.TooLong):
            return [*late, *self._malformed(line.start, f"the line is longer than {line.limit} bytes")]
        delta = self._plain_delta(line)
        return [*late, *(self._complete(delta) if delta else self._understand(line))]

    def _plain_delta(self, line: bytes) -> list[e.Event]:
        """Deltas carry the whole message so far, twice: it is not even looked at."""
        if not line.startswith(_UPDATE) or not self._runs.turn:
            return []
        try:
            said = _quick.decode(line).assistantMessageEvent
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return []
        if said.type not in ("text_delta", "thinking_delta"):
            return []
        self.outcomes["known"] += 1
        return self._reader.lane.delta(said.type, said.delta)

    def _understand(self, line: bytes) -> list[e.Event]:
        try:
            found = jsonl.parse(line)
            kind = found.get("type")
            if not isinstance(kind, str) or not kind:
                raise ValueError('the object has no "type" that is a string')
            if kind == "rpc_chunk":
                whole = self._chunks.add(found)
                return self._understand(whole) if whole is not None else []
            self._chunks.reset()
            events = self._meaning(kind, found, line)
        except ValueError as error:
            return self._malformed(line, str(error))
        return self._complete(self._follow(events))

    def _meaning(self, kind: str, found: Found, line: bytes) -> list[e.Event]:
        known = kind in ("ready", "response") or self._reader.knows(kind)
        self.outcomes["known" if known else "unknown"] += 1
        match kind:
            case "ready":
                return self._engine_ready(found)
            case "response":
                return self._response(found)
            case _ if known:
                return self._reader.read(kind, found)
            case _:
                return [e.UnknownEvent(kind, line)]

    def _malformed(self, line: bytes, why: str) -> list[e.Event]:
        return self._completer.add(self._diagnostics.malformed(line, why))

    def _engine_ready(self, found: Found) -> list[e.Event]:
        self._reader.curious = True
        versions = found.get("supportedProtocolVersions")
        if isinstance(versions, list) and 2 in versions:  # then large frames come in pieces instead of shortened
            self._request(requests.NegotiateProtocol(protocol_version=2), Asked())
        return [e.Ready()]

    def _response(self, found: Found) -> list[e.Event]:
        events = self._replies.take(found)
        for frame, asked in self._replies.to_ask:
            self._request(frame, asked)
        self._replies.to_ask.clear()
        for turn in self._replies.not_taken:
            self._release(self._queue.ended(turn))
        self._replies.not_taken.clear()
        for turn in self._replies.too_early:
            self._queue.requeue(turn)
            self._runs.unsure = True
        self._replies.too_early.clear()
        state, self._replies.state = self._replies.state, None
        return events if state is None else [*self._state_told(state), *events]

    def _state_told(self, found: Found) -> list[e.Event]:
        state = host_answers.state(found)
        settings = self._reader.settings(found, whole=True)
        ready: list[e.Event] = []
        if not self._ready:  # which says these two
            ready = [e.Ready(model=state.model, session=state.session)]
            settings = [change for change in settings if change.key not in ("model", "session")]
        busy = state.busy or state.compacting
        ended = self._runs.state(busy=busy)
        idle = not (busy or state.queued or self._runs.turn or self._runs.sent)
        if idle and self._ready:
            self._release(self._queue.ready())
        return [*ready, *settings, *ended, *([e.Settled()] if idle else [])]

    def _follow(self, events: Iterable[e.Event]) -> Iterator[e.Event]:
        """What an event means for the prompts that wait."""
        for event in events:
            match event:
                case e.Ready():
                    self._ready = True
                    yield event
                    self._release(self._queue.ready())
                case e.TurnStarted():
                    self._settled = False
                    self._queue.began(event.turn)
                    yield event
                    if event.turn in self._runs.unwanted:
                        self._runs.unwanted.discard(event.turn)
                        self._request(requests.Abort(), Asked())
                    self._release(self._queue.ready())  # a tape may begin after `ready`
                case e.TurnEnded():
                    yield event
                    self._reader.dialogs.end_turn(event.turn)
                    self._release(self._queue.ended(event.turn))
                case e.ToolStarted(call) if call in self._reader.dialogs.denied:
                    pass  # omp says so of every call
                case e.Settled() if self._settled or self._queue.running:
                    pass
                case e.Settled():
                    self._settled = True
                    yield event
                case _:
                    yield event

    def _complete(self, events: Iterable[e.Event]) -> list[e.Event]:
        return [complete for event in events for complete in self._completer.add(event)]
