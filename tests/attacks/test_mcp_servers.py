"""MCP servers that start slowly, never, or die: the first prompt has their tools or says what it goes on without.

Once the first prompt did not wait for servers, so `polylect run` had none of their tools,
and a server that was not up when the input ended was never reported.
"""

import asyncio
import gzip
import json
import multiprocessing
import os
import runpy
import select
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from attacks.tries import tries
from engine_process import Engine, Frame, Place, message
from machine import PATIENCE, slowness, within
from polylect.host import Notice, Server, ServerChanged, ServerFailed, allow_all, connect

pytestmark = pytest.mark.long

PLAIN = Path(__file__).parents[1] / "mcp_servers" / "plain.py"
ECHO = """
[[reply]]
when.step = 1
say = [{ call = "echo", id = "c1", args = { word = "hello" } }]

[[reply]]
text = "It says {result}."
"""


def test_the_SDK_comes_with_logins_only_and_the_old_extra_can_still_be_named() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert not [name for name in project["dependencies"] if name.startswith("mcp")]
    extras = project["optional-dependencies"]
    assert [name.partition(">")[0] for name in extras["oauth"]] == ["mcp"]
    assert extras["mcp"] == []


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def configure(place: Place, *servers: str, wait: float | None = None) -> None:
    """Each server is the name of a way of plain.py, and its argument after a colon."""
    rows = [] if wait is None else [f"[mcp]\nwait = {wait}"]
    for server in servers:
        way, _, argument = server.partition(":")
        rows.append(f"[mcp.servers.{way}]\ncommand = '{sys.executable}'\nargs = ['{PLAIN}', '{way}', '{argument}']")
    place.configure("\n".join(rows))


def text_of(frames: list[Frame]) -> str:
    return "".join(frame["text"] for frame in frames if frame["type"] == "text_delta")


def server_reports(frames: list[Frame]) -> dict[str, str]:
    return {frame["name"]: frame["type"] for frame in frames if frame["type"] in ("mcp_ready", "mcp_failed")}


def test_a_prompt_waits_for_a_slow_server_and_the_host_is_heard_meanwhile(place: Place) -> None:
    gate = place.folder / "gate"
    os.mkfifo(gate)
    configure(place, f"WaitsToStart:{gate}")
    engine = place.started("--approval-mode", "force", script=ECHO)
    engine.send(message("go"))
    said = engine.until("info")
    assert [frame["type"] for frame in said] == ["stream_start", "info"]
    assert said[-1]["message"] == "Waiting for MCP server WaitsToStart (1 s)."
    with within(1.0):
        engine.send({"type": "ping"})
        engine.until("pong")
    with within(2):
        engine.send({"type": "stop"})
        assert text_of(engine.until("stream_end")) == ""
    engine.send(message("again", "m2"))
    engine.until("stream_start")
    writer = os.open(gate, os.O_WRONLY)  # returns when the server has opened the other end, and lets it start
    try:
        frames = engine.until("stream_end")
    finally:
        os.close(writer)
    assert server_reports(frames) == {"WaitsToStart": "mcp_ready"}
    assert text_of(frames) == 'It says {"word": "hello"}.'


def test_a_server_that_never_starts_delays_one_prompt_and_is_reported_by_its_name(place: Place) -> None:
    configure(place, "Silent", wait=0.2)
    engine = place.started(script='[[reply]]\ntext = "hello"\n')
    engine.send(message("go"))
    frames = engine.until("stream_end")
    assert [frame["message"] for frame in frames if frame["type"] == "info"] == [
        "Going on without MCP server Silent: not up after 0.2 s. The tools can be used once it is up."
    ]
    assert text_of(frames) == "hello"
    engine.send(message("again", "m2"))
    assert "info" not in [frame["type"] for frame in engine.until("stream_end")]
    rest, code = engine.finish()
    assert (server_reports(rest), code) == ({"Silent": "mcp_failed"}, 0)


def test_every_server_is_reported_by_its_name_when_the_input_ends_at_once(place: Place) -> None:
    configure(place, "Works", "Dies", "Banner")
    ways = {"Works": "mcp_ready", "Dies": "mcp_failed", "Banner": "mcp_ready"}
    engine = place.start("--approval-mode", "force", script=ECHO)
    engine.send(message("go"))
    frames, code = engine.finish()
    assert (server_reports(frames), code) == (ways, 0)
    assert text_of(frames) == 'It says {"word": "hello"}.'


def test_a_server_is_reported_when_the_input_ends_without_a_prompt(place: Place) -> None:
    configure(place, "Silent")
    frames, code = place.start().finish()
    assert ([frame["type"] for frame in frames], code) == (["ready", "mcp_failed"], 0)
    assert frames[-1]["reason"] == "the engine ended before this server was up"


def test_a_run_has_the_tools_of_its_servers(place: Place) -> None:
    configure(place, "Works")
    outcome = place.run("run", "go", "--yes", *place.script(ECHO))
    assert (outcome.code, outcome.out.decode()) == (0, 'It says {"word": "hello"}.\n'), outcome.errors


def test_a_server_that_dies_later_is_started_again_once_and_then_reported(place: Place) -> None:
    crashes = place.folder / "crashes"
    crashes.write_text("xx")
    configure(place, f"Crashes:{crashes}")
    engine = place.started("--approval-mode", "force", script=ECHO)
    engine.send(message("go"), message("go on", "m2"))
    frames = [*engine.until("stream_end"), *engine.until("stream_end")]
    if "mcp_failed" not in [frame["type"] for frame in frames]:
        frames += engine.until("mcp_failed")
    assert text_of(frames).count("the server ended the connection") == 2
    [failed] = [frame for frame in frames if frame["type"] == "mcp_failed"]
    assert "out of memory" in failed["reason"]


ENGINES = {"polylect": "echo", "polylect-claude": "mcp__plain__echo"}


def test_a_server_of_connect_that_fails_is_an_event_and_raises_nothing(place: Place) -> None:
    env = {**place.env, "POLYLECT_PROVIDER": "scripted"}

    async def talk() -> None:
        async with connect("polylect", cwd=str(place.workspace), env=env, servers=[plain("Dies")]) as agent:
            async for event in agent.events():
                if isinstance(event, ServerChanged):
                    assert (event.name, event.status) == ("plain", "failed")
                    assert "no database" in event.reason
                    return

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))


@pytest.mark.parametrize("engine", ENGINES)
def test_add_server_returns_when_the_server_is_up_and_raises_when_it_failed(place: Place, engine: str) -> None:
    path = place.folder / "script.toml"
    path.write_text(ECHO.replace('"echo"', f'"{ENGINES[engine]}"'))
    env = {**place.env, "POLYLECT_PROVIDER": "scripted", "POLYLECT_SCRIPT": str(path)}

    async def talk() -> None:
        async with connect(engine, cwd=str(place.workspace), env=env, approve=allow_all) as agent:
            with pytest.raises(ServerFailed, match="no database"):
                await agent.add_server(plain("Dies"))
            with pytest.raises(ServerFailed, match="it was not up within"):
                await agent.add_server(plain("Silent"), within=0.1)
            await agent.add_server(plain("Works"))
            assert (await agent.ask("go")).text == 'It says {"word": "hello"}.'

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_prompt_does_not_wait_for_a_server_that_add_server_gave_up(place: Place, engine: str) -> None:
    path = place.folder / "script.toml"
    path.write_text('[[reply]]\ntext = "hi"\n')
    place.configure(f"[mcp]\nwait = {4 * PATIENCE}\n")
    env = {**place.env, "POLYLECT_SCRIPT": str(path)}

    async def talk() -> None:
        async with connect(engine, cwd=str(place.workspace), env=env, approve=allow_all) as agent:
            with pytest.raises(ServerFailed, match="it was not up within"):
                await agent.add_server(plain("Silent"), within=0.1)
            events = [event async for event in agent.prompt("go")]
            assert not [event for event in events if isinstance(event, Notice) and "Silent" in event.text]

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_host_that_adds_a_server_and_does_not_wait_has_its_tools_in_the_first_turn(place: Place, engine: str) -> None:
    path = place.folder / "script.toml"
    path.write_text(ECHO.replace('"echo"', f'"{ENGINES[engine]}"'))
    env = {**place.env, "POLYLECT_PROVIDER": "scripted", "POLYLECT_SCRIPT": str(path)}

    async def talk() -> None:
        servers = [plain("Works")]
        async with connect(engine, cwd=str(place.workspace), env=env, approve=allow_all, servers=servers) as agent:
            assert (await agent.ask("go")).text == 'It says {"word": "hello"}.'

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))


# The folder that a server runs in: python and npx load code from it.

TRAP = """
import sys
try:
    import trap
except ImportError:
    pass
else:
    open(sys.argv.pop(), "w").close()
import runpy
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def careless(mark: Path, cwd: str = "") -> Server:
    """One that imports a module which the workspace has, and makes the file `mark` where it could."""
    extras = {"cwd": cwd} if cwd else {}
    args = ("-c", TRAP, str(PLAIN), "Works", str(mark))
    return Server(mark.name, command=sys.executable, args=args, extras=extras)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_of_a_host_imports_nothing_from_the_workspace_unless_the_host_names_it(
    place: Place, engine: str
) -> None:
    (place.workspace / "trap.py").touch()
    folders = {"no folder": "", "by name": "workspace", "by a dot": "."}

    async def talk() -> None:
        async with connect(engine, cwd=str(place.workspace), env=place.env) as agent:
            for name, cwd in folders.items():
                await agent.add_server(careless(place.folder / name, cwd))

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))
    assert [name for name in folders if (place.folder / name).is_file()] == ["by name", "by a dot"]


@pytest.mark.parametrize(("flags", "runs"), [((), False), (("--trust-workspace",), True)])
def test_a_server_of_mcp_config_imports_from_the_workspace_only_if_that_is_trusted(
    place: Place, flags: tuple[str, ...], runs: bool
) -> None:
    (place.workspace / "trap.py").touch()
    server = careless(place.folder / "sprung")
    config = {"mcpServers": {"plain": {"command": server.command, "args": list(server.args)}}}
    done = place.run("-p", "hi", "--output-format", "json", "--mcp-config", json.dumps(config), *flags)
    assert done.code == 0, done.errors
    assert (place.folder / "sprung").exists() is runs


def plain(way: str) -> Server:
    return Server("plain", command=sys.executable, args=(str(PLAIN), way))


def slowest_ping(engine: Engine) -> tuple[float, list[Frame]]:
    """The longest time a host waits for a pong until the turn has ended, and all frames until then."""
    frames: list[Frame] = []
    slowest = 0.0
    while "stream_end" not in [frame["type"] for frame in frames[-3:]]:
        sent = time.monotonic()
        engine.send({"type": "ping"})
        frames += engine.until("pong")
        slowest = max(slowest, time.monotonic() - sent)
        select.select([], [], [], 0.02)  # a host that pings without a pause would take the engine's time
    return slowest, frames


def test_50_000_tools_of_one_server_do_not_make_the_engine_deaf(place: Place) -> None:
    configure(place, "Many:50000")
    script = ECHO.replace('"echo"', '"last"')
    engine = place.started("--approval-mode", "force", script=script)
    engine.send(message("go"))
    slowest, frames = slowest_ping(engine)
    # 250 ms are promised on a quiet machine; while other tests run beside it, the engine waits for its turn as well.
    assert slowest < 1.0 or slowest < 0.25 * slowness(), f"a ping took {slowest:.2f} s"
    assert [len(frame["tools"]) for frame in frames if frame["type"] == "mcp_ready"] == [50_000]
    assert text_of(frames) == "It says last."


@pytest.mark.parametrize(("tool", "words"), [("parts", "499000 of the 500000 parts"), ("keys", '"key499999"')])
def test_a_result_with_500_000_parts_or_keys_does_not_make_the_engine_deaf(place: Place, tool: str, words: str) -> None:
    configure(place, "Large:500000")
    engine = place.started("--approval-mode", "force", script=ECHO.replace('"echo"', f'"{tool}"'))
    engine.send(message("go"))
    slowest, frames = slowest_ping(engine)
    assert slowest < 0.5 or slowest < 0.5 * slowness(), f"a ping took {slowest:.2f} s"
    assert words in text_of(frames)


def quick(slowest: float) -> bool:
    """250 ms are promised on a quiet machine; while other tests run beside it, the engine waits for its turn too."""
    return slowest < 0.5 or slowest < 0.5 * slowness()


def test_ten_large_pictures_in_one_result_do_not_make_the_engine_deaf(place: Place) -> None:
    configure(place, "Pictures:10")
    engine = place.started("--approval-mode", "force", script=ECHO)
    engine.send(message("go"))
    slowest, frames = slowest_ping(engine)
    assert quick(slowest), f"a ping took {slowest:.2f} s"
    assert text_of(frames).count("[image: image/png, 4500000 bytes, left out: too many images in one answer]") == 8


def test_500_000_prompts_and_resources_do_not_make_the_engine_deaf_and_it_is_said_how_many_are_used(
    place: Place,
) -> None:
    configure(place, "Lists:500000")
    engine = place.started()
    frames: list[Frame] = []
    slowest = 0.0
    end = time.monotonic() + PATIENCE
    while len(notices := [frame for frame in frames if "than are read" in str(frame)]) < 2 and time.monotonic() < end:
        sent = time.monotonic()
        engine.send({"type": "ping"})
        frames += engine.until("pong")
        slowest = max(slowest, time.monotonic() - sent)
        select.select([], [], [], 0.02)
    assert quick(slowest), f"a ping took {slowest:.2f} s"
    for kind, notice in zip(("prompts", "resources"), sorted(map(str, notices)), strict=True):
        assert f"The MCP server Lists has more {kind} than are read at once; 1000 of them can be used" in notice


@pytest.mark.parametrize("way", ["Backtracks", "Shouts:500000"])
def test_patterns_and_notifications_of_a_server_do_not_make_the_engine_deaf(place: Place, way: str) -> None:
    configure(place, way)
    script = ECHO.replace('"hello"', f'"{"a" * 40}!"')
    engine = place.started("--approval-mode", "force", script=script)
    engine.send(message("go"))
    slowest, frames = slowest_ping(engine)
    assert quick(slowest), f"a ping took {slowest:.2f} s"
    assert text_of(frames) == ("It says back." if way == "Backtracks" else f'It says {{"word": "{"a" * 40}!"}}.')


# The same over HTTP.


class HttpServer:
    """A way of plain.py behind HTTP: answers as JSON, as events, without end, or compressed."""

    def __init__(self, way: str, form: str) -> None:
        name, _, argument = way.partition(":")
        module = runpy.run_path(str(PLAIN))
        answers: list[dict[str, Any]] = []
        working = module["WAYS"][name](argument)
        working.send = lambda message: answers.append({"jsonrpc": "2.0", **message})

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *words: object) -> None:
                pass

            def do_GET(self) -> None:
                self.send_error(405)

            do_DELETE = do_GET

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answers.clear()
                working.take(request)
                self.send_response(200 if answers else 202)
                if not answers:
                    self.send_header("content-length", "0")
                    return self.end_headers()
                body = json.dumps(answers[-1]).encode()
                events = form == "events"
                self.send_header("content-type", "text/event-stream" if events else "application/json")
                if form == "compressed" and request["method"] == "tools/call":
                    self.send_header("content-encoding", "gzip")
                    body = gzip.compress(body)
                self.end_headers()
                self.close_connection = True
                with suppress(OSError):
                    self.wfile.write(b"event: message\ndata: " + body + b"\n\n" if events else body)
                    while form == "endless" and request["method"] == "tools/call":
                        self.wfile.write(b" " * 1_000_000)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/mcp"

    def __enter__(self) -> "HttpServer":
        self._process = multiprocessing.get_context("fork").Process(target=self._server.serve_forever, daemon=True)
        self._process.start()  # in this process it would delay the pings that are timed here
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.join()
        self._server.server_close()


HTTP = {
    "json, parts": ("Large:500000", "json", "parts", "499000 of the 500000 parts"),
    "events, parts": ("Large:500000", "events", "parts", "499000 of the 500000 parts"),
    "json, keys": ("Large:500000", "json", "keys", '"key499999"'),
    "json, tools": ("Many:50000", "json", "last", "It says last."),
    "events, tools": ("Many:50000", "events", "last", "It says last."),
    "json, lists": ("Lists:500000", "json", "echo", "{}"),
    "endless": ("Works", "endless", "echo", "longer than 67108864 bytes"),
    "compressed": ("Large:500000", "compressed", "parts", "MCP server"),
}


OFTEN = ("json, parts", "events, tools", "endless")
HTTP_NOW = HTTP if tries(0) else {name: HTTP[name] for name in OFTEN}  # each takes seconds; `make attack` has them all


@pytest.mark.parametrize(("way", "form", "tool", "words"), HTTP_NOW.values(), ids=HTTP_NOW.keys())
def test_large_answers_over_http_do_not_make_the_engine_deaf(
    place: Place, way: str, form: str, tool: str, words: str
) -> None:
    with HttpServer(way, form) as server:
        place.configure(f'[mcp.servers.web]\nurl = "{server.url}"\n')
        script = ECHO.replace('"echo"', f'"{tool}"').replace('word = "hello"', "")
        engine = place.started("--approval-mode", "force", script=script)
        engine.send(message("go"))
        slowest, frames = slowest_ping(engine)
    assert quick(slowest), f"a ping took {slowest:.2f} s"
    assert words in text_of(frames)


# On Claude's wire a server's tool has one name in every place.

STREAMS = ("--output-format", "stream-json", "--input-format", "stream-json", "--verbose")
ASKING = ("--permission-prompt-tool", "stdio")
NAME = "mcp__plain__echo"
HOOKS = {"PreToolUse": [{"matcher": "mcp__plain__.*", "hookCallbackIds": ["hook_0"]}]}


def claude(place: Place, *flags: str, servers: tuple[str, ...] = ("plain",)) -> list[Frame]:
    """All that an engine on Claude's wire says to one prompt. Its host allows everything."""
    config = {name: {"command": sys.executable, "args": [str(PLAIN), "Works"]} for name in servers}
    calls = [f'{{ call = "mcp__{name}__echo", args = {{ word = "hello" }} }}' for name in servers]
    path = place.folder / "script.toml"
    path.write_text(f'[[reply]]\nwhen.step = 1\nsay = [{", ".join(calls)}]\n[[reply]]\ntext = "It says {{result}}."\n')
    env = {**place.env, "POLYLECT_PROVIDER": "scripted", "POLYLECT_SCRIPT": str(path)}
    argv = [sys.executable, "-m", "polylect", *STREAMS, "--mcp-config", json.dumps({"mcpServers": config}), *flags]
    engine = Engine(argv, place.workspace, env)
    place.keep(engine)
    hello = {"subtype": "initialize", "hooks": HOOKS}
    engine.send({"type": "control_request", "request_id": "r1", "request": hello})
    engine.send({"type": "user", "message": {"role": "user", "content": "go"}})
    frames: list[Frame] = []
    while not frames or frames[-1]["type"] != "result":
        frames.append(frame := engine.frame())
        if frame["type"] == "control_request":
            answer = {"behavior": "allow", "updatedInput": frame["request"].get("input")}
            response = {"subtype": "success", "request_id": frame["request_id"], "response": answer}
            engine.send({"type": "control_response", "response": response})
    return frames


def requested(frames: list[Frame], subtype: str) -> list[Frame]:
    requests = [frame["request"] for frame in frames if frame["type"] == "control_request"]
    return [request for request in requests if request["subtype"] == subtype]


def tool_results(frames: list[Frame]) -> list[str]:
    blocks = [block for frame in frames if frame["type"] == "user" for block in frame["message"]["content"]]
    contents = [block["content"] for block in blocks if block["type"] == "tool_result"]
    return [content if isinstance(content, str) else content[0]["text"] for content in contents]


def init_of(frames: list[Frame]) -> Frame:
    return next(frame for frame in frames if frame.get("subtype") == "init")


def test_a_servers_tool_has_its_full_name_in_every_place_of_claudes_wire(place: Place) -> None:
    frames = claude(place, *ASKING)
    assert init_of(frames)["mcp_servers"] == [{"name": "plain", "status": "connected"}]
    assert [name for name in init_of(frames)["tools"] if "echo" in name] == [NAME]
    blocks = [block for frame in frames if frame["type"] == "assistant" for block in frame["message"]["content"]]
    assert [block["name"] for block in blocks if block["type"] == "tool_use"] == [NAME]
    assert [request["tool_name"] for request in requested(frames, "can_use_tool")] == [NAME]
    assert [request["input"]["tool_name"] for request in requested(frames, "hook_callback")] == [NAME]
    assert [meta["tool_name"] for frame in frames for meta in frame.get("tool_result_meta", ())] == [NAME]
    assert frames[-1]["result"] == 'It says {"word": "hello"}.'


def test_it_has_that_name_with_print_too(place: Place) -> None:
    config = json.dumps({"mcpServers": {"plain": {"command": sys.executable, "args": [str(PLAIN), "Works"]}}})
    script = place.script(ECHO.replace('"echo"', f'"{NAME}"'))
    flags = ("--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions")
    frames = place.run("-p", "go", *flags, "--mcp-config", config, *script).frames
    assert [name for name in init_of(frames)["tools"] if "echo" in name] == [NAME]
    assert frames[-1]["result"] == 'It says {"word": "hello"}.'


RULES = {"plain": NAME, "second": "mcp__second", "third": "mcp__third__*"}


def test_allowed_and_disallowed_tools_go_by_the_full_name(place: Place) -> None:
    """Each server's tool by another form of rule; nobody speaks of the last one."""
    servers, rules = (*RULES, "other"), ",".join(RULES.values())
    allowed = claude(place, *ASKING, "--allowedTools", rules, servers=servers)
    assert [request["tool_name"] for request in requested(allowed, "can_use_tool")] == ["mcp__other__echo"]
    assert tool_results(allowed) == ['{"word": "hello"}'] * 4
    forbidden = claude(place, "--permission-mode", "bypassPermissions", "--disallowedTools", rules, servers=servers)
    assert [name for name in init_of(forbidden)["tools"] if "echo" in name] == ["mcp__other__echo"]
    results = [result.split(".")[0] for result in tool_results(forbidden)]
    assert sorted(results) == [*(f"Unknown tool: mcp__{name}__echo" for name in RULES), '{"word": "hello"}']
