"""The Model Context Protocol as values: no clock, no sockets, no processes.

`revisions.py` says how the versions of the protocol differ, `frames.py` has the shapes of what is sent, `lenient.py`
reads them from peers that do not keep to the shapes. `client.py` and `server.py` are the two ends of a connection.
"""
