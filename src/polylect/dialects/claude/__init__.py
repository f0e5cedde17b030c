"""Claude stream-json: the wire of the `claude` program and its SDKs. `plug.load("dialects", "claude").DIALECT`.

`frames` has the shapes, `engine` the codec for an engine, `host` the codec for a host. docs/claude.md describes what
is supported.
"""

PROGRAMS = ("claude",)
"""Names of programs that speak this wire: polylect does when it is started under one of them."""
SWITCHES = ("--output-format", "--input-format", "--print")
"""Flags that only this wire has: polylect speaks it when it is given one of them."""


def __getattr__(name: str) -> object:
    if name != "DIALECT":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when asked for: whoever needs one end of it, or another wire, does not pay for all.
    from polylect.dialects.claude.dialect import DIALECT

    return DIALECT
