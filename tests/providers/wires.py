"""The same short reply as each vendor's server would send it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from polylect.plug import load
from polylect.providers.settings import ProviderSettings
from polylect.vocab.ports import Provider
from providers.loopback import Step, reply, sse
from wire import aws_messages

SECRET = "sk-very-secret-key"

ANTHROPIC = [
    '{"type":"message_start","message":{"id":"r1","model":"m","usage":{"input_tokens":3,"output_tokens":1}}}',
    '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}',
    '{"type":"content_block_stop","index":0}',
    '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}',
    '{"type":"message_stop"}',
]
CHAT = [
    '{"id":"r1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}',
    '{"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"Hel"}}]}',
    '{"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"lo"}}]}',
    '{"id":"r1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    '{"id":"r1","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}',
    "[DONE]",
]
RESPONSES = [
    '{"type":"response.created","response":{"id":"r1","model":"m"}}',
    '{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m1"}}',
    '{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}',
    '{"type":"response.output_text.delta","output_index":0,"delta":"lo"}',
    '{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m1"}}',
    '{"type":"response.completed","response":{"id":"r1","model":"m","usage":{"input_tokens":3,"output_tokens":2}}}',
]


def binary(payload: str) -> bytes:
    """One event as Bedrock sends it."""
    headers = {":message-type": "event", ":event-type": "chunk", ":content-type": "application/json"}
    return aws_messages.encode(headers, msgspec.json.encode({"bytes": payload.encode(), "p": "abc"}))


@dataclass
class Wire:
    provider: str
    payloads: list[str]
    env: dict[str, str]
    path: str
    frame: Callable[[str], bytes] = sse
    kind: str = "text/event-stream"
    extra: dict[str, str] = field(default_factory=dict)

    def answer(self, payloads: list[str] | None = None) -> list[Step]:
        return reply(*map(self.frame, self.payloads if payloads is None else payloads), kind=self.kind)

    def open(self, url: str, *, max_retries: int = 0, stream_timeout: float = 5.0) -> Provider:
        settings = ProviderSettings(
            base_url=url, env=self.env, extra=self.extra, max_retries=max_retries, stream_timeout=stream_timeout
        )
        provider: Provider = load("providers", self.provider).open_provider(settings)
        return provider


AWS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-1"}
GOOGLE = {"VERTEX_ACCESS_TOKEN": SECRET, "VERTEX_PROJECT_ID": "p1", "VERTEX_REGION": "us-east5"}

WIRES = {
    "anthropic": Wire("anthropic", ANTHROPIC, {"ANTHROPIC_API_KEY": SECRET}, "/v1/messages"),
    "chat": Wire("openai", CHAT, {"OPENAI_API_KEY": SECRET}, "/v1/chat/completions"),
    "responses": Wire("openai", RESPONSES, {"OPENAI_API_KEY": SECRET}, "/v1/responses", extra={"api": "responses"}),
    "bedrock": Wire(
        "bedrock",
        ANTHROPIC,
        AWS,
        "/model/a.model-v1%3A0/invoke-with-response-stream",
        binary,
        "application/vnd.amazon.eventstream",
    ),
    "vertex": Wire(
        "vertex",
        ANTHROPIC,
        GOOGLE,
        "/v1/projects/p1/locations/us-east5/publishers/anthropic/models/a.model-v1:0:streamRawPredict",
    ),
}


def write_key_file(folder: Path, **content: str) -> Path:
    path = folder / "credentials.json"
    path.write_bytes(msgspec.json.encode(content))
    return path
