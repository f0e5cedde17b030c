"""The frames of the omp wire as structs: `commands` (of a host), `events` (of an engine), `messages` (their parts).

`table` lists all by name; `read` turns lines of a host into frames. `schemas/` is generated from these structs.
"""
