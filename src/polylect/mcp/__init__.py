"""MCP servers and their tools. `servers.py` is the entry; `connection.py` is the client, `protocol/` its language."""
