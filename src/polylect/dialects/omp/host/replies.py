"""Matches responses with the commands that were sent, and makes the `Reply` to each command.

One command of ours may need several frames; it is answered when all their responses have come. Responses without an id
are matched by their command's name: omp 13 sends failures so. What the codec has to do next (ask for something, send a
prompt again) is left in lists that it empties after every response.
"""

from collections import Counter
from typing import Any

from msgspec import Struct

from polylect.dialects.omp.frames import commands as requests
from polylect.dialects.omp.host import answers as host_answers
from polylect.dialects.omp.host.answers import READS, Read
from polylect.dialects.omp.host.decode import EventReader
from polylect.dialects.omp.host.fields import Fields, flag, text
from polylect.dialects.omp.host.messages import shell_of
from polylect.vocab import events as e
from polylect.vocab.answers import SessionOpened
from polylect.vocab.content import Failure

_OPENINGS = (requests.NewSession, requests.SwitchSession, requests.Branch, requests.Fork, requests.Clone)
_SETTINGS = (
    requests.SetModel, requests.CycleModel, requests.SetThinkingLevel, requests.CycleThinkingLevel,
    requests.SetSessionName,
)  # fmt: skip
"""After these the state is asked for: omp clamps levels without saying so."""

_BUSY = "Agent is already processing"
"""How omp refuses a prompt while a run lasts, which may be longer than its `agent_end`."""
_MOST_EARLY = 20


class PendingCommand(Struct):
    """A command and how many responses are still to come for it. Without a ref nobody waits for its answer."""

    ref: str = ""
    session: str = ""
    left: int = 1
    data: Any = None
    failure: Failure | None = None


class _Expected(Struct, frozen=True):
    frame: requests.Request
    pending: PendingCommand
    read: Read


class Replies:
    def __init__(self, reader: EventReader, version: str) -> None:
        self._reader = reader
        self._tracker = reader.tracker
        self._version = version
        self._expected: dict[str, _Expected] = {}
        self._refused: set[str] = set()
        """Prompts that failed before they were acknowledged: omp 13 says both, in this order."""
        self.state: Fields | None = None
        """A state that the engine has just told."""
        self.to_request: list[tuple[requests.Request, PendingCommand]] = []
        """Requests that have to be sent before a command is answered."""
        self.too_early: list[str] = []
        """Prompts that were sent when no turn ran, and were refused because the last one lasted longer than it said."""
        self._early: Counter[str] = Counter()
        self.not_taken: list[str] = []
        """Prompts that were refused and so have no turn."""

    def expect(self, id: str, frame: requests.Request, pending: PendingCommand, read: Read | None = None) -> None:
        self._expected[id] = _Expected(frame, pending, read or READS.get(type(frame), host_answers.raw))

    def __contains__(self, id: object) -> bool:
        return id in self._expected

    @property
    def asks_state(self) -> bool:
        return any(isinstance(expected.frame, requests.GetState) for expected in self._expected.values())

    def receive(self, response: Fields) -> list[e.Event]:
        id, success = response.get("id"), flag(response, "success")
        if not isinstance(id, str):
            id = "" if success else self._blamed(text(response, "command"))
        expected = self._expected.pop(id, None)
        failure = None if success else _failure(response)
        if expected is None:
            return self._unexpected(id, response, failure)
        data = response.get("data")
        if isinstance(expected.frame, requests.Prompt | requests.AbortAndPrompt):
            return self._prompted(id, expected, data if isinstance(data, dict) else {}, failure)
        return self._answered(expected, data if isinstance(data, dict) else {}, failure)

    def _blamed(self, command: str) -> str:
        """Whose failure it is if it has no id. omp 13 does one thing after the other, so that is the oldest."""
        named = [id for id, expected in self._expected.items() if _name(expected.frame) == command]
        if named or command != "parse" or self._version != "13":
            return named[0] if named else ""
        slow = (requests.Bash,)
        quick = [id for id, expected in self._expected.items() if not isinstance(expected.frame, slow)]
        return next(iter([*quick, *self._expected]), "")

    def _unexpected(self, id: str, response: Fields, failure: Failure | None) -> list[e.Event]:
        command, data = text(response, "command"), response.get("data")
        if failure and id and (id == self._tracker.turn or id in self._tracker.sent):
            return self._tracker.result(id, e.TurnEnded("error", failure=failure))
        if id in self._refused:
            self._refused.discard(id)
            return []
        if command == "get_state" and not failure and isinstance(data, dict):
            self.state = data
        if id:
            return [e.Reply(id, data, failure)]
        return [e.Failed(failure)] if failure else []

    def _prompted(self, turn: str, expected: _Expected, data: Fields, failure: Failure | None) -> list[e.Event]:
        frame, pending = expected.frame, expected.pending
        if failure:
            return self._refuse(turn, pending, failure)
        reply = _reply(pending)
        if data.get("agentInvoked") is False:
            return [*reply, *self._tracker.result(turn, e.TurnEnded("end"))]
        if turn in self._tracker.sent:
            self._tracker.accepted.add(turn)
            message_text = frame.message if isinstance(frame, requests.Prompt | requests.AbortAndPrompt) else ""
            if self._version == "pi" or message_text.startswith("/"):  # extensions may deal with it by themselves
                self._tracker.maybe_over()
        return reply

    def _refuse(self, turn: str, pending: PendingCommand, failure: Failure) -> list[e.Event]:
        """A prompt was refused: send it again if it came too early, else fail its command or end its turn."""
        self._tracker.drop(turn)
        self._refused.add(turn)
        if failure.message.startswith(_BUSY) and self._early[turn] < _MOST_EARLY:
            self._early[turn] += 1
            self.too_early.append(turn)
            return _reply(pending)
        if not pending.ref:
            return [e.TurnEnded("error", failure=failure, turn=turn)]
        self.not_taken.append(turn)
        pending.failure = failure
        return _reply(pending)

    def _answered(self, expected: _Expected, data: Fields, failure: Failure | None) -> list[e.Event]:
        frame, pending = expected.frame, expected.pending
        follows = self._meaning(frame, pending, data, failure)
        try:
            value = None if failure else self._value(expected, data)
        except ValueError as error:
            value, failure = None, Failure("malformed", f"the engine's answer makes no sense: {error}", "engine")
        pending.data = pending.data if value is None else value
        pending.failure = pending.failure or failure
        pending.left -= 1
        return [*_reply(pending), *follows] if pending.left == 0 else follows

    def _value(self, expected: _Expected, data: Fields) -> Any:
        opened = expected.pending.data
        match expected.frame:
            case requests.Bash(command):
                return shell_of(data, command)
            case requests.GetState() if isinstance(opened, SessionOpened):
                state = host_answers.state(data)
                return SessionOpened(state.session, state.file, opened.text, opened.cancelled)
            case frame if isinstance(frame, _OPENINGS):
                return SessionOpened("", text=text(data, "text"), cancelled=flag(data, "cancelled"))
            case _:
                return expected.read(data)

    def _meaning(
        self, frame: requests.Request, pending: PendingCommand, data: Fields, failure: Failure | None
    ) -> list[e.Event]:
        """What the result of a command means beside its reply."""
        match frame:
            case requests.GetState() if not failure:
                self.state = data
            case requests.Abort():
                self._tracker.maybe_over()
            case requests.Compact():
                return self._compacted(data, failure)
            case _ if failure:
                pass
            case _ if isinstance(frame, _OPENINGS):
                return self._opened(pending, data)
            case _ if isinstance(frame, _SETTINGS):
                self._reader.needs_state = True
        return []

    def _opened(self, pending: PendingCommand, data: Fields) -> list[e.Event]:
        """A run that was cut off ends without a frame. The state is asked for, because it names the session."""
        pending.left += 1
        self.to_request.append((requests.GetState(), pending))
        return [] if flag(data, "cancelled") else self._tracker.finish()

    def _compacted(self, data: Fields, failure: Failure | None) -> list[e.Event]:
        """Engines stop what runs before they compact, and most write no frames about either."""
        if failure:
            self._tracker.maybe_cut_off()
            return []
        ended = self._tracker.finish()
        if self._reader.compacted:
            return ended
        return [*ended, e.CompactionStarted("manual"), self._reader.compaction(data, {})]


def _reply(pending: PendingCommand) -> list[e.Event]:
    return [e.Reply(pending.ref, pending.data, pending.failure, session=pending.session)] if pending.ref else []


def _failure(response: Fields) -> Failure:
    return Failure(text(response, "code") or "refused", text(response, "error") or "the engine refused it", "engine")


def _name(frame: requests.Request) -> str:
    return str(type(frame).__struct_config__.tag)
