"""Formats of bytes and text without I/O: JSON Lines, server-sent events, HTTP/1.1, AWS event streams, path patterns.

Dialects and providers use them. A parser gets bytes in pieces of any size and returns what is complete; it never
blocks, and it limits what it stores.
"""
