"""What a command may reach, and how that travels to the process that puts up the fence."""

import os
from collections.abc import Sequence

FENCE = b"//fence"
"""In the place of a program: what follows up to `--` is a fence, and after it comes the command to put behind it."""


class Fence:
    """Where a command may write, what it may not read, and whether there is a network."""

    def __init__(
        self, writable: Sequence[str], hidden: Sequence[str] = (), readable: Sequence[str] = (), *, network: bool = True
    ) -> None:
        self.writable, self.hidden, self.readable, self.network = writable, hidden, readable, network

    def words(self) -> list[str]:
        """As it travels in a command line."""
        kinds = (("w", self.writable), ("h", self.hidden), ("r", self.readable))
        paths = [kind + path for kind, found in kinds for path in found]
        return [os.fsdecode(FENCE), *paths, *(() if self.network else ("n",)), "--"]


def read_fence(argv: list[bytes]) -> tuple[Fence, list[bytes]]:
    end = argv.index(b"--")
    words = [os.fsdecode(word) for word in argv[1:end]]
    found = {kind: [word[1:] for word in words if word[0] == kind] for kind in "whr"}
    return Fence(found["w"], found["h"], found["r"], network="n" not in words), argv[end + 1 :]
