"""json-stream: the wire of aionrs (0.1.0) and wayland-core (0.2.0). `plug.load("dialects", "jsonstream").DIALECT`."""


def __getattr__(name: str) -> object:
    if name != "DIALECT":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when asked for: `ready.py` is needed before anything that costs start-up time.
    from polylect.dialects.jsonstream.dialect import DIALECT

    return DIALECT
