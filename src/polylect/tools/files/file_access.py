"""The engine's part of the file tools: sends a request about a file or folder to the worker and notes what it read.

The worker opens the files that it can reach. A file that a person approved beyond that (outside the workspace, or
hidden by the sandbox) is opened here, without following a link, and its descriptor is sent along. Its new content comes
back and is written here. In both cases the path is the one that the permission check has seen.

Where the host offers its own text files, Read, Write, Edit and MultiEdit use those (`files/host_text.py`).

`context.seen` has the state of each file that the conversation has read; Edit refuses a file that changed since then.
Called by Read, Write, Edit, MultiEdit, NotebookEdit, Glob and Grep.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.system.threads import run_in_thread
from polylect.tools.files.host_text import TEXT_CHANGES, HostText
from polylect.tools.files.paths import admit
from polylect.tools.files.regular_files import Stamp, opened_file, replace
from polylect.tools.worker.timeout_error import WorkerTimeout
from polylect.vocab.errors import NoSuchFile, ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

SEARCH_TIMEOUT = 30.0
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV)


class Change(Struct, frozen=True):
    """Replaces one text of a file by another."""

    old_string: Annotated[str, Meta(description="The text that is there now.")]
    new_string: Annotated[str, Meta(description="The text to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


async def read_file(path: str, offset: int, limit: int, context: ToolContext) -> dict[str, Any]:
    """What Read shows of a file. From now on the conversation has seen this state of it."""
    real = admit(path, context)

    async def saved(offset: int, limit: int) -> dict[str, Any]:
        request = {"path": path, "real": real, "offset": offset, "limit": limit}
        value = await _by_worker("read", request, context)
        if value is None:
            value, _ = await _with_descriptor("read", request, context)
        context.seen[real] = Stamp.unpacked(value["stamp"])
        return value

    files = context.host_files
    if files is None or not files.has(real):
        return await saved(offset, limit)
    return await HostText(files, path, real, context).read(offset, limit, saved)


async def change_file(operation: str, path: str, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Change a file. From now on the conversation has seen its new state."""
    real = admit(path, context)
    known = context.seen.get(real)
    request = {"path": path, "real": real, "known": _packed(known), **arguments}
    files = context.host_files
    if operation in TEXT_CHANGES and files is not None and files.writable and files.has(real):
        file = await run_in_thread(_open, path, real)
        try:
            return await HostText(files, path, real, context).change(operation, request, file)
        finally:
            if file >= 0:
                os.close(file)
    written = await _by_worker(operation, request, context)
    if written is not None:
        context.seen[real] = Stamp.unpacked(written["stamp"])
        return written
    value, data = await _with_descriptor(operation, {**request, "handed_back": True}, context)
    before = Stamp.unpacked(value["before"]) if value["before"] else None
    context.seen[real] = await run_in_thread(replace, path, real, data, before)
    return value


async def edit_file(path: str, changes: Sequence[Change], context: ToolContext) -> ToolReturn:
    """Make all changes in order, or none. Returns a diff."""
    pieces = [(change.old_string, change.new_string, change.replace_all) for change in changes]
    value = await change_file("edit", path, {"changes": pieces, "workspace": context.workspace}, context)
    return ToolReturn(value["diff"], form="diff", metadata={"file_path": path})


async def search_folder(operation: str, real: str, arguments: Mapping[str, Any], context: ToolContext) -> str:
    """The output of a search in this folder or file."""
    request = {"real": real, "workspace": context.workspace, **arguments}
    try:
        value, _ = await context.worker.request(operation, request, timeout=SEARCH_TIMEOUT, roots=(real,))
    except WorkerTimeout:
        raise ToolError(
            f"The search took longer than {SEARCH_TIMEOUT:.0f} s. Search a smaller folder or a simpler pattern."
        ) from None
    output: str = value["output"]
    return output


def _packed(known: tuple[int, int] | None) -> list[int] | None:
    return known.packed if isinstance(known, Stamp) else None if known is None else list(known)


async def _by_worker(operation: str, request: Mapping[str, Any], context: ToolContext) -> dict[str, Any] | None:
    """Has the worker do it. None where the sandbox keeps the file from the worker, so the engine has to open it."""
    if not context.worker.reaches(request["real"]):
        return None
    try:
        return (await context.worker.request(operation, request))[0]
    except OSError as error:
        if error.errno not in _DENIED:
            raise
        return None


async def _with_descriptor(
    operation: str, request: Mapping[str, Any], context: ToolContext
) -> tuple[dict[str, Any], bytes]:
    """Send the request with a descriptor of the file, or without one if the file does not exist."""
    file = await run_in_thread(_open, request["path"], request["real"])
    try:
        if file < 0 and operation != "write":
            raise NoSuchFile(f"{request['path']} does not exist.")
        return await context.worker.request(operation, request, file=file)
    finally:
        if file >= 0:
            os.close(file)


def _open(path: str, real: str) -> int:
    with ExitStack() as stack:
        try:
            return os.dup(stack.enter_context(opened_file(path, real)))
        except FileNotFoundError:
            return -1
