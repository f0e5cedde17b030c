"""Clients of the official SDKs use a server around our codec, and the public conformance suite judges it.

Requirements 66 and 70 of docs/mcp-requirements.md.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from bench import peers
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from interop.test_mcp_conformance import SUITE, scenarios
from machine import PATIENCE

HERE = Path(__file__).parent
OURS = (sys.executable, str(HERE / "mcp_our_server.py"))
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@contextmanager
def over_http() -> Iterator[str]:
    with subprocess.Popen((*OURS, "http"), stdout=subprocess.PIPE, text=True, env=ENV) as process:
        try:
            assert process.stdout
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()


def check(got: dict[str, Any]) -> None:
    """What every client has got from the server."""
    words = {name: got[name][0]["text"] for name in ("meet", "think", "surroundings", "regret", "log", "grow")}
    assert words == {
        "meet": "accept Ada",
        "think": "LLM response: thought",
        "surroundings": "file:///root",
        "regret": "cancelled",
        "log": "logged",
        "grow": "growing",
    }
    assert got["server"]["name"] == "ours"
    assert got["instructions"] == "Be kind."
    assert got["add"] == [[{"type": "text", "text": "5"}], {"result": 5}, False]
    assert got["fail"] == [[{"type": "text", "text": "the oven is cold"}], None, True]
    assert got["everything"] == ["text", "image", "resource", "resource_link"]
    assert got["progress"] == [[number, 3, f"at {number}"] for number in (1, 2, 3)]
    assert (got["unknown"], got["gone"]) == (-32602, -32602)
    assert got["prompts"][0] == ["review", ["file", "wish"]]
    assert got["prompt"][0]["content"]["text"] == "Please review a.py."
    assert got["completion"] == ["a.py", "ab.py"]
    assert "note://all" in got["resources"]
    assert got["templates"] == ["test://template/{id}/data"]
    assert got["resource"][0]["text"] == "one note"
    assert got["logs"] in ([["info", "it is late"]], got.get("no_logs"))
    assert got["leaf"]


def test_the_typescript_client_can_use_it(tmp_path: Path) -> None:
    modules = str(peers.installed("mcp sdk") / "node_modules")
    client = ("node", str(HERE / "mcp_typescript_client.mjs"), modules)
    with over_http() as url:
        for target in (("stdio", *OURS, "stdio"), ("http", url)):
            done = subprocess.run((*client, *target), capture_output=True, text=True, env=ENV, timeout=60, check=True)
            check(json.loads(done.stdout))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_python_client_can_use_it(mode: str) -> None:
    """`auto` speaks revision 2026-07-28, where the server makes no requests but requires input."""
    warnings.simplefilter("ignore")
    stdio = StdioServerParameters(command=OURS[0], args=[OURS[1], "stdio"], env=ENV)
    with over_http() as url:
        for transport in (stdio_client(stdio), streamable_http_client(url)):
            check(asyncio.run(asyncio.wait_for(use(transport, mode), PATIENCE)))


class Person:
    """Answers what the server asks of the client, and notes what it tells."""

    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.changed = asyncio.Event()

    async def roots(self, context: Any) -> Any:
        return types.ListRootsResult(roots=[types.Root(uri="file:///root", name="root")])

    async def elicit(self, context: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def sample(self, context: Any, params: Any) -> Any:
        content = types.TextContent(type="text", text="thought")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def log(self, params: Any) -> None:
        self.logs.append([params.level, params.data])

    async def notified(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()


async def use(transport: Any, mode: str) -> dict[str, Any]:
    person = Person()
    async with Client(
        transport,
        mode=mode,
        cache=None,
        list_roots_callback=person.roots,
        elicitation_callback=person.elicit,
        sampling_callback=person.sample,
        logging_callback=person.log,
        message_handler=person.notified,
    ) as client:
        modern = mode == "auto"
        assert (client.protocol_version == "2026-07-28") is modern
        got: dict[str, Any] = {"logs": person.logs, "instructions": client.instructions}
        if modern:  # this client does not ask for log messages
            got["no_logs"] = []
        got["server"] = plain(client.server_info)
        for name in ("meet", "think", "surroundings", "log"):
            got[name] = plain((await client.call_tool(name, {})).content)
        progress: list[Any] = []

        async def on_progress(at: float, total: float | None, message: str | None) -> None:
            progress.append([at, total, message])

        for name, args in {"add": {"a": 2, "b": 3}, "fail": {}}.items():
            result = await client.call_tool(name, args)
            got[name] = [plain(result.content), result.structured_content, result.is_error]
        got["everything"] = [part.type for part in (await client.call_tool("everything", {})).content]
        await client.call_tool("count", {"to": 3}, progress_callback=on_progress)
        got["progress"] = progress
        await cancel_a_call(client)
        got["regret"] = plain((await client.call_tool("regret", {})).content)
        for key, request in {
            "unknown": client.call_tool("no such tool", {}),
            "gone": client.read_resource("note://gone"),
        }.items():
            with pytest.raises(MCPError) as refused:
                await request
            got[key] = refused.value.code
        got |= await lists(client)
        got["grow"] = plain((await client.call_tool("grow", {})).content)
        if not modern:
            await person.changed.wait()
        got["leaf"] = "leaf" in [tool.name for tool in (await client.list_tools()).tools]
        return got


async def lists(client: Any) -> dict[str, Any]:
    got: dict[str, Any] = {}
    prompts = (await client.list_prompts()).prompts
    got["prompts"] = [[prompt.name, [one.name for one in prompt.arguments or ()]] for prompt in prompts]
    got["prompt"] = plain((await client.get_prompt("review", {"file": "a.py"})).messages)
    reference = types.PromptReference(type="ref/prompt", name="review")
    got["completion"] = (await client.complete(reference, {"name": "file", "value": "a"})).completion.values
    got["resources"] = [str(one.uri) for one in (await client.list_resources()).resources]
    templates = (await client.list_resource_templates()).resource_templates
    got["templates"] = [one.uri_template for one in templates]
    got["resource"] = plain((await client.read_resource("note://all")).contents)
    return got


async def cancel_a_call(client: Any) -> None:
    waiting = asyncio.Event()

    async def on_progress(at: float, total: float | None, message: str | None) -> None:
        waiting.set()

    call = asyncio.create_task(client.call_tool("wait", {}, progress_callback=on_progress))
    await waiting.wait()
    call.cancel()
    await asyncio.wait([call])


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_the_server_scenarios_of_the_conformance_suite_are_passed(tmp_path: Path) -> None:
    """All but `server-sse-polling`, which judges only servers that resume streams; that is no matter of the codec."""
    with over_http() as url:
        words = ("server", "--url", url, "--suite", "all", "--output-dir", str(tmp_path))
        done = subprocess.run((*SUITE, *words), capture_output=True, text=True, timeout=60, check=False)
    outcomes = dict(re.findall(r"^. ([a-z0-9-]+): \d+ passed, (\d+) failed", done.stdout, re.MULTILINE))
    assert set(outcomes) == scenarios("Server")
    assert {name for name, failed in outcomes.items() if failed != "0"} == set(), done.stdout[-2000:]
