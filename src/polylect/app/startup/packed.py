"""The code of all modules that a start imports, in one file beside the .pyc files: 10 ms less than 200 of those.

It is trusted as a .pyc is: made for one Python and one place, and each module's part only for as long as its source has
the size and the time it had. Whatever is not as it was is imported as ever. `python -m polylect.app.startup.packed`
makes it ahead, for an image or a machine's administrator; else the first engine does that may write there.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader, spec_from_file_location

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from threading import Thread
    from types import CodeType, ModuleType
    from typing import BinaryIO

    Part = tuple[str, int, int, int, int]
    """A module's file, its time and size; where its code begins, and how long it is."""

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(PACKAGE, "__pycache__")
FILE = os.path.join(FOLDER, f"packed.{sys.implementation.cache_tag}.{sys.flags.optimize}")
_LAST = 0.5
"""Once, so that those who only ever ask one thing start faster from then on as well."""
_THEIRS = frozenset({"msgspec", "httptools"})


class PackedImports:
    """While entered, modules come from the pack where it has them."""

    _making: Thread | None = None

    def __enter__(self) -> PackedImports:
        self._pack = Pack.open()
        if self._pack:
            sys.meta_path.insert(0, self._pack)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pack:
            sys.meta_path.remove(self._pack)
            self._pack.close()

    def make(self) -> None:
        """For those who come after us, if there was none or it was not right any more: 80 ms, in a thread."""
        wanted = not self._pack or self._pack.missed
        if wanted and not sys.dont_write_bytecode and not _is_out_of_place() and os.access(FOLDER, os.W_OK):
            from threading import Thread

            self._making = Thread(target=_try_to_pack, daemon=True)
            self._making.start()

    def made(self, timeout: float = _LAST) -> None:
        """Waits for it, and begins it where the program ends before there was time for it."""
        if not self._making:
            self.make()
        if self._making:
            self._making.join(timeout)


class Pack:
    """An open file and what is where in it."""

    def __init__(self, descriptor: int, parts: dict[str, Part]) -> None:
        self._descriptor, self._parts = descriptor, parts
        self.missed = False

    @classmethod
    def open(cls) -> Pack | None:
        if _is_out_of_place():
            return None
        try:
            descriptor = os.open(FILE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            begin = int.from_bytes(os.pread(descriptor, 8, 0), "little")
            made_for, parts = marshal.loads(os.pread(descriptor, os.fstat(descriptor).st_size - begin, begin))
            if made_for == _here():
                return cls(descriptor, parts)
        except (OSError, EOFError, ValueError, TypeError, OverflowError):  # cut off, or none of ours
            pass
        os.close(descriptor)
        return None

    def close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        part = self._parts.get(name)
        if not part or not _is_as_it_was(part):
            self.missed |= bool(part) or name.startswith("polylect.")
            return None
        file = part[0]
        folders = [os.path.dirname(file)] if file.endswith("__init__.py") else None
        loader = _Loader(name, file, self)
        return spec_from_file_location(name, file, loader=loader, submodule_search_locations=folders)

    def code(self, name: str) -> CodeType | None:
        """Nothing once the pack is closed: a module may be put off until then."""
        if self._descriptor < 0:
            return None
        *_, begin, length = self._parts[name]
        found: CodeType = marshal.loads(os.pread(self._descriptor, length, begin))
        return found


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, pack: Pack) -> None:
        super().__init__(name, path)
        self._pack = pack

    def get_code(self, name: str) -> CodeType | None:
        return self._pack.code(name) or super().get_code(name)


def _is_out_of_place() -> bool:
    """Other modules may come before those we know."""
    return os.environ.get("PYTHONPATH", "") not in ("", os.path.dirname(PACKAGE))


def _here() -> tuple[bytes, str, str, str]:
    return MAGIC_NUMBER, PACKAGE, sys.prefix, sys.base_prefix


def _is_as_it_was(part: Part) -> bool:
    try:
        now = os.stat(part[0])
    except OSError:
        return False
    return (now.st_mtime_ns, now.st_size) == part[1:3]


# Making it.


def pack() -> None:
    """Everything of ours, and of others what has been imported. Whoever finds another at it leaves it to them."""
    with open(f"{FILE}.new", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file.fileno()), os.stat(file.name)):  # else another has just put it in its place
            file.truncate(0)
            _write(file)
            file.flush()
            os.replace(file.name, FILE)


def _try_to_pack() -> None:
    """Nobody misses it."""
    try:
        pack()
    except (OSError, SyntaxError, ValueError):  # no room, or a source that is being edited
        pass


def _write(file: BinaryIO) -> None:
    codes, parts, place = [], {}, 8
    for name, path in _modules():
        now = os.stat(path)
        code = marshal.dumps(SourceFileLoader(name, path).get_code(name))
        codes.append(code)
        parts[name] = (path, now.st_mtime_ns, now.st_size, place, len(code))
        place += len(code)
    file.writelines([place.to_bytes(8, "little"), *codes, marshal.dumps((_here(), parts))])


def _modules() -> Iterator[tuple[str, str]]:
    for folder, _, files in os.walk(PACKAGE):
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                name = os.path.relpath(path, os.path.dirname(PACKAGE))[:-3].replace(os.sep, ".")
                yield name.removesuffix(".__init__"), path
    for name, module in list(sys.modules.items()):
        spec, root = getattr(module, "__spec__", None), name.partition(".")[0]
        if spec and (spec.origin or "").endswith(".py") and (root in sys.stdlib_module_names or root in _THEIRS):
            yield spec.name, spec.origin


if __name__ == "__main__":
    from polylect.app.cli import run  # noqa: F401  (so that what they import has been imported)
    from polylect.app.serving import serve  # noqa: F401  (so that what they import has been imported)
    from polylect.providers.http import client  # noqa: F401

    pack()
