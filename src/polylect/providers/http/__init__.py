"""The HTTP client that all model services share: connections, TLS, proxies, retries, kinds of errors.

Providers use `exchange.py`, which sends one request and yields the chunks of its answer, and `retry.py` around it.
Standard library only, because start-up time and memory matter more than features.
"""
