"""A server inside the host: everything that it can do arrives by way of host calls."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from doubles_mcp import CallContext, Stage, on_stage
from machine import within
from mcp_servers.doubles_host import Inside, Shop
from polylect.vocab.content import Server
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import ServerChanged

SHOP = Server("shop", "host")


class Host:
    """Its end of the calls, once the server is up."""

    def __init__(self) -> None:
        self.inside: Inside | None = None
        self.waiting, self.cancelled, self.reported = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def call(self, name: str, message: Any) -> Any:
        if self.inside is None or name != "shop":
            raise PolylectError(f"no server {name}")
        if message.get("params", {}).get("name") == "wait":
            self.waiting.set()
        if message["method"] == "notifications/cancelled":
            self.reported.set()
        try:
            return await self.inside.send(message)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def with_shop(folder: Path, work: Any, host: Host | None = None) -> None:
    host = host or Host()

    async def all_of_it(stage: Stage) -> None:
        host.inside = Inside(Shop())
        host.inside.unasked = lambda message: stage.servers.receive("shop", message)
        stage.servers.add(SHOP)
        assert (await stage.received("shop")).status == "ready"
        await work(stage, host)

    on_stage(folder, all_of_it, host=host.call)


def test_its_tools_carry_the_servers_name_and_can_be_called(tmp_path: Path) -> None:
    async def work(stage: Stage, host: Host) -> None:
        assert stage.about("shop") == [
            ServerChanged("shop", "ready", ("mcp__shop__add", "mcp__shop__count", "mcp__shop__grow", "mcp__shop__wait"))
        ]
        assert (await stage.call("mcp__shop__add", {"a": 2, "b": 3})).output == "5"
        assert host.inside
        assert [message["method"] for message in host.inside.received[:3]] == [
            "initialize",
            "notifications/initialized",
            "tools/list",
        ]

    with_shop(tmp_path, work)


def test_what_it_says_unasked_is_heard(tmp_path: Path) -> None:
    async def work(stage: Stage, host: Host) -> None:
        context = CallContext(tmp_path)
        assert (await stage.call("mcp__shop__count", {}, context)).output == "done"
        assert context.shown == ["half (1/2)\n"]
        await stage.call("mcp__shop__grow")
        assert "mcp__shop__leaf" in (await stage.received("shop", 2)).tools
        assert not stage.servers.receive("other", {})
        assert stage.servers.receive("shop", {"no": "message"})

    with_shop(tmp_path, work)


def test_a_cancelled_call_no_longer_waits_for_the_host(tmp_path: Path) -> None:
    async def work(stage: Stage, host: Host) -> None:
        call = asyncio.create_task(stage.call("mcp__shop__wait"))
        await host.waiting.wait()
        call.cancel()
        await host.cancelled.wait()
        await host.reported.wait()

    with_shop(tmp_path, work)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (True, "no server elsewhere"),
        (False, "this engine cannot reach servers inside its host"),
    ],
)
def test_a_server_that_the_host_does_not_have_fails_with_the_reason(tmp_path: Path, known: bool, reason: str) -> None:
    async def work(stage: Stage) -> None:
        stage.servers.add(Server("elsewhere", "host"))
        assert await stage.received("elsewhere") == ServerChanged("elsewhere", "failed", reason=reason)

    on_stage(tmp_path, work, **({"host": Host().call} if known else {}))


NONSENSE = {
    "a number": lambda id: 5,
    "an empty object": lambda id: {},
    "another id": lambda id: {"jsonrpc": "2.0", "id": 77, "result": {"content": []}},
    "no id": lambda id: {"jsonrpc": "2.0", "result": {"content": []}},
    "an error without words": lambda id: {"jsonrpc": "2.0", "id": id, "error": {"code": 1}},
    "a question": lambda id: {"jsonrpc": "2.0", "id": id, "method": "ping"},
}


class Garbled(Host):
    """Answers one method with nonsense."""

    def __init__(self, method: str, what: str) -> None:
        super().__init__()
        self._method, self._answer = method, NONSENSE[what]

    async def call(self, name: str, message: Any) -> Any:
        if message["method"] == self._method:
            return {"mcp_response": self._answer(message["id"])}
        return await super().call(name, message)


@pytest.mark.parametrize("what", NONSENSE)
def test_an_answer_that_makes_no_sense_is_an_error_at_once(tmp_path: Path, what: str) -> None:
    async def work(stage: Stage, host: Host) -> None:
        with within(5):
            returned = await stage.call("mcp__shop__add", {"a": 2, "b": 3})
        assert not returned.ok
        assert "the host's answer is no" in returned.output

    with_shop(tmp_path, work, Garbled("tools/call", what))


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
def test_a_server_whose_greeting_makes_no_sense_has_failed_at_once(tmp_path: Path, method: str) -> None:
    host = Garbled(method, "a number")

    async def work(stage: Stage) -> None:
        host.inside = Inside(Shop())
        stage.servers.add(SHOP)
        with within(5):
            changed = await stage.received("shop")
        assert (changed.status, "the host's answer is no" in changed.reason) == ("failed", True)

    on_stage(tmp_path, work, host=host.call)
