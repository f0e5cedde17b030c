"""Frames for `Extra` events: what this family of engines reports and the vocabulary has no event for.

The data of the event becomes a `system` frame of that subtype or a frame of that type. `EventWriter` is the caller.
"""

from typing import Any

from polylect.dialects.claude.frames.notices import SYSTEM_EXTRAS, TYPE_EXTRAS
from polylect.dialects.claude.frames.turn import Envelope
from polylect.vocab.events import Extra


def extra(event: Extra, envelope: Envelope) -> dict[str, Any] | None:
    """The frame; None if the wire has none of this kind."""
    if event.kind in SYSTEM_EXTRAS:
        return {"type": "system", "subtype": event.kind, **event.data, **envelope}
    if event.kind in TYPE_EXTRAS:
        return {"type": event.kind, **event.data, **envelope}
    if event.kind == "rate_limit_event":
        return {"type": event.kind, "rate_limit_info": event.data, **envelope}
    return None
