"""`polylect run "prompt"`: one task for any engine, for scripts and continuous integration."""

import gc
import os
import signal
import sys
from typing import Any

import msgspec

from polylect.app import ahead, which_engine
from polylect.app.args import UsageError
from polylect.app.policy import rule_fault
from polylect.app.run_flags import HELP, Wanted, read
from polylect.app.who_answers import NoProvider, known_provider
from polylect.host import known
from polylect.vocab import json_schema

DONE, FAILED, USAGE = 0, 1, 2


def main(words: list[str]) -> int:
    try:
        if {"--help", "-h"} & set(words):
            print(HELP, end="")
            return DONE
        wanted = read(words)
        prompt = _prompt(wanted)
        schema = _schema(wanted.schema)
        if fault := rule_fault([*wanted.allow, *wanted.deny]):
            raise UsageError(fault)
        wanted.argv, wishes = which_engine.chosen(wanted.engine, wanted.dialect, wanted.wishes)
        wishes |= _forbidden(wanted)
        engine = _ahead(wanted, wishes)
        from polylect.app.one_task import run  # while the engine imports its own half

        gc.enable()
        return run(wanted, prompt, schema, wishes, engine)
    except (UsageError, ValueError, LookupError) as error:
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


def _prompt(wanted: Wanted) -> str:
    prompt: str = wanted.prompt
    if prompt == "-":
        prompt = sys.stdin.read() if sys.stdin is not None else ""
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    if not os.path.isdir(wanted.cwd):
        raise UsageError(f"--cwd {wanted.cwd}: there is no such folder")
    return prompt


def _schema(path: str) -> dict[str, Any] | None:
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            schema: dict[str, Any] = msgspec.json.decode(file.read())
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"--schema {path}: {error}") from None
    if fault := json_schema.fault_in(schema):
        raise UsageError(f"--schema {path}: it is no JSON Schema: {fault}")
    return schema


def _forbidden(wanted: Wanted) -> dict[str, Any]:
    """An engine that does things unasked has to know itself what it may not."""
    engine = known.ENGINES.get(wanted.engine) if wanted.deny else None
    if engine is None:
        return {}
    if engine.dialect == "omp" and "deny" not in engine.flags:
        raise UsageError(f"{engine.name} asks nobody and has no rules, so --deny cannot hold there")
    return {"deny": wanted.deny} if "deny" in engine.flags else {}


def _ahead(wanted: Wanted, wishes: dict[str, Any]) -> ahead.Forked | None:
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
