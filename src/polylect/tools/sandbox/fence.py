"""A `Fence` says what a command may reach, and how that is written into a command line.

    Fence(["/w"], ["/home/me/.ssh"]).to_argv()    //fence  w/w  h/home/me/.ssh  --     and then the command

`Sandbox` makes one before each command. Where Landlock applies it, the guardian reads it back from the command line.
"""

import os
from _collections_abc import Sequence

FENCE = b"//fence"
"""In place of a program name: the words up to `--` are a fence, and the command follows."""


class Fence:
    """Where a command may write, what it may not read, and whether there is a network.

    With `only_scope` it does not restrict files, only signals and sockets, before bubblewrap does the rest.
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

    def to_argv(self) -> list[str]:
        """The beginning of a command line that carries this fence."""
        kinds = (("w", self.writable), ("h", self.hidden), ("r", self.readable))
        paths = [kind + path for kind, places in kinds for path in places]
        switches = [*(() if self.network else ("n",)), *(("s",) if self.only_scope else ())]
        return [os.fsdecode(FENCE), *paths, *switches, "--"]


def read_fence(argv: list[bytes]) -> tuple[Fence, list[bytes]]:
    """The fence in a command line, and the command after it."""
    end = argv.index(b"--")
    words = [os.fsdecode(word) for word in argv[1:end]]
    paths = {kind: [word[1:] for word in words if word[0] == kind] for kind in "whr"}
    fence = Fence(paths["w"], paths["h"], paths["r"], network="n" not in words, only_scope="s" in words)
    return fence, argv[end + 1 :]
