"""The engine's end of the omp wire: lines of a host to commands, events to lines.

Each command of the wire has one `response`, which is written when our engine has replied. A response waits longer where
omp does it so: `abort` is answered when the turn has ended, `compact` when the compaction has. Commands that concern
only this end (`negotiate_protocol`, `set_event_filter`) are answered here. Serving code makes one `EngineSide` a
connection.
"""

from collections import Counter
from typing import Any

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from polylect.dialects.base import Env
from polylect.dialects.line_codec import LineCodec
from polylect.dialects.omp.engine import decode, dialogs
from polylect.dialects.omp.engine.encode import EventWriter, compaction_result
from polylect.dialects.omp.engine.messages import MessageAuthor
from polylect.dialects.omp.engine.replies import ALWAYS_WITH_DATA, DATA, BadRequest, ReplyContext
from polylect.dialects.omp.frames import commands as r
from polylect.dialects.omp.frames.events import BashExecutionUpdate, Response
from polylect.dialects.omp.frames.read import Bad, Received, Unknown, read
from polylect.dialects.omp.frames.table import VERSIONS
from polylect.vocab import events as e
from polylect.vocab.answers import SessionOpened
from polylect.vocab.commands import (
    AddContext,
    Answer,
    Cancel,
    Command,
    HostReply,
    MalformedCommand,
    OpenSession,
    Prompt,
    Query,
    UnknownCommand,
)
from polylect.vocab.content import Failure
from polylect.wire import jsonl

_BUSY = "The agent is busy: give a streamingBehavior (steer or followUp), or wait for agent_end"

_LOCAL = (r.NegotiateProtocol, r.SetEventFilter, r.SetSubagentSubscription, r.SetFastMode, r.SetAskDialog)
"""Commands that concern only this end of the connection."""
_HANDED_OVER = "This continues an earlier conversation. Its summary:"
_ROOM = 1024
"""What a response needs around data that is encoded already."""


class _Request(Struct, frozen=True):
    """A command that has not been answered: its name, its id, and the turns whose ends its answer waits for."""

    kind: str
    id: Any
    frame: Any
    turn: str = ""
    after: frozenset[str] = frozenset()
    summary: str = ""
    """Of a `handoff`: what the new session begins with."""


class EngineSide(LineCodec[Command]):
    """The engine's end of one connection.

    `version` is 13, 18 or pi; `max_line` the longest line that is read. `slim` leaves `message` and `partial` out of
    updates. `provider`, `api` and `model` are what assistant messages name until the engine says otherwise.
    """

    exit_code = 0

    def __init__(
        self,
        env: Env,
        *,
        version: str = VERSIONS[0],
        max_line: int = jsonl.MAX_LINE,
        slim: bool = False,
        provider: str = "",
        api: str = "",
        model: str = "",
    ) -> None:
        super().__init__(env, max_line)
        self._version = version
        self._writer = EventWriter(env, MessageAuthor(api, provider, model, version), slim=slim)
        self._requests: dict[str, _Request] = {}
        """By ref: two may have the same id, or none."""
        self._turns: dict[str, Any] = {}
        """Turns that were asked for or have begun, and have not ended: the id of the prompt."""
        self._stopped: set[str] = set()
        """Those of them that the host has stopped: its next commands are treated as if they had ended."""
        self._held: list[tuple[_Request, Response]] = []
        """Answers that wait for the end of a turn."""
        self._joined: list[tuple[Any, str]] = []
        """Prompts that joined a turn and have no `prompt_result` yet: id and text. Only 18 reports them."""
        self._waiting: tuple[str, ...] = ()
        """The texts that wait for a turn, as the engine last reported them."""
        self._announces = ""
        """The ref of the query whose answer announces the commands."""
        self._compacting: _Request | None = None
        """The command that the end of a compaction will answer."""

    @property
    def lost(self) -> Counter[str]:
        """How many events the wire had no frame for, by the name of the event."""
        return self._writer.line_writer.lost

    # The interface of a codec.

    def send(self, event: e.Event) -> list[Command]:
        if type(event) is e.TextDelta and not event.agent:  # the most frequent event by far
            self._writer.main.text(event)
            return []
        match event:
            case e.Reply():
                return self._reply(event)
            case e.TurnEnded():
                self._turn_ended(event)
            case e.Ready() if self._version == "18":
                self._writer.write(event)
                self._announces = self._env.new_id()
                return [Query("commands", ref=self._announces)]
            case e.ShellOutput(ref, text) if self._version == "pi" and ref in self._requests:
                self._writer.line_writer.write(BashExecutionUpdate(text, self._requests[ref].id))
            case e.Ask() if not self._writer.ui.ask(event):
                self.lost["Ask"] += 1
                why = f"an omp host cannot show a {event.kind}"
                return [Answer(event.ask, "cancelled", reason=why, session=event.session)]
            case e.HostCall() if not self._writer.ui.host_call(event):
                self.lost["HostCall"] += 1
                why = f"an omp host cannot be asked for {event.method}"
                return [HostReply(event.call, error=why, session=event.session)]
            case e.Ask() | e.HostCall():
                pass
            case _:
                return self._write_event(event)
        return []

    def data_to_send(self) -> bytes:
        return self._writer.data_to_send()

    def due(self) -> int | None:
        """In how many milliseconds `data_to_send` has to be asked again, if something is held back."""
        return self._writer.due()

    def note_sent(self, data: bytes) -> list[Command]:
        for line in self._own_lines.feed(data):
            if isinstance(line, bytes) and line.startswith(b'{"type":"ready"'):
                self._writer.note_ready()
        return []

    # Lines of the host.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[Command]:
        raw = line.start if isinstance(line, jsonl.TooLong) else line
        match read(line):
            case Unknown(kind, id):
                echoed = UNSET if self._version == "13" else id
                self._refuse(kind, echoed, f"Unknown command: {kind[:80]}")
                return [UnknownCommand(kind, raw)]
            case Bad(why, kind, id):
                self._malformed(why, kind, id)
                return [MalformedCommand(raw, why)]
            case received:
                return self._command(received)

    def _malformed(self, why: str, kind: str, id: Any) -> None:
        """13 answers all that makes no sense as `parse` and without an id; the others answer a command they know."""
        if kind and self._version != "13":
            self._refuse(kind, id, why)
        else:
            self._refuse("parse", UNSET, f"Failed to parse command: {why}")

    def _command(self, received: Received) -> list[Command]:
        match received.frame:
            case r.ExtensionUIResponse(id):
                ask = self._writer.ui.asks.pop(id, None)  # late, unknown and second answers are ignored
                return [dialogs.answer(received.frame, ask)] if ask else []
            case r.HostToolResult(id):
                return [decode.tool_reply(received.frame)] if self._writer.ui.host_calls.pop(id, "") else []
            case r.HostUriResult(id):
                return [decode.uri_reply(received.frame)] if self._writer.ui.host_calls.pop(id, "") else []
            case r.HostToolUpdate(id):
                return [decode.tool_update(received.frame)] if id in self._writer.ui.host_calls else []
            case frame if isinstance(frame, _LOCAL):
                self._answer_locally(received)
                return []
            case frame:
                ref = self._env.new_id()
                also = [Cancel("turn", queued="keep")] if isinstance(frame, r.AbortAndRestoreQueue) else []
                return [self._to_command(received, frame, ref), *also]

    def _answer_locally(self, received: Received) -> None:
        """Answer a command that concerns only this end of the connection."""
        try:
            self._succeed(received.kind, received.id, self._apply_locally(received.frame))
        except BadRequest as error:
            self._refuse(received.kind, received.id, str(error))
        if isinstance(received.frame, r.NegotiateProtocol) and received.frame.protocol_version == 2:
            self._writer.line_writer.use_chunks()  # from the next frame on

    def _apply_locally(self, frame: Any) -> dict[str, Any]:
        """Returns the data of the response. Raises BadRequest."""
        match frame:
            case r.NegotiateProtocol(version) if version in (1, 2):
                return {"protocolVersion": version}
            case r.NegotiateProtocol(version):
                raise BadRequest(f"Unsupported RPC protocol version: {version}")
            case r.SetEventFilter():
                return self._writer.filter_events(frame)
            case r.SetAskDialog(enabled):
                self._writer.ui.shows_questions = enabled
                return {"enabled": enabled}
            case r.SetSubagentSubscription(level) if level in decode.LEVELS:
                self._writer.agents.level = level
                return {"level": level}
            case r.SetSubagentSubscription():
                raise BadRequest(f"level is one of {', '.join(decode.LEVELS)}")
            case r.SetFastMode(False):
                return {"enabled": False, "active": False}
            case _:
                raise BadRequest("Fast mode is unavailable for the current model.")

    def _to_command(self, received: Received, frame: Any, ref: str) -> Command:
        turn, after = "", frozenset[str]()
        command: Command | None = None
        match frame:
            case r.Prompt(streaming_behavior=str(behavior)) if self._turns.keys() - self._stopped:
                command = decode.follow_up(frame, ref) if behavior == "followUp" else decode.steer(frame, ref)
            case r.Prompt():
                after, turn = frozenset(self._stopped), self._new_turn(received.id)
                command = Prompt(turn, frame.message, decode.images(frame), "refuse", ref=ref)
            case r.AbortAndPrompt():
                after, turn = self._stop(), self._new_turn(received.id)
                command = Prompt(turn, frame.message, decode.images(frame), "interrupt", ref=ref)
            case r.Abort() | r.AbortAndRestoreQueue():
                after = self._stop()
            case r.Compact():
                self._stop()
        self._requests[ref] = _Request(received.kind, received.id, frame, turn, after)
        if turn:
            self._turns[turn] = received.id
        return command or decode.COMMANDS[type(frame)](frame, ref)

    def _stop(self) -> frozenset[str]:
        self._stopped |= self._turns.keys()
        return frozenset(self._stopped)

    def _new_turn(self, id: Any) -> str:
        """The prompt's own id, if it can be one and is not taken."""
        free = isinstance(id, str) and id and id not in self._turns
        return id if free else self._env.new_id()

    # Replies of the engine, as responses.

    def _reply(self, event: e.Reply) -> list[Command]:
        request = self._requests.pop(event.ref, None)
        if request is None and event.ref == self._announces and event.data:
            return self._write_event(e.SettingChanged("commands", event.data))
        if request is None:
            self.lost["Reply"] += 1
            return []
        if event.failure:
            self._failed(request, event.failure)
            return []
        match request.frame:
            case r.Handoff() if isinstance(event.data, SessionOpened):
                self._requests[ref := self._env.new_id()] = request
                return [AddContext(f"{_HANDED_OVER}\n\n{request.summary}", ref=ref)]
            case r.Handoff() if request.summary:
                self._succeed(request.kind, request.id, None)
            case r.Compact() | r.Handoff():
                self._compacting = request
                self._writer.compact_requested = True
            case r.SetModel() if event.data is None:
                ref = self._env.new_id()
                self._requests[ref] = request
                return [Query("models", ref=ref, session=event.session)]
            case _:
                if isinstance(request.frame, r.Prompt) and not request.turn and self._version == "18":
                    self._joined.append((request.id, request.frame.message))
                self._succeed_with(request, event.data)
        return []

    def _succeed_with(self, request: _Request, data: Any) -> None:
        response_data: Any = UNSET
        if (make := DATA.get(type(request.frame))) and (data is not None or type(request.frame) in ALWAYS_WITH_DATA):
            try:
                response_data = make(ReplyContext(request.frame, self._writer.author, bool(request.turn)), data)
            except BadRequest as error:
                return self._refuse(request.kind, request.id, str(error), error.code)
        if isinstance(response_data, Raw) and len(bytes(response_data)) > self._writer.line_writer.limit - _ROOM:
            return self._refuse(request.kind, request.id, "RPC response exceeded the transport limit")
        response = Response(id=request.id, command=request.kind, success=True, data=response_data)
        if request.after & self._turns.keys():
            self._held.append((request, response))
        else:
            self._writer.line_writer.write(response)

    def _failed(self, request: _Request, failure: Failure) -> None:
        """omp has acknowledged a prompt before it finds out; pi waits until it knows."""
        if request.turn and self._version != "pi":
            self._succeed(request.kind, request.id, UNSET)
        match request.frame:
            case r.CancelSubagent() if failure.code == "unknown_agent":
                return self._succeed(request.kind, request.id, {"cancelled": False})
            case r.Prompt() if failure.code == "busy":
                error = _BUSY
            case r.Handoff() if failure.code == "busy":
                error = "Cannot hand off while a response is in progress"
            case _:
                error = failure.message
        self._refuse(request.kind, request.id, error)
        if request.turn:
            self._forget_turn(request.turn)

    def _turn_ended(self, event: e.TurnEnded) -> None:
        accepted = event.turn in self._turns
        self._writer.end_turn(event, self._turns.get(event.turn, event.turn), accepted=accepted)
        for id, text in self._joined:
            if text not in self._waiting:
                self._writer.end_joined(event, id)
        self._joined = [(id, text) for id, text in self._joined if text in self._waiting]
        self._forget_turn(event.turn)

    def _forget_turn(self, turn: str) -> None:
        """The turn has ended or was refused: write the responses that waited for that."""
        self._turns.pop(turn, None)
        self._stopped.discard(turn)
        held, self._held = self._held, []
        for request, response in held:
            if request.after & self._turns.keys():
                self._held.append((request, response))
            else:
                self._writer.line_writer.write(response)

    def _write_event(self, event: e.Event) -> list[Command]:
        self._writer.write(event)
        match event:
            case e.TurnStarted(turn=turn):
                self._turns.setdefault(turn, UNSET)
                return self._end_compaction(None)
            case e.QueueChanged(_, soon, last):
                self._waiting = (*soon, *last)
            case e.CompactionEnded(agent=""):
                return self._end_compaction(event)
            case e.Settled():
                return self._end_compaction(None)
        return []

    def _end_compaction(self, event: e.CompactionEnded | None) -> list[Command]:
        """Answer the `compact` that waits. Without an event the engine has gone on and never compacted."""
        request, self._compacting = self._compacting, None
        self._writer.compact_requested = False
        if request is None:
            return []
        if event and event.ok and isinstance(request.frame, r.Handoff):
            self._requests[ref := self._env.new_id()] = replace(request, summary=event.summary)
            return [OpenSession("new", ref=ref)]
        if event and event.ok:
            self._succeed(request.kind, request.id, compaction_result(event, self._version))
        else:
            self._refuse(request.kind, request.id, event.error if event else "The conversation was not compacted")
        return []

    # Responses.

    def _succeed(self, kind: str, id: Any, data: Any) -> None:
        self._writer.line_writer.write(Response(id=id, command=kind, success=True, data=data))

    def _refuse(self, kind: str, id: Any, error: str, code: str = "") -> None:
        self._writer.line_writer.write(Response(id=id, command=kind, success=False, error=error, code=code or UNSET))
