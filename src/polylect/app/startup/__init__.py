"""From the command line to `ready`: flags, settings, secrets, the session to open, and fast imports."""
