"""Jupyter AI's client of ACP drives polylect: the one editor whose plugin comes by name and needs no screen."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from interop.acp_clients import Stage
from interop.claude_hosts import play
from interop.claude_model import WAIT, Model, Step, text, use
from machine import PATIENCE

pytestmark = pytest.mark.interop
CLIENT = Path(__file__).parent / "acp_jupyter.py"
SCRIPT: dict[str, list[Step]] = {
    "HELLO": [[text("Hi there.")]],
    "MAKE": [[text("I make it."), use("c1", "Bash", command="touch made", description="make it")], [text("Made.")]],
    "WRITE": [[use("c2", "Write", file_path="new.txt", content="new")], [text("Written.")]],
    "AGAIN": [[use("c3", "Bash", command="touch again", description="make it")], [text("Then not.")]],
    "SLOW": [[text("First."), WAIT]],
}


async def jupyter(stage: Stage, option: str, *prompts: str) -> dict[str, Any]:
    """A chat in a process of its own, which presses this button at every question."""
    argv = [sys.executable, str(CLIENT), stage.launcher(), str(stage.work), option, *prompts]
    paths = os.pathsep.join([os.environ["POLYLECT_INTEROP_JUPYTER"], stage.env["PYTHONPATH"]])
    pipe = asyncio.subprocess.PIPE
    chat = await asyncio.create_subprocess_exec(*argv, env={**stage.env, "PYTHONPATH": paths}, stdout=pipe, stderr=pipe)
    out, errors = await asyncio.wait_for(chat.communicate(), 2 * PATIENCE)
    assert chat.returncode == 0, errors.decode()
    result: dict[str, Any] = json.loads(out)
    return result


def lines(messages: list[dict[str, Any]]) -> list[str]:
    """What the chat shows: texts, and calls with what was answered and how they ended."""
    calls = [(message["metadata"] or {}).get("tool_calls", []) for message in messages]
    parts = ("title", "selected_option_id", "status")
    shown = [[" ".join(call.get(part, "") for part in parts) for call in row] for row in calls]
    return [message["body"] or "; ".join(row) for message, row in zip(messages, shown, strict=True)]


def test_a_chat_in_jupyter(tmp_path: Path) -> None:
    async def main(model: Model) -> None:
        stage = Stage(tmp_path, model)
        chat = await jupyter(stage, "allow_once", "HELLO", "MAKE", "WRITE", "SLOW...")
        assert chat["ends"] == ["end_turn", "end_turn", "end_turn", "cancelled"]
        assert {"/compact", "/model"} <= set(chat["commands"])
        assert lines(chat["messages"]) == [
            "Hi there.",
            "I make it.",
            "`touch made` allow_once completed",
            "Made.",
            "Write to new.txt allow_once completed",
            "Written.",
            "First.",
        ]
        assert (stage.work / "made").exists()
        assert (stage.work / "new.txt").read_text() == "new"
        later = await jupyter(stage, "reject_once", f"session={chat['session']}", "AGAIN", "HELLO")
        assert (later["ends"], later["exit"]) == (["end_turn", "end_turn"], 0)
        assert lines(later["messages"])[-3:] == [
            "`touch again` reject_once failed",
            "Then not.",
            "Hi there.",
        ]
        assert "MAKE" in json.dumps(model.asked[-1]["messages"])
        stage.check()

    play(SCRIPT, main)
