"""The content blocks of a prompt as text and attachments, and the MCP servers of a client as ours.

    text "why ", resource_link "file:///a", text "?"   ->   "why @a?", (Link("file:///a", "a"),)

A link is only named to the model: clients link folders and files that are not there, and such a prompt has to work.
"""

from msgspec import UNSET

from polylect.dialects.acp.engine.connection import Refusal
from polylect.dialects.acp.frames.client import McpServer
from polylect.dialects.acp.frames.content import AnyBlock, AudioBlock, ImageBlock, LinkBlock, ResourceBlock, TextBlock
from polylect.dialects.acp.frames.own_meta import read_own
from polylect.vocab.content import Attachment, Document, File, Image, Link, Server
from polylect.wire.jsonrpc import INVALID_PARAMS


def read_prompt(blocks: list[AnyBlock]) -> tuple[str, tuple[Attachment, ...]]:
    """The text and the attachments of a prompt. Raises Refusal for a block that was not offered."""
    last_text = max((place for place, block in enumerate(blocks) if isinstance(block, TextBlock)), default=-1)
    attachments: list[Attachment] = []
    text, after_text = "", False
    for place, block in enumerate(blocks):
        if isinstance(block, TextBlock):
            text += f"\n{block.text}" if after_text else block.text
            after_text = True
            continue
        attachment = _attachment(block)
        attachments.append(attachment)
        if place < last_text and text:  # it is mentioned in the middle of the text
            text += f"@{_name(attachment)}"
            after_text = False
    return text, tuple(attachments)


def _attachment(block: AnyBlock) -> Attachment:
    match block:
        case ImageBlock(data=data, mime_type=media_type):
            return Image(media_type, data)
        case LinkBlock(meta=meta) if isinstance(path := read_own(meta).get("file"), str):
            return File(path)
        case LinkBlock(uri=uri, name=name, mime_type=media_type):
            return Link(uri, name, media_type or "")
        case ResourceBlock():
            return _resource(block)
        case AudioBlock():
            raise Refusal(INVALID_PARAMS, "This agent takes no audio: promptCapabilities.audio is false")
        case _:
            raise Refusal(INVALID_PARAMS, "A prompt has blocks of type text, image, resource and resource_link")


def _resource(block: ResourceBlock) -> Attachment:
    resource = block.resource
    name, media_type = _resource_name(resource.uri), resource.mime_type or ""
    if resource.text is not UNSET:
        return Document(name, media_type or "text/plain", text=resource.text)
    if resource.blob is UNSET:
        raise Refusal(INVALID_PARAMS, f"The resource {resource.uri[:200]} has neither text nor blob")
    if media_type.startswith("image/"):
        return Image(media_type, resource.blob)
    return Document(name, media_type or "application/octet-stream", data=resource.blob)


def _resource_name(uri: str) -> str:
    """The path of a file, else the address itself."""
    if not uri.startswith("file://"):
        return uri
    from urllib.parse import unquote  # 4 ms, and only for prompts with files

    _, slash, path = uri.removeprefix("file://").partition("/")
    return unquote(slash + path)


def _name(attachment: Attachment) -> str:
    match attachment:
        case File(path):
            return path
        case Image():
            return "image"
        case _:
            return attachment.name


def read_server(server: McpServer) -> Server:
    """The server that a client brings. Raises Refusal for one that was not offered, or that is incomplete."""
    pairs = [(row.name, row.value) for row in (server.env or ())] if server.env is not UNSET else []
    headers = [(row.name, row.value) for row in (server.headers or ())] if server.headers is not UNSET else []
    match server.type:
        case "http" | "sse" as transport if server.url is not UNSET and server.headers is not UNSET:
            return Server(server.name, transport, url=server.url, headers=dict(headers))
        case type if type is UNSET and server.command is not UNSET and UNSET not in (server.args, server.env):
            args = tuple(server.args) if isinstance(server.args, list) else ()
            return Server(server.name, "stdio", server.command, args, dict(pairs))
        case "acp" if server.server_id is not UNSET:
            return Server(server.name, "host")
        case "acp":
            raise Refusal(INVALID_PARAMS, f"The MCP server {server.name[:80]!r} needs serverId")
        case "http" | "sse":
            raise Refusal(INVALID_PARAMS, f"The MCP server {server.name[:80]!r} needs url and headers")
        case type if type is UNSET:
            raise Refusal(INVALID_PARAMS, f"The MCP server {server.name[:80]!r} needs command, args and env")
        case type:
            raise Refusal(INVALID_PARAMS, f"MCP servers of type {type!r} are not offered: send stdio, http, sse or acp")
