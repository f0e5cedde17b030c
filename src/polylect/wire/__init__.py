"""Formats of bytes and text without I/O: JSON Lines, server-sent events, HTTP/1.1, AWS event streams, path patterns."""
