"""The description of the omp dialect that `plug.load("dialects", "omp")` finds.

Each end is imported only when it is made: an engine never needs the host's end, nor a host the engine's.
"""

from typing import Any

from polylect.dialects.base import Dialect, EngineSide, Env, HostSide
from polylect.dialects.omp.engine.line_writer import MAX_FRAME
from polylect.dialects.omp.frames.table import COMMANDS, EVENTS, VERSIONS


def _engine_side(env: Env, **options: Any) -> EngineSide:
    from polylect.dialects.omp.engine.codec import EngineSide as Side  # each end is loaded only where it is used

    return Side(env, **options)


def _host_side(env: Env, **options: Any) -> HostSide:
    from polylect.dialects.omp.host.codec import HostSide as Side  # each end is loaded only where it is used

    return Side(env, **options)


DIALECT = Dialect(
    name="omp",
    versions=VERSIONS,
    engine_side=_engine_side,
    host_side=_host_side,
    max_frame=MAX_FRAME,
    shapes={"rpc": {"events": EVENTS, "commands": COMMANDS}},  # the versions differ in what is said, not in how
)
