"""Lets the tests import the peers that scripts/interop.py has installed."""

import os
import sys

if "POLYLECT_INTEROP_ORACLES" not in os.environ:
    raise RuntimeError("the peers are installed by scripts/interop.py: say `make interop`")
sys.path.append(os.environ["POLYLECT_INTEROP_ORACLES"])

# Here models answer over loopback, by the keys that each test sets; nothing plays a script unless it is told to.
os.environ.pop("POLYLECT_PROVIDER", None)
