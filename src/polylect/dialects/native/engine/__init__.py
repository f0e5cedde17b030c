"""The engine's end of the native wire."""
