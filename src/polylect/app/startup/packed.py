"""The code of all modules that a start imports, in one file instead of 200: 10 ms less than reading their .pyc files.

The file is called the pack. It is trusted as a .pyc is: it belongs to one interpreter and one place, which its name
says, and each module's code in it counts only while the module's source has the size and time it had. Every part has a
checksum. What is missing, older than its source or damaged is imported as Python always does it, and the pack is
written anew.

The first engine that may write there makes the pack; `python -m polylect.app.startup.packed` makes it ahead, for an
image or by an administrator. It lies beside the package and not in it, because a file that pip does not know of would
keep the package's folder, and with it an empty package, after an uninstall. `app/startup/start.py` and `app/main.py`
enter `PackedImports`; docs/performance.md says how to turn it off and what removes it.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import source_hash  # the checksum of .pyc files: nothing has to be loaded for it

from polylect.app.startup import PLAIN_IMPORTS

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from threading import Thread
    from types import CodeType, ModuleType
    from typing import BinaryIO

    Part = tuple[str, int, int, int, int, bytes]
    """A module's file, its time and size; where its code begins, how long it is, and its checksum."""

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(os.path.dirname(PACKAGE), "__pycache__")
_HEAD = 16
"""Bytes before the first part: where the index begins, and its checksum."""
_SAMPLED = 32
_IS_FUNCTION = 1
"""A flag of code objects (CO_OPTIMIZED): neither a module nor the body of a class."""
_LIBRARIES = frozenset({"msgspec", "httptools"})
_EXIT_WAIT = 0.5
"""Seconds that an engine which ends waits for its pack: those who ask one thing start faster from then on as well."""


def _checksum(data: bytes) -> bytes:
    """Of every 32nd byte: all of them would cost 0.8 ms, and what disks lose or mix up are blocks of 512 and more."""
    return source_hash(len(data), data[::_SAMPLED])


def _file() -> str:
    """Names the interpreter (implementation, version, magic number, optimization) and the place (package, prefixes)."""
    place = source_hash(0, "\0".join((PACKAGE, sys.prefix, sys.base_prefix)).encode("utf-8", "surrogateescape"))
    version = ".".join(map(str, sys.version_info[:3]))
    made_for = f"{sys.implementation.name}-{version}-{int.from_bytes(MAGIC_NUMBER[:2], 'little')}-{sys.flags.optimize}"
    return os.path.join(FOLDER, f"polylect.{made_for}.{place.hex()}.pack")


FILE = _file()


class PackedImports:
    """While entered, modules come from the pack where it has them."""

    _thread: Thread | None = None

    def __enter__(self) -> PackedImports:
        self._pack = Pack.open()
        if self._pack:
            sys.meta_path.insert(0, self._pack)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pack:
            sys.meta_path.remove(self._pack)
            self._pack.close()

    def start_making(self) -> None:
        """Begin to write the pack for later starts if this one missed something in it: 80 ms, in a thread."""
        needed = not self._pack or self._pack.missed
        if needed and not sys.dont_write_bytecode and not _is_disabled() and _is_writable():
            from threading import Thread

            self._thread = Thread(target=_try_to_pack, daemon=True)
            self._thread.start()

    def wait_until_made(self, timeout: float = _EXIT_WAIT) -> None:
        """Wait until it is written, and begin it where the program ends before there was time for it."""
        if not self._thread:
            self.start_making()
        if self._thread:
            self._thread.join(timeout)


class Pack:
    """An open file and what is where in it."""

    def __init__(self, descriptor: int, parts: dict[str, Part]) -> None:
        self._descriptor, self._parts = descriptor, parts
        self.missed = False

    @classmethod
    def open(cls) -> Pack | None:
        """None where there is no pack, it is damaged, or it must not be used."""
        if _is_disabled():
            return None
        try:
            descriptor = os.open(FILE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            head, size = os.pread(descriptor, _HEAD, 0), os.fstat(descriptor).st_size
            begin = int.from_bytes(head[:8], "little")
            index = os.pread(descriptor, size - begin, begin) if _HEAD <= begin < size else b""
            if index and _checksum(index) == head[8:]:
                return cls(descriptor, marshal.loads(index))
        except OSError:
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
        if not part or not _is_current(part):
            self.missed |= bool(part) or name.startswith("polylect.")
            return None
        file = part[0]
        spec = ModuleSpec(name, _Loader(name, file, self), origin=file)
        if file.endswith("__init__.py"):
            spec.submodule_search_locations = [os.path.dirname(file)]
        spec.has_location = True
        spec.cached = FILE  # where its code is; else a path is computed for each module, which takes 1 ms in all
        return spec

    def code(self, name: str) -> CodeType | None:
        """None if it is damaged, or once the pack is closed: a module may be loaded later than that."""
        if self._descriptor < 0:
            return None
        *_, begin, length, checksum = self._parts[name]
        data = os.pread(self._descriptor, length, begin)
        if _checksum(data) == checksum:
            try:
                code: CodeType = marshal.loads(data)
            except (EOFError, TypeError, ValueError):  # damaged where the checksum has no sample
                pass
            else:
                return code
        self.missed = True
        return None


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, pack: Pack) -> None:
        super().__init__(name, path)
        self._pack = pack

    def get_code(self, name: str) -> CodeType | None:
        return self._pack.code(name) or super().get_code(name)


def _is_disabled() -> bool:
    """Switched off, or a PYTHONPATH may put other modules before those in the pack."""
    return PLAIN_IMPORTS or os.environ.get("PYTHONPATH", "") not in ("", os.path.dirname(PACKAGE))


def _is_current(part: Part) -> bool:
    try:
        now = os.stat(part[0])
    except OSError:
        return False
    return (now.st_mtime_ns, now.st_size) == part[1:3]


# Making it.


def _is_writable() -> bool:
    return os.access(FOLDER if os.path.exists(FOLDER) else os.path.dirname(FOLDER), os.W_OK)


def pack() -> None:
    """Write everything of ours, and of others what has been imported. One process at a time; others leave it to it."""
    os.makedirs(FOLDER, exist_ok=True)
    with open(f"{FILE}.new", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file.fileno()), os.stat(file.name)):  # else another has just put it in its place
            file.truncate(0)
            _write(file)
            file.flush()
            os.replace(file.name, FILE)


def _try_to_pack() -> None:
    """Without a pack a start is slower and nothing else."""
    try:
        pack()
    except (OSError, SyntaxError, ValueError):  # no room, or a source that is being edited
        pass


def _write(file: BinaryIO) -> None:
    codes: list[bytes] = []
    parts: dict[str, Part] = {}
    begin = _HEAD
    for name, path in _modules():
        now, whole = os.stat(path), SourceFileLoader(name, path).get_code(name)
        code = marshal.dumps(whole and _without_docstrings(whole))
        codes.append(code)
        parts[name] = (path, now.st_mtime_ns, now.st_size, begin, len(code), _checksum(code))
        begin += len(code)
    index = marshal.dumps(parts)
    file.writelines([begin.to_bytes(8, "little"), _checksum(index), *codes, index])


def _without_docstrings(code: CodeType) -> CodeType:
    """The code without the docstrings of functions, which nobody reads in an engine: half a MiB of its memory.

    Those of classes stay: they are part of what models are told of tools, and `dataclasses` makes one where none is.
    """
    first, *others = code.co_consts or (None,)
    if isinstance(first, str) and code.co_flags & _IS_FUNCTION and code.co_name[0] != "<" and not _loads_first(code):
        first = None
    constants = [_without_docstrings(one) if isinstance(one, type(code)) else one for one in (first, *others)]
    return code.replace(co_consts=tuple(constants))


def _loads_first(code: CodeType) -> bool:
    """Whether an instruction uses the first constant, so that it is not only the docstring."""
    from opcode import hasconst

    instructions = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    return any(operation in hasconst and argument == 0 for operation, argument in instructions)


def _modules() -> Iterator[tuple[str, str]]:
    for folder, _, files in os.walk(PACKAGE):
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                name = os.path.relpath(path, os.path.dirname(PACKAGE))[:-3].replace(os.sep, ".")
                yield name.removesuffix(".__init__"), path
    for name, module in list(sys.modules.items()):
        spec, root = getattr(module, "__spec__", None), name.partition(".")[0]
        if spec and (spec.origin or "").endswith(".py") and (root in sys.stdlib_module_names or root in _LIBRARIES):
            yield spec.name, spec.origin


if __name__ == "__main__":
    from polylect.app.cli import run  # noqa: F401  (so that what they import has been imported)
    from polylect.app.serving import own_source, serve  # noqa: F401  (so that what they import has been imported)
    from polylect.http import client  # noqa: F401

    pack()
