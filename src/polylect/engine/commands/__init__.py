"""What the engine does for each command of a host that is not a prompt."""
