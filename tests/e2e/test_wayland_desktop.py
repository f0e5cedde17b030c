"""Driven by today's Wayland Desktop: the flags that its launcher passes, and what its client expects to read."""

import sys
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place, message

SERVER = Path(__file__).parents[1] / "mcp_servers" / "plain.py"
LAUNCHER = (
    *("--assistant", "wayland-desktop", "--profile", "__wayland_desktop_session"),
    *("--runtime-engine-mode", "standard", "--runtime-workspace-kind", "project", "--no-tui"),
)
READS = """
[[reply]]
when.step = 1
say = [{ call = "Read", id = "c1", args = { file_path = "notes.txt" } }]

[[reply]]
text = "done"
"""


@pytest.fixture
def desktop(place: Place) -> Path:
    """The folder that Desktop names in $WAYLAND_HOME, with two connectors, one of them selected."""
    home = place.folder / "wayland"
    home.mkdir()
    server = f'command = "{sys.executable}"\nargs = ["{SERVER}", "Works"]\nallow_local = true\n'
    selection = '[profiles.__wayland_desktop_session]\nmcp_servers = ["sums", "gone"]\n'
    (home / "config.toml").write_text(
        f'[default]\nmodel = "theirs"\n[mcp.servers.sums]\n{server}[mcp.servers.other]\n{server}{selection}'
    )
    return home


def test_its_launcher_starts_the_engine_without_a_word_on_stderr(place: Place) -> None:
    engine = place.started(*LAUNCHER)
    assert engine.ready["session_persistence"] == "journaled_without_replay"
    assert "contract" not in engine.ready
    engine.close_input()
    assert (engine.wait(), engine.errors) == (0, "")


def test_the_connectors_of_its_profile_are_used(place: Place, desktop: Path) -> None:
    engine = place.started(*LAUNCHER, env={"WAYLAND_HOME": str(desktop)})
    assert engine.ready["capabilities"]["mcp"] is True
    [ready] = [frame for frame in engine.until("mcp_ready") if frame["type"] == "mcp_ready"]
    assert ready["name"] == "sums"
    engine.close_input()
    rest = [frame["name"] for frame in engine.rest() if frame["type"] in ("mcp_ready", "mcp_failed")]
    assert rest == []


def test_without_a_profile_all_connectors_are_used_and_a_broken_one_is_named(place: Place, desktop: Path) -> None:
    with open(desktop / "config.toml", "a") as file:
        file.write('[mcp.servers.broken]\ntransport = "pigeon"\n')
    engine = place.started("--assistant", "wayland-desktop", env={"WAYLAND_HOME": str(desktop)})
    names = {frame["name"] for _ in range(2) for frame in engine.until("mcp_ready") if frame["type"] == "mcp_ready"}
    assert names == {"sums", "other"}
    engine.close_input()
    engine.wait()
    assert "a connector of Wayland Desktop is left out: mcp.servers.broken" in engine.errors


def test_a_host_that_does_not_name_itself_gets_no_connectors(place: Place, desktop: Path) -> None:
    engine = place.started(env={"WAYLAND_HOME": str(desktop)})
    assert engine.ready["capabilities"]["mcp"] is False
    assert "session_persistence" not in engine.ready


def test_a_call_without_a_question_is_announced_with_its_arguments(place: Place) -> None:
    (place.workspace / "notes.txt").write_text("one\n")
    engine = place.started(*LAUNCHER, script=READS)
    engine.send(message("go"))
    frames = [frame for frame in engine.until("stream_end") if "call_id" in frame]
    assert [frame["type"] for frame in frames] == ["call_announced", "tool_running", "tool_result"]
    tool = frames[0]["tool"]
    assert (tool["name"], tool["category"], tool["args"]) == ("Read", "info", {"file_path": "notes.txt"})
    assert frames[0]["call_id"] == frames[1]["call_id"]


def test_other_hosts_do_not_get_announcements(place: Place) -> None:
    (place.workspace / "notes.txt").write_text("one\n")
    engine = place.started(script=READS)
    engine.send(message("go"))
    kinds = [frame["type"] for frame in engine.until("stream_end") if "call_id" in frame]
    assert kinds == ["tool_running", "tool_result"]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (
            {"type": "session_resync", "recovery_version": 1, "request_id": "r", "session_id": "s"},
            {"type": "session_recovery_unavailable", "reason": "snapshot_unavailable", "request_id": "r"},
        ),
        (
            {"type": "goal_advance", "goal_version": 1, "request_id": "r", "session_id": "s", "goal_id": "g"},
            {"type": "goal_control_refused", "reason": "journal_unavailable", "request_id": "r", "goal_id": "g"},
        ),
        (
            {"type": "get_runtime_diagnostics", "diagnostics_version": 1, "request_id": "r"},
            {"type": "runtime_diagnostics_unavailable", "reason": "unsupported_version", "supported_version": 1},
        ),
        (
            {"type": "grant_workspace_capability", "executable": "/bin/ls"},
            {"type": "workspace_grant_refused", "subject": "/bin/ls", "reason": "policy_refused"},
        ),
        (
            {"type": "grant_path", "grant_id": "g", "root": "/"},
            {"type": "workspace_grant_refused", "grant_id": "g", "reason": "launcher_opt_in_required"},
        ),
        (
            {"type": "continue_with_budget", "request_id": "r", "additional_tokens": 5},
            {"type": "budget_grant_result", "outcome": "refused", "refusal_reason": "host_not_authorized"},
        ),
    ],
)
def test_what_is_not_served_is_refused_in_form(place: Place, command: dict[str, Any], refusal: dict[str, Any]) -> None:
    engine = place.started()
    engine.send(command)
    frame = engine.frame()
    assert {key: frame.get(key) for key in refusal} == refusal


def test_grants_work_where_the_launcher_allows_them(place: Place) -> None:
    place.configure("[budget]\nmax_tokens_in = 100\n")
    engine = place.started("--allow-host-path-grants", "--allow-host-budget-grants")
    engine.send({"type": "continue_with_budget", "request_id": "r", "additional_tokens": 5})
    assert engine.frame()["outcome"] == "granted"
    engine.send({"type": "continue_with_budget", "request_id": "r", "additional_tokens": 2**64})
    assert engine.frame()["type"] == "error"


def test_force_ends_when_its_time_is_over(place: Place) -> None:
    engine = place.started("--dangerous", "--dangerous-ttl-secs", "0.2")
    assert engine.ready["capabilities"]["current_mode"] == "force"
    [changed] = [frame for frame in engine.until("config_changed") if frame["type"] == "config_changed"]
    assert changed["capabilities"]["current_mode"] == "default"


def test_the_key_can_be_in_a_file(place: Place) -> None:
    done = place.run("--json-stream", "--api-key-file", str(place.folder / "missing"), given="")
    assert (done.code, "--api-key-file" in done.errors) == (2, True)
