"""Faults that the streams of all vendors share.

The stream parsers decode into types. What does not fit them is the server's fault and becomes a `ProviderError`:
`UNREADABLE` lists what decoding hostile input raises, `Tokens` is a count that can be added and stored.
"""

from typing import Annotated

from msgspec import Meta, MsgspecError

from polylect.apis.arguments import MOST_CALLS
from polylect.vocab.errors import ProviderError

UNREADABLE = (MsgspecError, RecursionError)
Tokens = Annotated[int, Meta(ge=0, le=10**12)]
"""A negative count would lower the cost of a turn, and one beyond 64 bits cannot be stored."""


def unreadable(error: Exception) -> ProviderError:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return ProviderError("protocol", f"the model server sent what cannot be read: {reason}")


def cut_off() -> ProviderError:
    return ProviderError("network", "the model's reply was cut off", retryable=True)


def too_many_calls() -> ProviderError:
    return ProviderError("protocol", f"the model's reply asks for more than {MOST_CALLS} calls")
