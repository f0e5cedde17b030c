"""Servers that behave badly, in plain Python so that they start fast: plain.py WAY [ARGUMENT].

Each way of `WAYS` is a class that changes something of a server that works. Where $RECORD names a folder, the lines of
the client are written there, for `doubles_mcp.on_stage`, which holds them against the published schemas.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar


def record(side: str, message: dict[str, Any]) -> None:
    if folder := os.environ.get("RECORD"):
        with open(f"{folder}/{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps([side, message]) + "\n")


class Works:
    """A small server that does what it should."""

    def __init__(self, argument: str) -> None:
        self.argument = argument
        self.tools = ["echo"]

    def run(self) -> None:
        for line in sys.stdin:
            record("client", message := json.loads(line))
            self.take(message)

    def take(self, message: dict[str, Any]) -> None:
        method = getattr(self, message.get("method", "").replace("/", "_"), None)
        if "id" in message and "method" in message:
            if method is None:
                self.send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            elif (result := method(message)) is not None:
                self.send({"id": message["id"], "result": result})
        elif method:
            method(message)

    def send(self, message: dict[str, Any]) -> None:
        if "id" in message and ("method" in message or "protocolVersion" in str(message)[:200]):
            record("server", message)
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def initialize(self, message: dict[str, Any]) -> Any:
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "plain", "version": "1"},
        }

    def tools_list(self, message: dict[str, Any]) -> Any:
        return {
            "tools": [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in self.tools]
        }

    def tools_call(self, message: dict[str, Any]) -> Any:
        return self.text(json.dumps(message["params"].get("arguments")))

    def text(self, text: str) -> Any:
        return {"content": [{"type": "text", "text": text}]}


class Named(Works):
    """Has tools of any names, which are its argument."""

    def __init__(self, argument: str) -> None:
        super().__init__(argument)
        self.tools = argument.split(",")

    def tools_call(self, message: dict[str, Any]) -> Any:
        return self.text(f"{message['params']['name']} of the server ran")


class Surroundings(Works):
    """Tells where it runs and which variables it has."""

    def tools_call(self, message: dict[str, Any]) -> Any:
        return self.text(json.dumps([os.getcwd(), sorted(os.environ)]))


class Silent(Works):
    """Never answers."""

    def take(self, message: dict[str, Any]) -> None:
        pass


class WaitsToStart(Works):
    """Starts to work when somebody opens the FIFO it is given for writing."""

    def run(self) -> None:
        with open(self.argument):
            super().run()


class Many(Works):
    """Has as many tools as it is told, in one list. Each says its name; the last one is called `last`."""

    def tools_list(self, message: dict[str, Any]) -> Any:
        schema = {"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}}
        names = [*(f"tool_{number}" for number in range(int(self.argument) - 1)), "last"]
        description = "Looks something up in a large collection and says what it has found there."
        return {"tools": [{"name": name, "description": description, "inputSchema": schema} for name in names]}

    def tools_call(self, message: dict[str, Any]) -> Any:
        return self.text(message["params"]["name"])


class Greets(Works):
    """Has one prompt, `greet`, whose argument is a name."""

    def initialize(self, message: dict[str, Any]) -> Any:
        return {**super().initialize(message), "capabilities": {"tools": {}, "prompts": {}}}

    def prompts_list(self, message: dict[str, Any]) -> Any:
        return {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}

    def prompts_get(self, message: dict[str, Any]) -> Any:
        content = {"type": "text", "text": f"Say hello to {message['params']['arguments']['who']}"}
        return {"messages": [{"role": "user", "content": content}]}


class Large(Works):
    """Its results have as many parts, or keys in their structured form, as it is told."""

    def __init__(self, argument: str) -> None:
        super().__init__(argument)
        self.tools = ["parts", "numbers", "keys", "both"]

    def tools_list(self, message: dict[str, Any]) -> Any:
        listing = super().tools_list(message)
        listing["tools"][-1]["outputSchema"] = {"type": "object"}
        return listing

    def tools_call(self, message: dict[str, Any]) -> Any:
        count = int(self.argument)
        keys = {f"key{number}": number for number in range(count)}
        match message["params"]["name"]:
            case "parts":
                return {"content": [{"type": "text", "text": "x"}] * count}
            case "numbers":
                return {"content": [1] * count}
            case "keys":
                return {"content": [], "structuredContent": keys}
            case _:
                return {**self.text("short"), "structuredContent": keys}


class Pictures(Works):
    """Its results have as many pictures of 6 MB of base64 as it is told."""

    def tools_call(self, message: dict[str, Any]) -> Any:
        picture = {"type": "image", "data": "iVBORw0KGgoA" * 500_000, "mimeType": "image/png"}
        return {"content": [picture] * int(self.argument)}


class Lists(Works):
    """Has as many prompts and resources as it is told, in one page each."""

    def initialize(self, message: dict[str, Any]) -> Any:
        return {**super().initialize(message), "capabilities": {"tools": {}, "prompts": {}, "resources": {}}}

    def prompts_list(self, message: dict[str, Any]) -> Any:
        return {"prompts": [{"name": f"p{number}"} for number in range(int(self.argument))]}

    def resources_list(self, message: dict[str, Any]) -> Any:
        return {"resources": [{"name": "r", "uri": f"a:{number}"} for number in range(int(self.argument))]}


class Notes(Works):
    """Has notes to be read: `note://all`, and any other by its number. It does not have the one of the number 13."""

    def initialize(self, message: dict[str, Any]) -> Any:
        return {**super().initialize(message), "capabilities": {"tools": {}, "resources": {}}}

    def resources_list(self, message: dict[str, Any]) -> Any:
        return {"resources": [{"name": "notes", "uri": "note://all", "mimeType": "text/plain"}]}

    def resources_templates_list(self, message: dict[str, Any]) -> Any:
        return {"resourceTemplates": [{"name": "note", "uriTemplate": "note://{number}"}]}

    def resources_read(self, message: dict[str, Any]) -> Any:
        uri = message["params"]["uri"]
        if uri == "note://13":
            return self.send({"id": message["id"], "error": {"code": -32002, "message": "Resource not found"}})
        return {"contents": [{"uri": uri, "text": f"What {uri} says"}, {"uri": uri}, {"uri": uri, "blob": "%%"}]}


class NeedsPages(Works):
    """Refuses its first call until a page was opened, and tells at once that it was."""

    def tools_call(self, message: dict[str, Any]) -> Any:
        if not hasattr(self, "refused"):
            self.refused = True
            page = {"mode": "url", "message": "Log in", "url": "https://a.example/login", "elicitationId": "p1"}
            error = {"code": -32042, "message": "Log in first", "data": {"elicitations": [page]}}
            self.send({"id": message["id"], "error": error})
            return self.send({"method": "notifications/elicitation/complete", "params": {"elicitationId": "p1"}})
        return super().tools_call(message)


class Backtracks(Works):
    """Its schemas have a pattern that takes for ever, and its results are made for it."""

    def tools_list(self, message: dict[str, Any]) -> Any:
        schema = {"type": "object", "properties": {"word": {"type": "string", "pattern": "^(a+)+$"}}}
        return {"tools": [{"name": "echo", "inputSchema": schema, "outputSchema": schema}]}

    def tools_call(self, message: dict[str, Any]) -> Any:
        return {**self.text("back"), "structuredContent": {"word": "a" * 40 + "!"}}


class Shouts(Works):
    """Sends a notification of as many entries as it is told, before each result."""

    def tools_call(self, message: dict[str, Any]) -> Any:
        entries = [{"a": number} for number in range(int(self.argument))]
        self.send({"method": "notifications/message", "params": {"level": "info", "data": entries}})
        return super().tools_call(message)


class WrongId(Works):
    """Answers, but to questions that nobody asked."""

    def send(self, message: dict[str, Any]) -> None:
        super().send({**message, "id": 4711})


class WrongIdInCalls(Works):
    """Comes up, and then answers calls with another id."""

    def tools_call(self, message: dict[str, Any]) -> None:
        self.send({"id": 4711, "result": self.text("for somebody else")})


class Banner(Works):
    """Prints a few words to stdout first, as careless servers do."""

    def run(self) -> None:
        print("Starting ...\n\n\x1b[1mversion 1\x1b[0m\n[1, 2]\nnull", flush=True)
        super().run()


class Garbage(Works):
    """Writes nothing but noise, as fast as it can."""

    def run(self) -> None:
        while True:
            os.write(1, b"garbage\n" * 8000)


class Endless(Works):
    """Writes one line that never ends."""

    def run(self) -> None:
        while True:
            os.write(1, b"x" * 65536)


class Dies(Works):
    """Cannot start, and says why."""

    def run(self) -> None:
        print(f"Traceback ...\nKeyError: 'no database' {os.environ.get('THE_TOKEN', '')}", file=sys.stderr)
        sys.exit(1)


class Floods(Works):
    """Talks on stderr without end while it works."""

    def run(self) -> None:
        threading.Thread(target=self.flood, daemon=True).start()
        super().run()

    def flood(self) -> None:
        while True:
            os.write(2, b"something is going on " * 2000 + b"\n")


class Chatters(Works):
    """Sends proper notifications without end while it works."""

    def run(self) -> None:
        threading.Thread(target=self.chatter, daemon=True).start()
        super().run()

    def chatter(self) -> None:
        params = {"level": "info", "data": "something is going on"}
        line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}) + "\n"
        while True:
            sys.stdout.write(line)  # whole lines, because both threads write through one lock
            sys.stdout.flush()


class Crashes(Works):
    """Ends in the middle of a call, as often as the file it is given has letters."""

    def tools_call(self, message: dict[str, Any]) -> Any:
        path = Path(self.argument)
        left = path.read_text()
        if left:
            path.write_text(left[1:])
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(3)
        return super().tools_call(message)


class Deaf(Works):
    """Comes up and then reads no more."""

    def notifications_initialized(self, message: dict[str, Any]) -> None:
        pass

    def tools_list(self, message: dict[str, Any]) -> Any:
        self.send({"id": message["id"], "result": super().tools_list(message)})
        threading.Event().wait()


class Slow(Works):
    """Needs longer for a call than anybody waits; tells what it is told meanwhile."""

    def __init__(self, argument: str) -> None:
        super().__init__(argument)
        self.tools = ["sleep", "told"]
        self.reported: list[Any] = []

    def tools_call(self, message: dict[str, Any]) -> Any:
        if message["params"]["name"] == "told":
            return self.text(json.dumps(self.reported))
        self.sleeping = message["id"]
        token = message["params"]["_meta"]["progressToken"]
        self.send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        return None

    def notifications_cancelled(self, message: dict[str, Any]) -> None:
        self.reported.append(message["params"]["requestId"] == self.sleeping)
        self.send({"id": message["params"]["requestId"], "result": self.text("too late")})


class Strange(Works):
    """Its results are not what the protocol says."""

    RESULTS: ClassVar[dict[str, Any]] = {
        "number": 5,
        "list": [1, 2],
        "no_content": {},
        "bad_content": {"content": "words"},
        "bad_kind": {"content": [{"type": "hologram", "data": "x"}]},
        "bad_image": {"content": [{"type": "image", "mimeType": "image/png", "data": "%%%"}]},
        "drawing": {"content": [{"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zz4="}]},
        "sound": {"content": [{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]},
        "empty": {"content": []},
        "structured": {"content": [], "structuredContent": {"a": 1}},
        "long": {"content": [{"type": "text", "text": "long " * 100_000}]},
        "failed": {"content": [{"type": "text", "text": "no such row"}], "isError": True},
    }

    def __init__(self, argument: str) -> None:
        super().__init__(argument)
        self.tools = list(self.RESULTS)

    def tools_call(self, message: dict[str, Any]) -> Any:
        return self.RESULTS[message["params"]["name"]]


class Names(Works):
    """Tools with names that are taken or that vendors refuse."""

    def __init__(self, argument: str) -> None:
        super().__init__(argument)
        self.tools = ["Read", "echo", "echo", "files.search", "a b", "x" * 90, "y" * 90 + "1", "y" * 90 + "2"]

    def tools_call(self, message: dict[str, Any]) -> Any:
        return self.text(message["params"]["name"])


class Pages(Works):
    """A list of tools that never ends."""

    def tools_list(self, message: dict[str, Any]) -> Any:
        page = int((message.get("params") or {}).get("cursor") or 0)
        self.tools = [f"tool{page}"]
        return {**super().tools_list(message), "nextCursor": str(page + 1)}


class Restless(Works):
    """Says a hundred times in one breath that its tools have changed."""

    def tools_call(self, message: dict[str, Any]) -> Any:
        self.tools = ["echo", "other"]
        for _ in range(100):
            self.send({"method": "notifications/tools/list_changed"})
        return super().tools_call(message)


class Asks(Works):
    """Asks the person for something that takes them longer than a call may take."""

    def tools_call(self, message: dict[str, Any]) -> Any:
        self.call = message["id"]
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        params = {"message": "Really?", "requestedSchema": schema}
        self.send({"id": "q1", "method": "elicitation/create", "params": params})

    def take(self, message: dict[str, Any]) -> None:
        if message.get("id") == "q1":
            return self.send({"id": self.call, "result": self.text(json.dumps(message["result"]))})
        return super().take(message)


class Samples(Works):
    """Asks the model: the arguments of a call are the parameters, and what comes back is the result of the call."""

    def initialize(self, message: dict[str, Any]) -> Any:
        self.offered = "sampling" in message["params"]["capabilities"]
        return super().initialize(message)

    def tools_call(self, message: dict[str, Any]) -> Any:
        self.call = message["id"]
        self.send({"id": "s1", "method": "sampling/createMessage", "params": message["params"]["arguments"]})

    def take(self, message: dict[str, Any]) -> None:
        if message.get("id") == "s1":
            outcome = {"offered": self.offered, **(message.get("result") or message["error"])}
            return self.send({"id": self.call, "result": self.text(json.dumps(outcome))})
        return super().take(message)


class AsksTooOften(Asks):
    """Asks ten things at once, and tells how it was answered."""

    def tools_call(self, message: dict[str, Any]) -> Any:
        self.call = message["id"]
        self.actions: list[str] = []
        params = {"message": "Really?", "requestedSchema": {"type": "object", "properties": {}}}
        for number in range(10):
            self.send({"id": f"q{number}", "method": "elicitation/create", "params": params})

    def take(self, message: dict[str, Any]) -> None:
        if not str(message.get("id")).startswith("q"):
            return super().take(message)
        self.actions.append(message["result"]["action"])
        if len(self.actions) == 10:
            self.send({"id": self.call, "result": self.text(" ".join(sorted(self.actions)))})
        return None


class AsksAtOnce(Asks):
    """Asks before anybody has called it."""

    def notifications_initialized(self, message: dict[str, Any]) -> None:
        self.tools_call({"id": "none"})

    def send(self, message: dict[str, Any]) -> None:
        if message.get("id") == "none":
            self.tools = [json.loads(message["result"]["content"][0]["text"])["action"]]
            return super().send({"method": "notifications/tools/list_changed"})
        return super().send(message)


class Stays(Works):
    """Has children elsewhere, and does not leave."""

    def run(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for _ in range(3):
            subprocess.Popen(["setsid", "sleep", self.argument])
        super().run()
        time.sleep(float(self.argument))


class Modern(Works):
    """Knows only the newest revision, which has no handshake."""

    initialize = None  # type: ignore[assignment]

    def server_discover(self, message: dict[str, Any]) -> Any:
        return self.dated({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}})

    def tools_list(self, message: dict[str, Any]) -> Any:
        return self.dated(super().tools_list(message))

    def tools_call(self, message: dict[str, Any]) -> Any:
        return {**super().tools_call(message), "resultType": "complete"}

    def dated(self, result: dict[str, Any]) -> Any:
        return {**result, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


_ALL: list[type[Works]] = [Works, AsksAtOnce, AsksTooOften, *Works.__subclasses__()]
WAYS = {way.__name__: way for way in _ALL}

if __name__ == "__main__":
    WAYS[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "").run()
