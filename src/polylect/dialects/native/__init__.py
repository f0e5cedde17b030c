"""The native wire: the vocabulary itself as JSON Lines, as `plug.load("dialects", "native").DIALECT`.

Every line is a command or an event in the form of `vocab/json_form.py`, with a number (`seq`) on every event. Nothing
is lost, so it is the wire between polylect's own parts. `head` makes the first line; it and `versions` import nothing
costly. docs/native.md describes the wire for host authors.
"""

PROGRAMS = ()
"""Names of programs that speak this wire: polylect does when it is started under one of them."""
SWITCHES = ()  # its flags are the program's own
"""Flags that only this wire has: polylect speaks it when it is given one of them."""


def __getattr__(name: str) -> object:
    if name != "DIALECT":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when asked for: the first line goes out before anything that costs start-up time.
    from polylect.dialects.native.dialect import DIALECT

    return DIALECT
