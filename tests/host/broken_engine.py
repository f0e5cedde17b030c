"""An engine that is broken on purpose: `broken_engine.py DIALECT FAULT`. It greets as its dialect wants, then fails."""

import json
import os
import signal
import subprocess
import sys
import time

IDLE = {"isStreaming": False, "isCompacting": False, "sessionId": "s", "messageCount": 0, "queuedMessageCount": 0}


def emit(**frame: object) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def greet(dialect: str) -> None:
    if dialect == "jsonstream":
        emit(type="ready", version="0.2.0", session_id="s", capabilities={})
    if dialect == "omp":
        emit(type="ready")


def take(dialect: str, frame: dict[str, object]) -> bool:
    """Answers what belongs to the greeting. True for a prompt, whose turn has begun then."""
    match dialect, frame.get("type"):
        case _ if sys.argv[2] == "drops prompts" and frame.get("type") in ("message", "prompt", "user"):
            return False
        case "jsonstream", "message":
            emit(type="stream_start", msg_id=frame["msg_id"])
        case "omp", "get_state":
            emit(type="response", id=frame["id"], command="get_state", success=True, data=IDLE)
            return False
        case "omp", "prompt":
            emit(type="response", id=frame["id"], command="prompt", success=True)
            emit(type="agent_start")
        case "claude", "control_request":
            emit(
                type="control_response",
                response={"subtype": "success", "request_id": frame["request_id"], "response": {}},
            )
            return False
        case "claude", "user":
            emit(type="system", subtype="init", session_id="s", model="m", tools=[], claude_code_version="2.1.325")
        case _:
            return False
    return True


def fail(fault: str) -> None:
    match fault:
        case "dies":
            sys.stderr.write("out of coffee\n")
            sys.stderr.flush()
            os._exit(3)
        case "floods stderr":
            sys.stderr.write("x" * 5_000_000 + "the end\n")
            sys.stderr.flush()
            os._exit(3)
        case "writes garbage":
            os.write(1, b'\xff\xfe\n{"type": 5}\n[]\n{"type":"brand_new"}\n' * 50)
            os._exit(3)
        case "closes stdout":
            os.close(1)
        case "ignores SIGTERM":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "leaves children":
            subprocess.Popen(["sleep", "600"])
            os._exit(3)
    time.sleep(600)


def main(dialect: str, fault: str) -> None:
    if fault == "never says ready":
        sys.stderr.write("looking for a port\n")
        sys.stderr.flush()
        time.sleep(600)
    greet(dialect)
    for line in sys.stdin:
        if take(dialect, json.loads(line)):
            fail(fault)


if __name__ == "__main__":
    main(*sys.argv[1:])
