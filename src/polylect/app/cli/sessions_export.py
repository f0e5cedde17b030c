"""Shows a session to a person and exports it for other programs: `polylect sessions show` and `export`.

Only reads: a session may be in use by an engine, damaged, or of a later version. Lines of the log that cannot be read
are named and left out.
"""

import os
import re
import sys
from collections.abc import Callable

from polylect.app.cli.terminal import print_error, print_line
from polylect.sessions import folder, log
from polylect.sessions.blobs import Blobs
from polylect.sessions.formats import claude, html_page, json_document, markdown, omp
from polylect.sessions.formats.conversation import Conversation
from polylect.sessions.library import write_out
from polylect.sessions.replay import Replay
from polylect.vocab.entries import Opened
from polylect.vocab.errors import SessionError
from polylect.vocab.escape import escape_controls, escape_json

FORMATS: dict[str, Callable[[Conversation], bytes]] = {
    "md": markdown.export,
    "html": html_page.export,
    "json": json_document.export,
    "omp": omp.export,
    "claude": claude.export,
}


def read(root: str, session: str) -> log.Log:
    """The log of a session. Raises SessionError if there is none."""
    try:
        return log.read_path(os.path.join(folder.path_of(root, session), "log.jsonl"))
    except FileNotFoundError:
        raise SessionError(f"Session '{session}' not found in {root}. See polylect sessions") from None


def read_conversation(root: str, session: str) -> tuple[Conversation, log.Log]:
    """The conversation of a session, and its log. Raises SessionError if nothing in the log can be read."""
    path, session_log = folder.path_of(root, session), read(root, session)
    before, folders = log.ancestry(path, session_log.first)
    entries = before + session_log.entries
    if not entries:
        raise SessionError(f"nothing in the log of session '{session}' can be read")
    opened = session_log.entries[0].body
    cwd = opened.cwd if isinstance(opened, Opened) else folder.workspace_of(path)
    blobs = Blobs([os.path.join(place, "blobs") for place in (path, *folders)])
    return Conversation(session, cwd, entries[0].at, Replay(entries), blobs.fill), session_log


def show(root: str, session: str, *, points: bool) -> int:
    conversation, session_log = read_conversation(root, session)
    if points:
        for point in conversation.replay.fork_points():
            print_line(f"{point.entry}  {' '.join(point.text.split())[:100]}")
        return 0
    print(escape_controls(markdown.export(conversation).decode()), end="")
    for fault in session_log.faults:
        print_error(f"line {fault.line} of the log is {fault.kind} and not shown")
    return 0


def export(root: str, session: str, form: str, path: str) -> int:
    if form not in FORMATS:
        raise SessionError(f"there is no format {form!r}; formats are {', '.join(FORMATS)}")
    conversation, _ = read_conversation(root, session)
    if path == "-":
        _print(FORMATS[form](conversation), as_json=form not in ("md", "html"))
    else:
        write_out(root, path, (FORMATS[form](conversation),))
    if form == "claude":
        place = re.sub(r"[^A-Za-z0-9]", "-", conversation.cwd)
        id = claude.session_id(session)
        print(f"Put it at ~/.claude/projects/{place}/{id}.jsonl, then: claude --resume {id}", file=sys.stderr)
    elif form == "omp" and path != "-":
        print(f"Go on with it: omp --resume {path}", file=sys.stderr)
    return 0


def _print(content: bytes, *, as_json: bool) -> None:
    """Writes to stdout, unchanged for a file or a program, escaped for a terminal."""
    if sys.stdout.isatty():
        content = (escape_json if as_json else escape_controls)(content.decode()).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.flush()
