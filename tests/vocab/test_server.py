"""An MCP server as a host names it."""

from typing import Any

import msgspec
import pytest

from polylect.vocab.content import Server


def test_the_transport_has_the_names_of_the_documentation_and_follows_from_the_url() -> None:
    url = "http://127.0.0.1/mcp"
    assert Server("x", url=url).transport == "http"
    assert Server("x", "streamable-http", url=url) == Server("x", "http", url=url)
    assert Server("x", "sse", url=url).transport == "sse"
    assert Server("x", command="run").transport == "stdio"
    assert msgspec.convert({"name": "x", "transport": "streamable-http", "url": url}, Server) == Server("x", url=url)


def test_a_transport_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    word: Any = "tcp"
    with pytest.raises(ValueError, match=r"no transport 'tcp'; choose stdio, streamable-http .or http. or sse"):
        Server("x", word)
