"""`polylect doctor` tells what is configured, found and missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine_process import Outcome, Place
from machine import PATIENCE
from polylect import __version__


def findings(done: Outcome) -> dict[str, list[tuple[str, str]]]:
    actual: dict[str, list[tuple[str, str]]] = {}
    for row in json.loads(done.out):
        actual.setdefault(row["subject"], []).append((row["state"], row["detail"]))
    return actual


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
    actual = findings(place.run("doctor", "--json"))
    assert ("ok", str(place.settings)) in actual["settings"]
    assert any("model=mine" in detail for _, detail in actual["settings"])
    assert str(place.sessions) in actual["sessions"][0][1]
    assert actual["shell"][0][0] == "ok"
    assert actual["anthropic"][0][0] == "note"


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


def test_a_sandbox_mode_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure('[sandbox]\nmode = "of"')
    actual = findings(place.run("doctor", "--json"))
    assert actual["sandbox"] == [("bad", "[sandbox] mode = 'of': choose one of auto, bwrap, landlock, off")]


def test_the_users_own_code_is_listed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure('[[hooks.PreToolUse]]\ncommand = "true"\n')
    own = place.settings.parent / "extensions" / "mine.py"
    theirs = place.workspace / ".polylect" / "extensions" / "theirs.py"
    named = tmp_path / "named.py"
    for path in (own, theirs, named):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("def extend(polylect): ...\n")
    actual = findings(place.run("doctor", "--json", "--extension", str(named)))
    assert actual["extension"] == [("ok", str(own)), ("ok", str(named))]
    assert actual["hooks"] == [("ok", "PreToolUse: 1")]
    trusted = findings(place.run("doctor", "--json", "--trust-workspace"))
    assert ("ok", str(theirs)) in trusted["extension"]


def test_a_mistyped_word_is_answered_with_the_usage(tmp_path: Path) -> None:
    done = Place(tmp_path).run("doctor", "please")
    assert (done.code, done.out) == (2, b"")
    assert "usage" in done.errors


PLAIN = Path(__file__).parents[2] / "mcp_servers" / "plain.py"
SERVERS = f"""
[mcp]
wait = 20
[mcp.servers.good]
command = '{sys.executable}'
args = ['{PLAIN}', 'Works']
[mcp.servers.dies]
command = '{sys.executable}'
args = ['{PLAIN}', 'Dies']
[mcp.servers.gone]
command = "no-such-program"
[mcp.servers.off]
command = "no-such-program"
disabled = true
[mcp.servers.a__b]
command = "no-such-program"
"""


def test_every_configured_server_is_tried(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure(SERVERS)
    done = place.run("doctor", "--json", "--provider", "scripted")
    assert findings(done)["mcp"] == [
        ("ok", "good: 1 tool, 20 tokens (stdio)"),
        ("bad", "dies: the server ended the connection (its last words on stderr: KeyError: 'no database')"),
        (
            "bad",
            "gone: There is no program 'no-such-program' on this machine. One in the workspace counts only if its "
            "absolute path is named.",
        ),
        ("note", "off: disabled in the settings"),
        (
            "bad",
            "a__b: the name 'a__b' has two underscores in a row, which separate server and tool: rename the server",
        ),
    ]
    assert findings(done)["start"][0][0] == "ok"
    assert done.code == 1
    assert list(place.sessions.iterdir()) == []


def test_doctor_says_of_a_start_what_a_start_does(tmp_path: Path) -> None:
    """As root, any folder that has permission bits can be written; the first one here cannot be made by anybody."""
    place = Place(tmp_path)
    cases = [{"POLYLECT_HOME": "/proc/self/sessions"}, {"POLYLECT_HOME": str(tmp_path / "home")}]
    for env, no_room in zip(cases, (False, True), strict=True):
        engine = started(place, env, "--json-stream", no_room=no_room)
        assert (engine.returncode, engine.stdout) == (1, b"")
        doctor = started(place, env, "doctor", "--json", no_room=no_room)
        actual = findings(Outcome(doctor.returncode, doctor.stdout, ""))
        assert [actual["start"][0][0], actual["sessions"][0][0]] == ["bad", "bad"]
        assert doctor.returncode == 1


NO_ROOM = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
os.execv(sys.argv[1], sys.argv[1:])
"""


def started(place: Place, env: dict[str, str], *words: str, no_room: bool) -> subprocess.CompletedProcess[bytes]:
    """With `no_room` no file can be written to, as on a full disk."""
    argv = [sys.executable, "-m", "polylect", *words, "--provider", "scripted"]
    if no_room:
        argv = [sys.executable, "-c", NO_ROOM, *argv]
    return subprocess.run(
        argv,
        cwd=place.workspace,
        env={**place.env, **env},
        input=b"",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def test_an_extension_that_does_not_load_is_not_listed_as_fine(tmp_path: Path) -> None:
    place = Place(tmp_path)
    named = tmp_path / "broken.py"
    named.write_text("def extend(polylect):\n    raise ValueError('out of order')\n")
    actual = findings(place.run("doctor", "--json", "--provider", "scripted", "--extension", str(named)))
    assert [actual["start"][0][0], actual["extension"][0][0]] == ["bad", "bad"]
    assert "out of order" in actual["extension"][0][1]
    own = place.settings.parent / "extensions" / "mine.py"
    own.parent.mkdir(parents=True)
    own.write_text(named.read_text())
    actual = findings(place.run("doctor", "--json", "--provider", "scripted"))
    assert (actual["start"][0][0], actual["extension"]) == ("ok", [("bad", f"{own}: ValueError: out of order")])


def test_an_extension_that_was_not_tried_is_not_listed_as_fine(tmp_path: Path) -> None:
    place = Place(tmp_path)
    flags = []
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("def extend(polylect):\n    raise ValueError('out of order')\n")
        flags += ["--extension", str(tmp_path / name)]
    actual = findings(place.run("doctor", "--json", "--provider", "scripted", *flags))
    assert "ok" not in [state for state, _ in actual["extension"]]
