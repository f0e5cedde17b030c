"""All hostile MCP servers at once, in a real engine: it answers pings, does turns, and leaves nothing behind.

The servers and what each of them does are in mcp_servers/hostile.py and mcp_servers/hostile_http.py, and what is
reported of each is checked by mcp_servers/test_hostile.py.
"""

import json
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles_tools import processes_with
from engine_process import Engine, Frame, Place, eventually, message
from machine import PATIENCE, slowness
from mcp_servers.test_hostile import (
    COME_UP,
    FAIL_TO_START,
    HTTP_COME_UP,
    HTTP_FAILS,
    HTTP_NEVER_START,
    NEVER_START,
    SSE_FAILS,
    HttpServers,
    hostile,
    over_http,
)
from polylect.vocab.content import Server

pytestmark = pytest.mark.long
__all__ = ["over_http"]

GOOD = """
[[reply]]
when.step = 1
say = [{ call = "good", id = "c1", args = {} }]

[[reply]]
text = "It says {result}."
"""
MOST_MEMORY = 300
"""MiB that an engine may have used at its peak: an answer may have 64 MiB, and several servers try that at once."""


def add(server: Server) -> Frame:
    frame: Frame = {"type": "add_mcp_server", "name": server.name, "headers": dict(server.headers)}
    if server.transport == "stdio":
        return {**frame, "transport": "stdio", "command": server.command, "args": list(server.args)}
    transport = "streamable-http" if server.transport == "http" else "sse"
    return {**frame, "transport": transport, "url": server.url}


def ping_until_reported(engine: Engine, names: set[str]) -> tuple[float, dict[str, Frame]]:
    """Ping until each of these servers was reported. Returns the longest wait for a pong, and the last reports."""
    slowest, reports = 0.0, dict[str, Frame]()
    end = time.monotonic() + PATIENCE
    while not names <= set(reports):
        assert time.monotonic() < end, f"not reported: {names - set(reports)}"
        sent = time.monotonic()
        engine.send({"type": "ping"})
        frames = engine.until("pong")
        slowest = max(slowest, time.monotonic() - sent)
        reports |= {frame["name"]: frame for frame in frames if frame["type"] in ("mcp_ready", "mcp_failed")}
        select.select([], [], [], 0.02)
    return slowest, reports


def batched(frames: list[Frame]) -> Iterator[list[Frame]]:
    yield from (frames[start : start + 8] for start in range(0, len(frames), 8))


def peak_memory(engine: Engine) -> int:
    status = Path(f"/proc/{engine.pid}/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def test_all_hostile_servers_at_once_hold_nobody_up_and_leave_nothing_behind(
    tmp_path: Path, over_http: HttpServers
) -> None:
    marker = f"--{tmp_path.name}-{time.monotonic_ns()}"
    servers = [hostile(way) for way in (*FAIL_TO_START, *NEVER_START, *COME_UP)]
    servers += [over_http.server(way) for way in (*HTTP_FAILS, *HTTP_NEVER_START, *HTTP_COME_UP)]
    servers += [over_http.server(way, "sse") for way in SSE_FAILS]
    with Place(tmp_path) as place:
        place.configure("[mcp]\nwait = 1")
        engine = place.started("--approval-mode", "force", script=GOOD)
        frames = [add(server) for server in servers]
        good = hostile("AnswersTwice")
        plain = str(Path(good.args[0]).with_name("plain.py"))
        frames.append({**add(good), "name": "good", "args": [plain, "Named", "good"]})
        for frame in frames:
            if "args" in frame:
                frame["args"] = [*frame["args"], *[""] * (3 - len(frame["args"])), marker]
        never = {hostile(way).name for way in NEVER_START} | {over_http.server(way).name for way in HTTP_NEVER_START}
        slowest, reports = 0.0, dict[str, Frame]()
        for batch in batched(frames):  # more at once would measure how long 30 programs take to start on two cores
            engine.send(*batch)
            slow, reported = ping_until_reported(engine, {frame["name"] for frame in batch} - never)
            slowest, reports = max(slowest, slow), reports | reported
        assert slowest < 0.25 or slowest < 0.25 * slowness(), f"a ping took {slowest:.2f} s"
        up = {name for name, report in reports.items() if report["type"] == "mcp_ready"}
        expected = {hostile(way).name for way in COME_UP} | {over_http.server(way).name for way in HTTP_COME_UP}
        assert up == {"good", *expected}
        engine.send(message("go"))
        result = "".join(frame["text"] for frame in engine.until("stream_end") if frame["type"] == "text_delta")
        assert result == "It says good of the server ran."
        assert peak_memory(engine) < MOST_MEMORY
        rest, code = engine.finish()
        assert code == 0, json.dumps(rest[-3:])
        eventually(lambda: processes_with(marker) == [])
