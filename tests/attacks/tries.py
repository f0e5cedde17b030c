"""How often a race is run, or how many generated inputs are tried: few in `make test`, many in `make attack`.

`scripts/attack.py` sets the variable for each file of tests that reads it here.
"""

import os

from machine import PATIENCE


def tries(few: int) -> int:
    """`POLYLECT_ATTACK_TRIES`, or so few where it is not set."""
    return int(os.environ.get("POLYLECT_ATTACK_TRIES") or few)


def patience(number: int) -> float:
    """Seconds within which so many tries end on any machine: longer than one test may take, if they are many."""
    return max(PATIENCE, number * 0.3)
