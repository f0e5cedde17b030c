"""Tools that the host runs for the model of the engine.

`connect(tools=...)` passes them to `HostTools`, which offers them to the engine in `Hello` and runs them when a
`HostCall` comes (`host/supervision/conversation.py`). Wires know such tools in two forms: omp has tools of the host,
claude has an MCP server inside the host; both lead to the same functions. A tool that fails is a result for the model,
never an exception.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from polylect.host.errors import InvalidType, InvalidValue
from polylect.vocab.events import HostCall

SERVER = "host"
"""Where a wire knows no tools of a host but MCP servers inside it, ours has this name."""
_PROTOCOL = "2025-06-18"
_NO_METHOD = -32601


class HostTool(Struct, frozen=True):
    """A tool that this program runs for the model.

    Attributes:
        name: What the model calls it.
        description: What the model is told about it.
        run: The function, async or not. It gets the arguments by name and returns a text or any value that JSON has.
        parameters: The JSON Schema of its arguments.
    """

    name: str
    description: str
    run: Callable[..., Any]
    parameters: Mapping[str, Any] = {}

    async def call(self, args: Mapping[str, Any]) -> str:
        """Runs the function with `args` and returns its value as a text. Raises what the function raises."""
        value_or_awaitable = self.run(**args)
        value = await value_or_awaitable if isinstance(value_or_awaitable, Awaitable) else value_or_awaitable
        return value if isinstance(value, str) else json.dumps(value, default=str)


def tool(function: Callable[..., Any]) -> HostTool:
    """Makes a tool out of a function; can be used as a decorator.

    Args:
        function: A function, async or not. Its name, its docstring and the types of its parameters become the name, the
            description and the schema of the tool; arguments are converted to those types.

    Raises:
        InvalidType: It has no name, takes arguments that have no name, or has types that JSON does not have.
    """
    import msgspec

    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise InvalidType(f"a tool is a function that has a name, not {function!r}: else write HostTool(name, ...)")
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    if odd := [str(each) for each in parameters if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]:
        raise InvalidType(f"a tool is given its arguments by name: {name} cannot have {', '.join(odd)}")
    types = {each.name: Any if each.annotation is each.empty else each.annotation for each in parameters}
    try:
        schemas, shared = msgspec.json.schema_components(types.values(), ref_template="#/$defs/{name}")
    except TypeError as error:
        raise InvalidType(f"the parameters of {name} need types that JSON has: {error}") from None
    schema = {
        "type": "object",
        "properties": dict(zip(types, schemas, strict=True)),
        "required": [each.name for each in parameters if each.default is each.empty],
        "additionalProperties": False,
        **({"$defs": shared} if shared else {}),
    }

    def run(**args: Any) -> Any:
        return function(**{key: msgspec.convert(value, types.get(key, Any)) for key, value in args.items()})

    return HostTool(name, inspect.getdoc(function) or name, run, schema)


class HostTools:
    """The tools of one host. Raises InvalidValue if two have the same name."""

    def __init__(self, tools: Sequence[HostTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) < len(tools):
            raise InvalidValue(f"tools need names of their own: {', '.join(tool.name for tool in tools)}")

    def offers(self, *, direct: bool) -> dict[str, Any]:
        """Returns the `offers` of `Hello`: the tools themselves if `direct`, else a server that has them."""
        if not self._tools:
            return {}
        return (
            {"tools": [self._card(tool, "parameters") for tool in self._tools.values()]}
            if direct
            else {"servers": [SERVER]}
        )

    async def run(self, call: HostCall) -> tuple[Any, str]:
        """Runs a `call` of the engine. Returns its result and the text of an error; one of them is empty."""
        params = call.params if isinstance(call.params, dict) else {}
        match call.method:
            case "tool":
                return await self._call(str(params.get("name", "")), params.get("args") or {})
            case "mcp_message" if params.get("server_name") == SERVER:
                return await self._answer_mcp(params.get("message") or {}), ""
            case method:
                return None, f"this host does not do {method!r}"

    async def _call(self, name: str, args: Mapping[str, Any]) -> tuple[Any, str]:
        tool = self._tools.get(name)
        if tool is None:
            return None, f"this host has no tool {name!r}"
        try:
            return {"content": [{"type": "text", "text": await tool.call(args)}]}, ""
        except asyncio.CancelledError:
            if getattr(asyncio.current_task(), "cancelling", int)():
                raise
            return None, "what the tool waited for was cancelled"
        except Exception as error:  # noqa: BLE001  (the model is told, and goes on)
            return None, f"{type(error).__name__}: {error}"

    async def _answer_mcp(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Answers a message as an MCP server does."""
        if "id" not in message:
            return {"jsonrpc": "2.0", "result": {}}
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        params = message.get("params") or {}
        match message.get("method"):
            case "initialize":
                capabilities = {
                    "protocolVersion": params.get("protocolVersion", _PROTOCOL),
                    "capabilities": {"tools": {}},
                }
                return {**answer, "result": {**capabilities, "serverInfo": {"name": SERVER, "version": "1"}}}
            case "tools/list":
                return {
                    **answer,
                    "result": {"tools": [self._card(tool, "inputSchema") for tool in self._tools.values()]},
                }
            case "tools/call":
                value, error = await self._call(str(params.get("name", "")), params.get("arguments") or {})
                failed = {"content": [{"type": "text", "text": error}], "isError": True}
                return {**answer, "result": failed if error else value}
            case "ping":
                return {**answer, "result": {}}
            case method:
                return {**answer, "error": {"code": _NO_METHOD, "message": f"there is no {method!r} here"}}

    @staticmethod
    def _card(tool: HostTool, schema: str) -> dict[str, Any]:
        return {"name": tool.name, "description": tool.description, schema: {"type": "object", **tool.parameters}}
