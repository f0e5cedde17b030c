"""The dialect as others find it: `plug.load("dialects", "native").DIALECT`.

The engine program and the host SDK get both ends and the shapes from this one value. The shapes are the vocabulary.
"""

from typing import Any

from polylect.dialects.base import Dialect, EngineSide, Env, HostSide
from polylect.dialects.native.frames import WIRE_COMMANDS
from polylect.dialects.native.versions import MAX_FRAME, VERSIONS
from polylect.vocab.json_form import COMMANDS, EVENTS


def _engine_side(env: Env, **options: Any) -> EngineSide:
    from polylect.dialects.native.engine.codec import EngineSide as Side  # each end is loaded only where it is used

    return Side(env, **options)


def _host_side(env: Env, **options: Any) -> HostSide:
    from polylect.dialects.native.host.codec import HostSide as Side  # each end is loaded only where it is used

    return Side(env, **options)


DIALECT = Dialect(
    name="native",
    versions=VERSIONS,
    engine_side=_engine_side,
    host_side=_host_side,
    max_frame=MAX_FRAME,
    shapes={version: {"events": EVENTS, "commands": COMMANDS | WIRE_COMMANDS} for version in VERSIONS},
)
