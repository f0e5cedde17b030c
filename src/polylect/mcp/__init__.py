"""MCP servers as tools, on the official SDK, which is loaded only when a server is named."""
