"""A scripted peer: claude 2.1.197, as far as its sessions and costs go.

It counts the cost of a session from zero in each process. A session is written only if the prompt says `write`; one
that was not written cannot be resumed. Each turn costs half a dollar, and the answer repeats all prompts.

    die       it ends in the middle of the turn
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from peers.peer import emit

COST = 0.5


def session() -> tuple[str, Path, bool]:
    """Its id, its file, and whether it goes on."""
    [(word, _, id)] = [flag.partition("=") for flag in sys.argv if flag.startswith(("--session-id=", "--resume="))]
    return id, Path(os.environ["CLAUDE_CONFIG_DIR"], id), word == "--resume"


def answer(request: dict[str, Any], total: float) -> None:
    is_usage = request["request"]["subtype"] == "get_usage"
    data = {"session": {"total_cost_usd": total, "model_usage": {}}} if is_usage else {}
    emit(
        type="control_response", response={"subtype": "success", "request_id": request["request_id"], "response": data}
    )


def main() -> None:
    id, file, resumes = session()
    if resumes and not file.exists():
        failure = f"No conversation found with session ID: {id}"
        emit(type="result", subtype="error_during_execution", is_error=True, errors=[failure], total_cost_usd=0)
        sys.exit(failure)
    prompts = file.read_text().splitlines() if resumes else []
    total = 0.0
    for frame in map(json.loads, sys.stdin):
        if frame["type"] == "control_request":
            answer(frame, total)
        if frame["type"] != "user":
            continue
        prompts += str(frame["message"]["content"]).splitlines()
        emit(type="system", subtype="init", session_id=id, model="m", tools=[], claude_code_version="2.1.197")
        if prompts[-1] == "die":
            os._exit(9)
        if prompts[-1] == "write":
            file.parent.mkdir(exist_ok=True)
            file.write_text("\n".join(prompts))
        used = {"input_tokens": 0, "output_tokens": 0}
        if frame.get("shouldQuery") is not False:
            total += COST
            used = {"input_tokens": 1000, "output_tokens": 100}
            content = [{"type": "text", "text": " ".join(prompts)}]
            emit(type="assistant", message={"id": f"m{total}", "role": "assistant", "content": content})
        emit(type="result", subtype="success", is_error=False, usage=used, total_cost_usd=total, session_id=id)


if __name__ == "__main__":
    main()
