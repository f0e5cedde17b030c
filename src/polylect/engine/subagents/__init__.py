"""Agents that an agent starts: their description, their start, and what comes back from them."""
