"""From the command line to `ready`: flags, settings, secrets, the session to open, and fast imports."""

import os

PLAIN_IMPORTS = bool(os.environ.get("POLYLECT_PLAIN_IMPORTS"))
"""Modules are imported as Python always does it: `packed.py` and `lazy.py` do nothing."""
