"""The first line of this wire, by version.

The start-up code writes it before a codec exists; the engine's codec writes it where nobody has. It imports nothing,
because `ready` goes out before anything that costs time is imported.
"""

READY = {
    "13": b'{"type":"ready"}\n',
    "18": (
        b'{"type":"ready","protocolVersion":1,"supportedProtocolVersions":[1,2],'
        b'"maxFrameBytes":1048576,"maxReassembledFrameBytes":67108864}\n'
    ),
    "pi": b"",
}
"""Clients of omp 18 negotiate protocol 2 only if both limits are these numbers. pi writes nothing: its clients ask for
the state, and hand a line that they do not know on to their host."""
