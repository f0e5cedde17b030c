"""Every frame of the wire, by name: all that `events` and `commands` define.

Both ends read with it, and `schemas/` is generated from it. All versions know all frames, because a host may send what
only a later engine understands.
"""

from polylect.dialects.omp.frames import commands as requests
from polylect.dialects.omp.frames import events as shapes
from polylect.dialects.schema import by_name, defined_in

VERSIONS = ("13", "18", "pi")
"""The default is the first: omp 13, which is documented. omp 18 is later; pi is the project that omp was forked from.
"""

EXTRAS = (
    "retry_fallback_applied", "retry_fallback_succeeded", "irc_message", "goal_updated", "advisor_cost_changed",
    "advisor_yielded", "config_warnings_changed",
)  # fmt: skip
"""Events that only engines of omp have: in the vocabulary they are an `Extra` of the same kind."""

EVENTS = by_name(*defined_in(shapes, shapes.Frame))
REQUESTS = by_name(*defined_in(requests, requests.Request))
ANSWERS = by_name(*defined_in(requests, requests.Answer))
COMMANDS: dict[str, type[shapes.Frame]] = {**REQUESTS, **ANSWERS}
