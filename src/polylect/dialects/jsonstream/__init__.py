"""json-stream: the wire of aionrs (0.1.0) and wayland-core (0.2.0), as `plug.load("dialects", "jsonstream").DIALECT`.

`frames/` has the structs of the wire, `engine/` and `host/` the two ends. `asks`, `commands`, `events` and
`undocumented_commands` translate without state and are used by both, `wayland_desktop` by the engine's. `ready` makes
the first line; it and `versions` import nothing costly.
"""

PROGRAMS = ("aionrs", "wayland-core", "wcore")
"""Names of programs that speak this wire: polylect does when it is started under one of them."""
SWITCHES = ()  # it is the wire of the program's own flags
"""Flags that only this wire has: polylect speaks it when it is given one of them."""


def __getattr__(name: str) -> object:
    if name != "DIALECT":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when asked for: `ready.py` is needed before anything that costs start-up time.
    from polylect.dialects.jsonstream.dialect import DIALECT

    return DIALECT
