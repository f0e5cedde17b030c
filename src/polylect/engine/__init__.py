"""The agent: commands in, events out. It is handed providers, tools and a store, and owns no pipe."""
