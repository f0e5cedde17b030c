"""Sampling: an MCP server asks our model for a reply (`sampling/createMessage`).

It is off unless the setting `[mcp] sampling` is `ask` or `allow`. A request belongs to the call of a tool that is
running: the reply is made for the agent of that call, which pays for it, and with `ask` its person is shown the request
first. Tokens of all replies for one server are counted, and are limited by `sampling_max_tokens`. The model, tools and
context that a server wishes for are not used. `ServerSupervisor` creates one `Sampler` for its server.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from polylect.mcp.protocol.frames import (
    CreateMessageRequestParams,
    CreateMessageResult,
    SamplingMessage,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from polylect.mcp.responder import RequestRefused
from polylect.mcp.results import blocks
from polylect.vocab.commands import Answer
from polylect.vocab.content import Message, Text
from polylect.vocab.errors import ToolError
from polylect.vocab.events import Ask
from polylect.vocab.ports import ToolContext
from polylect.wire import jsonrpc
from polylect.wire.cut_text import cut_middle
from polylect.wire.jsonrpc import Error

DENIED = -1
"""The code that the specification has for a request that the person refuses."""
_MOST_SHOWN = 2000
"""Characters of a request that the person is shown."""
_STOPS = {"end": "endTurn", "length": "maxTokens"}


class Sampler:
    """Answers the requests of one server."""

    def __init__(self, server: str, rule: Literal["off", "ask", "allow"], most_tokens: int) -> None:
        self._server = server
        self._rule = rule
        self._tokens_left = most_tokens

    async def create_message(
        self, params: CreateMessageRequestParams, context: ToolContext, ask: Callable[[Ask], Awaitable[Answer]]
    ) -> CreateMessageResult:
        """The reply of the model. `context` is that of the call, `ask` asks its person. Raises RequestRefused."""
        if params.tools or params.tool_choice:
            raise _refused("Tools are not supported in sampling", jsonrpc.INVALID_PARAMS)
        messages = _messages(params.messages)
        if self._tokens_left <= 0:
            raise _refused("The tokens that this server may use are used up (sampling_max_tokens)")
        if self._rule == "ask" and (await ask(self._question(params, messages))).verdict != "allow":
            raise _refused("User rejected sampling request")
        most = max(1, min(params.max_tokens, self._tokens_left))
        try:
            answer = await context.ask_model(params.system_prompt or "", messages, most)
        except ToolError as error:
            raise _refused(str(error), jsonrpc.INTERNAL_ERROR) from None
        self._tokens_left -= answer.usage.tokens if answer.usage else 0
        return _result(answer, params.stop_sequences or ())

    def _question(self, params: CreateMessageRequestParams, messages: Sequence[Message]) -> Ask:
        texts = [block.text for message in messages for block in message.content if isinstance(block, Text)]
        shown = cut_middle("\n".join(filter(None, (params.system_prompt, *texts))), _MOST_SHOWN)
        return Ask(
            "",
            "confirm",
            name=self._server,
            category="mcp",
            title=f"{self._server}: may it ask the model?",
            reason=f"The MCP server {self._server} wants a reply of at most {params.max_tokens} tokens to:\n{shown}",
        )


def _messages(given: Sequence[SamplingMessage]) -> list[Message]:
    """The messages for the model: neighbours of one role are joined, as vendors want it."""
    messages: list[Message] = []
    for message in given:
        parts = message.content if isinstance(message.content, list) else [message.content]
        content = []
        for part in parts:
            if isinstance(part, ToolUseContent | ToolResultContent):
                raise _refused("Tools are not supported in sampling", jsonrpc.INVALID_PARAMS)
            content.append(part)
        shown = tuple(blocks(content))
        before = messages.pop().content if messages and messages[-1].role == message.role else ()
        messages.append(Message(message.role, (*before, *shown)))
    if not messages:
        raise _refused("There is no message", jsonrpc.INVALID_PARAMS)
    return messages


def _result(answer: Message, stop_sequences: Sequence[str]) -> CreateMessageResult:
    text = "".join(block.text for block in answer.content if isinstance(block, Text))
    ends = [place for stop in stop_sequences if stop and (place := text.find(stop)) >= 0]
    text = text[: min(ends)] if ends else text
    stop = "stopSequence" if ends else _STOPS.get(answer.stop or "", answer.stop)
    return CreateMessageResult(role="assistant", content=TextContent(text=text), model=answer.model, stop_reason=stop)


def _refused(text: str, code: int = DENIED) -> RequestRefused:
    return RequestRefused(Error(code, text))
