"""Answers flags that need no engine, as --config-path, and the subcommands of aionrs that replaced them.

These are flags of wayland-core and aionrs, whose hosts call them before or instead of a conversation. `main.py` calls
`print_answer` and exits with its code.
"""

import os
from datetime import UTC, datetime

from polylect.app.cli.terminal import print_line
from polylect.app.startup import config
from polylect.sessions import folder

_TEMPLATE = """\
# Settings of polylect. `polylect --help` and docs/ say what there is; flags and the environment are stronger.

# [default]
# provider = "anthropic"
# model = "claude-sonnet-4-5"
# approval_mode = "default"
"""


def print_answer(flag: str, env: dict[str, str]) -> int:
    """Prints the answer to a flag, by the name of its option, and returns the exit code."""
    match flag:
        case "config_path":
            print_line(config.user_file(env))
        case "init_config":
            print_line(_init_config(config.user_file(env)))
        case "skills_path":
            print_line(os.path.join(os.path.dirname(config.user_file(env)), "skills"))
        case _:
            for line in _session_lines(folder.sessions_root(env)):
                print_line(line)
    return 0


def _init_config(path: str) -> str:
    """Writes a file of settings with everything commented out, unless there is one. Returns the line to print."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(_TEMPLATE)
    except FileExistsError:
        return f"{path} exists and was left as it is"
    return path


def _session_lines(root: str) -> list[str]:
    """A line for each session, the most recently active first: its time, its id and its workspace."""
    names = os.listdir(root) if os.path.isdir(root) else []
    logs = {name: os.path.join(root, name, "log.jsonl") for name in names}
    active = sorted(((os.stat(log).st_mtime, name) for name, log in logs.items() if os.path.isfile(log)), reverse=True)
    return [f"{_timestamp(when)}  {name}  {folder.workspace_of(os.path.join(root, name))}" for when, name in active]


def _timestamp(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
