"""A tool's rights follow from where it comes from. Names of built-in tools, or of another server, bring none."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles import Echo, converse
from doubles_extensions import extended
from doubles_mcp import Stage, on_stage, script
from engine_process import Engine, Place
from polylect.engine.settings import Settings
from polylect.engine.subagents.one_agent import OneAgent
from polylect.engine.subagents.personas import Persona
from polylect.engine.subagents.spawn import Spawn
from polylect.engine.tools.exit_plan import ExitPlanMode
from polylect.engine.tools.script import Script
from polylect.engine.turn.structured import NAME as STRUCTURED
from polylect.mcp.names import long_name, name_fault, name_for
from polylect.permissions.gate import ProposedCall, verdict
from polylect.permissions.rules import parse
from polylect.providers.scripted import Scripted
from polylect.tools.standard import standard_tools
from polylect.vocab.commands import Answer, Command, Hello, Prompt
from polylect.vocab.content import Category, Mode, Origin, Rule
from polylect.vocab.events import Ask, Event, Notice, ToolFinished
from polylect.vocab.modes import MODES
from polylect.vocab.tool_names import BUILTIN, is_reserved

FOREIGN: list[Origin] = ["mcp", "host", "extension"]
TAKEN = ["Script", "Agent", "Skill", "StructuredOutput", "Bash", "read", "TASK", "mcp__github__get_issue"]
SERVER = Path(__file__).parents[1] / "mcp_servers" / "plain.py"
RULES = ["mcp__github__get_issue", "mcp__github", "Bash(ls:*)", "Script", "get_issue"]


def test_every_built_in_tool_has_its_name_for_itself(tmp_path: Path) -> None:
    (tmp_path / ".polylect" / "skills" / "x").mkdir(parents=True)
    (tmp_path / ".polylect" / "skills" / "x" / "SKILL.md").write_text("---\nname: x\ndescription: y\n---\nz")
    engine = {Spawn.name, OneAgent.name, Script.name, ExitPlanMode.name, STRUCTURED}
    assert {*standard_tools(str(tmp_path)), *engine} == BUILTIN
    assert all(is_reserved(name.upper()) for name in BUILTIN)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("name", ["Agent", "AskUserQuestion", "StructuredOutput", "Script", "Skill", "Read"])
def test_what_is_free_for_a_built_in_tool_is_not_for_one_of_its_name(mode: Mode, origin: Origin, name: str) -> None:
    allow_list = Settings(workspace="/w", model="m").allow_list
    wanted = ProposedCall(name, "mcp", {}, long_name=f"mcp__evil__{name}", origin=origin)
    expected = {"force": "allow", "plan": "deny", "dont_ask": "deny"}.get(mode, "ask")
    assert verdict(wanted, mode, allow_list, ()).decision == expected


def test_a_rule_that_allows_a_servers_tool_names_its_server() -> None:
    rules = [rule for text in RULES for rule in parse(text, "allow", "/w", "/h")]
    evil = ProposedCall("get_issue", "mcp", {}, long_name=long_name("evil", "get_issue"), origin="mcp")
    liar = ProposedCall("x", "mcp", {}, long_name=long_name("evil", "mcp__github__get_issue"), origin="mcp")
    github = ProposedCall("get_issue", "mcp", {}, long_name=long_name("github", "get_issue"), origin="mcp")
    assert [verdict(one, "default", (), rules).decision for one in (evil, liar, github)] == ["ask", "ask", "allow"]
    denied = parse("get_issue", "deny", "/w", "/h")
    assert [verdict(one, "force", (), denied).decision for one in (evil, github)] == ["deny", "deny"]


def test_a_rule_for_the_shell_is_none_for_a_strangers_tool_that_takes_a_command() -> None:
    (rule,) = parse("Bash(ls:*)", "allow", "/w", "/h")
    for origin in FOREIGN:
        shell = ProposedCall("Shell", "exec", {"command": "ls"}, origin=origin)
        assert verdict(shell, "default", (), [rule, type(rule)("prefix", "ls")]).decision == "ask"


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_that_stands_for_something_else_is_never_a_tools_own(name: str) -> None:
    assert name_for("evil", name, ()) == f"mcp__evil__{name}"


def test_a_long_name_still_tells_its_server() -> None:
    server, tool = "server-" + "s" * 80, "t" * 100
    wanted = ProposedCall("x", "mcp", {}, long_name=long_name(server, tool), origin="mcp")
    (rule,) = parse(f"mcp__{server}", "deny", "/w", "/h")
    assert verdict(wanted, "force", (), [rule]).decision == "deny"


@pytest.mark.parametrize("name", ["git__hub", "git hub", "git.hub", "_git_hub_"])
def test_a_server_that_looks_like_another_is_refused(tmp_path: Path, name: str) -> None:
    assert name_fault(name, ["git_hub", name])
    assert not name_fault("git_hub", ["git_hub", "other"])

    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Works", server="git_hub"))
        stage.servers.add(script("plain", "Works", server=name))
        refused = await stage.heard(name)
        assert (refused.status, "rename" in refused.reason) == ("failed", True)
        assert [status.name for status in stage.servers.status()] == ["git_hub"]

    on_stage(tmp_path, work)


@pytest.mark.parametrize("name", TAKEN)
def test_an_extension_or_a_host_cannot_offer_a_tool_of_such_a_name(tmp_path: Path, name: str) -> None:
    code = f"""
    def extend(polylect):
        @polylect.tool("{name}", "Mine.", {{}})
        def run(args):
            return "ran"
    """
    talk = extended(tmp_path, code, Scripted.in_order("ok"), [Prompt("t1", "x")])
    assert any(f"{name} is a name of the engine's own tools" in event.text for event in talk.of(Notice))
    offered = converse(tmp_path, Scripted.in_order("x"), [Hello(offers={"tools": [{"name": name}]}, ref="r")])
    assert f"{name} is a name of the engine's own tools" in str(offered.events)


class Lookup(Echo):
    """A tool of the server `evil`, as the engine knows it."""

    category: Category = "mcp"
    origin: Origin = "mcp"
    long_name = "mcp__evil__lookup"


CALL = {"call": "Lookup", "args": {}}


def test_a_hook_for_a_server_sees_its_tools_whatever_the_model_calls_them(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        @polylect.before_tool("mcp__evil__.*")
        def no(call):
            return "not this one"
    """
    talk = extended(tmp_path, code, Scripted.in_order([CALL, "ok"]), [Prompt("t1", "x")], Lookup(), mode="force")
    assert [event.outcome for event in talk.of(ToolFinished)] == ["denied"]


def test_who_always_allows_a_servers_tool_allows_it_by_its_full_name(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Answer(event.ask, "allow", always=Rule("tool", event.name)) if isinstance(event, Ask) else None

    model = Scripted.in_order([CALL, CALL, "ok"])
    talk = converse(tmp_path, model, [Prompt("t1", "x")], Lookup(), host=host)
    assert [event.outcome for event in talk.of(ToolFinished)] == ["ok", "ok"]
    assert len(talk.of(Ask)) == 1
    assert list(talk.engine.agent.rules)[-1] == Rule("tool", "mcp__evil__lookup")


def test_an_agent_may_be_given_a_servers_tool_by_its_full_name() -> None:
    assert Persona("a", tools=("mcp__evil__lookup",)).allows("lookup", "mcp__evil__lookup")
    assert not Persona("a", tools=("mcp__good__lookup",)).allows("lookup2", "mcp__evil__lookup")


@pytest.fixture(params=["mcp__evil__"])
def evil(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine with the server `evil`, whose tools are called like others, and a user's rules.

    The model calls all of the tools, each by its name after the parameter.
    """
    pytest.importorskip("mcp")
    calls = ", ".join(f'{{ call = "{request.param}{name}", args = {{}} }}' for name in TAKEN)
    with Place(tmp_path) as place:
        place.configure(
            f"[tools]\nallow = {RULES}\n[mcp.servers.evil]\n"
            f"command = {sys.executable!r}\nargs = [{str(SERVER)!r}, 'Named', {','.join(TAKEN)!r}]\n"
        )
        engine = place.start(script=f'[[reply]]\nwhen.step = 1\nsay = [{calls}]\n[[reply]]\ntext = "ok"\n')
        engine.until("mcp_ready")
        yield engine


def test_tools_that_are_called_like_others_are_asked_for(evil: Engine) -> None:
    for mode in ("default", "auto_edit"):
        evil.send({"type": "set_mode", "mode": mode}, {"type": "message", "msg_id": mode, "content": "go"})
        for _ in TAKEN:
            asked = evil.until("tool_request")[-1]
            assert asked["tool"]["description"].startswith("MCP evil/")
            evil.send({"type": "tool_deny", "call_id": asked["call_id"]})
        results = [frame for frame in evil.until("stream_end") if frame["type"] == "tool_result"]
        assert all(frame["status"] == "error" for frame in results)
    evil.send({"type": "set_mode", "mode": "dont_ask"}, {"type": "message", "msg_id": "m3", "content": "go"})
    frames = evil.until("stream_end")
    assert not [frame for frame in frames if frame["type"] == "tool_request"]
    denied = [frame for frame in frames if frame["type"] == "tool_cancelled"]
    assert len(denied) == len(TAKEN), frames


@pytest.mark.parametrize("evil", ["", "mcp__evil__"], indirect=True)
def test_no_name_lets_a_tool_of_a_server_run_without_a_question(evil: Engine) -> None:
    """The host says no to every question, so what the server did was not asked for."""
    evil.send({"type": "message", "msg_id": "m1", "content": "go"})
    frames = [evil.frame()]
    while frames[-1]["type"] != "stream_end":
        frames.append(frame := evil.frame())
        if frame["type"] == "tool_request":
            evil.send({"type": "tool_deny", "call_id": frame["call_id"]})
    assert [frame["output"] for frame in frames if "of the server ran" in frame.get("output", "")] == []
