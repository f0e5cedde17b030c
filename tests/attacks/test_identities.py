"""A tool's rights follow from where it comes from. Names of built-in tools, or of another server, bring none."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Talk, converse
from doubles_extensions import extended
from doubles_mcp import Stage, on_stage, script
from engine_process import Engine, Place
from polylect.engine.settings import Settings
from polylect.engine.subagents.one_agent import OneAgent
from polylect.engine.subagents.personas import Persona
from polylect.engine.subagents.spawn import Spawn
from polylect.engine.tools.exit_plan import ExitPlanMode
from polylect.engine.tools.script import Script
from polylect.mcp.names import long_name, name_fault, name_for
from polylect.permissions.gate import ProposedCall, verdict
from polylect.permissions.rules import parse
from polylect.providers.scripted import Scripted
from polylect.tools.standard import standard_tools
from polylect.vocab.commands import Answer, Command, Hello, HostReply, Prompt
from polylect.vocab.content import Category, Mode, Origin, Rule, ToolCall
from polylect.vocab.events import AgentStarted, Ask, Event, HostCall, Notice, ToolCalled, ToolFinished
from polylect.vocab.modes import MODES
from polylect.vocab.tool_names import BUILTIN, is_reserved
from polylect.vocab.tool_names import STRUCTURED_OUTPUT as STRUCTURED

FOREIGN: list[Origin] = ["mcp", "host", "extension"]
TAKEN = ["Script", "Agent", "Skill", "StructuredOutput", "Bash", "read", "TASK", "KillShell", "mcp__github__get_issue"]
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
    expected = ProposedCall("x", "mcp", {}, long_name=long_name(server, tool), origin="mcp")
    (rule,) = parse(f"mcp__{server}", "deny", "/w", "/h")
    assert verdict(expected, "force", (), [rule]).decision == "deny"


@pytest.mark.parametrize("name", ["git__hub", "git hub", "git.hub", "_git_hub_"])
def test_a_server_that_looks_like_another_is_refused(tmp_path: Path, name: str) -> None:
    assert name_fault(name, ["git_hub", name])
    assert not name_fault("git_hub", ["git_hub", "other"])

    async def work(stage: Stage) -> None:
        stage.servers.add(script("plain", "Works", server="git_hub"))
        stage.servers.add(script("plain", "Works", server=name))
        refused = await stage.received(name)
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


# Other names of built-in tools.


def called(tmp_path: Path, name: str, args: dict[str, Any], **options: Any) -> Talk:
    """A conversation in which the model calls a tool by this name."""
    tools = standard_tools(str(tmp_path)).values()
    call = {"when": {"prompt": "begin", "step": 1}, "say": [{"call": name, "id": "c", "args": args}]}
    model = Scripted.from_values({"reply": [call, {"say": ["ok"]}]})
    return converse(tmp_path, model, [Prompt("t1", "begin")], *tools, mode="force", **options)


KILLS = ["KillBash", "KillShell", "TaskStop", "killbash"]


@pytest.mark.parametrize("rule", KILLS)
@pytest.mark.parametrize("name", KILLS)
def test_a_deny_rule_holds_for_every_name_of_the_tool(tmp_path: Path, name: str, rule: str) -> None:
    talk = called(tmp_path, name, {"shell_id": "bash_1"}, deny=(rule,))
    assert [(event.name, event.outcome) for event in talk.of(ToolFinished)] == [("KillBash", "denied")]


@pytest.mark.parametrize("rule", ["Task", "Agent", "Spawn"])
@pytest.mark.parametrize("one_agent", [True, False])
def test_a_deny_rule_for_agents_holds_for_both_forms_of_the_tool(tmp_path: Path, rule: str, one_agent: bool) -> None:
    talk = called(tmp_path, "Task", {"description": "d", "prompt": "p"}, deny=(rule,), one_agent=one_agent)
    own = "Agent" if one_agent else "Spawn"
    assert [(event.name, event.outcome) for event in talk.of(ToolFinished)] == [(own, "denied")]
    assert talk.of(AgentStarted) == []


@pytest.mark.parametrize("parameter", ["file_path", "path", "notebook_path"])
def test_a_path_is_judged_whatever_the_parameter_is_called(tmp_path: Path, parameter: str) -> None:
    (tmp_path / "secret").write_text("s3cr3t")
    talk = called(tmp_path, "NotebookRead", {parameter: "secret"}, deny=("Read(secret)",))
    assert [(event.name, event.outcome) for event in talk.of(ToolFinished)] == [("Read", "denied")]
    both = called(tmp_path, "Read", {parameter: "secret", "file_path": "secret"}, deny=("Read(secret)",))
    assert [event.outcome for event in both.of(ToolFinished)] == ["denied"]


@pytest.mark.parametrize("args", [{"cmd": "rm x"}, {"command": "rm x", "cmd": "true"}])
def test_a_command_is_judged_whatever_the_parameter_is_called(tmp_path: Path, args: dict[str, Any]) -> None:
    talk = called(tmp_path, "ExecCommand", args, deny=("Bash(rm:*)",))
    assert [(event.name, event.outcome) for event in talk.of(ToolFinished)] == [("Bash", "denied")]


def test_what_a_host_changes_is_judged_under_the_tools_own_parameters(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cr3t")
    (tmp_path / "open").write_text("open")

    def host(event: Event) -> Command | None:
        return Answer(event.ask, "allow", args={"path": "secret"}) if isinstance(event, Ask) else None

    rules = {"deny": ("Read(secret)",), "ask": ("Read(open)",)}
    talk = called(tmp_path, "Read", {"file_path": "open"}, host=host, **rules)
    assert [event.outcome for event in talk.of(ToolFinished)] == ["denied"]


def test_a_hook_for_one_name_of_a_tool_sees_it_under_every_name(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        @polylect.before_tool("TaskStop")
        def no(call):
            return "not this one"
    """
    call = {"call": "KillShell", "args": {"shell_id": "x"}}
    kill = standard_tools(str(tmp_path))["KillBash"]
    talk = extended(tmp_path, code, Scripted.in_order([call, "ok"]), [Prompt("t1", "x")], kill, mode="force")
    assert [(event.name, event.outcome) for event in talk.of(ToolFinished)] == [("KillBash", "denied")]


def test_a_hook_of_the_host_for_one_name_of_a_tool_sees_it_under_every_name(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return HostReply(event.call, {"decision": "block", "reason": "no"}) if isinstance(event, HostCall) else None

    hooks = {"PreToolUse": [{"matcher": "KillShell", "ids": ["h1"]}]}
    call = {"call": "TaskStop", "args": {"task_id": "x"}}
    commands = [Hello(offers={"hooks": hooks}, ref="r"), Prompt("t1", "x")]
    kill = standard_tools(str(tmp_path))["KillBash"]
    talk = converse(tmp_path, Scripted.in_order([call, "ok"]), commands, kill, mode="force", host=host)
    assert [(event.name, event.outcome) for event in talk.of(ToolFinished)] == [("KillBash", "denied")]


@pytest.mark.parametrize("name", ["Task", "task", "Agent"])
def test_a_script_cannot_start_an_agent_under_another_name(tmp_path: Path, name: str) -> None:
    steps = [{"id": "a", "tool": name, "input": {"description": "d", "prompt": "p"}}]
    talk = called(tmp_path, "Script", {"steps": steps}, script_tool=True, one_agent=True)
    [finished] = talk.of(ToolFinished)
    assert (finished.outcome, finished.output) == ("error", f"{name} cannot be a step of a script. Nothing was done.")


def test_flags_take_a_tool_away_or_leave_it_by_any_of_its_names(tmp_path: Path) -> None:
    def offered(*flags: str) -> set[str]:
        with Place(tmp_path) as place:
            script = place.script('[[reply]]\ntext = "ok"\n')
            frames = place.run("-p", "go", "--output-format", "stream-json", "--verbose", *flags, *script).frames
        return set(next(frame["tools"] for frame in frames if frame.get("subtype") == "init"))

    everything = offered()
    assert everything - offered("--disallowedTools", "Agent,TaskStop") == {"Task", "KillBash"}
    assert everything - offered("--disallowedTools", "Task", "KillShell") == {"Task", "KillBash"}
    assert offered("--tools", "Agent,bash") == {"Task", "Bash"}


def test_the_host_and_the_history_see_the_tools_own_names(tmp_path: Path) -> None:
    talk = called(tmp_path, "TaskStop", {"task_id": "bash_7"})
    calls = [(event.name, event.args) for event in talk.of(ToolCalled)]
    assert calls == [("KillBash", {"bash_id": "bash_7"})]
    [stored] = [block for message in talk.messages for block in message.content if isinstance(block, ToolCall)]
    assert (stored.name, stored.args) == ("KillBash", {"bash_id": "bash_7"})
    [finished] = talk.of(ToolFinished)
    assert finished.output == "There is no background command 'bash_7'. Known ones: none."


@pytest.mark.parametrize("one_agent", [True, False])
def test_an_agent_is_started_by_its_older_name(tmp_path: Path, one_agent: bool) -> None:
    args = {"description": "look", "prompt": "p", "subagent_type": "general-purpose", "model": "haiku"}
    talk = called(tmp_path, "Task", args, one_agent=one_agent)
    assert [event.name for event in talk.of(AgentStarted)] == ["look"]
    own = "Agent" if one_agent else "Spawn"
    [output] = [event.output for event in talk.of(ToolFinished) if event.call == "c"]
    assert output.endswith(f"({own} has no parameter model: ignored.)")
    apart = called(tmp_path, "Task", {**args, "isolation": "worktree"}, one_agent=one_agent)
    assert apart.of(AgentStarted) == []


@pytest.fixture(params=["mcp__evil__"])
def evil(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine with the server `evil`, whose tools are called like others, and a user's rules.

    The model calls all of the tools, each by its name after the parameter.
    """
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
            requested = evil.until("tool_request")[-1]
            assert requested["tool"]["description"].startswith("MCP evil/")
            evil.send({"type": "tool_deny", "call_id": requested["call_id"]})
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
