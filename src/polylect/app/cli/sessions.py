"""`polylect sessions`: lists, shows, exports, imports, forks, names, repairs and deletes sessions.

`main` finds the function for the subcommand in `_COMMANDS`. Each works directly on the files of `polylect.sessions`;
no engine is started. A session that is in use by another process is never changed: its folder is locked first.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing

from polylect.app.cli.sessions_export import export, read, show
from polylect.app.cli.terminal import print_error, print_json, print_line, print_table
from polylect.app.startup import config
from polylect.app.startup.args import UsageError
from polylect.sessions import catalogue, folder, log, repair
from polylect.sessions.catalogue import SessionSummary
from polylect.sessions.formats import detect
from polylect.sessions.formats.conversation import WrongFormat, iso
from polylect.sessions.library import fork_place
from polylect.sessions.store import FileStore
from polylect.system.clock_and_ids import new_id
from polylect.vocab.entries import Configured
from polylect.vocab.errors import SessionError

USAGE = """\
usage: polylect sessions [--here] [--json]        list them; --here: only those of this folder
       polylect sessions show ID [--points]       read one; --points: where it can be forked
       polylect sessions export ID --to md|html|json|omp|claude [FILE]
       polylect sessions import FILE [--as ID]    a session file of omp (version 3) or of Claude Code
       polylect sessions fork ID [--at MESSAGE] [--as ID]
       polylect sessions name ID WORDS...
       polylect sessions repair [ID]              mend what is damaged; without an ID, all of them
       polylect sessions delete ID..."""


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


def _parse_options(words: Sequence[str], *names: str) -> tuple[list[str], dict[str, str]]:
    """Splits words into plain ones and options with their values. Raises UsageError."""
    plain: list[str] = []
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in names:
            text = value if equals else next(rest, None)
            if text is None:
                raise UsageError
            options[name] = text
        elif word.startswith("--"):
            raise UsageError
        else:
            plain.append(word)
    return plain, options


# One function for each subcommand: it gets the folder of all sessions and the words, and returns the exit code.


def _list(root: str, words: list[str]) -> int:
    if not set(words) <= {"--json", "--here"}:
        raise UsageError
    sessions = catalogue.listing(root, os.path.realpath(os.getcwd()) if "--here" in words else "")
    for path in catalogue.strange(root):
        print_error(f"{path} is no file: skipped")
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
    return show(root, _resolve_id(root, plain[0]), points="--points" in words)


def _export(root: str, words: list[str]) -> int:
    plain, options = _parse_options(words, "--to")
    if len(plain) not in (1, 2):
        raise UsageError
    return export(root, _resolve_id(root, plain[0]), options.get("--to", "md"), plain[1] if len(plain) > 1 else "-")


def _import(root: str, words: list[str]) -> int:
    """Makes a session of a conversation that another program has recorded."""
    plain, options = _parse_options(words, "--as")
    if len(plain) != 1:
        raise UsageError
    conversation = detect.read(plain[0])
    workspace = os.path.realpath(conversation.cwd)
    if not os.path.isdir(workspace):
        cwd = conversation.cwd or "(none)"
        conversation.notes.append(f"its folder {cwd} is not on this machine: it is now about this one")
        workspace = os.path.realpath(os.getcwd())
    with _create(root, options.get("--as", ""), workspace) as store:
        store.append_at(conversation.bodies)
        store.sync()
    for note in conversation.notes:
        print_error(note)
    _print_new(store.session)
    return 0


def _fork(root: str, words: list[str]) -> int:
    plain, options = _parse_options(words, "--at", "--as")
    if len(plain) != 1:
        raise UsageError
    parent = _resolve_id(root, plain[0])
    path, session_log = folder.path_of(root, parent), read(root, parent)
    if why := log.unusable(session_log):
        raise SessionError(f"Session '{parent}' cannot be forked: {why}")
    before, _ = log.ancestry(path, session_log.first)
    owner, entry = fork_place(parent, before + session_log.entries, options.get("--at", ""))
    with _create(root, options.get("--as", ""), folder.workspace_of(path)) as store:
        store.fork(owner, entry)
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
        raise UsageError
    for session in words:
        if forks := [fork for fork in catalogue.forks(root, session) if fork not in words]:
            names = ", ".join(sorted(forks))
            raise SessionError(f"Session '{session}' holds the beginning of {names}, forked from it: delete that first")
    for session in words:
        repair.delete(folder.resume(root, session, ""))
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
