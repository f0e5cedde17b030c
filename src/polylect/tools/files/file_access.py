"""What file tools share in the engine: asking the worker about a file or a folder, and taking note of what it did.

The worker opens what it can reach by itself. What a person approved beyond that (a file outside the workspace, or one
that the sandbox hides from commands) the engine opens, without following a link, and hands over as a descriptor; new
content comes back and is put in place here. Either way the path is the one that was judged.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.system.threads import run_in_thread
from polylect.tools.files.paths import admit
from polylect.tools.files.regular_files import Stamp, opened_file, replace
from polylect.tools.worker.late import Late
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

SEARCH_TIMEOUT = 30.0
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV)


class Change(Struct, frozen=True):
    """One text of a file for another."""

    old_string: Annotated[str, Meta(description="The text that is there now.")]
    new_string: Annotated[str, Meta(description="The text to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


async def ask_about_file(
    operation: str, path: str, arguments: Mapping[str, Any], context: ToolContext
) -> dict[str, Any]:
    """What the worker says of a file. The conversation has seen it from now on."""
    real = admit(path, context)
    asked = {"path": path, "real": real, **arguments}
    if not context.worker.reaches(real):
        value, _ = await _with_descriptor(operation, asked, context)
    else:
        try:
            value, _ = await context.worker.request(operation, asked)
        except OSError as error:
            if error.errno not in _DENIED:
                raise
            value, _ = await _with_descriptor(operation, asked, context)
    context.seen[real] = Stamp.unpacked(value["stamp"])
    return value


async def change_file(operation: str, path: str, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Have a file changed. The conversation knows the new state from now on."""
    real = admit(path, context)
    known = context.seen.get(real)
    asked = {"path": path, "real": real, "known": _packed(known), **arguments}
    if context.worker.reaches(real):
        try:
            value, _ = await context.worker.request(operation, asked)
            context.seen[real] = Stamp.unpacked(value["stamp"])
            return value
        except OSError as error:
            if error.errno not in _DENIED:
                raise
    value, data = await _with_descriptor(operation, {**asked, "handed_back": True}, context)
    before = Stamp.unpacked(value["before"]) if value["before"] else None
    context.seen[real] = await run_in_thread(replace, path, real, data, before)
    return value


async def edit_file(path: str, changes: Sequence[Change], context: ToolContext) -> ToolReturn:
    """Make all changes, one after the other, or none. The answer is the change as a diff."""
    pieces = [(change.old_string, change.new_string, change.replace_all) for change in changes]
    value = await change_file("edit", path, {"changes": pieces, "workspace": context.workspace}, context)
    return ToolReturn(value["diff"], form="diff", metadata={"file_path": path})


async def search_folder(operation: str, real: str, arguments: Mapping[str, Any], context: ToolContext) -> str:
    """What a search of this folder, or of this file, has found."""
    asked = {"real": real, "workspace": context.workspace, **arguments}
    try:
        value, _ = await context.worker.request(operation, asked, timeout=SEARCH_TIMEOUT, roots=(real,))
    except Late:
        raise ToolError(
            f"The search took longer than {SEARCH_TIMEOUT:.0f} s. Search a smaller folder or a simpler pattern."
        ) from None
    output: str = value["output"]
    return output


def _packed(known: tuple[int, int] | None) -> list[int] | None:
    return known.packed if isinstance(known, Stamp) else None if known is None else list(known)


async def _with_descriptor(
    operation: str, asked: Mapping[str, Any], context: ToolContext
) -> tuple[dict[str, Any], bytes]:
    """With a descriptor of the file, or without one if there is none."""
    file = await run_in_thread(_open, asked["path"], asked["real"])
    try:
        if file < 0 and operation != "write":
            raise ToolError(f"{asked['path']} does not exist.")
        return await context.worker.request(operation, asked, file=file)
    finally:
        if file >= 0:
            os.close(file)


def _open(path: str, real: str) -> int:
    with ExitStack() as stack:
        try:
            return os.dup(stack.enter_context(opened_file(path, real)))
        except FileNotFoundError:
            return -1
