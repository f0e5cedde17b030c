"""How one talks to engines: what is said at once, what to a line, and which lines mean what. One small class a wire.

To add one, write the class and name it in TALKS.
"""

import json
from typing import Any


class Talk:
    """One conversation. Lines are told apart by what is in them, so that looking at them costs next to nothing."""

    opening = b""
    """What a host has to say before anything else."""
    ping = b""
    """A request that the engine answers by itself; where empty, the opening is one."""
    ready: bytes
    """What is in the line after which prompts are taken."""
    pong: bytes
    """What is in the answer to the first request."""
    text: bytes
    """What is in every line that carries text of the model, and in no other."""
    end: bytes
    """What is in the last line of a turn, and in no other."""
    at_once = True
    """Whether a prompt may be sent before `ready`."""
    workspace = ""
    """The folder that the engine works in, for wires that name it."""

    def hear(self, line: bytes) -> bytes:
        """What a host has to say to this line."""
        return b""

    def prompt(self, text: str, number: int) -> bytes:
        raise NotImplementedError


class JsonStream(Talk):
    """The wire of wayland-core (0.2.0)."""

    ping = b'{"type":"ping"}\n'
    ready, pong = b'{"type":"ready"', b'{"type":"pong"'
    text, end = b'{"type":"text_delta"', b'{"type":"stream_end"'
    key = "content"

    def prompt(self, text: str, number: int) -> bytes:
        return line({"type": "message", "msg_id": f"bench-{number}", self.key: text})


class OldJsonStream(JsonStream):
    """The wire of aionrs (0.1.0)."""

    key = "input"


class Native(Talk):
    """The wire of polylect's own vocabulary. Every line begins with a number, so marks name only what follows it."""

    ping = b'{"type":"ping","ref":"first"}\n'
    ready, pong = b',"type":"ready"', b',"type":"reply"'
    text, end = b',"type":"text_delta"', b',"type":"turn_ended"'

    def prompt(self, text: str, number: int) -> bytes:
        return line({"type": "prompt", "turn": f"bench-{number}", "text": text})


class Omp(Talk):
    ping = b'{"type":"get_state","id":"first"}\n'
    ready, pong = b'"type":"ready"', b'"command":"get_state"'
    text, end = b'"type":"text_delta"', b'"type":"agent_end"'

    def prompt(self, text: str, number: int) -> bytes:
        return line({"type": "prompt", "id": f"bench-{number}", "message": text})


class Pi(Omp):
    """It says nothing of its own accord: its first answer shows that it is there."""

    opening, ping = Omp.ping, b""
    ready = Omp.pong


class Claude(Talk):
    """Silent, too, until it is asked."""

    opening = b'{"type":"control_request","request_id":"first","request":{"subtype":"initialize","hooks":null}}\n'
    ready = pong = b'"type":"control_response"'
    text, end = b'"type":"text_delta"', b'"type":"result"'

    def prompt(self, text: str, number: int) -> bytes:
        message = {"role": "user", "content": text}
        return line({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})


class Rpc(Talk):
    """JSON-RPC: an `initialize`, then a session, whose id every prompt has to name."""

    at_once = False
    session = ""

    def hear(self, line: bytes) -> bytes:
        if not self.session and b'"result"' in line:
            frame: dict[str, Any] = json.loads(line)
            if frame.get("id") == 0:
                return self.open()
            if frame.get("id") == 1:
                self.session = self.opened(frame["result"])
        return b""

    def open(self) -> bytes:
        raise NotImplementedError

    def opened(self, result: dict[str, Any]) -> str:
        raise NotImplementedError


class Codex(Rpc):
    opening = (
        b'{"id":0,"method":"initialize","params":{"clientInfo":{"name":"bench","version":"1"},"capabilities":null}}\n'
    )
    ready, pong = b'"id":1,', b'"id":0,'
    text, end = b'"method":"item/agentMessage/delta"', b'"method":"turn/completed"'

    def open(self) -> bytes:
        return line({"method": "initialized"}) + line({"id": 1, "method": "thread/start", "params": {}})

    def opened(self, result: dict[str, Any]) -> str:
        return str(result["thread"]["id"])

    def prompt(self, text: str, number: int) -> bytes:
        said = [{"type": "text", "text": text, "text_elements": []}]
        params = {"threadId": self.session, "input": said}
        return line({"id": number + 1, "method": "turn/start", "params": params})


class Acp(Rpc):
    opening = (
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,'
        b'"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}}}\n'
    )
    ready, pong = b'"sessionId"', b'"protocolVersion"'
    text, end = b'"agent_message_chunk"', b'"stopReason"'

    def open(self) -> bytes:
        params = {"cwd": self.workspace, "mcpServers": []}
        return line({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params})

    def opened(self, result: dict[str, Any]) -> str:
        return str(result["sessionId"])

    def prompt(self, text: str, number: int) -> bytes:
        params = {"sessionId": self.session, "prompt": [{"type": "text", "text": text}]}
        return line({"jsonrpc": "2.0", "id": number + 1, "method": "session/prompt", "params": params})


class Kimi(Talk):
    """JSON-RPC too, with one session to a process."""

    opening = b'{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocol_version":"1.1"}}\n'
    ready = pong = b'"id":"first"'
    text, end = b'"type":"ContentPart"', b'"id":"bench-'

    def prompt(self, text: str, number: int) -> bytes:
        return line({"jsonrpc": "2.0", "id": f"bench-{number}", "method": "prompt", "params": {"user_input": text}})


def line(frame: dict[str, Any]) -> bytes:
    return json.dumps(frame, separators=(",", ":")).encode() + b"\n"


TALKS: dict[str, type[Talk]] = {
    "json-stream": JsonStream,
    "json-stream-0.1": OldJsonStream,
    "native": Native,
    "omp": Omp,
    "pi": Pi,
    "claude": Claude,
    "codex": Codex,
    "acp": Acp,
    "kimi": Kimi,
}
