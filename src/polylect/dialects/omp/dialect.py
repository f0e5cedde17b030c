"""The description of the omp dialect that `plug.load("dialects", "omp")` finds.

Each end is imported only when it is made: an engine never needs the host's end, nor a host the engine's.
"""

from polylect.dialects.base import Dialect, load_later
from polylect.dialects.omp.engine.line_writer import MAX_FRAME
from polylect.dialects.omp.frames.table import COMMANDS, EVENTS, VERSIONS

DIALECT = Dialect(
    name="omp",
    versions=VERSIONS,
    engine_side=load_later("omp", "engine"),
    host_side=load_later("omp", "host"),
    max_frame=MAX_FRAME,
    shapes={"rpc": {"events": EVENTS, "commands": COMMANDS}},  # the versions differ in what is said, not in how
)
