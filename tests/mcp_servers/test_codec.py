"""The two ends of the protocol: what one writes, the other reads, in any order and through any damage."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from polylect.mcp.protocol import client, frames, server
from polylect.mcp.protocol.client import ClientCodec
from polylect.mcp.protocol.lenient import Malformed, decode_any, read
from polylect.mcp.protocol.revisions import REVISIONS
from polylect.mcp.protocol.server import ClientCancelled, ClientRequest, ServerCodec
from polylect.wire.jsonl import TooLong
from polylect.wire.jsonrpc import METHOD_NOT_FOUND, Error

INFO = frames.Implementation(name="a", version="1")
OFFERS = frames.ServerCapabilities(
    tools=frames.ListCapability(list_changed=True),
    prompts=frames.ListCapability(),
    resources=frames.ListCapability(subscribe=True, list_changed=True),
    logging={},
    completions={},
)
ASKS = frames.ClientCapabilities(roots={}, elicitation={"form": {}})

texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=3)
contents = st.builds(frames.ResourceContents, uri=texts, text=texts) | st.builds(
    frames.ResourceContents, uri=texts, blob=texts, mime_type=st.none() | texts
)
blocks = (
    st.builds(frames.TextContent, text=texts)
    | st.builds(frames.ImageContent, data=texts, mime_type=texts)
    | st.builds(frames.AudioContent, data=texts, mime_type=texts)
    | st.builds(frames.ResourceLink, uri=texts, name=texts, description=st.none() | texts)
    | st.builds(frames.EmbeddedResource, resource=contents)
)
results: dict[str, st.SearchStrategy[Any]] = {
    "tools/call": st.builds(
        frames.CallToolResult,
        content=st.lists(blocks, max_size=4),
        structured_content=st.just(msgspec.UNSET) | values,
        is_error=st.booleans(),
    ),
    "prompts/get": st.builds(
        frames.GetPromptResult,
        messages=st.lists(
            st.builds(frames.PromptMessage, role=st.sampled_from(["user", "assistant"]), content=blocks), max_size=3
        ),
        description=st.none() | texts,
    ),
    "resources/read": st.builds(frames.ReadResourceResult, contents=st.lists(contents, max_size=3)),
    "completion/complete": st.builds(
        frames.CompleteResult, completion=st.builds(frames.CompletionValues, values=st.lists(texts, max_size=3))
    ),
}
PARAMS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "add", "arguments": {"a": 1}},
    "prompts/get": {"name": "greet", "arguments": {"who": "Ada"}},
    "resources/read": {"uri": "note://1"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "A"}},
}


class Ends:
    """A client and a server that are connected in one place."""

    def __init__(self, *, handshake: bool = True) -> None:
        self.client = ClientCodec(INFO, ASKS)
        self.server = ServerCodec(INFO, OFFERS, "Be kind.")
        if handshake:
            assert self.to_server(self.client.initialize()) == []
            [answer] = self.to_client()
            [told] = self.to_server(self.client.initialized(answer.result))
            assert told == server.ClientNotification("notifications/initialized")
        else:
            assert self.to_server(self.client.discover()) == []
            [answer] = self.to_client()
            self.client.discovered(answer.result)

    def to_server(self, message: client.Outgoing | None) -> list[Any]:
        assert message
        return self.server.receive(message.line)

    def to_client(self) -> list[Any]:
        return [value for line in self.server.lines_to_send() for value in self.client.receive(line.rstrip(b"\n"))]


both = pytest.mark.parametrize("handshake", [True, False])


@both
def test_the_ends_agree_on_a_revision_and_know_each_other(handshake: bool) -> None:
    ends = Ends(handshake=handshake)
    assert ends.client.revision is ends.server.revision is REVISIONS[1 if handshake else 0]
    assert (ends.client.server_info, ends.client.instructions) == (INFO, "Be kind.")
    assert ends.client.server_capabilities == OFFERS
    assert ends.server.client_info == INFO


exchanges = st.sampled_from(list(PARAMS)).flatmap(lambda method: st.tuples(st.just(method), results[method]))


@both
@given(st.lists(exchanges, max_size=6), st.data())
def test_answers_in_any_order_arrive_as_they_were_sent(handshake: bool, pairs: Any, data: Any) -> None:
    ends = Ends(handshake=handshake)
    sent: dict[Any, Any] = {}
    for method, result in pairs:
        message = ends.client.request(method, PARAMS[method], progress=True)
        [request] = ends.to_server(message)
        assert (request.id, request.method, request.progress_token) == (message.id, method, message.id)
        sent[message.id] = result
    for id in data.draw(st.permutations(list(sent))):
        ends.server.progress(id, 1)
        ends.server.answer(id, sent[id])
        ends.server.answer(id, {"content": []})  # a second answer is not written
        progress, answer = ends.to_client()
        assert progress.params.progress_token == id
        assert (answer.id, normal(answer.result)) == (id, normal(sent[id]))


def normal(result: Any) -> Any:
    if isinstance(result, frames.CallToolResult):
        return msgspec.structs.replace(result, is_error=bool(result.is_error))
    return result


@given(st.lists(st.binary(max_size=60) | st.sampled_from([b"{}", b"[]", b"null", b'{"id":1}', b'{"jsonrpc":"2.0"}'])))
def test_rubbish_harms_neither_end(lines: list[bytes]) -> None:
    ends = Ends()
    pending = ends.client.request("tools/call", PARAMS["tools/call"])
    for line in lines:
        ends.server.receive(line)
        for value in ends.client.receive(line):
            assert isinstance(value, client.NoMessage | client.StrayAnswer)
    ends.server.lines_to_send()
    ends.to_server(pending)
    ends.server.answer(pending.id, {"content": [{"type": "text", "text": "x"}]})
    [answer] = ends.to_client()
    assert answer.result.content == [frames.TextContent(text="x")]


@given(objects, objects)
def test_unknown_fields_and_any_parameters_are_no_harm(extra: dict[str, Any], params: dict[str, Any]) -> None:
    ends = Ends()
    line = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {**params, "name": "add", "extra": extra}}
    received = ends.server.receive(json.dumps({**line, "more": extra}).encode())
    assert not received or isinstance(received[0], ClientRequest)
    assert received or ends.server.lines_to_send()


@pytest.mark.parametrize(
    ("part", "kept"),
    [
        (b'{"name": "a", "description": 5}', True),
        (b'{"name": "a", "title": [], "annotations": {"readOnlyHint": "yes"}}', True),
        (b'{"name": "a", "inputSchema": null}', True),
        (b'{"name": "\\ud83d"}', True),
        (b'{"name": "\xff"}', True),
        (b'{"name": "a", "x": NaN}', True),
        (b'{"name": "a", "inputSchema": 5}', False),
        (b'{"inputSchema": {}}', False),
        (b'{"name": null}', False),
        (b"5", False),
        (b'"a"', False),
    ],
)
def test_a_wrong_part_costs_only_itself(part: bytes, kept: bool) -> None:
    if kept:
        assert frames.read_tool(Raw(part)).input_schema == Raw(b'{"type":"object"}')
    else:
        with pytest.raises(Malformed):
            frames.read_tool(Raw(part))


def test_of_a_list_in_a_part_the_right_entries_are_read() -> None:
    prompt = read(b'{"name": "a", "arguments": [{"name": "x"}, 5, {"name": "y", "required": "no"}]}', frames.Prompt)
    assert [argument.name for argument in prompt.arguments or ()] == ["x"]
    result = frames.read_call_result(Raw(b'{"content": [{"type": "text", "text": "a"}, {"type": "hologram"}, 5]}'))
    assert isinstance(result, frames.CallToolResult)
    assert [part.text for part in result.content if isinstance(part, frames.TextContent)] == [
        "a",
        "[2 parts could not be read: there is no content of the type 'hologram']",
    ]
    assert decode_any(b'{"a": NaN, "b": "\\ud800"}') == {"a": None, "b": "\ufffd"}


def test_a_cancelled_request_gets_no_answer() -> None:
    ends = Ends()
    message = ends.client.request("tools/call", PARAMS["tools/call"])
    ends.to_server(message)
    assert ends.to_server(ends.client.cancel(message.id)) == [ClientCancelled(message.id)]
    assert ends.client.cancel(message.id) is None
    ends.server.answer(message.id, {"content": []})
    ends.server.refuse(message.id, Error(1, "late"))
    assert ends.to_client() == []
    assert ends.client.cancel(ends.client.initialize().id) is None  # it must not be cancelled


def test_what_a_server_refuses_by_itself() -> None:
    codec = ServerCodec(INFO, frames.ServerCapabilities(tools=frames.ListCapability()))

    def code(line: bytes | TooLong) -> Any:
        assert codec.receive(line) == []
        [answer] = codec.lines_to_send()
        return json.loads(answer)["error"]["code"]

    def request(method: str, **params: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()

    assert code(b"{") == -32700
    assert code(TooLong(b"", 5)) == -32600
    assert code(request("tools/list")) == -32600
    assert code(request("initialize")) == -32602
    assert code(request("tools/list", _meta={frames.PROTOCOL_VERSION: "1999-01-01"})) == -32022
    assert codec.receive(ClientCodec(INFO, ASKS).initialize().line) == []
    codec.lines_to_send()
    assert code(request("prompts/list")) == METHOD_NOT_FOUND
    assert code(request("tools/explode")) == METHOD_NOT_FOUND
    assert code(request("tools/call")) == -32602


def test_an_older_client_gets_its_revision_and_an_unknown_one_our_newest() -> None:
    for asked, agreed in {"2025-06-18": "2025-06-18", "2024-11-05": "2024-11-05", "1999-01-01": "2025-11-25"}.items():
        codec = ServerCodec(INFO, OFFERS)
        params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        codec.receive(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode())
        [line] = codec.lines_to_send()
        assert json.loads(line)["result"]["protocolVersion"] == agreed


def test_changes_are_told_to_everybody_or_to_those_who_listen() -> None:
    ends = Ends()
    ends.server.list_changed("tools")
    assert ends.to_client() == [client.ListChanged("tools")]
    ends = Ends(handshake=False)
    ends.server.list_changed("tools")
    assert ends.to_client() == []
    notifications = {"toolsListChanged": True, "resourceSubscriptions": ["a:1"]}
    listen = ends.client.request("subscriptions/listen", {"notifications": notifications})
    assert ends.to_server(listen) == []
    [acknowledged] = ends.to_client()
    assert acknowledged.params.notifications.tools_list_changed
    ends.server.list_changed("tools")
    ends.server.list_changed("prompts")
    ends.server.resource_updated("a:1")
    ends.server.resource_updated("a:2")
    assert [type(value).__name__ for value in ends.to_client()] == ["ListChanged", "ServerNotification"]
    ends.server.end_subscriptions()
    [ended] = ends.to_client()
    assert (ended.id, ended.method) == (listen.id, "subscriptions/listen")


def test_each_revision_has_its_way_to_ask_the_client() -> None:
    ends = Ends()
    id = ends.server.request("roots/list", {})
    assert ends.to_client() == [client.ServerRequest(id, "roots/list", None)]
    roots = frames.ListRootsResult(roots=[frames.Root(uri="file:///a")])
    assert ends.to_server(ends.client.answer(id, roots)) == [
        server.ClientAnswer(id, "roots/list", {"roots": [{"uri": "file:///a"}]})
    ]
    stateless = Ends(handshake=False)
    with pytest.raises(ValueError, match="makes no requests"):
        stateless.server.request("roots/list", {})
    message = stateless.client.request("tools/call", PARAMS["tools/call"])
    stateless.to_server(message)
    stateless.server.require_input(message.id, {"r": {"method": "roots/list"}}, "s")
    [answer] = stateless.to_client()
    assert answer.result.request_state == "s"
    assert client.read_input_request(answer.result.input_requests["r"]).method == "roots/list"
