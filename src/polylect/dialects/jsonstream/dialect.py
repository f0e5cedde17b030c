"""The dialect as others find it: `plug.load("dialects", "jsonstream").DIALECT`.

The engine program and the host SDK get both ends, the versions and the shapes from this one value.
"""

from polylect.dialects.base import Dialect, load_later
from polylect.dialects.jsonstream.frames.table import COMMANDS, EVENTS
from polylect.dialects.jsonstream.versions import MAX_FRAME, VERSIONS

DIALECT = Dialect(
    name="jsonstream",
    versions=VERSIONS,
    engine_side=load_later("jsonstream", "engine"),
    host_side=load_later("jsonstream", "host"),
    max_frame=MAX_FRAME,
    shapes={version: {"events": EVENTS[version], "commands": COMMANDS[version]} for version in VERSIONS},
    weak=("steer", "follow_up"),
)
