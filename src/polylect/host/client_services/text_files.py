"""Reads and writes text files for an engine, inside the folders that it works in.

A path is absolute. Links are resolved first, and the result has to be inside; then it is opened without following a
link, so that nobody can put one in between. Only regular files of UTF-8 text are read, up to MOST_BYTES. A file is
replaced in one step, and missing folders are made.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from itertools import islice
from typing import Any

from polylect.host.client_services.faults import ServiceFault, text_field, whole_field
from polylect.system.plain_files import open_resolved, opened_parent, real_path
from polylect.system.threads import run_in_thread

MOST_BYTES = 16 * 1024 * 1024


class FileService:
    """The files in these folders, given by their real paths."""

    def __init__(self, roots: Sequence[str], *, missing_as_empty: bool) -> None:
        self._roots = roots
        self._missing_as_empty = missing_as_empty

    async def handle(self, method: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Raises ServiceFault."""
        path = text_field(fields, "path")
        try:
            if method == "write_text_file":
                await run_in_thread(self._write, path, text_field(fields, "content"))
                return {}
            line, limit = whole_field(fields, "line", 1), whole_field(fields, "limit", MOST_BYTES)
            return {"content": await run_in_thread(self._read, path, line, limit)}
        except (FileNotFoundError, NotADirectoryError):
            raise ServiceFault("missing", f"there is no file {path}") from None
        except OSError as error:
            raise ServiceFault("failed", f"{path}: {error.strerror or error}") from None
        except ServiceFault as fault:
            if fault.code == "missing" and method == "read_text_file" and self._missing_as_empty:
                return {"content": ""}
            raise

    def _read(self, path: str, line: int, limit: int) -> str:
        try:
            file = open_resolved(self._inside(path))
        except (FileNotFoundError, NotADirectoryError):
            raise ServiceFault("missing", f"there is no file {path}") from None
        with open(file, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ServiceFault("too_large", f"{path} has more than {MOST_BYTES} bytes")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise ServiceFault("not_text", f"{path} is not UTF-8 text") from None
        start = max(line - 1, 0)
        return "".join(islice(StringIO(text, newline="\n"), start, start + limit))

    def _write(self, path: str, content: str) -> None:
        real = self._inside(path)
        try:
            data = content.encode()
        except UnicodeEncodeError:
            raise ServiceFault("bad_params", "content holds half a character (a lone surrogate)") from None
        if len(data) > MOST_BYTES:
            raise ServiceFault("too_large", f"content has more than {MOST_BYTES} bytes")
        with opened_parent(real, make=True) as (folder, name):
            _replace(folder, name, data, path)

    def _inside(self, path: str) -> str:
        """The real path. Raises ServiceFault if it is outside; for one that does not exist, that it is missing."""
        if not os.path.isabs(path) or "\0" in path:
            raise ServiceFault("bad_params", f"path has to be absolute, not {path[:200]!r}")
        real = real_path(path)
        if is_inside(real, self._roots):
            return real
        if real and not os.path.lexists(real):  # kimi looks for AGENTS.md in every folder above
            raise ServiceFault("missing", f"there is no file {path}")
        raise ServiceFault("outside", f"{path} is outside of the folders that the engine works in")


def is_inside(real: str, roots: Sequence[str]) -> bool:
    """Whether a real path is one of these folders or in one of them."""
    return any(real == root or real.startswith(root.rstrip("/") + "/") for root in roots)


def _replace(folder: int, name: str, data: bytes, path: str) -> None:
    """Put a file with these bytes in the place of what has this name, which keeps its permissions."""
    mode = None
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise ServiceFault("failed", f"{path} is not a regular file")
        mode = stat.S_IMODE(status.st_mode)
    draft = f".polylect-{os.urandom(6).hex()}.tmp"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            if mode is not None:
                os.fchmod(file, mode)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
