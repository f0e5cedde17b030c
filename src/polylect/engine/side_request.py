"""Model requests beside the conversation, which an agent makes for a tool: a web search, a question of an MCP server.

The conversation does not see them. Their cost is charged like that of any request, and caps hold for them.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress

from polylect.engine.agent import Agent
from polylect.vocab.content import Message, Text, Usage
from polylect.vocab.errors import ProviderError, SessionError, ToolError
from polylect.vocab.ports import ModelRequest, ReplyBegun, ReplyDone, TextChunk

TIMEOUT = 300.0


async def ask_model(agent: Agent, system: str, messages: Sequence[Message], max_tokens: int) -> Message:
    """The reply of the agent's model, without tools, with an estimate where no usage was reported. Raises ToolError."""
    if why := agent.meter.used_up():
        raise ToolError(f"The model is not asked: {why}.")
    settings = agent.settings
    request = ModelRequest(
        model=settings.model,
        system=system,
        messages=messages,
        max_tokens=max_tokens,
        session=agent.session.id,
        retries=settings.auto_retry,
    )
    parts: list[str] = []
    mark: ReplyBegun | ReplyDone | None = None
    try:
        async with asyncio.timeout(TIMEOUT), aclosing(agent.provider.stream(request)) as stream:
            async for batch in stream:
                parts += [event.text for event in batch if isinstance(event, TextChunk)]
                mark = next((event for event in reversed(batch) if isinstance(event, ReplyBegun | ReplyDone)), mark)
    except TimeoutError:
        raise ToolError(f"The model took longer than {TIMEOUT:.0f} s.") from None
    except ProviderError as error:
        raise ToolError(f"The model could not be asked: {error}") from None
    finally:
        charge_reply(agent, mark)
    if not isinstance(mark, ReplyDone):
        raise ToolError("The model gave no complete reply.")
    text = "".join(parts)
    shown = [block.text for message in messages for block in message.content if isinstance(block, Text)]
    estimated = (len(system) + len(text) + sum(map(len, shown))) // 4
    usage = mark.usage if mark.usage.tokens else Usage(estimated)
    return Message("assistant", (Text(text),), mark.stop, usage, mark.model or settings.model, agent.provider.name)


def charge_reply(agent: Agent, mark: ReplyBegun | ReplyDone | None) -> None:
    """Charge a reply that is no part of the conversation. `mark` tells how far it has come, and with it its price."""
    if mark is None:
        return
    reply = Message("assistant", (), usage=mark.usage, model=mark.model, provider=agent.provider.name)
    with suppress(SessionError):  # a full disk is reported with the result of the call
        agent.charge(reply, mark.request)
        agent.session.add_messages("", reply, request=mark.request)
