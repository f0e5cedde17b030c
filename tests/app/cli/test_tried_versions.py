"""The table of tried versions: it says what `make interop` really installs, and which version is the newest."""

import re
from pathlib import Path

import pytest
from bench.peers import PINS
from scripts.newest import newer_versions

from polylect.app.cli.tried_versions import TRIED, is_newer, newest_tried

ROOT = Path(__file__).parents[3]


ACP = ("claude-acp", "codex-acp", "gemini", "goose", "kimi", "opencode", "qwen")


@pytest.mark.parametrize("engine", ["omp", "pi", *ACP])
def test_every_pinned_version_is_in_the_table(engine: str) -> None:
    peer = "kimi-code" if engine == "kimi" else engine  # `kimi` is the older program, which bench/ measures
    pinned = {pin.version for name, pin in PINS.items() if name.split()[0] == peer}
    assert {tried.version for tried in TRIED[engine]} == pinned


def test_the_tests_that_it_names_exist() -> None:
    paths = [tried.how for versions in TRIED.values() for tried in versions if tried.how.endswith(".py")]
    assert paths
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", tried.date) for versions in TRIED.values() for tried in versions)


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [
        ("2.1.9", "2.1.10", False),
        ("2.1.325 (Claude Code)", "2.1.325", False),
        ("omp/18.10.0 linux", "18.9.9", True),
        ("no number", "1.0", False),
        ("9" * 50 + ".1", "1.0", True),
    ],
)
def test_versions_are_compared_by_number(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer


def test_make_newest_tries_newer_versions_of_the_same_wire_the_newest_first() -> None:
    listed = ["13.19.0", "18.2.3", "18.10.0", "18.3.4", "18.3.5-beta.1", "18.1.0", "19.0.0"]
    assert newer_versions(PINS["omp 18"]._replace(version="18.2.3"), listed) == ["18.10.0", "18.3.4"]


def test_ours_was_not_tried_as_a_peer() -> None:
    assert newest_tried("polylect") is None
