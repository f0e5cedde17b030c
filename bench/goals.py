"""What the figures are held against."""

from typing import Literal, NamedTuple


class Goal(NamedTuple):
    """A figure's bound: now, and in the end. With `of`, bounds are multiples of that figure of the floor."""

    figure: str
    way: Literal["most", "least"]
    now: float | None
    later: float | None
    of: tuple[str, str] | None = None

    def holds(self, value: float, bound: float) -> bool:
        return value <= bound if self.way == "most" else value >= bound


GOALS = (
    Goal("ready ms", "most", 30, 25),
    Goal("pong ms", "most", 75, 65),
    Goal("pong ms", "most", 1.5, 1.3, of=("import asyncio, msgspec", "line ms")),
    Goal("idle RSS MiB", "most", 28, 26),
    Goal("prompt to request, warm ms", "most", None, 1.5),
    Goal("delta to line, warm ms", "most", None, 0.5),
    Goal("20000 deltas, per s", "least", 60_000, 110_000),
    Goal("20000 deltas, peak MiB", "most", None, 60),
    Goal("100000 deltas, peak MiB", "most", None, 60),
    Goal("tool turn ms", "most", 4, 2.5),
)
