"""What a session has cost, in dollars."""

from polylect.vocab.content import Usage


class Spent:
    """As the engine tells it; where only turns tell what they cost, it is their sum. None if nobody knows."""

    def __init__(self, *, resumed: bool) -> None:
        self.total: float | None = None if resumed else 0.0
        self._told = False

    def tell(self, total: Usage) -> None:
        self.total, self._told = total.cost, True

    def add(self, turn: Usage) -> None:
        if not self._told and turn.tokens:
            self.total = None if self.total is None or turn.cost is None else round(self.total + turn.cost, 9)

    @property
    def is_priced(self) -> bool:
        """Whether the engine tells what the session costs."""
        return self._told and self.total is not None

    def since(self, before: float | None) -> float | None:
        """For an engine that tells of the session and not of a turn."""
        return None if before is None or self.total is None or not self._told else round(self.total - before, 9)
