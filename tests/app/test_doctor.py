"""`polylect doctor` tells what is configured, found and missing."""

import json
from pathlib import Path

import pytest

from engine_process import Outcome, Place
from polylect import __version__


def findings(done: Outcome) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for row in json.loads(done.out):
        found.setdefault(row["subject"], []).append((row["state"], row["detail"]))
    return found


def test_all_is_well_without_a_key(tmp_path: Path) -> None:
    done = Place(tmp_path).run("doctor")
    text = done.out.decode()
    assert (done.code, done.errors) == (0, "")
    assert f"✓ polylect     {__version__}" in text
    assert "✓ scripted" in text
    assert "ANTHROPIC_API_KEY is not set" in text
    assert all(line[1] in "✓·✗" for line in text.splitlines())


def test_the_same_for_programs(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure('[default]\nmodel = "mine"')
    found = findings(place.run("doctor", "--json"))
    assert ("ok", str(place.settings)) in found["settings"]
    assert any("model=mine" in detail for _, detail in found["settings"])
    assert str(place.sessions) in found["sessions"][0][1]
    assert found["shell"][0][0] == "ok"
    assert found["anthropic"][0][0] == "note"


def test_a_key_makes_a_provider_usable_and_is_never_shown(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure('[providers.scripted]\napi_key = "sk-from-file"')
    done = place.run("doctor", "--json", env={"ANTHROPIC_API_KEY": "sk-ant-from-environment"})
    assert findings(done)["anthropic"] == [("ok", "can be used")]
    assert b"sk-from" not in done.out
    assert b"sk-ant-from" not in done.out


@pytest.mark.parametrize("broken", ["settings", "sessions"])
def test_what_keeps_an_engine_from_starting_is_bad_and_an_exit_code(tmp_path: Path, broken: str) -> None:
    place = Place(tmp_path)
    env = {}
    if broken == "settings":
        place.configure("[default]\nmodle = 1")
    else:
        (tmp_path / "file").write_text("in the way")
        env["POLYLECT_HOME"] = str(tmp_path / "file" / "below")
    done = place.run("doctor", "--json", env=env)
    assert done.code == 1
    assert findings(done)[broken][0][0] == "bad"


def test_the_users_own_code_is_listed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure('[[hooks.PreToolUse]]\ncommand = "true"\n')
    own = place.settings.parent / "extensions" / "mine.py"
    theirs = place.workspace / ".polylect" / "extensions" / "theirs.py"
    named = tmp_path / "named.py"
    for path in (own, theirs, named):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("def extend(polylect): ...\n")
    found = findings(place.run("doctor", "--json", "--extension", str(named)))
    assert found["extension"] == [("ok", str(own)), ("ok", str(named))]
    assert found["hooks"] == [("ok", "PreToolUse: 1")]
    trusted = findings(place.run("doctor", "--json", "--trust-workspace"))
    assert ("ok", str(theirs)) in trusted["extension"]


def test_a_mistyped_word_is_answered_with_the_usage(tmp_path: Path) -> None:
    done = Place(tmp_path).run("doctor", "please")
    assert (done.code, done.out) == (2, b"")
    assert "usage" in done.errors
