"""Flags of the programs we stand in for, and what they become."""

import json
from pathlib import Path

import pytest

from polylect.app.startup.args import Options, UsageError
from polylect.dialects.claude import start as claude_start
from polylect.dialects.omp import start as omp_start

STREAM = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]


def claude(*words: str, **env: str) -> dict[str, object]:
    return claude_start.options([*STREAM, *words], "claude", env)


def omp(words: list[str], program: str = "omp") -> Options:
    return omp_start.options(words, program, {})


# omp


def test_its_wire_has_no_approval_so_nothing_is_asked_unless_a_flag_says_so_a7() -> None:
    assert omp(["--mode", "rpc"])["approval_mode"] == "force"
    assert omp(["--mode", "rpc", "--approval-mode", "default"])["approval_mode"] == "default"
    for word, mode in (("always-ask", "default"), ("write", "auto_edit"), ("yolo", "force")):
        assert omp(["--mode", "rpc-ui", "--approval-mode", word])["approval_mode"] == mode
    assert omp(["--mode", "rpc", "--yolo"])["force"] is True


def test_file_arguments_are_refused_as_the_seed_says() -> None:
    with pytest.raises(UsageError, match="@file arguments are not supported in RPC mode"):
        omp(["--mode", "rpc", "@notes.md"])


def test_a_model_may_name_its_provider_and_how_hard_to_think() -> None:
    result = omp(["--mode", "rpc", "--model", "anthropic/claude-opus-5:high"])
    assert (result["provider"], result["model"], result["thinking_level"]) == ("anthropic", "claude-opus-5", "high")


def test_a_slash_in_a_models_own_name_is_left_alone() -> None:
    result = omp(["--mode", "rpc", "--provider", "openai", "--model", "meta/llama-4:free"])
    assert (result["provider"], result["model"]) == ("openai", "meta/llama-4:free")


def test_tools_are_known_by_the_names_that_omp_gives_them() -> None:
    assert omp(["--mode=rpc", "--tools", "read, bash,find"])["tools"] == ["Read", "Bash", "Glob"]
    assert omp(["--mode=rpc", "--no-tools"])["tools"] == []
    assert omp(["--mode=rpc", "--no-builtin-tools", "-n", "A talk"])["name"] == "A talk"
    assert omp(["--mode=rpc", "--exclude-tools", "bash,write"])["deny"] == ["Bash", "Write"]


def test_flags_of_newer_clients_that_mean_nothing_here_are_noted() -> None:
    flags = [*("--smol", "m", "--slow", "m", "--plan", "m", "--plugin-dir", "d", "--max-time", "9"), "--allow-home"]
    assert omp(["--mode", "rpc", *flags, "--offline", "--verbose"])["ignored"] == [
        "--smol", "--slow", "--plan", "--plugin-dir", "--max-time", "--allow-home", "--offline", "--verbose",
    ]  # fmt: skip


def test_a_session_is_named_by_its_id_or_by_a_file_that_exists(tmp_path: Path) -> None:
    file = tmp_path / "old.jsonl"
    assert omp(["--mode", "rpc", "--session", "abc"])["resume"] == "abc"
    with pytest.raises(UsageError, match="there is no session file"):
        omp(["--mode", "rpc", "--session", str(file)])
    file.write_text("{}\n")
    assert omp(["--mode", "rpc", "--session", str(file)])["session_file"] == str(file)


def test_an_extension_in_another_language_is_noted_and_not_run() -> None:
    result = omp(["--mode", "rpc", "-e", "mine.py", "-e", "theirs.ts"])
    assert result["extensions"] == ["mine.py"]
    assert result["ignored"] == ["--extension theirs.ts"]


def test_which_version_is_spoken_says_a_flag_or_the_name_of_the_program() -> None:
    assert omp(["--mode", "rpc"])["omp_version"] == "13"
    assert omp(["--mode", "rpc", "--protocol", "18"])["omp_version"] == "18"
    assert omp(["--mode", "rpc"], program="pi")["omp_version"] == "pi"


@pytest.mark.parametrize(
    "words",
    [["--thinking", "very"], ["--mode", "json"], ["--mode", "rpc", "hello"], ["--nope"], ["--protocol", "0.2.0"]],
)
def test_what_makes_no_sense_to_omp_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        omp(words)


# claude


def test_the_line_of_the_python_sdk_is_understood() -> None:
    result = claude(
        "--system-prompt", "", "--allowedTools", "Read,Bash(git log:*)", "--permission-prompt-tool", "stdio"
    )
    assert result["allow"] == ["Read", "Bash(git log:*)"]
    assert result["prompts"] is True
    assert "system_prompt" not in result


def test_the_line_of_the_typescript_sdk_is_understood_equals_signs_and_empty_values() -> None:
    result = claude("--max-turns=5", "--max-budget-usd=3.5", "--setting-sources=", "--tools=", "--effort=low")
    assert (result["max_turns"], result["budget:max_cost_usd"], result["tools"], result["effort"]) == (
        5,
        3.5,
        [],
        "low",
    )
    assert (result["budget_anew"], claude()["budget_anew"]) == (True, False)


def test_a_tool_that_is_forbidden_by_its_name_is_taken_away_and_a_rule_denies() -> None:
    result = claude("--disallowedTools", "WebFetch,Bash(rm:*)")
    assert result["without"] == ["WebFetch"]
    assert result["deny"] == ["Bash(rm:*)"]


@pytest.mark.parametrize("flag", ["--allowedTools", "--disallowedTools", "--tools"])
def test_a_rule_whose_parenthesis_stays_open_is_an_error_and_never_all_of_the_tool(flag: str) -> None:
    with pytest.raises(UsageError, match=r"Bash\(ls"):
        claude(flag, "Bash(ls")


def test_without_a_prompt_tool_nobody_is_there_to_ask() -> None:
    assert claude()["prompts"] is False
    assert claude("--permission-prompt-tool=stdio", "--permission-prompts", "none")["prompts"] is False


def test_flags_that_have_no_meaning_here_are_accepted_and_named() -> None:
    options = claude("--autocompact", "auto", "--from-pr", "7", "--tmux", "--bg", "--ax-screen-reader")
    assert options["ignored"] == ["--autocompact", "--from-pr", "--tmux", "--bg"]


def test_a_prompt_may_be_one_word_that_is_also_a_command_of_theirs() -> None:
    assert claude_start.options(["-p", "update"], "claude", {})["prompt"] == "update"


def test_its_wire_chooses_no_provider_of_its_own() -> None:
    assert "provider" not in claude()


def test_servers_come_as_json_or_in_a_file_and_those_inside_the_host_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"files": {"command": "serve", "args": ["-x"]}}}))
    inside = json.dumps({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}})
    servers = claude("--mcp-config", inside, "--mcp-config", str(file))["mcp_servers"]
    assert servers == {
        "calc": {"transport": "host"},
        "files": {"command": "serve", "args": ["-x"], "transport": "stdio"},
    }


def test_rules_in_settings_join_those_of_flags() -> None:
    settings = json.dumps({"permissions": {"allow": ["Read"], "deny": ["Bash(curl:*)"]}, "model": "opus"})
    result = claude("--allowedTools", "Glob", "--settings", settings)
    assert result["allow"] == ["Glob", "Read"]
    assert result["deny"] == ["Bash(curl:*)"]
    assert str(result["model"]).startswith("claude-opus")


def test_folders_and_commands_at_certain_moments_in_settings_are_in_force_and_the_rest_is_named(tmp_path: Path) -> None:
    hook = {"type": "command", "command": "check", "timeout": 5, "statusMessage": "..."}
    settings = {
        "permissions": {"additionalDirectories": [str(tmp_path), "/nowhere/at/all"], "defaultMode": "auto"},
        "effortLevel": "low",
        "hooks": {
            "PreToolUse": [{"matcher": "Bash", "hooks": [hook, {"type": "prompt", "prompt": "?"}]}],
            "Notification": [{"hooks": [hook]}],
        },
        "sandbox": {"enabled": True},
    }
    result = claude("--add-dir", "/", "--settings", json.dumps(settings))
    assert (result["folders"], result["approval_mode"], result["effort"]) == (["/", str(tmp_path)], "default", "low")
    assert result["hooks"] == {"PreToolUse": [{"matcher": "Bash", "command": "check", "timeout": 5}]}
    assert result["ignored"] == [
        "--settings: sandbox",
        "--settings: additionalDirectories /nowhere/at/all",
        "--settings: hooks.PreToolUse of the type prompt",
        "--settings: hooks.Notification",
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"permissions": []},
        {"permissions": {"deny": "Write"}},
        {"permissions": {"allow": [5]}},
        {"permissions": {"defaultMode": "zz"}},
        {"permissions": {"defaultMode": 5}},
        {"permissions": {"additionalDirectories": "/"}},
        {"model": 5},
        {"effortLevel": "zz"},
        {"hooks": []},
        {"hooks": {"PreToolUse": {}}},
        {"hooks": {"PreToolUse": [{"hooks": "check"}]}},
        {"hooks": {"PreToolUse": [{"hooks": [{"type": "command"}]}]}},
        {"hooks": {"PreToolUse": [{"matcher": "(", "hooks": [{"type": "command", "command": "check"}]}]}},
    ],
)
def test_settings_of_the_wrong_kind_are_refused(settings: object) -> None:
    with pytest.raises(UsageError, match=r"--settings|--effort"):
        claude("--settings", json.dumps(settings))


@pytest.mark.parametrize(
    "words",
    [
        ["--effort", "zz"],
        ["--max-turns", "0"],
        ["--agents", '{"a": 5}'],
        ["--agents", '{"a": {"prompt": 5}}'],
        ["--agents", '{"a": {"tools": 5}}'],
    ],
)
def test_flags_of_the_wrong_kind_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match=words[0]):
        claude(*words)


def test_two_dashes_end_the_flags() -> None:
    assert claude_start.options(["-p", "--", "--help me"], "claude", {})["prompt"] == "--help me"


def test_a_family_name_means_a_model_of_it() -> None:
    assert str(claude("--model", "sonnet")["model"]).startswith("claude-sonnet")
    assert "model" not in claude("--model", "default")
    assert "usual_model" not in claude(), "the provider has a default"
    assert claude(ANTHROPIC_MODEL="own")["usual_model"] == "own"


def test_several_models_may_be_named_for_when_one_fails() -> None:
    assert claude("--fallback-model", "own, other")["fallbacks"] == ["anthropic:own", "anthropic:other"]


@pytest.mark.parametrize("mode", ["manual", "auto", "default"])
def test_three_words_mean_that_people_are_asked(mode: str) -> None:
    assert claude("--permission-mode", mode)["approval_mode"] == "default"
    settings = json.dumps({"permissions": {"defaultMode": mode}})
    assert claude("--settings", settings)["approval_mode"] == "default"


def test_thinking_has_three_flags_and_one_meaning() -> None:
    assert claude("--thinking", "adaptive")["thinking"] == "enabled"
    assert claude("--thinking", "disabled")["thinking"] == "disabled"
    result = claude("--max-thinking-tokens", "2000")
    assert (result["thinking"], result["thinking_budget"]) == ("enabled", 2000)
    assert claude("--max-thinking-tokens=0")["thinking"] == "disabled"


def test_a_prompt_on_the_command_line_is_one_shot() -> None:
    assert claude_start.options(["-p", "Say hello"], "claude", {})["prompt"] == "Say hello"
    assert claude_start.options(["-p", "--output-format", "json", "Say hello"], "claude", {})["output_format"] == "json"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-p", "--output-format", "stream-json"], "--verbose"),
        (["--input-format", "stream-json", "--output-format", "json"], "needs --output-format stream-json"),
        (["-p", "x", "--include-partial-messages"], "needs --output-format stream-json"),
        ([*STREAM, "--permission-mode", "whatever"], "choose one of"),
        ([*STREAM, "--session-id", "abc"], "UUID"),
        ([*STREAM, "--fork-session"], "goes with --resume"),
        ([*STREAM, "--json-schema", "[1]"], "--json-schema"),
        ([*STREAM, "--mcp-config", "{}"], "mcpServers"),
        ([*STREAM, "--max-budget-usd", "0"], "above zero"),
        (["-p", "one", "two"], "one prompt is enough"),
        (["mcp", "list"], "'mcp' is a command of another program"),
        (["update"], "'update' is a command of another program"),
        ([*STREAM, "--verbos"], "--verbose"),
    ],
)
def test_what_makes_no_sense_to_claude_is_refused_with_what_would(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        claude_start.options(words, "claude", {})


def test_a_new_session_has_a_uuid_of_its_own() -> None:
    one, two = claude_start.new_id(), claude_start.new_id()
    assert one != two
    assert claude("--session-id", one)["session_id"] == one


def test_whether_anything_runs_is_told_openly_or_to_an_sdk_alone() -> None:
    values: dict[str, object] = {"workspace": "/w", "mode": "default", "output_format": "stream-json", "provider": "x"}
    result = {
        name: claude_start.codec_options(values, {name: "1"}, "s")["session_state"]
        for name in ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "CLAUDE_CODE_SDK_READS_SESSION_STATE", "NEITHER")
    }
    assert list(result.values()) == [True, "hidden", False]


def test_some_flags_take_all_words_up_to_the_next_flag(tmp_path: Path) -> None:
    words = ("-p", "hi", "--allowedTools", "Read", "Grep", "--add-dir", "/", str(tmp_path), "--verbose")
    options = claude_start.options(list(words), "claude", {})
    assert (options["prompt"], options["allow"]) == ("hi", ["Read", "Grep"])
    assert options["folders"] == ["/", str(tmp_path)]
    with pytest.raises(UsageError, match="--add-dir needs a value"):
        claude("--add-dir", "--verbose")


VARIABLES = {
    "MAX_THINKING_TOKENS": ("2000", {"thinking": "enabled", "thinking_budget": 2000}),
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": ("900", {"max_tokens": 900}),
    "CLAUDE_CODE_MAX_RETRIES": ("0", {"max_retries": 0}),
    "CLAUDE_CODE_EFFORT_LEVEL": ("high", {"effort": "high"}),
    "API_TIMEOUT_MS": ("1500", {"stream_timeout": 1.5}),
    "MCP_TIMEOUT": ("2500", {"mcp_wait": 2.5}),
    "MCP_TOOL_TIMEOUT": ("2500", {"mcp_call_timeout": 2.5}),
    "BASH_DEFAULT_TIMEOUT_MS": ("700000", {"command_limits": {"timeout": 700_000, "most_timeout": 700_000}}),
    "BASH_MAX_TIMEOUT_MS": ("900000", {"command_limits": {"most_timeout": 900_000}}),
    "BASH_MAX_OUTPUT_LENGTH": ("200000", {"command_limits": {"output": 150_000}}),
    "DISABLE_PROMPT_CACHING": ("1", {"prompt_caching": False}),
    "DISABLE_AUTO_COMPACT": ("true", {"auto_compaction": False}),
    "CLAUDE_CODE_USE_BEDROCK": ("1", {"provider": "bedrock"}),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_that_people_set_for_claude_count(name: str) -> None:
    value, settings = VARIABLES[name]
    usual, changed = claude(), claude(**{name: value})
    assert {key: changed[key] for key in changed if usual.get(key) != changed[key]} == settings
    assert claude(**{name: "nonsense"}) == usual


def test_a_flag_is_stronger_than_a_variable() -> None:
    options = claude("--thinking", "disabled", MAX_THINKING_TOKENS="2000")
    assert options["thinking"] == "disabled"
    assert "thinking_budget" not in options


def test_a_variable_says_which_model_a_family_is() -> None:
    assert claude("--model", "sonnet", ANTHROPIC_DEFAULT_SONNET_MODEL="my-sonnet")["model"] == "my-sonnet"
