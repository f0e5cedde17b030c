"""`polylect sessions`: lists, shows, exports, imports, forks, names, repairs and deletes sessions.

`main` finds the function for the subcommand in `_COMMANDS`. Each works directly on the files of `polylect.sessions`;
no engine is started. A session that is in use by another process is never changed: its folder is locked first.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing

from polylect.app.cli.terminal import print_error, print_json, print_line, print_table
from polylect.app.startup import config
from polylect.app.startup.args import UsageError, parse
from polylect.sessions import catalogue, folder, log, repair
from polylect.sessions.blobs import Blobs
from polylect.sessions.catalogue import SessionSummary
from polylect.sessions.formats import claude, detect, html_page, json_document, markdown, omp
from polylect.sessions.formats.conversation import Conversation, WrongFormat, iso
from polylect.sessions.library import read_log, stored_fork_place, write_out
from polylect.sessions.replay import Replay
from polylect.sessions.store import FileStore
from polylect.system.clock_and_ids import new_id
from polylect.vocab.entries import Configured, Opened
from polylect.vocab.errors import SessionError
from polylect.vocab.escape import escape_controls, escape_json

USAGE = """\
usage: polylect sessions [--here] [--json]        list them; --here: only those of this folder
       polylect sessions show ID [--points]       read one; --points: where it can be forked
       polylect sessions export ID --to md|html|json|omp|claude [FILE]
       polylect sessions import FILE [--as ID]    a session file of omp (version 3) or of Claude Code
       polylect sessions fork ID [--at MESSAGE] [--as ID]
       polylect sessions name ID WORDS...
       polylect sessions repair [ID]              repair what is damaged; without an ID, all of them
       polylect sessions delete ID..."""
FORMATS: dict[str, Callable[[Conversation], Iterator[bytes]]] = {
    "md": markdown.pieces,
    "html": html_page.pieces,
    "json": json_document.pieces,
    "omp": omp.pieces,
    "claude": claude.pieces,
}


def main(words: list[str]) -> int:
    env = dict(os.environ)
    try:
        settings = config.gather({}, env, os.path.realpath(os.getcwd()), [])
        root = str(settings.get("sessions_root") or folder.sessions_root(env))
        command = _COMMANDS.get(words[0]) if words else None
        if command is None:
            return _list(root, words)
        return command(root, words[1:])
    except UsageError:
        print(USAGE, file=sys.stderr)
        return 2
    except (config.ConfigError, folder.FolderError, SessionError, WrongFormat) as error:
        print_error(error)
    except BrokenPipeError:
        raise  # main() of the program handles it
    except OSError as error:
        print_error(f"{error.filename or root}: {error.strerror}")
    return 1


# One function for each subcommand: it gets the folder of all sessions and the words, and returns the exit code.


def _list(root: str, words: list[str]) -> int:
    if not set(words) <= {"--json", "--here"}:
        raise UsageError
    sessions = catalogue.listing(root, os.path.realpath(os.getcwd()) if "--here" in words else "")
    for log_and_reason in catalogue.broken_logs(root):
        print_error(f"{log_and_reason}: skipped")
    if "--json" in words:
        print_json(sessions)
    else:
        print_table([("ID", "LAST ACTIVE", "MESSAGES", "WORKSPACE", "ABOUT"), *map(_row, sessions)])
    return 0


def _row(session: SessionSummary) -> tuple[str, str, str, str, str]:
    about = session.name or session.words
    fork = f" (forked from {session.parent})" if session.parent else ""
    when = iso(session.active)[:16].replace("T", " ")
    return session.session, when, str(session.messages), session.workspace, about + fork


def _show(root: str, words: list[str]) -> int:
    plain = [word for word in words if word != "--points"]
    if len(plain) != 1:
        raise UsageError
    conversation, session_log = _read_conversation(root, _resolve_id(root, plain[0]))
    if "--points" in words:
        for point in conversation.replay.fork_points():
            print_line(f"{point.entry}  {' '.join(point.text.split())[:100]}")
        return 0
    print(escape_controls(b"".join(markdown.pieces(conversation)).decode()), end="")
    for fault in session_log.faults:
        print_error(f"line {fault.line} of the log is {fault.kind} and not shown")
    return 0


def _read_conversation(root: str, session: str) -> tuple[Conversation, log.Log]:
    """The conversation of a session, and its log. Raises SessionError if nothing in the log can be read.

    Only reads: a session may be in use by an engine, damaged, or of a later version.
    """
    path, session_log = folder.path_of(root, session), read_log(root, session)
    before, folders = log.ancestry(path, session_log.first)
    entries = before + session_log.entries
    if not entries:
        raise SessionError(f"nothing in the log of session '{session}' can be read")
    opened = session_log.entries[0].body
    cwd = opened.cwd if isinstance(opened, Opened) else folder.workspace_of(path)
    blobs = Blobs([os.path.join(place, "blobs") for place in (path, *folders)])
    return Conversation(session, cwd, entries[0].at, Replay(entries), blobs.fill), session_log


def _export(root: str, words: list[str]) -> int:
    options, plain = parse(words, {"--to": ("text", "to")}, {})
    if len(plain) not in (1, 2):
        raise UsageError
    session, path = _resolve_id(root, plain[0]), plain[1] if len(plain) > 1 else "-"
    form = str(options.get("to", "md"))
    if form not in FORMATS:
        raise SessionError(f"there is no format {form!r}; formats are {', '.join(FORMATS)}")
    conversation, _ = _read_conversation(root, session)
    if path == "-":
        _print(b"".join(FORMATS[form](conversation)), as_json=form not in ("md", "html"))
    else:
        write_out(root, path, FORMATS[form](conversation))
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


def _import(root: str, words: list[str]) -> int:
    """Makes a session of a conversation that another program has recorded."""
    options, plain = parse(words, {"--as": ("text", "as")}, {})
    if len(plain) != 1:
        raise UsageError
    conversation = detect.read(plain[0])
    workspace = os.path.realpath(conversation.cwd)
    if not os.path.isdir(workspace):
        cwd = conversation.cwd or "(none)"
        conversation.notes.append(f"its folder {cwd} is not on this machine: it is now about this one")
        workspace = os.path.realpath(os.getcwd())
    with _create(root, str(options.get("as", "")), workspace) as store:
        store.append_at(conversation.bodies)
        store.sync()
    for note in conversation.notes:
        print_error(note)
    _print_new(store.session)
    return 0


def _fork(root: str, words: list[str]) -> int:
    options, plain = parse(words, {"--at": ("text", "at"), "--as": ("text", "as")}, {})
    if len(plain) != 1:
        raise UsageError
    parent = _resolve_id(root, plain[0])
    place = stored_fork_place(root, parent, str(options.get("at", "")))
    with _create(root, str(options.get("as", "")), folder.workspace_of(folder.path_of(root, parent))) as store:
        store.fork(*place)
    _print_new(store.session)
    return 0


def _create(root: str, session: str, workspace: str) -> "closing[FileStore]":
    """The store of a new session; a random id is made where none is named."""
    place = folder.create(root, session or folder.new_id(), workspace)
    return closing(FileStore(place, cwd=workspace, new_id=new_id))


def _print_new(session: str) -> None:
    print(f"{session}\nGo on with it: polylect chat --resume {session}")


def _name(root: str, words: list[str]) -> int:
    if len(words) < 2:
        raise UsageError
    place = folder.resume(root, _resolve_id(root, words[0]), "")
    with closing(FileStore(place, cwd=folder.workspace_of(place.path), new_id=new_id)) as store:
        store.append(Configured({"name": " ".join(words[1:])}))
        store.sync()
    return 0


def _repair(root: str, words: list[str]) -> int:
    if len(words) > 1:
        raise UsageError
    for session in [_resolve_id(root, words[0])] if words else sorted(catalogue.names(root)):
        try:
            _repair_one(root, session)
        except (folder.FolderError, SessionError) as error:
            if words:
                raise
            print_line(f"{session}: {error}")
    for path in repair.remove_deleted(root):
        print_line(f"{path}: removed")
    return 0


def _repair_one(root: str, session: str) -> None:
    path = folder.path_of(root, session)
    if why := folder.why_unreadable(os.path.join(path, "log.jsonl")):
        raise SessionError(f"its log {why}: nothing was changed")
    if os.path.isdir(path) and not catalogue.summarise(root, session):
        folder.create(root, session, folder.workspace_of(path)).close(discard=True)
        print_line(f"{session}: nothing was ever said in it: removed")
        return
    place = folder.resume(root, session, "")
    try:
        report = repair.repair(place)
    finally:
        place.close()
    for line in report or ["in order"]:
        print_line(f"{session}: {line}")


def _delete(root: str, words: list[str]) -> int:
    if not words:
        raise UsageError
    repair.delete_all(root, words)
    return 0


def _resolve_id(root: str, session: str) -> str:
    """The id of a session; `latest` is the most recently active one of this folder. Raises SessionError."""
    if session != "latest":
        return session
    sessions = catalogue.listing(root, os.path.realpath(os.getcwd()))
    if not sessions:
        raise SessionError("no session is about this folder; see polylect sessions")
    return sessions[0].session


_COMMANDS: dict[str, Callable[[str, list[str]], int]] = {
    "show": _show,
    "export": _export,
    "import": _import,
    "fork": _fork,
    "name": _name,
    "repair": _repair,
    "delete": _delete,
}
