"""Links that change between the check and the use of a path, and a way back through them.

What was judged is what is opened. The races run under every sandbox that the machine has, and without one.
`POLYLECT_ATTACK_TRIES` says how often.
"""

import asyncio
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attacks.test_deafness import call as scripted_call
from attacks.test_deafness import step
from attacks.tries import patience, tries
from doubles import Played, Talk, run
from doubles_tools import FolderContext, with_worker
from engine_process import Engine, Place, message
from machine import PATIENCE
from polylect.sessions.store import MemoryStore
from polylect.tools.builtin.write import Write
from polylect.tools.process.programs import find_program
from polylect.tools.sandbox import Sandbox
from polylect.tools.standard import standard_tools
from polylect.vocab.commands import Prompt, Rewind
from polylect.vocab.content import Failure, Text, ToolCall
from polylect.vocab.events import Settled
from polylect.vocab.ports import BlockDone, ReplyDone

TRIES = tries(20)
SECRET = "the secret of somebody else"
_EXCHANGE = 2
_CHANGER = """
import ctypes, os, select, sys
one, other = map(os.fsencode, sys.argv[1:])
rename = ctypes.CDLL(None).renameat2
print("begun", flush=True)
while not select.select([0], [], [], 0)[0]:
    for _ in range(50):
        rename(-100, one, -100, other, 2)
"""
_libc = ctypes.CDLL(None, use_errno=True)


def landlock() -> bool:
    try:
        from polylect.tools.sandbox.landlock import OLDEST, version

        return version() >= OLDEST
    except (ImportError, AttributeError, OSError):
        return False


KINDS = [
    "off",
    *(["landlock"] if landlock() else []),
    *(["bwrap"] if find_program("bwrap", os.environ) else []),
]


@pytest.fixture(params=KINDS)
def context(request: pytest.FixtureRequest, tmp_path: Path) -> FolderContext:
    """A workspace whose folder `now` and link `later`, which leads to a secret, change places."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (work / "now", outside):
        folder.mkdir(parents=True)
    (work / "now" / "file.txt").write_text("harmless\n")
    (work / "now" / "mine.txt").touch()
    (outside / "file.txt").write_text(SECRET + "\n")
    (outside / "private.txt").touch()
    (work / "later").symlink_to(outside)
    context = FolderContext(work)
    return with_worker(context, Sandbox(request.param, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]}))


def exchange(folder: Path, one: str, other: str) -> None:
    paths = (os.fsencode(folder / one), os.fsencode(folder / other))
    assert _libc.renameat2(-100, paths[0], -100, paths[1], _EXCHANGE) == 0, os.strerror(ctypes.get_errno())


@contextmanager
def changing_places(folder: Path, one: str, other: str) -> Iterator[None]:
    """As fast as a process can do it, until the input of that ends."""
    argv = [sys.executable, "-I", "-S", "-c", _CHANGER, str(folder / one), str(folder / other)]
    changer = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert changer.stdin
    assert changer.stdout
    with changer:
        changer.stdout.readline()
        try:
            yield
        finally:
            changer.stdin.close()


async def call(context: FolderContext, name: str, **args: Any) -> str:
    """Judged and run, as the engine does it."""
    tool = standard_tools()[name]
    context.touched = tool.touches(args, context.workspace)
    if not all(path.startswith(context.workspace) for path in context.touched):
        return "it would be asked for"
    return (await tool.run(args, context)).output


def outputs(context: FolderContext, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    async def main() -> list[str]:
        try:
            return [await call(context, name, **args) for _ in range(TRIES) for name, args in calls]
        finally:
            await context.worker.close()
            await context.processes.close()

    return asyncio.run(asyncio.wait_for(main(), patience(TRIES * len(calls))))


def test_searches_do_not_leave_through_a_link_that_was_a_folder(context: FolderContext) -> None:
    with changing_places(Path(context.workspace), "now", "later"):
        results = outputs(
            context,
            ("Grep", {"pattern": ".", "path": "now"}),
            ("Grep", {"pattern": "."}),
            ("Glob", {"pattern": "now/**"}),
            ("Glob", {"pattern": "**/*.txt"}),
            ("Read", {"file_path": "now/file.txt"}),
        )
    assert not [output for output in results if SECRET in output or "private" in output]
    assert any("harmless" in output for output in results)


def test_a_rule_that_denies_a_file_is_not_passed_by_through_a_link(context: FolderContext) -> None:
    """`deny Read(.env)`: the path that was judged is another one, and by the time of the use a link to this."""
    work = Path(context.workspace)
    (work / ".env").write_text(SECRET)
    (work / "plain").write_text("harmless")
    (work / "link").symlink_to(".env")
    read = standard_tools()["Read"]

    async def main() -> list[str]:
        results = []
        try:
            for _ in range(TRIES):
                context.touched = read.touches({"file_path": "plain"}, context.workspace)
                if context.touched != (str(work / ".env"),):  # else the rule would have denied it
                    results.append((await read.run({"file_path": "plain"}, context)).output)
        finally:
            await context.worker.close()
            await context.processes.close()
        return results

    with changing_places(work, "plain", "link"):
        results = asyncio.run(asyncio.wait_for(main(), patience(TRIES)))
    assert not [output for output in results if SECRET in output]


def test_what_was_judged_is_what_is_used(context: FolderContext) -> None:
    """The worst moment, once for each tool: everything changes right after the judgement."""
    work = Path(context.workspace)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"file_path": "now/file.txt"}),
        ("Write", {"file_path": "now/file.txt", "content": "mine"}),
        ("Write", {"file_path": "now/new.txt", "content": "mine"}),
        ("Edit", {"file_path": "now/file.txt", "old_string": "secret", "new_string": "mine"}),
        ("Grep", {"pattern": ".", "path": "now"}),
        ("Grep", {"pattern": ".", "path": "now/file.txt"}),
        ("Glob", {"pattern": "*", "path": "now"}),
    ]

    async def main() -> list[str]:
        results = []
        try:
            for name, args in calls:
                tool = standard_tools()[name]
                context.touched = tool.touches(args, context.workspace)
                exchange(work, "now", "later")
                results.append((await tool.run(args, context)).output)
                exchange(work, "now", "later")
        finally:
            await context.worker.close()
            await context.processes.close()
        return results

    results = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert not [output for output in results if SECRET in output or "private" in output]
    outside = work.parent / "outside"
    assert (sorted(os.listdir(outside)), (outside / "file.txt").read_text()) == (
        ["file.txt", "private.txt"],
        SECRET + "\n",
    )


def test_going_back_deletes_and_writes_nothing_through_a_link(tmp_path: Path) -> None:
    work, victim = tmp_path / "work", tmp_path / "victim"
    for folder in (work / "d", victim):
        folder.mkdir(parents=True)
    (victim / "precious").write_text("of somebody else")
    (work / "d" / "old").write_text("1")
    replies = [
        [BlockDone(ToolCall(f"c{number}", "Write", {"file_path": path, "content": "2"})), ReplyDone("calls")]
        for number, path in enumerate(("d/precious", "d/old"))
    ]

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Go"))
        await talk.until(Settled)
        os.rename(work / "d", work / "e")
        (work / "d").symlink_to(victim)
        refused = await talk.answer(Rewind("t1", ref="r"))
        assert isinstance(refused, Failure)
        assert "leads elsewhere now" in refused.message

    done = [BlockDone(Text("done")), ReplyDone("end")]
    store = MemoryStore(str(tmp_path))
    run(conversation, work, Played(*replies, done), Write(), mode="force", checkpoints=True, store=store)
    assert {path.name: path.read_text() for path in victim.iterdir()} == {"precious": "of somebody else"}


# The same with whole engines.

RACES = {
    "Grep": {"path": "now", "pattern": "."},
    "Glob": {"pattern": "now/*.txt"},
    "Read": {"file_path": "plain"},
}
AT_ONCE = 100
"""Calls of one reply: fewer than are refused for being too many."""


@pytest.mark.parametrize("tool", RACES)
def test_no_call_of_an_engine_leaves_through_a_link_or_past_a_rule(tmp_path: Path, tool: str) -> None:
    """A folder changes places with a link that leads outside, and a file with a link to one that a rule denies."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private.txt").write_text(SECRET)
    with Place(tmp_path) as place:
        work = place.workspace
        (work / "now").mkdir()
        (work / "now" / "mine.txt").write_text("harmless")
        (work / "later").symlink_to(outside)
        for name, text in (("plain", "harmless"), (".env", SECRET)):
            (work / name).write_text(text)
        (work / "link").symlink_to(".env")
        steps = max(2, TRIES // AT_ONCE)
        script = "".join(step(number, scripted_call(tool, AT_ONCE, **RACES[tool])) for number in range(1, steps + 1))
        flags = ("--approval-mode", "dont_ask", "--deny", "Read(.env)")
        engine = place.started(*flags, script=f'{script}[[reply]]\ntext = "done"\n')
        with changing_places(work, *(("plain", "link") if tool == "Read" else ("now", "later"))):
            engine.send(message("go"))
            frames = engine.until("stream_end")
    outputs = [frame["output"] for frame in frames if frame["type"] == "tool_result"]
    assert [output for output in outputs if SECRET in output or "private" in output] == []
    assert [output for output in outputs if "harmless" in output or "mine.txt" in output]


def test_an_engine_that_goes_back_deletes_nothing_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("of somebody else")
    write = scripted_call("Write", file_path="d/precious", content="mine")
    with Place(tmp_path) as place:
        argv = [
            *(sys.executable, "-m", "polylect", "--output-format", "stream-json", "--input-format", "stream-json"),
            *("--verbose", "--replay-user-messages", "--permission-mode", "bypassPermissions"),
            *place.script(step(1, write) + '[[reply]]\ntext = "done"\n'),
        ]
        engine = Engine(argv, place.workspace, {**place.env, "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"})
        place.keep(engine)
        engine.send({"type": "user", "message": {"role": "user", "content": "go"}})
        users = [frame for frame in engine.until("result") if frame["type"] == "user"]
        [prompt] = [frame["uuid"] for frame in users if frame["message"]["content"] == "go"]
        (place.workspace / "d").rename(place.workspace / "e")
        (place.workspace / "d").symlink_to(victim)
        request = {"subtype": "rewind_files", "user_message_id": prompt}
        engine.send({"type": "control_request", "request_id": "r", "request": request})
        answer = engine.until("control_response")[-1]["response"]
    assert {path.name: path.read_text() for path in victim.iterdir()} == {"precious": "of somebody else"}
    assert "leads elsewhere now" in str(answer)


@pytest.mark.parametrize("tool", ["Read", "Write", "Grep", "Glob"])
def test_a_question_names_what_a_link_leads_to(tmp_path: Path, tool: str) -> None:
    with Place(tmp_path) as place:
        secret = tmp_path / "elsewhere" / "secret.txt"
        secret.parent.mkdir()
        secret.write_text("secret\n")
        (place.workspace / "notes").symlink_to(secret.parent)
        where = {"path": "notes", "pattern": "*"} if tool in ("Grep", "Glob") else {"file_path": "notes/secret.txt"}
        content = {"content": "x"} if tool == "Write" else {}
        engine = place.started(script=step(1, scripted_call(tool, **where, **content)) + '[[reply]]\ntext = "done"\n')
        engine.send(message("go"))
        requested = engine.until("tool_request")[-1]["tool"]["description"]
        assert str(secret.parent) in requested
