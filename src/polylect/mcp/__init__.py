"""MCP servers and their tools. `servers.py` is the entry. The SDK is loaded when the first server connects."""
