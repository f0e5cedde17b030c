"""Why a model stopped and how a turn ended, in the words of this wire and in ours.

Both ends and the session files use these tables.
"""

from typing import get_args

from polylect.vocab.content import Reason, Stop

WIRE_STOPS: dict[Stop, str] = {
    "end": "stop",
    "calls": "toolUse",
    "length": "length",
    "refused": "error",
    "cancelled": "aborted",
    "error": "error",
}
"""`stopReason` by our reason."""
OUR_STOPS: dict[str, Stop] = {word: stop for stop, word in WIRE_STOPS.items() if stop != "refused"}

STATUSES: dict[Reason, str] = {"end": "completed", "cancelled": "aborted", "error": "error"}
"""The `status` of a `prompt_result` by our reason. All other ends are `completed`."""
OUR_REASONS: dict[str, Reason] = {
    **{reason: reason for reason in get_args(Reason)},
    **{word: reason for reason, word in STATUSES.items()},
}
"""Our reason by `status`, and by `reason`, which polylect adds."""
