"""What a server's own settings hold does not come out of its log."""

import asyncio

import pytest

from polylect.mcp.server_log import ServerLog
from polylect.vocab.content import Server


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("https://a.example/mcp?key=s3cr3t-1&x=2", "s3cr3t-1"),
        ("https://a.example/mcp?key=s3cr3t%2F1", "s3cr3t/1"),
        ("https://a.example/mcp?key=s3cr3t%2F1", "s3cr3t%2F1"),
        ("https://me:s3cr3t-1@a.example/mcp", "s3cr3t-1"),
        ("https://a.example/s/0123456789abcdefghij/mcp", "0123456789abcdefghij"),
    ],
)
def test_P5_keys_in_an_address_are_removed(url: str, secret: str) -> None:
    async def main() -> str:
        return ServerLog(Server("far", "http", url=url)).redact(f"no page {secret}, sorry")

    assert asyncio.run(main()) == "no page [removed], sorry"


def test_P5_a_token_is_removed_once_it_is_known() -> None:
    async def main() -> tuple[str, str]:
        log = ServerLog(Server("far", "http", url="https://a.example/mcp"))
        before = log.redact("mcp token-1")
        log.hide("token-1")
        log.hide("")
        return before, log.redact("mcp token-1")

    assert asyncio.run(main()) == ("mcp token-1", "mcp [removed]")
