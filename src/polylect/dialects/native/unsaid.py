"""What this wire cannot say, and what its host derives. Written by tests/dialects/everything.py."""

# fmt: off
_UNSAID_IN_ANY = ()
UNSAID: dict[str, tuple[str, ...]] = {
    "1": _UNSAID_IN_ANY,
}
"""`Event` or `Command` that never arrives, `Event.field` that does not, `Event.field=value` of some."""
_MADE_IN_ANY = ()
MADE: dict[str, tuple[str, ...]] = {
    "1": _MADE_IN_ANY,
}
"""Events that have no frame, and that the host's end derives from others."""
