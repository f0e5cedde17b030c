"""Opens the session of a start: a new one, an existing one, or a fork of an existing one.

`start.py` has checked the flags and locked the folder before `ready`; this module reads the log afterwards. Called by
`serving/serve.py`, `serving/own_engine.py` and `serving/start_check.py`. Logs of other engines (`session_file`) are
imported on the way.
"""

import os
from contextlib import closing

from polylect.app.startup.start import Start, new_session, sessions_root
from polylect.sessions import folder
from polylect.sessions.library import FileLibrary, stored_fork_place
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore, MemoryStore
from polylect.system.clock_and_ids import new_id
from polylect.vocab.errors import SessionError
from polylect.vocab.ports import Store


def is_long(start: Start) -> bool:
    """Whether the log of the session is so long that a host would notice the time to read it."""
    values, place = start.values, start.place
    if file := str(values.get("session_file") or ""):
        return os.path.getsize(os.path.join(file, "log.jsonl") if os.path.isdir(file) else file) > folder.LONG
    resumes = bool(values.get("resume") or values.get("continue"))
    session = str(values.get("fork_from") or (place.session if place and resumes else ""))
    return folder.bytes_to_read(sessions_root(values, start.env), session) > folder.LONG


def open_session(start: Start) -> tuple[Session, FileLibrary | None]:
    """The session, and the library of all sessions where they are stored. Raises SessionError."""
    if start.place is None and not start.values.get("session_file"):
        return Session(MemoryStore("", start.session)), None
    values, workspace = start.values, str(start.values["workspace"])
    library = FileLibrary(sessions_root(values, start.env), workspace, new_id, lambda: new_session(values))
    return Session(_store(start, library, workspace)), library


def _store(start: Start, library: FileLibrary, workspace: str) -> Store:
    values = start.values
    if file := values.get("session_file"):
        store = library.resume(str(file))
        if not values.get("fork"):
            return store
        with closing(store):
            return library.fork(store)
    store = FileStore(_folder(start, workspace), cwd=workspace, new_id=new_id)
    if parent := values.get("fork_from"):
        store.fork(*stored_fork_place(sessions_root(values, start.env), str(parent)))
    if line := values.get("resume_at"):
        from polylect.dialects.claude.start_lines import go_back  # of claude, whose codec has imported it already

        go_back(store, str(line))
    return store


def _folder(start: Start, workspace: str) -> folder.Folder:
    """The folder of the session. If a new one was deleted since the start, it is created again. Raises SessionError."""
    place, values = start.place, start.values
    assert place is not None
    resumes = (values.get("resume") or values.get("continue")) and not values.get("fork")
    if resumes or os.path.isdir(place.path):
        return place
    place.close()
    try:
        return folder.create(os.path.dirname(place.path), place.session, workspace)
    except folder.FolderError as error:
        raise SessionError(str(error)) from None
