"""Answers that need no engine, for flags of the programs we stand in for: where settings are, which sessions exist."""

import os
from datetime import UTC, datetime

from polylect.app.cli.terminal import print_line
from polylect.app.startup import config
from polylect.sessions import folder

_EMPTY = """\
# Settings of polylect. `polylect --help` and docs/ say what there is; flags and the environment are stronger.

# [default]
# provider = "anthropic"
# model = "claude-sonnet-4-5"
# approval_mode = "default"
"""


def tell(flag: str, env: dict[str, str]) -> int:
    match flag:
        case "config_path":
            print_line(config.user_file(env))
        case "init_config":
            print_line(_init_config(config.user_file(env)))
        case _:
            for line in _sessions(folder.sessions_root(env)):
                print_line(line)
    return 0


def _init_config(path: str) -> str:
    """What is there already is left alone."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(_EMPTY)
    except FileExistsError:
        return f"{path} exists and was left as it is"
    return path


def _sessions(root: str) -> list[str]:
    """The most recently active first: when, which, and where its work is."""
    names = os.listdir(root) if os.path.isdir(root) else []
    logs = {name: os.path.join(root, name, "log.jsonl") for name in names}
    active = sorted(((os.stat(log).st_mtime, name) for name, log in logs.items() if os.path.isfile(log)), reverse=True)
    return [f"{_day(when)}  {name}  {folder.workspace_of(os.path.join(root, name))}" for when, name in active]


def _day(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
