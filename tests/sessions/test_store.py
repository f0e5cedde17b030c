"""What lies beside a log, and logs that begin in another one (S1, P6)."""

import base64
import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from doubles import Echo, Played, check_history, converse
from polylect.sessions import folder, log
from polylect.sessions.blobs import Blobs, images
from polylect.sessions.library import fork_place
from polylect.sessions.replay import Replay
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Image, Message, Text, ToolCall, ToolResult
from polylect.vocab.entries import Configured, Entry, MessageAdded, Opened, TurnClosed, TurnOpened
from polylect.vocab.errors import SessionError
from polylect.vocab.ports import BlockDone, ReplyDone
from polylect.wire import jsonl
from sessions.test_session import disk_of

PICTURE = base64.b64encode(b"\x89PNG a picture").decode()
OTHER = base64.b64encode(b"\x89PNG another").decode()
ids = map("{:012x}".format, count(1))


def opened(root: Path, session: str = "s1") -> FileStore:
    log = root / session / "log.jsonl"
    new = not log.exists() or not log.stat().st_size
    place = (folder.create if new else folder.resume)(str(root), session, "/w")
    return FileStore(place, cwd="/w", new_id=ids.__next__)


def user(*blocks: Text | Image | str) -> Message:
    return Message("user", tuple(Text(block) if isinstance(block, str) else block for block in blocks))


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


# Pictures.


def test_a_picture_is_kept_once_beside_the_log_and_comes_back_for_the_model(tmp_path: Path) -> None:
    seen = user("look", Image("image/png", PICTURE))
    shown = Message("tool", (ToolResult("c1", "Read", "", images=(Image("image/png", PICTURE),)),))
    called = Message("assistant", (ToolCall("c1", "Read", {}),))
    store = opened(tmp_path)
    session = Session(store)
    session.add_messages("", seen, called, shown)
    assert session.context() == [seen, called, shown]
    store.close()
    assert len(list((tmp_path / "s1" / "blobs").iterdir())) == 1
    assert PICTURE not in (tmp_path / "s1" / "log.jsonl").read_text()

    store = opened(tmp_path)
    again = Session(store)
    assert {image.data for message in again.messages for image in images(message)} == {""}
    assert {image.data for message in again.context() for image in images(message)} == {PICTURE}
    store.close()


@pytest.fixture
def pictured(tmp_path: Path) -> Path:
    store = opened(tmp_path)
    store.append(MessageAdded(user(Image("image/png", PICTURE))))
    store.close()
    return tmp_path


def test_a_picture_that_is_gone_is_no_reason_to_refuse_the_session(pictured: Path) -> None:
    next((pictured / "s1" / "blobs").iterdir()).unlink()
    store = opened(pictured)
    [message] = Session(store).context()
    store.close()
    assert isinstance(message.content[0], Image)
    assert message.content[0].data == ""


def test_what_a_crash_left_beside_the_log_is_removed_when_the_session_is_opened(pictured: Path) -> None:
    before = files(pictured)
    (pictured / "s1" / "blobs" / ("0" * 64)).write_bytes(b"never named")
    (pictured / "s1" / "blobs" / ("1" * 64 + ".draft")).write_bytes(b"half")
    (pictured / "s1" / "spill").mkdir()
    (pictured / "s1" / "spill" / "abc.txt").write_text("never told")
    opened(pictured).close()
    assert files(pictured) == before


def test_nothing_is_removed_while_a_line_cannot_be_read_that_might_name_it(pictured: Path) -> None:
    orphan = pictured / "s1" / "blobs" / ("0" * 64)
    orphan.write_bytes(b"named by the line below?")
    with open(pictured / "s1" / "log.jsonl", "ab") as file:
        file.write(b"garbage\n")
    opened(pictured).close()
    assert orphan.exists()


def test_L1_a_full_disk_refuses_the_picture_and_leaves_no_half_of_it(pictured: Path) -> None:
    store = opened(pictured)
    before = files(pictured)
    with disk_of(8), pytest.raises(SessionError, match="cannot keep a picture"):
        store.append(MessageAdded(user(Image("image/png", OTHER))))
    assert files(pictured) == before
    store.close()


@pytest.mark.parametrize("name", ["sha256:../../log.jsonl", "sha256:", "sha256:" + "A" * 64, "../lock", "x" * 64])
def test_P6_a_picture_s_name_cannot_lead_elsewhere(pictured: Path, name: str) -> None:
    assert Blobs([str(pictured / "s1" / "blobs")]).find(name) is None


# A folder that is gone.


@pytest.mark.parametrize("said", [(), ("before",)])
def test_T1_nothing_is_taken_once_the_folder_was_deleted_and_nothing_is_put_in_its_place(
    tmp_path: Path, said: tuple[str, ...]
) -> None:
    store = opened(tmp_path)
    session = Session(store)
    session.add_messages("", *map(user, said))
    shutil.rmtree(tmp_path / "s1")
    for block in ("after", Image("image/png", PICTURE)):
        with pytest.raises(SessionError, match="was deleted"):
            session.accept("t1", user(block))
    with pytest.raises(SessionError, match="was deleted"):
        store.store_blob(b"a file")
    assert files(tmp_path) == []
    other = opened(tmp_path)
    store.close()
    assert files(tmp_path) == ["s1/lock", "s1/log.jsonl", "s1/workspace"]
    other.close()


# Long outputs.


def result(output: str) -> MessageAdded:
    return MessageAdded(Message("tool", (ToolResult("c1", "Bash", output),)))


def test_a_long_output_stays_as_long_as_the_log_names_it_and_goes_if_it_never_did(tmp_path: Path) -> None:
    store = opened(tmp_path)
    logged, unlogged = store.spill("long"), store.spill("long too")
    store.append(
        MessageAdded(Message("assistant", (ToolCall("c1", "Bash", {}),))), result(f"... all of it is in {logged}")
    )
    store.close()
    assert os.path.exists(logged)
    assert not os.path.exists(unlogged)
    opened(tmp_path).close()
    assert os.path.exists(logged)


def test_a_long_output_whose_line_found_no_room_is_not_left_behind(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append(MessageAdded(Message("assistant", (ToolCall("c1", "Bash", {}),))))
    path = store.spill("long")
    with disk_of(os.path.getsize(store.file)), pytest.raises(SessionError):
        store.append(result(f"... all of it is in {path}"))
    store.close()
    assert not os.path.exists(path)


def test_long_outputs_stay_when_the_sessions_were_moved(tmp_path: Path) -> None:
    store = opened(tmp_path / "before")
    path = store.spill("long")
    store.append(MessageAdded(Message("assistant", (ToolCall("c1", "Bash", {}),))), result(f"all of it is in {path}]"))
    store.close()
    (tmp_path / "before").rename(tmp_path / "after")
    opened(tmp_path / "after").close()
    assert len(files(tmp_path / "after" / "s1" / "spill")) == 1


# Forks.


def conversation(root: Path) -> list[Entry]:
    model = Played(
        [BlockDone(ToolCall("c1", "Echo", {"text": "ä"})), ReplyDone("calls")],
        [BlockDone(Text("done")), ReplyDone("end")],
        [BlockDone(Text("more")), ReplyDone("end")],
    )
    converse(root, model, [Prompt("t1", "Hello"), Prompt("t2", "Again")], Echo(), store=opened(root))
    return log.read_path(str(root / "s1" / "log.jsonl")).entries


def forked(root: Path, entry: str, parent: str = "s1", session: str = "s2") -> list[Message]:
    store = opened(root, session)
    store.fork(parent, entry)
    messages = Session(store).messages
    store.close()
    return messages


def test_a_fork_writes_one_line_and_has_everything_up_to_its_entry(tmp_path: Path) -> None:
    entries = conversation(tmp_path)
    messages = forked(tmp_path, entries[-1].id)
    assert messages == Replay(entries).messages
    [line] = log.read_path(str(tmp_path / "s2" / "log.jsonl")).entries
    assert line.parent == entries[-1].id
    assert line.body == Opened("s2", "/w", parent="s1")


def test_a_fork_at_any_entry_is_a_valid_history_that_can_be_gone_on_with(tmp_path: Path) -> None:
    """In the middle of a call too, and while a prompt waits: that one belongs to the other session."""
    entries = conversation(tmp_path)
    for number, entry in enumerate(entries):
        session = f"f{number}"
        messages = forked(tmp_path, entry.id, session=session)
        check_history(messages)
        talk = converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t9", "Then")], store=opened(tmp_path, session))
        assert talk.messages[: len(messages)] == messages
        assert log.read_path(str(tmp_path / "s1" / "log.jsonl")).entries == entries
    assert Replay(entries[:5]).waiting


def test_a_fork_before_a_prompt_goes_on_without_it(tmp_path: Path) -> None:
    entries = conversation(tmp_path)
    points = Replay(entries).fork_points()
    assert [point.text for point in points] == ["Hello", "Again"]
    session, entry = fork_place("s1", entries, points[1].entry)
    assert session == "s1"
    messages = forked(tmp_path, entry)
    assert messages[-1].content == (Text("done"),)
    assert "Again" not in str(messages)


def test_a_fork_of_a_fork_reads_through_both_and_sees_the_pictures_of_all(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append(MessageAdded(user("one", Image("image/png", PICTURE))), Configured({"name": "first"}))
    store.close()
    last = log.read_path(str(tmp_path / "s1" / "log.jsonl")).entries[-1]
    store = opened(tmp_path, "s2")
    store.fork("s1", last.id)
    session = Session(store)
    session.add_messages("", user("two", Image("image/png", PICTURE)))
    assert session.name == ""
    store.close()
    assert not (tmp_path / "s2" / "blobs").exists(), "the picture is there already"
    last = log.read_path(str(tmp_path / "s2" / "log.jsonl")).entries[-1]
    store = opened(tmp_path, "s3")
    store.fork("s2", last.id)
    context = Session(store).context()
    store.close()
    assert [message.content[0] for message in context] == [Text("one"), Text("two")]
    assert all(isinstance(block, Image) and block.data == PICTURE for block in (m.content[1] for m in context))


def test_a_fork_of_what_is_not_there_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    conversation(tmp_path)
    for parent, entry, why in (("s1", "nowhere", "cannot be read"), ("s9", "x", "no longer there")):
        store = opened(tmp_path, "s2")
        with pytest.raises(SessionError, match=why):
            store.fork(parent, entry)
        store.close()
        assert not (tmp_path / "s2").exists()


def test_a_fork_whose_parent_is_gone_says_so(tmp_path: Path) -> None:
    entries = conversation(tmp_path)
    forked(tmp_path, entries[-1].id)
    before = (tmp_path / "s2" / "log.jsonl").read_bytes()
    (tmp_path / "s1").rename(tmp_path / "gone")
    with pytest.raises(SessionError, match="forked from session 's1', which is no longer there"):
        opened(tmp_path, "s2")
    assert (tmp_path / "s2" / "log.jsonl").read_bytes() == before


def test_sessions_forked_from_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    for session, parent in (("s1", "s2"), ("s2", "s1")):
        (tmp_path / session).mkdir()
        entry = Entry(session, parent, 0, Opened(session, "/w", parent=parent))
        (tmp_path / session / "log.jsonl").write_bytes(jsonl.dump(entry))
    with pytest.raises(SessionError, match="cannot be read"):
        opened(tmp_path, "s1")


# The log itself.


def test_a_line_that_is_too_long_is_damaged_and_costs_only_its_beginning() -> None:
    lines = log.Lines([b"a" * 6, b"b" * 6, b"c\nok\nre", b"st"], max_line=5)
    assert list(lines) == [b"a" * 6 + b"c", b"ok"]
    assert (lines.size, lines.rest) == (17, b"rest")


def test_lines_come_out_of_pieces_of_any_size() -> None:
    whole = b"one\n\ntwo\nthree"
    for size in range(1, len(whole) + 1):
        lines = log.Lines([whole[at : at + size] for at in range(0, len(whole), size)])
        assert list(lines) == [b"one", b"", b"two"]
        assert (lines.size, lines.rest) == (9, b"three")


def test_what_was_said_elsewhere_keeps_its_time(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append_at([(5, TurnOpened("t1")), (7, TurnClosed("t1", "end"))])
    store.close()
    assert [entry.at for entry in log.read_path(str(tmp_path / "s1" / "log.jsonl")).entries] == [5, 5, 7]


# Logs that cannot be read.


@pytest.mark.parametrize("damage", [b"\0" * 5000, b"no entry\n"])
def test_what_cannot_be_read_is_told_and_nothing_beside_it_is_removed(
    pictured: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = pictured / "s1" / "log.jsonl"
    path.write_bytes(damage if b"\0" in damage else path.read_bytes() + damage)
    beside = [name for name in files(pictured) if "blobs" in name]
    opened(pictured).close()
    assert "1 lines of its log cannot be read" in caplog.text
    assert [name for name in files(pictured) if "blobs" in name] == beside != []
