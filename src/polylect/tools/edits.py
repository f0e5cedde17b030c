"""Changing texts in a file: what Edit and MultiEdit share."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from polylect.tools.diff import unified_diff
from polylect.tools.files import BOM, as_crlf, is_crlf, read_whole, refuse_if_changed, replace
from polylect.tools.limits import cut_middle
from polylect.tools.paths import admit, relative
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

MOST = 10_000


class Change(Struct, frozen=True):
    old_string: Annotated[str, Meta(description="The text that is there now.")]
    new_string: Annotated[str, Meta(description="The text to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


def change_file(path: str, changes: Sequence[Change], context: ToolContext) -> ToolReturn:
    """Make all changes, one after the other, or none. The answer is the change as a diff."""
    real = admit(path, context)
    try:
        data, status = read_whole(path, real)
    except FileNotFoundError:
        raise ToolError(f"{path} does not exist. Use Write to create it.") from None
    if real not in context.seen:
        raise ToolError(f"Read {path} first: a file can only be edited once you have seen it.")
    refuse_if_changed(path, real, status, context)
    bom, old = _decode(path, data)
    new = _changed(old, changes)
    try:
        changed = bom + new.encode()
    except UnicodeEncodeError:
        raise ToolError("new_string holds half a character (a lone surrogate), which no file can.") from None
    context.seen[real] = replace(path, real, changed, status)
    diff = unified_diff(relative(real, context.workspace), old, new)
    return ToolReturn(cut_middle(diff, MOST), form="diff", metadata={"file_path": path})


def _decode(path: str, data: bytes) -> tuple[bytes, str]:
    bom = BOM if data.startswith(BOM) else b""
    try:
        return bom, data[len(bom) :].decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text, so Edit would damage it. Change it with Bash.") from None


def _changed(text: str, changes: Sequence[Change]) -> str:
    before = text
    for number, change in enumerate(changes, 1):
        try:
            text = _replaced(text, change)
        except ToolError as fault:
            if len(changes) == 1:
                raise
            raise ToolError(f"Edit {number} of {len(changes)}: {fault} Nothing was changed.") from None
    if text == before:
        raise ToolError("The edits undo each other: nothing to change.")
    return text


def _replaced(text: str, change: Change) -> str:
    old, new = _in_endings_of(text, change)
    if not old:
        raise ToolError("old_string is empty. Name the text to replace, or use Write for the whole file.")
    if old == new:
        raise ToolError("old_string and new_string are the same: nothing to change.")
    count = text.count(old)
    if not count:
        raise ToolError("old_string not found in file. It has to match exactly: read that part again.")
    if count > 1 and not change.replace_all:
        raise ToolError(f"Multiple matches found ({count}). Use replace_all or provide more context.")
    return text.replace(old, new)


def _in_endings_of(text: str, change: Change) -> tuple[str, str]:
    """Both strings with the line endings of the file: the model has not seen which ones it has."""
    old, new = change.old_string, change.new_string
    if is_crlf(text):
        return (as_crlf(old) if as_crlf(old) in text else old), as_crlf(new)
    return (old if old in text else old.replace("\r\n", "\n")), new
