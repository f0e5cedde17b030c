"""What the client can do, as it says in `initialize`. What it does not say it cannot.

A field of a wrong type counts as absent, as the reference decoders have it. A capability that is an object is there
also if it is empty; null and absent are the same.
"""

from typing import Any

from msgspec import Struct


class Client(Struct, frozen=True):
    """The client of a connection.

    Attributes:
        name: Its name and `version`, if it says them.
        read: Whether it reads files for us; `write`: whether it writes them.
        terminals: Whether it runs programs in terminals for us.
        login: Whether it can run our own login in a terminal.
        forms: Whether it shows forms; `urls`: whether it opens addresses.
        notices: Whether it shows notices; `compactions`: compactions; `subagents`: sub-agents as sessions of their own.
        own: Whether it is polylect itself, which reads more than the protocol has.
        output: Whether it shows the output of calls as a terminal that we feed (Zed's `_meta.terminal_output`).
        steers: Whether it is told of messages of the user that join a running turn.
    """

    name: str = ""
    version: str = ""
    read: bool = False
    write: bool = False
    terminals: bool = False
    login: bool = False
    forms: bool = False
    urls: bool = False
    notices: bool = False
    compactions: bool = False
    subagents: bool = False
    own: bool = False
    output: bool = False
    steers: bool = False

    @property
    def offers(self) -> dict[str, Any]:
        """What the engine is told of it, in `Hello`."""
        return {"files": {"read": self.read, "write": self.write}, "terminal": self.terminals}


def read_client(params: dict[str, Any]) -> Client:
    """The client that has sent these params of `initialize`, in the shape of either version."""
    offered = params.get("clientCapabilities", params.get("capabilities"))
    info = params.get("clientInfo", params.get("info"))
    name = _text(_value(info, "name"))
    return Client(
        name=name,
        version=_text(_value(info, "version")),
        read=_value(offered, "fs", "readTextFile") is True,
        write=_value(offered, "fs", "writeTextFile") is True,
        terminals=_value(offered, "terminal") is True,
        login=_value(offered, "auth", "terminal") is True or _is_object(offered, "auth", "terminal"),
        forms=_is_object(offered, "elicitation", "form"),
        urls=_is_object(offered, "elicitation", "url"),
        notices=_is_object(offered, "session", "notices"),
        compactions=_is_object(offered, "session", "compaction"),
        subagents=_is_object(offered, "subagents"),
        own=name == "polylect",
        output=name == "polylect" or _value(offered, "_meta", "terminal_output") is True,
    )


def _value(fields: Any, *path: str) -> Any:
    for name in path:
        fields = fields.get(name) if isinstance(fields, dict) else None
    return fields


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_object(fields: Any, *path: str) -> bool:
    return isinstance(_value(fields, *path), dict)
