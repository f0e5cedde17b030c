"""A client for the public conformance suite of MCP: mcp_conformance_client.py URL.

Connects with our client, calls each tool once, and agrees to each question without a word. The suite
starts it once for each scenario and judges what it sees on the wire.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from doubles_mcp import CallContext, Stage, on_stage
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.events import Ask

VALUES: dict[str, Any] = {"number": 2, "integer": 2, "string": "word", "boolean": True, "array": [], "object": {}}


class Agreeable(CallContext):
    """Says yes, and fills no field in."""

    async def ask(self, question: Ask) -> Answer:
        return Answer(question.ask, "allow", {})


async def use(stage: Stage, url: str) -> None:
    stage.servers.add(Server("suite", "http", url=url))
    ready = await stage.heard("suite")
    if ready.status != "ready":
        sys.exit(f"not connected: {ready.reason}")
    for name in ready.tools:
        properties = stage.tools[name].spec.schema.get("properties", {})
        args = {key: VALUES[field["type"]] for key, field in properties.items()}
        result = await stage.call(name, args, Agreeable(stage.workspace))
        print(name, result.ok, result.output)


with tempfile.TemporaryDirectory() as workspace:
    on_stage(Path(workspace), lambda stage: use(stage, sys.argv[-1]))
