"""The `Dialect` value of this wire, as `plug.load("dialects", "claude").DIALECT` returns it.

The host's end is imported only when a host end is made, so that an engine starts without it.
"""

from polylect.dialects.base import Dialect, load_later
from polylect.dialects.claude.frames.table import COMMANDS, EVENTS
from polylect.dialects.claude.versions import MAX_FRAME, VERSIONS

DIALECT = Dialect(
    name="claude",
    versions=VERSIONS,
    engine_side=load_later("claude", "engine"),
    host_side=load_later("claude", "host"),
    max_frame=MAX_FRAME,
    shapes={"stream-json": {"events": EVENTS, "commands": COMMANDS}},
    weak=("steer", "follow_up"),
)
