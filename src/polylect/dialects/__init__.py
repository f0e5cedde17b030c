"""Host wires, one package each: bytes to commands and events to bytes at the engine, and the reverse at the host.

A dialect is the wire format of one family of hosts and engines (json-stream, omp rpc, Claude's stream-json). All code
here is pure: it does no I/O, reads no clock and makes no ids by itself. `base.py` has the interface that every dialect
implements; `polylect.plug` loads a dialect by its name; the engine's serving code and the host SDK do the I/O.
"""
