"""A small agent of ACP for tests: `python acp_agent.py KIND` answers as the kind says.

It is written without polylect, so that both do not share a mistake.
"""

import json
import sys
import time

KIND = sys.argv[1]
INFO = {"name": "small", "version": "1"}
CAPABILITIES = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}} if KIND != "gemini" else {}}
METHODS = [{"id": "sign-in", "name": "Sign in", "type": "terminal", "args": ["login", "--web"]}]


def write(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(kind: str, **fields: object) -> None:
    write(method="session/update", params={"sessionId": "s-1", "update": {"sessionUpdate": kind, **fields}})


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def replay(words: str) -> None:
    update("user_message_chunk", content=text(words))
    update("agent_message_chunk", content=text(f"You said {words}."))


for line in sys.stdin:
    message = json.loads(line)
    id, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize" if KIND == "second":
            write(id=id, result={"protocolVersion": 2, "info": INFO, "capabilities": {}})
        case "initialize":
            answer = {"agentInfo": INFO, "agentCapabilities": CAPABILITIES, "authMethods": METHODS}
            write(id=id, result={"protocolVersion": 1, **answer})
        case "session/new" if KIND == "login":
            write(id=id, error={"code": -32000, "message": "Authentication required"})
        case "session/new":
            write(id=id, result={"sessionId": "s-1", "cwd": params["cwd"], "servers": params["mcpServers"]})
        case "session/load":  # as gemini does: the answer comes before the replay is out
            replay("one")
            write(id=id, result={})
            time.sleep(0.03)
            replay("two")
        case "session/resume":
            write(id=id, result={})
        case "session/list":
            rows = [
                {"sessionId": name, "cwd": params["cwd"], "updatedAt": at} for name, at in (("old", "1"), ("s-1", "2"))
            ]
            write(id=id, result={"sessions": rows})
        case "session/prompt" if "deaf" in str(params["prompt"]):  # and a cancel is not heard either
            update("agent_message_chunk", content=text("..."))
        case "session/prompt":
            words = " ".join(block.get("text", "") for block in params["prompt"])
            update("agent_message_chunk", content=text(f"You say {words}."))
            write(id=id, result={"stopReason": "end_turn"})
