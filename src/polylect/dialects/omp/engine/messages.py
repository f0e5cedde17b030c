"""Turns values of the vocabulary into objects of the wire: blocks, messages, usage, models. The reverse of
`host/messages.py`.

Pure functions without state. `MessageAuthor` holds what every assistant message repeats: API, provider and model.
"""

from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct
from msgspec.structs import replace

from polylect.dialects.omp.frames import messages as m
from polylect.dialects.omp.stop_reasons import WIRE_STOPS
from polylect.vocab.answers import LEVELS, Item, ModelCard, ShellResult
from polylect.vocab.content import (
    Attachment,
    Block,
    Document,
    File,
    Image,
    Link,
    Message,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

ABORTED = {"13": "Request was aborted", "18": "Interrupted by user", "pi": "Request was aborted"}
"""What a message that was cut short has for its `errorMessage`: hosts compare it."""
_ERROR_TEXTS: dict[Stop | None, str] = {"refused": "The model refused to answer", "error": "The reply broke off"}
_APIS = {
    "anthropic_messages": "anthropic-messages",
    "openai_chat": "openai-completions",
    "openai_responses": "openai-responses",
    "chat": "openai-completions",
    "responses": "openai-responses",
}
_PROVIDER_APIS = {
    "anthropic": "anthropic-messages",
    "bedrock": "anthropic-messages",
    "vertex": "anthropic-messages",
    "openai": "openai-completions",
}
"""The API of a provider where it is not configured; other providers have an API of their own."""


class MessageAuthor(Struct, frozen=True):
    """The API, provider and model that assistant messages name, and the version of the wire."""

    api: str = ""
    provider: str = ""
    model: str = ""
    version: str = "13"

    def message(
        self,
        content: list[m.ReplyBlock],
        at: int,
        *,
        stop: Stop | None = None,
        usage: Usage | None = None,
        error: str = "",
        request: str = "",
    ) -> m.AssistantMessage:
        """An assistant message. Without a `stop` it is unfinished, for which the wire has a placeholder."""
        why = ABORTED[self.version] if stop == "cancelled" else error or _ERROR_TEXTS.get(stop, "")
        return m.AssistantMessage(
            content=content,
            api=api_name(self.api) or _PROVIDER_APIS.get(self.provider, self.provider),
            provider=self.provider,
            model=self.model,
            usage=usage_object(usage or Usage()),
            stop_reason=WIRE_STOPS[stop or "end"],
            timestamp=at,
            error_message=why or UNSET,
            response_id=request or UNSET,
        )

    def with_model(self, model: str) -> "MessageAuthor":
        """The author with the model that answered. A dated form of the requested model counts as that model, because
        hosts look for the name that they chose."""
        if not model or _is_dated(model, self.model):
            return self
        return replace(self, model=model)


def _is_dated(model: str, name: str) -> bool:
    """Whether `model` is `name`, or `name` with a date of eight digits."""
    if not name or not model.startswith(name):
        return False
    rest = model[len(name) :]
    digits = rest[1:].replace("-", "")
    return not rest or (rest[0] in "-@" and len(digits) == 8 and digits.isdigit())


def api_name(api: str) -> str:
    return _APIS.get(api, api)


def usage_object(usage: Usage) -> m.Usage:
    """Usage as the wire has it. Only the total cost is known; an unknown cost is 0, because hosts add it up."""
    return m.Usage(
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        usage.tokens,
        m.Total(total=usage.cost or 0),
    )


# Blocks.


def reply_block(block: Block) -> m.ReplyBlock | None:
    """A block of a reply; None if the wire has none for it."""
    match block:
        case Text(text):
            return m.Text(text)
        case Thinking(redacted=data) if data:
            return m.RedactedThinking(data)
        case Thinking(text, signature):
            return m.Thinking(text, signature or UNSET)
        case ToolCall(call, name, args):
            return m.ToolCall(call, name, args)
        case _:
            return None


def text_and_images(text: str, images: Iterable[Image] = ()) -> list[m.ContentBlock]:
    """Content of prompts and results: always a text first, then images."""
    return [m.Text(text), *(m.Image(image.data, image.media_type) for image in images)]


def prompt_content(text: str, attachments: Iterable[Attachment]) -> list[m.ContentBlock]:
    """Content of a prompt. Attachments other than images are named in a text."""
    attached = list(attachments)
    references = [m.Text(name) for name in map(_reference, attached) if name]
    return [*text_and_images(text, (one for one in attached if isinstance(one, Image))), *references]


def _reference(attachment: Attachment) -> str:
    match attachment:
        case File(path):
            return f"@{path}"
        case Link(uri):
            return uri
        case Document(name, _, text):
            return f"{name}:\n{text}" if text else name
        case _:
            return ""


# Messages of a session.


def conversation(items: Iterable[Item], author: MessageAuthor) -> list[m.Message]:
    return [message for item in items for message in item_messages(item, author)]


def item_messages(item: Item, author: MessageAuthor) -> Iterator[m.Message]:
    """The messages of one item. Results of several calls in one item are one message each."""
    message, at = item.message, item.at
    if item.kind == "summary":
        yield m.CompactionSummary(_text(message), item.before, at)
    elif item.shell:
        yield bash_execution(item.shell, at)
    elif message.role == "assistant":
        content = [block for block in map(reply_block, message.content) if block]
        who = replace(author, provider=message.provider or author.provider).with_model(message.model)
        yield who.message(content, at, stop=message.stop, usage=message.usage, request=item.request)
    elif message.role == "tool":
        for block in message.content:
            if isinstance(block, ToolResult):
                yield tool_result(block, at)
    else:
        images = [block for block in message.content if isinstance(block, Image)]
        references = [m.Text(_reference(block)) for block in message.content if isinstance(block, Document)]
        yield m.UserMessage([*text_and_images(_text(message), images), *references], at)


def tool_result(result: ToolResult, at: int) -> m.ToolResultMessage:
    content = text_and_images(result.output, result.images)
    return m.ToolResultMessage(result.call, result.name, content, result.outcome != "ok", at)


def bash_execution(result: ShellResult, at: int) -> m.BashExecution:
    return m.BashExecution(
        result.command,
        result.output,
        result.cancelled,
        result.truncated,
        at,
        UNSET if result.code is None else result.code,
        result.path or UNSET,
    )


def _text(message: Message) -> str:
    return "\n".join(block.text for block in message.content if isinstance(block, Text))


# Models.


def model(card: ModelCard) -> m.Model:
    levels = [level for level in LEVELS[1:] if level in card.effort_levels]
    mode = "effort"
    if card.thinking and not levels:
        mode, levels = "budget", list(LEVELS[1:-1])
    prices = [price or 0 for price in (*card.prices, 0, 0, 0, 0)][:4]
    return m.Model(
        id=card.name,
        name=card.name,
        api=api_name(card.api),
        provider=card.provider,
        base_url=card.base_url,
        reasoning=bool(levels),
        input=["text"] if card.images is False else ["text", "image"],
        cost=m.Cost(*prices),
        context_window=card.window,
        max_tokens=card.max_output,
        thinking={"mode": mode, "minLevel": levels[0], "maxLevel": levels[-1]} if levels else UNSET,
    )
