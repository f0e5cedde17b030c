"""The dialect as others find it: `plug.load("dialects", "native").DIALECT`.

The engine program and the host SDK get both ends and the shapes from this one value. The shapes are the vocabulary.
"""

from polylect.dialects.base import Dialect, load_later
from polylect.dialects.native.frames import WIRE_COMMANDS
from polylect.dialects.native.versions import MAX_FRAME, VERSIONS
from polylect.vocab.json_form import COMMANDS, EVENTS

DIALECT = Dialect(
    name="native",
    versions=VERSIONS,
    engine_side=load_later("native", "engine"),
    host_side=load_later("native", "host"),
    max_frame=MAX_FRAME,
    shapes={version: {"events": EVENTS, "commands": COMMANDS | WIRE_COMMANDS} for version in VERSIONS},
)
