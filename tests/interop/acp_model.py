"""The scripted model on loopback, for agents that ask in the words of Gemini or of the Responses API."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from bench.model_server import frame
from bench.model_wires import Event, gemini_chunk, responses_item, responses_message, responses_text

from interop import claude_model
from interop.claude_model import HEAD, WAIT, Block, Step

Json = dict[str, Any]


class Model(claude_model.Model):
    """What is asked is read as messages, so that one script serves every wire."""

    async def _respond(self, line: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if ":streamGenerateContent" in line:
            await self._stream(_gemini_messages, _gemini_events, json.loads(body), writer)
        elif line.startswith("POST /v1/responses"):
            await self._stream(_responses_messages, _responses_events, json.loads(body), writer)
        else:
            await super()._respond(line, body, writer)

    async def _stream(self, messages: Any, events: Any, requested: Json, writer: asyncio.StreamWriter) -> None:
        self.asked.append({**requested, "messages": messages(requested)})
        step = self._step(self.asked[-1]["messages"])
        if self._refused(step, writer):
            return
        self._replies += 1
        writer.write(HEAD)
        for event in events(self._replies, step):
            if event is WAIT:
                await writer.drain()
                await self.go.wait()
            else:
                writer.write(frame(event))
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _joined(messages: Iterator[Json]) -> list[Json]:
    """What one reply has said is one message."""
    joined: list[Json] = []
    for message in messages:
        if joined and message["role"] == joined[-1]["role"] == "assistant":
            joined[-1]["content"] += message["content"]
        else:
            joined.append(message)
    return joined


def _gemini_messages(requested: Json) -> list[Json]:
    roles = {"model": "assistant"}
    said = ((roles.get(one.get("role"), "user"), one["parts"]) for one in requested["contents"])
    return _joined(
        {"role": role, "content": [{"text": part.get("text", "")} for part in parts]} for role, parts in said
    )


def _gemini_events(_: int, step: Step) -> Iterator[Event | Block]:
    for block in step:
        if block is WAIT:
            yield WAIT
        elif block["type"] == "tool_use":
            yield _gemini_chunk({"functionCall": {"id": block["id"], "name": block["name"], "args": block["input"]}})
        else:
            yield _gemini_chunk({"text": block["text"]})
    yield _gemini_chunk({"text": ""}, "STOP")


def _gemini_chunk(part: Json, finish: str = "") -> Event:
    name, chunk = gemini_chunk(part, finish)
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 17}  # as on the other wires
    return name, {**chunk, "usageMetadata": usage}


def _responses_messages(requested: Json) -> list[Json]:
    def read(item: Json) -> Json:
        if item["type"] == "message":
            said = [{"text": part.get("text", "")} for part in item["content"]]
            return {"role": "assistant" if item["role"] == "assistant" else "user", "content": said}
        return {"role": "assistant" if item["type"].endswith("_call") else "user", "content": []}

    return _joined(read(item) for item in requested["input"])


def _responses_events(number: int, step: Step) -> Iterator[Event | Block]:
    response: Json = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "m", "output": []}
    yield "response.created", {"type": "response.created", "response": {**response, "status": "in_progress"}}
    for block in step:
        if block is WAIT:
            yield WAIT
        elif block["type"] == "tool_use":
            item = {"id": f"fc_{block['id']}", "type": "function_call", "call_id": block["id"], "name": block["name"]}
            yield responses_item("added", {**item, "status": "in_progress", "arguments": ""})
            yield responses_item("done", {**item, "status": "completed", "arguments": json.dumps(block["input"])})
        else:
            yield from responses_message([responses_text(block["text"])])
    usage: Json = {"input_tokens": 10, "output_tokens": 7, "total_tokens": 17}
    done = {**response, "status": "completed", "usage": usage}
    yield "response.completed", {"type": "response.completed", "response": done}
