"""A conversation that began in another program becomes a session here."""

import base64
import os
import sys

from polylect.engine import folder
from polylect.engine.formats import claude, omp
from polylect.engine.formats.story import NotThat, Taken
from polylect.engine.store import FileStore


def import_file(root: str, path: str, session: str) -> int:
    taken = read(path)
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
        print(f"polylect: {note}", file=sys.stderr)
    print(f"{session}\nGo on with it: polylect --json-stream --resume {session}")
    return 0


def read(path: str) -> Taken:
    """Raises NotThat with what is missing for either."""
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    refusals: list[str] = []
    try:
        return omp.take(lines, _Blobs(path).read)
    except NotThat as error:
        refusals.append(f"omp: {error}")
    try:
        return claude.take(lines)
    except NotThat as error:
        refusals.append(f"Claude Code: {error}")
    raise NotThat(f"{path} is not a session file that can be taken over. {'; '.join(refusals)}")


class _Blobs:
    """omp keeps large pictures in a folder beside all its sessions."""

    def __init__(self, path: str) -> None:
        agent = os.environ.get("PI_CODING_AGENT_DIR") or os.path.expanduser("~/.omp/agent")
        nearby = os.path.join(os.path.dirname(os.path.abspath(path)), "..", "..")
        self._folders = [os.path.join(place, "blobs") for place in (nearby, agent)]

    def read(self, name: str) -> str:
        if not name.isalnum():
            return ""
        for place in self._folders:
            try:
                with open(os.path.join(place, name), "rb") as file:
                    return base64.b64encode(file.read()).decode()
            except OSError:
                continue
        return ""
