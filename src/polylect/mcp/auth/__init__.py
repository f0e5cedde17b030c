"""Logins at MCP servers by OAuth: `oauth.py` logs in, `token_store.py` stores, `access_token.py` uses and renews."""
