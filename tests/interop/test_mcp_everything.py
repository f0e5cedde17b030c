"""The reference server of the protocol's authors, in Node, over each transport."""

import asyncio
import base64
import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from doubles_mcp import CallContext, Stage, on_stage
from machine import PATIENCE
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server, Text

PINS = Path(__file__).parent / "everything"
ENTRY = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"


@pytest.fixture(scope="session")
def program() -> Path:
    """Installed once, beside the other peers; other pins have another folder."""
    cache = Path(os.environ["POLYLECT_INTEROP_ORACLES"]).parent
    digest = hashlib.sha256((PINS / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = cache / f"everything-{digest}"
    with open(cache / "everything.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            begun = Path(tempfile.mkdtemp(dir=cache, prefix="begun-"))
            for name in ("package.json", "package-lock.json"):
                shutil.copy(PINS / name, begun)
            how = ("--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund")
            subprocess.run(("npm", "ci", *how), cwd=begun, check=True, stdin=subprocess.DEVNULL)
            begun.rename(folder)
    return folder / ENTRY


@contextmanager
def reached(program: Path, transport: Literal["stdio", "sse", "http"]) -> Iterator[Server]:
    if transport == "stdio":
        yield Server("everything", command="node", args=(str(program), "stdio"))
        return
    word, path = ("sse", "sse") if transport == "sse" else ("streamableHttp", "mcp")
    port, process = next(filter(_listens, (_begun(program, word) for _ in range(5))))
    with process:
        try:
            yield Server("everything", transport, url=f"http://127.0.0.1:{port}/{path}")
        finally:
            process.kill()


def _begun(program: Path, word: str) -> tuple[int, subprocess.Popen[str]]:
    """On a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    return port, subprocess.Popen(("node", str(program), word), stderr=subprocess.PIPE, text=True, env=environment)


def _listens(begun: tuple[int, subprocess.Popen[str]]) -> bool:
    """False if somebody else has taken its port meanwhile."""
    port, process = begun
    assert process.stderr
    for line in process.stderr:
        if f"on port {port}" in line:
            return True
    process.stderr.close()
    process.wait()
    return False


@pytest.mark.parametrize("transport", ["stdio", "sse", "http"])
def test_the_reference_server_can_be_used(
    tmp_path: Path, program: Path, transport: Literal["stdio", "sse", "http"]
) -> None:
    with reached(program, transport) as server:

        async def work(stage: Stage) -> None:
            stage.servers.add(server)
            ready = await stage.received("everything")
            assert (ready.status, ready.reason) == ("ready", "")
            await tools_answer(stage)
            await people_are_asked(stage)
            await prompts_are_commands(stage)

        on_stage(tmp_path, work)


async def tools_answer(stage: Stage) -> None:
    assert (await stage.call("echo", {"message": "grüß Gott"})).output == "Echo: grüß Gott"
    assert (await stage.call("get-sum", {"a": 2, "b": 3})).output == "The sum of 2 and 3 is 5."
    assert not (await stage.call("get-sum", {"a": "two"})).ok
    (image,) = (await stage.call("get-tiny-image")).images
    assert base64.b64decode(image.data).startswith(b"\x89PNG")
    weather = await stage.call("get-structured-content", {"location": "New York"})
    assert weather.metadata
    assert set(weather.metadata["structured"]) == {"temperature", "conditions", "humidity"}
    resource = await stage.call("get-resource-reference", {"resourceType": "Text", "resourceId": 1})
    assert "[resource demo://resource/dynamic/text/1]\n" in resource.output
    assert "[resource " in (await stage.call("get-resource-links", {"count": 2})).output
    context = CallContext(stage.workspace)
    assert (await stage.call("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, context)).ok
    assert context.shown == ["1/2\n", "2/2\n"]


async def people_are_asked(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        while "trigger-elicitation-request" not in stage.tools:  # offered once it knows what we can do
            await stage.received("everything", len(stage.about("everything")) + 1)
    context = CallContext(stage.workspace, [Answer("", "allow", {"name": "Ada"}), Answer("", "deny")])
    assert "Name: Ada" in (await stage.call("trigger-elicitation-request", {}, context)).output
    assert "declined" in (await stage.call("trigger-elicitation-request", {}, context)).output
    assert [ask.kind for ask in context.questions] == ["form", "form"]


async def prompts_are_commands(stage: Stage) -> None:
    if not stage.servers.commands():
        await stage.commands_changed.wait()
    words = await stage.servers.expand("mcp__everything__args-prompt", ["Paris", "Texas"])
    assert words == (Text("What's weather in Paris, Texas?"),)
