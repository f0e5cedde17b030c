"""What our server offers to clients of others and to the public conformance suite. Knows no wire.

`Features.handle` gets one request and returns its result. `peer` is the client that it came from.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

Object = dict[str, Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
FILES = ("a.py", "ab.py", "b.py")
STATIC = {
    "note://all": {"mimeType": "text/plain", "text": "one note"},
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://watched-resource": {"mimeType": "text/plain", "text": "It is watched."},
}
PROMPTS = {
    "review": ("file", "wish"),
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


class NotHere(Exception):
    """There is no such tool, prompt or resource: -32602, or -32002 for a resource."""


class Peer(Protocol):
    """The client of a request."""

    def notify(self, method: str, params: Object) -> None: ...

    async def request(self, method: str, params: Object) -> Object: ...


class Features:
    """One connection."""

    def __init__(self) -> None:
        self.level = "info"
        self.grown = False
        self.cancelled = asyncio.Event()
        self._tools: dict[str, Callable[[Object, Object, Peer], Awaitable[Object]]] = {
            name.removeprefix("_tool_"): getattr(self, name) for name in dir(self) if name.startswith("_tool_")
        }

    async def handle(self, method: str, params: Object, peer: Peer) -> Object:
        """Raises NotHere, and LookupError for a method that is not known."""
        match method:
            case "tools/list":
                return {"tools": self._listed()}
            case "tools/call":
                if params["name"] not in self._tools or (params["name"] == "leaf" and not self.grown):
                    raise NotHere(f"Unknown tool: {params['name']}")
                return await self._tools[params["name"]](params.get("arguments") or {}, params.get("_meta") or {}, peer)
            case "prompts/list":
                return {
                    "prompts": [
                        {"name": name, "description": f"{name}.", "arguments": [{"name": one} for one in args]}
                        for name, args in PROMPTS.items()
                    ]
                }
            case "prompts/get":
                return {"messages": [{"role": "user", "content": part} for part in _prompt(params)]}
            case "resources/list":
                return {"resources": [{"uri": uri, "name": uri.partition("://")[2]} for uri in STATIC]}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": "test://template/{id}/data", "name": "template"}]}
            case "resources/read":
                return {"contents": [_resource(params["uri"])]}
            case "resources/subscribe" | "resources/unsubscribe" | "ping":
                return {}
            case "logging/setLevel":
                self.level = params["level"]
                return {}
            case "completion/complete":
                start = params["argument"]["value"]
                return {"completion": {"values": [file for file in FILES if file.startswith(start)], "hasMore": False}}
            case _:
                raise LookupError(method)

    def _listed(self) -> list[Object]:
        numbers = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
        schemas: dict[str, Object] = {"add": numbers, "json_schema_2020_12_tool": SCHEMA_2020}
        return [
            {"name": name, "description": f"{name}.", "inputSchema": schemas.get(name, {"type": "object"})}
            | (
                {"outputSchema": {"type": "object", "properties": {"result": {"type": "number"}}}}
                if name == "add"
                else {}
            )
            for name in self._tools
            if name != "leaf" or self.grown
        ]

    # Tools.

    async def _tool_add(self, args: Object, meta: Object, peer: Peer) -> Object:
        total = args["a"] + args["b"]
        return {**text(str(total)), "structuredContent": {"result": total}}

    async def _tool_fail(self, args: Object, meta: Object, peer: Peer) -> Object:
        return {**text("the oven is cold"), "isError": True}

    async def _tool_everything(self, args: Object, meta: Object, peer: Peer) -> Object:
        link = {"type": "resource_link", "name": "manual", "uri": "https://manual.example/1"}
        return {"content": [*text("first")["content"], image(), embedded("note://1", "a note"), link]}

    async def _tool_count(self, args: Object, meta: Object, peer: Peer) -> Object:
        for number in range(1, args["to"] + 1):
            progress = {"progress": number, "total": args["to"], "message": f"at {number}"}
            peer.notify("notifications/progress", {"progressToken": meta["progressToken"], **progress})
            await asyncio.sleep(0.02)  # the TypeScript SDK drops progress that arrives together with the answer
        return text("done")

    async def _tool_meet(self, args: Object, meta: Object, peer: Peer) -> Object:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        answer = await peer.request("elicitation/create", {"message": "Who are you?", "requestedSchema": schema})
        return text(f"{answer['action']} {answer.get('content', {}).get('name')}")

    async def _tool_think(self, args: Object, meta: Object, peer: Peer) -> Object:
        return await self._tool_test_sampling({"prompt": "?"}, meta, peer)

    async def _tool_surroundings(self, args: Object, meta: Object, peer: Peer) -> Object:
        return text((await peer.request("roots/list", {}))["roots"][0]["uri"])

    async def _tool_wait(self, args: Object, meta: Object, peer: Peer) -> Object:
        try:
            peer.notify("notifications/progress", {"progressToken": meta["progressToken"], "progress": 0})
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        return text("never")

    async def _tool_regret(self, args: Object, meta: Object, peer: Peer) -> Object:
        await self.cancelled.wait()
        return text("cancelled")

    async def _tool_log(self, args: Object, meta: Object, peer: Peer) -> Object:
        peer.notify("notifications/message", {"level": self.level, "logger": "feature", "data": "it is late"})
        return text("logged")

    async def _tool_grow(self, args: Object, meta: Object, peer: Peer) -> Object:
        self.grown = True
        peer.notify("notifications/tools/list_changed", {})
        return text("growing")

    async def _tool_leaf(self, args: Object, meta: Object, peer: Peer) -> Object:
        return text("grown")

    # Tools that the conformance suite calls.

    async def _tool_test_simple_text(self, args: Object, meta: Object, peer: Peer) -> Object:
        return text("This is a simple text response for testing.")

    async def _tool_test_image_content(self, args: Object, meta: Object, peer: Peer) -> Object:
        return {"content": [image()]}

    async def _tool_test_audio_content(self, args: Object, meta: Object, peer: Peer) -> Object:
        return {"content": [{"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}]}

    async def _tool_test_embedded_resource(self, args: Object, meta: Object, peer: Peer) -> Object:
        return {"content": [embedded("test://embedded-resource", "This is an embedded resource content.")]}

    async def _tool_test_multiple_content_types(self, args: Object, meta: Object, peer: Peer) -> Object:
        first = text("Multiple content types test:")["content"]
        return {"content": [*first, image(), embedded("test://mixed-content-resource", '{"test":"data"}')]}

    async def _tool_test_tool_with_logging(self, args: Object, meta: Object, peer: Peer) -> Object:
        for data in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            peer.notify("notifications/message", {"level": "info", "data": data})
        return text("logged")

    async def _tool_test_error_handling(self, args: Object, meta: Object, peer: Peer) -> Object:
        return {**text("This tool intentionally returns an error for testing"), "isError": True}

    async def _tool_test_tool_with_progress(self, args: Object, meta: Object, peer: Peer) -> Object:
        for number in (0, 50, 100):
            progress = {"progressToken": meta["progressToken"], "progress": number, "total": 100}
            peer.notify("notifications/progress", progress)
            await asyncio.sleep(0.02)
        return text("done")

    async def _tool_test_sampling(self, args: Object, meta: Object, peer: Peer) -> Object:
        message = {"role": "user", "content": {"type": "text", "text": args["prompt"]}}
        answer = await peer.request("sampling/createMessage", {"messages": [message], "maxTokens": 100})
        return text(f"LLM response: {answer['content']['text']}")

    async def _tool_test_elicitation(self, args: Object, meta: Object, peer: Peer) -> Object:
        fields = {"username": {"type": "string"}, "email": {"type": "string"}}
        return await _asked(peer, args["message"], fields, ["username", "email"])

    async def _tool_test_elicitation_sep1034_defaults(self, args: Object, meta: Object, peer: Peer) -> Object:
        fields = {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        }
        return await _asked(peer, "Please look at the defaults.", fields, [])

    async def _tool_test_elicitation_sep1330_enums(self, args: Object, meta: Object, peer: Peer) -> Object:
        words = ["option1", "option2", "option3"]
        titled = [{"const": f"value{number}", "title": f"{number}. option"} for number in (1, 2, 3)]
        fields = {
            "untitledSingle": {"type": "string", "enum": words},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["First", "Second"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": words}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        }
        return await _asked(peer, "Please choose.", fields, [])

    async def _tool_json_schema_2020_12_tool(self, args: Object, meta: Object, peer: Peer) -> Object:
        return text(json.dumps(args))


def text(words: str) -> Object:
    return {"content": [{"type": "text", "text": words}]}


def image() -> Object:
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def embedded(uri: str, words: str) -> Object:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": words}}


async def _asked(peer: Peer, message: str, fields: Object, required: list[str]) -> Object:
    schema = {"type": "object", "properties": fields, "required": required}
    answer = await peer.request("elicitation/create", {"message": message, "requestedSchema": schema})
    return text(f"action={answer['action']}, content={json.dumps(answer.get('content'))}")


def _prompt(params: Object) -> list[Object]:
    args = params.get("arguments") or {}
    match params["name"]:
        case "review":
            return text(f"Please review {args['file']}.")["content"]
        case "test_simple_prompt":
            return text("This is a simple prompt for testing.")["content"]
        case "test_prompt_with_arguments":
            return text(f"Prompt with arguments: arg1='{args['arg1']}', arg2='{args['arg2']}'")["content"]
        case "test_prompt_with_embedded_resource":
            words = text("Please process the embedded resource above.")["content"]
            return [embedded(args["resourceUri"], "Embedded resource content for testing."), *words]
        case "test_prompt_with_image":
            return [image(), *text("Please analyze the image above.")["content"]]
        case name:
            raise NotHere(f"Unknown prompt: {name}")


def _resource(uri: str) -> Object:
    if uri in STATIC:
        return {"uri": uri, **STATIC[uri]}
    if match := re.fullmatch(r"test://template/(\w+)/data", uri):
        data = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
    raise NotHere(f"Resource not found: {uri}")
