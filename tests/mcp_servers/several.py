"""A server that tells which process it is, asks questions and holds calls, for tests with several sessions."""

import json
import os
from typing import Any

from plain import Works


class Several(Works):
    def __init__(self, argument: str) -> None:
        super().__init__(argument)
        self.tools = ["who", "ask", "hold", "release", "crash", "grow", "where"]
        self.held: list[Any] = []
        self.asking: dict[str, Any] = {}

    def tools_call(self, message: dict[str, Any]) -> Any:
        meta = message["params"].get("_meta", {})
        match message["params"]["name"]:
            case "who":
                return self.text(str(os.getpid()))
            case "crash":
                os._exit(3)
            case "ask" | "where" as name:
                id = f"{name}{message['id']}"
                self.asking[id] = message["id"]
                requested = message["params"]["arguments"].get("text", "")
                form = {"message": requested, "requestedSchema": {"type": "object", "properties": {}}}
                if name == "ask":
                    self.send({"id": id, "method": "elicitation/create", "params": form})
                    self.progress(meta, "asked")
                else:
                    self.send({"id": id, "method": "roots/list"})
                return None
            case "hold":
                self.held.append(message["id"])
                self.progress(meta, "held")
                return None
            case "grow":
                self.tools.append("leaf")
                self.send({"method": "notifications/tools/list_changed"})
                return self.text("grown")
            case _:
                for id in self.held:
                    self.send({"id": id, "result": self.text("released")})
                self.held = []
                return self.text("done")

    def progress(self, meta: dict[str, Any], text: str) -> None:
        params = {"progressToken": meta.get("progressToken"), "progress": 1, "message": text}
        self.send({"method": "notifications/progress", "params": params})

    def take(self, message: dict[str, Any]) -> None:
        if call := self.asking.pop(str(message.get("id")), None):
            return self.send({"id": call, "result": self.text(json.dumps(message.get("result")))})
        return super().take(message)


if __name__ == "__main__":
    Several("").run()
