"""A conversation in a terminal: an ordinary host, written with the SDK in `polylect.host`."""
