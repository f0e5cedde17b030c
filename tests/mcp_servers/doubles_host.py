"""A host with a server inside it: what the engine sends is handed over, what the server says comes back."""

import asyncio
from collections.abc import Callable
from typing import Any

from mcp_servers.plain import Works
from mcp_servers.published_schema import Wire


class Shop(Works):
    """Adds numbers, tells its progress, gets another tool, and waits for ever."""

    def __init__(self) -> None:
        super().__init__("")
        self.tools = ["add", "count", "grow", "wait"]
        self.on_message: Callable[[dict[str, Any]], None] = print

    def send(self, message: dict[str, Any]) -> None:
        self.on_message(message)

    def initialize(self, message: dict[str, Any]) -> Any:
        return {**super().initialize(message), "serverInfo": {"name": "shop", "version": "1"}}

    def tools_call(self, message: dict[str, Any]) -> Any:
        params = message["params"]
        match params["name"]:
            case "add":
                return self.text(str(int(params["arguments"]["a"]) + int(params["arguments"]["b"])))
            case "count":
                progress = {"progressToken": params["_meta"]["progressToken"], "progress": 1, "total": 2}
                self.send({"method": "notifications/progress", "params": {**progress, "message": "half"}})
                return self.text("done")
            case "grow":
                self.tools.append("leaf")
                self.send({"method": "notifications/tools/list_changed"})
                return self.text("growing")
            case _:
                return None


class Inside:
    """`send` takes a message and returns the answer to it; what nobody asked for goes to `unasked`."""

    def __init__(self, server: Shop) -> None:
        self.unasked: Callable[[Any], object] = lambda message: None
        self.received: list[dict[str, Any]] = []
        self._server = server
        server.on_message = self._sent
        self._wire = Wire()
        self._waiting: dict[Any, asyncio.Future[Any]] = {}

    async def send(self, message: dict[str, Any]) -> Any:
        self._wire.check(message, "client")
        self.received.append(message)
        if "id" not in message:
            self._server.take(message)
            return {"jsonrpc": "2.0", "result": {}}
        answer = self._waiting[message["id"]] = asyncio.get_running_loop().create_future()
        self._server.take(message)
        return {"mcp_response": await answer}

    def _sent(self, message: dict[str, Any]) -> None:
        frame = {"jsonrpc": "2.0", **message}
        self._wire.note(frame, "server")
        waiting = None if "method" in frame else self._waiting.pop(frame["id"], None)
        if waiting is None:
            self.unasked(frame)
        elif not waiting.done():
            waiting.set_result(frame)
