"""Standing in for omp and pi: the flags of `--mode rpc`, and what they mean here.

`dialects/base.py` says what a dialect's `start` has; `app/main.py` and `app/startup/start.py` call it.
"""

import os

from polylect import __version__
from polylect.app.startup.args import Flags, Options, UsageError, common, parse
from polylect.dialects.omp.ready import READY
from polylect.sessions import folder
from polylect.system.clock_and_ids import new_id as new_id

EXIT_CODES = (78,)
"""Hosts of omp know no 2: what a person has to set first is told by 78, everything else by 1."""
SEVERAL_SESSIONS = False
FIRST_SESSION = True
_FLAGS: Flags = {
    **common(),
    "--mode": ("text", "wire"),
    "--slim": ("switch", "slim"),
    "--protocol": ("text", "omp_version"),
    "--provider": ("text", "provider"),
    "--model": ("text", "model"),
    "--thinking": ("text", "thinking_level"),
    "--system-prompt": ("text", "system_prompt"),
    "--append-system-prompt": ("list", "append_system_prompt"),
    "--tools": ("text", "tools"),
    "--no-tools": ("switch", "no_tools"),
    "--no-builtin-tools": ("switch", "no_tools"),
    "--exclude-tools": ("text", "excluded_tools"),
    "--approval-mode": ("text", "approval_mode"),
    "--auto-approve": ("switch", "force"),
    "--yolo": ("switch", "force"),
    "--name": ("text", "name"),
    "--add-dir": ("list", "folders"),
    "--no-session": ("switch", "no_session"),
    "--session-dir": ("text", "sessions_root"),
    "--session-id": ("text", "session_id"),
    "--continue": ("switch", "continue"),
    "--resume": ("text", "target"),
    "--session": ("text", "target"),
    "--fork": ("text", "fork"),
    "--extension": ("list", "their_extensions"),
    "--no-extensions": ("switch", "no_extensions"),
    # Accepted and noted: there is nothing here that they could switch.
    **dict.fromkeys(("--models", "--skills", "--skill", "--hook", "--plugin-dir"), ("text", "ignored")),
    **dict.fromkeys(("--smol", "--slow", "--plan", "--profile", "--alias", "--theme"), ("text", "ignored")),
    **dict.fromkeys(("--prompt-template", "--tui-mode", "--service-tier", "--max-time"), ("text", "ignored")),
    **dict.fromkeys(("--trusted-extension", "--system-prompt-template"), ("text", "ignored")),
    **dict.fromkeys(("--provider-session-id", "--prompt-cache-key"), ("text", "ignored")),
    **dict.fromkeys(("--allow-home", "--offline", "--verbose", "--hide-thinking", "--advisor"), ("switch", "ignored")),
    **dict.fromkeys(("--approve", "--no-approve", "--no-mcp"), ("switch", "ignored")),
    **dict.fromkeys(("--no-skills", "--no-rules", "--no-lsp", "--no-pty", "--no-title"), ("switch", "ignored")),
    **dict.fromkeys(("--no-context-files", "--no-prompt-templates", "--no-themes", "--no-ui"), ("switch", "ignored")),
}
_SHORT = {
    "-e": "--extension",
    "-c": "--continue",
    "-r": "--resume",
    "-h": "--help",
    "-v": "--version",
    "-V": "--version",
    "-m": "--model",
    "-n": "--name",
}
_TOOLS = {
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "bash": "Bash",
    "grep": "Grep",
    "find": "Glob",
    "glob": "Glob",
    "task": "Spawn",
    "todo_write": "TodoWrite",
    "web_fetch": "WebFetch",
    "ask": "AskUserQuestion",
}
"""Their names for tools, and ours."""
_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "inherit")
_VERSIONS = ("13", "18", "pi")


def options(words: list[str], program: str, env: dict[str, str]) -> Options:
    """The settings that these words ask for. Raises UsageError, whose text says what would be right."""
    options, rest = parse(words, _FLAGS, _SHORT)
    if options.setdefault("omp_version", "pi" if program == "pi" else "13") not in _VERSIONS:
        raise UsageError(f"--protocol {options['omp_version']!r}: choose one of {', '.join(_VERSIONS)}")
    if options.pop("wire", "rpc") not in ("rpc", "rpc-ui"):  # the second has dialogs of tools, which we have in both
        raise UsageError("--mode rpc is the one mode there is here")
    if any(word.startswith("@") for word in rest):
        raise UsageError("@file arguments are not supported in RPC mode: name the file in a prompt")
    if rest:
        raise UsageError(f"{rest[0]!r} is not a flag; a prompt is sent as a command on stdin")
    if (level := options.get("thinking_level", "off")) not in _LEVELS:
        raise UsageError(f"--thinking {level!r}: choose one of {', '.join(_LEVELS[:7])}")
    if "approval_mode" in options:
        from polylect.vocab.modes import OMP_MODES  # only where a mode is named

        modes = {word: mode for mode, word in OMP_MODES.items()}
        options["approval_mode"] = modes.get(str(options["approval_mode"]), options["approval_mode"])
    if isinstance(excluded := options.pop("excluded_tools", None), str):
        options["deny"] = _tool_names(excluded)
    if options.pop("no_tools", False):
        options["tools"] = []
    elif isinstance(named := options.get("tools"), str):
        options["tools"] = _tool_names(named)
    _choose_model(options)
    _choose_session(options)
    _choose_extensions(options)
    # Its wire has no word for approval, so nothing is asked unless somebody says so.
    return {"approval_mode": "force", **options}


def _tool_names(named: str) -> list[str]:
    """Our names for tools that are listed with commas."""
    return [_TOOLS.get(name.strip(), name.strip()) for name in named.split(",") if name.strip()]


def _choose_model(options: Options) -> None:
    """`provider/name`, and an ending `:high` that says how hard to think, both in one word."""
    model = str(options.get("model") or "")
    name, _, level = model.rpartition(":")
    if name and level in _LEVELS:
        options.setdefault("thinking_level", level)
        model = name
    provider, _, name = model.partition("/")
    from polylect.providers.check import providers  # loaded before `ready` anyway

    if name and provider in providers() and options.get("provider") in (None, provider):
        options["provider"], model = provider, name
    if model:
        options["model"] = model


def _choose_session(options: Options) -> None:
    """A session is named by its id or by the path of a file, which may be another engine's."""
    target = str(options.pop("target", None) or options.get("fork") or "")
    if os.sep in target or target.endswith(".jsonl"):
        if not os.path.exists(target):
            raise UsageError(f"there is no session file {target}")
        options["session_file"] = os.path.abspath(target)
        if "fork" in options:
            options["fork"] = True
    elif target:
        options["resume"] = target
        if "fork" in options:
            options["fork"] = True


def _choose_extensions(options: Options) -> None:
    """Theirs are TypeScript; ours are Python."""
    named = options.pop("their_extensions", [])
    assert isinstance(named, list)
    if options.pop("no_extensions", False):
        return
    options["extensions"] = [path for path in named if path.endswith(".py")]
    if others := [path for path in named if not path.endswith(".py")]:
        ignored = options.get("ignored")
        options["ignored"] = [
            *(ignored if isinstance(ignored, list) else []),
            *(f"--extension {path}" for path in others),
        ]


def ready(values: Options, session: str) -> bytes:
    return READY[str(values["omp_version"])]


def codec_options(values: Options, env: dict[str, str], session: str) -> Options:
    """What its wire has to know of the start."""
    return {
        "version": values["omp_version"],
        "slim": bool(values.get("slim")),
        "provider": values["provider"],
        "model": values.get("model") or "",
    }


new_session_id = folder.new_id


def prepare(options: Options) -> None:
    """Nothing more is needed: prompts come as commands."""


def version(program: str) -> str:
    return f"{program} {__version__}"


def refusal(message: str, options: Options, session: str, *, ready: bool) -> bytes:
    """The end of a conversation that could not be begun; before `ready` only stderr tells it."""
    if not ready:
        return b""
    import json  # only where something is broken

    return (
        json.dumps({"type": "extension_error", "extensionPath": "engine", "event": "start", "error": message}).encode()
        + b"\n"
    )
