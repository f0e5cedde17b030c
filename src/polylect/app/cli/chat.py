"""`polylect chat`: a conversation in the terminal with any engine."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polylect.app.cli import engine_choice
from polylect.app.cli.terminal import print_error
from polylect.host.errors import EngineDied
from polylect.vocab.escape import escape_controls

if TYPE_CHECKING:
    from polylect.tui.chat import Listing
    from polylect.vocab.answers import SessionCard


def main(words: list[str]) -> int:
    wanted = _parser().parse_args(words)
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
        return asyncio.run(_chat(wanted))
    except KeyboardInterrupt:
        return 130
    except (EngineDied, ValueError, LookupError) as error:
        print_error(error, "polylect chat", several_lines=True)
        return 78 if isinstance(error, EngineDied) else 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("polylect chat", description="Talk with an engine in the terminal.")
    say = parser.add_argument
    say("--engine", default="polylect", help=engine_choice.HELP)
    say("--dialect", metavar="WIRE", default="", help=engine_choice.DIALECT_HELP)
    say("--cwd", metavar="FOLDER", default=".", help="where the work is")
    say("--resume", metavar="ID", help="go on with a session; latest is the newest here")
    for name in ("provider", "model", "mode", "base-url", "system-prompt", "script"):
        say(f"--{name}", dest=name.replace("-", "_"))
    return parser


async def _chat(wanted: argparse.Namespace) -> int:
    from rich.console import Console

    from polylect.host.connecting import connect
    from polylect.tui.chat import Chat, Elsewhere

    wishes = ("resume", "provider", "model", "mode", "base_url", "system_prompt", "script")
    told = {name: getattr(wanted, name) for name in wishes if getattr(wanted, name) is not None}
    engine, told = engine_choice.chosen(wanted.engine, wanted.dialect, told)
    restarts = 3 if isinstance(engine, str) else 0  # others would begin anew without a word
    console, back = Console(), told
    while True:
        try:
            async with connect(engine, cwd=wanted.cwd, restarts=restarts, **told) as agent:
                back = told
                return await Chat(agent, console, sessions=_listing(engine, wanted.cwd), history=_history()).run()
        except Elsewhere as place:
            rest = {name: wish for name, wish in told.items() if name != "resume"}
            back = _in(place.left or told.get("resume", ""), rest)
            told = _in(place.session, rest)
        except (EngineDied, ValueError) as error:
            if back is told:
                raise
            console.print(escape_controls(str(error)), style="red", markup=False)
            told = back


def _in(session: str, told: dict[str, Any]) -> dict[str, Any]:
    return {**told, "resume": session} if session else told


def _listing(engine: str | list[str], cwd: str) -> "Listing":
    from polylect.host.errors import Unsupported
    from polylect.host.sessions import list_sessions

    async def cards() -> "Sequence[SessionCard]":
        if not isinstance(engine, str):
            raise Unsupported("this engine does not tell from outside which sessions it has")
        return await list_sessions(engine, cwd=cwd)

    return cards


def _history() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    folder = os.path.join(os.environ.get("POLYLECT_HOME") or os.path.join(state, "polylect"))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, "chat-history")
