"""A client for the public conformance suite of MCP: mcp_conformance_client.py URL.

In scenarios about logins it logs in first, with a browser that agrees to everything.

Connects with our client, calls each tool once, and agrees to each question without a word. The suite
starts it once for each scenario and judges what it sees on the wire.
"""

import asyncio
import json
import os
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Any

from doubles_mcp import CallContext, Stage, on_stage
from polylect.mcp.auth.oauth import LoginError, login
from polylect.mcp.auth.token_store import open_store
from polylect.vocab.commands import Answer
from polylect.vocab.content import Server
from polylect.vocab.events import Ask

VALUES: dict[str, Any] = {"number": 2, "integer": 2, "string": "word", "boolean": True, "array": [], "object": {}}


class Agreeable(CallContext):
    """Says yes, and fills no field in."""

    async def ask(self, question: Ask) -> Answer:
        return Answer(question.ask, "allow", {})


def agreeing_browser(url: str) -> bool:
    """Open the page of a login, which leads back to us at once."""
    threading.Thread(target=lambda: urllib.request.urlopen(url).read()).start()
    return True


async def use(stage: Stage, server: Server) -> None:
    stage.servers.add(server)
    ready = await stage.received("suite")
    if ready.status != "ready":
        sys.exit(f"not connected: {ready.reason}")
    for name in ready.tools:
        properties = stage.tools[name].spec.schema.get("properties", {})
        args = {key: VALUES[field["type"]] for key, field in properties.items()}
        result = await stage.call(name, args, Agreeable(stage.workspace))
        print(name, result.ok, result.output)


def main(workspace: Path) -> None:
    client = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    settings = {key: client[key] for key in ("client_id", "client_secret") if key in client}
    server = Server("suite", "http", url=sys.argv[-1], extras={"oauth": settings} if settings else {})
    env = {**os.environ, "HOME": str(workspace), "XDG_CONFIG_HOME": str(workspace), "POLYLECT_HOME": str(workspace)}
    if os.environ["MCP_CONFORMANCE_SCENARIO"].startswith("auth/"):
        try:
            asyncio.run(login(server, env, open_store(env), show=print, browser=agreeing_browser))
        except LoginError as error:
            sys.exit(f"not logged in: {error}")
    on_stage(workspace, lambda stage: use(stage, server), env=env)


with tempfile.TemporaryDirectory() as folder:
    main(Path(folder))
