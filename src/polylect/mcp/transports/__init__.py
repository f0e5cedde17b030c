"""How messages reach an MCP server: one module for each transport, all with the interface of `base.py`."""
