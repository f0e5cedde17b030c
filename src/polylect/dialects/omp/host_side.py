"""The host's end: bytes to events, commands to bytes. Drives omp 13, omp 18, pi and our own engine side.

The id of a prompt is its turn. The codec asks for the state by itself: to learn the session and the model, and where an
engine does not say whether a turn is over.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from polylect.dialects.base import Env
from polylect.dialects.hold import Hold
from polylect.dialects.omp import host_answers, host_words, reading, requests
from polylect.dialects.omp.frames import VERSIONS
from polylect.dialects.omp.host_answers import Read
from polylect.dialects.omp.host_chunks import Chunks
from polylect.dialects.omp.host_dialogs import How
from polylect.dialects.omp.host_fields import Found
from polylect.dialects.omp.host_reader import EventReader
from polylect.dialects.omp.host_replies import Asked, Replies
from polylect.dialects.omp.host_words import Refusal
from polylect.dialects.ration import Ration
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.complete import Completer
from polylect.vocab.content import Failure
from polylect.wire import jsonl

_UPDATE = b'{"type":"message_update"'
_QUIETLY = {"cost": host_answers.ledger, "context": host_answers.context}
"""Questions whose answer is a part of another's."""


class _Delta(msgspec.Struct):
    type: str
    delta: str = ""


class _Update(msgspec.Struct):
    assistantMessageEvent: _Delta  # noqa: N815  # read past the message so far, which may be large


_quick = msgspec.json.Decoder(_Update)


class HostSide:
    def __init__(self, env: Env, *, version: str = VERSIONS[0], max_line: int = jsonl.MAX_LINE) -> None:
        self._env = env
        self._version = version
        self._lines = jsonl.Splitter(max_line)
        self._own_lines = jsonl.Splitter(max_line)
        self._chunks = Chunks(max_line)
        self._out: list[bytes] = []
        self._reader = EventReader(env)
        self._runs = self._reader.runs
        self._replies = Replies(self._reader, version)
        self._completer = Completer(env.new_id)
        self._hold = Hold()
        self._context: list[str] = []
        """What is to be said before the next prompt."""
        self._settled = True
        self._ready = False
        self.outcomes: Counter[str] = Counter()
        """How many lines were known, unknown and malformed."""
        self._ration = Ration(env.now)
        self._log: list[str] = []

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
        failure = Failure("engine_gone", "the engine went away before the turn ended", "engine")
        gone = self._runs.gone(failure)
        waiting = [e.TurnEnded("error", failure=failure, turn=prompt.turn) for prompt in self._hold.drop()]
        return [*heard, *self._complete([*gone, *waiting]), *self._completer.close()]

    def send(self, command: c.Command) -> list[e.Event]:
        say = _WORDS.get(type(command))
        try:
            if say is None:
                raise Refusal(f"omp has no word for {type(command).__name__}")
            follows = say(self, command)
        except Refusal as refusal:
            failure = Failure(refusal.code, str(refusal), "host")
            return [e.Reply(command.ref, failure=failure, session=command.session)]
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
        """What is worth logging since the last time: malformed lines, a few a minute. Never an unknown one."""
        lines, self._log = self._log, []
        return lines

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
        except msgspec.MsgspecError:
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
        self.outcomes["malformed"] += 1
        if (passed_over := self._ration.take()) is not None:
            more = f" ({passed_over} like it were passed over)" if passed_over else ""
            self._log.append(f"not an event: {why}: {line[:200]!r}{more}")
        return self._completer.add(e.MalformedEvent(line, why))

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
            self._release(self._hold.ended(turn))
        self._replies.not_taken.clear()
        state, self._replies.state = self._replies.state, None
        return events if state is None else [*self._state_told(state), *events]

    def _state_told(self, found: Found) -> list[e.Event]:
        state = host_answers.state(found)
        ready = [] if self._ready else [e.Ready(model=state.model, session=state.session)]
        busy = state.busy or state.compacting
        ended = self._runs.state(busy=busy)
        idle = not (busy or state.queued or self._runs.turn or self._runs.sent)
        return [*ready, *self._reader.settings(found), *ended, *([e.Settled()] if idle else [])]

    def _follow(self, events: Iterable[e.Event]) -> Iterator[e.Event]:
        """What an event means for the prompts that wait."""
        for event in events:
            match event:
                case e.Ready():
                    self._ready = True
                    yield event
                    self._release(self._hold.ready())
                case e.TurnStarted():
                    self._settled = False
                    self._hold.began(event.turn)
                    yield event
                    self._release(self._hold.ready())  # a tape may begin after `ready`
                case e.TurnEnded():
                    yield event
                    self._reader.dialogs.end_turn(event.turn)
                    self._release(self._hold.ended(event.turn))
                case e.Settled() if self._settled or self._hold.running:
                    pass
                case e.Settled():
                    self._settled = True
                    yield event
                case _:
                    yield event

    def _complete(self, events: Iterable[e.Event]) -> list[e.Event]:
        return [complete for event in events for complete in self._completer.add(event)]

    # What the host says: written and noted here, or noted because it was said by other means.

    def _request(self, frame: requests.Request, asked: Asked, read: Read | None = None) -> None:
        id = asked.ref if asked.ref and asked.ref not in self._replies else self._env.new_id()
        self._say(replace(frame, id=id), id, asked, read)

    def _say(self, frame: requests.Request, id: str, asked: Asked, read: Read | None = None) -> None:
        self._out.append(jsonl.dump(frame))
        self._note(frame, id, asked, read)

    def _note(self, frame: requests.Request, id: str, asked: Asked, read: Read | None = None) -> None:
        self._replies.expect(id, frame, asked, read)
        match frame:
            case requests.Prompt() | requests.AbortAndPrompt():
                if isinstance(frame, requests.AbortAndPrompt):
                    self._runs.stopped = bool(self._runs.turn)
                self._runs.sent.append(id)
                self._hold.began(id)
            case requests.Steer(text):
                self._reader.lane.steers.append((text, "steer"))
            case requests.FollowUp(text):
                self._reader.lane.steers.append((text, "follow_up"))
            case requests.Abort():
                self._runs.stopped = True
            case requests.Compact():
                self._reader.compacted = False

    def _note_heard(self, heard: reading.Heard) -> list[e.Event]:
        match heard.frame:
            case requests.ExtensionUIResponse() as frame:
                return self._note_answer(frame)
            case requests.Request() as frame:
                id = heard.id if isinstance(heard.id, str) else self._env.new_id()
                self._note(frame, id, Asked(ref=id))
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
        self._reader.curious = False
        self._request(requests.GetState(), Asked())

    def _release(self, prompts: list[c.Prompt]) -> None:
        for prompt in prompts:
            self._hand_over(prompt, Asked())

    def _hand_over(self, prompt: c.Prompt, asked: Asked) -> None:
        images = host_words.pictures(prompt.attachments)
        text = "\n\n".join([*self._context, prompt.text])
        self._context.clear()
        # A leading space keeps a slash from being a command.
        said = f" {text}" if prompt.verbatim and text.startswith("/") else text
        shape = requests.AbortAndPrompt if prompt.busy == "interrupt" and self._runs.turn else requests.Prompt
        self._say(shape(said, images, id=prompt.turn), prompt.turn, asked)

    # Commands.

    def _ask(self, command: c.Command, frames: list[requests.Request], read: Read | None = None) -> list[e.Event]:
        """Answered once all of them are."""
        if not frames:
            return _accepted(command)
        asked = Asked(ref=command.ref, session=command.session, left=len(frames))
        for frame in frames:
            self._request(frame, asked, read)
        return []

    def _hello(self, command: c.Hello) -> list[e.Event]:
        return self._ask(command, host_words.hello(command, self._version))

    def _authenticate(self, command: c.Authenticate) -> list[e.Event]:
        return self._ask(command, host_words.authenticate(command, self._version))

    def _open_session(self, command: c.OpenSession) -> list[e.Event]:
        return self._ask(command, [host_words.open_session(command, self._version)])

    def _prompt(self, command: c.Prompt) -> list[e.Event]:
        prompt = command if command.turn else replace(command, turn=self._env.new_id())
        if not prompt.query:
            raise Refusal("omp has no word for a prompt that only adds to the context")
        if prompt.turn in self._hold or prompt.turn in self._replies:
            raise Refusal(f"a turn {prompt.turn!r} is under way already", "duplicate_turn")
        if prompt.busy == "refuse" and self._hold.running:
            raise Refusal("a turn is running", "busy")
        host_words.pictures(prompt.attachments)  # refused now, not when its time has come
        if prompt.busy == "interrupt" and self._runs.turn:
            return self._interrupt(prompt)
        if prompt in self._hold.add(prompt):
            self._hand_over(prompt, Asked(ref=command.ref, session=command.session))
            return []
        return _accepted(command)

    def _interrupt(self, prompt: c.Prompt) -> list[e.Event]:
        """pi cannot stop and go on in one word."""
        if self._version == "pi":
            self._hold.add(prompt)
            self._request(requests.Abort(), Asked())
            return _accepted(prompt)
        self._hand_over(prompt, Asked(ref=prompt.ref, session=prompt.session))
        return []

    def _steer(self, command: c.Steer) -> list[e.Event]:
        if command.idle == "refuse" and not self._hold.running:
            raise Refusal("no turn is running that could be steered; send a prompt", "idle")
        images = host_words.pictures(command.attachments)
        shape = requests.Steer if command.when == "soon" else requests.FollowUp
        return self._ask(command, [shape(command.text, images)])

    def _cancel(self, command: c.Cancel) -> list[e.Event]:
        match command.what:
            case "turn" | "prompt":
                return self._cancel_turn(command)
            case "retry":
                return self._ask(command, [requests.AbortRetry()])
            case "shell":
                return self._ask(command, [requests.AbortBash()])
            case "steers" if self._version != "18":
                return self._ask(command, [requests.ClearQueue()])
            case _:
                raise Refusal(f"omp has no word for cancelling a {command.what}")

    def _cancel_turn(self, command: c.Cancel) -> list[e.Event]:
        """`abort` is answered once the turn has ended. What waits here was never said."""
        whole = command.what == "turn"
        dropped = self._hold.drop(command.target) if command.target or (command.queued == "drop" or not whole) else []
        ended: list[e.Event] = [e.TurnEnded("cancelled", turn=prompt.turn) for prompt in dropped]
        if whole and self._hold.running and command.target in ("", *self._hold.running):
            return [*ended, *self._ask(command, [requests.Abort()])]
        return [*_accepted(command), *ended]

    def _answer(self, command: c.Answer) -> list[e.Event]:
        ask = self._reader.dialogs.open.get(command.ask)
        if ask is None:
            raise Refusal(f"no ask {command.ask!r} waits for an answer", "unknown_ask")
        if command.args not in (None, ask.args):
            raise Refusal("omp has no word for allowing a call with other arguments")
        frame = host_words.answer(command, ask)
        self._out.append(jsonl.dump(frame))
        closed = self._note_answer(frame)
        if command.interrupt and command.verdict != "allow" and self._hold.running:
            self._request(requests.Abort(), Asked())
        return [*_accepted(command), *closed]

    def _host_reply(self, command: c.HostReply) -> list[e.Event]:
        call = self._reader.host_calls.get(command.call)
        if call is None:
            raise Refusal(f"nothing is asked of the host as {command.call!r}", "unknown_call")
        if not command.partial:
            del self._reader.host_calls[command.call]
        self._out.append(jsonl.dump(host_words.host_reply(command, call)))
        return _accepted(command)

    def _configure(self, command: c.Configure) -> list[e.Event]:
        return self._ask(command, host_words.configure(command, self._version, self._reader.provider))

    def _add_context(self, command: c.AddContext) -> list[e.Event]:
        self._context.append(command.text)
        return _accepted(command)

    def _compact(self, command: c.Compact) -> list[e.Event]:
        if command.busy == "refuse" and self._hold.running:
            raise Refusal("a turn is running: stop it first, or wait for its end", "busy")
        return self._ask(command, [requests.Compact(command.instructions or msgspec.UNSET)])

    def _run_shell(self, command: c.RunShell) -> list[e.Event]:
        return self._ask(command, [requests.Bash(command.command)])

    def _query(self, command: c.Query) -> list[e.Event]:
        return self._ask(command, host_words.query(command, self._version), _QUIETLY.get(command.what))


_WORDS: dict[type[c.Command], Callable[[HostSide, Any], list[e.Event]]] = {
    c.Hello: HostSide._hello,
    c.Authenticate: HostSide._authenticate,
    c.OpenSession: HostSide._open_session,
    c.Prompt: HostSide._prompt,
    c.Steer: HostSide._steer,
    c.Cancel: HostSide._cancel,
    c.Answer: HostSide._answer,
    c.HostReply: HostSide._host_reply,
    c.Configure: HostSide._configure,
    c.AddContext: HostSide._add_context,
    c.Compact: HostSide._compact,
    c.RunShell: HostSide._run_shell,
    c.Query: HostSide._query,
}


def _accepted(command: c.Command) -> list[e.Event]:
    return [e.Reply(command.ref, session=command.session)] if command.ref else []
