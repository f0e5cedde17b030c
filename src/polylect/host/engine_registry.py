"""The engines that `connect` knows by name, as data.

An `EngineSpec` says where the program is found, which flags start it, which dialect it speaks and which flag each
option of `connect` becomes. A new engine is one more entry in `ENGINES`. The functions below turn an entry into a
command line and an environment. A program inside the project around the current folder is never chosen by name.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from polylect.dialects.jsonstream.versions import WIRE_MODES
from polylect.host.errors import (
    EngineDied,
    InvalidValue,
    NoSuchSession,
    NotConfigured,
    SessionExists,
    SessionInUse,
    UnknownEngine,
)
from polylect.system.repository import project
from polylect.system.search_paths import absolute_only, program_on
from polylect.vocab.modes import CLAUDE_MODES, MODES, OMP_MODES


class EngineSpec(Struct, frozen=True, kw_only=True):
    """One engine. `flags` has for each option its words on the command line, with `{}` for the value."""

    name: str
    program: str
    dialect: str
    version: str = ""
    """Of the dialect; the newest if not named."""
    start: tuple[str, ...] = ()
    flags: Mapping[str, tuple[str, ...]] = {}
    over_wire: Mapping[str, str] = {}
    """Options of `connect` that it is told when its session is opened, and the option of the host side for each."""
    modes: Mapping[str, str] = {}
    """What it calls the modes that it has; ours are default, auto_edit, force, plan and dont_ask."""
    base_url: str = ""
    """The variable in which it looks for the address of its model's service."""
    env: Mapping[str, str] = {}
    """Variables that it needs, unless the caller has set them."""
    without: tuple[str, ...] = ()
    """Variables that it should not inherit."""
    places: tuple[str, ...] = ()
    """Where else than on PATH it may be."""
    install: str = ""
    session_ids: Literal["name", "uuid", "hex", "own"] = "name"
    """What it takes as the id of a new session: letters and digits, a UUID, 6 to 40 hexadecimal digits; or it makes its
    own."""
    latest: tuple[str, ...] = ()
    """The words for going on with the last session, if `latest` is no id for it."""
    listing: tuple[str, ...] = ()
    """The words that make it tell its sessions, as `polylect sessions --json` does."""
    store: tuple[str, str, str] = ("", "", "")
    """Where it keeps its sessions, if it cannot tell: the variable that names its folder, the folder if that is not
    set, and the folder in that."""
    start_errors: Mapping[int | str, type[EngineDied]] = {}
    """What it means by an exit code, or by a text (a regular expression), when it does not start."""
    missing_as_empty: bool = False
    """Whether it creates a file only if the host answers with an empty text where there is none."""
    asks_in: tuple[str, ...] | None = None
    """The modes in which it asks before it acts, where it does not ask by itself."""
    options: Mapping[str, Any] = {}
    """For the host side of its dialect."""
    version_flags: Mapping[str, Sequence[str]] = {}
    """Flags for a version of its wire that it speaks only if it is told to."""
    resumed: Mapping[str, Any] = {}
    """More of these, for a session that is gone on with."""
    known: Mapping[str, Any] = {}
    """What it answers when it is connected to and its session is opened, on wires that ask. For `docs/host-sdk.md`."""


_OURS = {
    "model": ("--model", "{}"),
    "provider": ("--provider", "{}"),
    "resume": ("--resume", "{}"),
    "session": ("--session-id", "{}"),
    "script": ("--script", "{}"),
    "base_url": ("--base-url", "{}"),
    "api_key": ("--api-key", "{}"),
    "config": ("--config", "{}"),
    "system_prompt": ("--system-prompt", "{}"),
    "max_turns": ("--max-turns", "{}"),
    "add_dir": ("--add-dir", "{}"),
    "max_cost": ("--max-budget-usd", "{}"),
    "max_tokens": ("--max-budget-tokens", "{}"),
    "allow": ("--allow", "{}"),
    "deny": ("--deny", "{}"),
    "trust_workspace": ("--trust-workspace",),
    "allow_unpriced": ("--allow-unpriced",),
}
_ONLY_OURS = ("script", "add_dir", "max_cost", "max_tokens", "allow", "deny", "trust_workspace", "allow_unpriced")
_TOLD = {
    "native": frozenset(["tokens", "cost"]),
    "omp": frozenset(["tokens", "cost"]),
    "claude": frozenset(["tokens"]),
}
_OWN_MODES = {mode: mode for mode in MODES}
_THEIR_MODES = WIRE_MODES["0.2.0"]
_CLAUDE = {
    "model": ("--model", "{}"),
    "resume": ("--resume={}",),
    "session": ("--session-id={}",),
    "system_prompt": ("--append-system-prompt", "{}"),
    "max_turns": ("--max-turns", "{}"),
    "max_cost": ("--max-budget-usd", "{}"),
    "add_dir": ("--add-dir", "{}"),
    "deny": ("--disallowedTools", "{}"),
    "mode": ("--permission-mode", "{}"),
    "partial": ("--include-partial-messages",),
}
_STREAM_JSON = (
    *("--output-format", "stream-json", "--verbose", "--input-format", "stream-json"),
    *("--permission-prompt-tool", "stdio", "--include-partial-messages"),
)
_OMP = {
    "model": ("--model", "{}"),
    "provider": ("--provider", "{}"),
    "resume": ("--session", "{}"),
    "session_dir": ("--session-dir", "{}"),
    "system_prompt": ("--append-system-prompt", "{}"),
}
ACP_WISHES = {"model": "model", "mode": "mode", "resume": "session", "add_dir": "folders", "login": "login"}
"""What every agent of ACP can be told when its session is opened, if it has that."""
_PATHS = ("script", "config", "add_dir", "session_dir", "extension")
# -P keeps the working folder, which is the workspace, off the module search path. An editable install, the user's site
# and absolute entries of PYTHONPATH are still found.
_POLYLECT = (sys.executable, "-P", "-m", "polylect")
_LISTING = ("sessions", "--here", "--json")
EXIT_CODES: dict[int | str, type[EngineDied]] = {
    66: NoSuchSession,
    73: SessionExists,
    75: SessionInUse,
    78: NotConfigured,
}
"""Of our engine on the native wire. On the wires of other programs it has the exit codes of those."""
_TEXTS: dict[int | str, type[EngineDied]] = {
    "Session '.*' not found|No sessions found for": NoSuchSession,
    "Session ID '.*' already exists": SessionExists,
    "Session '.*' is in use by (another )?process": SessionInUse,
}
"""Of aionrs and wayland-core, and of our engine in the place of another program."""
_OUR_TEXTS = {
    **_TEXTS,
    78: NotConfigured,
    "no model is (configured|named)|is not set: set it or give|start with --allow-unpriced": NotConfigured,
}
_CLAUDE_TEXTS = {
    **_TEXTS,
    "No conversation found": NoSuchSession,
    "Session ID .* is already in use": SessionExists,
}
_OMP_TEXTS = {**_TEXTS, 'Session ".*" not found|No session found matching': NoSuchSession}


def _acp_agent(
    *sessions: str,
    name: str = "",
    steering: bool = False,
    folders: bool = True,
    modes: Sequence[str] = (),
    compacts: bool = False,
) -> dict[str, Any]:
    """What an agent of ACP answers to `initialize` and when a session is opened, as far as `Agent.can` asks for it."""
    offered = (*sessions, *(["additionalDirectories"] if folders else []))
    has: dict[str, Any] = {one: {} for one in offered if one != "load"}
    capabilities = {
        "loadSession": "load" in sessions,
        "promptCapabilities": {"image": True, "embeddedContext": True},
        "sessionCapabilities": has,
        "mcpCapabilities": {"acp": name == "polylect"},
    }
    models = {"currentModelId": "default", "availableModels": [{"modelId": "default", "name": "Default"}]}
    return {
        "initialize": {
            "agentInfo": {"name": name},
            "agentCapabilities": capabilities,
            "_meta": {"steering": {"supported": steering}},
        },
        "session": {
            "modes": {"availableModes": [{"id": mode, "name": mode} for mode in modes]},
            "models": models,
            "availableCommands": [{"name": "compact"}] if compacts else [],
        },
    }


_NPM_PLACES = ("~/.npm-global/bin", "~/.local/bin", "/usr/local/bin")
_FULL_ACP: dict[str, Any] = {"steering": True, "folders": True, "compacts": True}


def _acp_engine(
    name: str,
    package: str,
    modes: Mapping[str, str],
    *sessions: str,
    steering: bool = False,
    folders: bool = False,
    compacts: bool = False,
    **fields: Any,
) -> EngineSpec:
    """An agent of ACP that npm installs. `sessions` is what it can do with them; `fields` are those of the spec."""
    known = _acp_agent(*sessions, steering=steering, folders=folders, modes=[*modes.values()], compacts=compacts)
    return EngineSpec(
        name=name,
        dialect="acp",
        over_wire=ACP_WISHES,
        modes=modes,
        session_ids="own",
        install=f"npm install -g {package}",
        known=known,
        **{"program": name, "places": _NPM_PLACES, **fields},
    )


_CLAUDE_ACP_MODES = {mode: word for mode, word in CLAUDE_MODES.items() if mode != "dont_ask"}
_CODEX_ACP_MODES = {"default": "read-only", "auto_edit": "agent", "force": "agent-full-access"}
_GEMINI_MODES = {"default": "default", "auto_edit": "autoEdit", "force": "yolo", "plan": "plan"}
_QWEN_MODES = {"default": "default", "auto_edit": "auto-edit", "force": "yolo", "plan": "plan"}
_KIMI_MODES = {"default": "default", "force": "yolo", "plan": "plan"}
_OPENCODE_MODES = {"default": "build", "plan": "plan"}
_GOOSE_MODES = {"default": "approve", "force": "auto"}
_ALL_SESSIONS = ("load", "resume", "list", "close", "delete", "fork")

ENGINES: dict[str, EngineSpec] = {
    engine.name: engine
    for engine in (
        EngineSpec(
            name="polylect",
            program="polylect",
            dialect="native",
            start=("--native", "--cost-updates", "step", "--on-eof", "stop"),
            flags={**_OURS, "mode": ("--approval-mode", "{}"), "extension": ("--extension", "{}")},
            modes=_OWN_MODES,
            listing=_LISTING,
            start_errors=EXIT_CODES,
        ),
        EngineSpec(
            name="polylect-jsonstream",
            program="polylect",
            dialect="jsonstream",
            start=(
                *("--json-stream", "--cost-updates", "step", "--announce-calls", "--on-eof", "stop"),
                *("--allow-host-path-grants", "--allow-host-budget-grants"),
            ),
            flags={**_OURS, "mode": ("--approval-mode", "{}"), "extension": ("--extension", "{}")},
            modes=_OWN_MODES,
            listing=_LISTING,
            options={"hold": False, "modes": ("plan", "dont_ask")},
            start_errors=_OUR_TEXTS,
        ),
        EngineSpec(
            name="polylect-omp",
            program="polylect",
            dialect="omp",
            version="18",
            start=("--mode", "rpc", "--protocol", "18", "--approval-mode", "default"),
            flags={**_OURS, "mode": ("--approval-mode", "{}")},
            modes=_OWN_MODES,
            listing=_LISTING,
            start_errors=_OUR_TEXTS,
        ),
        EngineSpec(
            name="polylect-claude",
            program="polylect",
            dialect="claude",
            start=_STREAM_JSON,
            flags={**_OURS, **_CLAUDE},
            modes=CLAUDE_MODES,
            listing=_LISTING,
            start_errors=_OUR_TEXTS,
        ),
        EngineSpec(
            name="polylect-acp",
            program="polylect",
            dialect="acp",
            start=("--acp", "--cost-updates", "step"),
            version_flags={"2": ("--acp-version", "2")},
            flags={
                **{name: flag for name, flag in _OURS.items() if name not in ("resume", "session")},
                "mode": ("--approval-mode", "{}"),
                "extension": ("--extension", "{}"),
            },
            over_wire={name: ACP_WISHES[name] for name in ("resume",)},
            modes=_OWN_MODES,
            session_ids="own",
            listing=_LISTING,
            known=_acp_agent(*_ALL_SESSIONS, "title", name="polylect", steering=True, modes=MODES, compacts=True),
        ),
        EngineSpec(
            name="claude",
            program="claude",
            dialect="claude",
            start=_STREAM_JSON,
            flags=_CLAUDE,
            modes=CLAUDE_MODES,
            session_ids="uuid",
            latest=("--continue",),
            base_url="ANTHROPIC_BASE_URL",
            without=("CLAUDECODE",),
            places=("~/.local/bin", "~/.claude/local", "~/.npm-global/bin", "/usr/local/bin"),
            install="npm install -g @anthropic-ai/claude-code",
            resumed={"resumed": True},
            store=("CLAUDE_CONFIG_DIR", "~/.claude", "projects"),
            start_errors=_CLAUDE_TEXTS,
        ),
        EngineSpec(
            name="omp",
            program="omp",
            dialect="omp",
            version="18",
            start=("--mode", "rpc"),
            flags={**_OMP, "mode": ("--approval-mode", "{}")},
            modes=OMP_MODES,
            asks_in=("default", "auto_edit"),
            session_ids="own",
            latest=("--continue",),
            places=("~/.bun/bin", "~/.local/bin"),
            install="bun install -g @oh-my-pi/pi-coding-agent",
            store=("PI_CODING_AGENT_DIR", "~/.omp/agent", "sessions"),
            start_errors=_OMP_TEXTS,
        ),
        EngineSpec(
            name="pi",
            program="pi",
            dialect="omp",
            version="pi",
            start=("--mode", "rpc"),
            flags=_OMP,
            asks_in=(),
            session_ids="own",
            latest=("--continue",),
            places=("~/.npm-global/bin", "~/.local/bin"),
            install="npm install -g @earendil-works/pi-coding-agent",
            store=("PI_CODING_AGENT_DIR", "~/.pi/agent", "sessions"),
            start_errors=_OMP_TEXTS,
        ),
        EngineSpec(
            name="aionrs",
            program="aionrs",
            dialect="jsonstream",
            version="0.1.0",
            start=("--json-stream",),
            flags={name: flag for name, flag in _OURS.items() if name not in _ONLY_OURS},
            modes=_THEIR_MODES,
            places=("~/.cargo/bin", "~/.local/bin"),
            resumed={"resumed": True},
            start_errors=_TEXTS,
        ),
        EngineSpec(
            name="wayland-core",
            program="wayland-core",
            dialect="jsonstream",
            version="0.2.0",
            start=("--json-stream",),
            flags={name: flag for name, flag in _OURS.items() if name not in _ONLY_OURS},
            modes=_THEIR_MODES,
            places=("~/.cargo/bin", "~/.local/bin"),
            env={"WAYLAND_ASSISTANT": "polylect", "WAYLAND_ALLOW_WIRE_FORCE": "1"},  # else no servers, no modes
            session_ids="hex",
            start_errors=_TEXTS,
        ),
        _acp_engine(
            *("claude-acp", "@agentclientprotocol/claude-agent-acp", _CLAUDE_ACP_MODES, *_ALL_SESSIONS),
            **_FULL_ACP,
            program="claude-agent-acp",
            base_url="ANTHROPIC_BASE_URL",
            without=("CLAUDECODE",),
        ),
        _acp_engine(
            *("codex-acp", "@agentclientprotocol/codex-acp", _CODEX_ACP_MODES, *_ALL_SESSIONS),
            **_FULL_ACP,
        ),
        _acp_engine(
            *("gemini", "@google/gemini-cli", _GEMINI_MODES, "load"),
            start=("--acp",),
            base_url="GOOGLE_GEMINI_BASE_URL",
            missing_as_empty=True,
            env={"GEMINI_CLI_NO_RELAUNCH": "true"},  # else it starts itself a second time
        ),
        _acp_engine(
            *("opencode", "opencode-ai", _OPENCODE_MODES, "load", "resume", "list", "close", "fork"),
            start=("acp",),
            places=("~/.opencode/bin", *_NPM_PLACES),
        ),
        _acp_engine("kimi", "@moonshot-ai/kimi-code", _KIMI_MODES, *_ALL_SESSIONS, start=("acp",)),
        _acp_engine(
            *("goose", "@aaif/goose-binary-linux-x64", _GOOSE_MODES, "load", "list", "close", "delete"),
            steering=True,
            start=("acp", "--with-builtin", "developer"),
            base_url="OPENAI_HOST",
            places=("~/.local/bin", "/usr/local/bin"),
        ),
        _acp_engine(
            *("qwen", "@qwen-code/qwen-code", _QWEN_MODES, "load", "resume", "list"),
            start=("--acp",),
            base_url="OPENAI_BASE_URL",
        ),
        _acp_engine("copilot", "@github/copilot", {}, "load", "list", "close", start=("--acp",)),
    )
}


def engine_spec(name: str) -> EngineSpec:
    """The engine of this name, or of the name of the program at this path. Raises UnknownEngine."""
    spec = ENGINES.get(os.path.basename(name))
    if spec is None:
        raise UnknownEngine(f"there is no engine {name!r}; known are {', '.join(ENGINES)}")
    return replace(spec, program=os.path.abspath(name)) if os.sep in name else spec


def reported_as_it_goes(dialect: str, argv: Sequence[str]) -> frozenset[str]:
    """What an engine that is started so tells after each request, and not only at the end of a turn: tokens, cost."""
    if dialect == "jsonstream" and "--cost-updates" in argv:
        return frozenset(["cost"])
    return _TOLD.get(dialect, frozenset())


def command(engine: EngineSpec, wishes: Mapping[str, Any], extra: Sequence[str] = ()) -> list[str]:
    """How it is started. Raises InvalidValue for a wish that it has no flag for."""
    words = [*find(engine), *engine.start]
    for wish, value in wishes.items():
        if value in (None, "", ()) or wish in engine.over_wire:
            continue
        if wish == "mode":
            value = mode_of(engine, str(value))
        if wish == "resume" and value == "latest" and engine.latest:
            words += engine.latest
            continue
        if wish not in engine.flags:
            raise InvalidValue(
                f"{engine.name} cannot be told {wish!r} when it starts; it takes {', '.join(taken(engine))}"
            )
        for each in value if isinstance(value, tuple | list) else (value,):
            words += [part.replace("{}", str(each)) for part in engine.flags[wish]]
    return [*words, *extra]


def flag_parameters(engine: EngineSpec) -> dict[str, str]:
    """The parameter of `connect` that each flag of the engine stands for, with `=` for its value."""
    return {
        "--resume": "resume=",
        **{
            words[0].removesuffix("={}"): f"{name}=" if "{}" in "".join(words) else f"{name}=True"
            for name, words in engine.flags.items()
        },
    }


def taken(engine: EngineSpec) -> list[str]:
    """The options of `connect` that it can be told: by a flag, by its environment, once it listens, or by the SDK."""
    others = {"mode": engine.modes, "base_url": engine.base_url, "session": engine.session_ids == "own"}
    options = dict.fromkeys((*engine.flags, *engine.over_wire))
    return [*options, *(name for name, has in others.items() if has and name not in options)]


def wire_options(over_wire: Mapping[str, str], wishes: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the host side for wishes that an engine is told when its session is opened."""
    options = {option: wishes[wish] for wish, option in over_wire.items() if wishes.get(wish) not in (None, "", ())}
    if "session" in options:
        options["how"] = "resume"
    if isinstance(folders := options.get("folders"), str):
        options["folders"] = (folders,)
    return options


def absolute_paths(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """Paths are meant from where the caller is, not from where the work is."""
    return {name: _absolute(wish) if name in _PATHS else wish for name, wish in wishes.items()}


def _absolute(wish: Any) -> Any:
    match wish:
        case str() | os.PathLike() if wish:
            return os.path.abspath(wish)
        case tuple() | list():
            return [os.path.abspath(path) for path in wish]
    return wish


def mode_of(engine: EngineSpec, mode: str) -> str:
    """What it calls this mode. Raises InvalidValue if it has none like it."""
    if not engine.modes:
        raise InvalidValue(f"{engine.name} has no modes: it does everything unasked")
    if mode not in engine.modes:
        raise InvalidValue(f"{engine.name} has no mode {mode!r}; its modes are {', '.join(engine.modes)}")
    return engine.modes[mode]


def check_mode(engine: EngineSpec, mode: str) -> None:
    """Raises InvalidValue for a mode that an engine is told over its wire and does not have. Its own word is fine."""
    if mode and "mode" in engine.over_wire and engine.modes and mode not in engine.modes.values():
        mode_of(engine, mode)


def find(engine: EngineSpec) -> tuple[str, ...]:
    """Its program; if it cannot be found, its bare name, and starting it will say so.

    A program in the project around the current folder is passed over, also where that project's `.venv/bin` or
    `node_modules/.bin` is on PATH: it would run before anybody is asked. Its path can still be named.
    """
    if os.sep in engine.program:
        return (engine.program,)
    if engine.program == "polylect":
        return _POLYLECT  # the one that belongs to this library
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *map(os.path.expanduser, engine.places)))
    return (program_on(places, engine.program, outside=project()) or engine.program,)


def session_store(engine: EngineSpec, env: Mapping[str, str]) -> str:
    """The folder in which it keeps its sessions; empty if that is not known."""
    variable, usual, folder = engine.store
    home = env.get("HOME") or os.path.expanduser("~")
    return os.path.join(env.get(variable) or usual.replace("~", home), folder) if variable else ""


def variables(engine: EngineSpec, env: Mapping[str, str], base_url: str) -> dict[str, str]:
    """The environment it is started with. Nothing in it makes the workspace a place to load programs from."""
    environment = {name: value for name, value in absolute_only(env).items() if name not in engine.without}
    if base_url and engine.base_url:
        environment[engine.base_url] = base_url
    return {**engine.env, **environment}
