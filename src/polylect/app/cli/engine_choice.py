"""Resolves `--engine` and `--dialect` of `polylect run` and `polylect chat`.

`--engine` is the name of an engine in `host/engine_registry.py`, or the command line of any other program. For a
command line the wire is needed too: it comes from `--dialect` or from words in the command line itself.
"""

import re
from collections.abc import Mapping
from typing import Any

from polylect import plug
from polylect.host.engine_registry import ENGINES
from polylect.host.errors import UnknownEngine

HELP = f"one of {', '.join(ENGINES)}, or a command line in quotes (polylect)"
DIALECT_HELP = "the wire of a command line: native, jsonstream, omp, claude or acp, with a version as jsonstream:0.1.0"
_FLAGS = {"session": "session-id", "max_cost": "budget"}
"""Flags that are not called as the parameter of `connect`."""
_DIALECTS = plug.dialects()
_DIALECT_BY_WORD = {
    "--native": "native",
    "--json-stream": "jsonstream",
    "rpc": "omp",
    "--mode=rpc": "omp",
    "stream-json": "claude",
    "--acp": "acp",
    "acp": "acp",
}
"""Words of a command line that show which wire the program will speak."""


def resolve_engine(engine: str, dialect: str, options: Mapping[str, Any]) -> tuple[str | list[str], dict[str, Any]]:
    """Returns the engine and the keyword arguments for `connect`.

    The engine is a name of the registry, or the words of the command line. Raises ValueError or LookupError; the text
    says what would be right.
    """
    if engine in ENGINES:
        if dialect:
            raise ValueError(f"--dialect goes with a command line; {engine} speaks {ENGINES[engine].dialect}")
        return engine, dict(options)
    words = _split_command_line(engine)
    if not words or (len(words) == 1 and not dialect):
        error = f"there is no engine {engine!r}; known are {', '.join(ENGINES)}"
        raise UnknownEngine(
            f"{error}. Any other is a command line with its wire: --engine '{engine} ...' --dialect omp"
        )
    if options:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise ValueError(f"{flags} cannot be handed on to {words[0]!r}: write its own flags into the command line")
    return words, _dialect_options(words, dialect)


def in_flags(text: str) -> str:
    """Returns the `text` of an error of `connect` with flags in the place of its parameters (`resume='a'`)."""
    names = "|".join({name for engine in ENGINES.values() for name in engine.flags})
    return re.sub(
        rf"(?<![\w.])({names})=(?:True|'([^']*)')?",
        lambda match: f"--{_FLAGS.get(match[1], match[1].replace('_', '-'))}" + (f" {match[2]}" if match[2] else ""),
        text,
    )


def _split_command_line(engine: str) -> list[str]:
    import shlex  # 3 ms, and only for an engine that is not known

    try:
        return shlex.split(engine)
    except ValueError as error:
        raise ValueError(f"--engine {engine!r} is no command line: {error}") from None


def _dialect_options(words: list[str], dialect: str) -> dict[str, Any]:
    name, _, version = dialect.partition(":")
    name = name or next((_DIALECT_BY_WORD[word] for word in words if word in _DIALECT_BY_WORD), "")
    if not name:
        wires = ", ".join(_DIALECTS)
        raise ValueError(f"nothing in {' '.join(words)!r} tells which wire it speaks: add --dialect, one of {wires}")
    if name not in _DIALECTS:
        raise ValueError(f"--dialect {name}: choose one of {', '.join(_DIALECTS)}")
    if not version:
        return {"dialect": name}
    versions = plug.load("dialects", name).DIALECT.versions
    if version not in versions:
        raise ValueError(f"--dialect {dialect}: the versions of {name} are {', '.join(versions)}")
    return {"dialect": name, "version": version}
