"""What a command may reach, and how that travels to the process that puts up the fence."""

import os
from collections.abc import Sequence

FENCE = b"//fence"
"""In the place of a program: what follows up to `--` is a fence, and after it comes the command to put behind it."""


class Fence:
    """Where a command may write, what it may not read, and whether there is a network.

    With `only_scope` it says nothing about files: signals and sockets without a path end at it, and that is all.
    """

    def __init__(
        self,
        writable: Sequence[str],
        hidden: Sequence[str] = (),
        readable: Sequence[str] = (),
        *,
        network: bool = True,
        only_scope: bool = False,
    ) -> None:
        self.writable, self.hidden, self.readable, self.network = writable, hidden, readable, network
        self.only_scope = only_scope

    def words(self) -> list[str]:
        """As it travels in a command line."""
        kinds = (("w", self.writable), ("h", self.hidden), ("r", self.readable))
        paths = [kind + path for kind, places in kinds for path in places]
        switches = [*(() if self.network else ("n",)), *(("s",) if self.only_scope else ())]
        return [os.fsdecode(FENCE), *paths, *switches, "--"]


def read_fence(argv: list[bytes]) -> tuple[Fence, list[bytes]]:
    """The fence, and the command behind it."""
    end = argv.index(b"--")
    words = [os.fsdecode(word) for word in argv[1:end]]
    paths = {kind: [word[1:] for word in words if word[0] == kind] for kind in "whr"}
    fence = Fence(paths["w"], paths["h"], paths["r"], network="n" not in words, only_scope="s" in words)
    return fence, argv[end + 1 :]
