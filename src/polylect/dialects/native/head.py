"""Makes the first line of the native wire: the event `ready` with the name and the version of the wire.

The start-up code calls it before anything that costs time is imported, so this module imports only `versions` and
`dialects/little_json.py`. The engine's codec calls it where nobody has written the line.
"""

from polylect.dialects import little_json
from polylect.dialects.native.versions import PROTOCOL, PROTOCOL_VERSION


def first_line(stream: str, session: str, ready: dict[str, object]) -> bytes:
    """The line of `ready`, which is the event with the number 1.

    stream    an id of this connection's numbers
    session   the session that events without a `session` belong to
    ready     the other fields of the event `Ready`, without those that are at their default
    """
    wire = {"seq": 1, "type": "ready", "protocol": PROTOCOL, "protocol_version": PROTOCOL_VERSION, "stream": stream}
    return little_json.line({**wire, **({"session": session} if session else {}), **ready})
