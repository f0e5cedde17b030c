"""`polylect run "prompt"`: one task for any engine, for scripts and continuous integration."""

import argparse
import gc
import os
import signal
import sys
from functools import partial
from typing import Any

import msgspec

from polylect.app import ahead, which_engine
from polylect.app.policy import rule_fault
from polylect.app.who_answers import NoProvider, known_provider
from polylect.host import known
from polylect.vocab import json_schema

FAILED, USAGE = 1, 2
_WISHES = ("provider", "model", "mode", "resume", "script", "base_url", "system_prompt", "max_turns")
_ENDS = """\
exit codes: 0 done, 1 failed, 2 usage, 3 something needed approval and nobody was there, 4 budget, time or turn limit,
5 the answer does not fit the schema, 75 try again later, 78 the engine cannot be started, 130 Ctrl-C, 143 SIGTERM"""


class Bad(Exception):
    """The command line makes no sense."""


def main(words: list[str]) -> int:
    try:
        wanted = _parser().parse_args(words)
        prompt = _prompt(wanted)
        schema = _schema(wanted.schema)
        if fault := rule_fault([*wanted.allow, *wanted.deny]):
            raise Bad(fault)
        wishes = {name: getattr(wanted, name) for name in _WISHES if getattr(wanted, name) is not None}
        wanted.engine, wishes = which_engine.chosen(wanted.engine, wanted.dialect, wishes)
        wishes |= _forbidden(wanted)
        engine = _ahead(wanted, wishes)
        from polylect.app.one_task import run  # while the engine imports its own half

        gc.enable()
        return run(wanted, prompt, schema, wishes, engine)
    except (Bad, ValueError, LookupError) as error:
        print(f"polylect run: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        raise  # whoever reads has seen enough
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to be written would fail again
        print(f"polylect run: stdin or stdout: {error.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    shape = partial(argparse.RawDescriptionHelpFormatter, width=_width())
    about = "Give one task to an engine."
    parser = argparse.ArgumentParser("polylect run", description=about, epilog=_ENDS, formatter_class=shape)
    say = parser.add_argument
    say("prompt", help="what is to be done; - reads it from stdin")
    say("--engine", default="polylect", help=which_engine.HELP)
    say("--dialect", metavar="WIRE", default="", help=which_engine.DIALECT_HELP)
    say("--output", choices=("text", "json", "jsonl"), default="text", help="the answer, the result, or every event")
    say("--schema", metavar="FILE", help="a JSON Schema that the answer has to fit")
    say("--allow", metavar="RULE", action="append", default=[], help="what may be done, as 'Bash(git log:*)' or Edit")
    say("--deny", metavar="RULE", action="append", default=[], help="what may not, whatever is allowed")
    say("--yes", action="store_true", help="allow everything the engine asks for")
    say("--budget", metavar="DOLLARS", type=_amount, default=0.0, help="stop when it has cost more")
    say("--timeout", metavar="SECONDS", type=_amount, default=0.0, help="stop when it takes longer")
    say("--idle", metavar="SECONDS", type=_amount, default=0.0, help="stop when nothing is heard for so long")
    say("--file", metavar="PATH", action="append", default=[], help="a file for the model to look at")
    say("--cwd", metavar="FOLDER", default=".", help="where the work is")
    say("--max-turns", metavar="NUMBER", type=_number, help="stop after so many requests to the model")
    for name in ("provider", "model", "mode", "resume", "script", "base-url", "system-prompt"):
        say(f"--{name}", dest=name.replace("-", "_"))
    return parser


def _width() -> int:
    """argparse would load shutil for it, and with that all that compresses: 4 ms."""
    try:
        return os.get_terminal_size(1).columns - 2
    except OSError:
        return 118


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount above zero")
    return amount


def _number(text: str) -> str:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return text


def _prompt(wanted: argparse.Namespace) -> str:
    prompt: str = wanted.prompt
    if prompt == "-":
        prompt = sys.stdin.read() if sys.stdin is not None else ""
    if not prompt.strip():
        raise Bad("the prompt is empty")
    if not os.path.isdir(wanted.cwd):
        raise Bad(f"--cwd {wanted.cwd}: there is no such folder")
    return prompt


def _schema(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            schema: dict[str, Any] = msgspec.json.decode(file.read())
    except (OSError, msgspec.DecodeError) as error:
        raise Bad(f"--schema {path}: {error}") from None
    if fault := json_schema.fault_in(schema):
        raise Bad(f"--schema {path}: it is no JSON Schema: {fault}")
    return schema


def _forbidden(wanted: argparse.Namespace) -> dict[str, Any]:
    """An engine that does things unasked has to know itself what it may not."""
    engine = known.ENGINES.get(wanted.engine) if wanted.deny and isinstance(wanted.engine, str) else None
    if engine is None:
        return {}
    if engine.dialect == "omp" and "deny" not in engine.flags:
        raise Bad(f"{engine.name} asks nobody and has no rules, so --deny cannot hold there")
    return {"deny": wanted.deny} if "deny" in engine.flags else {}


def _ahead(wanted: argparse.Namespace, wishes: dict[str, Any]) -> ahead.Forked | None:
    """Our own engine, if that is wanted, so that it starts while we do."""
    if wanted.engine != "polylect" or not ahead.CAN:
        return None
    try:
        known_provider(wanted.engine, wishes, wanted.cwd)
    except NoProvider:
        return None  # which will be told where everything is told
    engine = known.known(wanted.engine)
    budget = {"max_cost": wanted.budget} if wanted.budget else {}
    words = known.command(engine, known.from_here({**wishes, **budget}))
    return ahead.Forked(words[len(known.find(engine)) :], wanted.cwd)
