"""The fault of a request that took too long. Apart from `pool`, so that tools can name it without importing that."""

from polylect.vocab.errors import ToolError


class Late(ToolError):
    """The worker was killed because the request took longer than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"This took longer than {seconds:.0f} s, so it was stopped. Do it in smaller parts.")
