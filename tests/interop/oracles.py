"""The vendors' own clients, asked what they make of a stream that a server of ours sends them."""

from collections.abc import Callable, Coroutine
from typing import Any

import anthropic
import openai

from providers.loopback import Loopback, reply
from recorded.final import Json

_OPTIONS: Any = {"api_key": "sk-not-a-key", "max_retries": 0}
MESSAGES: Any = [{"role": "user", "content": "hello"}]


def _anthropic(url: str) -> Any:
    return anthropic.AsyncAnthropic(base_url=url, http_client=_plain(), **_OPTIONS)


def _openai(url: str) -> Any:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", http_client=_plain(), **_OPTIONS)


def _plain() -> Any:
    """For loopback: reading the certificates of the whole world for every client would take most of the time."""
    return openai.DefaultAsyncHttpxClient(verify=False)


async def anthropic_message(url: str, model: str = "m", messages: Any = MESSAGES) -> Json:
    requested = {"model": model, "max_tokens": 1000, "messages": messages}
    async with _anthropic(url) as client, client.messages.stream(**requested) as stream:
        return _dict(await stream.get_final_message())


async def chat_completion(url: str, model: str = "m", messages: Any = MESSAGES) -> Json:
    """What the SDK has put together. It refuses to call it final where a reply was cut off."""
    requested = {"model": model, "messages": messages, "stream_options": {"include_usage": True}}
    async with _openai(url) as client, client.chat.completions.stream(**requested) as stream:
        await stream.until_done()
        return _dict(stream.current_completion_snapshot)


async def response(url: str, model: str = "m", messages: Any = MESSAGES) -> Json:
    """The SDK's final response. It has none for a reply that stayed incomplete: then what came last."""
    async with _openai(url) as client, client.responses.stream(model=model, input=messages) as stream:
        last = [event async for event in stream][-1]
        match last.type:
            case "response.completed":
                return _dict(await stream.get_final_response())
            case "response.incomplete":
                return _dict(last.response)
            case "response.failed":
                raise openai.OpenAIError(last.response.error.message)
            case _:
                raise openai.OpenAIError(last.message)


def _dict(model: Any) -> Json:
    actual: Json = model.to_dict(mode="json")
    return actual


ASK: dict[str, Callable[..., Coroutine[Any, Any, Json]]] = {
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
