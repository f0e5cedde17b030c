"""Collects the output of a search while it arrives: the first lines in the order of their paths, and the total.

ripgrep uses all cores and prints files in any order. Sorting its whole output could take any memory, so `Matches` keeps
little more than the lines that will be shown, and drops files that sort behind them. Called by `worker/searching.py`.
"""

from collections.abc import Callable, Iterator

MOST_COLUMNS = 500
_MOST_UNENDED = 4096 + 2 * MOST_COLUMNS
"""Bytes that are stored of a line before its end arrives: a path, and more than is shown."""
_SEPARATOR = b"--"

PathParts = list[bytes]
"""The parts of a path. Paths are sorted by them."""


class Matches:
    """The output of ripgrep, whose files arrive in any order.

    `name_of` returns how a path is shown, `most` is the number of lines to show, `ending` ends each record.
    """

    def __init__(self, name_of: Callable[[str], str], most: int, ending: bytes = b"\n") -> None:
        self.total = 0
        self._name_of = name_of
        self._most = most
        self._ending = ending
        self._files: dict[bytes, list[bytes]] = {}
        self._lines = 0
        self._last: PathParts | None = None
        """No file that sorts after this one will be shown."""
        self._path = b""
        self._current_lines: list[bytes] | None = None
        """The lines of the file that arrives now; None if it will not be shown."""
        self._gap = False
        self._rest = b""

    def add(self, data: bytes) -> None:
        *lines, rest = data.split(self._ending)
        if lines:
            lines[0] = self._rest + lines[0]
            self._rest = b""
        self._rest += rest[: _MOST_UNENDED - len(self._rest)]  # the rest of a long line would be cut anyway
        for line in lines:
            path, mark, text = line.partition(b"\0")
            if mark or self._ending == b"\0":
                self._add_line(path, text)
            else:
                self._gap = line == _SEPARATOR  # between lines that do not follow each other
        if self._lines > 4 * self._most + 1000:
            self._prune()

    def _add_line(self, path: bytes, text: bytes) -> None:
        self.total += 1
        if path != self._path:
            self._start_file(path)
        if self._current_lines is not None and len(self._current_lines) <= 2 * self._most:
            if self._gap:
                self._current_lines.append(_SEPARATOR)
            self._current_lines.append(text if len(text) <= MOST_COLUMNS else text[:MOST_COLUMNS] + b" ... [line cut]")
            self._lines += 1
        self._gap = False

    def _start_file(self, path: bytes) -> None:
        self._path, self._gap, self._current_lines = path, False, None
        if self._last is None or path.split(b"/") <= self._last:
            self._current_lines = self._files.setdefault(path, [])

    def _prune(self) -> None:
        """Drop the files that sort after enough lines of others."""
        first_files: dict[bytes, list[bytes]] = {}
        self._lines = 0
        for path in sorted(self._files, key=_path_parts):
            if self._lines >= self._most:
                break
            first_files[path] = self._files[path]
            self._lines += len(first_files[path])
            self._last = _path_parts(path)
        self._files = first_files
        self._current_lines = first_files.get(self._path)

    def text(self, offset: int, most_characters: int, *, numbers: bool) -> str:
        """The lines after the first `offset` ones, as many as fit, and a note if there are more."""
        lines: list[str] = []
        passed, room = 0, most_characters
        for name, text in self._in_order():
            count = passed + (text != _SEPARATOR)
            if passed == self._most:
                break
            if count > offset:
                lines.append(_format(name, text, numbers=numbers))
                room -= len(lines[-1]) + 1
                if room < 0 and len(lines) > 1:
                    del lines[-1]
                    break
            passed = count
        if offset and not lines and self.total:
            return f"(There are only {self.total} lines: offset {offset} is past their end.)"
        if more := self.total - passed:
            lines.append(f"({more} more lines: go on with offset {passed}, or search for something narrower)")
        return "\n".join(lines)

    def _in_order(self) -> Iterator[tuple[str, bytes]]:
        for path in sorted(self._files, key=_path_parts):
            name = self._name_of(path.decode(errors="replace"))
            yield from ((name, text) for text in self._files[path])


def _path_parts(path: bytes) -> PathParts:
    return path.split(b"/")


def _format(name: str, text: bytes, *, numbers: bool) -> str:
    """As ripgrep writes it: `name:12:text`, `name-12-text` for context, `name:12` for a count, `name` alone."""
    if text == _SEPARATOR or not text:
        return name if not text else "--"
    words = text.decode(errors="replace").rstrip("\r")
    after_number = words.lstrip("0123456789")
    between = "-" if after_number.startswith("-") else ":"
    return f"{name}{between}{words}" if numbers or not after_number else f"{name}{after_number}"
