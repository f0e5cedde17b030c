"""`polylect bridge`: `command.py` starts a bridge, `explain.py` prints what gets across."""

from polylect.app.cli.bridge.command import USAGE, main

__all__ = ["USAGE", "main"]
