"""The Agent Client Protocol: JSON-RPC on lines, as `plug.load("dialects", "acp").DIALECT`.

Editors and other programs drive agents over it. One connection has any number of sessions. `start` says how polylect
begins as an agent of this wire, `engine` is the agent's end and `host` the client's. docs/acp.md describes what is
spoken.
"""

PROGRAMS = ()
"""Names of programs that speak this wire: polylect does when it is started under one of them."""
SWITCHES = ("--acp",)
"""Flags that only this wire has: polylect speaks it when it is given one of them."""


def __getattr__(name: str) -> object:
    if name != "DIALECT":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from polylect.dialects.acp.dialect import DIALECT  # imported when asked for: it costs start-up time

    return DIALECT
