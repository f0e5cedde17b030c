"""Operations that change one file: what Write, Edit and MultiEdit do.

They run in the worker process. Where the engine has opened the file because the worker cannot reach it, the engine also
writes the new content: the answer then has `before`, the state that the content replaces, and the content as bytes.
Else the answer has `stamp`, that of the written file. `files/file_access.py` handles both.
"""

import os
from _collections_abc import Sequence

from polylect.tools.files.paths import relative
from polylect.tools.files.regular_files import Stamp, read_for_change, refuse_if_changed, replace
from polylect.tools.text.diff import unified_diff
from polylect.tools.worker.reading import opened
from polylect.vocab.errors import ToolError
from polylect.wire.cut_text import cut_middle
from polylect.wire.line_endings import BOM, HEAD_SIZE, as_crlf, is_crlf, like_existing

Change = tuple[str, str, bool]
"""The old text, the new text, and whether to replace every occurrence."""

MOST_SHOWN = 10_000
"""Characters of a diff."""


def write(
    *, path: str, real: str, content: str, known: list[int] | None, handed_back: bool = False, file: int = -1
) -> dict[str, object]:
    """Write a whole file. With `handed_back` the engine writes the content; without `file` the file does not exist."""
    before, head = _read_head(path, real, file) if file >= 0 or not handed_back else (None, b"")
    if before:
        refuse_if_changed(path, before, known_stamp(known))
    try:
        data = like_existing(head, content).encode()
    except UnicodeEncodeError:
        raise ToolError("content holds half a character (a lone surrogate), which no file can.") from None
    return {"updated": before is not None, **written(path, real, data, before, handed_back)}


def edit(
    *,
    path: str,
    real: str,
    changes: Sequence[Change],
    known: list[int] | None,
    workspace: str,
    handed_back: bool = False,
    file: int = -1,
) -> dict[str, object]:
    """Make all changes in order, or none. The answer has a `diff` of the whole change."""
    try:
        with opened(path, real, file) as descriptor:
            data, status = read_for_change(path, descriptor)
    except FileNotFoundError:
        raise ToolError(f"{path} does not exist. Use Write to create it.") from None
    if known is None:
        raise ToolError(f"Read {path} first: a file can only be edited once you have seen it.")
    refuse_if_changed(path, status, known_stamp(known))
    bom, old = _decode(path, data)
    new = _apply_changes(old, changes)
    try:
        changed = bom + new.encode()
    except UnicodeEncodeError:
        raise ToolError("new_string holds half a character (a lone surrogate), which no file can.") from None
    diff = unified_diff(relative(real, workspace), old, new)
    return {"diff": cut_middle(diff, MOST_SHOWN), **written(path, real, changed, status, handed_back)}


def known_stamp(known: list[int] | None) -> Stamp | None:
    """The state of the file that the conversation has seen; None if it has seen none."""
    return None if known is None else Stamp.unpacked(known)


def written(path: str, real: str, data: bytes, before: os.stat_result | None, handed_back: bool) -> dict[str, object]:
    """Write the new content, or hand it back to the engine: the part of an answer that says which."""
    stamp = Stamp(before) if before else None
    if handed_back:
        return {"before": stamp.packed if stamp else None, "data": data}
    return {"stamp": replace(path, real, data, stamp).packed}


# Writing.


def _read_head(path: str, real: str, file: int) -> tuple[os.stat_result | None, bytes]:
    """The status and the first bytes of the file; None if there is none."""
    try:
        with opened(path, real, file) as descriptor:
            return os.fstat(descriptor), os.pread(descriptor, HEAD_SIZE, 0)
    except FileNotFoundError:
        return None, b""


# Editing.


def _decode(path: str, data: bytes) -> tuple[bytes, str]:
    bom = BOM if data.startswith(BOM) else b""
    try:
        return bom, data[len(bom) :].decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text, so Edit would damage it. Change it with Bash.") from None


def _apply_changes(text: str, changes: Sequence[Change]) -> str:
    before = text
    for number, change in enumerate(changes, 1):
        try:
            text = _apply_change(text, change)
        except ToolError as error:
            if len(changes) == 1:
                raise
            raise ToolError(f"Edit {number} of {len(changes)}: {error} Nothing was changed.") from None
    if text == before:
        raise ToolError("The edits undo each other: nothing to change.")
    return text


def _apply_change(text: str, change: Change) -> str:
    old, new = _with_line_endings(text, change)
    if not old:
        raise ToolError("old_string is empty. Name the text to replace, or use Write for the whole file.")
    if old == new:
        raise ToolError("old_string and new_string are the same: nothing to change.")
    count = text.count(old)
    if not count:
        raise ToolError("old_string not found in file. It has to match exactly: read that part again.")
    if count > 1 and not change[2]:
        raise ToolError(f"Multiple matches found ({count}). Use replace_all or provide more context.")
    return text.replace(old, new)


def _with_line_endings(text: str, change: Change) -> tuple[str, str]:
    """Both strings with the line endings of the file, which Read does not show to the model."""
    old, new, _ = change
    if is_crlf(text):
        return (as_crlf(old) if as_crlf(old) in text else old), as_crlf(new)
    return (old if old in text else old.replace("\r\n", "\n")), new
