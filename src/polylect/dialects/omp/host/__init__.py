"""The host's end of the omp wire, used when the SDK drives omp, pi or polylect.

`codec` is the interface; `decode` turns frames into events, `encode` turns commands into frames, `replies` matches
responses with commands, and `turn_tracker` decides when a turn is over.
"""
