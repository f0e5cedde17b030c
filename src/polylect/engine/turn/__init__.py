"""One turn from its prompt to its end. `loop.py` is the turn; the other modules are its parts."""
