"""Decides which turn runs and when it is over.

A turn is one or more runs (`agent_start` to `agent_end`): after a run the engine may try again, compact and go on, or
follow a reminder. So the end of a run is only a candidate for the end of the turn. The turn ends when the engine says
so (`prompt_result`, `session_settled`, `isTerminal`). omp 13 and pi have no such frame; there it ends when a state says
that nothing runs. `needs_state` tells the codec to ask for the state.
"""

from collections.abc import Callable

from msgspec.structs import replace

from polylect.vocab import events as e
from polylect.vocab.content import Failure, Usage

_ENOUGH = 2
"""How often in a row an engine must say that it is idle where it may only not have begun yet."""


class TurnTracker:
    """Follows the runs of an engine and returns the `TurnStarted` and `TurnEnded` that they amount to."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self.turn = ""
        """The turn that runs."""
        self.sent: list[str] = []
        """Prompts that were handed over and that no run has begun for, in order."""
        self.accepted: set[str] = set()
        """Those of them that the engine has accepted, though maybe as something that needs no run."""
        self.needs_state = False
        self.stopped = False
        """We have asked for the running turn to be stopped."""
        self.unwanted: set[str] = set()
        """Turns that were to be stopped before they began: engines may not have noticed."""
        self._end: e.TurnEnded | None = None
        self._goes_on = False
        self._doubtful = False
        self._idle = 0
        self._usage = Usage()

    @property
    def ending(self) -> bool:
        """A run has ended, and maybe its turn."""
        return self._end is not None

    # What the engine says about its runs.

    def begin(self) -> list[e.Event]:
        if self.turn and not self.sent:
            self._end, self.needs_state = None, False  # the same turn, another run
            return []
        ended = self.finish()
        prompted = bool(self.sent)
        self.turn = self.sent.pop(0) if prompted else self._new_id()
        self.accepted.discard(self.turn)
        self._usage, self.stopped, self.needs_state = Usage(), False, False
        return [*ended, e.TurnStarted("prompt" if prompted else "engine", turn=self.turn)]

    def spent(self, usage: Usage) -> None:
        self._usage += usage

    def end(self, ended: e.TurnEnded, *, terminal: bool | None) -> list[e.Event]:
        """The end of a run; the turn ends like this if nothing else comes."""
        if not self.turn:
            return []
        self._end, self._idle = ended, 0
        if terminal or self.sent:
            ended_turn = self.finish()
            self.needs_state = True  # whether something else waits
            return ended_turn
        self._goes_on = terminal is False
        self.needs_state = not self._goes_on
        return []

    def run_follows(self) -> None:
        """A retry or a compaction has begun, or the engine said that another run follows."""
        if self.ending:
            self._goes_on, self.needs_state = True, False

    def maybe_over(self) -> None:
        """What was to go on came to nothing, or something may have ended the turn without a word."""
        self._goes_on, self._idle = False, 0
        self.needs_state = self.ending or bool(self.accepted)

    def maybe_cut_off(self) -> None:
        """The running turn may have been cut off without a word."""
        self._doubtful = self.needs_state = bool(self.turn)

    def state(self, *, busy: bool) -> list[e.Event]:
        """The engine says whether anything runs."""
        self._idle = 0 if busy else self._idle + 1
        doubtful, self._doubtful, self.needs_state = self._doubtful, False, False
        if doubtful and not busy:
            return self.finish()
        if self.ending and not self._goes_on:
            failed = self._end is not None and self._end.reason == "error"
            if self._idle >= (_ENOUGH if failed else 1):
                return self.finish()
            self.needs_state = True
        elif not self.turn and self.sent and self.sent[0] in self.accepted:
            if self._idle >= _ENOUGH:
                return self._end_unbegun(self.sent[0])
            self.needs_state = not busy
        return []

    # How turns end.

    def finish(self, ended: e.TurnEnded | None = None) -> list[e.Event]:
        """The running turn is over: like this, like its last run, or cut off without a word."""
        if not self.turn:
            return []
        last = ended or self._end or e.TurnEnded("cancelled")
        if self.stopped and last.reason == "error":  # the retry that followed was stopped
            last = e.TurnEnded("cancelled")
        if last.usage == Usage():
            last = replace(last, usage=self._usage)
        event = replace(last, turn=self.turn)
        self.turn, self._end = "", None
        self._goes_on = self.needs_state = self.stopped = False
        return [event]

    def result(self, turn: str, ended: e.TurnEnded) -> list[e.Event]:
        """The engine says how a turn ended, or by an empty id the one that runs."""
        if turn in ("", self.turn) or (self.ending and turn not in self.sent):
            return self.finish(ended)
        if turn in self.sent:
            self.sent.remove(turn)
            self.accepted.discard(turn)
            return [replace(ended, turn=turn)] if ended.reason in ("cancelled", "error") else _empty_turn(turn)
        # Somebody else's prompt, which never began.
        return [replace(ended, turn=turn)] if ended.reason in ("cancelled", "error") else []

    def settled(self) -> list[e.Event]:
        """Nothing runs and nothing waits."""
        return self.finish() if self.ending else []

    def stop(self) -> None:
        self.stopped = True
        self.unwanted.update(self.sent)

    def drop(self, turn: str) -> None:
        """The engine did not take this prompt."""
        if turn in self.sent:
            self.sent.remove(turn)
        self.accepted.discard(turn)
        self.unwanted.discard(turn)

    def engine_gone(self, failure: Failure) -> list[e.Event]:
        """The engine has vanished."""
        error = e.TurnEnded("error", failure=failure)
        ended = self.finish(None if self.ending else error)
        waiting, self.sent = self.sent, []
        return [*ended, *[replace(error, turn=turn) for turn in waiting]]

    def _end_unbegun(self, turn: str) -> list[e.Event]:
        """A prompt that needed no run: a command of an extension, or one that was stopped before it began."""
        self.drop(turn)
        if self.stopped:
            return [e.TurnEnded("cancelled", turn=turn)]
        return _empty_turn(turn)


def _empty_turn(turn: str) -> list[e.Event]:
    return [e.TurnStarted(turn=turn), e.TurnEnded("end", turn=turn)]
