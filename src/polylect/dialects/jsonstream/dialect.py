"""The dialect as others find it: `plug.load("dialects", "jsonstream").DIALECT`.

The engine program and the host SDK get both ends, the versions and the shapes from this one value.
"""

from polylect.dialects.base import Dialect
from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.dialects.jsonstream.frames.table import COMMANDS, EVENTS
from polylect.dialects.jsonstream.host.codec import HostSide
from polylect.dialects.jsonstream.versions import MAX_FRAME, VERSIONS

DIALECT = Dialect(
    name="jsonstream",
    versions=VERSIONS,
    engine_side=EngineSide,
    host_side=HostSide,
    max_frame=MAX_FRAME,
    shapes={version: {"events": EVENTS[version], "commands": COMMANDS[version]} for version in VERSIONS},
    weak=("steer", "follow_up"),
)
