"""omp rpc: the wire of `omp --mode rpc` (13, 18) and of pi. `plug.load("dialects", "omp").DIALECT`."""


def __getattr__(name: str) -> object:
    if name != "DIALECT":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when asked for: `ready` goes out before anything that costs start-up time.
    from polylect.dialects.omp.dialect import DIALECT

    return DIALECT
