"""`python -m polylect` is `polylect`."""

import sys

from polylect.app.main import main

sys.exit(main())
