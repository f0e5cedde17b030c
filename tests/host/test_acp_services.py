"""Files and terminals that the SDK serves to agents of ACP, by a small agent that asks for what its prompt says.

The prompt is a list of requests as JSON, and so is the answer: the result or the error of each. `$T` stands for the
last terminal that was created.
"""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place, Sleepers
from machine import PATIENCE
from polylect.host import connect
from polylect.host.engine_registry import ENGINES
from polylect.vocab.commands import Cancel

AGENT = r"""
import json, sys

def write(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def ask(method, params):
    write(id="ask", method=method, params={"sessionId": "s", **params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "ask":
            return message
        if message.get("method") == "session/cancel":
            raise KeyboardInterrupt

terminal = ""
for line in sys.stdin:
    message = json.loads(line)
    id, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            offered = params["clientCapabilities"]
            write(id=id, result={"protocolVersion": 1, "agentCapabilities": {}})
        case "session/new":
            write(id=id, result={"sessionId": "s"})
        case "session/prompt":
            answers = [[offered.get("fs"), offered.get("terminal")]]
            try:
                for method, fields in json.loads(params["prompt"][0]["text"]):
                    answer = ask(method, json.loads(json.dumps(fields).replace("$T", terminal)))
                    terminal = (answer.get("result") or {}).get("terminalId", terminal)
                    answers.append(answer.get("result", (answer.get("error") or {}).get("code")))
                reason = "end_turn"
            except KeyboardInterrupt:
                reason = "cancelled"
            content = {"type": "text", "text": json.dumps(answers)}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            write(method="session/update", params={"sessionId": "s", "update": update})
            write(id=id, result={"stopReason": reason})
"""
BOTH = {"files": True, "terminal": True}
Request = tuple[str, dict[str, Any]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(Path(os.path.realpath(tmp_path)))
    (place.folder / "agent.py").write_text(AGENT)
    return place


def answers(place: Place, requests: Sequence[Request], **switches: bool) -> list[Any]:
    """What the agent got: what it is offered, then the answer to each request."""

    async def main() -> str:
        argv = [sys.executable, str(place.folder / "agent.py")]
        where: dict[str, Any] = {"cwd": str(place.workspace), "env": place.env, **switches}
        async with connect(argv, dialect="acp", **where) as agent:
            return (await agent.ask(json.dumps(requests))).text

    got: list[Any] = json.loads(asyncio.run(asyncio.wait_for(main(), PATIENCE)))
    return got


def test_files_are_read_and_written_inside_the_folder(place: Place) -> None:
    """Requirement 43."""
    (place.folder / "outside.txt").write_text("secret")
    (place.workspace / "link").symlink_to(place.folder / "outside.txt")
    new = str(place.workspace / "x" / "new.txt")
    read, write = "fs/read_text_file", "fs/write_text_file"
    got = answers(
        place,
        [
            (read, {"path": new}),
            (write, {"path": new, "content": "one\ntwo\nthree\n"}),
            (read, {"path": new}),
            (read, {"path": new, "line": 2, "limit": 1}),
            (read, {"path": "x/new.txt"}),
            (read, {"path": str(place.workspace / "link")}),
            (write, {"path": str(place.workspace / "link"), "content": "x"}),
            (read, {"path": str(place.folder / "AGENTS.md")}),
        ],
        files=True,
    )
    assert got == [
        [{"readTextFile": True, "writeTextFile": True}, None],
        -32002,
        {},
        {"content": "one\ntwo\nthree\n"},
        {"content": "two\n"},
        -32602,
        -32602,
        -32602,
        -32002,
    ]
    assert (place.folder / "outside.txt").read_text() == "secret"


def test_commands_run_in_terminals(place: Place) -> None:
    """Requirement 42."""
    terminal = {"terminalId": "$T"}
    got = answers(
        place,
        [
            ("terminal/create", {"command": "printf 'xx\\303\\251' | cat; exit 3", "outputByteLimit": 3}),
            ("terminal/wait_for_exit", terminal),
            ("terminal/output", terminal),
            ("terminal/kill", terminal),
            ("terminal/output", terminal),
            ("terminal/release", terminal),
            ("terminal/output", terminal),
            ("terminal/create", {"command": "sleep", "args": ["600"]}),
            ("terminal/kill", terminal),
            ("terminal/wait_for_exit", terminal),
        ],
        **BOTH,
    )
    shown = {"output": "xé", "truncated": True, "exitStatus": {"exitCode": 3}}
    assert got == [
        [{"readTextFile": True, "writeTextFile": True}, True],
        {"terminalId": "terminal-1"},
        {"exitCode": 3},
        shown,
        {},
        shown,
        {},
        -32602,
        {"terminalId": "terminal-2"},
        {},
        {"signal": "SIGKILL"},
    ]


def test_nothing_is_served_without_the_switches(place: Place) -> None:
    got = answers(place, [("fs/read_text_file", {"path": "/"}), ("terminal/create", {"command": "true"})])
    assert got[1:] == [-32601, -32601]


def test_a_cancel_ends_the_terminals_that_the_agent_leaves(place: Place) -> None:
    """Requirement 37: goose ends a cancelled turn and leaves its terminal running."""
    sleepers = Sleepers(place)
    requests = [("terminal/create", {"command": sleepers.command()}), ("terminal/wait_for_exit", {"terminalId": "$T"})]

    async def main() -> None:
        argv = [sys.executable, str(place.folder / "agent.py")]
        async with connect(argv, dialect="acp", cwd=str(place.workspace), env=place.env, **BOTH) as agent:
            turn = asyncio.ensure_future(_reason(agent.prompt(json.dumps(requests))))
            await asyncio.to_thread(sleepers.wait_until_started)
            await agent.send(Cancel())
            await asyncio.to_thread(sleepers.wait_until_gone)
            assert await turn == "cancelled"

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def _reason(turn: Any) -> str:
    return str((await turn).reason)


def test_gemini_gets_an_empty_text_for_a_missing_file() -> None:
    """Requirement 43: gemini 0.61 cannot create a file if that is an error."""
    assert [name for name, engine in ENGINES.items() if engine.missing_as_empty] == ["gemini"]
