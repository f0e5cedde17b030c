"""Prompts and steers as content blocks. A block that the agent did not advertise is refused, never sent."""

from collections.abc import Iterator
from urllib.parse import quote

from polylect.dialects.acp.frames import content as shapes
from polylect.dialects.acp.frames.own_meta import own_meta
from polylect.dialects.acp.host.handshake import AgentInfo
from polylect.dialects.host_base import Refusal
from polylect.vocab.content import Attachment, Document, File, Image, Link


def blocks(text: str, attachments: tuple[Attachment, ...], agent: AgentInfo) -> list[shapes.AnyBlock]:
    """The blocks of a message. Raises Refusal."""
    words: list[shapes.AnyBlock] = [shapes.TextBlock(text=text)] if text or not attachments else []
    return [*words, *(block for attachment in attachments for block in _block(attachment, agent))]


def _block(attachment: Attachment, agent: AgentInfo) -> Iterator[shapes.AnyBlock]:
    match attachment:
        case File(path):
            meta = own_meta(file=path) if agent.ours else None
            yield shapes.LinkBlock(uri=file_uri(path), name=path.rpartition("/")[2] or path, meta=meta)
        case Link(uri, name, media_type):
            yield shapes.LinkBlock(uri=uri, name=name or uri, mime_type=media_type or None)
        case Image(data="") | Document(text="", data=""):
            raise Refusal("this wire carries the content of an attachment, and this one has none")
        case Image(media_type, data):
            _check(agent, "image", "pictures")
            yield shapes.ImageBlock(data=data, mime_type=media_type)
        case Document(_, media_type, _, data) if data and media_type.startswith("audio/"):
            _check(agent, "audio", "sound")
            yield shapes.AudioBlock(data=data, mime_type=media_type)
        case Document(name, media_type, text, data):
            yield _document(name, media_type, text, data, agent)


def _document(name: str, media_type: str, text: str, data: str, agent: AgentInfo) -> shapes.AnyBlock:
    if text and not agent.takes("embeddedContext"):
        return shapes.TextBlock(text=f"{name}:\n\n{text}")
    _check(agent, "embeddedContext", "documents with their content")
    uri = name if "://" in name else file_uri(name)
    if data:
        return shapes.ResourceBlock(resource=shapes.Resource(uri=uri, blob=data, mime_type=media_type or None))
    return shapes.ResourceBlock(resource=shapes.Resource(uri=uri, text=text, mime_type=media_type or None))


def _check(agent: AgentInfo, capability: str, what: str) -> None:
    """Raises Refusal if the agent is known and did not advertise this."""
    if agent.result and not agent.takes(capability):
        raise Refusal(f"this agent takes no {what}: put the file's path into the prompt", "unsupported")


def file_uri(path: str) -> str:
    """The address of a file, with everything escaped that an address cannot have."""
    return "file://" + quote(path, safe="/:@!$&'()*+,;=~")
