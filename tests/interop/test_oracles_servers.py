"""The vendors' own clients talk to the servers that stand in for the vendors: those are as honest as can be known."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.model_server import WIRES, word
from bench.server import ModelServer

from interop import oracles
from interop.test_oracles_streams import check_events
from polylect.vocab.content import Text, ToolCall, Usage
from recorded import final

PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
USAGE = Usage(25, 15)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(Path("notes.txt")) as server:
        yield server


@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize(
    ("model", "text"),
    [("echo", "hello"), ("deltas-500", "".join(map(word, range(500)))), ("slow-1-3", "00000 00001 00002 ")],
)
def test_a_client_hears_the_text(server: ModelServer, wire: str, model: str, text: str) -> None:
    said = final.WIRES[wire].read(asyncio.run(oracles.ASK[wire](server.base_url, model)))
    assert (said.blocks, said.stop, said.usage) == ([Text(text)], "end", USAGE)


@pytest.mark.parametrize("wire", PATHS)
def test_a_client_is_asked_to_read(server: ModelServer, wire: str) -> None:
    said = final.WIRES[wire].read(asyncio.run(oracles.ASK[wire](server.base_url, "tool-1")))
    [call] = said.blocks
    assert isinstance(call, ToolCall)
    assert (call.name, call.args, said.stop) == ("Read", {"file_path": "notes.txt"}, "calls")


@pytest.mark.parametrize("wire", PATHS)
def test_every_event_is_one_of_the_vendor_s(wire: str) -> None:
    spoken = WIRES[PATHS[wire]]
    for events in (spoken.reply("end", [spoken.text("a")]), spoken.reply("calls", spoken.call("Read", {"a": 1}))):
        check_events(wire, [data for _, data in events])


def test_what_was_said_after_a_call_is_counted_as_an_answer(server: ModelServer) -> None:
    used: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
    answered: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t1", "content": "text"}
    messages = [
        *oracles.MESSAGES,
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [answered]},
    ]
    said = asyncio.run(oracles.anthropic_message(server.base_url, "tool-1", messages))
    assert json.dumps(said["content"]) == json.dumps([{"text": "hello", "type": "text"}])
