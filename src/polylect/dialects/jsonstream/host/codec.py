"""The host's end of the json-stream wire: lines to events, commands to lines.

Prompts wait in a queue while a turn runs, because aionrs and wayland-core drop a prompt that comes too early. The wire
has no replies, so a command is answered as soon as it is written, except for those that have a result frame.
The four rules of a decoder in a host: generic JSON first; a line is known, unknown or malformed; unknown fields are
ignored; what an engine says it can do is never a reason to refuse what it does.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from polylect.dialects.base import Env
from polylect.dialects.host_base import ENGINE_GONE, Refusal, accepted, inexpressible, refuse_to_agent
from polylect.dialects.host_codec import HostCodec
from polylect.dialects.jsonstream import asks as asks_format
from polylect.dialects.jsonstream import undocumented_commands
from polylect.dialects.jsonstream.commands import COMMANDS, configure_frames, message_frame, server_frame
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames.read import Bad, Unknown, read_command, read_event
from polylect.dialects.jsonstream.host import undocumented_events
from polylect.dialects.jsonstream.host.decode import EventReader
from polylect.dialects.jsonstream.versions import MAX_FRAME, VERSIONS, WIRE_MODES
from polylect.dialects.provider_failures import provider_failure
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.content import Failure, Rule, Usage
from polylect.wire import jsonl

_DROPPED = Failure("dropped", "the engine dropped it without a word: it may not know one of the values", "engine")
_KEY_REFUSED = ("auth_required", "auth_invalid")
_KEY_DROPPED = re.compile(r"\bNo API key\b|\brequest was not attempted\b")
"""How wayland-core reports that it has dropped its key and asks no model any more."""
_REFUSED = re.compile(
    r"^set_mode: .*refused|^(?:path )?grant refused|"
    r"\b(?:thinking|effort|compaction): (?:ignored invalid|not supported|invalid)"
)
"""How aionrs and wayland-core refuse a command, in an `info`."""
_TOO_LONG = f"a json-stream line holds at most {MAX_FRAME} bytes; put the text into a file and attach its path"


class _Confirmation(Struct):
    """A command that waits for its `pong`. An engine that obeys or refuses it says something before that."""

    ref: str
    session: str
    failure: Failure | None = _DROPPED


class HostSide(HostCodec):
    """The host's end of one conversation.

    Options beside `max_line`:

    version      what the wire is taken for until `ready` shows which one it is (`engine_quirks.py`)
    hold         send one prompt at a time: polylect queues prompts, aionrs and wayland-core drop them
    modes        modes of this engine beyond default, auto_edit and force: polylect has plan and dont_ask
    resumed      the session has a past, so the engine's totals begin with what was used before
    approved, used_before, cost_before   the `memory` of the host side that spoke with the engine before this one
    """

    def __init__(
        self,
        env: Env,
        *,
        version: str = VERSIONS[0],
        max_line: int = jsonl.MAX_LINE,
        hold: bool = True,
        modes: Collection[str] = (),
        resumed: bool = False,
        approved: Collection[str] = (),
        used_before: Usage | None = None,
        cost_before: float | None = 0.0,
    ) -> None:
        super().__init__(env, max_line, hold=hold)
        self._more_modes = {mode: mode for mode in modes}
        unknown = resumed and used_before is None
        used = None if unknown else used_before or Usage()
        self._reader = EventReader(version=version, used_before=used, cost_before=cost_before)
        self._approved = set(approved)
        """Categories that were allowed for good, for engines that forget it."""
        self._context = ""
        """Text for the model that goes with the next prompt, to an engine that has no other place for it."""
        self._steers: set[str] = set()
        """Turns that stand for a steer."""
        self._requests: dict[str, tuple[str, str]] = {}
        """Commands that the engine itself answers: their word and their ref, by the id they were sent with."""
        self._confirmations: list[_Confirmation] = []
        """Of commands that a `pong` confirms, in order."""
        self._status = ""
        """With what HTTP status the model's service last failed since it answered, if the engine says so."""
        self._outage = False
        """Whether the engine gives the turn up because of that, which it reports as a budget that is used up."""

    def memory(self, *, new_session: bool) -> dict[str, Any]:
        used, cost = (Usage(), 0.0) if new_session else (self._reader.used_before, self._reader.cost)
        return {"approved": frozenset(self._approved), "used_before": used, "cost_before": cost}

    @property
    def _version(self) -> str:
        return self._reader.quirks.version

    # The interface of a codec.

    def _engine_gone(self) -> Iterator[e.Event]:
        """A turn that the host stopped was cancelled, also if the engine ends by that. Where another engine goes on
        (`successor`), the prompts that wait are for that one."""
        running = self._queue.running
        stopped = [e.TurnEnded("cancelled", turn=turn) for turn in running if turn in self._reader.stopped]
        waiting = [] if self.successor else [prompt.turn for prompt in self._queue.drop()]
        broken = [] if self.successor else [turn for turn in running if turn not in self._reader.stopped]
        yield from self._reader.flush()
        for ref in self._awaited:
            yield e.Reply(ref, failure=ENGINE_GONE)
        yield from self._follow(stopped)
        for turn in (*broken, *waiting):
            yield e.TurnEnded("error", failure=ENGINE_GONE, turn=turn)

    def _handle(self, command: c.Command) -> list[e.Event]:
        handler = _HANDLERS.get(type(command))
        if handler is None:
            raise inexpressible("json-stream", command)
        follows = handler(self, command)
        return follows if command.ref in self._awaited else [*accepted(command), *follows]

    @property
    def _awaited(self) -> list[str]:
        """The refs of commands that the engine has not answered yet."""
        return [ref for _, ref in self._requests.values()] + [waiting.ref for waiting in self._confirmations]

    def note_sent(self, data: bytes) -> list[e.Event]:
        frames = [read_command(line, self._version) for line in self._own_lines.feed(data)]
        return [event for frame in frames if isinstance(frame, tuple) for event in self._complete(self._note(frame[0]))]

    # Lines of the engine.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[e.Event]:
        raw = line.start if isinstance(line, jsonl.TooLong) else line
        match read_event(line):
            case Unknown(kind, fields):
                return self._complete(self._undocumented_event(kind, fields, raw))
            case Bad(why):
                return self._malformed(raw, why)
            case frame, fields:
                self.outcomes["known"] += 1
                read = self._reader.read(frame, fields)
                if type(frame) is shapes.TextDelta and len(read) == 1 and not self._confirmations:
                    return self._completer.add(read[0])  # the most frequent one; nothing follows from it
                events = self._follow(read)
                return self._complete(chain(self._confirmed(frame), events) if self._confirmations else events)

    def _confirmed(self, frame: shapes.Frame) -> list[e.Event]:
        """The reply to a command that waits for its confirmation."""
        match frame:
            case shapes.Pong():
                first = self._confirmations.pop(0)
                return [e.Reply(first.ref, failure=first.failure, session=first.session)]
            case shapes.Info(message=message) if _REFUSED.search(message):
                self._refuse(Failure("refused", message, "engine"))
            case shapes.Info(msg_id="") | shapes.ConfigChanged() if self._confirmations[0].failure is _DROPPED:
                self._confirmations[0].failure = None
        return []

    def _refuse(self, failure: Failure) -> bool:
        """Whether a command waited for its confirmation, which is a refusal now."""
        if self._confirmations:
            self._confirmations[0].failure = failure
        return bool(self._confirmations)

    def _undocumented_event(self, kind: str, fields: dict[str, Any], raw: bytes) -> list[e.Event]:
        """Events of engines that are newer than the documented protocol."""
        try:
            events = undocumented_events.decode(kind, fields)
        except ValueError as error:
            return self._malformed(raw, str(error))
        self.outcomes["unknown" if events is None else "known"] += 1
        if kind == "provider_failure" and str(fields.get("failure")).startswith("http_"):
            self._status = str(fields["failure"]).removeprefix("http_")
        if events is None:
            return [e.UnknownEvent(kind, raw)]
        return [event for event in map(self._answered, events) if not self._is_refusal(event)]

    def _is_refusal(self, event: e.Event) -> bool:
        return isinstance(event, e.Failed) and self._refuse(event.failure)

    def _answered(self, event: e.Event) -> e.Event:
        """The engine's answer to a command goes to whoever sent it."""
        if not isinstance(event, e.Reply) or event.ref not in self._requests:
            return event
        return replace(event, ref=self._requests.pop(event.ref)[1])

    def _follow(self, events: Iterable[e.Event]) -> Iterator[e.Event]:
        """Pass events on; add the `UserMessage` of a prompt, and send the prompts whose time has come."""
        for event in events:
            match event:
                case e.Ready():
                    yield event
                    yield from self._release(self._queue.ready())
                case e.Failed(failure) if id := self._refused_request(failure):
                    yield e.Reply(self._requests.pop(id)[1], failure=failure)
                case e.Failed(failure) if "invalid protocol command" in failure.message and self._refuse(failure):
                    pass  # an engine that is older than the command
                case e.Ask() if self._is_approved(event):
                    self._write(shapes.ToolApprove(event.ask))
                case e.TurnStarted():
                    self._status = ""
                    yield from self._begin_turn(event, steer=event.turn in self._steers)
                    yield from self._release(self._queue.ready())  # a tape may begin after `ready`
                case e.TurnEnded(failure=Failure("session_interrupted")) if self._completer.idle:
                    self.successor = "new"  # and there the prompt is sent again: it never began here
                case e.ToolCalled():
                    self._status = ""  # the model has answered
                    yield event
                case e.BudgetExceeded() if self._status and self._reader.quirks.counts_failed_requests:
                    self._outage = True
                case e.TurnEnded():
                    yield self._explained(event)
                    self._steers.discard(event.turn)
                    yield from self._release(self._queue.ended(event.turn))
                    yield from self._settle_if_idle()
                case e.AgentEnded():
                    yield event
                    yield from self._settle_if_idle()
                case _:
                    yield event

    def _explained(self, ended: e.TurnEnded) -> e.TurnEnded:
        """The end of a turn, with what the engine does not report of its failure."""
        if self._outage:
            self._outage, self.successor = False, "new"
            failure = provider_failure(f"HTTP {self._status} of the model's service, until the engine gave up")
            return replace(ended, reason="error", failure=failure)
        lost_key = ended.failure and self._reader.quirks.drops_its_key and self._lost_key(ended.failure)
        return replace(ended, failure=lost_key) if lost_key else ended

    def _lost_key(self, failure: Failure) -> Failure | None:
        """If the engine has dropped its key: why. It does so when the key is refused, and when its limit is reached; in
        that case it reports only that it has none."""
        dropped = _KEY_DROPPED.search(failure.message)
        if not dropped and failure.code not in _KEY_REFUSED:
            return None
        self.successor = "resume"
        if not (dropped and self._status):
            return failure
        return provider_failure(f"HTTP {self._status} of the model's service, and then: {failure.message}")

    def _is_approved(self, ask: e.Ask) -> bool:
        """Whether a call like this was allowed for good, which this engine has forgotten."""
        usual = ask.kind == "permission" and ask.ask in self._reader.asks and ask.ask not in self._reader.boundaries
        return usual and ask.category in self._approved

    def _refused_request(self, failure: Failure) -> str:
        """An engine that does not know a command says so by its name, if it says anything."""
        return next((id for id, (word, _) in self._requests.items() if word in failure.message), "")

    # Frames of the host: written and noted here, or only noted because they were sent by other means.

    def _write(self, frame: shapes.Frame) -> list[e.Event]:
        self._out.append(_line(frame))
        return self._note(frame)

    def _note(self, frame: shapes.Frame) -> list[e.Event]:
        match frame:
            case shapes.Message() | shapes.OldMessage():
                prompt = COMMANDS[type(frame)](frame, "")
                self._queue.began(frame.msg_id, prompt if isinstance(prompt, c.Prompt) else None)
                self._reader.turns.add(frame.msg_id)
            case shapes.Stop():
                self._reader.stopped.update(self._queue.running)
            case shapes.ToolApprove() | shapes.ToolDeny():
                return self._note_answer(frame)
            case shapes.ApprovalResume(token, approved):
                ask = self._reader.suspended.pop(token, None)
                return [_closed(ask, "allowed" if approved else "denied")] if ask else []
        return []

    def _note_answer(self, frame: shapes.ToolApprove | shapes.ToolDeny) -> list[e.Event]:
        ask = self._reader.asks.pop(frame.call_id, None)
        if ask is None:
            return []
        if isinstance(frame, shapes.ToolDeny):
            self._reader.denied.add(frame.call_id)
            return [_closed(ask, "denied", frame.reason)]
        return [_closed(ask, "allowed" if ask.kind == "permission" else "answered")]

    def _release(self, prompts: list[c.Prompt]) -> list[e.Event]:
        sent = () if self.successor else prompts
        return [event for prompt in sent for event in self._write(self._message(prompt))]

    def _message(self, prompt: c.Prompt) -> shapes.Frame:
        context, self._context = self._context, ""
        return message_frame(prompt, self._version, context)

    # Commands.

    def _prompt(self, command: c.Prompt) -> list[e.Event]:
        prompt = self._queue.admit(command, self._env.new_id)
        _line(message_frame(prompt, self._version, self._context))  # refused now, not when its time has come
        stopped = self._stop() if prompt.busy == "interrupt" else []
        return [*stopped, *self._release(self._queue.add(prompt))]

    def _steer(self, command: c.Steer) -> list[e.Event]:
        """The wire cannot add to a running turn: the steer becomes the next turn."""
        refuse_to_agent(command)
        turn = f"steer-{self._env.new_id()}"
        self._steers.add(turn)
        return self._prompt(c.Prompt(turn, command.text, command.attachments))

    def _cancel(self, command: c.Cancel) -> list[e.Event]:
        """No `stop` goes to an idle engine, because some end their process on it."""
        if command.what == "steers":
            return self._drop_steers()
        if command.what not in ("turn", "prompt"):
            raise Refusal(f"json-stream has no word for cancelling a {command.what}")
        target, whole = command.target, command.what == "turn"
        stopped = self._stop() if whole and target in ("", *self._queue.running) else []
        dropped = self._queue.drop(target) if target or command.queued == "drop" else []
        return [*stopped, *[e.TurnEnded("cancelled", turn=prompt.turn) for prompt in dropped]]

    def _drop_steers(self) -> list[e.Event]:
        """Those that have not gone to the engine yet."""
        dropped = [prompt for turn in sorted(self._steers) for prompt in self._queue.drop(turn)]
        self._steers -= {prompt.turn for prompt in dropped}
        return [e.TurnEnded("cancelled", turn=prompt.turn) for prompt in dropped]

    def _stop(self) -> list[e.Event]:
        if not self._queue.running or self.successor:
            return []
        if self._reader.quirks.stop_ends_it:
            self.successor = "new" if self._reader.calls_without_result else "resume"
        return self._write(shapes.Stop())

    def _answer(self, command: c.Answer) -> list[e.Event]:
        if suspended := self._reader.suspended.get(command.ask):
            follows = self._write(asks_format.resume_frame(command, suspended))
        elif ask := self._reader.asks.get(command.ask):
            if command.args not in (None, ask.args):
                raise Refusal("json-stream has no word for allowing a call with other arguments")
            boundary, only_words = self._reader.boundaries.get(command.ask), self._reader.quirks.only_words
            follows = self._write(asks_format.answer_frame(command, ask, boundary, only_words=only_words))
            self._remember(command, ask)
        else:
            raise Refusal(f"no ask {command.ask!r} waits for an answer", "unknown_ask")
        return [*follows, *self._stop()] if command.interrupt and command.verdict != "allow" else follows

    def _remember(self, command: c.Answer, ask: e.Ask) -> None:
        match command:
            case c.Answer(verdict="allow", always=Rule("category", category, effect="allow", tool="")) if (
                self._reader.quirks.forgets_approvals and category in ("", ask.category)
            ):
                self._approved.add(ask.category)

    def _configure(self, command: c.Configure) -> list[e.Event]:
        modes = {**self._more_modes, **WIRE_MODES[self._version]}
        shape = shapes.OldSetConfig if self._reader.quirks.sets_image_input else shapes.SetConfig
        frames = configure_frames(command.settings, modes, shape)
        follows = [event for frame in frames for event in self._write(frame)]
        return [*follows, *self._await_confirmation(command)]

    def _await_confirmation(self, command: c.Command) -> list[e.Event]:
        """Where only an `info` tells a refusal, the command is answered when a `pong` shows that it was handled."""
        if not self._reader.quirks.confirms_by_pong or not command.ref:
            return []
        self._confirmations.append(_Confirmation(command.ref, command.session))
        return self._write(shapes.Ping())

    def _add_context(self, command: c.AddContext) -> list[e.Event]:
        if not self._reader.quirks.loses_context:
            return self._write(shapes.InitHistory(command.text))
        self._context = f"{self._context}\n\n{command.text}".strip()
        return []

    # Commands that came later.

    def _grant(self, command: c.Grant) -> list[e.Event]:
        return self._request(command, undocumented_commands.grant_frame(command, self._env.new_id()))

    def _change_server(self, command: c.ChangeServer) -> list[e.Event]:
        return self._request(command, undocumented_commands.removal_frame(command, self._env.new_id()))

    def _request(self, command: c.Command, frame: shapes.Frame) -> list[e.Event]:
        if self._version == "0.1.0":
            raise inexpressible("json-stream 0.1.0", command)
        id = getattr(frame, "request_id", "")
        if command.ref and id:
            self._requests[id] = (str(frame.__struct_config__.tag), command.ref)
        confirmed = not id and isinstance(command, c.Grant)
        return [*self._write(frame), *(self._await_confirmation(command) if confirmed else ())]


_HANDLERS: dict[type[c.Command], Callable[[HostSide, Any], list[e.Event]]] = {
    c.Prompt: HostSide._prompt,
    c.Steer: HostSide._steer,
    c.Cancel: HostSide._cancel,
    c.Answer: HostSide._answer,
    c.Configure: HostSide._configure,
    c.AddContext: HostSide._add_context,
    c.AddServer: lambda side, command: side._write(server_frame(command.server)),
    c.Grant: HostSide._grant,
    c.ChangeServer: HostSide._change_server,
    c.HostReply: lambda side, command: side._request(command, undocumented_commands.host_reply_frame(command)),
}


def _closed(ask: e.Ask, how: Literal["allowed", "denied", "answered"], reason: str = "") -> e.AskClosed:
    return e.AskClosed(ask.ask, how, reason, turn=ask.turn, agent=ask.agent)


def _line(frame: shapes.Frame) -> bytes:
    """The frame as a line. Raises Refusal if it is too long: what a host sends is never shortened."""
    line = jsonl.dump(frame)
    if len(line) > MAX_FRAME:
        raise Refusal(_TOO_LONG, "too_long")
    return line
