"""What a user's own code adds: hooks, commands, stream rules, dialogs and tools."""
