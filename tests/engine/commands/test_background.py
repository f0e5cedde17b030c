"""Answers that take time, wait for room, or tell of a fault of our own: one comes, and the next command is taken."""

import asyncio
import shutil
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from doubles import PATIENCE, Log, Played, Talk, run
from polylect.sessions.library import FileLibrary
from polylect.sessions.store import FileStore
from polylect.vocab.answers import Exported, SessionCard, SessionOpened
from polylect.vocab.commands import Answer, Cancel, Command, OpenSession, Prompt, Query
from polylect.vocab.content import Failure, Text
from polylect.vocab.events import Event, Failed, Reply, Settled, TurnEnded
from polylect.vocab.ports import BlockDone, ReplyDone, Store

ANSWER = [BlockDone(Text("ok")), ReplyDone("end")]


class Shaky(FileLibrary):
    """Has bugs, and a disk that has them too."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder / "sessions"), str(folder), map("e{}".format, count(1)).__next__)
        self.writing = threading.Event()
        self.written = threading.Event()

    def create(self, parent: str = "") -> FileStore:
        if parent == "nobody":
            raise RuntimeError("boom")
        return super().create(parent)

    def sessions(self, cwd: str = "") -> Sequence[SessionCard]:
        raise OSError(28, "No space left on device")

    def export(self, store: Store, path: str) -> str:
        if path == "bug":
            raise KeyError(path)
        self.writing.set()
        assert self.written.wait(10)
        return path


class Loose(Log):
    """Cannot be let go of at first."""

    closed = 0

    def close(self) -> None:
        self.closed += 1
        if self.closed == 1:
            raise OSError(5, "Input/output error")


def refs(talk: Talk) -> list[str]:
    return [reply.ref for reply in talk.of(Reply)]


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        (OpenSession("new", parent="nobody", ref="r"), ("internal", "RuntimeError: boom")),
        (Query("sessions", ref="r"), ("storage", "No space left on device")),
        (Query("export", {"path": "bug"}, ref="r"), ("internal", "KeyError: 'bug'")),
    ],
)
def test_L2_a_command_that_our_own_code_breaks_on_is_answered_once(
    tmp_path: Path, command: Command, failure: tuple[str, str]
) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(command, Query("version", ref="v"), Prompt("t1", "Hello"))
        await talk.until(Reply, 2)
        await talk.until(Settled)

    talk = run(conversation, tmp_path, Played(ANSWER), library=Shaky(tmp_path))
    assert sorted(refs(talk)) == ["r", "v"]
    result = next(reply.failure for reply in talk.of(Reply) if reply.ref == "r")
    assert result is not None
    assert (result.code, failure[1] in result.message) == (failure[0], True)
    assert [end.reason for end in talk.of(TurnEnded)] == ["end"]


def test_L2_what_is_held_is_heard_also_if_the_change_of_session_breaks(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(OpenSession("new", ref="r1"), Query("version", ref="r2"))
        await talk.until(Reply, 2)
        assert isinstance(await talk.answer(OpenSession("new", ref="r3")), SessionOpened)

    talk = run(conversation, tmp_path, Played(), store=Loose(), library=Shaky(tmp_path))
    assert refs(talk) == ["r1", "r2", "r3"]
    failure = talk.of(Reply)[0].failure
    assert failure
    assert "Input/output error" in failure.message


def test_a_workspace_that_is_gone_is_no_reason_to_go_deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    monkeypatch.chdir(workspace)

    async def conversation(talk: Talk) -> None:
        shutil.rmtree(workspace)
        for command in (OpenSession("resume", target="x/y", ref="r"), OpenSession("new", cwd="x", ref="r")):
            assert isinstance(await talk.answer(command), Failure)
        assert isinstance(await talk.answer(OpenSession("new", ref="r")), SessionOpened)

    library = FileLibrary(str(tmp_path / "sessions"), str(workspace), map("e{}".format, count(1)).__next__)
    run(conversation, workspace, Played(), store=library.create(), library=library)


def test_L4_control_is_heard_while_an_export_is_written(tmp_path: Path) -> None:
    library = Shaky(tmp_path)

    async def conversation(talk: Talk) -> None:
        talk.send(Query("export", {"path": "a.html"}, ref="r1"))
        await asyncio.to_thread(library.writing.wait, 10)
        talk.send(Query("version", ref="r2"), Cancel(ref="r3"))
        assert refs(talk) == ["r2", "r3"]
        library.written.set()

    talk = run(conversation, tmp_path, Played(), library=library)
    assert talk.of(Reply)[-1] == Reply("r1", Exported("a.html"))


def test_an_export_that_an_engine_does_not_wait_for_is_answered(tmp_path: Path) -> None:
    library = Shaky(tmp_path)

    async def conversation(talk: Talk) -> None:
        talk.send(Query("export", {"path": "a.html"}, ref="r1"))
        await talk.engine.close()
        assert [reply.failure and reply.failure.code for reply in talk.of(Reply)] == ["closing"]
        library.written.set()

    async def whole() -> None:
        await conversation(Talk(tmp_path, Played(), library=library))

    asyncio.run(asyncio.wait_for(whole(), PATIENCE))


def test_T8_questions_wait_in_order_while_nobody_reads_answers_but_control_does_not(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        agent, room = talk.engine.agent, asyncio.Event()
        agent.wait_writable, agent.full = room.wait, lambda: not room.is_set()  # type: ignore[assignment]
        talk.send(Query("messages", ref="q1"), Prompt("t1", "Hello", ref="p"), Query("messages", ref="q2"))
        talk.send(Answer("a1", "deny", ref="a"))
        assert refs(talk) == ["a"]
        room.set()
        await talk.until(Settled)
        assert refs(talk) == ["a", "q1", "p", "q2"]

    run(conversation, tmp_path, Played(ANSWER))


def test_T8_one_answer_may_be_enough_to_wait_again(tmp_path: Path) -> None:
    room = asyncio.Event()

    def host(event: Event) -> None:
        if isinstance(event, Reply):
            room.clear()

    async def conversation(talk: Talk) -> None:
        agent = talk.engine.agent
        agent.wait_writable, agent.full = room.wait, lambda: not room.is_set()  # type: ignore[assignment]
        talk.send(*(Query("version", ref=f"q{number}") for number in range(3)))
        for number in range(3):
            assert refs(talk) == [f"q{earlier}" for earlier in range(number)]
            room.set()
            await talk.until(Reply, number + 1)

    run(conversation, tmp_path, Played(), host=host)


def test_what_our_own_code_breaks_on_between_turns_is_told_and_the_next_turn_begins(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"), Prompt("t2", "Again"))
        talk.engine.turns.after_current(lambda: talk.store.spill(""))  # this one cannot
        await talk.until(Settled)

    talk = run(conversation, tmp_path, Played(ANSWER, ANSWER))
    assert [end.turn for end in talk.of(TurnEnded)] == ["t1", "t2"]
    [failed] = talk.of(Failed)
    assert "NotImplementedError" in failed.failure.message
