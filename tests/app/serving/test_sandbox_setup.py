"""What `doctor` says of the sandbox and the instructions, and what settings do to rights."""

import json
import os
import re
from pathlib import Path

import pytest

from engine_process import Outcome, Place, message
from polylect.app.startup import config


def findings(done: Outcome) -> dict[str, list[tuple[str, str]]]:
    actual: dict[str, list[tuple[str, str]]] = {}
    for row in json.loads(done.out):
        actual.setdefault(row["subject"], []).append((row["state"], row["detail"]))
    return actual


def sandbox_of(place: Place, toml: str = "") -> list[tuple[str, str]]:
    place.configure(toml)
    return findings(place.run("doctor", "--json"))["sandbox"]


def test_P4_doctor_tries_the_sandbox_and_says_what_held(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").write_text("key")
    state, detail = sandbox_of(place)[0]
    if state == "note":
        assert "none, commands run with your rights" in detail  # and why
    else:
        assert state == "ok"
        assert "is read-only" in detail
        assert not [name for name in os.listdir("/usr/local") if "polylect-probe" in name]
    assert list(place.workspace.iterdir()) == []


def test_P4_doctor_says_when_there_is_none(tmp_path: Path) -> None:
    assert sandbox_of(Place(tmp_path), '[sandbox]\nmode = "off"') == [
        ("note", "none, commands run with your rights: it is switched off by [sandbox] mode")
    ]


def test_doctor_shows_which_instructions_the_model_is_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.workspace / "AGENTS.md").write_text("use tabs")
    (place.workspace / "CLAUDE.md").symlink_to("/etc/hostname")
    assert findings(place.run("doctor", "--json"))["instructions"] == [
        ("ok", f"{place.workspace}/AGENTS.md, 8 characters"),
        (
            "note",
            f"{place.workspace}/CLAUDE.md is not told to the model: it leads out of the project, to /etc/hostname",
        ),
    ]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ('[tools]\nallow = ["Bash(git*)"]', "a rule in [tools]: 'Bash(git*)'"),
        ('[tools]\ndeny = ["Bash(rm:*)", "what?"]', "'what?' is not a rule"),
        ('[sandbox]\nmode = "wild"', "choose one of auto, bwrap, landlock, off"),
        ('[sandbox]\nwritable = "all"', "takes a list"),
        ('[default]\napproval_mode = "wild"', "modes are default, auto_edit, force, plan, dont_ask"),
    ],
)
def test_rights_that_make_no_sense_keep_the_engine_from_starting(tmp_path: Path, toml: str, words: str) -> None:
    place = Place(tmp_path)
    place.configure(toml)
    done = place.run("--json-stream", "--provider", "scripted")
    assert (done.code, done.out) == (1, b"")
    assert words in done.errors


def test_a_project_can_forbid_but_not_allow(tmp_path: Path) -> None:
    workspace, settings = tmp_path / "workspace", tmp_path / "config" / "polylect"
    (workspace / ".polylect").mkdir(parents=True)
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text('[tools]\nallow = ["Bash(ls)"]\ndeny = ["Bash(rm:*)"]\nask = ["Edit"]\n')
    (workspace / ".polylect" / "config.toml").write_text(
        '[tools]\nallow = ["Bash"]\ndeny = ["Bash(git push:*)"]\nask = []\n'
        '[sandbox]\nmode = "off"\nnetwork = true\nwritable = ["/"]\nhidden = ["!~/.ssh"]\n'
    )
    notes: list[str] = []
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}
    actual = config.gather({}, env, str(workspace), notes)
    assert actual["allow"] == ["Bash(ls)"]
    assert actual["deny"] == ["Bash(rm:*)", "Bash(git push:*)"]
    assert actual["ask"] == ["Edit"]
    assert not [name for name in actual if name.startswith("sandbox")]
    ignored = "tools.allow, sandbox.mode, sandbox.network, sandbox.writable, sandbox.hidden"
    assert f"ignored in a project's file: {ignored};" in notes[0]
    assert len(notes) == 1
    trusted = config.gather({"trust_workspace": True}, env, str(workspace), [])
    assert (trusted["allow"], trusted["sandbox"]) == (["Bash"], "off")


def test_the_examples_of_the_guide_are_read(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "safety.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    assert len(examples) == 2
    place = Place(tmp_path)
    place.configure("".join(examples))
    done = place.run("--json-stream", "--provider", "scripted")
    assert (done.code, done.errors) == (0, "")


COMMANDS = """
[[reply]]
when.step = 1
say = [
    { call = "Bash", id = "allowed", args = { command = "echo allowed; cat ~/.ssh/id" } },
    { call = "Bash", id = "denied", args = { command = "sudo git push" } },
]

[[reply]]
text = "done"
"""


def test_A4_P4_rules_and_sandbox_of_the_settings_hold_in_a_real_engine(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").write_text("secret")
    with Place(tmp_path) as place:
        place.configure('[tools]\nallow = ["Bash(echo:*)", "Bash(cat:*)"]\ndeny = ["Bash(git push:*)"]')
        engine = place.started(script=COMMANDS)
        engine.send(message("go"))
        frames = engine.until("stream_end")
    results = {frame["call_id"]: frame for frame in frames if frame["type"] == "tool_result"}
    assert "allowed" in results["allowed"]["output"]
    assert not [frame for frame in frames if frame["type"] == "tool_request"]
    assert "the rule Bash(git push:*) denies it" in str([frame for frame in frames if frame.get("call_id") == "denied"])
    if sandbox_of(place)[0][0] == "ok":
        assert "secret" not in results["allowed"]["output"]
