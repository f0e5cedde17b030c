"""The shapes of the messages of ACP: what is inside `params` and `result`. The envelope is `wire/jsonrpc.py`.

Names are those of the wire, in the style of Python; optional fields that are null count as absent. The engine's end
reads with these shapes and both ends write with them. The host's end reads without them, because agents differ.
"""
