"""`polylect run "prompt"`: one task for any engine, for scripts and continuous integration."""

import os
import signal
import sys
from typing import Any

import msgspec

from polylect.app.cli import engine_choice
from polylect.app.cli.answer_policy import rule_fault
from polylect.app.cli.run_flags import HELP, Wanted, read
from polylect.app.cli.run_task import run
from polylect.app.cli.terminal import print_error
from polylect.app.startup.args import UsageError
from polylect.host import engine_registry
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
        wanted.argv, wishes = engine_choice.chosen(wanted.engine, wanted.dialect, wanted.wishes)
        wishes |= _engine_rules(wanted)
        return run(wanted, prompt, schema, wishes)
    except (UsageError, ValueError, LookupError) as error:
        print_error(error, "polylect run")
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
    except FileNotFoundError:
        raise UsageError(f"--schema {path}: there is no such file") from None
    except OSError as error:
        raise UsageError(f"--schema {path}: it cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"--schema {path}: it is no JSON: {error}") from None
    if fault := json_schema.fault_in(schema):
        raise UsageError(f"--schema {path}: it is no JSON Schema: {fault}")
    return schema


def _engine_rules(wanted: Wanted) -> dict[str, Any]:
    """The rules as the engine takes them: it knows tools by their full names, and does some things unasked."""
    engine = engine_registry.ENGINES.get(wanted.engine)
    if engine is None:
        return {}
    if wanted.deny and engine.dialect == "omp" and "deny" not in engine.flags:
        raise UsageError(f"{engine.name} asks nobody and has no rules, so --deny cannot hold there")
    rules = {"allow": wanted.allow, "deny": wanted.deny}
    return {name: texts for name, texts in rules.items() if texts and name in engine.flags}
