"""Handlers of commands that are more than a few lines, one module a group. `engine.py` dispatches to them."""
