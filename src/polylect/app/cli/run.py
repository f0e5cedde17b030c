"""`polylect run "prompt"`: gives one task to any engine, for scripts and continuous integration.

This module checks the command line and turns every error into a message on stderr and an exit code. `run_flags.py`
parses the flags; `run_task.py` runs the task. Errors of usage end with 2 before an engine is started.
"""

import os
import signal
import sys
from typing import Any

import msgspec

from polylect.app.cli import engine_choice
from polylect.app.cli.run_flags import HELP, RunOptions, read
from polylect.app.cli.run_task import run
from polylect.app.cli.terminal import print_error
from polylect.app.startup.args import UsageError
from polylect.host import engine_registry
from polylect.permissions.rulebook import fault_in
from polylect.vocab import json_schema

DONE, FAILED, USAGE = 0, 1, 2


def main(words: list[str]) -> int:
    try:
        if {"--help", "-h"} & set(words):
            print(HELP, end="")
            return DONE
        options = read(words)
        options.prompt = _prompt(options)
        schema = _schema(options.schema)
        if fault := fault_in([*options.allow, *options.deny]):
            raise UsageError(fault)
        resolved = engine_choice.resolve_engine(options.engine, options.dialect, options.engine_options)
        options.argv, options.engine_options = resolved[0], resolved[1] | _engine_rules(options)
        return run(options, schema)
    except (UsageError, ValueError, LookupError) as error:
        print_error(error, "polylect run")
        return USAGE
    except BrokenPipeError:
        raise  # main() of the program handles it
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered would fail again at exit
        print(f"polylect run: cannot write the answer to stdout: {error.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _prompt(options: RunOptions) -> str:
    prompt = options.prompt
    if prompt == "-":
        prompt = sys.stdin.read() if sys.stdin is not None else ""
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    if not os.path.isdir(options.cwd):
        raise UsageError(f"--cwd {options.cwd}: there is no such folder")
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


def _engine_rules(options: RunOptions) -> dict[str, Any]:
    """The rules as flags of the engine, if it has them. They also cover what the engine would do without asking."""
    engine = engine_registry.ENGINES.get(options.engine)
    if engine is None:
        return {}
    if options.deny and engine.dialect == "omp" and "deny" not in engine.flags:
        raise UsageError(f"{engine.name} asks nobody and has no rules, so --deny cannot hold there")
    rules = {"allow": options.allow, "deny": options.deny}
    return {name: texts for name, texts in rules.items() if texts and name in engine.flags}
