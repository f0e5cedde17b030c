"""`polylect bridge --explain FRONT ENGINE`: what gets across between the two, and what does not."""

import msgspec

from polylect import plug
from polylect.app.cli.terminal import print_json, print_line
from polylect.app.startup.args import UsageError
from polylect.bridge.fates import Wire, fates
from polylect.host.engine_registry import engine_spec

_FRONTS = {
    "acp": ("acp", ""),
    "claude": ("claude", ""),
    "omp": ("omp", "13"),
    "pi": ("omp", "pi"),
    "native": ("native", ""),
    "json-stream": ("jsonstream", "0.2.0"),
    "wayland-core": ("jsonstream", "0.2.0"),
    "wcore": ("jsonstream", "0.2.0"),
    "aionrs": ("jsonstream", "0.1.0"),
}
"""The wire of each front; without a version the newest."""


def explain(words: list[str], *, as_json: bool) -> int:
    """Prints the table for a front and an engine. Raises UsageError or UnknownEngine."""
    if len(words) != 2:
        raise UsageError("name two: polylect bridge --explain FRONT ENGINE, as in --explain acp claude")
    front, engine = words
    rows = fates(front_wire(front), engine_wire(engine))
    if as_json:
        print_json(msgspec.to_builtins({"front": front, "engine": engine, "fates": rows}))
        return 0
    for kind, title in (("command", f"Commands, {front} to {engine}"), ("event", f"Events, {engine} to {front}")):
        print_line(title)
        for row in rows:
            if row.kind == kind:
                print_line(f"  {row.name:<18} {row.fate:<8} {row.detail}".rstrip())
    return 0


def front_wire(front: str) -> Wire:
    if front not in _FRONTS:
        raise UsageError(f"there is no front {front!r}; choose one of {', '.join(_FRONTS)}")
    return _wire(*_FRONTS[front])


def engine_wire(engine: str) -> Wire:
    """The wire of an engine by its name. Raises UnknownEngine."""
    one = engine_spec(engine)
    return _wire(one.dialect, one.version)


def _wire(dialect: str, version: str) -> Wire:
    return Wire(dialect, version or plug.load("dialects", dialect).DIALECT.versions[0])
