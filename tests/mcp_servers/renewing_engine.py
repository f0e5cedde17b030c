"""A process that asks a remote server one thing with the stored login: renewing_engine.py URL HOME."""

import asyncio
import json
import sys

from polylect.mcp.server_log import ServerLog
from polylect.mcp.transports.base import Outgoing
from polylect.mcp.transports.streamable_http import StreamableHttp
from polylect.mcp.values import ServerSetup
from polylect.tools.process.custody import Custody
from polylect.vocab.content import Server


async def main(url: str, home: str) -> None:
    server = Server("far", "http", url=url)
    transport = StreamableHttp(server, ServerSetup(Custody(), {"HOME": home}, home, lambda _: None), ServerLog(server))
    await transport.start()
    transport.send(Outgoing(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode(), 1, "ping"))
    item = await transport.receive()
    print(item.decode() if isinstance(item, bytes) else item)
    await transport.close()


asyncio.run(main(*sys.argv[1:]))
