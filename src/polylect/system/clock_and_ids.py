"""New ids and the time of day, each made in one place.

Codecs do no I/O: they get both as an `Env`. Stores, agents and the host SDK use them directly. Start-up imports this
before `ready`, so it imports nothing but `os` and `time`.
"""

import os
import time


def new_id() -> str:
    """Returns a random id of 16 hexadecimal digits."""
    return os.urandom(8).hex()


def now_ms() -> int:
    """Returns the milliseconds since 1970."""
    return time.time_ns() // 1_000_000
