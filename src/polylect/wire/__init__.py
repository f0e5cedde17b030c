"""Frames: bytes to frames and back. No I/O."""
