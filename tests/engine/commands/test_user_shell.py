"""Commands of the user's own: beside any turn, one answer each, and told to the model afterwards."""

import asyncio
import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from doubles import Hang, Log, Played, Talk, run
from polylect.engine.commands.user_shell import MOST_BYTES, MOST_LINES, CommandOutput
from polylect.providers.scripted import Scripted
from polylect.sessions.library import FileLibrary
from polylect.tools.process.custody import Custody
from polylect.vocab.answers import ShellResult
from polylect.vocab.commands import Cancel, OpenSession, Prompt, RunShell
from polylect.vocab.content import Text
from polylect.vocab.entries import ShellRan
from polylect.vocab.events import Notice, Reply, ShellOutput, ToolStarted, TurnEnded
from polylect.vocab.ports import Exit

HELLO = Prompt("t1", "Hello")


class Shelled(Talk):
    """A talk whose engine can start processes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.engine.agent.processes = Custody()
        self.engine.agent.env = {"PATH": "/usr/bin:/bin", "WORD": "hi"}


def results(talk: Talk) -> dict[str, ShellResult]:
    return {reply.ref: reply.data for reply in talk.of(Reply)}


def printed(*pieces: bytes, folder: Path | None = None) -> ShellResult:
    def spill() -> str:
        if folder is None:
            raise OSError("no room")
        (folder / "all.txt").touch()
        return str(folder / "all.txt")

    output = CommandOutput(spill, lambda text: None)
    for piece in pieces:
        output.add("out", piece)
    output.close()
    return output.result("x", Exit(0), str)


# Through the engine.


def test_L4_commands_run_beside_a_turn_and_each_is_answered_when_it_has_ended(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(ToolStarted)
        talk.send(RunShell("echo $WORD; echo oops >&2; pwd; exit 3", ref="r1"), RunShell("true", ref="r2"))
        await talk.until(Reply, 2)
        assert not talk.of(TurnEnded)
        assert [body for body in talk.store.bodies if isinstance(body, ShellRan)] == []  # type: ignore[attr-defined]
        talk.send(Cancel())

    model = Scripted.in_order({"call": "Hang", "id": "c1"})
    talk = run(conversation, tmp_path, model, Hang(), made=Shelled)
    first, second = results(talk)["r1"], results(talk)["r2"]
    assert (first.code, first.cancelled, first.truncated) == (3, False, False)
    assert sorted(first.output.splitlines()) == sorted(["hi", "oops", str(tmp_path)])
    assert (first.lines, first.size) == (4, len(first.output))
    assert second == ShellResult("true", code=0)
    ran = [body.result for body in talk.store.bodies if isinstance(body, ShellRan)]  # type: ignore[attr-defined]
    assert sorted(ran, key=lambda one: one.command) == [first, second]
    assert [message.role for message in talk.messages] == ["user", "assistant", "tool", "user", "user"]


@pytest.mark.parametrize("busy", [False, True])
def test_P1_a_command_ends_with_the_session_it_was_said_in_and_is_told_there(tmp_path: Path, *, busy: bool) -> None:
    library = FileLibrary(str(tmp_path / "sessions"), str(tmp_path), map("e{}".format, count(1)).__next__)
    store = library.create()
    os.mkfifo(tmp_path / "begun")

    async def conversation(talk: Talk) -> None:
        talk.send(*[HELLO] * busy, RunShell("echo private; echo > begun; exec sleep 60", ref="r1"))
        await asyncio.to_thread((tmp_path / "begun").read_bytes)
        talk.send(OpenSession("new", ref="r2"), RunShell("echo ours", ref="r3"))
        await talk.until(Reply, 3)

    model = Scripted.in_order({"call": "Hang", "id": "c1"})
    talk = run(conversation, tmp_path, model, Hang(), made=Shelled, store=store, library=library)
    assert [reply.ref for reply in talk.of(Reply)] == ["r1", "r2", "r3"]
    assert results(talk)["r1"] == ShellResult(
        "echo private; echo > begun; exec sleep 60", "private\n", cancelled=True, lines=2, size=8
    )
    left = library.resume(store.session).entries
    assert [entry.body.result.output for entry in left if isinstance(entry.body, ShellRan)] == ["private\n"]
    result = [
        entry.body.result.output
        for entry in talk.engine.agent.session.store.entries
        if isinstance(entry.body, ShellRan)
    ]
    assert result == ["ours\n"]


def test_what_ran_while_nothing_else_did_is_told_at_once_and_sent_with_the_next_prompt(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(RunShell("echo there", ref="r1"))
        await talk.until(Reply)
        talk.send(HELLO)

    model = Scripted.from_values({"reply": [{"text": "ok"}]})
    talk = run(conversation, tmp_path, model, made=Shelled)
    result = talk.messages[0].content[0]
    assert isinstance(result, Text)
    assert "echo there" in result.text
    assert [message.role for message in talk.messages] == ["user", "user", "assistant"]


def test_what_a_command_prints_is_told_while_it_runs_and_a_private_one_stays_so(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(RunShell("echo secret; until [ -e go ]; do sleep 0.01; done; echo end", private=True, ref="r1"))
        assert await talk.until(ShellOutput) == ShellOutput("r1", "secret\n")
        assert talk.of(Reply) == []
        (tmp_path / "go").touch()
        await talk.until(Reply)
        talk.send(HELLO)
        await talk.engine.settled()

    model = Scripted.from_values({"reply": [{"text": "ok"}]})
    talk = run(conversation, tmp_path, model, made=Shelled)
    assert "".join(event.text for event in talk.of(ShellOutput)) == "secret\nend\n" == talk.of(Reply)[0].data.output
    assert [message.role for message in talk.messages] == ["user", "assistant"], "the model is told of its prompt only"


def test_L2_what_could_not_be_saved_is_told(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(RunShell("echo there", ref="r1"))
        await talk.until(Reply)

    talk = run(conversation, tmp_path, Played(), made=Shelled, store=Log(full=lambda write: True))
    assert [notice.text.partition(":")[0] for notice in talk.of(Notice)] == [
        "What a command printed could not be saved"
    ]
    assert results(talk)["r1"].output == "there\n"


def test_L4_commands_can_be_stopped_all_at_once_or_by_the_name_of_their_command(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(*(RunShell("echo begun; sleep 60", ref=f"r{number}") for number in range(3)))
        talk.send(Cancel("shell", "r1", ref="one"))
        await talk.until(Reply, 2)
        talk.send(Cancel("shell", ref="rest"), Cancel("shell", ref="again"))

    talk = run(conversation, tmp_path, Played(), made=Shelled)
    order = [reply.ref for reply in talk.of(Reply)]
    assert order[:2] == ["one", "r1"]
    assert {ref: (data.code, data.cancelled) for ref, data in results(talk).items() if data} == {
        "r0": (None, True),
        "r1": (None, True),
        "r2": (None, True),
    }


def test_a_command_that_is_empty_or_cannot_be_run_is_answered_with_the_reason(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(RunShell("  ", ref="empty"))
        gone.rmdir()
        talk.send(RunShell("true", ref="gone"))

    gone = tmp_path / "gone"
    gone.mkdir()
    talk = run(conversation, gone, Played(), made=Shelled)
    codes = {reply.ref: reply.failure.code if reply.failure else "" for reply in talk.of(Reply)}
    assert codes == {"empty": "empty_command", "gone": "shell"}


def test_P1_a_command_that_runs_when_the_engine_closes_is_stopped_and_answered(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(RunShell("sleep 60", ref="r1"))
        await talk.engine.close()

    assert results(run(conversation, tmp_path, Played(), made=Shelled))["r1"].cancelled


# What was printed.


def test_control_characters_are_left_out_also_where_they_come_in_pieces() -> None:
    assert printed(b"\x1b[31mred\x1b[0m\r\n\ttab\x07\x00").output == "red\n\ttab"
    assert printed(b"a\x1b", b"[3", b"1mb", b"\x1b]0;title", b"\x07c\xc3", b"\xa4").output == "abc\u00e4"
    assert printed(b"end\x1b[").output == "end["


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * MOST_BYTES, "x" * MOST_BYTES),
        ("ab" * MOST_BYTES, "ab" * (MOST_BYTES // 2)),
        ("line\n" * (MOST_LINES - 1), "line\n" * (MOST_LINES - 1)),
        ("first\n" + "line\n" * (MOST_LINES - 1), "line\n" * (MOST_LINES - 1)),
        ("\u00e4" * MOST_BYTES, "\u00e4" * (MOST_BYTES // 2)),
    ],
)
def test_the_end_of_a_long_output_is_shown_and_all_of_it_is_in_a_file(text: str, shown: str, tmp_path: Path) -> None:
    data = text.encode()
    result = printed(*(data[at : at + 7000] for at in range(0, len(data), 7000)), folder=tmp_path)
    assert result.output == shown
    assert result.truncated == (shown != text)
    assert (result.lines, result.size) == (text.count("\n") + 1, len(data))
    if result.truncated:
        assert Path(result.path).read_text() == text
    else:
        assert result.path == ""


def test_a_long_output_that_cannot_be_kept_is_shown_all_the_same() -> None:
    result = printed(*[b"0123456789" * 1000] * 100)
    assert (len(result.output), result.truncated, result.path, result.size) == (MOST_BYTES, True, "", 1_000_000)
