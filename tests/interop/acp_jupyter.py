"""Jupyter AI's client of ACP without its notebook: a real chat document, and a user who answers each question.

    acp_jupyter.py AGENT FOLDER OPTION [SESSION] PROMPT ...

OPTION is the button that is pressed at every question; a prompt that ends in `...` is stopped when its answer has
begun. Prints one line of JSON: the session, and all messages of the chat with the calls in them.
"""

import asyncio
import json
import logging
import sys
from types import SimpleNamespace

from jupyter_ai_acp_client.default_acp_client import JaiAcpClient
from jupyterlab_chat.ychat import YChat


class Persona:
    """Who speaks in the chat. What the toolbar would show is left out."""

    id = "polylect"
    log = logging.getLogger("persona")

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.chat = YChat()
        self.chat.dirty = False
        self.parent = SimpleNamespace(root_dir=folder)
        self.commands: list[str] = []

    def get_chat_dir(self) -> str:
        return self._folder

    def get_mcp_settings(self) -> None:
        return None

    def report_slash_commands(self, commands: list) -> None:
        self.commands = [command.name for command in commands]

    def nothing(self, *values: object) -> None: ...

    set_status = clear_status = _sync_awareness_config = _sync_awareness_usage = nothing
    update_acp_config_options = update_acp_context_usage = update_acp_current_mode = update_acp_session_usage = nothing


async def main(program: str, folder: str, option: str, *prompts: str) -> None:
    pipe = asyncio.subprocess.PIPE
    agent = await asyncio.create_subprocess_exec(program, stdin=pipe, stdout=pipe, limit=1 << 26)
    client = JaiAcpClient(agent_subprocess=agent, event_loop=asyncio.get_running_loop())
    persona = Persona(folder)
    if prompts[0].startswith("session="):
        session = prompts[0].removeprefix("session=")
        await client.load_session(persona, session)
        prompts = prompts[1:]
    else:
        session = (await client.create_session(persona)).session_id
    clicking = asyncio.create_task(click(client, session, option))
    ends = [await emit(client, persona, session, prompt) for prompt in prompts]
    clicking.cancel()
    await client.end_session(session)
    agent.stdin.close()
    code = await agent.wait()
    messages = [message.__dict__ for message in persona.chat.get_messages()]
    result = {"session": session, "ends": ends, "commands": persona.commands, "messages": messages, "exit": code}
    print(json.dumps(result, default=lambda value: value.__dict__))


async def emit(client: JaiAcpClient, persona: Persona, session: str, prompt: str) -> str:
    turn = asyncio.create_task(client.prompt_and_reply(session, prompt))
    before = len(persona.chat.get_messages())
    while prompt.endswith("...") and not any(one.body for one in persona.chat.get_messages()[before:]):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    if prompt.endswith("..."):
        await client.stop_streaming(session)
    return (await turn).stop_reason


async def click(client: JaiAcpClient, session: str, option: str) -> None:
    while True:
        for call in ("c1", "c2", "c3"):
            client.resolve_permission(session, call, option)
        await asyncio.sleep(0.01)


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 60))
