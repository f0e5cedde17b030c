"""What the figures are held against."""

from typing import Literal, NamedTuple


class Goal(NamedTuple):
    """A figure's bound: a multiple of the best peer's, of the first engine's, of a figure of the floor, or a number."""

    figure: str
    way: Literal["most", "least"]
    bound: float
    of: Literal["peer", "first"] | tuple[str, str] | None = "peer"
    against: str = ""
    """The peers' figure that it is a multiple of, if not the same."""
    engine: str = ""
    """Whose figure it is; empty for the first engine."""

    def holds(self, value: float) -> bool:
        return value <= self.bound if self.way == "most" else value >= self.bound


GOALS = (
    Goal("ready ms", "most", 0.25),
    Goal("first answer ms", "most", 0.65, against="ready ms"),  # most peers answer a little that early, and cannot work
    Goal("first answer ms", "most", 1.3, of=("import asyncio, msgspec", "line ms")),
    Goal("one-shot to request ms", "most", 0.6),
    Goal("idle RSS MiB", "most", 0.21),
    Goal("prompt to request, warm ms", "most", 0.6),
    Goal("delta to line, warm ms", "most", 0.7),
    Goal("delta to line, p99 ms", "most", 1.0, of=None),
    Goal("20000 deltas, per s", "least", 4.0),
    Goal("20000 deltas, peak MiB", "most", 60.0, of=None),
    Goal("100000 deltas, peak MiB", "most", 60.0, of=None),
    Goal("tool turn ms", "most", 0.65),
    *(
        Goal(figure, "most", 1.05, of="first", engine="polylect native")
        for figure in (
            "ready ms",
            "idle RSS MiB",
            "first answer ms",
            "spawn to request ms",
            "prompt to request, warm ms",
            "delta to line, warm ms",
            "20000 deltas, CPU s",
            "20000 deltas, peak MiB",
            "100000 deltas, CPU s",
            "100000 deltas, peak MiB",
            "tool turn ms",
            "10 engines, all ready ms",
            "100 engines, all ready ms",
            "100 engines, PSS of each MiB",
        )
    ),
    Goal("first answer ms", "most", 1.1, of="first", engine="polylect acp"),
    Goal("20000 deltas, per s", "least", 100_000, of=None, engine="polylect acp"),
    Goal("20000 deltas, peak MiB", "most", 60.0, of=None, engine="polylect acp"),
    Goal("100000 deltas, peak MiB", "most", 60.0, of=None, engine="polylect acp"),
    Goal("20000 deltas, per s", "least", 0.95, of="first", engine="polylect native"),
    Goal("100000 deltas, per s", "least", 0.95, of="first", engine="polylect native"),
)
