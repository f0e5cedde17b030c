"""A host says hello: what it offers is used, and it is told what there is."""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Talk, converse, run
from polylect.engine.subagents.personas import GENERAL
from polylect.engine.tools.host_tools import returned
from polylect.providers.scripted import Scripted
from polylect.tools.standard import standard_tools
from polylect.vocab.answers import ServerCard
from polylect.vocab.commands import AddServer, Answer, Cancel, ChangeServer, Command, Hello, HostReply, HostSays, Prompt
from polylect.vocab.content import Image, Server
from polylect.vocab.events import (
    Ask,
    Event,
    HostCall,
    HostCallEnded,
    Reply,
    SettingChanged,
    ToolFinished,
    ToolOutput,
    TurnEnded,
)
from polylect.vocab.ports import ToolReturn

PIXEL = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x00\x00\x00\x00IEND"
).decode()
LAMP = {"name": "lamp", "description": "Switches.", "parameters": {"properties": {"on": {"type": "boolean"}}}}


@pytest.fixture(autouse=True)
def nobody_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def settings(talk: Talk) -> dict[str, Any]:
    return {event.key: event.value for event in talk.of(SettingChanged)}


def using(tool: str, **args: Any) -> Scripted:
    call = {"call": tool, "id": "c1", "args": args}
    return Scripted.from_values({"reply": [{"when": {"step": 1}, "say": [call]}, {"say": ["done"]}]})


# What a host is told.


def test_a_host_that_says_hello_is_told_what_there_is(tmp_path: Path) -> None:
    agents = tmp_path / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "reviewer.md").write_text("---\nname: reviewer\n---\nYou review.")
    skill = tmp_path / ".claude" / "skills" / "bake"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: bake\ndescription: Bakes.\n---\nBake.")
    skills = standard_tools(str(tmp_path), {"HOME": str(tmp_path / "home")})["Skill"]
    talk = converse(tmp_path, Scripted.in_order("x"), [Hello(ref="h")], Echo(), skills)
    result = settings(talk)
    assert result.pop("commands")
    assert result == {
        "cwd": str(tmp_path),
        "tools": ["Echo", "Skill", "Spawn"],
        "agents": [GENERAL, "reviewer"],
        "skills": ["bake"],
        "servers": (),
    }
    assert [event.failure for event in talk.of(Reply)] == [None]


def test_a_second_hello_tells_only_what_has_changed(tmp_path: Path) -> None:
    talk = converse(tmp_path, Scripted.in_order("x"), [Hello(), Hello(), Hello(offers={"tools": [LAMP]})])
    keys = [event.key for event in talk.of(SettingChanged)]
    assert keys == ["cwd", "tools", "agents", "skills", "commands", "servers", "tools"]
    assert settings(talk)["tools"] == ["Spawn", "lamp"]


def test_a_host_that_says_nothing_is_told_nothing(tmp_path: Path) -> None:
    assert converse(tmp_path, Scripted.in_order("x"), [Prompt("t1", "Hi")]).of(SettingChanged) == []


# Tools of the host.


def lit(*replies: HostReply) -> Callable[[Event], Command | None]:
    """A host that runs its tool and lets everything run."""
    left = list(replies)

    def host(event: Event) -> Command | None:
        if isinstance(event, Ask):
            return Answer(event.ask, "allow")
        return left.pop(0) if isinstance(event, HostCall) and left else None

    return host


def test_a_tool_of_the_host_is_asked_for_and_run_by_it(tmp_path: Path) -> None:
    done = HostReply("host-2", {"content": [{"type": "text", "text": "lit"}]})
    commands = [Hello(offers={"tools": [LAMP]}), Prompt("t1", "Light!")]
    talk = converse(tmp_path, using("lamp", on=True), commands, host=lit(done))
    [call] = talk.of(HostCall)
    assert (call.method, call.params, call.turn) == ("tool", {"name": "lamp", "args": {"on": True}, "call": "c1"}, "t1")
    assert [(event.outcome, event.output) for event in talk.of(ToolFinished)] == [("ok", "lit")]
    assert len(talk.of(Ask)) == 1


def test_it_is_not_run_with_arguments_that_do_not_fit_its_schema(tmp_path: Path) -> None:
    commands = [Hello(offers={"tools": [LAMP]}), Prompt("t1", "Light!")]
    talk = converse(tmp_path, using("lamp", on="yes"), commands)
    assert [event.output for event in talk.of(ToolFinished)] == ["Wrong parameter: on: expected boolean, got a string"]
    assert talk.of(HostCall) == []
    assert talk.of(Ask) == []


def test_what_it_has_done_so_far_is_shown(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Hello(offers={"tools": [LAMP]}), Prompt("t1", "Light!"))
        call = (await talk.until(HostCall)).call
        for part in ("a", "ab", "c"):
            talk.send(HostReply(call, {"content": [{"type": "text", "text": part}]}, partial=True))
        talk.send(HostReply(call, "abc"), HostReply(call, "late", ref="late"))

    talk = run(conversation, tmp_path, using("lamp"), mode="force")
    assert [event.text for event in talk.of(ToolOutput)] == ["a", "b", "c"]
    assert [event.output for event in talk.of(ToolFinished)] == ["abc"]
    assert [event.failure and event.failure.code for event in talk.of(Reply)] == ["unknown_call"]


def test_a_stopped_call_is_stopped_in_the_host(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Hello(offers={"tools": [LAMP]}), Prompt("t1", "Light!"))
        await talk.until(HostCall)
        talk.send(Cancel())

    talk = run(conversation, tmp_path, using("lamp"), mode="force")
    assert [event.call for event in talk.of(HostCallEnded)] == [event.call for event in talk.of(HostCall)]
    assert [event.reason for event in talk.of(TurnEnded)] == ["cancelled"]


def test_an_error_of_the_hosts_is_told_to_the_model(tmp_path: Path) -> None:
    commands = [Hello(offers={"tools": [LAMP]}), Prompt("t1", "Light!")]
    talk = converse(tmp_path, using("lamp"), commands, host=lit(HostReply("host-1", error="no power")), mode="force")
    assert [(event.outcome, event.output) for event in talk.of(ToolFinished)] == [("error", "no power")]


def tools(*names: str) -> dict[str, Any]:
    return {"tools": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("offers", "why"),
    [
        (tools(""), "'' is no name for a tool"),
        (tools("a\0"), "'a\\x00' is no name for a tool"),
        (tools("a b"), "'a b' is no name for a tool"),
        (tools("a" * 65), "is no name for a tool"),
        (tools("a", "a"), "there are two tools a"),
        ({"uri_schemes": ["x", "a b"]}, "'a b' is no scheme of an address"),
        ({"uri_schemes": [{"scheme": ""}]}, "'' is no scheme of an address"),
        ({"uri_schemes": [None]}, "expected a string or an object"),
        ({"uri_schemes": ["db", {"scheme": "web+x", "writable": True}]}, ""),
    ],
)
def test_L2_what_no_model_or_address_could_be_called_is_refused(
    offers: dict[str, Any], why: str, tmp_path: Path
) -> None:
    [reply] = converse(tmp_path, Scripted.in_order("x"), [Hello(offers=offers, ref="r")]).of(Reply)
    assert (reply.failure is not None) == bool(why)
    assert reply.failure is None or why in reply.failure.message


def test_a_tool_that_is_there_already_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    offers: list[Command] = [
        Hello(offers={"tools": [LAMP, {"name": "Echo"}]}, ref="a"),
        Hello(offers={"tools": "lamp"}, ref="b"),
        Hello(offers={"tools": [LAMP]}, ref="c"),
        Hello(offers={"tools": [LAMP]}, ref="d"),
        Hello(offers={"tools": []}, ref="e"),
    ]
    talk = converse(tmp_path, Scripted.in_order("x"), offers, Echo())
    codes = [event.failure.code if event.failure else "" for event in talk.of(Reply)]
    assert codes == ["bad_offer", "bad_offer", "", "", ""]
    result = [event.value for event in talk.of(SettingChanged) if event.key == "tools"]
    assert result == [["Echo", "Spawn", "lamp"], ["Echo", "Spawn"]]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (None, ToolReturn("")),
        ("text", ToolReturn("text")),
        ({"content": "text", "isError": True}, ToolReturn("text", ok=False)),
        ({"content": [{"type": "text", "text": "a"}, "b", {"type": "audio"}]}, ToolReturn("a\nb\n[audio, not shown]")),
        ({"content": [{"type": "image", "data": "no"}]}, ToolReturn("[image, not shown]")),
        (
            {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/jpeg"}]},
            ToolReturn("", images=(Image("image/png", PIXEL),)),
        ),
        ([1, 2], ToolReturn("[1,2]")),
    ],
)
def test_whatever_a_host_returns_is_understood(found: Any, wanted: ToolReturn) -> None:
    assert returned(found) == wanted


# Servers inside the host.


def test_a_word_that_nobody_listens_to_is_refused(tmp_path: Path) -> None:
    said: list[Command] = [
        HostSays("mcp_message", {"server_name": "shop", "message": {}}, ref="a"),
        HostSays("weather", {}, ref="b"),
    ]
    talk = converse(tmp_path, Scripted.in_order("x"), said)
    assert [event.failure and event.failure.code for event in talk.of(Reply)] == ["mcp", "unsupported"]


class Keeper:
    """A host that answers for the server inside it, and knows no other."""

    def __init__(self) -> None:
        self.inside: Any = None
        self.talk: Talk | None = None
        self._answering: set[asyncio.Task[None]] = set()

    def receive(self, event: Event) -> Command | None:
        if isinstance(event, HostCall) and event.params["server_name"] == "shop":
            self._answering.add(asyncio.create_task(self._answer(event)))
            return None
        return HostReply(event.call, error="no such server") if isinstance(event, HostCall) else None

    async def _answer(self, call: HostCall) -> None:
        assert self.talk
        self.talk.send(HostReply(call.call, await self.inside.send(call.params["message"])))


def reaches_its_host(talk: Talk, folder: Path) -> Any:
    """Servers as the program opens them."""
    from polylect.mcp.servers import Servers
    from polylect.mcp.values import ServerSetup
    from polylect.tools.process.custody import Custody

    agent, custody = talk.engine.agent, Custody()

    def report(event: Event) -> None:
        agent.emit(event)
        agent.callbacks.offer_changed()

    async def to_host(server: str, message: object) -> object:
        return await agent.host_calls.call("mcp_message", {"server_name": server, "message": message}, agent.emit)

    setup = ServerSetup(custody, {}, str(folder), report, host=to_host)
    agent.open_servers = lambda agent: Servers(agent.tools, setup)
    return custody


def test_a_host_with_servers_is_answered_once_their_tools_are_there(tmp_path: Path) -> None:
    from mcp_servers.doubles_host import Inside, Shop

    shop, host = Shop(), Keeper()
    shop.tools = ["add"]

    async def conversation(talk: Talk) -> None:
        host.talk, custody = talk, reaches_its_host(talk, tmp_path)
        host.inside = Inside(shop)
        talk.send(AddServer(Server("shop", "host"), ref="early"))
        assert talk.of(HostCall) == []
        talk.send(Hello(offers={"servers": ["shop", "gone"]}, ref="hello"), Hello(ref="again"))
        await talk.until(Reply, 3)
        assert [(event.ref, event.failure) for event in talk.of(Reply)] == [
            ("early", None),
            ("hello", None),
            ("again", None),
        ]
        assert settings(talk)["tools"] == ["Spawn", "mcp__shop__add"]
        assert settings(talk)["servers"] == (
            ServerCard("shop", "connected", ("mcp__shop__add",), transport="host", version="shop 1"),
            ServerCard("gone", "failed", error="no such server", transport="host"),
        )
        talk.send(Prompt("t1", "add"))
        await talk.engine.settled()
        talk.send(AddServer(Server("late", "host"), ref="late"))
        assert (await talk.until(Reply, 4)).failure is None
        talk.send(Hello(offers={"servers": []}), ChangeServer("shop", "remove"), ChangeServer("late", "remove"))
        assert (settings(talk)["tools"], settings(talk)["servers"]) == (["Spawn"], ())
        await custody.close()

    talk = run(conversation, tmp_path, using("mcp__shop__add", a="2", b="3"), host=host.receive, mode="force")
    assert [event.output for event in talk.of(ToolFinished)] == ["5"]
