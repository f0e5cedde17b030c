"""The error of a request that took too long. It is not in `pool.py`, so that tools can catch it without importing
that."""

from polylect.vocab.errors import ToolError


class WorkerTimeout(ToolError):
    """The worker was killed because its request took too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"This took longer than {seconds:.0f} s, so it was stopped. Do it in smaller parts.")
