"""The worker process and the pool: one request in, one answer out, and an end that nobody has to ask for."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from attacks.test_link_races import KINDS
from doubles_tools import FolderContext, processes_with, use, watched, with_worker
from machine import PATIENCE
from polylect.tools.process.custody import Custody
from polylect.tools.process.programs import find_program
from polylect.tools.sandbox import Sandbox
from polylect.tools.sandbox import sandbox as sandbox_module
from polylect.tools.standard import standard_tools
from polylect.tools.worker.pool import WorkerPool
from polylect.tools.worker.timeout_error import WorkerTimeout
from polylect.vocab.errors import ToolError

ENDLESS = {"pattern": "(a|aa)+$", "start": 0, "stop": 5001, "most": 100}


class Yard:
    """A workspace, a pool for it, and a file that takes a pattern for ever."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.real = os.path.realpath(folder)
        (folder / "a.txt").write_text("hello\n")
        (folder / "evil").write_text("a" * 5000 + "!")
        self.custody = Custody()
        self.pool = WorkerPool(self.custody, None, [self.real])

    async def read(self) -> str:
        real = f"{self.real}/a.txt"
        value, _ = await self.pool.request("read", {"path": "a.txt", "real": real, "offset": 0, "limit": 0})
        output: str = value["output"]
        return output

    async def never_end(self, timeout: float = PATIENCE) -> None:
        with (self.folder / "evil").open("rb") as file:
            await self.pool.request("filter_lines", ENDLESS, file=file.fileno(), timeout=timeout)

    @property
    def workers(self) -> list[int]:
        """Those of this process."""
        return [pid for pid in processes_with("worker.program") if _descends(pid, os.getpid())]


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
        if pid == ancestor:
            return True
    return False


def talk(folder: Path, conversation: Callable[[Yard], Awaitable[None]]) -> None:
    async def main() -> None:
        yard = Yard(folder)
        try:
            await conversation(yard)
        finally:
            await yard.pool.close()
            await yard.custody.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_one_worker_is_started_by_the_first_request_and_stays(tmp_path: Path) -> None:
    async def conversation(yard: Yard) -> None:
        assert yard.workers == []
        assert await yard.read() == "     1\thello"
        first = yard.workers
        assert len(first) == 1
        for _ in range(50):
            assert await yard.read() == "     1\thello"
        assert yard.workers == first
        assert await asyncio.gather(*(yard.read() for _ in range(50))) == ["     1\thello"] * 50

    talk(tmp_path, conversation)


def test_a_request_that_is_late_is_killed_and_the_next_one_has_another_worker(tmp_path: Path) -> None:
    async def conversation(yard: Yard) -> None:
        await yard.read()
        first = yard.workers
        with pytest.raises(WorkerTimeout, match="took longer"):
            await yard.never_end(timeout=0.2)
        assert await yard.read() == "     1\thello"
        assert not set(first) & set(yard.workers)

    talk(tmp_path, conversation)


def test_a_request_that_is_cancelled_is_killed_at_once(tmp_path: Path) -> None:
    async def conversation(yard: Yard) -> None:
        await yard.read()
        task = asyncio.create_task(yard.never_end())
        done, _ = await asyncio.wait((task,), timeout=0.1)
        assert not done
        with watched(yard.workers) as all_end_within:
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled()
            assert await asyncio.to_thread(all_end_within, 1)
        assert await yard.read() == "     1\thello"

    talk(tmp_path, conversation)


def test_a_worker_that_dies_makes_its_call_an_error_and_is_replaced(tmp_path: Path) -> None:
    async def conversation(yard: Yard) -> None:
        await yard.read()
        (worker,) = yard.workers
        task = asyncio.create_task(yard.never_end())
        await asyncio.wait((task,), timeout=0.05)
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(ToolError, match="was ended"):
            await task
        assert await yard.read() == "     1\thello"
        (worker,) = yard.workers
        with watched([worker]) as all_end_within:
            os.kill(worker, signal.SIGKILL)  # also one that has nothing to do
            assert await asyncio.to_thread(all_end_within, 1)
        assert await yard.read() == "     1\thello"

    talk(tmp_path, conversation)


def test_requests_beyond_four_wait_for_their_turn_and_slow_ones_do_not_hold_up_the_others(tmp_path: Path) -> None:
    async def conversation(yard: Yard) -> None:
        slow = [asyncio.create_task(yard.never_end()) for _ in range(3)]
        assert await asyncio.gather(*(yard.read() for _ in range(20))) == ["     1\thello"] * 20
        assert len(yard.workers) <= 4
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)

    talk(tmp_path, conversation)


def test_faults_come_back_as_what_they_are(tmp_path: Path) -> None:
    async def conversation(yard: Yard) -> None:
        with pytest.raises(ToolError, match="there is none"):
            await yard.pool.request("read", {"path": "x", "real": f"{tmp_path}/x", "offset": 0, "limit": 0})
        with pytest.raises(NotADirectoryError):
            await yard.pool.request("write", {"path": "x", "real": f"{tmp_path}/a.txt/x", "content": "", "known": None})
        with pytest.raises(RuntimeError, match="TypeError"):
            await yard.pool.request("read", {})
        with pytest.raises(RuntimeError, match="KeyError"):
            await yard.pool.request("no such operation", {})
        assert await yard.read() == "     1\thello"

    talk(tmp_path, conversation)


def test_notebooks_are_read_and_changed_without_other_packages(tmp_path: Path) -> None:
    """The worker is a bare interpreter: only the standard library can be imported there."""

    async def conversation(yard: Yard) -> None:
        (tmp_path / "n.ipynb").write_text('{"cells": [{"cell_type": "code", "id": "k", "source": ["x"]}]}')
        place = {"path": "n.ipynb", "real": f"{yard.real}/n.ipynb"}
        value, _ = await yard.pool.request("read", {**place, "offset": 1, "limit": 0})
        assert value["output"] == "     1\t--- cell 1 (code, id k) ---\n     2\tx"
        change = {"cell": "k", "source": "y", "kind": "", "how": "replace", "workspace": yard.real}
        await yard.pool.request("edit_notebook", {**place, **change, "known": value["stamp"]})
        assert '"source": ["y"]' in (tmp_path / "n.ipynb").read_text()

    talk(tmp_path, conversation)


def test_a_page_becomes_text_whatever_it_says_of_itself(tmp_path: Path) -> None:
    async def page(yard: Yard, body: bytes, content_type: str) -> str:
        arguments = {"content_type": content_type, "url": "http://a.test/"}
        value, _ = await yard.pool.request("page_text", arguments, data=body)
        text: str = value["text"]
        return text

    async def conversation(yard: Yard) -> None:
        assert await page(yard, b"<h1>Hi</h1>", "text/html; charset=latin-1") == "# Hi"
        assert await page(yard, "grün".encode("latin-1"), "text/plain; charset=latin-1") == "grün"
        for charset in ("zlib", "idna", "undefined", "punycode", "nonsense"):
            assert await page(yard, b"plain", f"text/plain; charset={charset}") == "plain"

    talk(tmp_path, conversation)


def test_a_request_that_needs_too_much_memory_fails_alone(tmp_path: Path) -> None:
    async def conversation(yard: Yard) -> None:
        real = f"{yard.real}/b.txt"
        written, _ = await yard.pool.request(
            "write", {"path": "b", "real": real, "content": "x" * 1_000_000, "known": None}
        )
        changes = [("x", "y" * 5000, True)]
        arguments = {
            "path": "b",
            "real": real,
            "changes": changes,
            "known": written["stamp"],
            "workspace": str(tmp_path),
        }
        with pytest.raises(ToolError, match="more memory"):
            await yard.pool.request("edit", arguments)
        assert await yard.read() == "     1\thello"

    talk(tmp_path, conversation)


# Which sandbox there is.


def first_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bwrap: str) -> tuple[Sandbox, list[str]]:
    """The sandbox after a first call where this script is bubblewrap, and the commands that it was started with."""
    programs, work, log = tmp_path / "programs", tmp_path / "work", tmp_path / "log"
    for folder in (programs, work):
        folder.mkdir()
    (programs / "bwrap").write_text(f'#!/bin/sh\nfor last; do :; done; echo "$last" >> {log}\n{bwrap}\n')
    (programs / "bwrap").chmod(0o755)
    monkeypatch.setattr(sandbox_module, "_PROGRAM_FOLDERS", f"{programs}:")
    (work / "a.txt").write_text("hello\n")
    sandbox = Sandbox(env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert use(with_worker(FolderContext(work), sandbox), "Read", file_path="a.txt").output == "     1\thello"
    return sandbox, log.read_text().splitlines()


@pytest.mark.skipif("bwrap" not in KINDS, reason="bubblewrap does not work here")
def test_the_first_worker_shows_that_bubblewrap_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process has to try it."""
    sandbox, commands = first_read(tmp_path, monkeypatch, f'exec {find_program("bwrap", os.environ)} "$@"')
    assert sandbox.kind == "bwrap"
    assert len(commands) == 1


def test_where_bubblewrap_does_not_work_another_sandbox_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox, commands = first_read(tmp_path, monkeypatch, "echo no >&2; exit 1")
    assert sandbox.kind in ("landlock", "none")
    assert "bubblewrap does not work here: no" in sandbox.why
    assert commands[1:] == [":", ":"]


# What a person approved.


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_the_worker_cannot_reach_are_handed_over_once_they_are_approved(tmp_path: Path, kind: Any) -> None:
    """`secrets` is hidden from commands. Approved, its files are among the roots of the call."""
    work, secrets = tmp_path / "work", tmp_path / "secrets"
    for folder in (work, secrets):
        folder.mkdir()
    (secrets / "key").write_text("one\n")
    sandbox = Sandbox(kind, hidden=[str(secrets)], env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    path, new = str(secrets / "key"), str(secrets / "new")
    context = FolderContext(work)

    def ask(name: str, **args: Any) -> Any:
        return use(with_worker(context, sandbox), name, **args)

    assert "outside the workspace" in ask("Read", file_path=path).output
    context.roots = (*context.roots, path, new)
    assert ask("Read", file_path=path).output == "     1\tone"
    assert ask("Grep", pattern="one", path=path).output == f"{path}:1:one"
    assert "+two" in ask("Edit", file_path=path, old_string="one", new_string="two").output
    assert ask("Write", file_path=new, content="three").output == f"Created {new} (1 lines)"
    assert {file.name: file.read_text() for file in secrets.iterdir()} == {"key": "two\n", "new": "three"}
    (work / "link").symlink_to(secrets)
    assert "two" not in ask("Grep", pattern=".").output


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "off"])
def test_what_the_sandbox_hides_counts_as_outside_unless_something_opens_it(tmp_path: Path, kind: Any) -> None:
    home = os.path.realpath(tmp_path)
    sandbox = Sandbox(kind, env={"HOME": home, "PATH": os.environ["PATH"]})
    pool = WorkerPool(Custody(), sandbox, [home])
    assert pool.hides(f"{home}/.ssh/id_rsa", [home])
    assert not pool.reaches(f"{home}/.ssh/id_rsa")
    assert not pool.hides(f"{home}/.ssh/id_rsa", [home, f"{home}/.ssh"])
    assert not pool.hides(f"{home}/notes", [home])
    assert pool.reaches(f"{home}/notes")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "off"])
def test_a_search_does_not_see_a_hidden_file_that_was_made_after_the_worker_was_started(
    tmp_path: Path, kind: Any
) -> None:
    """The home folder is the workspace."""
    (tmp_path / "notes").write_text("mine\n")
    sandbox = Sandbox(kind, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    context = with_worker(FolderContext(tmp_path), sandbox)

    async def grep() -> str:
        tool = standard_tools()["Grep"]
        context.touched = (context.workspace,)
        return (await tool.run({"pattern": "."}, context)).output

    async def main() -> tuple[str, str]:
        try:
            before = await grep()
            (tmp_path / ".netrc").write_text("password\n")
            return before, await grep()
        finally:
            await context.worker.close()
            await context.processes.close()

    assert asyncio.run(asyncio.wait_for(main(), PATIENCE)) == ("notes:1:mine", "notes:1:mine")
