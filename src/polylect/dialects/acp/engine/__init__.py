"""The agent's end of ACP: requests of a client to commands, events to updates and answers."""
