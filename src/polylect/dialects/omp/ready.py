"""The first line of this wire.

The start-up code writes it before a codec exists; the engine's codec writes it where nobody has. It imports nothing,
because `ready` goes out before anything that costs time is imported.
"""

READY = b'{"type":"ready"}\n'
