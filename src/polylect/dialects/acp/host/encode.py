"""What the host answers to requests of the agent for files and terminals, and how these requests are read.

The methods and fields of `HostCall` are ours; this is the only place that knows both them and those of the wire.
"""

from collections.abc import Callable
from typing import Any

from polylect.dialects.acp.frames import agent as shapes
from polylect.dialects.acp.frames.client import Empty
from polylect.dialects.acp.frames.content import Shape
from polylect.dialects.acp.host.prompts import file_uri
from polylect.dialects.acp.versions import NOT_FOUND
from polylect.dialects.lenient import Object, inner, objects, text, whole, words
from polylect.wire import jsonrpc

HOST_CALLS = {
    "fs/read_text_file": "read_text_file",
    "fs/write_text_file": "write_text_file",
    "terminal/create": "create_terminal",
    "terminal/output": "terminal_output",
    "terminal/wait_for_exit": "wait_for_terminal_exit",
    "terminal/kill": "kill_terminal",
    "terminal/release": "release_terminal",
    "mcp/message": "mcp_message",
}
"""Our names of the requests that a host carries out."""
_CODES = {
    "missing": NOT_FOUND,
    "bad_params": jsonrpc.INVALID_PARAMS,
    "outside": jsonrpc.INVALID_PARAMS,
    "unsupported": jsonrpc.METHOD_NOT_FOUND,
}
"""The codes of the wire for words of `HostReply.code`."""


def host_call_params(method: str, params: Object) -> Object:
    """The params of a `HostCall` for a request of the agent."""
    match HOST_CALLS[method]:
        case "read_text_file":
            return {"path": text(params, "path"), "line": _number(params, "line"), "limit": _number(params, "limit")}
        case "write_text_file":
            return {"path": text(params, "path"), "content": text(params, "content")}
        case "create_terminal":
            return {
                "command": text(params, "command"),
                "args": words(params, "args"),
                "env": {text(row, "name"): text(row, "value") for row in objects(params, "env")},
                "cwd": text(params, "cwd"),
                "limit": _number(params, "outputByteLimit"),
            }
        case "mcp_message":
            message = {"jsonrpc": "2.0", "id": text(params, "requestId"), "method": text(params, "method")}
            inside = {"params": params["params"]} if isinstance(params.get("params"), dict) else {}
            return {"server_name": text(params, "serverId"), "message": {**message, **inside}}
    return {"terminal": text(params, "terminalId")}


def _number(params: Object, key: str) -> int | None:
    return whole(params, key) if isinstance(params.get(key), int) else None


def host_call_result(method: str, result: Any) -> Shape:
    """The result of the agent's request, from the `HostReply` of the host."""
    fields = result if isinstance(result, dict) else {}
    return _RESULTS[method](fields) if method in _RESULTS else Empty()


def host_call_error(error: str, code: str, path: str) -> jsonrpc.Error:
    """The error of the agent's request. `code` is the word of the host for it, `path` the file that it is about."""
    number = _CODES.get(code, jsonrpc.INTERNAL_ERROR)
    return jsonrpc.Error(number, error, {"uri": file_uri(path)} if code == "missing" else {"details": error})


def _exit_status(fields: Object) -> shapes.ExitStatus:
    return shapes.ExitStatus(exit_code=_number(fields, "exit_code"), signal=text(fields, "signal") or None)


def _output(fields: Object) -> shapes.TerminalOutput:
    status = None if fields.get("running") is True else _exit_status(fields)
    return shapes.TerminalOutput(
        output=text(fields, "output"), truncated=fields.get("truncated") is True, exit_status=status
    )


def _mcp_answer(fields: Object) -> shapes.McpAnswer:
    """What a server inside of the host has answered, with the envelope of JSON-RPC or without."""
    answer = inner(fields, "mcp_response") or fields
    if isinstance(answer.get("error"), dict):
        return shapes.McpAnswer(error=answer["error"])
    return shapes.McpAnswer(result=answer.get("result"))


_RESULTS: dict[str, Callable[[Object], Shape]] = {
    "mcp/message": _mcp_answer,
    "fs/read_text_file": lambda fields: shapes.FileText(content=text(fields, "content")),
    "terminal/create": lambda fields: shapes.TerminalCreated(terminal_id=text(fields, "terminal")),
    "terminal/output": _output,
    "terminal/wait_for_exit": _exit_status,
}
