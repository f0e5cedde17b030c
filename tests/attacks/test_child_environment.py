"""No key of the user's reaches a program that we start by its environment, and what builds need still does."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from engine_process import Place, approve, message
from polylect.system.child_environment import command_environment, server_environment

KEYS = [
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "NPM_TOKEN",
    "HF_TOKEN",
    "PGPASSWORD",
    "DB_PASSWORD",
    "AZURE_CLIENT_SECRET",
    "DJANGO_SECRET_KEY",
    "STRIPE_KEY",
    "SENTRY_DSN",
    "SLACK_WEBHOOK",
    "DATABASE_URL",
    "AWS_SECRET_ACCESS_KEY",
    "ANTHROPIC_API_KEY",
    "LC_TOKEN",
    "XDG_SESSION_COOKIE",
    "HOMEBREW_GITHUB_API_TOKEN",
    "CARGO_REGISTRY_TOKEN",
    "TWINE_PASSWORD",
    "GIT_CONFIG_VALUE_0",
    "DIRENV_DIFF",
    "NIX_CONFIG",
    "SSH_AUTH_SOCK",
    "DOCKER_HOST",
    "BASH_ENV",
    "ENV",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "RUBYOPT",
]
HARMLESS = {
    "LC_TIME": "C",
    "XDG_DATA_HOME": "/data",
    "VIRTUAL_ENV": "/venv",
    "JAVA_HOME": "/java",
    "CARGO_HOME": "/cargo",
    "GIT_AUTHOR_NAME": "Ada",
    "HTTPS_PROXY": "http://proxy:3128",
    "CI": "1",
}

BASH = """
[[reply]]
when.step = 1
say = [{ call = "Bash", id = "first", args = { command = "env -0 > seen" } }]

[[reply]]
when.step = 2
say = [{ call = "Bash", id = "second", args = { command = "true" } }]

[[reply]]
text = "done"
"""


def seen(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().split("\0") if line)


def run_commands(place: Place, env: dict[str, str]) -> list[str]:
    """What the host is informed of while the engine runs two commands."""
    engine = place.started("--auto-approve", script=BASH, env=env)
    engine.send(message("go"))
    return [frame["message"] for frame in engine.until("stream_end") if frame["type"] == "info"]


def test_commands_get_no_key_and_the_names_that_they_miss_are_said_once(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        said = run_commands(place, {**HARMLESS, **{name: f"value-of-{name}" for name in KEYS}})
    inside = seen(place.workspace / "seen")
    assert not set(KEYS) & set(inside)
    assert HARMLESS.items() <= inside.items()
    (notice,) = said
    assert "AZURE_CLIENT_SECRET, BASH_ENV" in notice
    assert "[sandbox] env" in notice
    assert "ANTHROPIC_API_KEY" not in notice  # the engine's own key: nobody expects it there
    assert "value-of" not in notice


def test_where_nothing_is_missed_nothing_is_said(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        assert run_commands(place, {**HARMLESS, "SSH_AUTH_SOCK": "/nowhere", "DISPLAY": ":0"}) == []


def test_the_users_settings_add_names_and_prefixes_and_a_projects_cannot(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        place.configure('[sandbox]\nenv = ["GITHUB_TOKEN", "MY_*"]\n')
        (place.workspace / ".polylect").mkdir()
        (place.workspace / ".polylect" / "config.toml").write_text('[sandbox]\nenv = ["NPM_TOKEN"]\n')
        run_commands(place, dict.fromkeys(("GITHUB_TOKEN", "MY_SWITCH", "MY_PASSWORD", "NPM_TOKEN"), "x"))
    assert {"GITHUB_TOKEN", "MY_SWITCH"} <= seen(place.workspace / "seen").keys()
    assert not {"MY_PASSWORD", "NPM_TOKEN"} & seen(place.workspace / "seen").keys()


def test_hooks_get_no_key(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        place.configure('[[hooks.UserPromptSubmit]]\ncommand = "env -0 > hook"\n')
        run_commands(place, dict.fromkeys(KEYS, "x"))
    assert not set(KEYS) & seen(place.workspace / "hook").keys()


def test_servers_get_less_than_commands_and_what_their_configuration_gives_them() -> None:
    ours = {**HARMLESS, **dict.fromkeys(KEYS, "x"), "PYTHONPATH": "src", "NODE_OPTIONS": "--require=./evil.js"}
    actual = server_environment(command_environment(ours, ["GITHUB_TOKEN"]), {"TOKEN": "t"})
    assert actual == {
        **{name: HARMLESS[name] for name in ("LC_TIME", "XDG_DATA_HOME", "HTTPS_PROXY", "CI")},
        "TOKEN": "t",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "http://ada:secret@proxy"),
        ("PIP_INDEX_URL", "https://ada:secret@pypi.example"),
        ("OTHER", "key"),
    ],
)
def test_a_value_that_holds_a_password_or_a_key_is_withheld(name: str, value: str) -> None:
    assert command_environment({name: value, "TERM": "key"}, ["OT*"], keys=["key"]) == {}
    assert command_environment({name: value}, [name], keys=["key"]) == {name: value}


def test_doctor_lists_the_names_and_no_value(tmp_path: Path) -> None:
    place = Place(tmp_path)
    done = place.run("doctor", "--json", env={"GITHUB_TOKEN": "secret-value", "DISPLAY": ":0"})
    details = [row["detail"] for row in json.loads(done.out) if row["subject"] == "environment"]
    assert details[0].startswith("commands get ")
    assert "withheld from commands: DISPLAY, GITHUB_TOKEN, POLYLECT_HOME" in details[1]
    assert b"secret-value" not in done.out


def test_libraries_are_looked_for_only_inside_the_sandbox(tmp_path: Path) -> None:
    """bwrap is a dynamic program: with LD_LIBRARY_PATH it would load the workspace's libcap outside of the sandbox."""
    with Place(tmp_path) as place:
        run_commands(place, {"LD_LIBRARY_PATH": str(place.workspace)})
    assert seen(place.workspace / "seen")["LD_LIBRARY_PATH"] == str(place.workspace)
    assert "LD_LIBRARY_PATH" not in command_environment({"LD_LIBRARY_PATH": "lib"}, ["LD_LIBRARY_PATH"])


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("make", "printf 'all:\\n\\t@echo built\\n' > Makefile && make"),
        ("git", "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && echo built"),
        ("npm", "npm --version >/dev/null && node -e 'console.log(\"built\")'"),
        ("", f"{shlex.quote(sys.executable)} -m pytest --version >/dev/null 2>&1 && echo built"),
    ],
)
def test_the_usual_programs_work(tmp_path: Path, program: str, command: str) -> None:
    if program and not shutil.which(program):
        pytest.skip(f"there is no {program} here")
    script = f"""
[[reply]]
when.step = 1
say = [{{ call = "Bash", id = "c", args = {{ command = {json.dumps(command)} }} }}]

[[reply]]
text = "done"
"""
    with Place(tmp_path) as place:
        engine = place.started(script=script, env={**os.environ, **place.env})
        engine.send(message("go"))
        engine.until("tool_request")
        engine.send(approve("c"))
        results = [frame for frame in engine.until("stream_end") if frame["type"] == "tool_result"]
    assert "built" in results[0]["output"]
