"""The client of the official TypeScript SDK drives `polylect acp --listen` over the WebSocket of Node, as a browser."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from dialects.acp.published_schema import check
from interop.acp_clients import NODE, SDK, Stage
from interop.claude_hosts import play
from interop.claude_model import Model, text, use
from machine import PATIENCE

pytestmark = pytest.mark.interop
TOKEN = "a-token-that-is-long-enough"
PROGRAM = """
const [module, transport, url, token, cwd] = process.argv.slice(1);
const { client, methods } = await import(module);
const { createWebSocketStream } = await import(transport);
const { session } = methods.client;
const updates = [];
const app = client({ name: "browser" })
  .onNotification(session.update, ({ params }) => updates.push(params))
  .onRequest(session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options.find((one) => one.kind === "allow_once").optionId },
  }));
const stream = createWebSocketStream(url, { protocols: ["acp", "polylect.token." + token] });
await app.connectWith(stream, async (context) => {
  await context.request("initialize", { protocolVersion: 1 });
  const { sessionId } = await context.request("session/new", { cwd, mcpServers: [] });
  const prompt = [{ type: "text", text: "MAKE" }];
  const { stopReason } = await context.request("session/prompt", { sessionId, prompt });
  console.log(JSON.stringify({ stopReason, updates }));
});
process.exit(0);
"""


def test_a_turn_with_a_permission(tmp_path: Path) -> None:
    call = use("c1", "Bash", command="touch made", description="make it")

    async def main(model: Model) -> None:
        stage = Stage(tmp_path, model)
        argv = [sys.executable, "-m", "polylect", "acp", "--listen", "127.0.0.1:0", "--provider", "anthropic"]
        pipe = asyncio.subprocess.PIPE
        env = {**stage.env, "POLYLECT_ACP_TOKEN": TOKEN}
        agent = await asyncio.create_subprocess_exec(*argv, env=env, cwd=tmp_path, stdout=pipe)
        assert agent.stdout
        try:
            url = json.loads(await asyncio.wait_for(agent.stdout.readline(), PATIENCE))["url"]
            dist = SDK / "@agentclientprotocol" / "sdk" / "dist"
            modules = [str(dist / "v1" / "stable" / "acp.js"), str(dist / "transports" / "ws-stream.js")]
            words = [NODE, "--input-type=module", "-e", PROGRAM, *modules, url, TOKEN, str(stage.work)]
            node = await asyncio.create_subprocess_exec(*words, stdout=pipe, env=dict(os.environ))
            result, _ = await asyncio.wait_for(node.communicate(), PATIENCE)
        finally:
            agent.terminate()
            await agent.wait()
        seen = json.loads(result)
        assert seen["stopReason"] == "end_turn"
        for update in seen["updates"]:
            check({"jsonrpc": "2.0", "method": "session/update", "params": update})
        chunks = [one["update"] for one in seen["updates"] if one["update"]["sessionUpdate"] == "agent_message_chunk"]
        assert "".join(one["content"]["text"] for one in chunks) == "I make it.That was it."
        assert (stage.work / "made").exists()

    play({"MAKE": [[text("I make it."), call], [text("That was it.")]]}, main)
