"""A host in a few lines, as the guide for host authors shows one: a question, its answer, and every tool allowed."""

import json
import subprocess
import sys

engine = subprocess.Popen(
    ["wayland-core", "--json-stream", "--provider", "scripted"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
)


def emit(**command: str) -> None:
    assert engine.stdin
    engine.stdin.write(json.dumps(command) + "\n")
    engine.stdin.flush()


assert engine.stdout
for line in engine.stdout:
    event = json.loads(line)
    match event["type"]:
        case "ready":
            emit(type="message", msg_id="m1", content="What does this project do?")
        case "text_delta":
            sys.stdout.write(event["text"])
        case "tool_request":
            emit(type="tool_approve", call_id=event["call_id"], scope="once")
        case "stream_end":
            break
engine.communicate()
sys.exit(engine.returncode)
