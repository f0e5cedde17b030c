"""The tool worker: a process that reads, changes and searches files for the engine.

Work on untrusted input (files, patterns, pages) can take any time and memory, and links can change meanwhile. So it is
done in a process that is confined like commands, and is killed when its call is cancelled or takes too long. `pool.py`
is the engine's side, `program.py` the process, `protocol.py` the messages between them. The other modules are the
operations, which only the process imports.
"""
