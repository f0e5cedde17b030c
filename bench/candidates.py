"""polylect on each of its wires, and the peers: their command lines and what they have to find at home."""

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from bench.engines import Candidate
from bench.peers import PINS, CannotInstall, installed
from bench.talks import Acp, Claude, Codex, JsonStream, Kimi, Native, Omp, Pi

_SERVER = "--provider anthropic --base-url {base_url} --model {model}"
_STREAM = "--output-format stream-json --input-format stream-json --verbose --include-partial-messages"
_RULES = """\
[tools]
allow = ["Bash(git log:*)", "Read({workspace}/**)", "Edit(src/**)"]
deny = ["Bash(git push:*)", "Read(**/.env)"]
"""


def ours() -> list[Candidate]:
    """On every wire the same engine; the first is the one that is held against the goals."""
    program = shlex.quote(str(Path(sys.executable).with_name("polylect")))
    shared = {"ANTHROPIC_BASE_URL": "{base_url}"}
    rules, ruled = {"rules.toml": _RULES}, "--config {home}/rules.toml"
    return [
        Candidate(
            "polylect",
            JsonStream,
            f"{program} --json-stream {_SERVER}",
            f"{program} run Hello {_SERVER}",
            files=rules,
            ruled=ruled,
            ours=True,
        ),
        Candidate(
            "polylect native",
            Native,
            f"{program} --native {_SERVER}",
            files=rules,
            ruled=ruled,
            ours=True,
        ),
        Candidate(
            "polylect acp",
            Acp,
            f"{program} --acp {_SERVER}",
            files=rules,
            ruled=ruled,
            ours=True,
        ),
        Candidate(
            "polylect omp",
            Omp,
            f"{program} --mode rpc {_SERVER.replace('--base-url {base_url} ', '')}",
            env=shared,
            files=rules,
            ruled=ruled,
            ours=True,
        ),
        Candidate(
            "polylect claude",
            Claude,
            f"{program} {_STREAM} --model {{model}}",
            f"{program} --print Hello --model {{model}}",
            env=shared,
            files=rules,
            ruled=ruled,
            ours=True,
        ),
    ]


def peer(name: str) -> Candidate:
    """A peer, installed. Raises CannotInstall."""
    made = PEERS[name](installed(name))
    return made._replace(version=PINS[name].version)


def _codex(folder: Path) -> Candidate:
    program = _one(
        folder, "node_modules/@openai/codex-*/vendor/*/bin/codex", "node_modules/@openai/codex-*/vendor/*/*/codex"
    )
    config = """\
model = "{model}"
model_provider = "bench"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.bench]
name = "bench"
base_url = "{base_url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
    once = f"{program} exec --json --skip-git-repo-check Hello"
    env = {"CODEX_HOME": "{home}/.codex"}
    return Candidate("codex", Codex, f"{program} app-server", once, env, {".codex/config.toml": config})


def _claude(folder: Path) -> Candidate:
    program = _one(folder, "claude_agent_sdk/_bundled/claude")
    off = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "IS_SANDBOX")
    env = {"ANTHROPIC_BASE_URL": "{base_url}", "CLAUDE_CONFIG_DIR": "{home}/.claude", **dict.fromkeys(off, "1")}
    env |= {"ENABLE_TOOL_SEARCH": "false", "ANTHROPIC_SMALL_FAST_MODEL": "small"}
    flags = "--model {model} --dangerously-skip-permissions"
    return Candidate("claude", Claude, f"{program} {_STREAM} {flags}", f"{program} -p Hello {flags}", env)


_MODELS = """\
{"providers": {"bench": {"baseUrl": "{base_url}", "apiKey": "bench", "api": "anthropic-messages", "models": [
  {"id": "{model}", "name": "{model}", "reasoning": false, "input": ["text"],
   "contextWindow": 200000, "maxTokens": 64000, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}]}}}
"""
"""JSON, which is YAML too."""


def _pi(folder: Path) -> Candidate:
    program = f"{_found('node')} {_one(folder, 'node_modules/@mariozechner/pi-coding-agent/dist/cli.js')}"
    env = {"PI_CODING_AGENT_DIR": "{home}/.pi", "PI_OFFLINE": "1"}
    flags = "--model bench/{model}"
    once = f"{program} -p Hello {flags}"
    return Candidate("pi", Pi, f"{program} --mode rpc {flags}", once, env, {".pi/models.json": _MODELS})


def _omp(folder: Path) -> Candidate:
    bun = _one(folder, "node_modules/@oven/bun-*/bin/bun")
    package = folder / "node_modules/@oh-my-pi/pi-coding-agent"
    program = f"{bun} {_one(package, 'src/cli.ts', 'dist/cli.js')}"
    flags = "--no-title --model bench/{model}"
    files = {".omp/agent/models.yml": _MODELS}
    once = f"{program} -p Hello {flags}"
    return Candidate("omp", Omp, f"{program} --mode rpc {flags}", once, {"PI_OFFLINE": "1"}, files)


def _gemini(folder: Path) -> Candidate:
    package = folder / "node_modules/@google/gemini-cli"
    program = f"{_found('node')} {_one(package, 'bundle/gemini.js', 'dist/index.js')}"
    env = {
        "GOOGLE_GEMINI_BASE_URL": "{base_url}",
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    settings = """\
{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},
 "general": {"disableAutoUpdate": true, "disableUpdateNag": true}, "telemetry": {"enabled": false},
 "model": {"disableLoopDetection": true}}
"""
    flags = "--model {model} --approval-mode yolo"
    once = f"{program} -p Hello {flags}"
    return Candidate("gemini", Acp, f"{program} --acp {flags}", once, env, {".gemini/settings.json": settings})


def _kimi(folder: Path) -> Candidate:
    program = f"{folder / 'bin' / 'python'} -m kimi_cli --config-file {{home}}/kimi.toml"
    config = """\
default_model = "bench"
default_yolo = true
[models.bench]
provider = "bench"
model = "{model}"
max_context_size = 200000
[providers.bench]
type = "openai_legacy"
base_url = "{base_url}/v1"
api_key = "bench"
[loop_control]
max_steps_per_turn = 200
"""
    once = f"{program} --quiet -p Hello"
    env = {"KIMI_SHARE_DIR": "{home}/.kimi", "KIMI_DISABLE_TELEMETRY": "1", "KIMI_CLI_NO_AUTO_UPDATE": "1"}
    return Candidate("kimi", Kimi, f"{program} --wire", once, env, {"kimi.toml": config})


PEERS: dict[str, Callable[[Path], Candidate]] = {
    "codex": _codex,
    "claude": _claude,
    "pi": _pi,
    "omp 13": lambda folder: _omp(folder)._replace(name="omp 13"),
    "omp 18": lambda folder: _omp(folder)._replace(name="omp 18"),
    "gemini": _gemini,
    "kimi": _kimi,
}


def _one(folder: Path, *patterns: str) -> Path:
    """The file that one of the patterns finds."""
    for pattern in patterns:
        if found := sorted(folder.glob(pattern)):
            return found[0]
    raise CannotInstall(f"there is no {patterns[0]} in {folder}")


def _found(program: str) -> str:
    if (path := shutil.which(program)) is None:
        raise CannotInstall(f"there is no {program} on this machine")
    return path
