"""Where sessions are kept: what is opened, what is made, and what is refused and then left alone."""

import json
import os
import resource
import shutil
from itertools import count
from pathlib import Path

import pytest

from polylect.sessions import folder
from polylect.sessions.library import FileLibrary
from polylect.sessions.replay import Replay, message_text
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore, MemoryStore
from polylect.vocab.content import Message, Text
from polylect.vocab.entries import Configured, MessageAdded
from polylect.vocab.errors import SessionError
from sessions.formats.test_exchange import CLAUDE, OMP

ids = map("e{}".format, count(1))


@pytest.fixture
def library(tmp_path: Path) -> FileLibrary:
    (tmp_path / "w").mkdir()
    return FileLibrary(str(tmp_path / "sessions"), str(tmp_path / "w"), ids.__next__)


def user(text: str) -> MessageAdded:
    return MessageAdded(Message("user", (Text(text),)))


def said(store: FileStore | MemoryStore) -> list[str]:
    return [message_text(message) for message in Session(store).messages]


def stored(library: FileLibrary, *texts: str) -> str:
    """The log of a session in which this was said."""
    store = library.create()
    store.append(*map(user, texts))
    store.close()
    return store.file


def tree(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_session_is_found_by_its_id_its_folder_and_its_log(library: FileLibrary) -> None:
    file = stored(library, "Hello")
    place = os.path.dirname(file)
    for target in (os.path.basename(place), place, file, "latest"):
        store = library.resume(target)
        assert said(store) == ["Hello"]
        store.close()


def test_a_session_of_another_place_goes_on_where_it_is(library: FileLibrary, tmp_path: Path) -> None:
    other = FileStore(folder.create(str(tmp_path / "else"), "mine", "/x"), cwd="/x", new_id=ids.__next__)
    other.append(user("Hello"))
    other.close()
    store = library.resume(other.file)
    store.append(user("Again"))
    store.close()
    assert said(library.resume(str(tmp_path / "else" / "mine"))) == ["Hello", "Again"]
    assert not (tmp_path / "sessions").exists()


@pytest.mark.parametrize(("lines", "first"), [(OMP, "please go"), (CLAUDE, "please go")], ids=["omp", "claude"])
def test_another_program_s_file_becomes_a_session_and_is_never_written_to(
    library: FileLibrary, tmp_path: Path, lines: list[bytes], first: str
) -> None:
    path = tmp_path / "w" / "foreign.jsonl"
    path.write_bytes(b"\n".join(lines))
    before = path.stat()
    store = library.resume("foreign.jsonl")
    assert said(store)[0] == first
    store.append(user("Again"))
    store.close()
    assert said(library.resume(store.session))[-1] == "Again"
    assert path.read_bytes() == b"\n".join(lines)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize(
    "content",
    [b"", b"# Notes\n", bytes([255, 254, 0]), b'{"type":"session","version":9,"id":"x"}\n', b'{"type":"session"}\n'],
)
def test_what_is_no_session_is_refused_and_left_as_it_is(library: FileLibrary, tmp_path: Path, content: bytes) -> None:
    for name in ("notes.jsonl", "log.jsonl"):
        (tmp_path / "w" / name).write_bytes(content)
    before = tree(tmp_path)
    for name in ("notes.jsonl", "log.jsonl"):
        with pytest.raises(SessionError, match="is not a session file that can be taken over"):
            library.resume(str(tmp_path / "w" / name))
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("", "which session"),
        ("nobody", "'nobody' not found"),
        ("missing.jsonl", "not found"),
        ("/missing/file.jsonl", "there is no session file"),
        ("../w", "it is no file"),
        ("latest", "No sessions found"),
        (".hidden", "bad session id"),
    ],
)
def test_P6_what_is_not_there_is_not_made(library: FileLibrary, tmp_path: Path, target: str, reason: str) -> None:
    with pytest.raises(SessionError, match=reason):
        library.resume(target)
    assert tree(tmp_path) == {}


def test_a_log_that_cannot_be_gone_on_with_is_left_as_it_is_and_free(library: FileLibrary) -> None:
    file = Path(stored(library, "Hello"))
    later = file.read_bytes().replace(b'"type":"opened"', b'"type":"opened","version":9')
    file.write_bytes(later)
    for _ in range(2):
        with pytest.raises(SessionError, match="written by a later polylect"):
            library.resume(str(file))
    assert file.read_bytes() == later


def test_S3_a_session_that_is_in_use_is_refused_until_it_is_let_go(library: FileLibrary) -> None:
    store = library.resume(stored(library, "Hello"))
    with pytest.raises(SessionError, match=f"in use by process {os.getpid()}"):
        library.resume(store.session)
    store.close()
    library.resume(store.session).close()


def test_a_new_session_remembers_where_it_comes_from_once_something_is_said(library: FileLibrary) -> None:
    store = library.create("/s/old.jsonl")
    assert not os.path.getsize(store.file)
    store.append(user("Hello"))
    assert Replay(store.entries).settings == {"parent": "/s/old.jsonl"}
    store.close()
    assert Session(library.resume(store.session)).settings == {"parent": "/s/old.jsonl"}


def test_a_session_in_which_nothing_was_said_leaves_nothing(library: FileLibrary, tmp_path: Path) -> None:
    library.create("/s/old.jsonl").close()
    assert list((tmp_path / "sessions").iterdir()) == []


def test_a_fork_goes_on_without_the_message_also_where_that_is_an_ancestor_s(library: FileLibrary) -> None:
    store = library.create()
    store.append(Configured({"name": "mine"}), user("one"), user("two"), user("three"))
    points = Replay(store.entries).fork_points()
    child = library.fork(store, points[2].entry)
    assert said(child) == ["one", "two"]
    child.append(user("four"))
    assert said(library.fork(child)) == ["one", "two", "four"]
    grandchild = library.fork(child, points[1].entry)
    assert said(grandchild) == ["one"]
    assert Session(grandchild).name == ""
    assert said(library.fork(child, points[0].entry)) == []
    own = Replay(child.entries).fork_points()[-1]
    assert (own.text, said(library.fork(child, own.entry))) == ("four", ["one", "two"])
    assert said(store) == ["one", "two", "three"]


def test_a_fork_elsewhere_is_refused_and_nothing_is_made(library: FileLibrary, tmp_path: Path) -> None:
    store = library.create()
    store.append(user("one"), MessageAdded(Message("assistant", (Text("two"),), "end")))
    before = tree(tmp_path)
    for at in ("nowhere", store.entries[0].id, store.entries[-1].id):
        with pytest.raises(SessionError, match="is not a message of the person's"):
            library.fork(store, at)
    assert tree(tmp_path) == before
    with pytest.raises(SessionError, match="is not a message of the person's"):
        library.fork(library.create(), "nowhere")


def test_sessions_are_listed_by_what_they_are_about(library: FileLibrary, tmp_path: Path) -> None:
    file = stored(library, "Hello\nthere", "Again")
    [card] = library.sessions()
    assert (card.id, card.cwd, card.messages, card.first) == (
        os.path.basename(os.path.dirname(file)),
        str(tmp_path / "w"),
        2,
        "Hello there",
    )
    assert library.sessions(str(tmp_path / "w")) == [card]
    assert library.sessions(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("path", "begins"),
    [("", "<!doctype html>"), ("out/a.HTML", "<!doctype html>"), ("a.md", "# Session"), ("a.json", '{\n  "session"'),
     ("a.jsonl", '{"type":"session","version":3')],
)  # fmt: skip
def test_the_ending_of_a_path_says_what_is_written(
    library: FileLibrary, tmp_path: Path, path: str, begins: str
) -> None:
    (tmp_path / "w" / "out").mkdir()
    store = library.create()
    for number in range(2):
        name = library.export(store, path)
        assert name == (path or f"polylect-session-{store.session}.html")
        text = (tmp_path / "w" / name).read_text()
        assert text.startswith(begins)
        assert text.count("Hello") >= number
        store.append(user("Hello"))


def test_what_is_exported_for_omp_can_be_resumed(library: FileLibrary, tmp_path: Path) -> None:
    store = library.create()
    store.append(user("Hello"))
    library.export(store, str(tmp_path / "out.jsonl"))
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])["id"] == store.session
    assert said(library.resume(str(tmp_path / "out.jsonl"))) == ["Hello"]


def test_an_export_is_refused_with_the_reason(library: FileLibrary, tmp_path: Path) -> None:
    store = library.create()
    store.append(user("Hello"))
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(os.path.dirname(store.file), elsewhere / "s1")
    os.mkfifo(tmp_path / "w" / "pipe.html")
    (tmp_path / "w" / "folder.md").mkdir()
    before = tree(tmp_path)
    for path, reason in (
        ("a.txt", "endings are .html"),
        ("missing/a.md", "No such file"),
        (store.file, "belongs to a session"),
        (str(elsewhere / "s1" / "log.jsonl"), "belongs to a session"),
        ("pipe.html", "no file that can be written anew"),
        ("folder.md", "no file that can be written anew"),
        ("a\0.md", "holds a NUL"),
    ):
        with pytest.raises(SessionError, match=reason):
            library.export(store, path)
    assert tree(tmp_path) == before


def test_an_export_replaces_what_was_there_only_once_it_is_whole(library: FileLibrary, tmp_path: Path) -> None:
    """P3: its mode and links to it stay; whoever shares the old file, be it a session, keeps that."""
    log, page, link = Path(stored(library, "Mine")), tmp_path / "w" / "a.html", tmp_path / "w" / "b.html"
    os.link(log, page)
    page.chmod(0o640)
    link.symlink_to("a.html")
    before = log.read_bytes()
    library.export(library.create(), "b.html")
    assert (log.read_bytes(), link.is_symlink()) == (before, True)
    assert page.read_text().startswith("<!doctype html>")
    assert page.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path / "w")) == ["a.html", "b.html"]


def test_an_export_that_cannot_be_finished_leaves_what_was_there(library: FileLibrary, tmp_path: Path) -> None:
    page = tmp_path / "w" / "a.md"
    page.write_text("old")
    store = library.create()
    store.append(user("x" * 20_000))
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, unlimited[1]))
    try:
        with pytest.raises(SessionError, match=r"cannot write a\.md: File too large"):
            library.export(store, "a.md")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert tree(tmp_path / "w") == {str(page): b"old"}
