"""The `Dialect` value of this wire, as `plug.load("dialects", "acp").DIALECT` returns it."""

from polylect.dialects.acp.frames.table import Shapes
from polylect.dialects.acp.versions import MAX_FRAME, VERSIONS
from polylect.dialects.base import Dialect, load_later

DIALECT = Dialect(
    name="acp",
    versions=VERSIONS,
    engine_side=load_later("acp", "engine"),
    host_side=load_later("acp", "host"),
    max_frame=MAX_FRAME,
    opens_sessions=True,
    shapes=Shapes(),
)
