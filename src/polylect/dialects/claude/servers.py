"""An MCP server as this wire describes it."""

from typing import Any, Literal

import msgspec

from polylect.vocab.content import Server

Transport = Literal["stdio", "sse", "http", "host"]
_TRANSPORTS: dict[str, Transport] = {"stdio": "stdio", "sse": "sse", "http": "http", "sdk": "host"}
_FIELDS = ("command", "args", "env", "url", "headers")


def server_of(name: str, entry: dict[str, Any]) -> Server:
    """Raises ValueError, whose text names the server and what is wrong."""
    kind = entry.get("type") or ("http" if "url" in entry else "stdio")
    if kind not in _TRANSPORTS:
        raise ValueError(f"the MCP server {name!r} has the type {kind!r}; types are {', '.join(_TRANSPORTS)}")
    known = {field: entry[field] for field in _FIELDS if entry.get(field) is not None}
    extras = {key: value for key, value in entry.items() if key not in (*_FIELDS, "type", "name")}
    try:
        return msgspec.convert({"name": name, "transport": _TRANSPORTS[kind], **known, "extras": extras}, Server)
    except msgspec.ValidationError as error:
        raise ValueError(f"the MCP server {name!r}: {error}") from None
