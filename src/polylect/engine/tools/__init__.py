"""Tools that need the engine itself: leaving plan mode, scripts of calls, tools that the host runs."""
