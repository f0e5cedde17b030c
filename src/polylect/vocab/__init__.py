"""The vocabulary: commands, events and the values in them, the grammar of events, and the protocols of the engine.

Everything above is written in these values, whatever wire a host speaks. This package does no I/O and imports nothing
of polylect outside itself.
"""
