"""What this wire cannot say. Written by `tests/dialects/everything.py`, never by hand."""

_IN_ANY_VERSION = ()
UNSAID = {
    "1": _IN_ANY_VERSION,
}
