"""The HTTP client that all model services share: connections, TLS, proxies, retries, kinds of errors."""
