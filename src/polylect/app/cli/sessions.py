"""`polylect sessions`: what is kept, and moving, forking, mending and deleting it."""

import os
import sys
from collections.abc import Callable, Sequence

import msgspec

from polylect.app.cli.sessions_export import export, read, show
from polylect.app.cli.sessions_import import import_file
from polylect.app.cli.terminal import print_error, print_json, print_line
from polylect.app.startup import config
from polylect.sessions import catalogue, folder, log, repair
from polylect.sessions.catalogue import SessionSummary
from polylect.sessions.formats.conversation import WrongFormat, iso
from polylect.sessions.library import fork_place
from polylect.sessions.store import FileStore
from polylect.vocab.entries import Configured
from polylect.vocab.errors import SessionError
from polylect.vocab.escape import escape_line

USAGE = """\
usage: polylect sessions [--here] [--json]        list them; --here: only those of this folder
       polylect sessions show ID [--points]       read one; --points: where it can be forked
       polylect sessions export ID --to md|html|json|omp|claude [FILE]
       polylect sessions import FILE [--as ID]    a session file of omp (version 3) or of Claude Code
       polylect sessions fork ID [--at MESSAGE] [--as ID]
       polylect sessions name ID WORDS...
       polylect sessions repair [ID]              mend what is damaged; without an ID, all of them
       polylect sessions delete ID..."""


class Usage(Exception):
    """The words make no sense."""


def main(words: list[str]) -> int:
    env = dict(os.environ)
    try:
        found = config.gather({}, env, os.path.realpath(os.getcwd()), [])
        root = str(found.get("sessions_root") or folder.sessions_root(env))
        act = _ACTS.get(words[0]) if words else None
        if act is None:
            return _list(root, words)
        return act(root, words[1:])
    except Usage:
        print(USAGE, file=sys.stderr)
        return 2
    except (config.ConfigError, folder.FolderError, SessionError, WrongFormat) as error:
        print_error(error)
    except BrokenPipeError:
        raise  # whoever reads has seen enough
    except OSError as error:
        print_error(f"{error.filename or root}: {error.strerror}")
    return 1


def option(words: Sequence[str], *names: str) -> tuple[list[str], dict[str, str]]:
    """Plain words, and options with their values."""
    plain: list[str] = []
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in names:
            told = value if equals else next(rest, None)
            if told is None:
                raise Usage
            found[name] = told
        elif word.startswith("--"):
            raise Usage
        else:
            plain.append(word)
    return plain, found


# Each does one thing.


def _list(root: str, words: list[str]) -> int:
    if not set(words) <= {"--json", "--here"}:
        raise Usage
    listed = catalogue.listing(root, os.path.realpath(os.getcwd()) if "--here" in words else "")
    for path in catalogue.strange(root):
        print_error(f"{path} is no file: skipped")
    if "--json" in words:
        print_json(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
        return 0
    rows = [
        ("ID", "LAST ACTIVE", "MESSAGES", "WORKSPACE", "ABOUT"),
        *(tuple(map(escape_line, _row(one))) for one in listed),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True)]
        print("  ".join((*cells, row[4])).rstrip())
    return 0


def _row(session: SessionSummary) -> tuple[str, str, str, str, str]:
    about = session.name or session.words
    fork = f" (forked from {session.parent})" if session.parent else ""
    when = iso(session.active)[:16].replace("T", " ")
    return session.session, when, str(session.messages), session.workspace, about + fork


def _show(root: str, words: list[str]) -> int:
    plain = [word for word in words if word != "--points"]
    if len(plain) != 1:
        raise Usage
    return show(root, _named(root, plain[0]), points="--points" in words)


def _export(root: str, words: list[str]) -> int:
    plain, told = option(words, "--to")
    if len(plain) not in (1, 2):
        raise Usage
    return export(root, _named(root, plain[0]), told.get("--to", "md"), plain[1] if len(plain) > 1 else "-")


def _import(root: str, words: list[str]) -> int:
    plain, told = option(words, "--as")
    if len(plain) != 1:
        raise Usage
    return import_file(root, plain[0], told.get("--as") or folder.new_id())


def _fork(root: str, words: list[str]) -> int:
    plain, told = option(words, "--at", "--as")
    if len(plain) != 1:
        raise Usage
    parent, session = _named(root, plain[0]), told.get("--as") or folder.new_id()
    path, found = folder.path_of(root, parent), read(root, parent)
    if why := log.unusable(found):
        raise SessionError(f"Session '{parent}' cannot be forked: {why}")
    before, _ = log.ancestry(path, found.first)
    owner, entry = fork_place(parent, before + found.entries, told.get("--at", ""))
    workspace = folder.workspace_of(path)
    store = FileStore(folder.create(root, session, workspace), cwd=workspace, new_id=_new_id)
    try:
        store.fork(owner, entry)
    finally:
        store.close()
    print(f"{session}\nGo on with it: polylect chat --resume {session}")
    return 0


def _name(root: str, words: list[str]) -> int:
    if len(words) < 2:
        raise Usage
    place = folder.resume(root, _named(root, words[0]), "")
    store = FileStore(place, cwd=folder.workspace_of(place.path), new_id=_new_id)
    try:
        store.append(Configured({"name": " ".join(words[1:])}))
        store.sync()
    finally:
        store.close()
    return 0


def _repair(root: str, words: list[str]) -> int:
    if len(words) > 1:
        raise Usage
    for session in [_named(root, words[0])] if words else sorted(catalogue.names(root)):
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
    if folder.is_not_a_file(os.path.join(path, "log.jsonl")):
        raise SessionError("its log is no file: nothing was changed")
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
        raise Usage
    for session in words:
        if forks := [fork for fork in catalogue.forks(root, session) if fork not in words]:
            told = ", ".join(sorted(forks))
            raise SessionError(f"Session '{session}' holds the beginning of {told}, forked from it: delete that first")
    for session in words:
        repair.delete(folder.resume(root, session, ""))
    return 0


def _named(root: str, session: str) -> str:
    """`latest` is the most recently active one of this folder."""
    if session != "latest":
        return session
    found = catalogue.listing(root, os.path.realpath(os.getcwd()))
    if not found:
        raise SessionError("no session is about this folder; see polylect sessions")
    return found[0].session


def _new_id() -> str:
    return os.urandom(8).hex()


_ACTS: dict[str, Callable[[str, list[str]], int]] = {
    "show": _show,
    "export": _export,
    "import": _import,
    "fork": _fork,
    "name": _name,
    "repair": _repair,
    "delete": _delete,
}
