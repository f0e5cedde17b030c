"""Notices an engine that says nothing about a prompt, or nothing after a cancel.

An engine that does not understand a prompt may drop it without a word, and its turn would never end. So the
conversation (`conversation.py`) ends an engine that is silent for too long after the prompt of the first turn in line
was sent. From its first event on, a turn may be silent for as long as its own limits allow, or until it is cancelled:
an engine that hangs then would keep this turn and all later ones waiting.
"""

import asyncio
from collections.abc import Callable


class Silence:
    """A time without events of the engine.

    Args:
        seconds: How long it may be silent.
        give_up: Is called when it was.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._seconds = seconds
        self._give_up = give_up
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The time begins; if it had begun, it begins anew."""
        self._last = asyncio.get_running_loop().time()
        if self._timer is None:
            self._start(self._seconds)

    def interrupt(self) -> None:
        """There was an event: if the time had begun, it begins anew."""
        if self._timer:
            self._last = asyncio.get_running_loop().time()

    def cancel(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _start(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        silent = asyncio.get_running_loop().time() - self._last
        if silent < self._seconds:
            self._start(self._seconds - silent)
        else:
            self._give_up()


class AnswerWatch:
    """What an engine has to react to.

    Args:
        to_prompt: The time that it has for its first event after a prompt.
        to_cancel: The time that it may be silent after a cancel, until the turn has ended.
    """

    def __init__(self, to_prompt: Silence, to_cancel: Silence) -> None:
        self._to_prompt = to_prompt
        self._to_cancel = to_cancel
        self._turn = ""
        """The turn that is waited for."""
        self._answered = ""
        """The turn of which there were events last."""
        self._cancelled = ""
        """The turn whose end is waited for."""

    def wait_for(self, turn: str) -> None:
        """Begins to wait for an event of this `turn`, unless there were some. Empty for no turn."""
        self._turn = turn
        if turn in ("", self._answered):
            self._to_prompt.cancel()
        else:
            self._to_prompt.begin()

    def wait_for_end(self, turn: str) -> None:
        """Begins to wait for the end of this `turn`, which was cancelled."""
        if turn != self._cancelled:
            self._cancelled = turn
            self._to_cancel.begin()

    def receive(self, turn: str, *, ended: bool) -> None:
        """There was an event of this `turn`; empty for one that belongs to none, which only shows that it lives.

        Args:
            turn: The turn.
            ended: Whether it ended by this event.
        """
        self._to_prompt.interrupt()
        self._to_cancel.interrupt()
        if turn:
            self._answered = turn
            if turn == self._turn:
                self._to_prompt.cancel()
            if ended and turn == self._cancelled:
                self._to_cancel.cancel()

    def cancel(self) -> None:
        """Nothing is waited for any more."""
        self._to_prompt.cancel()
        self._to_cancel.cancel()
