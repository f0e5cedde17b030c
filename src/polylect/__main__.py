"""`python -m polylect` is `polylect`.

Python puts the working folder first on the module search path for `-m`. That folder may be a stranger's, so it is taken
off before anything else is imported. A package `polylect` in that folder has been imported by then: only `python -P`
or the program `polylect` guard against that.
"""

import os
import sys

if not sys.flags.safe_path and "-m" in sys.orig_argv:
    try:
        if sys.path[0] in ("", os.getcwd()):
            del sys.path[0]
    except FileNotFoundError:  # the folder has been deleted, and nothing can be imported from it
        pass

from polylect.app.main import main

sys.exit(main())
