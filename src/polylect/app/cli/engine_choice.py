"""The engine that a command line names: one that is known, or any program and the wire it speaks."""

from collections.abc import Mapping
from typing import Any

from polylect import plug
from polylect.host.engine_registry import ENGINES
from polylect.host.errors import UnknownEngine

HELP = f"one of {', '.join(ENGINES)}, or a command line in quotes (polylect)"
DIALECT_HELP = "the wire of a command line: jsonstream, omp or claude, and if need be its version, as jsonstream:0.1.0"
_DIALECTS = tuple(dict.fromkeys(engine.dialect for engine in ENGINES.values()))
_SIGNS = {"--json-stream": "jsonstream", "rpc": "omp", "--mode=rpc": "omp", "stream-json": "claude"}
"""Words that make an engine speak a wire."""


def chosen(engine: str, dialect: str, wishes: Mapping[str, Any]) -> tuple[str | list[str], dict[str, Any]]:
    """For `connect`: the engine, and all that it is told. Raises ValueError or LookupError with what would be right."""
    if engine in ENGINES:
        if dialect:
            raise ValueError(f"--dialect goes with a command line; {engine} speaks {ENGINES[engine].dialect}")
        return engine, dict(wishes)
    words = _words(engine)
    if not words or (len(words) == 1 and not dialect):
        told = f"there is no engine {engine!r}; known are {', '.join(ENGINES)}"
        raise UnknownEngine(f"{told}. Any other is a command line with its wire: --engine '{engine} ...' --dialect omp")
    if wishes:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in wishes)
        raise ValueError(f"{flags} cannot be handed on to {words[0]!r}: write its own flags into the command line")
    return words, _wire(words, dialect)


def _words(engine: str) -> list[str]:
    import shlex  # 3 ms, and only for an engine that is not known

    try:
        return shlex.split(engine)
    except ValueError as error:
        raise ValueError(f"--engine {engine!r} is no command line: {error}") from None


def _wire(words: list[str], dialect: str) -> dict[str, Any]:
    name, _, version = dialect.partition(":")
    name = name or next((_SIGNS[word] for word in words if word in _SIGNS), "")
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
