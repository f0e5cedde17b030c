"""What a search found, while it comes in: the first lines by path, and how many there are."""

from collections.abc import Callable

MOST_COLUMNS = 500
_MOST_UNENDED = 4096 + 2 * MOST_COLUMNS
"""Bytes of a line whose end has not come: a path, and more than is shown."""
_SEPARATOR = b"--"

Place = list[bytes]
"""A path in its parts, which is how paths are sorted."""


class Matches:
    """ripgrep's answer, whose files come in any order. Keeps little more than what will be shown.

    `name_of` says how a path of that answer is shown.
    """

    def __init__(self, name_of: Callable[[str], str], most: int, ending: bytes = b"\n") -> None:
        self.total = 0
        self._name_of = name_of
        self._most = most
        self._ending = ending
        self._files: dict[bytes, list[bytes]] = {}
        self._lines = 0
        self._last: Place | None = None
        """No file after this one will be shown."""
        self._path = b""
        self._wanted: list[bytes] | None = None
        """The lines of the file that is coming in, if they may be shown."""
        self._gap = False
        self._rest = b""

    def add(self, data: bytes) -> None:
        *lines, rest = data.split(self._ending)
        if lines:
            lines[0] = self._rest + lines[0]
            self._rest = b""
        self._rest += rest[: _MOST_UNENDED - len(self._rest)]  # of a long line the rest would be cut anyway
        for line in lines:
            path, mark, text = line.partition(b"\0")
            if mark or self._ending == b"\0":
                self._take(path, text)
            else:
                self._gap = line == _SEPARATOR  # between lines that do not follow each other
        if self._lines > 4 * self._most + 1000:
            self._prune()

    def _take(self, path: bytes, text: bytes) -> None:
        self.total += 1
        if path != self._path:
            self._open(path)
        if self._wanted is not None and len(self._wanted) <= 2 * self._most:
            if self._gap:
                self._wanted.append(_SEPARATOR)
            self._wanted.append(text if len(text) <= MOST_COLUMNS else text[:MOST_COLUMNS] + b" ... [line cut]")
            self._lines += 1
        self._gap = False

    def _open(self, path: bytes) -> None:
        self._path, self._gap, self._wanted = path, False, None
        if self._last is None or path.split(b"/") <= self._last:
            self._wanted = self._files.setdefault(path, [])

    def _prune(self) -> None:
        """Forget the files that come after enough others."""
        kept: dict[bytes, list[bytes]] = {}
        self._lines = 0
        for path in sorted(self._files, key=_place):
            if self._lines >= self._most:
                break
            kept[path] = self._files[path]
            self._lines += len(kept[path])
            self._last = _place(path)
        self._files = kept
        self._wanted = kept.get(self._path)

    def text(self) -> str:
        lines: list[str] = []
        shown = 0
        for path in sorted(self._files, key=_place):
            name = self._name_of(path.decode(errors="replace"))
            for text in self._files[path]:
                if shown == self._most:
                    break
                shown += text != _SEPARATOR
                lines.append(_form(name, text))
        more = self.total - shown
        note = [f"({more} more lines: search a smaller folder or a narrower pattern to see them)"] if more else []
        return "\n".join((*lines, *note))


def _place(path: bytes) -> Place:
    return path.split(b"/")


def _form(name: str, text: bytes) -> str:
    """As ripgrep writes it: `name:12:text`, `name-12-text` for context, `name:12` for a count, `name` alone."""
    if text == _SEPARATOR or not text:
        return name if not text else "--"
    words = text.decode(errors="replace").rstrip("\r")
    between = "-" if words.lstrip("0123456789").startswith("-") else ":"
    return f"{name}{between}{words}"
