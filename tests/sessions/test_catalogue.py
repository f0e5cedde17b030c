"""The list of sessions counts and quotes as the whole log does."""

from itertools import count
from pathlib import Path

import pytest

from polylect.sessions import catalogue, folder, log
from polylect.sessions.replay import Replay, message_text
from polylect.sessions.store import FileStore
from polylect.vocab.answers import ShellResult
from polylect.vocab.content import Message, Text, ToolCall, ToolResult
from polylect.vocab.entries import Body, Configured, MessageAdded, ShellRan, TurnClosed, TurnOpened

CALL = ToolCall("c1", "Bash", {"command": "ls"})


def user(text: str, turn: str = "") -> MessageAdded:
    return MessageAdded(Message("user", (Text(text),)), turn)


def reply(text: str) -> MessageAdded:
    return MessageAdded(Message("assistant", (Text(text),)))


TURN: tuple[Body, ...] = (user("first words", "t1"), TurnOpened("t1"), reply("hi"), TurnClosed("t1", "end"))
LOGS: dict[str, tuple[Body, ...]] = {
    "a turn": TURN,
    "a prompt that was dropped": (user("dropped", "t0"), TurnClosed("t0", "cancelled"), *TURN),
    "a prompt that waits": (*TURN, user("waits", "t2")),
    "a message without a turn": (user("imported"), reply("hi")),
    "calls and results": (
        *TURN[:2],
        MessageAdded(Message("assistant", (CALL,))),
        MessageAdded(Message("tool", (ToolResult("c1", "Bash", "x"),))),
        reply("done"),
    ),
    "a call that a crash cut off": (*TURN[:2], MessageAdded(Message("assistant", (CALL,))), *TURN),
    "a command of the person's own": (ShellRan(ShellResult("ls", "x", 0)), *TURN),
    "an empty reply": (*TURN[:2], MessageAdded(Message("assistant", ()))),
    "a name": (*TURN, Configured({"name": "mine"})),
}


def _store(root: Path, session: str) -> FileStore:
    ids = (f"{session}-{number}" for number in count(1))
    return FileStore(folder.create(str(root), session, str(root)), cwd=str(root), new_id=ids.__next__)


def _agrees(root: Path, session: str) -> catalogue.SessionSummary:
    path = folder.path_of(str(root), session)
    own = log.read_path(f"{path}/log.jsonl")
    before, _ = log.ancestry(path, own.first)
    recalled = Replay(before + own.entries)
    said = [message for message, mark in zip(recalled.messages, recalled.marks, strict=True) if mark]
    listed = catalogue.summarise(str(root), session)
    assert listed is not None
    assert listed.messages == len(said)
    typed = [message_text(message) for message in said if message.role == "user"]
    assert listed.words == next((text for text in typed if "I ran" not in text), "")
    return listed


@pytest.mark.parametrize("kind", LOGS)
def test_it_counts_what_a_reader_of_all_of_it_counts(tmp_path: Path, kind: str) -> None:
    store = _store(tmp_path, "one")
    store.append(*LOGS[kind])
    store.close()
    assert _agrees(tmp_path, "one").name == ("mine" if kind == "a name" else "")


def test_a_fork_has_the_messages_and_the_first_words_it_took_over(tmp_path: Path) -> None:
    store = _store(tmp_path, "one")
    store.append(*TURN, Configured({"name": "mine"}))
    last = store.entries[-1].id
    store.append(user("not taken over", "t2"), TurnOpened("t2"))
    store.close()
    fork = _store(tmp_path, "two")
    fork.fork("one", last)
    fork.close()
    listed = _agrees(tmp_path, "two")
    assert (listed.messages, listed.words, listed.name, listed.parent) == (2, "first words", "", "one")
    (tmp_path / "one" / "log.jsonl").unlink()
    gone = catalogue.summarise(str(tmp_path), "two")
    assert gone
    assert gone.messages == 0


def test_what_was_left_behind_by_going_back_is_not_counted(tmp_path: Path) -> None:
    store = _store(tmp_path, "one")
    store.append(*TURN)
    place = store.entries[-1].id
    store.append(user("left behind", "t2"), TurnOpened("t2"))
    store.go_back(place)
    store.append(user("instead", "t3"), TurnOpened("t3"))
    store.close()
    assert _agrees(tmp_path, "one").messages == 3
