"""What a request says, on any vendor's wire: its words, the results in it, and a tool of its that reads a file."""

from collections.abc import Iterator

from bench.model_wires import Json

_READERS = ("Read", "read", "read_file", "ReadFile", "exec_command", "shell_command", "shell")
"""What engines call the tool that reads a file. Some have none and use a shell."""
_PATHS = ("file_path", "absolute_path", "path")


def items(body: Json) -> list[Json]:
    found = body.get("messages") or body.get("input") or body.get("contents") or []
    return [{"role": "user", "content": found}] if isinstance(found, str) else found


def last_text(body: Json) -> str:
    for item in reversed(items(body)):
        words = [part["text"] for part in _parts(item) if part.get("text")]
        if item.get("role") == "user" and words:
            return str(words[-1])
    return ""


def results_so_far(body: Json) -> int:
    """How many results came since the user last said something in words."""
    count = 0
    for item in reversed(items(body)):
        kinds = {item.get("role"), item.get("type"), *(part.get("type") for part in _parts(item))}
        if kinds & {"tool", "function_call_output", "tool_result"} or any(
            "functionResponse" in p for p in _parts(item)
        ):
            count += 1
        elif item.get("role") == "user":
            return count
    return count


def call_to_read(body: Json, path: str) -> tuple[str, Json]:
    """The name and the arguments of a call that reads this file with what the engine has offered."""
    offered = {str(tool.get("name")): tool for tool in _tools(body)}
    name = next((reader for reader in _READERS if reader in offered), "")
    if not name:
        return "Read", {"file_path": path}
    schema: Json = next((offered[name][key] for key in _SCHEMAS if key in offered[name]), {})
    known: Json = schema.get("properties", {})
    if key := next((key for key in _PATHS if key in known), ""):
        return name, {key: path}
    key = "cmd" if "cmd" in known else "command"
    whole = known.get(key, {}).get("type") == "array"
    return name, {key: ["cat", path] if whole else f"cat {path}"}


_SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema")


def _tools(body: Json) -> Iterator[Json]:
    for tool in body.get("tools") or []:
        if "functionDeclarations" in tool:
            yield from tool["functionDeclarations"]
        else:
            yield tool.get("function", tool)


def _parts(item: Json) -> list[Json]:
    content = item.get("content") or item.get("parts") or []
    return [{"text": content}] if isinstance(content, str) else content
