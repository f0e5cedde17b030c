"""Sessions on disk: the append-only log, replaying and repairing it, listing sessions, other formats.

Imports nothing of the engine. The engine uses it through the ports `Store` and `Library` (`vocab/ports.py`).
"""
