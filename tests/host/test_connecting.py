"""What `connect` is told: understood, or refused at once with what would be right."""

import asyncio
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from engine_process import PATIENCE
from polylect.host import (
    EngineDied,
    HostError,
    InvalidType,
    InvalidValue,
    Limits,
    Rule,
    allow_all,
    category,
    connect,
    deny_all,
)
from polylect.host.limits import dollars
from polylect.host.process import _below, _processes

BROKEN = str(Path(__file__).parent / "broken_engine.py")


@pytest.mark.parametrize(
    ("engine", "wishes", "why"),
    [
        ("codex", {}, "known are polylect"),
        ("", {}, "an engine is a name"),
        ([], {}, "an engine is a name"),
        (object(), {}, "an engine is a name"),
        (["my-engine"], {}, "name the wire of this command line"),
        (["my-agent"], {"dialect": "acp", "session": "x"}, "leave session= out, read agent.session, and .* by resume="),
        (["my-engine"], {"dialect": "lsp"}, "there are native, jsonstream, omp, claude, acp"),
        (["my-engine"], {"dialect": "omp", "version": "99"}, "there are 13, 18, pi"),
        ("polylect-jsonstream", {"version": "99"}, r"there are 0\.2\.0, 0\.1\.0"),
        ("polylect", {"mode": "yolo"}, "its modes are default"),
        ("polylect", {"modle": "x"}, "connect has no argument 'modle', did you mean mode or model"),
        ("claude", {"limit": 5}, "connect has no argument 'limit', did you mean limits"),
        ("polylect", {"colour": "x"}, "it takes model"),
        (lambda: None, {"resume": "x"}, "a function makes this engine: tell it resume there"),
        ("polylect", {"aprove": print}, "connect has no argument 'aprove', did you mean approve"),
        (["my-engine"], {"dialect": "omp", "aprove": print}, "did you mean approve"),
        ("pi", {"colour": "x"}, "it takes .*resume.* session"),
        ("claude", {"colour": "x"}, "it takes model.* base_url"),
        ("polylect", {"limits": 5}, r"Limits\("),
        ("polylect", {"tools": print}, "tools is a list of functions, not <built-in function print>"),
        ("polylect", {"servers": ["x"]}, r"servers is a list of Server\(\.\.\.\); 'x' is none"),
        ("polylect", {"env": ["A=1"]}, r"env is a dict of texts, like .*, not \['A=1'\]"),
        ("polylect", {"env": {"A": 1}}, "env is a dict of texts; 'A': 1 is none"),
        ("polylect", {"ready_within": "x"}, "ready_within is a number, not 'x'"),
        ("polylect", {"ready_within": float("nan")}, "ready_within is zero or more, not nan"),
        ("polylect", {"restarts": "two"}, "restarts is a whole number, not 'two'"),
        ("polylect", {"restarts": -1}, "restarts is zero or more, not -1"),
        ("polylect", {"args": "--x"}, "args is a list of words, not '--x'"),
        ("polylect", {"args": [5]}, "args is a list of words; 5 is none"),
        ("pi", {"mode": "plan"}, "pi has no modes"),
        ("omp", {"mode": "plan"}, "its modes are default, auto_edit, force"),
        ("aionrs", {"mode": "plan"}, "its modes are default, auto_edit, force"),
        ("claude", {"provider": "openai"}, "claude cannot be told 'provider'"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(engine: Any, wishes: dict[str, Any], why: str) -> None:
    with pytest.raises(HostError, match=why):
        connect(engine, **wishes)


def test_money_is_shown_in_cents_and_smaller_parts_where_there_are_any() -> None:
    amounts = (0.15 + 0.3 + 0.15, 5, 0.0225, 0.00001)
    assert [dollars(amount) for amount in amounts] == ["$0.60", "$5.00", "$0.0225", "$1e-05"]


def test_a_mode_that_an_engine_has_no_flag_for_is_told_when_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path), os.environ["PATH"])))
    (tmp_path / "aionrs").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{BROKEN}" jsonstream hangs\n')
    (tmp_path / "aionrs").chmod(0o755)
    result = bytearray()

    async def main() -> None:
        agent = connect("aionrs", mode="force", tap=lambda way, data: result.extend(data), cwd=tmp_path)
        async with asyncio.timeout(PATIENCE), agent:
            pass

    asyncio.run(main())
    assert b'{"type":"set_mode","mode":"yolo"}' in result  # as this wire calls it


def test_a_program_of_the_current_project_is_used_only_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "project" / "node_modules" / ".bin" / "aionrs"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{BROKEN}" jsonstream hangs\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")

    async def main() -> None:
        why = f"found inside of the current project, whose programs are used only by their path: {program}$"
        with pytest.raises(EngineDied, match=why):
            await connect("aionrs").__aenter__()
        async with asyncio.timeout(PATIENCE), connect("node_modules/.bin/aionrs") as agent:
            assert agent.session == "s"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("engine", "options", "warning"),
    [
        ("pi", {"approve": deny_all}, "pi never asks, so approve= is not called and calls run unasked"),
        ("omp", {"approve": deny_all}, "omp asks only if mode= is default or auto_edit, so approve= is not called"),
        ("omp", {"approve": deny_all, "mode": "default"}, ""),
        ("pi", {"approve": allow_all}, ""),
        ("pi", {}, ""),
        ("claude", {"approve": deny_all}, ""),
    ],
)
def test_a_policy_that_is_never_called_is_warned_of(engine: str, options: dict[str, Any], warning: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        connect(engine, **options)
    assert [(str(each.message)[: len(warning)], each.category, each.filename) for each in caught] == (
        [(warning, RuntimeWarning, __file__)] if warning else []
    )


def test_paths_may_be_paths(tmp_path: Path) -> None:
    words: list[str | os.PathLike[str]] = [Path(sys.executable), Path(BROKEN), "jsonstream", "hangs"]

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), connect(words, dialect="jsonstream", cwd=tmp_path) as agent:
            assert agent.session == "s"

    asyncio.run(main())


@pytest.mark.parametrize("steps", [0, 1, 2, 4, 8])
def test_an_engine_that_is_given_up_while_it_starts_is_ended_p1(tmp_path: Path, steps: int) -> None:
    words = [sys.executable, BROKEN, "jsonstream", "never says ready"]
    before = _below([os.getpid()], _processes())

    async def main() -> None:
        entering = asyncio.ensure_future(connect(words, dialect="jsonstream", cwd=tmp_path).__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        entering.cancel()
        await asyncio.sleep(0)
        entering.cancel()  # somebody is in a hurry
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([entering])

    asyncio.run(main())
    assert [pid for pid in _below([os.getpid()], _processes()) if pid not in before and _runs(pid)] == []


def _runs(pid: int) -> bool:
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize(
    ("limits", "error", "why"),
    [
        ({"cost": -1}, InvalidValue, r"Limits\(cost=...\) is finite and zero or more, not -1"),
        ({"cost": "1"}, InvalidType, r"Limits\(cost=...\) is a number, not '1'"),
        ({"cost": None}, InvalidType, r"Limits\(cost=...\) is a number, not None; 0 is no limit"),
        ({"idle": float("nan")}, InvalidValue, r"Limits\(idle=...\) is finite and zero or more, not nan"),
        ({"total": float("inf")}, InvalidValue, r"Limits\(total=...\) is finite and zero or more, not inf"),
        ({"tokens": 1.5}, InvalidType, r"Limits\(tokens=...\) is a whole number, not 1.5"),
    ],
)
def test_what_is_no_limit_is_refused(limits: dict[str, Any], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        Limits(**limits)


def test_no_limits_may_be_written_as_none() -> None:
    assert connect("polylect", limits=None)


def test_names_in_rules_and_policies_are_checked_at_once() -> None:
    kind: Any = "categori"
    with pytest.raises(ValueError, match="there is no kind of rule 'categori'; there are category, tool"):
        Rule(kind)
    with pytest.raises(InvalidValue, match="there is no category 'edt'; there are info, edit, exec, mcp"):
        category("info", "edt")
