"""Custody of processes: the guardian program, the engine's side of it, and stored output."""
