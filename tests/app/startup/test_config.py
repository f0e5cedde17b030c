"""Settings: where they come from, which is stronger, and what a project's file may not say."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from polylect.app.startup import config
from polylect.app.startup.config import ConfigError, Values, choose, files, gather


class Files:
    """The two files, in a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.workspace = str(folder / "workspace")
        config = str(folder / "config")
        self.env = {"HOME": str(folder), "XDG_CONFIG_HOME": config, "POLYLECT_PROVIDER": "scripted"}
        self.own = folder / "config" / "polylect" / "config.toml"
        self.projects = folder / "workspace" / ".polylect" / "config.toml"
        self.notes: list[str] = []
        for path in (self.own, self.projects):
            path.parent.mkdir(parents=True)

    def load(self, **flags: object) -> Values:
        settings = gather(dict(flags), self.env, self.workspace, self.notes)
        return choose(settings, str(settings["provider"]))


@pytest.fixture
def place(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_with_nothing_set_nobody_answers_and_a_script_stands_for_its_provider(place: Files) -> None:
    del place.env["POLYLECT_PROVIDER"]
    assert place.load() == {"provider": ""}
    assert place.load(script="x.toml")["provider"] == "scripted"


def test_without_a_name_the_provider_is_whose_key_is_set_in_the_environment_or_in_a_file(place: Files) -> None:
    del place.env["POLYLECT_PROVIDER"]
    place.own.write_text('[providers.openai]\napi_key = "k"\n')
    assert place.load()["provider"] == "openai"
    place.env["ANTHROPIC_API_KEY"] = "k"
    assert place.load()["provider"] == "anthropic"
    assert place.load(model="gpt-5")["provider"] == "openai"
    place.own.write_text('[default]\nprovider = "vertex"\n')
    assert place.load()["provider"] == "vertex"


def test_flag_beats_environment_beats_project_beats_user(place: Files) -> None:
    place.own.write_text('[default]\nmodel = "user"')
    assert place.load()["model"] == "user"
    place.projects.write_text('[default]\nmodel = "project"')
    assert place.load(trust_workspace=True)["model"] == "project"
    place.env["POLYLECT_MODEL"] = "environment"
    assert place.load(trust_workspace=True)["model"] == "environment"
    assert place.load(trust_workspace=True, model="flag")["model"] == "flag"


def test_an_empty_variable_says_nothing(place: Files) -> None:
    place.own.write_text('[default]\nmodel = "user"')
    place.env["POLYLECT_MODEL"] = ""
    assert place.load()["model"] == "user"


def test_a_named_file_beats_both_and_has_to_exist(place: Files, tmp_path: Path) -> None:
    named = tmp_path / "named.toml"
    named.write_text('[default]\nmodel = "named"\napproval_mode = "force"')
    place.projects.write_text('[default]\nmodel = "project"')
    actual = place.load(config=str(named))
    assert (actual["model"], actual["approval_mode"]) == ("named", "force")
    with pytest.raises(ConfigError, match="no such file"):
        place.load(config=str(tmp_path / "missing.toml"))


def test_without_xdg_the_users_file_is_below_home(place: Files, tmp_path: Path) -> None:
    del place.env["XDG_CONFIG_HOME"]
    path = tmp_path / ".config" / "polylect" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[default]\nmodel = "home"')
    assert files(place.env, place.workspace) == [str(path)]
    assert place.load()["model"] == "home"


@pytest.mark.parametrize(
    "toml",
    [
        '[default]\napproval_mode = "force"',
        "[tools]\nauto_approve = true",
        '[tools]\nallow_list = ["Bash"]',
        '[session]\ndirectory = "/tmp"',
        '[providers.scripted]\nbase_url = "http://evil"',
        '[providers.scripted]\napi_key = "k"',
    ],
)
def test_a_project_cannot_widen_its_rights_or_send_keys_elsewhere(place: Files, toml: str) -> None:
    place.projects.write_text(toml)
    assert place.load() == {"provider": "scripted"}
    assert len(place.notes) == 1
    assert "--trust-workspace" in place.notes[0]
    assert len(place.load(trust_workspace=True)) == 3
    place.projects.unlink()
    place.own.write_text(toml)
    assert len(place.load()) == 2


def test_a_provider_has_settings_of_its_own(place: Files) -> None:
    del place.env["POLYLECT_PROVIDER"]
    place.own.write_text(
        '[default]\nprovider = "openai"\n'
        '[providers.openai]\nmodel = "gpt"\nbase_url = "http://localhost"\n'
        '[providers.anthropic]\nmodel = "claude"\n'
    )
    assert place.load() == {"provider": "openai", "model": "gpt", "base_url": "http://localhost"}
    assert place.load(provider="anthropic")["model"] == "claude"
    assert place.load(model="mine")["model"] == "mine"


def test_both_files_may_speak_of_providers(place: Files) -> None:
    place.own.write_text('[providers.scripted]\nbase_url = "http://mine"')
    place.projects.write_text('[providers.scripted]\nmodel = "theirs"')
    trusting = place.load(trust_workspace=True)
    assert (trusting["base_url"], trusting["model"]) == ("http://mine", "theirs")
    assert place.load() == {"provider": "scripted", "base_url": "http://mine"}


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ('[default]\nmodle = "x"', "there is no setting default.modle; did you mean default.model?"),
        ("[nonsense]\nx = 1", "there is no setting nonsense.x"),
        ("[extensions.x]\nnosuch = 1", "there is no setting extensions.x.nosuch"),
        ("[extensions.x]\nrequird = true", "did you mean extensions.x.required?"),
        ('[providers.openai]\napi_kee = "x"', "api_key?"),
        ("[default]\nmodel = 1", "default.model takes a text, not 1"),
        ("[default]\nmax_turns = true", "default.max_turns takes a whole number, not True"),
        ("[tools]\nauto_approve = 1", "tools.auto_approve takes true or false, not 1"),
        ("[tools]\nallow_list = [1]", "tools.allow_list takes a list of texts, not [1]"),
        ("max_line = -5", "max_line cannot be below zero"),
        (
            "[budget]\nmax_cost_usd = nan",
            "budget.max_cost_usd takes a finite number, not nan",
        ),
        ("stream_timeout = inf", "stream_timeout takes a finite number, not inf"),
        ("stream_timeout = -0.5", "stream_timeout cannot be below zero"),
        ('[hooks]\nx = "x"', "there is no [[hooks.x]]; moments are PreToolUse"),
        ('[hooks.Stop]\ncommand = "x"', "hooks are written as [[hooks.Stop]]"),
        ("[[hooks.Stop]]\ntimeout = 3", "hooks.Stop needs a command"),
        ('[[hooks.Stop]]\ncomand = "x"', "did you mean hooks.Stop.command?"),
        ('[[hooks.PreToolUse]]\ncommand = "x"\nmatcher = "("', "is not a pattern"),
        ('[default]\nmodel = "x', "config.toml"),
        ("\xff", "config.toml"),
    ],
)
def test_mistakes_name_the_file_and_what_would_be_right(place: Files, toml: str, told: str) -> None:
    place.own.write_bytes(toml.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert told in str(caught.value)
    assert str(place.own) in str(caught.value)
    assert "\n" not in str(caught.value)


HOOK = '[[hooks.PreToolUse]]\nmatcher = "Bash|Edit"\ncommand = "check"\ntimeout = 5\n'


def test_hooks_of_all_trusted_files_are_run(place: Files) -> None:
    place.own.write_text(HOOK)
    place.projects.write_text('[[hooks.PreToolUse]]\ncommand = "also"\n[[hooks.Stop]]\ncommand = "end"')
    row = {"matcher": "Bash|Edit", "command": "check", "timeout": 5}
    assert place.load()["hooks"] == {"PreToolUse": [row]}
    assert len(place.notes) == 1
    assert "ignored in a project's file: hooks.PreToolUse, hooks.Stop;" in place.notes[0]
    assert place.load(trust_workspace=True)["hooks"] == {
        "PreToolUse": [row, {"command": "also"}],
        "Stop": [{"command": "end"}],
    }


def test_what_a_file_forbids_and_runs_holds_whatever_the_flags_add(place: Files) -> None:
    place.own.write_text('[tools]\ndeny = ["Write"]\nallow = ["Read"]\n[[hooks.PreToolUse]]\ncommand = "one"\n')
    two = {"PreToolUse": [{"command": "two"}], "Stop": [{"command": "three"}]}
    actual = place.load(deny=["Edit"], ask=["Bash"], allow=["Grep"], hooks=two)
    assert (actual["deny"], actual["ask"], actual["allow"]) == (["Write", "Edit"], ["Bash"], ["Read", "Grep"])
    assert actual["hooks"] == {"PreToolUse": [{"command": "one"}, {"command": "two"}], "Stop": [{"command": "three"}]}


def test_extensions_of_a_project_are_named_and_not_loaded_without_trust(place: Files) -> None:
    folder = place.projects.parent / "extensions"
    folder.mkdir(parents=True)
    place.load()
    assert place.notes == [f"{folder}: a project's extensions are code, and are ignored without --trust-workspace"]


def test_an_extension_that_is_not_there_is_an_error(place: Files) -> None:
    with pytest.raises(ConfigError, match=r"--extension /nowhere\.py: there is no such file"):
        place.load(extensions=["/nowhere.py"])


def test_servers_are_taken_whole_from_the_users_own_file(place: Files) -> None:
    place.own.write_text('[mcp.servers.x]\ncommand = "x"')
    assert place.load() == {"provider": "scripted", "mcp_servers": {"x": {"command": "x"}}}


def test_times_may_be_whole_or_broken_numbers(place: Files) -> None:
    place.own.write_text("approval_timeout = 3\nstream_timeout = 0.5")
    assert (place.load()["approval_timeout"], place.load()["stream_timeout"]) == (3, 0.5)


def test_toml_is_not_loaded_where_there_is_no_file(place: Files) -> None:
    """It costs 13 ms before `ready`."""
    code = (
        "import sys; from polylect.app.startup import config\n"
        f"config.gather({{}}, {place.env!r}, {place.workspace!r}, [])\n"
        "print('tomllib' in sys.modules, 'difflib' in sys.modules, 'argparse' in sys.modules)"
    )
    source = str(Path(__file__).parents[3] / "src")
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False", "False"]


def test_the_page_about_settings_shows_every_setting_and_no_other(place: Files) -> None:
    page = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    toml = "\n".join(re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    place.own.write_text(toml)
    assert place.load()["model"] == "claude-sonnet-4-5"
    assert place.notes == []
    assert shown(tomllib.loads(toml)) == {
        *config._KEYS,
        *(f"{section}.{name}" for section, names in config._TABLES.items() for name in names),
        *(f"hooks.{name}" for name in config._HOOK),
    }


def shown(data: dict[str, Any]) -> set[str]:
    """Each setting by its place, without the names of providers, models, servers and moments."""
    data["mcp"].pop("servers")
    hooks = {f"hooks.{name}" for rows in data.pop("hooks").values() for row in rows for name in row}
    named = {section: data.pop(section) for section in config._TABLES}
    tables = {f"{section}.{name}" for section, rows in named.items() for row in rows.values() for name in row}
    return {*(key for key, _ in config.flatten("", data)), *tables, *hooks}


def test_an_old_name_of_a_setting_works_and_is_noted(place: Files) -> None:
    place.own.write_text('[compact]\ncompaction = "safe"')
    assert place.load()["output_cleanup"] == "safe"
    assert [note.partition(": ")[2] for note in place.notes] == [
        "compact.compaction is now called compact.output_cleanup"
    ]
