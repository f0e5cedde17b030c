"""Lists the sessions that Claude Code, omp and pi have stored for a folder.

They have no command for it that a program could call, so their files are read: one `.jsonl` for each session, in a
folder for each project. `host/sessions.py` calls this, in a thread. A file that cannot be read is left out.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress

from polylect.sessions.formats.conversation import WrongFormat
from polylect.sessions.formats.detect import read
from polylect.sessions.replay import message_text
from polylect.vocab.answers import SessionCard
from polylect.vocab.entries import Configured, MessageAdded, ShellRan

_HEAD = 64 * 1024
"""Bytes at the beginning of a file among which its folder is named."""
_CWD = re.compile(rb'"cwd":\s*("(?:[^"\\]|\\.)*")')
_WORDS = 80
"""Characters of the first prompt that are shown."""


def stored_sessions(root: str, cwd: str) -> list[SessionCard]:
    """The sessions below the folder `root` that are about the folder `cwd`, the one that was active last first."""
    cards, cwd = [], os.path.realpath(cwd)
    for path in _session_files(root):
        with suppress(OSError, WrongFormat):
            if _folder_of(path) == cwd:
                cards.append(_card(path))
    return sorted(cards, key=lambda card: card.at, reverse=True)


def _session_files(root: str) -> Iterator[str]:
    """Files in `root` and in its folders. Those of sub-agents lie deeper, or are named after them."""
    with suppress(OSError):
        for entry in os.scandir(root):
            if entry.is_dir():
                yield from (file.path for file in os.scandir(entry) if _is_session(file.name))
            elif _is_session(entry.name):
                yield entry.path


def _is_session(name: str) -> bool:
    return name.endswith(".jsonl") and not name.startswith("agent-")


def _folder_of(path: str) -> str:
    with open(path, "rb") as file:
        named = _CWD.search(file.read(_HEAD))
    return str(json.loads(named[1])) if named else ""


def _card(path: str) -> SessionCard:
    imported = read(path)
    name, first, messages = "", "", 0
    for _, body in imported.bodies:
        match body:
            case MessageAdded(message):
                messages += 1
                if message.role == "user" and not first:
                    first = " ".join(message_text(message)[: 4 * _WORDS].split())[:_WORDS]
            case ShellRan():
                messages += 1
            case Configured(settings):
                name = str(settings.get("name", name))
    id = os.path.basename(path).removesuffix(".jsonl").rpartition("_")[2]  # omp and pi write the time before it
    return SessionCard(id, imported.cwd, name, int(os.stat(path).st_mtime * 1000), messages, first)
