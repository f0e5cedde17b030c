"""Where sessions live: names, locks, the latest one (S2, S3, S5, P6)."""

import fcntl
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from polylect.sessions import catalogue, folder
from polylect.sessions.folder import FolderError
from polylect.sessions.store import FileStore
from polylect.vocab import entries
from polylect.vocab.entries import TurnOpened
from polylect.vocab.errors import SessionError


def say_something(place: folder.Folder) -> None:
    store = FileStore(place, cwd="/w", new_id=map(str, count(1)).__next__)
    store.append(TurnOpened("t1"))
    store.close()


@pytest.mark.parametrize(
    "session",
    [
        "",
        ".",
        "..",
        ".hidden",
        "../a",
        "a/b",
        "/a",
        "a b",
        "a\n",
        "a\0",
        "ä",
        "a" * 129,
        "~",
        "$HOME",
        "a\\b",
        "-\ud800",
    ],
)
def test_P6_an_id_that_could_lead_elsewhere_is_refused(session: str, tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    with pytest.raises(FolderError, match="bad session id"):
        folder.create(str(root), session, "/w")
    with pytest.raises(FolderError, match="bad session id"):
        folder.resume(str(root), session, "/w")
    assert not root.exists()


@pytest.mark.parametrize("session", ["a", "A-b_c.d", "0" * 128])
def test_P6_ordinary_ids_are_taken(session: str, tmp_path: Path) -> None:
    say_something(folder.create(str(tmp_path), session, "/w"))
    assert [path.name for path in tmp_path.iterdir()] == [session]


def test_sessions_are_for_their_owner_only(tmp_path: Path) -> None:
    """Whatever the umask is: who can write in the folder of sessions can put one there that is taken for the latest."""
    before = os.umask(0)
    try:
        say_something(folder.create(str(tmp_path / "polylect" / "sessions"), "a", "/w"))
    finally:
        os.umask(before)
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    expected = {"polylect": 0o700, "polylect/sessions": 0o700, "polylect/sessions/a": 0o700}
    assert {path: mode for path, mode in modes.items() if mode & 0o100} == expected
    assert modes["polylect/sessions/a/log.jsonl"] == 0o600


def test_S2_an_id_in_use_is_refused_and_one_in_which_nothing_was_said_is_free(tmp_path: Path) -> None:
    folder.create(str(tmp_path), "a", "/w").close()
    say_something(folder.create(str(tmp_path), "a", "/w"))
    with pytest.raises(FolderError, match=r"Session ID 'a' already exists\. Use --resume a"):
        folder.create(str(tmp_path), "a", "/w")
    folder.resume(str(tmp_path), "a", "/w").close()  # and the refusal has let go of it


def test_S2_a_missing_session_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    with pytest.raises(FolderError, match="Session 'a' not found"):
        folder.resume(str(root), "a", "/w")
    with pytest.raises(FolderError, match="No sessions found for /w"):
        folder.resume(str(root), "latest", "/w")
    assert not root.exists()


def test_S2_the_latest_session_is_the_most_recently_active_of_this_workspace(tmp_path: Path) -> None:
    for age, (session, workspace) in enumerate([("a", "/w"), ("b", "/w"), ("c", "/other")]):
        say_something(folder.create(str(tmp_path), session, workspace))
        os.utime(tmp_path / session / "log.jsonl", (age, age))
    folder.create(str(tmp_path), "silent", "/w").close()
    assert resumed(tmp_path, "/w") == "b"
    os.utime(tmp_path / "a" / "log.jsonl", (9, 9))
    assert resumed(tmp_path, "/w") == "a"
    assert resumed(tmp_path, "/other") == "c"


def resumed(root: Path, workspace: str) -> str:
    place = folder.resume(str(root), "latest", workspace)
    place.close()
    return place.session


@pytest.mark.parametrize(
    ("opened", "why"),
    [
        ({"version": 99}, "it was written by a later polylect (its log has version 99, this one knows 1)"),
        ({"parent": "gone"}, "it was forked from session 'gone', which is no longer there"),
        ({"parent": "orphan"}, "it was forked from session 'gone', which is no longer there"),
    ],
)
def test_S2_what_cannot_be_gone_on_with_shows_in_the_first_line(
    opened: dict[str, object], why: str, tmp_path: Path
) -> None:
    for session, expected in {"orphan": {"parent": "gone"}, "s": opened}.items():
        (tmp_path / session).mkdir()
        body = {"type": "opened", "session": session, "cwd": '"version":1', **expected}
        (tmp_path / session / "log.jsonl").write_text(
            json.dumps({"id": "1", "parent": "", "at": 1, "body": body}) + "\n"
        )
    with pytest.raises(FolderError, match=re.escape(f"Session 's' cannot be gone on with: {why}")):
        folder.check_resumable(str(tmp_path), "s")


GOOD = b'{"id":"1","parent":"","at":1,"body":{"type":"turn_opened","turn":"t1"}}\n'
DAMAGED = [b"garbage\n", b"\xff\n", b"[1]\n", b'{"body":[]}\n', b'{"body":{"type":"opened"}}\n', b"[" * 70_000, b"PK\0"]


@pytest.mark.parametrize("line", DAMAGED)
def test_S2_a_log_of_which_nothing_can_be_read_is_refused_with_what_to_do(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "log.jsonl").write_bytes(line)
    why = (
        "Session 's' cannot be gone on with: none of the 1 lines of its log can be read. Nothing was changed: polylect"
    )
    with pytest.raises(FolderError, match=re.escape(why)):
        folder.check_resumable(str(tmp_path), "s")
    assert (tmp_path / "s" / "log.jsonl").read_bytes() == line


@pytest.mark.parametrize(
    "log", [b"garbage\n" + GOOD, b"[" * 70_000 + b"\n" + GOOD, b'{"id":"1","par', b'{"', b"\n\n", b"\0" * 9]
)
def test_S1_a_log_of_which_something_can_be_read_or_that_was_cut_at_once_is_gone_on_with(
    log: bytes, tmp_path: Path
) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "log.jsonl").write_bytes(log)
    folder.check_resumable(str(tmp_path), "s")
    FileStore(folder.resume(str(tmp_path), "s", "/w"), cwd="/w", new_id=str).close()


def test_S1_a_log_cut_in_its_first_line_is_looked_at_where_nothing_else_has_loaded_json(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "log.jsonl").write_bytes(b'{"id":"1","par')
    code = (
        "import sys; from polylect.sessions import folder; assert 'json' not in sys.modules; "
        "folder.check_resumable(*sys.argv[1:])"
    )
    env = {"PYTHONPATH": str(Path(folder.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code, str(tmp_path), "s"], env=env, check=True, timeout=20)


def test_a_session_named_by_its_file_is_looked_at_as_well(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    log, theirs = tmp_path / "s" / "log.jsonl", tmp_path / "theirs.jsonl"
    log.write_bytes(b"garbage\n")
    for path in (log, log.parent):
        with pytest.raises(FolderError, match="Session 's' cannot be gone on with: none of the 1 lines"):
            folder.check_resumable_path(str(path))
    theirs.write_bytes(b"garbage\n[1]\n")
    with pytest.raises(FolderError, match="none of its lines is an object"):
        folder.check_resumable_path(str(theirs))
    with pytest.raises(FolderError, match="no file at all"):
        folder.check_resumable_path(str(tmp_path))
    theirs.write_bytes(b'\xef\xbb\xbf{"type":"session"}\n')
    folder.check_resumable_path(str(theirs))


def test_S3_a_session_whose_log_cannot_be_opened_is_let_go_of(tmp_path: Path) -> None:
    place = folder.create(str(tmp_path), "s", "/w")
    os.rename(tmp_path / "s", tmp_path / "moved")
    with pytest.raises(SessionError, match="cannot open the session log"):
        FileStore(place, cwd="/w", new_id=str)
    os.rename(tmp_path / "moved", tmp_path / "s")
    folder.create(str(tmp_path), "s", "/w").close(discard=True)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    root = str(tmp_path)
    for session in ("one", "two", "fork"):
        say_something(folder.create(root, session, "/w"))
    (tmp_path / "two" / "workspace").unlink()
    os.mkfifo(tmp_path / "two" / "workspace")
    (tmp_path / "fork" / "log.jsonl").unlink()
    os.mkfifo(tmp_path / "fork" / "log.jsonl")
    assert {one.session: one.workspace for one in catalogue.listing(root)} == {"one": "/w", "two": ""}
    assert folder.find_session(root, "latest", "/w") == "one"
    assert folder.bytes_to_read(root, "fork") == 0
    (tmp_path / "two" / "log.jsonl").unlink()
    with pytest.raises(FolderError, match="workspace is no file"):
        folder.create(root, "two", "/w")


def test_what_was_put_aside_and_never_told_of_leaves_no_folder_behind(tmp_path: Path) -> None:
    store = FileStore(folder.create(str(tmp_path), "s", "/w"), cwd="/w", new_id=lambda: "x")
    store.spill("long")
    store.close()
    assert os.listdir(tmp_path) == []


def test_the_version_of_logs_is_the_same_in_both_places() -> None:
    assert folder.VERSION == entries.VERSION


def test_a_folder_that_cannot_be_made_or_locked_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="Set POLYLECT_HOME"):
        folder.create(str(tmp_path / "file"), "a", "/w")
    say_something(folder.create(str(tmp_path), "a", "/w"))
    (tmp_path / "a" / "lock").unlink(missing_ok=True)
    (tmp_path / "a" / "lock").mkdir()
    with pytest.raises(FolderError, match="cannot lock the session folder"):
        folder.resume(str(tmp_path), "a", "/w")


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"POLYLECT_HOME": "/p"}, "/p/sessions"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/polylect/sessions"),
        ({"HOME": "/h"}, "/h/.local/state/polylect/sessions"),
    ],
)
def test_sessions_live_where_the_environment_says(env: dict[str, str], root: str) -> None:
    assert folder.sessions_root(env) == root


HOLD = """
import sys
from polylect.sessions import catalogue, folder
folder.create(sys.argv[1], "a", "/w")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process_holds(root: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(root)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_S3_a_second_process_is_told_who_holds_the_session_and_gets_it_when_the_first_dies(tmp_path: Path) -> None:
    with another_process_holds(tmp_path) as process:
        with pytest.raises(FolderError, match=f"Session 'a' is in use by process {process.pid}"):
            folder.create(str(tmp_path), "a", "/w")
        process.kill()
        process.wait()
    say_something(folder.create(str(tmp_path), "a", "/w"))


def test_S3_a_process_that_has_just_locked_a_session_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    with (tmp_path / "a" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(FolderError, match="Session 'a' is in use by another process"):
            folder.create(str(tmp_path), "a", "/w")


def test_S5_many_sessions_made_at_once_disturb_nobody(tmp_path: Path) -> None:
    def one(number: int) -> str:
        session = folder.new_id()
        say_something(folder.create(str(tmp_path / "sessions"), session, f"/w{number}"))
        return session

    with ThreadPoolExecutor(25) as pool:
        made = list(pool.map(one, range(100)))
    assert {path.name for path in (tmp_path / "sessions").iterdir()} == set(made)
    for number, session in enumerate(made):
        assert resumed(tmp_path / "sessions", f"/w{number}") == session


def test_S3_of_many_that_want_one_session_at_once_one_gets_it(tmp_path: Path) -> None:
    def one(number: int) -> folder.Folder | None:
        try:
            return folder.create(str(tmp_path), "a", "/w")
        except FolderError:
            return None

    with ThreadPoolExecutor(25) as pool:
        held = [place for place in pool.map(one, range(50)) if place]
    assert len(held) == 1


def test_S3_whoever_comes_while_a_folder_is_being_removed_gets_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening the lock and holding it, the one before us may have removed the file that we opened."""
    before = [folder.create(str(tmp_path), "a", "/w")]
    flock = fcntl.flock

    def flock_late(descriptor: int, how: int) -> None:
        while before:
            before.pop().close(discard=True)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock_late)
    place = folder.create(str(tmp_path), "a", "/w")
    with pytest.raises(FolderError, match="in use"):
        folder.create(str(tmp_path), "a", "/w")
    say_something(place)
    assert resumed(tmp_path, "/w") == "a"


@pytest.mark.parametrize(("room", "why"), [(0, "cannot lock"), (20, "cannot write to")])
def test_where_nothing_can_be_written_no_session_is_made_and_the_reason_is_told(
    tmp_path: Path, room: int, why: str
) -> None:
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, unlimited[1]))
    try:
        with pytest.raises(FolderError, match=rf"{why} the session folder .*: File too large"):
            folder.create(str(tmp_path), "s1", "/w" * 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert os.listdir(tmp_path) == []
    folder.create(str(tmp_path), "s1", "/w").close(discard=True)
