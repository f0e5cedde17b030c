"""`polylect chat`: a conversation in the terminal with any engine.

This module parses the flags, connects to the engine and makes a `Chat` (`tui/chat.py`) for it. When the person changes
to another session and the engine cannot do that while it runs, the loop in `_chat` starts the engine again. If that
start fails, the previous session is opened again.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from polylect.app.cli import engine_choice
from polylect.app.cli.terminal import print_error
from polylect.app.startup import config, start
from polylect.host.errors import EngineDied
from polylect.sessions import folder
from polylect.vocab.escape import escape_controls

if TYPE_CHECKING:
    from polylect.tui.chat import SessionLister
    from polylect.vocab.answers import SessionCard

_PARAMETERS = ("resume", "provider", "model", "mode", "base_url", "system_prompt", "script")
"""Those of `connect` that are flags of this command."""


def main(words: list[str]) -> int:
    options = _parser().parse_args(words)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("polylect chat needs a terminal; in a script use polylect run", file=sys.stderr)
        return 2
    try:
        import prompt_toolkit
        import rich
    except ImportError:
        print("polylect chat needs two libraries more: pip install 'polylect[chat]'", file=sys.stderr)
        return 78
    del prompt_toolkit, rich
    try:
        return asyncio.run(_chat(options))
    except KeyboardInterrupt:
        return 130
    except (EngineDied, ValueError, LookupError) as error:
        print_error(engine_choice.in_flags(str(error)), "polylect chat", several_lines=True)
        return 78 if isinstance(error, EngineDied) else 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("polylect chat", description="Talk with an engine in the terminal.")
    add = parser.add_argument
    add("--engine", default="polylect", help=engine_choice.HELP)
    add("--dialect", metavar="WIRE", default="", help=engine_choice.DIALECT_HELP)
    add("--cwd", metavar="FOLDER", default=".", help="where the work is")
    add("--resume", metavar="ID", help="go on with a session; latest is the newest here")
    for name in _PARAMETERS[1:]:
        add(f"--{name.replace('_', '-')}")
    return parser


async def _chat(options: argparse.Namespace) -> int:
    from rich.console import Console

    from polylect.host.connecting import connect
    from polylect.tui.chat import Chat, SwitchSession

    engine_options = {name: getattr(options, name) for name in _PARAMETERS if getattr(options, name) is not None}
    engine, engine_options = engine_choice.resolve_engine(options.engine, options.dialect, engine_options)
    restarts = 3 if isinstance(engine, str) else 0  # another program would start a new session without saying so
    console, previous = Console(), engine_options
    while True:
        try:
            async with connect(engine, cwd=options.cwd, restarts=restarts, **engine_options) as agent:
                previous = engine_options
                chat = Chat(
                    agent,
                    console,
                    sessions=_session_lister(engine, options.cwd),
                    session_fault=partial(_session_fault, engine, options.cwd),
                    history=_history_file(),
                )
                return await chat.run()
        except SwitchSession as switch:
            without_session = {name: value for name, value in engine_options.items() if name != "resume"}
            previous = _with_session(switch.previous or engine_options.get("resume", ""), without_session)
            engine_options = _with_session(switch.session, without_session)
        except (EngineDied, ValueError) as error:
            if previous is engine_options:
                raise
            console.print(escape_controls(engine_choice.in_flags(str(error))), style="red", markup=False)
            engine_options = previous


def _with_session(session: str, options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "resume": session} if session else options


def _session_lister(engine: str | list[str], cwd: str) -> "SessionLister":
    from polylect.host.errors import Unsupported
    from polylect.host.sessions import list_sessions

    async def cards() -> "Sequence[SessionCard]":
        if not isinstance(engine, str):
            raise Unsupported("this engine does not tell from outside which sessions it has")
        return await list_sessions(engine, cwd=cwd)

    return cards


def _session_fault(engine: str | list[str], cwd: str, session: str) -> str:
    """Why a session cannot be opened. Empty if it can, or if only its engine knows."""
    if engine != "polylect":
        return ""
    env, workspace = dict(os.environ), os.path.realpath(cwd)
    try:
        root = start.sessions_root(config.gather({}, env, workspace, []), env)
        folder.check_resumable(root, folder.find_session(root, session, workspace))
    except (folder.FolderError, config.ConfigError) as error:
        return str(error)
    return ""


def _history_file() -> str:
    """The file with the lines that were typed before, beside the sessions; its folder is created."""
    home = os.path.dirname(folder.sessions_root(dict(os.environ)))
    os.makedirs(home, mode=0o700, exist_ok=True)
    return os.path.join(home, "chat-history")
