"""Standing in for the claude program: its flags, and what they mean here.

`dialects/base.py` says what a dialect's `start` has; `app/main.py` and `app/startup/start.py` call it.
"""

import os

from polylect import __version__
from polylect.app.startup.args import Flags, Options, UsageError, common, parse
from polylect.dialects.claude.start_environment import EFFORTS, full_model, is_on, settings_places
from polylect.dialects.claude.start_environment import settings as environment_settings
from polylect.dialects.claude.versions import OUR_MODES

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from polylect.dialects.claude.start_files import Files

EXIT_CODES = ()
"""This program ends with 1, whatever was wrong."""
SEVERAL_SESSIONS = False
FIRST_SESSION = True
VERSION = "2.1.325"
"""Whose wire this is; hosts accept any 2.x."""
_FLAGS: Flags = {
    **common(),
    # What goes in and comes out.
    "--print": ("switch", "print"),
    "--output-format": ("text", "output_format"),
    "--input-format": ("text", "input_format"),
    "--verbose": ("switch", "verbose"),
    "--include-partial-messages": ("switch", "partial"),
    "--replay-user-messages": ("switch", "replay"),
    "--forward-subagent-text": ("switch", "forward_agents"),
    "--strict-input": ("switch", "strict_input"),
    "--json-schema": ("text", "json_schema"),
    # The model.
    "--provider": ("text", "provider"),
    "--model": ("text", "model"),
    "--fallback-model": ("text", "fallback_model"),
    "--effort": ("text", "effort"),
    "--thinking": ("text", "thinking"),
    "--max-thinking-tokens": ("count", "max_thinking_tokens"),
    "--system-prompt": ("text", "system_prompt"),
    "--system-prompt-file": ("text", "system_prompt_file"),
    "--append-system-prompt": ("list", "append_system_prompt"),
    "--append-system-prompt-file": ("text", "append_system_prompt_file"),
    "--max-budget-usd": ("amount", "budget:max_cost_usd"),
    "--agents": ("text", "agents"),
    # Rights.
    "--permission-mode": ("text", "approval_mode"),
    "--dangerously-skip-permissions": ("switch", "force"),
    "--permission-prompt-tool": ("text", "prompt_tool"),
    "--permission-prompts": ("text", "prompts"),
    "--tools": ("words", "tools"),
    "--allowedTools": ("words", "allowed"),
    "--allowed-tools": ("words", "allowed"),
    "--disallowedTools": ("words", "disallowed"),
    "--disallowed-tools": ("words", "disallowed"),
    "--add-dir": ("words", "folders"),
    "--extension": ("list", "extensions"),
    "--settings": ("text", "their_settings"),
    "--setting-sources": ("text", "setting_sources"),
    "--mcp-config": ("words", "mcp_config"),
    "--strict-mcp-config": ("switch", "strict_mcp"),
    # The session.
    "--session-id": ("text", "session_id"),
    "--resume": ("optional", "resume"),
    "--continue": ("switch", "continue"),
    "--fork-session": ("switch", "fork"),
    "--resume-session-at": ("text", "resume_at"),
    "--no-session-persistence": ("switch", "no_session"),
    "--name": ("text", "name"),
    # Accepted with a note on standard error: they have no effect here.
    **dict.fromkeys(("--session-mirror", "--restricted", "--brief", "--safe-mode"), ("switch", "ignored")),
    **dict.fromkeys(("--disable-slash-commands", "--include-hook-events"), ("switch", "ignored")),
    **dict.fromkeys(("--plugin-dir", "--plugin-url", "--betas", "--file"), ("text", "ignored")),
    **dict.fromkeys(("--task-budget", "--resume-drops-turn", "--agent"), ("text", "ignored")),
    **dict.fromkeys(("--worktree", "--from-pr", "--remote-control", "--teleport", "--tmux"), ("optional", "ignored")),
    **dict.fromkeys(("--bg", "--background", "--cloud", "--desktop"), ("switch", "ignored")),
    **dict.fromkeys(("--autocompact", "--environment"), ("text", "ignored")),
    # Accepted silently: SDKs send these at every start, and they change nothing here.
    **dict.fromkeys(("--allow-dangerously-skip-permissions", "--bare"), ("switch", "needless")),
    **dict.fromkeys(("--ide", "--chrome", "--no-chrome", "--ax-screen-reader"), ("switch", "needless")),
    **dict.fromkeys(("--exclude-dynamic-system-prompt-sections",), ("switch", "needless")),
    **dict.fromkeys(("--thinking-display",), ("text", "needless")),
    **dict.fromkeys(("--system-prompt-snapshot", "--debug-file"), ("text", "needless")),
    **dict.fromkeys(("--debug", "--prompt-suggestions"), ("optional", "needless")),
}
_SHORT = {
    "-p": "--print",
    "-c": "--continue",
    "-r": "--resume",
    "-n": "--name",
    "-d": "--debug",
    "-w": "--worktree",
    "-v": "--version",
    "-h": "--help",
}
_THEIR_COMMANDS = (
    *("agents", "attach", "auth", "auto-mode", "doctor", "gateway", "import", "install", "logs", "mcp", "plugin"),
    *("purge", "respawn", "rm", "setup-token", "stop", "ultrareview", "update"),
)
_MODES = tuple(sorted(OUR_MODES))
_OUTPUTS = ("text", "json", "stream-json")
_KEY = "ANTHROPIC_API_KEY"
_SILENCE = 1.0
"""Seconds to wait for something on stdin if there is a prompt already."""


def options(words: list[str], program: str, env: dict[str, str]) -> Options:
    """The settings of a command line. Raises UsageError, which says what would be right."""
    options, rest = parse(words, _FLAGS, _SHORT)
    options.pop("needless", None)
    flag_settings, files = _read_flag_settings(options), _read_files(options, env)
    environment = _variables(files, flag_settings)
    env = env | environment
    from_flags = dict(options)
    _choose_form(options, rest)
    _choose_model(options, env)
    _choose_prompt(options)
    _choose_rights(options)
    _choose_session(options, program)
    for name in ("agents", "json_schema"):
        if name in options:
            options[name] = _object(f"--{name.replace('_', '-')}", str(options[name]))
    if servers := _servers(options.pop("mcp_config", [])):
        options["mcp_servers"] = servers
    _apply_flag_settings(options, flag_settings, env)
    _check_limits(options)
    _apply_files(options, files, env)
    if environment:
        from polylect.system.child_environment import is_secret

        options |= {"environment": environment, "sandbox_env": [name for name in environment if not is_secret(name)]}
    return {
        **_from_environment(env, from_flags),
        **options,
        "long_tool_names": True,
        "one_agent": True,
        "budget_anew": "budget:max_cost_usd" in options,  # hosts compare it with total_cost_usd
        "checkpoints": is_on(env, "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"),
    }


def _from_environment(env: dict[str, str], flags: Options) -> Options:
    """The settings of variables, without those about thinking if a flag is about thinking."""
    options = environment_settings(env)
    if "thinking" in flags or "max_thinking_tokens" in flags:
        options = {name: value for name, value in options.items() if not name.startswith("thinking")}
    return options


def _choose_form(options: Options, rest: list[str]) -> None:
    output = options.setdefault("output_format", "text")
    source = options.setdefault("input_format", "text")
    if output not in _OUTPUTS:
        raise UsageError(f"--output-format {output}: choose one of {', '.join(_OUTPUTS)}")
    if source not in ("text", "stream-json"):
        raise UsageError(f"--input-format {source}: choose text or stream-json")
    if source == "stream-json" and output != "stream-json":
        raise UsageError("--input-format stream-json needs --output-format stream-json")
    if options.get("print") and output == "stream-json" and not options.get("verbose"):
        raise UsageError("--print with --output-format stream-json needs --verbose")
    if options.get("partial") and output != "stream-json":
        raise UsageError("--include-partial-messages needs --output-format stream-json")
    if rest and rest[0] in _THEIR_COMMANDS and not options.get("print"):
        raise UsageError(f"{rest[0]!r} is a command of another program; this one has conversations only: -p 'a prompt'")
    if len(rest) > 1:
        raise UsageError(f"one prompt is enough: {rest[1]!r} is a second one; put it in quotes")
    if rest and source == "text":
        options["prompt"] = rest[0]


def prepare(options: Options) -> None:
    """Read the prompt, unless prompts come as lines: from the command line, from stdin or both. Raises UsageError."""
    if options["input_format"] != "text":
        return
    prompt = str(options.get("prompt") or "")
    if piped := _piped(wait=not prompt):
        options["prompt"] = f"{prompt}\n\n{piped}" if prompt else piped
    if not options.get("prompt"):
        raise UsageError("there is no prompt: give it as an argument, or on stdin")


def _piped(*, wait: bool) -> str:
    """The text on stdin. It is empty for a terminal and, unless `wait`, if nothing comes within `_SILENCE` seconds."""
    import select  # only where there is a prompt on the command line

    if os.isatty(0) or not (wait or select.select([0], [], [], _SILENCE)[0]):
        return ""
    with open(0, "rb", closefd=False) as stdin:
        return stdin.read().decode("utf-8", "replace").strip()


def _choose_model(options: Options, env: dict[str, str]) -> None:
    if options.get("model") in ("", "default"):
        del options["model"]
    if "model" in options:
        options["model"] = full_model(str(options["model"]), env)
    if usual := env.get("ANTHROPIC_MODEL"):
        options["usual_model"] = full_model(usual, env)
    if names := [name.strip() for name in str(options.pop("fallback_model", "")).split(",") if name.strip()]:
        options |= {"chain_enabled": True, "fallbacks": [f"anthropic:{full_model(name, env)}" for name in names]}
    tokens, thinking = options.pop("max_thinking_tokens", None), options.pop("thinking", None)
    if thinking not in (None, "adaptive", "enabled", "disabled"):
        raise UsageError(f"--thinking {thinking}: choose adaptive, enabled or disabled")
    if thinking or tokens is not None:
        on = tokens if tokens is not None else thinking != "disabled"
        options |= {"thinking": "enabled" if on else "disabled"} | ({"thinking_budget": tokens} if tokens else {})


def _check_limits(options: Options) -> None:
    if (effort := options.get("effort")) and effort not in EFFORTS:
        raise UsageError(f"--effort {effort}: choose one of {', '.join(EFFORTS)}")
    if options.get("max_turns") == 0:
        raise UsageError("--max-turns takes a number above zero")
    if isinstance(agents := options.get("agents"), dict):
        from polylect.engine.subagents.personas import described_by  # only where a host describes some

        try:
            described_by(agents)
        except ValueError as error:
            raise UsageError(f"--agents: {error}") from None


def _choose_prompt(options: Options) -> None:
    """Join all texts for the system prompt. Our own comes before them."""
    parts = [str(options.pop("system_prompt", ""))]
    for name in ("system_prompt_file", "append_system_prompt_file"):
        if path := options.pop(name, ""):
            try:
                with open(str(path), encoding="utf-8") as file:
                    parts.append(file.read())
            except (OSError, ValueError) as error:
                raise UsageError(f"--{name.replace('_', '-')} {path}: {error}") from None
    if any(parts):
        options["system_prompt"] = "\n\n".join(filter(None, parts))


def _choose_rights(options: Options) -> None:
    mode = options.get("approval_mode", "default")
    if mode not in _MODES:
        raise UsageError(f"--permission-mode {mode}: choose one of {', '.join(_MODES)}")
    if mode in ("manual", "auto"):
        options["approval_mode"] = "default"
    options["prompts"] = options.pop("prompt_tool", "") == "stdio" and options.get("prompts") != "none"
    allowed, forbidden = _rules(options.pop("allowed", [])), _rules(options.pop("disallowed", []))
    if allowed:
        options["allow"] = [*_rules(options.get("allow", [])), *allowed]
    if denied := [rule for rule in forbidden if "(" in rule or rule.startswith("mcp__")]:
        options["deny"] = [*_rules(options.get("deny", [])), *denied]
    if without := [rule for rule in forbidden if "(" not in rule]:
        options["without"] = without
    if isinstance(named := options.pop("tools", None), list) and "default" not in (tools := _rules(named)):
        options["tools"] = tools


def _rules(texts: object) -> list[str]:
    """Split rules at commas and blanks outside parentheses."""
    assert isinstance(texts, list)
    if not any(texts):
        return []
    from polylect.permissions.rules import BadRule, split  # only where somebody has rules

    try:
        return [rule for text in texts for rule in split(text)]
    except BadRule as error:
        raise UsageError(f"Invalid permission rule {error}") from None


def _choose_session(options: Options, program: str) -> None:
    session = options.get("session_id")
    if session is not None and program == "claude" and not _is_uuid(str(session)):
        raise UsageError("Invalid session ID. Must be a valid UUID.")
    if options.get("resume") is True:
        raise UsageError("--resume needs the id of a session: there is nobody here to choose one")
    if options.get("fork") and not (options.get("resume") or options.get("continue")):
        raise UsageError("--fork-session goes with --resume or --continue")
    if "resume_at" in options and not (options.get("resume") or options.get("continue")):
        raise UsageError("--resume-session-at goes with --resume or --continue")
    if session and (options.get("resume") or options.get("continue")) and not options.get("fork"):
        raise UsageError("--session-id goes with --resume or --continue only together with --fork-session")


def new_id() -> str:
    """As theirs: a random UUID."""
    digits = bytearray(os.urandom(16))
    digits[6] = digits[6] & 0x0F | 0x40
    digits[8] = digits[8] & 0x3F | 0x80
    text = digits.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


new_session_id = new_id


def version(program: str) -> str:
    return f"{VERSION} (Claude Code)" if program == "claude" else f"{program} {__version__}"


def refusal(message: str, options: Options, session: str, *, ready: bool) -> bytes:
    """The result line of a conversation that could not begin; empty if the output is text."""
    if not ready and options.get("output_format") == "text":
        return b""
    import json  # only where something is broken

    result = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": [message]}
    counts = dict.fromkeys(("duration_ms", "duration_api_ms", "num_turns", "total_cost_usd"), 0)
    rest = {"usage": {}, "modelUsage": {}, "permission_denials": [], "session_id": session, "uuid": new_id()}
    return json.dumps({**result, **counts, **rest}).encode() + b"\n"


def _is_uuid(text: str) -> bool:
    parts = text.lower().split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and set("".join(parts)) <= set("0123456789abcdef")


def _object(flag: str, text: str) -> dict[str, object]:
    """The object that a flag has as JSON, or that is in the file it names. Raises UsageError."""
    import json  # only where a flag holds some

    try:
        if not text.lstrip().startswith("{"):
            from polylect.app.startup.config import read_bounded

            text = read_bounded(text).decode()
        value = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{flag} is neither an object in JSON nor a file with one: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{flag} has to be an object in JSON")
    return value


def _servers(places: object) -> dict[str, object]:
    """The servers of `{"mcpServers": {"name": {...}}}`, as our own settings have them."""
    assert isinstance(places, list)
    servers: dict[str, object] = {}
    for text in places:
        value = _object("--mcp-config", text).get("mcpServers")
        if not isinstance(value, dict):
            raise UsageError('--mcp-config has to be an object like {"mcpServers": {...}}')
        servers |= {name: _server("--mcp-config", name, server) for name, server in value.items()}
    return servers


def _server(place: str, name: str, server: object) -> dict[str, object]:
    if not isinstance(server, dict):
        raise UsageError(f"{place}: the server {name!r} has to be an object")
    kind = str(server.get("type") or ("http" if server.get("url") else "stdio"))
    fields = {key: value for key, value in server.items() if key not in ("type", "name", "instance")}
    return {**fields, "transport": {"sdk": "host"}.get(kind, kind)}


def _read_flag_settings(options: Options) -> dict[str, object]:
    settings = options.pop("their_settings", None)
    return _object("--settings", str(settings)) if settings is not None else {}


def _read_files(options: Options, env: dict[str, str]) -> "Files | None":
    """The settings files of claude, where there are any."""
    try:
        places = settings_places(str(options.get("workspace") or os.getcwd()), env)
    except FileNotFoundError:  # the folder is gone, which the start itself reports
        return None
    named = options.get("setting_sources")
    if named == "" or (named is None and not any(map(os.path.lexists, places.values()))):
        return None
    from polylect.dialects.claude.start_files import read  # only where there are some

    return read(options, env)


def _variables(files: "Files | None", flag_settings: dict[str, object]) -> dict[str, str]:
    """The variables that settings add to the environment; the strongest settings come last."""
    from_files = [(file.place, file.settings) for file in reversed(files.settings)] if files else []
    environment: dict[str, str] = {}
    for place, settings in [*from_files, ("--settings", flag_settings)]:
        if settings.get("env"):
            from polylect.dialects.claude.start_settings import variables

            environment |= variables(place, settings)
    return environment


def _apply_flag_settings(options: Options, settings: dict[str, object], env: dict[str, str]) -> None:
    if settings:
        from polylect.dialects.claude.start_settings import apply_flag_settings  # only where a host has some

        apply_flag_settings(options, settings, env)


def _apply_files(options: Options, files: "Files | None", env: dict[str, str]) -> None:
    if files:
        from polylect.dialects.claude.start_settings import apply_files  # only where there are some

        servers = {name: _server(".mcp.json", name, server) for name, server in files.servers.items()}
        apply_files(options, files, servers, env)


def ready(values: Options, session: str) -> bytes:
    """Nothing: `system/init` comes with the first prompt."""
    return b""


def codec_options(values: Options, env: dict[str, str], session: str) -> Options:
    """The options of `EngineSide` (engine/codec.py) for this start."""
    switches = ("partial", "replay", "forward_agents", "prompts")
    state_events = is_on(env, "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS")
    from polylect.dialects.claude.start_lines import line_id  # the engine, which is there by now

    hidden: object = "hidden" if is_on(env, "CLAUDE_CODE_SDK_READS_SESSION_STATE") else False
    return {
        **{name: bool(values.get(name)) for name in switches},
        "session": session,
        "cwd": values["workspace"],
        "model": values.get("model") or "",
        "mode": values["mode"],
        "strict": bool(values.get("strict_input")),
        "session_state": state_events or hidden,
        "key_source": _KEY if values["provider"] == "anthropic" and env.get(_KEY) else "none",
        "output": values["output_format"],
        "prompt": values.get("prompt") or "",
        "line_id": line_id,
        "max_output": lambda model: _max_output(model, values.get("models")),
    }


def _max_output(model: str, own: object) -> int:
    """The most output tokens of a model, 0 if unknown. Called at the end of a turn, so its import delays no start."""
    from polylect.providers.models import Catalogue

    return Catalogue(own if isinstance(own, dict) else None).row(model).max_output
