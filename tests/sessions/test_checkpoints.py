"""Files as they were before a message: kept when a call changes them, put back when the person asks for it."""

import asyncio
import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from doubles import Log, Played, Run, Talk, run
from doubles_worker import DirectWorker
from polylect.sessions import folder, log
from polylect.sessions.checkpoints import Checkpoints
from polylect.sessions.library import FileLibrary
from polylect.sessions.store import FileStore, MemoryStore
from polylect.tools.builtin.edit import Edit
from polylect.tools.builtin.write import Write
from polylect.vocab.answers import Rewound
from polylect.vocab.commands import Answer, OpenSession, Prompt, Query, Rewind, Steer
from polylect.vocab.content import Failure, Message, Text, ToolCall
from polylect.vocab.entries import FileSaved, MessageAdded, TurnOpened
from polylect.vocab.errors import SessionError
from polylect.vocab.events import Ask, Event, Settled, ToolFinished
from polylect.vocab.ports import BlockDone, ReplyDone

numbers = count(1)
DONE = [BlockDone(Text("done")), ReplyDone("end")]


def wrote(path: str, content: str) -> list[Any]:
    call = ToolCall(f"c{next(numbers)}", "Write", {"file_path": path, "content": content})
    return [BlockDone(call), ReplyDone("calls")]


def opened(folder_: Path, session: str = "s1") -> FileStore:
    root = str(folder_ / "sessions")
    new = not (folder_ / "sessions" / session).exists()
    place = (folder.create if new else folder.resume)(root, session, "/w")
    return FileStore(place, cwd="/w", new_id=map("e{}".format, numbers).__next__)


def work(folder_: Path) -> Path:
    (folder_ / "w").mkdir(exist_ok=True)
    return folder_ / "w"


def talk(folder_: Path, conversation: Any, *replies: list[Any], **more: Any) -> Talk:
    options = {"mode": "force", "checkpoints": True, "store": more.pop("store", None) or opened(folder_), **more}
    return run(conversation, work(folder_), Played(*replies), Write(), Edit(), Run(), **options)


def two_turns(folder_: Path) -> tuple[list[Any], ...]:
    """Of three files: one is changed twice, one once, one is made."""
    (work(folder_) / "a.txt").write_text("1\n2\n3\n")
    (folder_ / "w" / "b.txt").write_text("b\n")
    os.chmod(folder_ / "w" / "b.txt", 0o750)
    return (
        wrote("a.txt", "1\n2\n"), wrote("a.txt", "1\n"), DONE,
        wrote("a.txt", "0\n"), wrote("b.txt", "c\n"), wrote("deep/new.txt", "n\n"), DONE,
    )  # fmt: skip


async def both(talk: Talk) -> None:
    for number in (1, 2):
        talk.send(Prompt(f"t{number}", f"Turn {number}"))
        await talk.until(Settled, number)


def contents(folder_: Path) -> dict[str, str]:
    root = folder_ / "w"
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("memory", [False, True], ids=["kept", "memory"])
def test_every_file_is_put_back_to_what_it_was_before_the_message(tmp_path: Path, memory: bool) -> None:
    async def conversation(talk: Talk) -> None:
        await both(talk)
        after = contents(tmp_path)
        a, b, new = (str(tmp_path / "w" / name) for name in ("a.txt", "b.txt", "deep/new.txt"))
        planned = await talk.answer(Rewind("t2", dry_run=True, ref="r"))
        assert planned == Rewound((a, b, new), 2, 3)
        assert contents(tmp_path) == after
        assert await talk.answer(Rewind("t2", ref="r")) == planned
        assert contents(tmp_path) == {"a.txt": "1\n", "b.txt": "b\n"}
        assert os.stat(b).st_mode & 0o777 == 0o750
        assert await talk.answer(Rewind("t2", ref="r")) == Rewound()
        assert await talk.answer(Rewind("t1", ref="r")) == Rewound((a,), 2, 0)
        assert contents(tmp_path) == {"a.txt": "1\n2\n3\n", "b.txt": "b\n"}

    store = MemoryStore(str(tmp_path)) if memory else opened(tmp_path)
    talk(tmp_path, conversation, *two_turns(tmp_path), store=store)


def test_a_message_can_be_named_by_its_entry_also_one_that_joined_a_turn(tmp_path: Path) -> None:
    (work(tmp_path) / "a.txt").write_text("0")

    def host(event: Event) -> Steer | None:
        return (
            Steer("And this") if isinstance(event, ToolFinished) and not event.output.startswith("Updated b") else None
        )

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Go"))
        await talk.until(Settled)
        points = await talk.answer(Query("fork_points", ref="q"))
        assert [point.text for point in points][:2] == ["Go", "And this"]
        assert await talk.answer(Rewind(points[1].entry, ref="r")) == Rewound((str(tmp_path / "w" / "a.txt"),), 1, 1)
        assert contents(tmp_path) == {"a.txt": "1"}
        await talk.answer(Rewind(points[0].entry, ref="r"))
        assert contents(tmp_path) == {"a.txt": "0"}

    talk(tmp_path, conversation, wrote("a.txt", "1"), wrote("a.txt", "2"), DONE, DONE, DONE, host=host)


def test_the_next_process_can_go_back_and_no_sweep_takes_what_it_needs(tmp_path: Path) -> None:
    talk(tmp_path, both, *two_turns(tmp_path))

    async def conversation(talk: Talk) -> None:
        await talk.answer(Rewind("t1", ref="r"))

    talk(tmp_path, conversation)
    assert contents(tmp_path) == {"a.txt": "1\n2\n3\n", "b.txt": "b\n"}
    bodies = [entry.body for entry in log.read_path(str(tmp_path / "sessions/s1/log.jsonl")).entries]
    saved = [body for body in bodies if isinstance(body, FileSaved)]
    assert len(saved) == 4, "once for each message and file"
    assert {body.turn for body in saved} == {"t1", "t2"}
    assert saved[-1].blob == ""


def test_a_fork_can_go_back_before_the_point_where_it_left(tmp_path: Path) -> None:
    store = opened(tmp_path)
    library = FileLibrary(str(tmp_path / "sessions"), str(work(tmp_path)), map("f{}".format, numbers).__next__)

    async def conversation(talk: Talk) -> None:
        await both(talk)
        points = await talk.answer(Query("fork_points", ref="q"))
        await talk.answer(OpenSession("fork", at=points[1].entry, ref="r"))
        await talk.answer(Rewind("t1", ref="r"))
        assert contents(tmp_path)["a.txt"] == "1\n2\n3\n"
        refused = await talk.answer(Rewind("t2", ref="r"))
        assert isinstance(refused, Failure)

    talk(tmp_path, conversation, *two_turns(tmp_path), store=store, library=library)


def test_a_file_outside_that_was_approved_is_kept_too(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("before")

    def host(event: Event) -> Answer | None:
        return Answer(event.ask, "allow") if isinstance(event, Ask) else None

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Go"))
        await talk.until(Settled)
        assert outside.read_text() == "after"
        await talk.answer(Rewind("t1", ref="r"))
        assert outside.read_text() == "before"

    talk(tmp_path, conversation, wrote(str(outside), "after"), DONE, mode="default", host=host)


def test_what_sub_agents_change_is_kept_in_the_session_of_whoever_sent_them(tmp_path: Path) -> None:
    tasks = {"tasks": [{"name": "w", "prompt": "Write"}]}

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Go"))
        await talk.until(Settled)
        assert contents(tmp_path) == {"a.txt": "1"}
        await talk.answer(Rewind("t1", ref="r"))
        assert contents(tmp_path) == {}

    spawn = [BlockDone(ToolCall("c0", "Spawn", tasks)), ReplyDone("calls")]
    talk(tmp_path, conversation, spawn, wrote("a.txt", "1"), DONE, DONE)


def test_L2_what_cannot_be_put_back_is_refused_with_the_reason_and_nothing_is(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        await both(talk)
        before = contents(tmp_path)
        for blob in (tmp_path / "sessions" / "s1" / "blobs").iterdir():
            blob.unlink()
        for to, reason in (("t1", "no longer there"), ("t9", "is not a message"), ("", "is not a message")):
            refused = await talk.answer(Rewind(to, ref="r"))
            assert reason in refused.message
        assert contents(tmp_path) == before

    talk(tmp_path, conversation, *two_turns(tmp_path))


def test_while_a_turn_runs_and_where_they_are_off_there_is_no_way_back(tmp_path: Path) -> None:
    refused: list[Any] = []

    def host(event: Event) -> Rewind | None:
        return Rewind("t1", ref="r") if isinstance(event, ToolFinished) else None

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Go"))
        await talk.until(Settled)
        refused.append(await talk.answer(Rewind("t1", ref="r2")))

    result = talk(tmp_path, conversation, wrote("a.txt", "1"), DONE, host=host, checkpoints=False)
    assert "switched off" in refused[0].message
    assert any(line.startswith("reply r ") and "a turn is running" in line for line in result.story)
    assert not (tmp_path / "sessions" / "s1" / "blobs").exists()


def test_a_file_that_cannot_be_kept_is_not_changed(tmp_path: Path) -> None:
    (work(tmp_path) / "a.txt").write_text("before")

    class Full(MemoryStore):
        def store_blob(self, data: bytes) -> str:
            raise SessionError("no space left")

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Go"))

    result = talk(tmp_path, conversation, wrote("a.txt", "after"), DONE, store=Full(str(tmp_path)))
    assert "was not changed: no space left" in result.of(ToolFinished)[0].output
    assert contents(tmp_path) == {"a.txt": "before"}


def test_what_is_no_file_is_left_to_the_tool_and_a_store_without_room_for_files_keeps_none(tmp_path: Path) -> None:
    store = MemoryStore(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    asyncio.run(Checkpoints(store, DirectWorker()).save("t1", [str(tmp_path), str(tmp_path / "pipe")]))
    assert store.entries == []
    plain = Log()
    asyncio.run(Checkpoints(plain, DirectWorker()).save("t1", [str(tmp_path / "a.txt")]))
    assert plain.entries == []


def test_P2_a_folder_that_leads_elsewhere_by_now_is_not_written_through(tmp_path: Path) -> None:
    store = MemoryStore(str(tmp_path))
    place, other = tmp_path / "in", tmp_path / "other"
    for path in (place, other):
        path.mkdir()
    (place / "a.txt").write_text("before")
    checkpoints = Checkpoints(store, DirectWorker())
    store.append(MessageAdded(Message("user", (Text("Go"),)), "t1"), TurnOpened("t1"))
    asyncio.run(checkpoints.save("t1", [str(place / "a.txt")]))
    (place / "a.txt").unlink()
    place.rmdir()
    place.symlink_to(other)
    with pytest.raises(SessionError, match="leads elsewhere now"):
        asyncio.run(checkpoints.rewind("t1", dry_run=False))
    assert list(other.iterdir()) == []


def test_a_stop_does_not_stop_halfway(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        await both(talk)
        talk.send(Rewind("t1", ref="r"))
        talk.engine.turns.stop(keep=True)
        await asyncio.sleep(0)
        talk.engine.turns.stop(keep=True)

    result = talk(tmp_path, conversation, *two_turns(tmp_path))
    assert contents(tmp_path) == {"a.txt": "1\n2\n3\n", "b.txt": "b\n"}
    assert any(line.startswith("reply r Rewound") for line in result.story)
