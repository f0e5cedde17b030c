"""The settings files of claude: what is taken of the user's, and of a project that is trusted or not."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from polylect.app.startup import config
from polylect.app.startup.args import UsageError
from polylect.dialects.claude import start

RULES = {"allow": ["Bash(npm run:*)"], "deny": ["Read(.env)"], "ask": ["WebFetch"], "defaultMode": "acceptEdits"}
HOOKS = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check"}]}]}
VARIABLES = {"MAX_THINKING_TOKENS": "0", "A_TOKEN": "x", "STAGE": "test"}
SETTINGS = {"permissions": RULES, "hooks": HOOKS, "model": "opus", "env": VARIABLES}
SERVERS = {"mcpServers": {"docs": {"command": "serve", "args": ["${DOCS:-all}"]}}}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def write(folder: Path, value: object, name: str = ".claude/settings.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def options(place: Place, *words: str, **env: str) -> dict[str, Any]:
    return start.options(["-p", "x", "--workspace", str(place.workspace), *words], "claude", {**place.env, **env})


def test_the_users_own_file_counts(place: Place) -> None:
    write(place.folder, {**SETTINGS, "theme": "dark"})
    values = options(place)
    assert (values["allow"], values["deny"], values["ask"]) == (["Bash(npm run:*)"], ["Read(.env)"], ["WebFetch"])
    assert values["hooks"] == {"PreToolUse": [{"matcher": "Bash", "command": "check"}]}
    assert values["defaults"] == {"approval_mode": "acceptEdits"}
    assert values["usual_model"].startswith("claude-opus")
    assert (values["thinking"], values["environment"]) == ("disabled", VARIABLES)
    assert values["sandbox_env"] == ["STAGE"], "what looks like a secret is not for commands"
    (note,) = values["notes"]
    assert note.endswith("settings.json: not in force here: theme")


def test_a_variable_says_where_the_users_file_is(place: Place) -> None:
    write(place.folder, {"permissions": {"deny": ["Write"]}}, "elsewhere/settings.json")
    assert options(place, CLAUDE_CONFIG_DIR=str(place.folder / "elsewhere"))["deny"] == ["Write"]
    assert "deny" not in options(place)


def test_a_project_that_is_not_trusted_can_only_narrow(place: Place) -> None:
    path = write(place.workspace, SETTINGS)
    write(place.workspace, {"permissions": {"deny": ["Write"]}}, ".claude/settings.local.json")
    servers = write(place.workspace, SERVERS, ".mcp.json")
    values, usual = options(place), options(place, "--setting-sources=")
    assert {name: value for name, value in values.items() if usual.get(name) != value} == {
        "deny": ["Write", "Read(.env)"],
        "ask": ["WebFetch"],
        "notes": [
            f"{path}: ignored in a project's file: hooks, model, env, permissions.allow, permissions.defaultMode;"
            " start with --trust-workspace",
            f"{servers}: servers of a project are ignored; start with --trust-workspace",
        ],
    }


def test_a_trusted_project_counts_in_full_and_its_local_file_before_it(place: Place) -> None:
    write(place.workspace, SETTINGS)
    write(place.workspace, {"permissions": {"defaultMode": "plan"}}, ".claude/settings.local.json")
    write(place.workspace, SERVERS, ".mcp.json")
    write(place.folder, {"permissions": {"deny": ["Write"]}})
    values = options(place, "--trust-workspace")
    server = {"command": "serve", "args": ["${DOCS:-all}"], "transport": "stdio"}
    assert values["defaults"] == {"approval_mode": "plan", "mcp_servers": {"docs": server}}
    assert (values["allow"], values["deny"]) == (["Bash(npm run:*)"], ["Read(.env)", "Write"])
    assert "mcp_servers" not in options(place, "--trust-workspace", "--strict-mcp-config")["defaults"]
    flag = json.dumps({"mcpServers": {"own": {"command": "own"}}})
    assert list(options(place, "--trust-workspace", "--mcp-config", flag)["mcp_servers"]) == ["docs", "own"]


def test_a_folder_that_is_gone_is_reported_by_the_start_itself(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.workspace)
    place.workspace.rmdir()
    assert start.options(["-p", "x"], "claude", place.env)["prompt"] == "x"


def test_sources_say_which_files_count(place: Place) -> None:
    write(place.folder, {"permissions": {"deny": ["Write"]}})
    write(place.workspace, {"permissions": {"deny": ["Edit"]}})
    write(place.workspace, {"permissions": {"deny": ["Bash"]}}, ".claude/settings.local.json")
    chosen = {text: options(place, f"--setting-sources={text}").get("deny") for text in ("", "user", "project,local")}
    assert chosen == {"": None, "user": ["Write"], "project,local": ["Bash", "Edit"]}
    with pytest.raises(UsageError, match="choose of user, project, local"):
        options(place, "--setting-sources", "mine")


def test_the_home_as_the_workspace_is_not_a_strangers(place: Place) -> None:
    write(place.workspace, SETTINGS)
    assert options(place, HOME=str(place.workspace))["allow"] == ["Bash(npm run:*)"]


def test_our_own_settings_are_stronger_and_those_of_our_project_narrow(place: Place) -> None:
    write(place.folder, {"permissions": {"defaultMode": "acceptEdits", "allow": ["Read"]}})
    write(place.workspace, '[default]\napproval_mode = "plan"\n', ".polylect/config.toml")
    place.configure('[tools]\nallow = ["Grep"]\n')
    values = config.gather(options(place), place.env, str(place.workspace), [])
    assert (values["approval_mode"], values["allow"]) == ("plan", ["Grep", "Read"])


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "{", "[" * 100_000, '{"permissions": {"deny": "Write"}}', '{"permissions": {"deny": ["Bash(a * b)"]}}'),
        json.dumps({"permissions": {"deny": ["Read"] * 101}}),
        json.dumps({"permissions": {"ask": ["R" * 201]}}),
        json.dumps({"x": "y" * 70_000}),
    ],
)
def test_a_project_whose_rules_cannot_be_read_stops_the_start(place: Place, text: str) -> None:
    path = write(place.workspace, text)
    with pytest.raises(UsageError) as error:
        options(place)
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value)) < 600


def test_an_allow_rule_that_means_nothing_here_is_named(place: Place) -> None:
    write(place.folder, {"permissions": {"allow": ["Bash(git * main)", "Read"]}})
    values = options(place)
    assert values["allow"] == ["Read"]
    assert values["notes"][0].endswith("not in force here: the rule Bash(git * main)")


SCRIPT = """
[[reply]]
when = { step = 1 }
say = [{ call = "Bash", args = { command = "printenv GREETING" } }]
[[reply]]
text = "done"
"""


def test_a_whole_engine_obeys_the_users_file_and_not_a_strangers(place: Place) -> None:
    hook = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch hook-ran"}]}]}}
    write(place.folder, {"permissions": {"allow": ["Bash(printenv:*)"]}, "env": {"GREETING": "hello from settings"}})
    write(place.workspace, hook)
    flags = ["--output-format", "stream-json", "--verbose", "-p", "go", *place.script(SCRIPT)]
    out = place.run(*flags)
    assert b"hello from settings" in out.out
    assert "ignored in a project's file: hooks" in out.errors
    assert not (place.workspace / "hook-ran").exists()
    place.run(*flags, "--trust-workspace")
    assert (place.workspace / "hook-ran").exists()


def test_variables_limit_commands(place: Place) -> None:
    script = """
    [[reply]]
    when = { step = 1 }
    say = [{ call = "Bash", args = { command = "seq 1 2000; sleep 60" } }]
    [[reply]]
    text = "done"
    """
    flags = ["--output-format", "stream-json", "--verbose", "-p", "go", "--allowedTools", "Bash", *place.script(script)]
    out = place.run(*flags, env={"BASH_DEFAULT_TIMEOUT_MS": "1500", "BASH_MAX_OUTPUT_LENGTH": "1000"})
    assert b"Command timed out after 1500ms" in out.out
    (result,) = [block for frame in out.frames if frame["type"] == "user" for block in frame["message"]["content"]]
    assert len(result["content"]) < 2000
