"""New ids and the time of day, for those who may not make them themselves.

Codecs do no I/O: they are given both as `ENV`. Stores and agents get `new_id`. Called wherever the program opens a
session or starts an engine.
"""

import os
import time

from polylect.dialects.base import Env


def new_id() -> str:
    """A random id of 16 hexadecimal digits."""
    return os.urandom(8).hex()


ENV = Env(now=lambda: time.time_ns() // 1_000_000, new_id=new_id)
