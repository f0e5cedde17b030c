"""The engine's end of the omp wire, used when polylect serves a host that expects omp or pi.

`codec` is the interface; `decode` turns commands of the wire into ours, `encode` turns events into frames, `replies`
turns our replies into the `data` of responses, and `line_writer` turns frames into lines.
"""
