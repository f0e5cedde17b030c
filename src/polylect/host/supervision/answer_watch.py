"""Notices an engine that says nothing about a prompt.

An engine that does not understand a prompt may drop it without a word, and its turn would never end. So the
conversation (`conversation.py`) ends an engine that is silent for too long after the prompt of the first turn in line
was sent. From its first event on, a turn may be silent for as long as its own limits allow.
"""

import asyncio
from collections.abc import Callable


class AnswerWatch:
    """The time that an engine has for its first event after a prompt.

    Args:
        seconds: How long it may be silent.
        give_up: Is called when it was.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._seconds = seconds
        self._give_up = give_up
        self._turn = ""
        """The turn that is waited for."""
        self._answered = ""
        """The turn of which there were events last."""
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def wait_for(self, turn: str) -> None:
        """Begins to wait for an event of this `turn`, unless there were some. Empty for no turn."""
        self._turn = turn
        if turn in ("", self._answered):
            return self.cancel()
        self._last = asyncio.get_running_loop().time()
        if self._timer is None:
            self._start(self._seconds)
        return None

    def receive(self, turn: str) -> None:
        """There was an event of this `turn`; empty for one that belongs to none, which only shows that it lives."""
        if turn:
            self._answered = turn
        if self._timer is None:
            return
        if turn == self._turn:
            self.cancel()
        else:
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
