"""The host's end of the omp wire: lines to events, commands to lines. Drives omp 13, omp 18, pi and our engine side.

The id of a prompt is the id of its turn. Prompts wait in a queue while a turn runs. The codec asks for the state
(`get_state`) by itself: to learn the session and the model, and where an engine does not say whether a turn is over.
Every command with a ref gets one `Reply`: from the engine's response, or a refusal if the wire has no frame for it.
The SDK makes one `HostSide` a connection.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from polylect.dialects.base import Env
from polylect.dialects.host_base import ENGINE_GONE, Refusal, accepted, inexpressible, refuse_to_agent
from polylect.dialects.host_codec import HostCodec
from polylect.dialects.omp.frames import commands as requests
from polylect.dialects.omp.frames import read as reading
from polylect.dialects.omp.frames.table import VERSIONS
from polylect.dialects.omp.host import answers as host_answers
from polylect.dialects.omp.host import encode
from polylect.dialects.omp.host.answers import Read
from polylect.dialects.omp.host.chunks import Chunks
from polylect.dialects.omp.host.decode import EventReader
from polylect.dialects.omp.host.dialogs import How
from polylect.dialects.omp.host.fields import Fields
from polylect.dialects.omp.host.replies import PendingCommand, Replies
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.wire import jsonl

_UPDATE = b'{"type":"message_update"'
_PARTIAL_ANSWERS = {"cost": host_answers.ledger, "context": host_answers.context}
"""Queries whose answer is a part of the response to another command."""


class _Delta(msgspec.Struct):
    type: str
    delta: str = ""


class _Update(msgspec.Struct):
    assistantMessageEvent: _Delta  # noqa: N815  # read past the message so far, which may be large


_quick = msgspec.json.Decoder(_Update)


class HostSide(HostCodec):
    """The host's end of one connection. `version` is 13, 18 or pi; `max_line` the longest line that is read."""

    def __init__(self, env: Env, *, version: str = VERSIONS[0], max_line: int = jsonl.MAX_LINE) -> None:
        super().__init__(env, max_line)
        self._version = version
        self._reader = EventReader(env)
        self._tracker = self._reader.tracker
        self._replies = Replies(self._reader, version)
        self._internal_requests = 0
        self._aborted: set[str] = set()
        """Turns that were told to stop."""
        self._context: list[str] = []
        """Texts of `AddContext`, sent before the text of the next prompt."""
        self._chunks = Chunks(max_line)
        self._ready = False

    # The interface of a codec.

    def start(self) -> list[e.Event]:
        """pi writes no `ready`, so the state is asked for instead."""
        if self._version == "pi":
            self._ask_state()
        return []

    def receive(self, data: bytes) -> list[e.Event]:
        events = super().receive(data)
        if self._reader.needs_state or (self._tracker.needs_state and not self._replies.asks_state):
            self._ask_state()
        return events

    def due(self) -> int | None:
        return self._reader.dialogs.due()

    def wake(self) -> list[e.Event]:
        return self._complete(self._reader.dialogs.start_due())

    def _engine_gone(self) -> list[e.Event]:
        waiting = [e.TurnEnded("error", failure=ENGINE_GONE, turn=prompt.turn) for prompt in self._queue.drop()]
        return [*self._tracker.engine_gone(ENGINE_GONE), *waiting]

    def _handle(self, command: c.Command) -> list[e.Event]:
        handler = _HANDLERS.get(type(command))
        if handler is None:
            raise inexpressible("omp", command)
        return handler(self, command)

    def note_sent(self, data: bytes) -> list[e.Event]:
        received = [reading.read(line) for line in self._own_lines.feed(data)]
        frames = [frame for frame in received if isinstance(frame, reading.Received)]
        return [event for frame in frames for event in self._complete(self._note_received(frame))]

    # Lines of the engine.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[e.Event]:
        late = self._complete(self._reader.dialogs.overdue())
        if isinstance(line, jsonl.TooLong):
            return [*late, *self._malformed(line.start, f"the line is longer than {line.limit} bytes")]
        delta = self._plain_delta(line)
        return [*late, *(self._complete(delta) if delta else self._decode(line))]

    def _plain_delta(self, line: bytes) -> list[e.Event]:
        """Read a delta without decoding the message so far, which every delta repeats twice."""
        if not line.startswith(_UPDATE) or not self._tracker.turn:
            return []
        try:
            update = _quick.decode(line).assistantMessageEvent
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return []
        if update.type not in ("text_delta", "thinking_delta"):
            return []
        self.outcomes["known"] += 1
        return self._reader.main.delta(update.type, update.delta)

    def _decode(self, line: bytes) -> list[e.Event]:
        try:
            frame = jsonl.parse(line)
            kind = frame.get("type")
            if not isinstance(kind, str) or not kind:
                raise ValueError('the object has no "type" that is a string')
            if kind == "rpc_chunk":
                whole = self._chunks.add(frame)
                return self._decode(whole) if whole is not None else []
            self._chunks.reset()
            events = self._read_frame(kind, frame, line)
        except ValueError as error:
            return self._malformed(line, str(error))
        return self._complete(self._follow(events))

    def _read_frame(self, kind: str, frame: Fields, line: bytes) -> list[e.Event]:
        is_known = kind in ("ready", "response") or self._reader.knows(kind)
        self.outcomes["known" if is_known else "unknown"] += 1
        match kind:
            case "ready":
                return self._engine_ready(frame)
            case "response":
                return self._response(frame)
            case _ if is_known:
                return self._reader.read(kind, frame)
            case _:
                return [e.UnknownEvent(kind, line)]

    def _engine_ready(self, frame: Fields) -> list[e.Event]:
        self._reader.needs_state = True
        versions = frame.get("supportedProtocolVersions")
        if isinstance(versions, list) and 2 in versions:  # then large frames come in pieces instead of shortened
            self._reader.dialogs.may_follow_starts = True
            self._request(requests.NegotiateProtocol(protocol_version=2), PendingCommand())
            self._request(requests.SetSubagentSubscription(level="events"), PendingCommand())
            self._request(requests.SetAskDialog(enabled=True), PendingCommand())  # no release of omp knows it yet
        return [e.Ready()]

    def _response(self, response: Fields) -> list[e.Event]:
        events = self._replies.receive(response)
        for frame, pending in self._replies.to_request:
            self._request(frame, pending)
        self._replies.to_request.clear()
        for turn in self._replies.not_taken:
            self._release(self._queue.ended(turn))
        self._replies.not_taken.clear()
        for turn in self._replies.too_early:
            self._queue.requeue(turn)
            self._tracker.needs_state = True
        self._replies.too_early.clear()
        state, self._replies.state = self._replies.state, None
        return events if state is None else [*self._apply_state(state), *events]

    def _apply_state(self, data: Fields) -> list[e.Event]:
        state = host_answers.state(data)
        settings = self._reader.settings(data, whole=True)
        ready: list[e.Event] = []
        if not self._ready:  # `Ready` has these two
            ready = [e.Ready(model=state.model, session=state.session)]
            settings = [change for change in settings if change.key not in ("model", "session")]
        busy = state.busy or state.compacting
        ended = self._tracker.state(busy=busy)
        idle = not (busy or state.queued or self._tracker.turn or self._tracker.sent)
        if idle and self._ready:
            self._release(self._queue.ready())
        return [*ready, *settings, *ended, *([e.Settled()] if idle else [])]

    def _follow(self, events: Iterable[e.Event]) -> Iterator[e.Event]:
        """Pass events on, and send the prompts whose time has come."""
        for event in events:
            if isinstance(event, (e.ToolOutput, e.ToolFinished)):
                yield from self._reader.dialogs.start(event.call)
            match event:
                case e.Ready():
                    self._ready = True
                    yield event
                    self._release(self._queue.ready())
                case e.TurnStarted():
                    self._settled = False
                    self._queue.began(event.turn)
                    yield event
                    if event.turn in self._tracker.unwanted:
                        self._tracker.unwanted.discard(event.turn)
                        self._aborted.add(event.turn)
                        self._request(requests.Abort(), PendingCommand())
                    self._release(self._queue.ready())  # a tape may begin after `ready`
                case e.TurnEnded():
                    yield event
                    self._aborted.discard(event.turn)
                    self._reader.dialogs.end_turn(event.turn)
                    self._release(self._queue.ended(event.turn))
                case e.ToolStarted() if self._reader.dialogs.holds(event):
                    pass
                case e.ToolFinished(call, outcome="error") if call in self._reader.dialogs.denied:
                    yield replace(event, outcome="denied")
                case e.ToolFinished(outcome="error", turn=turn) if turn in self._aborted:  # pi has one word for both
                    yield replace(event, outcome="cancelled")
                case e.Settled() if self._settled or self._queue.running:
                    pass
                case e.Settled():
                    self._settled = True
                    yield event
                case _:
                    yield event

    # Frames.

    def _request(self, frame: requests.Request, pending: PendingCommand, read: Read | None = None) -> None:
        id = pending.ref if pending.ref and pending.ref not in self._replies else self._internal_id()
        self._write(replace(frame, id=id), id, pending, read)

    def _internal_id(self) -> str:
        """Not from `Env`, so that the ids of turns do not depend on how often the codec asks for the state."""
        self._internal_requests += 1
        return f"own-{self._internal_requests}"

    def _write(self, frame: requests.Request, id: str, pending: PendingCommand, read: Read | None = None) -> None:
        self._out.append(jsonl.dump(frame))
        self._note(frame, id, pending, read)

    def _note(self, frame: requests.Request, id: str, pending: PendingCommand, read: Read | None = None) -> None:
        self._replies.expect(id, frame, pending, read)
        match frame:
            case requests.Prompt() | requests.AbortAndPrompt():
                if isinstance(frame, requests.AbortAndPrompt):
                    self._tracker.stopped = bool(self._tracker.turn)
                self._tracker.sent.append(id)
                self._queue.began(id)
            case requests.Steer(text):
                self._reader.main.steers.append((text, "steer"))
            case requests.FollowUp(text):
                self._reader.main.steers.append((text, "follow_up"))
            case requests.Abort():
                self._tracker.stop()
            case requests.Compact():
                self._reader.compacted = False

    def _note_received(self, received: reading.Received) -> list[e.Event]:
        match received.frame:
            case requests.ExtensionUIResponse() as frame:
                return self._note_answer(frame)
            case requests.Request() as frame:
                id = received.id if isinstance(received.id, str) else self._env.new_id()
                self._note(frame, id, PendingCommand(ref=id))
        return []

    def _note_answer(self, frame: requests.ExtensionUIResponse) -> list[e.Event]:
        reason = frame.reason if isinstance(frame.reason, str) else ""
        ask = self._reader.dialogs.open.get(frame.id)
        how: How = "answered"
        if frame.cancelled is True:
            how = "cancelled"
        elif frame.confirmed is False:
            how = "denied"
        elif ask and ask.kind == "permission":
            no = [option.label for option in ask.options if option.kind == "reject_once"]
            how = "denied" if frame.value in no else "allowed"
        return self._reader.dialogs.close(frame.id, how, reason)

    def _ask_state(self) -> None:
        self._reader.needs_state = False
        self._request(requests.GetState(), PendingCommand())

    def _release(self, prompts: list[c.Prompt]) -> None:
        for prompt in prompts:
            self._send_prompt(prompt, PendingCommand())

    def _send_prompt(self, prompt: c.Prompt, pending: PendingCommand) -> None:
        images = encode.pictures(prompt.attachments)
        text = "\n\n".join([*self._context, prompt.text])
        self._context.clear()
        # A leading space keeps a slash from being a command.
        text = f" {text}" if prompt.verbatim and text.startswith("/") else text
        shape = requests.AbortAndPrompt if prompt.busy == "interrupt" and self._tracker.turn else requests.Prompt
        self._write(shape(text, images, id=prompt.turn), prompt.turn, pending)

    # Commands.

    def _request_all(
        self, command: c.Command, frames: list[requests.Request], read: Read | None = None
    ) -> list[e.Event]:
        """Send frames for a command, which is answered when all their responses have come."""
        if not frames:
            return accepted(command)
        pending = PendingCommand(ref=command.ref, session=command.session, left=len(frames))
        for frame in frames:
            self._request(frame, pending, read)
        return []

    def _open_session(self, command: c.OpenSession) -> list[e.Event]:
        return self._request_all(command, [encode.open_session(command, self._version)])

    def _prompt(self, command: c.Prompt) -> list[e.Event]:
        if not command.query:
            raise Refusal("omp has no word for a prompt that only adds to the context")
        prompt = self._queue.admit(command, self._env.new_id)
        if prompt.turn in self._replies:
            raise Refusal(f"the id {prompt.turn!r} waits for a response already", "duplicate_turn")
        encode.pictures(prompt.attachments)  # refused now, not when its time has come
        if prompt.busy == "interrupt" and self._tracker.turn:
            return self._interrupt(prompt)
        if prompt in self._queue.add(prompt):
            self._send_prompt(prompt, PendingCommand(ref=command.ref, session=command.session))
            return []
        return accepted(command)

    def _interrupt(self, prompt: c.Prompt) -> list[e.Event]:
        """pi has no `abort_and_prompt`: there the prompt waits for the end of the turn that is stopped."""
        if self._version == "pi":
            self._queue.add(prompt)
            self._request(requests.Abort(), PendingCommand())
            return accepted(prompt)
        self._queue.began(prompt.turn, prompt)
        self._send_prompt(prompt, PendingCommand(ref=prompt.ref, session=prompt.session))
        return []

    def _steer(self, command: c.Steer) -> list[e.Event]:
        if command.idle == "refuse" and not self._queue.running:
            raise Refusal("no turn is running that could be steered; send a prompt", "idle")
        if command.to and self._version == "18":
            return self._request_all(command, [requests.SteerSubagent(command.to, command.text)])
        refuse_to_agent(command)
        images = encode.pictures(command.attachments)
        shape = requests.Steer if command.when == "soon" else requests.FollowUp
        return self._request_all(command, [shape(command.text, images)])

    def _cancel(self, command: c.Cancel) -> list[e.Event]:
        match command.what:
            case "turn" | "prompt":
                return self._cancel_turn(command)
            case "retry":
                return self._request_all(command, [requests.AbortRetry()])
            case "shell":
                return self._request_all(command, [requests.AbortBash()])
            case "agent" if self._version == "18" and command.target:
                return self._request_all(command, [requests.CancelSubagent(command.target)])
            case "steers" if self._version != "18":
                return self._request_all(command, [requests.ClearQueue()])
            case _:
                raise Refusal(f"omp has no word for cancelling a {command.what}")

    def _cancel_turn(self, command: c.Cancel) -> list[e.Event]:
        """`abort` is answered when the turn has ended. Prompts that still wait here end at once."""
        whole = command.what == "turn"
        dropped = self._queue.drop(command.target) if command.target or (command.queued == "drop" or not whole) else []
        ended: list[e.Event] = [e.TurnEnded("cancelled", turn=prompt.turn) for prompt in dropped]
        if whole and self._queue.running and command.target in ("", *self._queue.running):
            self._aborted.update(self._queue.running)
            return [*ended, *self._request_all(command, [requests.Abort()])]
        return [*accepted(command), *ended]

    def _answer(self, command: c.Answer) -> list[e.Event]:
        ask = self._reader.dialogs.open.get(command.ask)
        if ask is None:
            raise Refusal(f"no ask {command.ask!r} waits for an answer", "unknown_ask")
        if command.args not in (None, ask.args):
            raise Refusal("omp has no word for allowing a call with other arguments")
        dialog = self._reader.dialogs.dialog_of(command.ask)
        if frame := encode.questions_answer(command, ask, dialog) if dialog else encode.answer(command, ask):
            self._out.append(jsonl.dump(frame))
            closed = self._note_answer(frame)
        else:
            closed = self._reader.dialogs.close(command.ask, "answered")
        if command.interrupt and command.verdict != "allow" and self._queue.running:
            self._request(requests.Abort(), PendingCommand())
        return [*accepted(command), *closed]

    def _host_reply(self, command: c.HostReply) -> list[e.Event]:
        call = self._reader.host_calls.get(command.call)
        if call is None:
            raise Refusal(f"nothing is asked of the host as {command.call!r}", "unknown_call")
        if not command.partial:
            del self._reader.host_calls[command.call]
        self._out.append(jsonl.dump(encode.host_reply(command, call)))
        return accepted(command)

    def _configure(self, command: c.Configure) -> list[e.Event]:
        return self._request_all(command, encode.configure(command, self._version, self._reader.provider))

    def _add_context(self, command: c.AddContext) -> list[e.Event]:
        self._context.append(command.text)
        return accepted(command)

    def _compact(self, command: c.Compact) -> list[e.Event]:
        if command.busy == "refuse" and self._queue.running:
            raise Refusal("a turn is running: stop it first, or wait for its end", "busy")
        return self._request_all(command, [requests.Compact(command.instructions or msgspec.UNSET)])

    def _query(self, command: c.Query) -> list[e.Event]:
        return self._request_all(command, encode.query(command, self._version), _PARTIAL_ANSWERS.get(command.what))


_HANDLERS: dict[type[c.Command], Callable[[HostSide, Any], list[e.Event]]] = {
    c.Hello: lambda side, command: side._request_all(command, encode.hello(command, side._version)),
    c.Authenticate: lambda side, command: side._request_all(command, encode.authenticate(command, side._version)),
    c.OpenSession: HostSide._open_session,
    c.Prompt: HostSide._prompt,
    c.Steer: HostSide._steer,
    c.ChangeSteer: lambda side, command: side._request_all(command, [encode.change_steer(command, side._version)]),
    c.Cancel: HostSide._cancel,
    c.Answer: HostSide._answer,
    c.HostReply: HostSide._host_reply,
    c.Configure: HostSide._configure,
    c.AddContext: HostSide._add_context,
    c.Compact: HostSide._compact,
    c.RunShell: lambda side, command: side._request_all(command, [encode.run_shell(command)]),
    c.Query: HostSide._query,
}
