"""Large answers of a server, read without the SDK.

The SDK checks every message with pydantic in one piece: for a list of 50 000 tools that takes two seconds in which the
engine handles nothing else. So a long answer is decoded here instead. A list of tools is not given to the SDK at all:
the SDK gets an empty list with the number of the page in its `_meta`, and `Connection.tools` reads the page in slices.

    {"id": 3, "result": {"tools": [50 000 tools], "nextCursor": "x"}}
    becomes {"tools": [], "nextCursor": "x", "_meta": {"polylect/page": 0}}, and page 0 is the list, still as JSON

Of the result of a call, the SDK gets a limited number of parts and a limited structured form. A part of text says what
was left out. Of a list of prompts or resources the SDK gets a limited number of entries, and `_meta` says that there
were more. A long message that is no answer is not read. Called by `stdio_streams.py`, `http_bodies.py` and
`sdk_streams.py` (incoming messages), and by `connection.py` (pages).
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from polylect.mcp.tool import ListedTool
from polylect.mcp.values import ServerFault

LARGE = 256 * 1024
"""Bytes. Anything shorter the SDK checks in a few milliseconds."""
MOST_PARTS = 1000
"""Parts of the result of one call that are read."""
MOST_STRUCTURED = 1024 * 1024
"""Bytes of the structured form of a result that are read."""
MOST_ENTRIES = 1000
"""Prompts or resources of one page, or messages of a prompt, that are read."""
MOST_UNEXPECTED = 1024 * 1024
"""Bytes of a message that is not the result of a request: a notification, a request, an error."""
_LISTS = ("prompts", "resources", "messages")
_PAGE = "polylect/page"
_SHORTENED = "polylect/shortened"
_SLICE = 500
"""Tools that are decoded before other tasks get their turn."""


class _Response(msgspec.Struct):
    """As much of a message as tells whose answer it is."""

    id: int | str
    result: msgspec.Raw
    method: str = ""


class _Row(msgspec.Struct):
    """A tool in a list; its schema is decoded when a model is told of it."""

    name: str
    inputSchema: msgspec.Raw  # noqa: N815
    description: str | None = None
    execution: dict[str, Any] | None = None


class Pages:
    """Lists of tools that were not given to the SDK, until `read` takes them out."""

    def __init__(self) -> None:
        self._pages: dict[int, list[msgspec.Raw]] = {}
        self._stored = 0

    def store(self, result: msgspec.Raw) -> dict[str, Any]:
        """Keep the tools of a `tools/list` result; returns what the SDK gets. Raises msgspec.DecodeError."""
        fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
        tools = msgspec.json.decode(fields.pop("tools", msgspec.Raw(b"[]")), type=list[msgspec.Raw])
        meta = msgspec.json.decode(fields.pop("_meta", msgspec.Raw(b"{}")), type=dict[str, Any])
        rest = {name: msgspec.json.decode(value) for name, value in fields.items()}
        self._pages[self._stored] = tools
        self._stored += 1
        return {**rest, "tools": [], "_meta": {**meta, _PAGE: self._stored - 1}}

    async def read(self, meta: Any) -> list[ListedTool] | None:
        """The tools of a page by its `_meta`; None if it was none of ours. Raises ServerFault."""
        number = (meta or {}).get(_PAGE)
        tools = self._pages.pop(number, None) if isinstance(number, int) else None
        if tools is None:
            return None
        listed: list[ListedTool] = []
        for start in range(0, len(tools), _SLICE):
            listed += filter(None, map(_listed, tools[start : start + _SLICE]))
            await asyncio.sleep(0)
        return listed


def read_response(
    message: bytes, method_of: Callable[[int | str], str | None], pages: Pages
) -> tuple[int | str, dict[str, Any]] | None:
    """The id and the limited result of a long answer; None if the message is anything else.

    `method_of` gives the method of the request with this id, or None if there is no such request.
    """
    try:
        response = msgspec.json.decode(message, type=_Response)
        method = None if response.method else method_of(response.id)
        if method is None:
            return None
        if method == "tools/list":
            return response.id, pages.store(response.result)
        return response.id, (_call_result if method == "tools/call" else _listing)(response.result)
    except (msgspec.DecodeError, RecursionError):
        return None


def _listing(result: msgspec.Raw) -> dict[str, Any]:
    fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    lists = {name: msgspec.json.decode(fields.pop(name), type=list[msgspec.Raw]) for name in _LISTS if name in fields}
    decoded: dict[str, Any] = {name: msgspec.json.decode(value) for name, value in fields.items()}
    limited: dict[str, Any] = {
        name: [msgspec.json.decode(entry) for entry in entries[:MOST_ENTRIES]] for name, entries in lists.items()
    }
    if any(len(entries) > MOST_ENTRIES for entries in lists.values()):
        _mark_shortened(decoded)
    return {**decoded, **limited}


def _call_result(result: msgspec.Raw) -> dict[str, Any]:
    """What the SDK gets of a `tools/call` result. Raises msgspec.DecodeError.

    A structured form that is too large is shown as text where there is no other content.
    """
    fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    if "content" not in fields:  # an input request of the server, or a result that the SDK will refuse
        return msgspec.json.decode(result, type=dict[str, Any])
    parts = msgspec.json.decode(fields.pop("content"), type=list[msgspec.Raw])
    content = [msgspec.json.decode(part) for part in parts[:MOST_PARTS]]
    if len(parts) > MOST_PARTS:
        content.append(_omitted_note(len(parts)))
    structured = bytes(fields.get("structuredContent", b""))
    if len(structured) > MOST_STRUCTURED:
        del fields["structuredContent"]
        note = f"[the structured form of this result was left out: it has {len(structured)} bytes]"
        content.append(_text(note if content else structured.decode(errors="replace")))
    decoded = {name: msgspec.json.decode(value) for name, value in fields.items()}
    if len(structured) > MOST_STRUCTURED:
        _mark_shortened(decoded)
    return {**decoded, "content": content}


def limit_lists(result: dict[str, Any]) -> None:
    """Shorten the lists of a result that has been decoded."""
    content = result.get("content")
    if isinstance(content, list) and len(content) > MOST_PARTS + 1:  # the note of `_call_result` may be one of them
        content[MOST_PARTS:] = [_omitted_note(len(content))]
    for name in _LISTS:
        entries = result.get(name)
        if isinstance(entries, list) and len(entries) > MOST_ENTRIES:
            del entries[MOST_ENTRIES:]
            _mark_shortened(result)


def is_shortened(meta: Any) -> bool:
    """Whether entries, or the structured form, of the result with this `_meta` were left out."""
    return _SHORTENED in (meta or {})


def _mark_shortened(result: dict[str, Any]) -> None:
    meta = result.get("_meta")
    result["_meta"] = {**(meta if isinstance(meta, dict) else {}), _SHORTENED: True}


def _omitted_note(parts: int) -> dict[str, str]:
    return _text(f"[{parts - MOST_PARTS} of the {parts} parts of this result were left out]")


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _listed(tool: msgspec.Raw) -> ListedTool | None:
    """None for a tool that can only be called as a task, which we cannot do."""
    try:
        row = msgspec.json.decode(tool, type=_Row)
    except msgspec.DecodeError as error:
        raise ServerFault(f"the server's answer does not follow the protocol: tools: {error}") from None
    schema = bytes(row.inputSchema)
    if not schema.startswith(b"{"):
        raise ServerFault(f"the server's answer does not follow the protocol: tools: {row.name} has no schema")
    if row.execution and row.execution.get("taskSupport") == "required":
        return None
    return ListedTool(row.name, row.description or "", schema)
