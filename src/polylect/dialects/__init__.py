"""Host wires, one package each: bytes to commands, events to bytes, and the other way round. Pure."""
