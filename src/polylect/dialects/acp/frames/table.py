"""All messages of the wire by direction and method, for `dialect` and for the JSON schema in `schemas/`.

A result has no method on the wire; it is listed as the method and `result`. Nothing is read or written with these.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct, defstruct

from polylect.dialects.acp.frames import agent, client
from polylect.dialects.acp.frames.content import Shape
from polylect.dialects.acp.versions import VERSIONS
from polylect.wire.jsonrpc import Error, Id

Requests = dict[str, tuple[type[Shape], type[Shape]]]


def _struct(name: str, fields: list[Any], **options: Any) -> type[Struct]:
    words = "".join(word.capitalize() for word in re.findall("[a-z]+", name))
    return defstruct(words, fields, frozen=True, module=__name__, **options)


@cache
def _notification(method: str, params: type[Shape]) -> type[Struct]:
    return _struct(f"{method} notification", [("params", params)], tag_field="method", tag=method)


@cache
def _request(method: str, params: type[Shape]) -> type[Struct]:
    return _struct(f"{method} request", [("id", Id), ("params", params)], tag_field="method", tag=method)


@cache
def _response(method: str, name: str, value: type[Struct]) -> type[Struct]:
    return _struct(f"{method} response", [("id", Id), (name, value)])


def _messages(requests: Requests, notifications: dict[str, type[Shape]], answered: Requests) -> dict[str, type[Struct]]:
    return {
        **{method: _request(method, params) for method, (params, _) in requests.items()},
        **{method: _notification(method, params) for method, params in notifications.items()},
        **{f"{method} result": _response(method, "result", result) for method, (_, result) in answered.items()},
        "error": _response("error", "error", Error),
    }


class Shapes(Mapping[str, dict[str, Any]]):
    """The messages of each version by direction. They are made when somebody asks for them."""

    def __iter__(self) -> Iterator[str]:
        return iter(VERSIONS)

    def __len__(self) -> int:
        return len(VERSIONS)

    def __getitem__(self, version: str) -> dict[str, Any]:
        from_client, from_agent, told = client.REQUESTS, agent.REQUESTS, agent.NOTIFICATIONS
        if version == "2":
            from polylect.dialects.acp.frames import v2  # not while version 1 is spoken

            from_client, from_agent, told = v2.CLIENT_REQUESTS, v2.AGENT_REQUESTS, v2.AGENT_NOTIFICATIONS
        events = _messages(from_agent, told, from_client)
        return {"events": events, "commands": _messages(from_client, client.NOTIFICATIONS, from_agent)}
