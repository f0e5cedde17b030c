"""The vendor's Python SDK, pointed at polylect, which it takes for the claude program."""

import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from interop import claude_hosts
from interop.claude_model import Model, Step, text, use

sys.path.append(claude_hosts.PEERS)

import claude_agent_sdk as sdk

marks = [
    pytest.mark.interop,
    # The SDK leaves its ends of the pipes to the collector, which comes after the loop has ended.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
T = TypeVar("T")
Script = dict[str, list[Step]]
TOUCH = use("c1", "Bash", command="touch made", description="make it")
MAKE: Script = {"MAKE": [[text("I make it."), TOUCH], [text("That was it.")]]}


class Stage:
    """A model, a folder, and what the SDK is told to start polylect there."""

    def __init__(self, place: Path, model: Model) -> None:
        self._place = place
        self.work = place / "work"
        self.work.mkdir()
        self.model = model
        self.errors: list[str] = []

    def options(self, **how: Any) -> sdk.ClaudeAgentOptions:
        env = {**claude_hosts.env(self._place, self.model), **how.pop("env", {})}
        result = {
            "cli_path": claude_hosts.link(self._place),
            "cwd": self.work,
            "env": env,
            "stderr": self.errors.append,
            **how,
        }
        return sdk.ClaudeAgentOptions(**result)

    async def query(self, prompt: str, **how: Any) -> list[sdk.Message]:
        """A prompt and its answer, by a process of its own."""
        received: list[sdk.Message] = []
        await self.receive(prompt, received, **how)
        return received

    async def receive(self, prompt: str, received: list[sdk.Message], **how: Any) -> None:
        """The same, for an answer that ends in an exception. Callbacks need stdin to stay open, so it is a stream."""
        async for message in sdk.query(prompt=_stream(prompt), options=self.options(**how)):
            received.append(message)  # noqa: PERF401  (what was heard before an exception counts)

    def client(self, **how: Any) -> sdk.ClaudeSDKClient:
        return sdk.ClaudeSDKClient(self.options(**how))

    def configure(self, toml: str) -> None:
        settings = self._place / "config" / "polylect" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(toml)


async def _stream(prompt: str) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": prompt}, "parent_tool_use_id": None}


def run(place: Path, script: Script, talk: Callable[[Stage], Awaitable[None]], *, silent: bool = True) -> None:
    """A conversation, in a folder of its own. `silent`: nothing may be complained of on stderr."""

    async def main(model: Model) -> None:
        stage = Stage(place, model)
        await talk(stage)
        assert bool(stage.errors) is not silent

    claude_hosts.play(script, main)
    gc.collect()


async def emit(client: sdk.ClaudeSDKClient, prompt: str) -> list[sdk.Message]:
    await client.query(prompt)
    return [message async for message in client.receive_response()]


def result(messages: list[sdk.Message]) -> sdk.ResultMessage:
    [actual] = of(messages, sdk.ResultMessage)
    return actual


def of(messages: list[sdk.Message], kind: type[T]) -> list[T]:
    return [message for message in messages if isinstance(message, kind)]


def blocks(messages: list[sdk.Message], parent: str | None = None) -> list[Any]:
    """What was said under this parent, by either side."""
    spoken = [one for one in messages if isinstance(one, sdk.AssistantMessage | sdk.UserMessage)]
    return [block for one in spoken if one.parent_tool_use_id == parent for block in one.content]


def results(messages: list[sdk.Message]) -> list[tuple[str, Any, bool | None]]:
    actual = [block for block in blocks(messages) if isinstance(block, sdk.ToolResultBlock)]
    return [(block.tool_use_id, block.content, block.is_error) for block in actual]


def texts(messages: list[sdk.Message], parent: str | None = None) -> list[str]:
    return [block.text for block in blocks(messages, parent) if isinstance(block, sdk.TextBlock)]


def system_prompt(model: Model) -> str:
    return "\n".join(part["text"] for part in model.asked[-1]["system"])
