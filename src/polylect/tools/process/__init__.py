"""Custody of processes: the guardian program, the engine's side of it, and output that is kept."""
