"""The HTTP/1.1 client that model services and MCP servers are reached with: connections, TLS, proxies.

`client.py` is what other packages use; its failures are an `HttpError` (`errors.py`). The bytes are understood in
`wire/http1.py`. Standard library and httptools only, because start-up time and memory matter more than features.
"""
