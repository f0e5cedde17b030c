"""Model wires: a conversation to a request body, a response stream to model events. Pure."""
