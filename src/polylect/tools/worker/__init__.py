"""The tool worker: a process that reads, changes and searches files for the engine.

Work on strangers' input (files, patterns, pages) can take any time and any memory, and links can change under it. So
it is not done in the engine but in a process that is confined as commands are, and is killed when its call is late or
cancelled. `pool` is the engine's side, `program` the process, `protocol` what they say to each other; the other
modules are the operations, which only the process imports.
"""
