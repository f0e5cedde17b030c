"""The dialect as others find it: `plug.load("dialects", "claude").DIALECT`."""

from typing import Any, cast

from polylect import plug
from polylect.dialects.base import Dialect, Env, HostSide
from polylect.dialects.claude.engine.codec import EngineSide
from polylect.dialects.claude.frames.table import COMMANDS, EVENTS
from polylect.dialects.claude.versions import MAX_FRAME, VERSIONS


def _host_side(env: Env, **options: Any) -> HostSide:
    """An engine never needs it."""
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
