"""Damaged sessions are mended without losing anything that was not lost before."""

import os
from pathlib import Path

import pytest

from polylect.sessions import folder, log
from polylect.sessions.repair import delete, remove_deleted, repair, salvage
from polylect.sessions.replay import Replay
from polylect.vocab.errors import SessionError
from sessions.test_session import conversation_with_everything, disk_of, log_of


def mended(root: Path) -> list[str]:
    place = folder.resume(str(root), "s1", "/w")
    try:
        return [line.replace(str(root), "") for line in repair(place)]
    finally:
        place.close()


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    conversation_with_everything(tmp_path)
    return log_of(tmp_path).read_bytes().splitlines(keepends=True)


def test_a_session_in_order_is_left_as_it_is(tmp_path: Path, lines: list[bytes]) -> None:
    assert mended(tmp_path) == []
    assert log_of(tmp_path).read_bytes() == b"".join(lines)


def test_bad_bytes_are_replaced_and_lines_that_ran_together_are_told_apart(tmp_path: Path, lines: list[bytes]) -> None:
    whole = Replay(log.read_path(str(log_of(tmp_path))).entries)
    bad = [*lines]
    bad[1] = bad[1].replace(b'"text":"', b'"text":"' + bytes([0, 255]))
    bad[4] = bad[4][:-1]  # and the next one follows at once
    log_of(tmp_path).write_bytes(b"".join(bad))
    assert mended(tmp_path) == [
        "line 2 was damaged: its entry was saved",
        "line 5 was damaged: 2 entries were saved",
        "the log as it was is kept in /s1/log.jsonl.before-repair",
    ]
    assert (tmp_path / "s1" / "log.jsonl.before-repair").read_bytes() == b"".join(bad)
    contents = log.read_path(str(log_of(tmp_path)))
    assert contents.faults == []
    assert Replay(contents.entries).messages == whole.messages
    assert mended(tmp_path) == []


def test_a_log_that_there_is_no_room_to_mend_stays_as_it_is_and_nothing_stays_beside_it(
    tmp_path: Path, lines: list[bytes]
) -> None:
    bad = b"".join([*lines, b"garbage\n"])
    log_of(tmp_path).write_bytes(bad)
    place = folder.resume(str(tmp_path), "s1", "/w")
    with disk_of(100), pytest.raises(OSError, match="File too large"):
        repair(place)
    place.close()
    assert log_of(tmp_path).read_bytes() == bad
    assert sorted(os.listdir(tmp_path / "s1")) == ["lock", "log.jsonl", "workspace"]


def test_a_session_that_was_mended_is_no_more_recent_than_before(tmp_path: Path, lines: list[bytes]) -> None:
    log_of(tmp_path).write_bytes(b"".join([*lines, b"garbage\n"]))
    os.utime(log_of(tmp_path), ns=(1_000, 2_000))
    assert mended(tmp_path)
    assert log_of(tmp_path).stat().st_mtime_ns == 2_000


def test_what_cannot_be_saved_is_counted_and_what_is_strange_is_kept(tmp_path: Path, lines: list[bytes]) -> None:
    strange = b'{"id":"x","parent":"y","at":0,"body":{"type":"painted"}}\n'
    log_of(tmp_path).write_bytes(b"".join([*lines, strange, b"garbage\n", b'{"id":"torn']))
    number = len(lines)
    assert mended(tmp_path) == [
        f"line {number + 1} is of a kind that this version does not know: kept",
        f"line {number + 2} was damaged: nothing could be saved",
        "the last line, of 11 bytes, had no end: nothing could be saved",
        "the log as it was is kept in /s1/log.jsonl.before-repair",
    ]
    assert log_of(tmp_path).read_bytes() == b"".join([*lines, strange])


def test_files_that_nothing_names_are_removed_and_missing_ones_reported(tmp_path: Path, lines: list[bytes]) -> None:
    blob = "sha256:" + "a" * 64
    message = f'{{"role":"user","content":[{{"type":"image","media_type":"image/png","blob":"{blob}"}}]}}'
    said = f'{{"id":"x","parent":"y","at":0,"body":{{"type":"said","message":{message}}}}}\n'
    log_of(tmp_path).write_bytes(b"".join([*lines, said.encode()]))
    (tmp_path / "s1" / "spill").mkdir()
    (tmp_path / "s1" / "spill" / "x.txt").write_text("")
    assert mended(tmp_path) == [
        f"{blob} is named in the log, and is gone",
        "/s1/spill/x.txt was named nowhere: removed",
    ]


def test_a_later_version_is_not_ours_to_mend(tmp_path: Path, lines: list[bytes]) -> None:
    later = lines[0].replace(b'"cwd"', b'"version":2,"cwd"')
    log_of(tmp_path).write_bytes(b"".join([later, b"garbage\n", *lines[1:]]))
    before = log_of(tmp_path).read_bytes()
    with pytest.raises(SessionError, match="later polylect"):
        mended(tmp_path)
    assert log_of(tmp_path).read_bytes() == before


def test_only_entries_are_saved(lines: list[bytes]) -> None:
    assert list(salvage(b'{"id":"a"}{"id":1}[{"id":"b","parent":"","at":0,"body":{"type":"nothing"}}]')) == []
    assert list(salvage(bytes([255]) + lines[0].strip() + b"}}" + lines[1])) == lines[:2]


def test_a_deleted_session_is_gone_at_once_and_its_id_is_free(tmp_path: Path, lines: list[bytes]) -> None:
    delete(folder.resume(str(tmp_path), "s1", "/w"))
    assert list(tmp_path.iterdir()) == []
    folder.create(str(tmp_path), "s1", "/w").close(discard=True)


def test_what_a_deletion_cut_short_leaves_is_removed_later(tmp_path: Path, lines: list[bytes]) -> None:
    (tmp_path / "s1").rename(tmp_path / ".deleted-s1-1")
    assert remove_deleted(str(tmp_path)) == [str(tmp_path / ".deleted-s1-1")]
    assert list(tmp_path.iterdir()) == []
