"""Limits how many log lines of one kind are written, so that a peer that sends nonsense cannot fill a log.

Used by `host_base.Diagnostics` for malformed lines. The clock is passed in, because dialects are pure.
"""

from collections.abc import Callable


class RateLimit:
    """At most `most` acquisitions in any `span` milliseconds of the clock `now`."""

    def __init__(self, now: Callable[[], int], *, most: int = 5, span: int = 60_000) -> None:
        self._now = now
        self._most = most
        self._span = span
        self._times: list[int] = []
        self._suppressed = 0

    def acquire(self) -> int | None:
        """None if the limit is reached; else how many attempts were suppressed since the last success."""
        now = self._now()
        self._times = [time for time in self._times if now - time < self._span]
        if len(self._times) >= self._most:
            self._suppressed += 1
            return None
        self._times.append(now)
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
