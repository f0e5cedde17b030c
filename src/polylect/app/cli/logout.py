"""`polylect logout`: see `login.py`."""

from polylect.app.cli.login import USAGE, logout

__all__ = ["USAGE", "main"]

main = logout
