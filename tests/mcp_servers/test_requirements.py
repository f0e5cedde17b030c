"""What docs/mcp-requirements.md says, one test for each number that no other file holds."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from mcp_servers.peer import Peer, Refuses, talk
from mcp_servers.published_schema import VERSION
from polylect.mcp.connection import Connection
from polylect.mcp.protocol import frames
from polylect.mcp.protocol.client import Answer as Answered
from polylect.mcp.protocol.client import ClientCodec, NoMessage, Refusal, StrayAnswer
from polylect.mcp.values import PromptCommand, ServerFault
from polylect.vocab.commands import Answer
from polylect.vocab.events import Ask

HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
REVISIONS = [*HANDSHAKE, "2026-07-28"]
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TOOL = {"name": "echo", "inputSchema": {"type": "object"}}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def text(words: str = "it works", **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def shown(result: frames.CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, frames.TextContent))


def nothing(progress: str) -> None:
    pass


async def idle(connection: Connection) -> None:
    pass


# Messages.


@pytest.mark.parametrize("version", REVISIONS)
def test_every_request_is_as_the_revision_has_it(version: str) -> None:
    """Requirements 1, 2 and 16: `Peer.receive` checks each line against the closed schema."""
    peer = Peer(
        version,
        tools_list={"tools": [TOOL]},
        tools_call=text(),
        prompts_list={"prompts": []},
        prompts_get={"messages": []},
        resources_list={"resources": []},
        resources_templates_list={"resourceTemplates": []},
        resources_read={"contents": []},
        completion_complete={"completion": {"values": []}},
    )

    async def work(connection: Connection) -> None:
        assert connection.protocol == version
        await connection.tools()
        await connection.call("echo", {"a": [1, None, "ä\n"]}, nothing)
        await connection.prompts()
        await connection.prompt("review", {"file": "a"})
        await connection.resources()
        await connection.resource_templates()
        await connection.read_resource("note://1")
        await connection.complete({"type": "ref/prompt", "name": "review"}, "file", "a", {"wish": "b"})
        await connection.set_log_level("warning")
        if version < "2026":
            await connection.ping()
            await connection.subscribe("note://1")
            await connection.unsubscribe("note://1")

    talk(peer, work)
    ids = [message["id"] for message in peer.received if "id" in message]
    assert len(set(ids)) == len(ids)
    assert None not in ids
    if version == "2026-07-28":
        for message in peer.received[1:]:
            meta = message["params"]["_meta"]
            assert meta[VERSION] == version
            assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "polylect"
            assert CAPABILITIES in meta


def test_answers_may_come_in_any_order() -> None:
    """Requirement 3."""
    order: list[str] = []
    second_answered = asyncio.Event()

    async def call(params: Any) -> Any:
        if params["name"] == "first":
            await second_answered.wait()
        order.append(params["name"])
        return text(params["name"])

    async def work(connection: Connection) -> None:
        first = asyncio.create_task(connection.call("first", {}, nothing))
        assert shown(await connection.call("second", {}, nothing)) == "second"
        second_answered.set()
        assert shown(await first) == "first"

    talk(Peer(tools_call=call), work)
    assert order == ["second", "first"]


def test_answers_that_nobody_waits_for_are_passed_over() -> None:
    """Requirement 4."""

    async def work(connection: Connection) -> None:
        for id in (1, 999, "x", 1.5, None, [], True):
            peer.send_raw({"jsonrpc": "2.0", "id": id, "result": {"tools": []}})
        assert shown(await connection.call("echo", {}, nothing)) == "it works"
        peer.send_raw({"jsonrpc": "2.0", "id": 2, "result": text("again")})
        assert shown(await connection.call("echo", {}, nothing)) == "it works"

    peer = Peer(tools_call=text())
    talk(peer, work)


def test_notifications_are_never_answered() -> None:
    """Requirement 5."""

    async def work(connection: Connection) -> None:
        await connection.ping()
        before = len(peer.received)
        for method in ("notifications/unknown", "notifications/message", "notifications/progress", "x"):
            peer.send(method, {"level": 5, "progress": "much"})
            peer.send(method, [1, 2])
        peer.send("notifications/cancelled", {"requestId": 4711})
        await connection.ping()
        assert len(peer.received) == before + 1

    peer = Peer()
    talk(peer, work)


def test_requests_that_are_unknown_or_wrong_get_an_error() -> None:
    """Requirements 6, 7 and 20."""

    async def work(connection: Connection) -> None:
        for id in ("text", 0, 1, -5, "1"):
            peer.send("server/explode", {}, id)
            assert (await peer.answer_to(id))["error"]["code"] == -32601
            peer.received.clear()
        peer.send("elicitation/create", "no object", "e")
        assert (await peer.answer_to("e"))["error"]["code"] == -32602
        peer.send("ping", None, 1)
        assert await peer.answer_to(1) == {"jsonrpc": "2.0", "id": 1, "result": {}}

    peer = Peer()
    talk(peer, work)


@pytest.mark.parametrize("code", [-32000, -32602, -32603, 0, 7])
def test_an_error_is_the_end_of_one_request(code: int) -> None:
    """Requirement 8."""

    def call(params: Any) -> Any:
        if params["name"] == "bad":
            raise Refuses(code, "the oven is cold", {"more": 1})
        return text()

    async def work(connection: Connection) -> None:
        with pytest.raises(ServerFault, match="the oven is cold"):
            await connection.call("bad", {}, nothing)
        assert shown(await connection.call("good", {}, nothing)) == "it works"

    talk(Peer(tools_call=call), work)


def test_a_wrong_entry_of_a_list_costs_only_itself() -> None:
    """Requirement 9."""
    icons = [{"src": "https://a.example/b.png", "sizes": ["1x1"]}]
    good = {**TOOL, "icons": icons, "_meta": {"a": 1}, "futuristic": {"b": [2]}}

    async def work(connection: Connection) -> None:
        assert [tool.name for tool in await connection.tools()] == ["echo"]
        assert [prompt.name for prompt in await connection.prompts()] == ["p"]
        assert [resource.uri for resource in await connection.resources()] == ["a:b"]

    prompts = [{"name": "p", "icons": icons}, 5, {"description": "no name"}, None]
    resources = [{"uri": "a:b", "name": "r", "size": "large"}, {"name": "no address"}, []]
    talk(
        Peer(
            tools_list={"tools": [good, {"name": 5}, None, {"inputSchema": {}}], "more": 1},
            prompts_list={"prompts": prompts},
            resources_list={"resources": resources},
        ),
        work,
    )


def test_an_array_of_messages_is_read() -> None:
    """Requirement 10."""
    codec = ClientCodec(frames.Implementation(name="a"), frames.ClientCapabilities())
    first, second = codec.request("ping", {}), codec.request("tools/call", {})
    line = b'[{"jsonrpc":"2.0","id":%d,"result":{}},{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":"no"}}]'
    answer, refusal = codec.receive(line % (first.id, second.id))
    assert isinstance(answer, Answered)
    assert isinstance(refusal, Refusal)
    assert [type(one) for one in codec.receive(b"[1,2]")] == [NoMessage]
    assert [type(one) for one in codec.receive(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % first.id)] == [StrayAnswer]


# Versions.


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_handshake_comes_first_and_the_answer_decides_on_the_version(version: str) -> None:
    """Requirements 11, 12, 13 and 17."""
    peer = Peer(version)

    async def work(connection: Connection) -> None:
        assert connection.protocol == version
        assert connection.version == "peer 1"
        await connection.ping()

    talk(peer, work)
    first, second, third = peer.received
    assert (first["method"], first["params"]["protocolVersion"]) == ("initialize", "2025-11-25")
    assert first["params"]["clientInfo"]["name"] == "polylect"
    assert set(first["params"]["capabilities"]) == {"roots", "elicitation"}
    assert "id" not in second
    assert (second["method"], third["method"]) == ("notifications/initialized", "ping")


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "", "3025-01-01"])
def test_a_version_that_we_do_not_speak_ends_the_connection(version: str) -> None:
    """Requirement 14: the newest revision has no handshake, so no answer to one may name it."""
    with pytest.raises(ServerFault, match=f"the server speaks version '{version}', which is not supported"):
        talk(Peer(initialize={"protocolVersion": version, "capabilities": {}, "serverInfo": {}}), idle)


def test_a_server_without_the_handshake_is_discovered() -> None:
    """Requirement 15."""
    versions = ["2026-07-28", "2099-01-01"]
    peer = Peer("2026-07-28", server_discover={"supportedVersions": versions, "capabilities": {}})

    async def work(connection: Connection) -> None:
        assert connection.protocol == "2026-07-28"

    talk(peer, work)
    assert [message["method"] for message in peer.received] == ["initialize", "server/discover"]
    with pytest.raises(ServerFault, match="only versions that are not supported: 2099-01-01"):
        talk(Peer("2026-07-28", server_discover={"supportedVersions": ["2099-01-01"], "capabilities": {}}), idle)


def test_a_list_that_is_not_offered_is_empty() -> None:
    """Requirement 18."""

    async def work(connection: Connection) -> None:
        assert await connection.tools() == []
        assert await connection.prompts() == []
        assert await connection.resources() == []
        assert await connection.resource_templates() == []

    talk(Peer(), work)
    peer = Peer(initialize={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}})
    talk(peer, work)
    assert peer.requests("prompts/list") == peer.requests("resources/list") == []


def test_a_modern_server_gets_no_answers() -> None:
    """Requirement 21."""

    async def work(connection: Connection) -> None:
        before = len(peer.requests("tools/call"))
        for method in ("roots/list", "ping", "server/explode", "elicitation/create"):
            peer.send(method, {"message": "?"}, f"id-{method}")
        await connection.call("echo", {}, nothing)
        assert len(peer.requests("tools/call")) == before + 1
        assert [message for message in peer.received if "method" not in message] == []

    peer = Peer("2026-07-28", tools_call=text(resultType="complete"))
    talk(peer, work)


# Tools.


def test_all_pages_are_read_and_cursors_are_sent_back_as_they_came() -> None:
    """Requirement 41."""
    cursors = ["", "ä \n{}", "MTA="]
    pages: dict[str | None, Any] = {
        None: {"tools": [{**TOOL, "name": "a"}], "nextCursor": cursors[1]},
        cursors[1]: {"tools": [{**TOOL, "name": "b"}], "nextCursor": cursors[2]},
        cursors[2]: {"tools": [{**TOOL, "name": "c"}]},
    }
    peer = Peer(tools_list=lambda params: pages[params.get("cursor")])

    async def work(connection: Connection) -> None:
        assert [tool.name for tool in await connection.tools()] == ["a", "b", "c"]

    talk(peer, work)
    assert [message["params"].get("cursor") for message in peer.requests("tools/list")] == [None, *cursors[1:]]


def test_a_list_without_end_is_cut() -> None:
    """Requirement 41."""
    number = 0

    def page(params: Any) -> Any:
        nonlocal number
        number += 1
        return {"tools": [{**TOOL, "name": f"t{number}"}], "nextCursor": str(number)}

    async def work(connection: Connection) -> None:
        assert len(await connection.tools()) == 100

    talk(Peer(tools_list=page), work)


def test_a_tool_reaches_the_model_as_it_is() -> None:
    """Requirements 42 and 47."""
    schema = b'{"type":"object","properties":{"a":{"type":"string","x-more":[1]}},"$schema":"x"}'
    hints = {"readOnlyHint": True, "destructiveHint": False, "title": "harmless"}
    listed = [
        {"name": "a b/c", "description": "What it does.", "inputSchema": frames.msgspec.json.decode(schema)},
        {**TOOL, "annotations": hints},
        {**TOOL, "name": "task", "execution": {"taskSupport": "required"}},
        {**TOOL, "name": "both", "execution": {"taskSupport": "optional"}},
    ]

    async def work(connection: Connection) -> None:
        tools = await connection.tools()
        assert [tool.name for tool in tools] == ["a b/c", "echo", "both"]
        assert (tools[0].description, tools[0].schema) == ("What it does.", schema)

    talk(Peer(tools_list={"tools": listed}), work)


def test_a_call_has_the_name_and_the_arguments() -> None:
    """Requirements 43 and 45."""
    peer = Peer(tools_call=lambda params: text(str(params["arguments"]), isError=params["name"] == "a b"))

    async def work(connection: Connection) -> None:
        failed = await connection.call("a b", {}, nothing)
        assert (failed.is_error, shown(failed)) == (True, "{}")
        assert not (await connection.call("c", {"x": 1}, nothing)).is_error

    talk(peer, work)
    assert [message["params"]["name"] for message in peer.requests("tools/call")] == ["a b", "c"]


def test_all_kinds_of_content_are_read() -> None:
    """Requirement 44."""
    content = [
        {"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 1}},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a:b", "text": "c", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "a:b", "name": "c", "description": "d", "size": 5},
    ]

    async def work(connection: Connection) -> None:
        result = await connection.call("echo", {}, nothing)
        assert [type(part).__name__ for part in result.content] == [
            *("TextContent", "ImageContent", "AudioContent", "EmbeddedResource", "EmbeddedResource", "ResourceLink")
        ]

    talk(Peer(tools_call={"content": content}), work)


def test_structured_content_is_checked() -> None:
    """Requirement 46."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    results = {
        "good": text(structuredContent={"a": 1}),
        "only": {"content": [], "structuredContent": {"a": 2}},
        "wrong": text(structuredContent={"a": "one"}),
        "none": text(),
        "failed": text(isError=True),
    }
    tools = [{"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema} for name in results]

    async def work(connection: Connection) -> None:
        await connection.tools()
        assert (await connection.call("good", {}, nothing)).structured_content == {"a": 1}
        assert (await connection.call("only", {}, nothing)).structured_content == {"a": 2}
        assert (await connection.call("failed", {}, nothing)).is_error
        for name in ("wrong", "none"):
            with pytest.raises(ServerFault, match="structured content"):
                await connection.call(name, {}, nothing)

    talk(Peer(tools_list={"tools": tools}, tools_call=lambda params: results[params["name"]]), work)


# Progress, cancellation and input.


def test_progress_belongs_to_the_call_with_its_token() -> None:
    """Requirement 50."""

    async def call(params: Any) -> Any:
        token = params["_meta"]["progressToken"]
        for wrong in (token + 1000, str(token) + "x", None, [], {}):
            peer.send("notifications/progress", {"progressToken": wrong, "progress": 9})
        peer.send("notifications/progress", {"progressToken": token, "progress": 0.5, "total": 1, "message": "half"})
        peer.send("notifications/progress", {"progressToken": token, "progress": "all"})
        return text()

    async def work(connection: Connection) -> None:
        lines: list[str] = []
        await connection.call("echo", {}, lines.append)
        await connection.call("echo", {}, nothing)
        assert lines == ["half (0.5/1)\n"]

    peer = Peer(tools_call=call)
    talk(peer, work)
    tokens = [message["params"]["_meta"]["progressToken"] for message in peer.requests("tools/call")]
    assert len(set(tokens)) == 2


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_cancelled_request_is_named(version: str) -> None:
    """Requirements 19 and 51: a time limit cancels in the same way."""
    called = asyncio.Event()

    async def call(params: Any) -> Any:
        called.set()
        return await asyncio.Event().wait()

    async def work(connection: Connection) -> None:
        waiting = asyncio.create_task(connection.call("echo", {}, nothing))
        await called.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        [request] = peer.requests("tools/call")
        peer.send_raw({"jsonrpc": "2.0", "id": request["id"], "result": text("too late")})
        assert await connection.tools() == []
        [cancelled] = peer.requests("notifications/cancelled")
        assert cancelled["params"]["requestId"] == request["id"]

    peer = Peer(version, tools_call=call)
    talk(peer, work)


def test_a_handshake_is_never_cancelled() -> None:
    """Requirement 51."""
    codec = ClientCodec(frames.Implementation(name="a"), frames.ClientCapabilities())
    assert codec.cancel(codec.initialize().id) is None
    assert codec.cancel(4711) is None
    other = codec.request("ping", {})
    assert codec.cancel(other.id)
    assert codec.cancel(other.id) is None


def test_a_question_that_the_server_cancels_is_no_longer_asked() -> None:
    """Requirement 52."""
    requested, ended = asyncio.Event(), asyncio.Event()

    class Undecided(Peer):
        async def ask(self, question: Ask) -> Answer:
            requested.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    async def work(connection: Connection) -> None:
        peer.send("elicitation/create", {"message": "?", "requestedSchema": FORM}, "q")
        await requested.wait()
        peer.send("notifications/cancelled", {"requestId": "q"})
        await ended.wait()
        await connection.ping()
        assert [message for message in peer.received if message.get("id") == "q"] == []

    peer = Undecided()
    talk(peer, work)


def test_a_result_that_requires_input_is_followed_by_the_request_with_the_answers() -> None:
    """Requirement 53."""
    state = '{"opaque": "ä\\n"}'
    inputs = {
        "who": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}},
        "where": {"method": "roots/list"},
    }

    def call(params: Any) -> Any:
        match params:
            case {"inputResponses": answers, "requestState": given}:
                assert given == state
                return text(
                    f"{answers['who']['content']['name']} {len(answers['where']['roots'])}", resultType="complete"
                )
            case {"requestState": "again"}:
                assert "inputResponses" not in params
                return {"resultType": "input_required", "inputRequests": inputs, "requestState": state}
            case _:
                assert "requestState" not in params
                return {"resultType": "input_required", "requestState": "again"}

    peer = Peer("2026-07-28", tools_call=call)
    peer.context._answers.append(Answer("", "allow", {"name": "Ada"}))

    async def work(connection: Connection) -> None:
        assert shown(await connection.call("echo", {"a": 1}, nothing)) == "Ada 1"

    talk(peer, work)
    calls = peer.requests("tools/call")
    assert len({call["id"] for call in calls}) == 3
    assert [call["params"]["arguments"] for call in calls] == [{"a": 1}] * 3


@pytest.mark.parametrize(
    "result",
    [
        {"resultType": "input_required", "inputRequests": {"a": {"method": "server/explode"}}},
        {"resultType": "input_required", "inputRequests": {"a": 5}},
        {"resultType": "input_required", "inputRequests": {str(n): {"method": "roots/list"} for n in range(500)}},
        {"resultType": "hologram", "content": []},
        {"resultType": 5, "content": []},
    ],
)
def test_a_result_of_an_unknown_type_is_invalid(result: Any) -> None:
    """Requirement 54."""

    async def work(connection: Connection) -> None:
        with pytest.raises(ServerFault):
            await connection.call("echo", {}, nothing)

    talk(Peer("2026-07-28", tools_call=result), work)


def test_a_server_is_listened_to_again_when_its_stream_ends() -> None:
    """Requirements 25 and 55."""
    listens: list[Any] = []
    again = asyncio.Event()

    async def listen(params: Any) -> Any:
        listens.append(params["notifications"])
        if len(listens) > 1:
            again.set()
            await asyncio.Event().wait()
        peer.send("notifications/tools/list_changed", {"_meta": {"io.modelcontextprotocol/subscriptionId": 1}})
        return {"resultType": "complete", "_meta": {}}

    async def work(connection: Connection) -> None:
        await again.wait()

    peer = Peer("2026-07-28", subscriptions_listen=listen)
    talk(peer, work)
    assert listens == [{"toolsListChanged": True}] * 2
    assert peer.changed == ["tools"]


# What the client offers.


def test_the_root_is_the_workspace(tmp_path: Path) -> None:
    """Requirement 56."""

    async def work(connection: Connection) -> None:
        peer.send("roots/list", None, "r")
        assert (await peer.answer_to("r"))["result"]["roots"][0]["uri"] == (tmp_path / "a b").as_uri()

    peer = Peer()
    talk(peer, work, str(tmp_path / "a b"))


@pytest.mark.parametrize(
    ("params", "answer", "result"),
    [
        ({"requestedSchema": FORM}, Answer("", "allow", {"name": "Ada", "x": 1}), {"name": "Ada"}),
        ({"mode": "form", "requestedSchema": FORM}, Answer("", "allow", "Ada"), {"name": "Ada"}),
        ({"requestedSchema": FORM}, Answer("", "deny"), "decline"),
        ({"requestedSchema": FORM}, Answer("", "cancelled"), "cancel"),
        ({"requestedSchema": FORM}, Answer("", "allow", {}), "decline"),
        ({"mode": "url", "url": "https://a.example/b?c", "elicitationId": "e"}, Answer("", "allow"), None),
        ({"mode": "url", "url": "https://a.example/b?c", "elicitationId": "e"}, Answer("", "deny"), "decline"),
    ],
)
def test_a_person_is_asked(params: Any, answer: Answer, result: Any) -> None:
    """Requirements 57, 58 and 59."""

    async def work(connection: Connection) -> None:
        peer.context._answers.append(answer)
        peer.send("elicitation/create", {"message": "Who?", **params}, "q")
        received = (await peer.answer_to("q"))["result"]
        expected = {"action": result} if isinstance(result, str) else {"action": "accept"}
        assert received == (expected | {"content": result} if isinstance(result, dict) else expected)
        [question] = peer.context.questions
        assert question.title == "peer: Who?"
        if params.get("mode") == "url":
            assert "https://a.example/b?c" in question.reason
            assert question.kind == "url"

    peer = Peer()
    talk(peer, work)


def test_sampling_is_refused_unless_it_is_allowed() -> None:
    """Requirement 60."""

    async def work(connection: Connection) -> None:
        content = {"type": "text", "text": "?"}
        peer.send("sampling/createMessage", {"messages": [{"role": "user", "content": content}], "maxTokens": 9}, "s")
        assert "error" in await peer.answer_to("s")

    peer = Peer()
    talk(peer, work)
    assert "sampling" not in peer.received[0]["params"]["capabilities"]


# Prompts, resources, completion and logging.


def test_prompts_have_arguments_and_roles() -> None:
    """Requirement 61."""
    arguments = [{"name": "file", "required": True}, {"name": "wish", "description": "?"}]
    messages = [
        {"role": "user", "content": {"type": "text", "text": "a"}},
        {"role": "assistant", "content": {"type": "text", "text": "b"}},
    ]
    peer = Peer(
        prompts_list={"prompts": [{"name": "review", "description": "Review.", "arguments": arguments}]},
        prompts_get={"description": "x", "messages": messages},
    )

    async def work(connection: Connection) -> None:
        assert await connection.prompts() == [PromptCommand("review", "Review.", ("file", "wish"))]
        parts = await connection.prompt("review", {"file": "a.py"})
        assert [part.role for part in parts] == ["user", "assistant"]

    talk(peer, work)
    assert peer.requests("prompts/get")[0]["params"] == {"name": "review", "arguments": {"file": "a.py"}}


@pytest.mark.parametrize("code", [-32002, -32602])
def test_resources_are_read(code: int) -> None:
    """Requirement 62."""

    def read(params: Any) -> Any:
        if params["uri"] == "note://gone":
            raise Refuses(code, "not here")
        return {"contents": [{"uri": params["uri"], "text": "one"}, {"uri": "a:b", "blob": "AAAA"}]}

    async def work(connection: Connection) -> None:
        [template] = await connection.resource_templates()
        assert (template.uri_template, template.name) == ("note://{n}", "note")
        first, second = await connection.read_resource("note://1")
        assert (first.text, first.blob, second.text, second.blob) == ("one", None, None, "AAAA")
        with pytest.raises(ServerFault, match="not here"):
            await connection.read_resource("note://gone")

    templates = [{"uriTemplate": "note://{n}", "name": "note"}]
    talk(Peer(resources_read=read, resources_templates_list={"resourceTemplates": templates}), work)


def test_at_most_a_hundred_completions_are_used() -> None:
    """Requirement 63."""
    values = [f"v{number}" for number in range(500)]
    peer = Peer(completion_complete={"completion": {"values": values, "total": 500, "hasMore": True}})

    async def work(connection: Connection) -> None:
        assert await connection.complete({"type": "ref/resource", "uri": "note://{n}"}, "n", "v") == values[:100]

    talk(peer, work)
    params = peer.requests("completion/complete")[0]["params"]
    assert params == {"ref": {"type": "ref/resource", "uri": "note://{n}"}, "argument": {"name": "n", "value": "v"}}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_log_messages_go_to_the_log(version: str, caplog: pytest.LogCaptureFixture) -> None:
    """Requirement 64."""
    caplog.set_level(logging.DEBUG)

    async def work(connection: Connection) -> None:
        await connection.set_log_level("warning")
        peer.send("notifications/message", {"level": "warning", "logger": "db", "data": {"rows": 5}})
        peer.send("notifications/message", {"level": "emergency", "data": "fire"})
        await connection.tools()

    peer = Peer(version, tools_list={"tools": []})
    talk(peer, work)
    if version < "2026":
        assert peer.requests("logging/setLevel")[0]["params"] == {"level": "warning"}
    else:
        assert peer.requests("tools/list")[0]["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "warning"
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("polylect.mcp")]
    assert any("db: " in line and "rows" in line for line in lines)
    assert any("fire" in line for line in lines)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_change_of_a_resource_is_told(version: str) -> None:
    """Requirement 65."""
    listening = asyncio.Event()

    async def listen(params: Any) -> Any:
        if "resourceSubscriptions" in params["notifications"]:
            assert params["notifications"] == {"resourceSubscriptions": ["note://1"]}
            listening.set()
        return await asyncio.Event().wait()

    async def work(connection: Connection) -> None:
        changed: list[str] = []
        result = asyncio.Event()

        def updated(uri: str) -> None:
            changed.append(uri)
            result.set()

        connection.updated = updated
        await connection.subscribe("note://1")
        if version >= "2026":
            await listening.wait()
        peer.send("notifications/resources/updated", {"uri": "note://1"})
        await result.wait()
        assert changed == ["note://1"]

    peer = Peer(version, subscriptions_listen=listen)
    talk(peer, work)
