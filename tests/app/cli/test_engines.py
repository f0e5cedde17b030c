"""`polylect engines`: what is there, and what is wrong with it."""

import json
from pathlib import Path

import pytest

from polylect.app.cli import engines
from polylect.app.cli.tried_versions import newest_tried

PROGRAMS = {
    "claude": "echo 2.1.325",
    "omp": r"printf '\377\033[2J\n'",
    "pi": "echo 'node: No such file' >&2; exit 127",
    "aionrs": "sleep 600 & sleep 600",
}


def test_each_is_told_with_its_version_or_with_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, does in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(engines, "_TIMEOUT", 3.0)
    assert engines.main(["--json"]) == 0
    actual = {one["name"]: (one["version"], one["problem"]) for one in json.loads(capsys.readouterr().out)}
    assert actual["polylect"][0].startswith("polylect ")
    assert actual["claude"] == ("2.1.325", "")
    assert actual["omp"] == ("\ufffd\\x1b[2J", "")
    assert actual["pi"] == ("", "does not work: node: No such file")
    assert actual["aionrs"] == ("", "did not answer within 3 s")
    assert actual["wayland-core"] == ("", "not installed")


def test_other_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert engines.main(["claude"]) == 2
    assert "usage" in capsys.readouterr().err


def test_an_engine_that_is_newer_than_what_was_tried_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, version in {"claude": "999.0.1 (Claude Code)", "pi": "0.1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{version}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert engines.main([]) == 0
    [notice] = capsys.readouterr().err.splitlines()
    last = newest_tried("claude")
    assert last
    assert notice.startswith(f"claude: 999.0.1 (Claude Code) is newer than {last.version}, the newest that was tried")
    assert engines.main(["--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["claude"]["newer"], rows["pi"]["newer"], rows["polylect"]["tried"]) == (True, False, [])
    assert rows["claude"]["tried"][-1] == last._asdict()
