"""The client's end of ACP: commands to requests, updates of an agent to events."""
