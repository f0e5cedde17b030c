"""The frames of the json-stream wire as structs: `base` (both versions), `optional` (0.2.0 with a capability).

`table` lists them by name and version; `read` turns lines into frames. `schemas/` is generated from these structs.
"""
