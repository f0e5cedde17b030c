"""`open_engine`: an engine in this process by the name of its provider, and what it leaves of the process alone."""

import asyncio
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bench import footprint

from doubles_mcp import script
from engine_process import Place
from interop.claude_model import Model, text, use
from machine import PATIENCE
from polylect.embed import open_engine, run_engine
from polylect.host import (
    Ask,
    EngineDied,
    HostError,
    InvalidType,
    Limits,
    LimitWarning,
    NoSuchSession,
    NotConfigured,
    Refused,
    ServerFailed,
    SessionExists,
    SessionInUse,
    ToolFinished,
    TurnFailed,
    allow_all,
)
from polylect.providers.scripted import Scripted
from polylect.sessions import folder
from polylect.vocab.answers import State
from polylect.vocab.commands import Query
from polylect.vocab.content import Server
from providers.loopback import Loopback, reply
from providers.wires import SECRET, WIRES, Wire

WRITES = {"reply": [{"call": "Write", "args": {"file_path": "made.txt", "content": "x"}}, "done"]}
MANY = 100
NEEDS_A_KEY = {"mcp": {"servers": {"docs": {"command": "docs-server", "env": {"KEY": "${SOME_KEY}"}}}}}


def bounded(talk: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            await talk()

    asyncio.run(main())


def claude(model: Model, work: Path, **more: Any) -> dict[str, Any]:
    known = {"provider": "anthropic", "model": "claude-sonnet-4-5", "api_key": "sk-1", "base_url": model.url}
    return {**known, "workspace": work, **more}


# What it does.


def test_it_is_prompted_asked_and_questioned_without_a_child_process(tmp_path: Path) -> None:
    async def talk() -> None:
        async with open_engine(Scripted.in_order(WRITES), workspace=tmp_path) as agent:
            assert agent.can("compact", "query:state", "tools")
            assert agent.pid == os.getpid()
            outcomes = []
            async for event in agent.prompt("go"):
                match event:
                    case Ask():
                        await event.allow()
                    case ToolFinished(outcome=outcome):
                        outcomes.append(outcome)
            assert outcomes == ["ok"]
            assert (tmp_path / "made.txt").read_text() == "x"
            state = await agent.send(Query("state"))
            assert isinstance(state, State)
            assert state.messages == 4

    bounded(talk)


def test_a_provider_by_name_gets_the_key_the_model_and_the_prompt(tmp_path: Path) -> None:
    async def talk() -> None:
        async with Model({"Hello": [[text("Hi.")]]}) as model:
            async with open_engine(**claude(model, tmp_path, system_prompt="You are a cat.", max_turns=3)) as agent:
                result = await agent.ask("Hello")
            assert (result.text, result.cost, agent.session) == ("Hi.", 0.000135, "")
            [requested] = model.asked
            assert requested["model"] == "claude-sonnet-4-5"
            assert "You are a cat." in str(requested["system"])

    bounded(talk)


@pytest.mark.parametrize("wire", WIRES.values(), ids=list(WIRES))
def test_every_provider_is_opened_by_its_name_and_its_settings(tmp_path: Path, wire: Wire) -> None:
    async def talk() -> None:
        async with Loopback([wire.answer()]) as server:
            url = f"{server.url}/v1" if wire.provider == "openai" else server.url
            options: dict[str, Any] = {"model": "a.model-v1:0", "base_url": url, "workspace": tmp_path, **wire.extra}
            match wire.provider:
                case "bedrock":
                    options |= {"region": "eu-west-1", "env": {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s"}}
                case "vertex":
                    options |= {"api_key": SECRET, "region": "us-east5", "project": "p1"}
                case _:
                    options |= {"api_key": SECRET}
            async with open_engine(wire.provider, **options) as agent:
                assert (await agent.ask("Hello")).text == "Hello"
            [request] = server.requests
            assert wire.path in request.line

    bounded(talk)


def test_a_function_of_the_program_is_one_tool(tmp_path: Path) -> None:
    async def talk() -> None:
        async with Model({"Hello": [[use("c1", "stock", article="x")], [text("Hi.")]]}) as model:
            calls: list[str] = []
            options = claude(model, tmp_path, tools=[lookup(calls, 1)], approve=allow_all)
            async with open_engine(**options) as agent:
                await agent.ask("Hello")
            assert calls == ["x 1"]
            assert [tool["name"] for tool in model.asked[0]["tools"] if "stock" in tool["name"]] == ["stock"]

    bounded(talk)


def test_a_session_is_kept_where_it_should_be_and_gone_on_with(tmp_path: Path) -> None:
    sessions = tmp_path / "kept"

    async def talk() -> None:
        async with Model({"Hello": [[text("Hi.")]]}) as model:
            options = claude(model, tmp_path, sessions=sessions)
            async with open_engine(**options, session="one") as agent:
                await agent.ask("Hello 1")
                assert agent.session == "one"
                again = open_engine(**options, resume="one")
                with pytest.raises(SessionInUse, match="Session 'one' is in use"):
                    await again.__aenter__()
            for name in ("one", "latest"):
                async with open_engine(**options, resume=name) as agent:
                    cost = agent.cost
                    await agent.ask("Hello 2")
                    assert (agent.session, agent.cost) == ("one", pytest.approx((cost or 0) + 0.000135))
                    assert cost
            assert [len(request["messages"]) for request in model.asked] == [1, 3, 5]
            assert os.listdir(sessions) == ["one"]
            with pytest.raises(
                SessionExists, match=r"Session ID 'one' already exists. Use resume one to go on with it"
            ):
                await open_engine(**options, session="one").__aenter__()
            with pytest.raises(NoSuchSession, match="Session 'two' not found"):
                await open_engine(**options, resume="two").__aenter__()

    bounded(talk)


def test_who_does_not_wait_for_a_long_session_to_open_leaves_it_unlocked(tmp_path: Path) -> None:
    async def talk() -> None:
        model, options = Scripted.in_order("Hi."), {"workspace": tmp_path, "sessions": tmp_path / "kept"}
        async with open_engine(model, **options, session="long") as agent:
            await agent.ask("x" * (folder.LONG + 1))
        opening = asyncio.ensure_future(open_engine(model, **options, resume="long").__aenter__())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        again = None
        while again is None:  # until the thread that reads has come to its end
            await asyncio.sleep(0)
            with suppress(EngineDied):
                again = await open_engine(model, **options, resume="long").__aenter__()
        assert again.session == "long"
        await again.close()

    bounded(talk)


def test_a_budget_in_dollars_or_as_a_table_holds_over_a_resume(tmp_path: Path) -> None:
    async def talk() -> None:
        async with Model({"Hello": [[text("Hi.")]]}) as model:
            options = claude(model, tmp_path, sessions=tmp_path / "kept")
            async with open_engine(**options, budget=0.0001) as agent:
                await agent.ask("Hello")
            for budget in (0.0001, {"max_cost_usd": 0.0001}, {"max_tokens_out": 1}):
                async with open_engine(**options, resume="latest", budget=budget) as agent:
                    with pytest.raises(TurnFailed) as failed:
                        await agent.ask("Hello again")
                    assert failed.value.result.reason == "limit"
            assert len(model.asked) == 1

    bounded(talk)


def test_a_limit_in_dollars_ends_a_turn_at_the_step_that_passes_it(tmp_path: Path) -> None:
    async def talk() -> None:
        steps = [[use(f"c{number}", "Glob", pattern="*")] for number in range(5)]
        async with Model({"Look": steps}) as model:
            async with open_engine(**claude(model, tmp_path), limits=Limits(cost=0.0002)) as agent:
                with pytest.raises(TurnFailed) as failed:
                    await agent.ask("Look")
            assert failed.value.result.reason == "limit"
            assert len(model.asked) == 2

    bounded(talk)


def test_servers_are_there_for_the_first_prompt_and_one_that_fails_can_be_waited_for(tmp_path: Path) -> None:
    async def talk() -> None:
        model = Scripted.in_order({"reply": [{"call": "echo", "args": {"a": 1}}, "It says {result}."]})
        servers = [script("plain", "Works")]
        async with open_engine(model, workspace=tmp_path, servers=servers, approve=allow_all) as agent:
            with pytest.raises(ServerFailed, match="nowhere"):
                await agent.add_server(Server("bad", command="/nowhere"))
            assert (await agent.ask("go")).text == 'It says {"a": 1}.'
            with pytest.raises(Refused, match="before the first prompt"):
                await agent.add_server(script("plain", "Works", server="late"))

    bounded(talk)


def is_alive(pid: str) -> bool:
    return Path("/proc", pid).exists()


@pytest.mark.parametrize(("options", "count"), [({}, 1), ({"config": {"mcp": {"share_servers": False}}}, 2)])
def test_engines_in_one_folder_share_a_server_unless_that_is_switched_off(
    tmp_path: Path, options: dict[str, Any], count: int
) -> None:
    who = [script("several", server="one")]
    both_answered = asyncio.Barrier(2)

    async def pid() -> str:
        model = Scripted.in_order({"reply": [{"call": "who"}, "{result}"]})
        async with open_engine(model, workspace=tmp_path, servers=who, approve=allow_all, **options) as agent:
            answer = (await agent.ask("go")).text
            await both_answered.wait()
            return answer

    async def talk() -> None:
        pids.update(await asyncio.gather(pid(), pid()))
        assert [is_alive(one) for one in pids] == [False] * count

    pids: set[str] = set()
    bounded(talk)


def test_a_table_is_a_settings_file_without_the_file(tmp_path: Path) -> None:
    server = script("plain", "Works")
    table = {
        "default": {"system_prompt": "You are a cat."},
        "tools": {"deny": ["Write"]},
        "mcp": {"servers": {"plain": {"command": server.command, "args": list(server.args)}}},
    }
    path = tmp_path / "agent.toml"
    path.write_text(
        '[default]\nsystem_prompt = "You are a cat."\n[tools]\ndeny = ["Write"]\n'
        f'[mcp.servers.plain]\ncommand = "{server.command}"\nargs = ["{server.args[0]}", "Works"]\n'
    )

    async def talk() -> None:
        replies = {"Hello": [[use("c1", "Write", file_path="x", content="x")], [use("c2", "echo", a=1)], [text("ok")]]}
        async with Model(replies) as model:
            for config in (table, path):
                async with open_engine(**claude(model, tmp_path, config=config, approve=allow_all)) as agent:
                    turn = agent.prompt("Hello")
                    outcomes = [event.outcome async for event in turn if isinstance(event, ToolFinished)]
                    assert (outcomes, turn.result.text) == (["denied", "ok"], "ok")
            assert ["You are a cat." in str(request["system"]) for request in model.asked] == [True] * 6

    bounded(talk)


def test_a_hundred_engines_in_one_process_share_nothing_and_are_small(tmp_path: Path) -> None:
    async def talk() -> None:
        async with Model({"number": [[use("c1", "stock", article="x")], [text("ok")]]}) as model:

            async def one(number: int) -> tuple[str, list[str], int]:
                calls: list[str] = []
                work = tmp_path / str(number)
                work.mkdir()
                options = claude(model, work, sessions=work / "kept", tools=[lookup(calls, number)], approve=allow_all)
                async with open_engine(**options) as agent:
                    answer = await agent.ask(f"number {number}")
                    await together.wait()
                    return answer.text, calls, len(await agent.query("messages"))

            together = asyncio.Barrier(MANY)
            outcomes = await asyncio.gather(*map(one, range(MANY)))
            assert outcomes == [("ok", [f"x {number}"], 4) for number in range(MANY)]

    bounded(talk)


def lookup(calls: list[str], number: int) -> Callable[[str], str]:
    def stock(article: str) -> str:
        """How many there are."""
        calls.append(f"{article} {number}")
        return "7"

    return stock


@pytest.mark.skipif(not footprint.KNOWN, reason="no figures for memory here")
def test_one_more_engine_takes_little_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.embedded"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert float(done.stdout) < 100  # KiB; about 45 where nothing else runs


# What it reads, and what it leaves alone.


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A user with settings, an extension and keys in the environment."""
    place = Place(tmp_path)
    place.configure('[default]\nsystem_prompt = "from a file"\nmodel = "claude-haiku-4-5"\n')
    extensions = place.settings.parent / "extensions"
    extensions.mkdir()
    (extensions / "broken.py").write_text("raise RuntimeError('loaded')\n")
    variables = {**place.env, "ANTHROPIC_API_KEY": "sk-of-the-user-1", "OTHER_TOKEN": "t"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("POLYLECT_PROVIDER")
    return place


def test_nothing_of_the_user_is_read_unless_it_is_asked_for(home: Place) -> None:
    async def talk() -> None:
        async with Model({"Hello": [[text("Hi.")]]}) as model:
            async with open_engine(**claude(model, home.workspace)) as agent:
                await agent.ask("Hello")
            with pytest.raises(EngineDied, match="no key: give api_key, or settings=True for ANTHROPIC_API_KEY"):
                open_engine("anthropic")
            with pytest.raises(EngineDied, match=r"no model is configured.*settings=True"):
                open_engine()
            async with open_engine(settings=True, base_url=model.url, sessions=False) as agent:
                await agent.ask("Hello")
            assert [request["model"] for request in model.asked] == ["claude-sonnet-4-5", "claude-haiku-4-5"]
            assert ["from a file" in str(request["system"]) for request in model.asked] == [False, True]

    bounded(talk)
    assert not home.sessions.exists()


def test_with_settings_sessions_are_kept_where_those_say(home: Place) -> None:
    async def talk() -> None:
        async with Model({"Hello": [[text("Hi.")]]}) as model:
            async with open_engine(settings=True, base_url=model.url, workspace=home.workspace) as agent:
                await agent.ask("Hello")
                session = agent.session
            async with open_engine(**claude(model, home.workspace), sessions=True, resume=session) as agent:
                assert (await agent.ask("Hello")).text == "Hi."

    bounded(talk)
    assert len(os.listdir(home.sessions)) == 1


def test_the_process_stays_as_it_is(home: Place) -> None:
    before = dict(os.environ), logging.root.manager.disable, os.getcwd()

    async def talk() -> None:
        model = Scripted.in_order({"reply": [{"call": "Bash", "args": {"command": "env"}}, "{result}"]})
        for settings in (False, True):
            options: dict[str, Any] = {"workspace": home.workspace, "approve": allow_all, "sessions": False}
            async with open_engine(model, **options, settings=settings) as agent:
                variables = (await agent.ask("go")).text
                assert "HOME=" in variables
                assert "sk-of-the-user" not in variables
                assert "OTHER_TOKEN" not in variables

    bounded(talk)
    assert (dict(os.environ), logging.root.manager.disable, os.getcwd()) == before
    assert os.access(f"/proc/{os.getpid()}/environ", os.R_OK)
    assert Path("/proc/self/environ").stat().st_uid == os.getuid()  # root's, had the process been sealed


def test_importing_the_module_imports_no_engine() -> None:
    code = "import sys, polylect.embed; print(sorted(name for name in sys.modules if name.startswith('polylect')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "['polylect', 'polylect.embed']\n"


# What is wrong is said.


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"provider": "antropic"}, "there is no provider 'antropic'; providers are scripted, anthropic"),
        ({"provider": "anthropic"}, "no key: give api_key, or settings=True for ANTHROPIC_API_KEY"),
        ({"provider": "openai", "base_url": "http://localhost:1/v1"}, "no model is named: set model"),
        ({"provider": "anthropic", "api_key": "k", "base_url": "here"}, "base_url 'here' is not an address"),
        ({"provider": "scripted", "workspace": "/nowhere"}, "workspace /nowhere: there is no such folder"),
        ({"provider": "scripted", "add_dir": "/nowhere"}, "add_dir /nowhere: there is no such folder"),
        ({"provider": "scripted", "mode": "wild"}, "approval mode 'wild' does not exist; modes are default"),
        ({"provider": "scripted", "script": "/nowhere"}, "/nowhere"),
        ({"provider": "scripted", "allow": "Bash("}, "a rule in [tools]"),
        ({"provider": "scripted", "extensions": "/nowhere.py"}, "extensions /nowhere.py: there is no such file"),
        ({"provider": "scripted", "config": "/nowhere.toml"}, "config /nowhere.toml: there is no such file"),
        ({"provider": "scripted", "config": {"sandbox": {"mod": "off"}}}, "config: there is no setting sandbox.mod"),
        ({"provider": "scripted", "budget": {"max_cost": 1}}, "did you mean budget.max_cost_usd?"),
        ({"provider": "scripted", "budget": -1}, "budget.max_cost_usd cannot be below zero"),
        ({"provider": "scripted", "resume": "latest"}, "resume needs sessions, and none are kept"),
        ({"provider": "scripted", "session": "s", "sessions": False}, "session needs sessions, and none are kept"),
        (
            {"provider": "anthropic", "settings": True, "env": {}},
            "KEY is not set: set it, run polylect login, or give api_key",
        ),
        ({"provider": "bedrock", "env": {"HOME": "/"}}, "AWS_SECRET_ACCESS_KEY, or have a profile"),
        ({"provider": "bedrock", "env": {"HOME": "/"}}, "(the environment counts only with settings=True, or as env)"),
        ({"provider": "vertex", "api_key": "k", "env": {"HOME": "/"}}, "no Google project: give project"),
        (
            {"provider": "scripted", "config": NEEDS_A_KEY},
            "no SOME_KEY (the environment counts only with settings=True",
        ),
        ({"api_key": "k"}, 'api_key does not say whose key it is: add provider, for one provider="anthropic"'),
    ],
)
def test_what_cannot_start_says_why_in_the_words_of_the_parameters(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(HostError) as refused:
        open_engine(**options)
    assert expected in str(refused.value)
    assert "--" not in str(refused.value)


def test_a_cap_in_dollars_without_a_price_is_refused() -> None:
    model = {"provider": "openai", "model": "my-own", "base_url": "http://localhost:1/v1"}
    for cap in ({"budget": 1}, {"limits": Limits(cost=1)}):
        with pytest.raises(EngineDied, match=r"the price of 'my-own' is not known, so a cap in dollars \("):
            open_engine(**model, **cap)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [open_engine, lambda **options: run_engine(print, **options).__aenter__()])
def test_a_parameter_that_does_not_exist_is_named(call: Callable[..., Any]) -> None:
    async def talk() -> None:
        with pytest.raises(InvalidType, match=r"no parameter 'worksapce'; did you mean workspace\?"):
            await call(provider="scripted", worksapce=".")

    bounded(talk)


@pytest.mark.parametrize(
    "options", [{"max_turns": "3"}, {"api_key": 7}, {"provider": "bedrock", "region": 7}, {"servers": ["x"]}]
)
def test_a_value_of_the_wrong_type_is_named(options: dict[str, Any]) -> None:
    async def talk() -> None:
        with pytest.raises(InvalidType, match=next(reversed(options)).removesuffix("s")):
            await open_engine(**{"provider": "scripted", **options}).__aenter__()

    bounded(talk)


def test_an_extension_that_cannot_be_loaded_ends_the_start_and_frees_the_session(tmp_path: Path) -> None:
    path = tmp_path / "guard.py"
    path.write_text("raise RuntimeError('no')\n")

    async def talk() -> None:
        options: dict[str, Any] = {"workspace": tmp_path, "sessions": tmp_path / "kept", "session": "s"}
        with pytest.raises(EngineDied, match=r"guard.py.*RuntimeError: no"):
            await open_engine("scripted", **options, extensions=path).__aenter__()
        async with open_engine("scripted", **options) as agent:
            assert agent.session == "s"

    bounded(talk)


def test_a_model_that_the_service_does_not_know_fails_the_turn_with_its_words(tmp_path: Path) -> None:
    body = b'{"type":"error","error":{"type":"not_found_error","message":"model: claude-99"}}'

    async def talk() -> None:
        async with Loopback([reply(body, status=404, kind="application/json")]) as server:
            options = {"api_key": "k", "base_url": server.url, "workspace": tmp_path}
            async with open_engine("anthropic", model="claude-99", **options) as agent:
                with pytest.raises(TurnFailed, match="model: claude-99"):
                    await agent.ask("Hello")

    bounded(talk)


def test_limits_may_be_none_and_those_in_dollars_be_accepted_without_a_price(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('[[reply]]\ntext = "Hi."\n')
    options: dict[str, Any] = {"provider": "scripted", "script": str(script), "workspace": tmp_path}

    async def talk() -> None:
        async with open_engine(**options, limits=None) as agent:
            assert (await agent.ask("Hello")).ok
        limits = Limits(cost=1.0)
        with pytest.raises(NotConfigured, match="allow_unpriced"):
            open_engine(**options, limits=limits)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            async with open_engine(**options, limits=limits, allow_unpriced=True) as agent:
                assert (await agent.ask("Hello")).ok
        assert [one.category for one in caught] == [LimitWarning]

    bounded(talk)
