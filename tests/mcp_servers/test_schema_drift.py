"""The shapes of our codec are those of the published schemas, in every revision: nothing is missing or invented.

From each definition that a server may send, a message with all fields is made and read by the codec. Requirement 9 of
docs/mcp-requirements.md: what is not used is ignored by name here, and nothing else gets lost.
"""

import inspect
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Raw, Struct

from mcp_servers.published_schema import REVISIONS, definitions, names_of
from mcp_servers.schema_instances import largest
from polylect.mcp.protocol import client, frames
from polylect.mcp.protocol.client import Answer, ClientCodec, ListChanged, ServerNotification, ServerRequest
from polylect.mcp.protocol.revisions import revision

IGNORED = {"icons", "_meta", "ttlMs", "cacheScope", "resultType", "inputSchema", "outputSchema", "tasks", "task"}
"""Fields that nobody uses, or that are checked by a test of their own."""
NO_RESULTS = {
    "Result": "has no fields",
    "SubscriptionsListenResult": "only says that the stream has ended",
    "InputRequiredResult": "may be the result of several methods",
    **dict.fromkeys(("GetTaskResult", "GetTaskPayloadResult", "CancelTaskResult", "ListTasksResult"), "no tasks"),
}
NO_REQUESTS = dict.fromkeys(("GetTaskRequest", "GetTaskPayloadRequest", "CancelTaskRequest", "ListTasksRequest"))
"""Tasks are not offered, so no server may use them."""
UNITED = {
    "ResourceContents": ("TextResourceContents", "BlobResourceContents"),
    "ElicitRequestParams": ("ElicitRequestFormParams", "ElicitRequestURLParams"),
}
"""Shapes that stand for several definitions."""


def codec(version: str) -> ClientCodec:
    made = ClientCodec(frames.Implementation(name="a", version="1"), frames.ClientCapabilities())
    spoken = revision(version)
    assert spoken
    made.revision = spoken
    return made


def method_of(name: str, version: str) -> str:
    return str(definitions(version)[name]["properties"]["method"]["const"])


def pairs(*kinds: str) -> Iterator[tuple[str, str]]:
    for version in REVISIONS:
        yield from ((version, name) for kind in kinds for name in names_of(kind, version))


def lost(sent: Any, read: Any, path: str = "") -> list[str]:
    """The fields of `sent` that are missing in `read` or differ."""
    match sent, read:
        case dict(), dict():
            fields = [(key, value) for key, value in sent.items() if key not in IGNORED]
            return [one for key, value in fields for one in lost(value, read.get(key), f"{path}.{key}")]
        case list(), list() if len(sent) == len(read):
            return [one for number, value in enumerate(sent) for one in lost(value, read[number], f"{path}.{number}")]
        case _:
            return [] if sent == read else [f"{path}: {sent!r} became {read!r}"]


def as_sent(result: Any, sent: dict[str, Any]) -> Any:
    """A value of the codec in the shape that it had on the wire."""
    if isinstance(result, frames.ListPage):
        key = next(name for name, value in sent.items() if isinstance(value, list))
        entries = [frames.read_tool(one) if isinstance(one, Raw) else one for one in result.entries.items]
        return {key: [_plain(entry) for entry in entries], "nextCursor": result.next_cursor}
    return _plain(result)


def _plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize(("version", "name"), [pair for pair in pairs("ServerResult") if pair[1] not in NO_RESULTS])
def test_every_field_of_a_result_is_read(version: str, name: str) -> None:
    ours = codec(version)
    request = ours.request(method_of(name.removesuffix("Result") + "Request", version), {})
    sent = largest(name, version)
    if "resultType" in sent:
        sent["resultType"] = "complete"
    [answer] = ours.receive(json.dumps({"jsonrpc": "2.0", "id": request.id, "result": sent}).encode())
    assert isinstance(answer, Answer), answer
    assert lost(sent, as_sent(answer.result, sent)) == []


@pytest.mark.parametrize(("version", "name"), list(pairs("ServerNotification")))
def test_every_field_of_a_notification_is_read(version: str, name: str) -> None:
    if name == "TaskStatusNotification":
        pytest.skip("tasks are not offered")
    method = method_of(name, version)
    sent = largest(name, version).get("params", {})
    [received] = codec(version).receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": sent}).encode())
    if isinstance(received, ListChanged):
        assert method == f"notifications/{received.kind}/list_changed"
    else:
        assert isinstance(received, ServerNotification), received
        assert lost(sent, _plain(received.params)) == []


@pytest.mark.parametrize(
    ("version", "name"), [pair for pair in pairs("ServerRequest", "InputRequest") if pair[1] not in NO_REQUESTS]
)
def test_every_field_of_a_request_is_read(version: str, name: str) -> None:
    method = method_of(name, version)
    params = definitions(version)[name]["properties"].get("params", {})
    kinds = [params]
    if params.get("$ref", "").endswith("ElicitRequestParams"):
        kinds = [{"$ref": f"#/{kind}"} for kind in names_of("ElicitRequestParams", version)]
    for kind in kinds:
        sent = largest(kind["$ref"].rpartition("/")[2], version) if "$ref" in kind else largest(name, version)["params"]
        message = {"method": method, "params": sent}
        if name in names_of("InputRequest", version):
            request = client.read_input_request(Raw(json.dumps(message).encode()))
        else:
            [received] = codec(version).receive(json.dumps({"jsonrpc": "2.0", "id": "a", **message}).encode())
            assert isinstance(received, ServerRequest), received
            request = received
        assert request.method == method
        if method not in ("ping", "roots/list"):
            assert lost(sent, _plain(request.params)) == []


def shapes() -> list[type[Struct]]:
    return [
        shape
        for name, shape in inspect.getmembers(frames, inspect.isclass)
        if issubclass(shape, Struct) and any(name in definitions(version) for version in REVISIONS)
    ]


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.__name__)
def test_no_shape_has_a_field_that_no_schema_has(shape: type[Struct]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(shape)}
    names = (shape.__name__, *UNITED.get(shape.__name__, ()))
    actual = [definitions(version).get(name, {}) for version in REVISIONS for name in names]
    assert fields <= {key for definition in actual for key in definition.get("properties", {})} | {"_meta"}


def test_most_definitions_have_a_shape() -> None:
    assert len(shapes()) > 40
