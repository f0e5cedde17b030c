"""Hostile servers, many at once: each is reported by its name with a reason, and costs nobody else anything.

Every test here starts all servers of one table together with one that works, and measures how long the event loop is
held up meanwhile. What a server may do to a real engine process, with its pings, is in attacks/test_hostile_mcp.py.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal

import pytest

from doubles_mcp import FOLDER, Stage, on_stage, script
from doubles_tools import processes_with
from engine_process import eventually
from machine import PATIENCE, slowness
from polylect.tools.standard import standard_tools
from polylect.vocab.content import Server

MOST_LAG = 0.25
"""Seconds that the event loop, and so the answer to a ping, may be held up on a quiet machine."""
DIED = "the server ended the connection"
LATE = "no answer within"
SECRET = "hunter2hunter2"


@asynccontextmanager
async def responsive() -> AsyncIterator[None]:
    """Whatever happens inside, the event loop is never held up for long."""
    lags = [0.0]

    async def measure() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            lags.append(time.monotonic() - before - 0.01)

    measuring = asyncio.create_task(measure())
    try:
        yield
    finally:
        measuring.cancel()
    assert max(lags) < MOST_LAG or max(lags) < MOST_LAG * slowness(), f"held up for {max(lags):.2f} s"


async def add_all(stage: Stage, servers: Mapping[str, Server]) -> None:
    """Add one that works, and all of these under their names; return when each was reported."""
    stage.servers.add(script("plain", "Named", "good", server="good"))
    for server in servers.values():
        stage.servers.add(server)
    for name in ("good", *servers):
        await stage.received(name)


def check_failures(stage: Stage, expected: Mapping[str, str]) -> None:
    """Each of these was reported once as failed, with a reason that fits and tells no secret."""
    for name, reason in expected.items():
        (failed,) = stage.about(name)
        assert (failed.status, failed.tools) == ("failed", ()), failed
        assert failed.reason, failed
        assert re.search(reason, failed.reason), failed
        assert len(failed.reason) < 500, failed
        assert SECRET not in failed.reason


async def still_works(stage: Stage) -> None:
    assert (await stage.call("good")).output == "good of the server ran"


def slug(text: str) -> str:
    return re.sub(r"\W", "-", text)


# Over stdio.

INITIALIZED = {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "a", "version": "1"}}
FAIL_TO_START = {
    "AnswersBefore": "protocol",
    "Nested": "protocol|not MCP",
    **{f"DiesAt:{step} initialize": DIED for step in ("before", "within", "after")},
    **{f"DiesAt:{step} tools/list": DIED for step in ("before", "within")},
    "DiesAt:start": DIED,
    "DiesAt:after notifications/initialized": DIED,
    f"Answers:initialize={json.dumps(INITIALIZED)}": "1999-01-01",
    "Answers:initialize=[]": "protocol",
    "Answers:initialize=null": "protocol",
    'Answers:initialize={"capabilities": 5}': "protocol",
    'Answers:tools/list={"tools": 5}': "protocol",
    "Answers:tools/list={}": "protocol",
}
NEVER_START = {"OtherIds": LATE, "LongLine": f"longer than|{LATE}", "Hangs": LATE}
COME_UP = ("AnswersTwice", "SameCursor", "Storms", "Demands", "Novel", "Drips", "Progresses", "Pings")
WRITTEN = {
    **dict.fromkeys(("large_number", "neither", "null"), "protocol"),
    "surrogate": "^a\ufffdb$",
    "batch": "^it works$",
    "half": "protocol",
    "text_error": "^MCP server Written: broken$",
    "odd_error": "^MCP server Written: the server reports error -32603$",
    "not_utf8": "^\ufffd+$",
    "nan": "protocol|null",
    "both": "both|protocol",
    "long_error": "^MCP server Written: long long",
    **dict.fromkeys(("twice", "crlf", "no_version"), "it works|protocol"),
    "zero": "^a\0b$",
}
"""What a call of each tool of the server `Written` gives."""
PICTURES = {
    "words": r"^\[image: image/png, broken\]$",
    "no_data": "protocol|broken",
    "number": "protocol|broken",
    "path": "not shown",
    "link": "file:///etc/passwd",
    "resource": "protocol|a:b",
}


def hostile(way: str) -> Server:
    name, _, argument = way.partition(":")
    return script("hostile", name, argument, server=slug(way), extras={"long_names": True})


@pytest.mark.parametrize(("expected", "seconds"), [(FAIL_TO_START, PATIENCE), (NEVER_START, 1.0)])
def test_L5_each_server_that_fails_at_the_start_is_reported_with_a_reason(
    tmp_path: Path, expected: dict[str, str], seconds: float
) -> None:
    async def work(stage: Stage) -> None:
        async with responsive():
            await add_all(stage, {slug(way): hostile(way) for way in expected})
        check_failures(stage, {slug(way): reason for way, reason in expected.items()})

    on_stage(tmp_path, work, connect_timeout=seconds)


def test_servers_that_come_up_can_do_no_harm_later(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        async with responsive():
            await add_all(stage, {way: hostile(way) for way in COME_UP})
            for way in COME_UP:
                assert stage.about(way)[0].status == "ready", way
                assert stage.about(way)[0].tools == (f"mcp__{way}__echo",)
            calls = [stage.call(f"mcp__{way}__echo", {"a": 1}) for way in COME_UP if way != "Storms"]
            for result in await asyncio.gather(*calls):
                assert result.output in ('{"a": 1}', "all were answered")
            await still_works(stage)

    on_stage(tmp_path, work, connect_timeout=PATIENCE, call_timeout=PATIENCE)


def test_lines_and_content_that_are_wrong_fail_one_call_and_never_the_server(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        async with responsive():
            await add_all(stage, {way: hostile(way) for way in ("Written", "Pictures")})
            names = {f"mcp__Written__{tool}": output for tool, output in WRITTEN.items()}
            names |= {f"mcp__Pictures__{tool}": output for tool, output in PICTURES.items()}
            results = await asyncio.gather(*(stage.call(name) for name in names))
            for (name, output), result in zip(names.items(), results, strict=True):
                assert re.search(output, result.output), (name, result)
                assert result.images == (), name
                assert len(result.output) < 2100, name
            assert (await stage.call("mcp__Written__zero")).ok
        assert {event.status for event in stage.about("Written")} == {"ready"}

    on_stage(tmp_path, work, call_timeout=slowness())


def test_names_that_look_like_other_tools_are_told_apart(tmp_path: Path) -> None:
    ours = dict(standard_tools())
    before = dict(ours)

    async def work(stage: Stage) -> None:
        await add_all(stage, {"Imposter": script("hostile", "Imposter", server="Imposter")})
        names = stage.about("Imposter")[0].tools
        assert len(names) == len(set(names)) > 5
        assert not set(names) & {*before, "mcp__good__echo", "good"}
        for name in names:
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
            assert stage.tools[name].category == "mcp"
        assert {name: stage.tools[name] for name in before} == before

    on_stage(tmp_path, work, tools=ours)


def test_schemas_that_nobody_should_follow_cost_only_their_tool(tmp_path: Path) -> None:
    """Requirement 49."""

    async def work(stage: Stage) -> None:
        async with responsive():
            await add_all(stage, {"Schemas": hostile("Schemas")})
            names = [name.removeprefix("mcp__Schemas__") for name in stage.about("Schemas")[0].tools]
            assert {"itself", "pattern", "remote"} <= set(names)
            arguments = {"a": "a" * 40 + "!"}
            results = await asyncio.gather(*(stage.call(name, arguments) for name in stage.about("Schemas")[0].tools))
            assert {result.output for result in results} == {json.dumps(arguments)}
            await still_works(stage)

    on_stage(tmp_path, work)


@pytest.mark.parametrize("way", ["ClosesStdout", "ClosesStdin"])
def test_P1_a_server_that_closes_a_pipe_and_lives_on_is_ended(tmp_path: Path, way: str) -> None:
    marker = f"{way}-{tmp_path.name}-{time.monotonic_ns()}"

    async def work(stage: Stage) -> None:
        await add_all(stage, {"bad": script("hostile", way, marker, server="bad", extras={"long_names": True})})
        lost = await stage.call("mcp__bad__echo", {"a": "x" * 200_000})
        assert not lost.ok
        assert lost.output.startswith("MCP server bad: ")
        stage.servers.change("bad", "remove")
        await asyncio.to_thread(eventually, lambda: processes_with(marker) == [])
        await still_works(stage)

    on_stage(tmp_path, work, call_timeout=slowness())


# Over HTTP.

CODES = (401, 403, 404, 429, 500)
HTTP_FAILS = {
    **{f"status/{code}/initialize": str(code) for code in CODES},
    **{f"status/{code}/tools/list": str(code) for code in CODES},
    "html": "text/html",
    "no_body": "protocol",
    "accepted": "202",
    "not_json": "protocol",
    "redirects/302": "(?i)redirect",
    "redirects/307": "(?i)redirect",
    "redirects/308": "(?i)redirect",
    "bomb": "longer than",
    "long_headers": "HTTP",
    "many_headers": "HTTP",
    "breaks": "closed the connection",
    "not_http": "HTTP",
    "bad_chunks": "HTTP",
    "endless_event": "longer than",
    "no_answer": "broke off",
}
HTTP_NEVER_START = ("drips", "drips_headers", "hangs")
SSE_FAILS = {"sse_elsewhere": "origin", "sse_nowhere": "reached", "html": "text/html", "status/500/": "500"}
HTTP_COME_UP = (
    *("works", "new_session", "long_session", "odd_session", "wrong_id", "reconnects", "storms"),
    *(f"status/{code}/tools/call" for code in CODES),
)


class HttpServers:
    """The process of hostile_http.py."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout
        self.port = int(process.stdout.readline())
        self._process = process

    def server(self, way: str, transport: Literal["http", "sse"] = "http") -> Server:
        headers = {"Authorization": f"Bearer {SECRET}"}
        url = f"http://127.0.0.1:{self.port}/{way}?key={SECRET}"
        extras = {"long_names": True}
        return Server(slug(f"{transport}/{way}"), transport, url=url, headers=headers, extras=extras)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def requests_elsewhere(self) -> str:
        """End the process. Returns the requests that came to its second port."""
        return self._process.communicate()[0]


@contextmanager
def http_servers(port: int = 0) -> Iterator[HttpServers]:
    argv = (sys.executable, str(FOLDER / "hostile_http.py"), str(port))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield HttpServers(process)
        finally:
            process.kill()


@pytest.fixture
def over_http() -> Iterator[HttpServers]:
    with http_servers() as servers:
        yield servers


@pytest.mark.parametrize(
    ("transport", "expected", "seconds"),
    [
        ("http", HTTP_FAILS, PATIENCE),
        ("http", dict.fromkeys(HTTP_NEVER_START, LATE), 1.0),
        ("sse", SSE_FAILS, PATIENCE),
        ("sse", {"sse_silent": LATE}, 1.0),
    ],
    ids=["http", "http-late", "sse", "sse-late"],
)
def test_L5_each_server_that_fails_over_http_is_reported_with_a_reason(
    tmp_path: Path,
    over_http: HttpServers,
    transport: Literal["http", "sse"],
    expected: dict[str, str],
    seconds: float,
) -> None:
    """Requirement 40."""

    async def work(stage: Stage) -> None:
        servers = {way: over_http.server(way, transport) for way in expected}
        async with responsive():
            await add_all(stage, {server.name: server for server in servers.values()})
        check_failures(stage, {servers[way].name: reason for way, reason in expected.items()})
        assert not [event for event in stage.events if str(over_http.port) in str(event) or "stdout" in str(event)]

    on_stage(tmp_path, work, connect_timeout=seconds)
    assert over_http.requests_elsewhere() == ""


def test_servers_that_come_up_over_http_can_do_no_harm_later(tmp_path: Path, over_http: HttpServers) -> None:
    async def work(stage: Stage) -> None:
        servers = {way: over_http.server(way) for way in HTTP_COME_UP}
        async with responsive():
            await add_all(stage, {server.name: server for server in servers.values()})
            outputs = {}
            for way, server in servers.items():
                assert [event.status for event in stage.about(server.name)] == ["ready"], stage.about(server.name)
                outputs[way] = (await stage.call(f"mcp__{server.name}__echo")).output
            await still_works(stage)
        assert {outputs.pop(way) for way in HTTP_COME_UP[:7] if way != "reconnects"} == {"it works"}
        assert int(outputs.pop("reconnects")) < 20
        for way, output in outputs.items():
            assert output.startswith(f"MCP server {servers[way].name}: "), way
            assert SECRET not in output

    on_stage(tmp_path, work, connect_timeout=PATIENCE, call_timeout=PATIENCE)
