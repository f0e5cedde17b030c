"""Who serves models: addresses, credentials, sockets, retries. `scripted` needs no network."""
