"""The environment variables by which people configure claude, as our settings.

`start.py` calls it. A flag is stronger than a variable. A value that makes no sense is passed over, as claude does.
Variables about keys and addresses are read by the providers themselves.
"""

import os

from polylect.app.startup.args import Options
from polylect.system.user_folders import user_path

_FAMILIES = {"sonnet": "claude-sonnet-5", "opus": "claude-opus-5-5", "haiku": "claude-haiku-4-5"}
"""Families by one word: the newest model of each whose price is known, so that --max-budget-usd can hold."""
_MILLISECONDS = {"API_TIMEOUT_MS": "stream_timeout", "MCP_TIMEOUT": "mcp_wait", "MCP_TOOL_TIMEOUT": "mcp_call_timeout"}
"""Variables, and the setting in seconds that each is."""
_MOST_TIMEOUT = 600_000
_MOST_OUTPUT = 150_000
EFFORTS = ("low", "medium", "high", "xhigh", "max")


def settings(env: dict[str, str]) -> Options:
    """The settings that variables ask for."""
    options: Options = {}
    thinking = _count(env, "MAX_THINKING_TOKENS")
    if thinking is not None:
        options |= {"thinking": "enabled", "thinking_budget": thinking} if thinking else {"thinking": "disabled"}
    if tokens := _count(env, "CLAUDE_CODE_MAX_OUTPUT_TOKENS"):
        options["max_tokens"] = tokens
    if (retries := _count(env, "CLAUDE_CODE_MAX_RETRIES")) is not None:
        options["max_retries"] = retries
    if (effort := env.get("CLAUDE_CODE_EFFORT_LEVEL", "")) in EFFORTS:
        options["effort"] = effort
    for name, option in _MILLISECONDS.items():
        if milliseconds := _count(env, name):
            options[option] = milliseconds / 1000
    if limits := _command_limits(env):
        options["command_limits"] = limits
    if is_on(env, "DISABLE_PROMPT_CACHING"):
        options["prompt_caching"] = False
    if is_on(env, "DISABLE_COMPACT") or is_on(env, "DISABLE_AUTO_COMPACT"):
        options["auto_compaction"] = False
    for name in ("bedrock", "vertex"):
        if is_on(env, f"CLAUDE_CODE_USE_{name.upper()}"):
            options["provider"] = name
    return options


def _command_limits(env: dict[str, str]) -> dict[str, int]:
    """The limits of commands (`tools/setup.py`). The longest timeout is never below the usual one."""
    limits: dict[str, int] = {}
    if timeout := _count(env, "BASH_DEFAULT_TIMEOUT_MS"):
        limits |= {"timeout": timeout, "most_timeout": max(timeout, _MOST_TIMEOUT)}
    if most := _count(env, "BASH_MAX_TIMEOUT_MS"):
        limits["most_timeout"] = max(most, limits.get("timeout", 0))
    if characters := _count(env, "BASH_MAX_OUTPUT_LENGTH"):
        limits["output"] = min(characters, _MOST_OUTPUT)
    return limits


def settings_places(workspace: str, env: dict[str, str]) -> dict[str, str]:
    """Where claude's settings files are, by `--setting-sources`, and the file with the servers of a project.

    The user's is empty without an absolute path, since a relative one would be in the workspace.
    """
    user = user_path(env.get("HOME", ""), ".claude/settings.json", env)
    return {
        "user": user if os.path.isabs(user) else "",
        "project": os.path.join(workspace, ".claude", "settings.json"),
        "local": os.path.join(workspace, ".claude", "settings.local.json"),
        "servers": os.path.join(workspace, ".mcp.json"),
    }


def full_model(name: str, env: dict[str, str]) -> str:
    """The name of a model. A family such as `sonnet` is what its variable says, or else its newest model. The suffix
    `[1m]` for a large window is dropped: there is no other window."""
    name = name.removesuffix("[1m]")
    return env.get(f"ANTHROPIC_DEFAULT_{name.upper()}_MODEL") or _FAMILIES[name] if name in _FAMILIES else name


def is_on(env: dict[str, str], name: str) -> bool:
    return env.get(name, "").lower() in ("1", "true", "yes", "on")


def _count(env: dict[str, str], name: str) -> int | None:
    """A whole number that is not negative; None for anything else."""
    value = env.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
