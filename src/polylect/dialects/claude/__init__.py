"""Claude stream-json: the wire of the `claude` program and its SDKs. `plug.load("dialects", "claude").DIALECT`."""


def __getattr__(name: str) -> object:
    if name != "DIALECT":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when asked for: whoever needs one end of it, or another wire, does not pay for all.
    from polylect.dialects.claude.dialect import DIALECT

    return DIALECT
