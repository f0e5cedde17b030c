"""The worker process: one request in, one response out, until its standard input ends.

Started by `pool` as a bare interpreter, inside the sandbox of commands. It imports an operation's module with the first
request for it, so that it starts fast. Every error of an operation is sent as a reply. Only an error of the channel
ends the process, and then the engine starts another one.
"""

import _socket  # `socket` itself takes 8 ms to import
import os
import resource
import sys

from polylect.tools.process.descriptors import receive_descriptors
from polylect.tools.worker import protocol
from polylect.vocab.errors import NoSuchFile, ToolError

TYPE_CHECKING = False  # typing itself is imported only where it is used at run time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MEMORY = 2 * 1024 * 1024 * 1024
"""Bytes of address space; an operation that needs more fails alone."""

_MODULES = {
    "read": "reading",
    "write": "changing",
    "edit": "changing",
    "edit_notebook": "notebooks",
    "glob": "searching",
    "grep": "searching",
    "filter_lines": "untrusted_text",
    "page_text": "untrusted_text",
    "snapshot": "checkpoint_files",
    "restore": "checkpoint_files",
    "count_changes": "checkpoint_files",
}
"""By operation, the module of this package that has a function of that name."""


def main() -> None:
    """Serve the engine at the other end of standard input."""
    _limit_memory()
    channel = _socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # children of operations must not hold the channel
    _send(channel, protocol.GREETING)
    while request := _receive(channel):
        message, data, files = request
        try:
            answer = _answer(message, data, files)
        finally:
            for descriptor in files:
                os.close(descriptor)
        _send(channel, answer)


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def operation(name: str) -> "Callable[..., dict[str, Any]]":
    """The function that does it. Its arguments are those of the request, by name."""
    module = __import__(f"polylect.tools.worker.{_MODULES[name]}", fromlist=[name])  # importlib itself takes 2 ms
    function: Callable[..., dict[str, Any]] = getattr(module, name)
    return function


def perform(name: str, arguments: "dict[str, Any]", data: bytes, files: list[int]) -> "tuple[dict[str, Any], bytes]":
    """Run an operation. Returns its value, and apart from it the bytes that it has under the key `data`."""
    if data:
        arguments = {**arguments, "data": data}
    if files:
        arguments = {**arguments, "file": files[0]}
    value = operation(name)(**arguments)
    return value, value.pop("data", b"")


def _answer(message: "dict[str, Any]", data: bytes, files: list[int]) -> bytes:
    try:
        value, payload = perform(message["operation"], message["arguments"], data, files)
        return protocol.pack_reply({"value": value}, payload)
    except ToolError as error:
        kind = "missing" if isinstance(error, NoSuchFile) else "tool"
        return protocol.pack_reply({"error": str(error), "kind": kind})
    except OSError as error:
        return protocol.pack_reply({"error": error.strerror or str(error), "kind": "os", "errno": error.errno or 0})
    except MemoryError:
        return protocol.pack_reply({"error": "It needs more memory than a tool may use.", "kind": "tool"})
    except Exception as error:  # noqa: BLE001  a fault of ours, which the engine reports as a crash of the tool
        sys.excepthook(*sys.exc_info())
        return protocol.pack_reply({"error": f"{type(error).__name__}: {error}", "kind": "crash"})


# The channel.


def _receive(channel: _socket.socket) -> "tuple[dict[str, Any], bytes, list[int]] | None":
    """The next request with its descriptors, or None once the engine has closed the channel."""
    head, files = receive_descriptors(channel, protocol.HEAD, protocol.MOST_FILES)
    head += _exactly(channel, protocol.HEAD - len(head)) if head else b""
    if len(head) < protocol.HEAD:
        return None
    body, data = protocol.lengths(head)
    return protocol.unpack_request(_exactly(channel, body)), _exactly(channel, data), files


def _exactly(channel: _socket.socket, size: int) -> bytes:
    """So many bytes; the engine's end of the channel ends the process."""
    buffer = bytearray(size)
    view, at = memoryview(buffer), 0
    while at < size:
        count = channel.recv_into(view[at:])
        if not count:
            os._exit(0)
        at += count
    return bytes(buffer)


def _send(channel: _socket.socket, frame: bytes) -> None:
    try:
        channel.sendall(frame)
    except OSError:
        os._exit(0)
