"""A conversation in a terminal: an ordinary host, of which no engine knows."""
