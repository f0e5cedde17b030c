"""Sessions on disk: the append-only log, replaying it, repairing it, finding sessions, other formats.

Imports nothing of the engine. The engine sees it through the ports `Store` and `Library`.
"""
