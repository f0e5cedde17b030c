"""Repairs damaged sessions and deletes sessions, for `polylect sessions repair` and `delete`.

Both need the session's lock. Repairing loses nothing: the old log stays beside the new one.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from polylect.sessions import catalogue, folder, log
from polylect.sessions.blobs import Blobs, named
from polylect.sessions.folder import Folder
from polylect.sessions.spills import Spills
from polylect.vocab.entries import VERSION, Entry
from polylect.vocab.errors import SessionError
from polylect.wire import jsonl

_DELETED = ".deleted-"
_raw_decode = json.JSONDecoder(strict=False).raw_decode


def repair(place: Folder) -> list[str]:
    """Repair a session and return one text for each finding. Raises SessionError if a later version wrote it."""
    session_log = log.read_path(place.log)
    if session_log.version > VERSION:
        raise SessionError(log.unusable(session_log))
    damaged = [fault.line for fault in session_log.faults if fault.kind == "damaged"]
    report = [f"line {fault.line} is of a kind that this version does not know: kept" for fault in session_log.faults
              if fault.kind == "foreign"]  # fmt: skip
    if damaged or session_log.torn:
        report += _rewrite(place.log, damaged)
        session_log = log.read_path(place.log)
    folders = [place.path, *log.ancestry(place.path, session_log.first)[1]]
    blobs = Blobs([os.path.join(folder, "blobs") for folder in folders])
    report += [
        f"{blob} is named in the log, and is gone"
        for blob in sorted(named(session_log.entries))
        if blobs.find(blob) is None
    ]
    if not session_log.faults:
        spills = Spills(os.path.join(place.path, "spill"), new_id=str)
        orphans = blobs.sweep(session_log.entries) + spills.sweep(session_log.entries)
        report += [f"{path} was named nowhere: removed" for path in orphans]
    return report


def _rewrite(path: str, damaged: list[int]) -> Iterator[str]:
    """Write the log again without what cannot be read, and keep the old one as a backup."""
    backup = _free(path + ".before-repair")
    draft = path + ".draft"
    try:
        yield from _mended(path, draft, damaged)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)  # it would take the room that there was too little of
        raise
    os.link(path, backup)
    os.rename(draft, path)
    yield f"the log as it was is kept in {backup}"


def _mended(path: str, draft: str, damaged: list[int]) -> Iterator[str]:
    with open(path, "rb") as old, open(draft, "wb") as new:
        lines = log.Lines(log.pieces(old.fileno()))
        for number, line in enumerate(lines, 1):
            saved = list(salvage(line)) if number in damaged else [line + b"\n"]
            new.writelines(saved)
            if number in damaged:
                yield f"line {number} was damaged: {_count(len(saved))} saved"
        if lines.rest:
            saved = list(salvage(lines.rest))
            new.writelines(saved)
            yield f"the last line, of {len(lines.rest)} bytes, had no end: {_count(len(saved))} saved"
        new.flush()
        os.fsync(new.fileno())
        status = os.fstat(old.fileno())
    os.utime(draft, ns=(status.st_atime_ns, status.st_mtime_ns))  # mending it is no reason for it to be the latest


def salvage(line: bytes) -> Iterator[bytes]:
    """The entries that can be recovered from a damaged line: bad bytes are replaced, joined lines are split."""
    text = line.replace(b"\0", b"").decode("utf-8", "replace")
    at = text.find("{")
    while at >= 0:
        try:
            value, at = _raw_decode(text, at)
            made = jsonl.dump(value)
            if isinstance(log.entry_of(made), Entry):
                yield made
        except (ValueError, RecursionError, msgspec.MsgspecError):
            at += 1
        at = text.find('{"id":', at)


def delete(place: Folder) -> None:
    """Delete a session at once. What a crash leaves of it is removed by `remove_deleted`."""
    root, name = os.path.split(place.path)
    doomed = os.path.join(root, f"{_DELETED}{name}-{os.getpid()}")
    os.rename(place.path, doomed)
    place.close()
    shutil.rmtree(doomed)


def check_deletable(root: str, sessions: Sequence[str]) -> None:
    """Raise SessionError if a session that stays was forked from one of these."""
    for session in sessions:
        if forks := [fork for fork in catalogue.forks(root, session) if fork not in sessions]:
            names = ", ".join(sorted(forks))
            raise SessionError(f"Session '{session}' holds the beginning of {names}, forked from it: delete that first")


def delete_all(root: str, sessions: Sequence[str]) -> None:
    """Delete sessions. Raises SessionError, before any is deleted, if another one was forked from one of them."""
    check_deletable(root, sessions)
    for session in sessions:
        delete(folder.resume(root, session, ""))


def remove_deleted(root: str) -> list[str]:
    """Remove what interrupted deletions left. Returns the paths."""
    names = os.listdir(root) if os.path.isdir(root) else []
    doomed = [os.path.join(root, name) for name in names if name.startswith(_DELETED)]
    for path in doomed:
        shutil.rmtree(path, ignore_errors=True)
    return doomed


def _free(path: str) -> str:
    names = (path if not number else f"{path}-{number}" for number in range(1000))
    return next(name for name in names if not os.path.exists(name))


def _count(saved: int) -> str:
    return "nothing could be" if not saved else "its entry was" if saved == 1 else f"{saved} entries were"
