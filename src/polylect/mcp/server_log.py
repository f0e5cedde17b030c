"""The log of one MCP server: what it writes beside the protocol, and what explains a failure.

A server can write without end, and it knows the secrets of its own configuration. So this log passes on a bounded
amount in each span of time, keeps the last few kilobytes for the reason of a failure (`summary`), and removes every
secret from all text that leaves it (P5).

`ServerSupervisor` creates it; the transports report standard error, invalid lines and HTTP errors to it.
"""

import asyncio
import logging
from collections.abc import Iterable

from polylect.vocab.content import Server

_TAIL = 4096
_LINE = 500
_BURST = 64 * 1024
"""Bytes that are logged within one span of time."""
_SPAN = 10.0
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSW", "AUTH", "COOKIE", "CREDENTIAL")
_SHORTEST = 6
"""Shorter values are no secrets, and parts of other words."""
_LONG_PART = 20
_log = logging.getLogger(__name__)


class ServerLog:
    """What one server wrote. No secret of its configuration is in any text that comes out (P5)."""

    def __init__(self, server: Server) -> None:
        self._name = server.name
        self._output = "to stdout " if server.transport == "stdio" else ""
        self._secrets = sorted(_secrets((*server.env.items(), *server.headers.items())), key=len, reverse=True)
        self._secrets = sorted({*self._secrets, *_secrets_in(server.url)}, key=len, reverse=True)
        self._loop = asyncio.get_running_loop()
        self._tail = bytearray()
        self._span_began = 0.0
        self._span_size = 0
        self._invalid_lines = 0
        self._invalid_sample = ""
        self._unknown_id = ""
        self._http_status = ""

    def error_output(self, data: bytes) -> None:
        """Data from standard error, as it arrives."""
        self._tail += data[-_TAIL:]
        del self._tail[:-_TAIL]
        if not _log.isEnabledFor(logging.INFO):
            return
        allowed = self._allowed(len(data))
        last_line_end = data.rfind(b"\n", 0, allowed) + 1  # half a line could hold half a secret
        loggable = data if allowed == len(data) else data[:last_line_end]
        for line in loggable.decode(errors="replace").splitlines():
            self._log(logging.INFO, line)
        self._spend(len(data))

    def log(self, level: int, text: str) -> None:
        if _log.isEnabledFor(level):
            if self._allowed(len(text)) == len(text):
                self._log(level, text)
            self._spend(len(text))

    def _log(self, level: int, text: str) -> None:
        if text.strip():
            _log.log(level, "MCP server %s: %s", self._name, self.redact(text))

    def _allowed(self, size: int) -> int:
        """How many of these bytes may still be logged in this span of time."""
        now = self._loop.time()
        if now - self._span_began > _SPAN:
            self._span_began, self._span_size = now, 0
        return max(0, min(size, _BURST - self._span_size))

    def _spend(self, size: int) -> None:
        before, self._span_size = self._span_size, self._span_size + size
        if before <= _BURST < self._span_size:
            self._log(logging.WARNING, "says too much; the rest is not shown for a while")

    def invalid_line(self, line: bytes, why: str) -> int:
        """Note a line that is no message. Returns how many there were."""
        self._invalid_lines += 1
        self._invalid_sample = line[:100].decode(errors="replace")
        self.log(logging.WARNING, f"wrote {self._output}what is not MCP ({why}): {self._invalid_sample}")
        return self._invalid_lines

    def unknown_answer(self, id: object) -> None:
        """Note an answer whose id belongs to no request."""
        self._unknown_id = repr(id)[:50]
        self.log(logging.WARNING, f"answered the id {self._unknown_id}, which nobody asked")

    def http_error(self, status: int, phrase: str) -> None:
        """Note the status of a request that the server did not accept."""
        self._http_status = f"HTTP {status} {phrase}".strip()

    def hide(self, secret: str) -> None:
        """Remove this text, too, from all that comes out."""
        if len(secret) >= _SHORTEST and secret not in self._secrets:
            self._secrets = sorted([*self._secrets, secret], key=len, reverse=True)

    def summary(self) -> str:
        """What may explain a failure, on one line."""
        details = [
            self._http_status,
            f"it answered with an id that nobody used ({self._unknown_id})" if self._unknown_id else "",
            f"it wrote {self._invalid_lines} lines {self._output}that are not MCP, such as {self._invalid_sample!r}"
            if self._invalid_lines
            else "",
        ]
        if lines := self.error_lines(1):
            details.append(f"its last words on stderr: {lines[-1].strip()}")
        return self.redact("; ".join(filter(None, details)))

    def error_lines(self, most: int = 10) -> tuple[str, ...]:
        """The last lines of standard error, without secrets."""
        lines = self._tail.decode(errors="replace").splitlines()
        whole = lines[1:] if len(self._tail) == _TAIL and len(lines) > 1 else lines  # the first may be half a secret
        return tuple(self.redact(line.rstrip()) for line in [line for line in whole if line.strip()][-most:])

    def redact(self, text: str, most: int = _LINE) -> str:
        """One printable line without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "[removed]")
        text = "".join(letter if letter.isprintable() else " " for letter in text[: most + 1])
        return text if len(text) <= most else f"{text[:most]} ..."


def _secrets(pairs: Iterable[tuple[str, str]]) -> set[str]:
    values = {value for key, value in pairs if any(word in key.upper() for word in _SECRET)}
    values |= {value.rpartition(" ")[2] for value in values}  # `Bearer ...`: the last word is the secret
    return {value for value in values if len(value) >= _SHORTEST}


def _secrets_in(url: str) -> set[str]:
    """The parts of an address that may be keys: values of its query, the password, long parts of its path."""
    if not url:
        return set()
    from urllib.parse import parse_qsl, unquote, urlsplit  # 4 ms, and only for servers with an address

    try:
        parts = urlsplit(url)
    except ValueError:
        return {url}
    values = [value for _, value in parse_qsl(parts.query)] + [parts.password or ""]
    values += [value.partition("=")[2] for value in parts.query.split("&")]
    values = [text for text in (*values, *map(unquote, values)) if len(text) >= _SHORTEST]
    return {*values, *(part for part in parts.path.split("/") if len(part) >= _LONG_PART)}
