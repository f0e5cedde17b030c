"""How much of what goes wrong is worth a line in a log."""

from collections.abc import Callable


class Ration:
    """At most `most` in any `span` milliseconds; how many were passed over is told with the next one."""

    def __init__(self, now: Callable[[], int], *, most: int = 5, span: int = 60_000) -> None:
        self._now = now
        self._most = most
        self._span = span
        self._taken: list[int] = []
        self._passed_over = 0

    def take(self) -> int | None:
        """Log this one, and that so many before it were not; or None: pass it over."""
        now = self._now()
        self._taken = [then for then in self._taken if now - then < self._span]
        if len(self._taken) >= self._most:
            self._passed_over += 1
            return None
        self._taken.append(now)
        passed_over, self._passed_over = self._passed_over, 0
        return passed_over
