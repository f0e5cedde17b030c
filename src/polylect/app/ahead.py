"""Our own engine for `polylect run` as a fork of the host: what both import is imported once, the rest side by side.

It is the same engine as in a process of its own from the start, in a session and with pipes of its own; only the
command line that others see is that of the host.
"""

import os
import sys
from collections.abc import Sequence
from typing import IO

from polylect.app.packed import Pack

CAN = sys.platform == "linux" and os.path.isdir("/proc/self/fd")
"""Elsewhere libraries of the system may not survive a fork."""


class Forked:
    """A child as the host SDK wants it. Nothing may run beside us yet: no loop, no thread."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def __init__(self, words: Sequence[str], cwd: str) -> None:
        pipes = [os.pipe() for _ in range(3)]
        theirs, ours = ((pipes[0][0], pipes[1][1], pipes[2][1]), (pipes[0][1], pipes[1][0], pipes[2][0]))
        self._code: int | None = None
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by whoever started us
                stream.flush()
        self.pid = os.fork()
        if not self.pid:
            _be_the_engine(words, cwd, theirs)
        for end in theirs:
            os.close(end)
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(ours[0], "wb", 0),
            *(os.fdopen(end, "rb", 0) for end in ours[1:]),
        )

    def poll(self) -> int | None:
        return self._waited(os.WNOHANG)

    def wait(self) -> int:
        code = self._waited(0)
        assert code is not None
        return code

    def _waited(self, how: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, how)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


def _be_the_engine(words: Sequence[str], cwd: str, pipes: Sequence[int]) -> None:
    """Never returns."""
    code = 1
    try:
        os.setsid()
        for number, end in enumerate(pipes):
            os.dup2(end, number)
        for pack in [finder for finder in sys.meta_path if isinstance(finder, Pack)]:
            sys.meta_path.remove(pack)
            pack.close()
        os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
        os.chdir(cwd)
        sys.argv[1:] = words
        from polylect.app.main import serve

        code = serve("polylect", list(words))
        sys.stderr.flush()
    finally:
        os._exit(code)
