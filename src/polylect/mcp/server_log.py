"""What a server says beside the protocol: logged within bounds, and kept short for the reason of a failure."""

import asyncio
import logging
from collections.abc import Iterable

from polylect.vocab.content import Server

_TAIL = 4096
_LINE = 500
_BURST = 64 * 1024
"""How much of what a server says is logged within one span of time."""
_SPAN = 10.0
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSW", "AUTH", "COOKIE", "CREDENTIAL")
_log = logging.getLogger(__name__)


class Remarks:
    """One server's remarks. Nothing that was handed to it as a secret comes out again (P5)."""

    def __init__(self, server: Server) -> None:
        self._name = server.name
        self._secrets = sorted(_secrets((*server.env.items(), *server.headers.items())), key=len, reverse=True)
        self._loop = asyncio.get_running_loop()
        self._tail = bytearray()
        self._span_began = 0.0
        self._span_size = 0
        self._noise = 0
        self._sample = ""
        self._stray = ""
        self._refusal = ""

    def error_output(self, data: bytes) -> None:
        """Standard error, as it comes. A flood costs next to nothing."""
        self._tail += data[-_TAIL:]
        del self._tail[:-_TAIL]
        if not _log.isEnabledFor(logging.INFO):
            return
        allowed = self._allowed(len(data))
        whole = data.rfind(b"\n", 0, allowed) + 1  # half a line could hold half a secret
        shown = data if allowed == len(data) else data[:whole]
        for line in shown.decode(errors="replace").splitlines():
            self._log(logging.INFO, line)
        self._spend(len(data))

    def log(self, level: int, text: str) -> None:
        if _log.isEnabledFor(level):
            if self._allowed(len(text)) == len(text):
                self._log(level, text)
            self._spend(len(text))

    def _log(self, level: int, text: str) -> None:
        if text.strip():
            _log.log(level, "MCP server %s: %s", self._name, self.clean(text))

    def _allowed(self, size: int) -> int:
        """How much of this may still be said in this span of time."""
        now = self._loop.time()
        if now - self._span_began > _SPAN:
            self._span_began, self._span_size = now, 0
        return max(0, min(size, _BURST - self._span_size))

    def _spend(self, size: int) -> None:
        before, self._span_size = self._span_size, self._span_size + size
        if before <= _BURST < self._span_size:
            self._log(logging.WARNING, "says too much; the rest is not shown for a while")

    def noise(self, line: bytes, why: str) -> int:
        """A line on its standard output that is no message. How many there were."""
        self._noise += 1
        self._sample = line[:100].decode(errors="replace")
        self.log(logging.WARNING, f"wrote to stdout what is not MCP ({why}): {self._sample}")
        return self._noise

    def stray(self, id: object) -> None:
        """An answer to nothing that was asked."""
        self._stray = repr(id)[:50]
        self.log(logging.WARNING, f"answered the id {self._stray}, which nobody asked")

    def refusal(self, status: int, phrase: str) -> None:
        """What HTTP says of a request that was not accepted."""
        self._refusal = f"HTTP {status} {phrase}".strip()

    def summary(self) -> str:
        """What may explain a failure, in one line."""
        said = [
            self._refusal,
            f"it answered with an id that nobody used ({self._stray})" if self._stray else "",
            f"it wrote {self._noise} lines to stdout that are not MCP, such as {self._sample!r}" if self._noise else "",
        ]
        if lines := [line for line in self._tail.decode(errors="replace").splitlines() if line.strip()]:
            said.append(f"its last words on stderr: {lines[-1].strip()}")
        return self.clean("; ".join(filter(None, said)))

    def clean(self, text: str, most: int = _LINE) -> str:
        """One printable line without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "[removed]")
        text = "".join(letter if letter.isprintable() else " " for letter in text[: most + 1])
        return text if len(text) <= most else f"{text[:most]} ..."


def _secrets(pairs: Iterable[tuple[str, str]]) -> set[str]:
    found = {value for key, value in pairs if any(word in key.upper() for word in _SECRET)}
    found |= {value.rpartition(" ")[2] for value in found}  # `Bearer ...`: the last word is the secret
    return {value for value in found if len(value) >= 6}
