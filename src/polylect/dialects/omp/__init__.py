"""omp rpc: the wire of `omp --mode rpc` (13, 18) and of pi, as `plug.load("dialects", "omp").DIALECT`.

`frames/` has the structs of the wire, `engine/` the end that polylect serves to hosts of omp, `host/` the end with
which the SDK drives omp, pi or polylect itself. The parts are imported only when `DIALECT` is asked for.
"""

PROGRAMS = ("omp", "pi")
"""Names of programs that speak this wire: polylect does when it is started under one of them."""
SWITCHES = ("--mode",)
"""Flags that only this wire has: polylect speaks it when it is given one of them."""


def __getattr__(name: str) -> object:
    if name != "DIALECT":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when asked for: `ready` goes out before anything that costs start-up time.
    from polylect.dialects.omp.dialect import DIALECT

    return DIALECT
