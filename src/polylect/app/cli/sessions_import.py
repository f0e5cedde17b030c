"""A conversation that began in another program becomes a session here."""

import os

from polylect.app.cli.terminal import print_error
from polylect.sessions import folder
from polylect.sessions.formats import detect
from polylect.sessions.store import FileStore


def import_file(root: str, path: str, session: str) -> int:
    taken = detect.read(path)
    workspace = os.path.realpath(taken.cwd)
    if not os.path.isdir(workspace):
        taken.notes.append(f"its folder {taken.cwd or '(none)'} is not on this machine: it is now about this one")
        workspace = os.path.realpath(os.getcwd())
    place = folder.create(root, session, workspace)
    store = FileStore(place, cwd=workspace, new_id=lambda: os.urandom(8).hex())
    try:
        store.append_at(taken.bodies)
        store.sync()
    finally:
        store.close()
    for note in taken.notes:
        print_error(note)
    print(f"{session}\nGo on with it: polylect chat --resume {session}")
    return 0
