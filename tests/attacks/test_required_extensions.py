"""An extension that is named or required and does not load: no prompt runs without the guard it may be."""

import json
import signal
from pathlib import Path

import pytest

from engine_process import Place, eventually, message

TYPO = "def extend(polylect):\n    polylect.before_tol('Bash', lambda call: polylect.deny('no'))\n"
BROKEN = {
    "a typo in a hook": (TYPO, "there is no polylect.before_tol; did you mean before_tool?"),
    "a syntax error": ("def extend(:\n", "SyntaxError"),
    "no extend": ("x = 1\n", "it has no function extend(polylect)"),
    "an exception": ("def extend(polylect):\n    raise SystemExit(3)\n", "SystemExit: 3"),
}
GOOD = """
def extend(polylect):
    polylect.before_tool("", lambda call: polylect.deny("guarded"))
    polylect.notify("the guard is here")
"""
SCRIPT = """
[[reply]]
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "x" } }]

[[reply]]
text = "{calls}"
"""
WIRES = {
    "json-stream": (["--json-stream"], b""),
    "json-stream 0.1.0": (["--json-stream", "--protocol", "0.1.0"], b'"code":"config_error"'),
    "omp": (["--mode", "rpc"], b""),
    "run": (["run", "hi"], b""),
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def _file(place: Place, code: str) -> str:
    path = place.folder / "guard.py"
    path.write_text(code)
    return str(path)


def _requiring(place: Place, path: str) -> None:
    place.configure(f'[extensions.guard]\npath = "{path}"\nrequired = true\n')


@pytest.mark.parametrize("kind", BROKEN)
def test_a_named_extension_that_does_not_load_stops_the_start(place: Place, kind: str) -> None:
    code, why = BROKEN[kind]
    path = _file(place, code)
    prompt = json.dumps(message("write")).encode() + b"\n"
    words = [*place.script(SCRIPT), "--force", "--extension", path]
    ended = place.run("--json-stream", *words, given=prompt)
    assert (ended.code, ended.out) == (1, b"")
    assert ended.errors.splitlines()[-1].startswith(f"polylect: the extension {path} cannot be loaded: ")
    assert why in ended.errors
    assert not (place.workspace / "made.txt").exists()
    assert list(place.sessions.glob("*/log.jsonl")) == []


@pytest.mark.parametrize("wire", WIRES)
def test_so_does_one_that_the_settings_require_on_every_wire(place: Place, wire: str) -> None:
    _requiring(place, _file(place, TYPO))
    words, frame = WIRES[wire]
    ended = place.run(*words, *(["--provider", "scripted"] if wire == "run" else []))
    assert ended.code in (1, 78)
    assert "did you mean before_tool?" in ended.errors
    assert frame in ended.out
    assert bool(ended.out) == bool(frame)


def test_on_claudes_wire_it_is_a_result_that_is_an_error(place: Place) -> None:
    _requiring(place, _file(place, TYPO))
    ended = place.run("-p", "hi", "--output-format", "json")
    assert ended.code == 1
    assert json.loads(ended.out)["is_error"] is True


def test_one_that_is_required_and_not_there_stops_it_too(place: Place) -> None:
    place.configure("[extensions.guard]\nrequired = true\n")
    ended = place.run("--json-stream")
    assert (ended.code, ended.out) == (1, b"")
    assert "the extension guard is required, and there is no file" in ended.errors


def test_others_are_reported_and_left_out(place: Place) -> None:
    folder = place.settings.parent / "extensions"
    folder.mkdir(parents=True)
    (folder / "other.py").write_text(TYPO)
    with place:
        engine = place.started(script='[[reply]]\ntext = "hello"\n')
        assert "did you mean before_tool?" in engine.until("info")[-1]["message"]


def test_ready_comes_first_and_the_guard_is_on(place: Place) -> None:
    _requiring(place, _file(place, GOOD))
    with place:
        engine = place.started("--force", script=SCRIPT)
        engine.send(message("write"))
        assert "guarded" in str(engine.until("stream_end"))
    assert not (place.workspace / "made.txt").exists()


def test_a_signal_while_it_loads_ends_the_engine(place: Place) -> None:
    begun = place.folder / "begun"
    path = _file(
        place, f"import time\ndef extend(polylect):\n    open({str(begun)!r}, 'w').close()\n    time.sleep(9)\n"
    )
    with place:
        engine = place.start("--extension", path)
        eventually(begun.exists)
        engine.signal(signal.SIGTERM)
        assert engine.wait() == 128 + signal.SIGTERM


def test_a_project_cannot_name_one(place: Place) -> None:
    own = place.workspace / ".polylect"
    own.mkdir()
    ran = place.folder / "ran"
    path = _file(place, f"open({str(ran)!r}, 'w').close()\ndef extend(polylect): pass\n")
    (own / "config.toml").write_text(f'[extensions.theirs]\npath = "{path}"\nrequired = true\n')
    ended = place.run("--json-stream", "--provider", "scripted")
    assert ended.code == 0
    assert "ignored" in ended.errors
    assert not ran.exists()
