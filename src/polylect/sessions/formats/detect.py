"""Imports session files of other programs. Each format is tried; the error says why none of them fits.

omp stores large images in a folder beside its sessions, so these are loaded here too. Called by `library.py`.
"""

import base64
import codecs
import os

from polylect.sessions.formats import claude, omp
from polylect.sessions.formats.conversation import Imported, WrongFormat


def read(path: str) -> Imported:
    """Import the file. Raises WrongFormat with the reasons for each format, and OSError."""
    with open(path, "rb") as file:
        lines = file.read().removeprefix(codecs.BOM_UTF8).split(b"\n")
    refusals: list[str] = []
    try:
        return omp.import_lines(lines, _Blobs(path).read)
    except WrongFormat as error:
        refusals.append(f"omp: {error}")
    try:
        return claude.import_lines(lines)
    except WrongFormat as error:
        refusals.append(f"Claude Code: {error}")
    raise WrongFormat(f"{path} is not a session file that can be taken over. {'; '.join(refusals)}")


class _Blobs:
    """Loads large images, which omp stores in a folder beside all its sessions."""

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
