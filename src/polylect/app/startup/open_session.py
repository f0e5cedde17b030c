"""The session that a start is about: a new one, an old one, or one that goes its own way from another."""

import os
from contextlib import closing

from polylect.app.startup.start import Start, new_session, sessions_root
from polylect.sessions import folder
from polylect.sessions.library import FileLibrary
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore, MemoryStore
from polylect.system.clock_and_ids import new_id
from polylect.vocab.errors import SessionError
from polylect.vocab.ports import Store


def is_long(start: Start) -> bool:
    """Whether reading it would keep a host waiting."""
    values, place = start.values, start.place
    if file := str(values.get("session_file") or ""):
        return os.path.getsize(os.path.join(file, "log.jsonl") if os.path.isdir(file) else file) > folder.LONG
    goes_on = bool(values.get("resume") or values.get("continue"))
    session = str(values.get("fork_from") or (place.session if place and goes_on else ""))
    return folder.bytes_to_read(sessions_root(values, start.env), session) > folder.LONG


def open_session(start: Start) -> tuple[Session, FileLibrary | None]:
    """And where the others are, if they are kept. Raises SessionError."""
    if start.place is None and not start.values.get("session_file"):
        return Session(MemoryStore("", start.session)), None
    values, workspace = start.values, str(start.values["workspace"])
    library = FileLibrary(sessions_root(values, start.env), workspace, new_id, lambda: new_session(values))
    return Session(_store(start, library, workspace)), library


def _store(start: Start, library: FileLibrary, workspace: str) -> Store:
    values = start.values
    if file := values.get("session_file"):
        found = library.resume(str(file))
        if not values.get("fork"):
            return found
        with closing(found):
            return library.fork(found)
    store = FileStore(_folder(start, workspace), cwd=workspace, new_id=new_id)
    if parent := values.get("fork_from"):
        store.fork(*library.end_of(str(parent)))
    if line := values.get("resume_at"):
        from polylect.dialects.claude.start_lines import go_back  # a flag of claude's, whose wire has loaded it

        go_back(store, str(line))
    return store


def _folder(start: Start, workspace: str) -> folder.Folder:
    """The session's folder. One that somebody has deleted since the start is made anew, if nothing was in it."""
    place, values = start.place, start.values
    assert place is not None
    goes_on = (values.get("resume") or values.get("continue")) and not values.get("fork")
    if goes_on or os.path.isdir(place.path):
        return place
    place.close()
    try:
        return folder.create(os.path.dirname(place.path), place.session, workspace)
    except folder.FolderError as error:
        raise SessionError(str(error)) from None
