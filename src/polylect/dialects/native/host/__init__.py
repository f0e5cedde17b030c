"""The host's end of the native wire."""
