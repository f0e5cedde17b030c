"""The vendors' own clients, asked what they make of a stream that a server of ours sends them."""

from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import openai

from providers.loopback import Loopback, reply
from recorded.final import Json

_OPTIONS: Any = {"api_key": "sk-not-a-key", "max_retries": 0}
MESSAGES: Any = [{"role": "user", "content": "hello"}]
Ask = Callable[[str], Awaitable[Json]]


def _plain() -> Any:
    """For loopback: reading the certificates of the whole world for every client would take most of the time."""
    return openai.DefaultAsyncHttpxClient(verify=False)


async def anthropic_message(url: str, model: str = "m", messages: Any = MESSAGES, **more: Any) -> Json:
    async with anthropic.AsyncAnthropic(base_url=url, http_client=_plain(), **_OPTIONS) as client:
        asked = client.messages.stream(model=model, max_tokens=1000, messages=messages, **more)
        async with asked as stream:
            return (await stream.get_final_message()).to_dict(mode="json")


async def chat_completion(url: str, model: str = "m", messages: Any = MESSAGES, **more: Any) -> Json:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", http_client=_plain(), **_OPTIONS) as client:
        usage: Any = {"include_usage": True}
        asked = client.chat.completions.stream(model=model, messages=messages, stream_options=usage, **more)
        async with asked as stream:
            await stream.until_done()  # its final completion is refused for a reply that was cut off: it cannot be parsed
            return stream.current_completion_snapshot.to_dict(mode="json")


async def response(url: str, model: str = "m", messages: Any = MESSAGES, **more: Any) -> Json:
    """The SDK's final response. It has none for a reply that stayed incomplete: then what came last."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", http_client=_plain(), **_OPTIONS) as client:
        async with client.responses.stream(model=model, input=messages, **more) as stream:
            last: Any = None
            async for event in stream:
                last = event
            match last.type:
                case "response.completed":
                    return (await stream.get_final_response()).to_dict(mode="json")
                case "response.incomplete":
                    found: Json = last.response.to_dict(mode="json")
                    return found
                case "response.failed":
                    raise openai.OpenAIError(last.response.error.message)
                case _:
                    raise openai.OpenAIError(last.message)


ASK: dict[str, Callable[..., Awaitable[Json]]] = {
    "anthropic": anthropic_message,
    "chat": chat_completion,
    "responses": response,
}


async def said(wire: str, body: bytes) -> Json:
    """What is kept in a `.json` file: the final message, or the error."""
    async with Loopback([reply(body)]) as server:
        try:
            return {"message": await ASK[wire](server.url)}
        except (anthropic.APIError, openai.APIError) as error:
            return {"error": _sentence(error.body) or error.message}
        except openai.OpenAIError as error:
            return {"error": str(error)}


def _sentence(body: object) -> str:
    match body:
        case {"error": {"message": str(text)}} | {"message": str(text)}:
            return text
        case _:
            return ""
