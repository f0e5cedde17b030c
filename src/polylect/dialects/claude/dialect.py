"""The `Dialect` value of this wire, as `plug.load("dialects", "claude").DIALECT` returns it.

The host's end is imported only when a host end is made, so that an engine starts without it.
"""

from typing import Any, cast

from polylect import plug
from polylect.dialects.base import Dialect, Env, HostSide
from polylect.dialects.claude.engine.codec import EngineSide
from polylect.dialects.claude.frames.table import COMMANDS, EVENTS
from polylect.dialects.claude.versions import MAX_FRAME, VERSIONS


def _host_side(env: Env, **options: Any) -> HostSide:
    return cast(HostSide, plug.load("dialects.claude.host", "codec").HostSide(env, **options))


DIALECT = Dialect(
    name="claude",
    versions=VERSIONS,
    engine_side=EngineSide,
    host_side=_host_side,
    max_frame=MAX_FRAME,
    shapes={"stream-json": {"events": EVENTS, "commands": COMMANDS}},
    weak=("steer", "follow_up"),
)
