"""Tools that need the engine itself: scripts of calls, the end of plan mode, tools of the host."""
