"""The user's own code: hooks, commands, stream rules, dialogs and tools. `extensions.py` is the entry."""
