"""Whatever a model server does: its turn ends once, as the server's fault, and the engine stays awake and small.

By default some of the behaviours of `hostile_servers.py` are shown; POLYLECT_ATTACK_TRIES=1000 shows all of them.
"""

import time
from pathlib import Path

import pytest

from attacks.hostile_servers import BEHAVIOURS, Server
from attacks.tries import tries
from e2e.service import VENDORS, Service
from engine_process import Engine, Frame, Place, eventually, message
from machine import PATIENCE, slowness
from providers.loopback import reply

TRIES = tries(24)
MUST = (
    *("endless header", "endless headers", "endless headers of other names", "endless announcements"),
    *("endless trailer", "endless chunk extension"),
    *("gzip, bomb of one line", "stream of deep JSON that ends", "400 with deep JSON", "endless data line"),
    *("arguments nested 50 000 times", "status 204"),
)
"""Findings: these are shown in any case."""
SETTINGS = "stream_timeout = 1\n[providers.anthropic]\nmax_retries = 0\n[providers.openai]\nmax_retries = 0\n"
KEYS = {"ANTHROPIC_API_KEY": "sk-ant-hostile", "OPENAI_API_KEY": "sk-hostile"}
MOST_MEMORY = 600 << 20
PING = 0.25
SLACK = 0.75


def chosen(wire: str) -> list[int]:
    names = list(BEHAVIOURS[wire])
    share = TRIES * len(names) // sum(map(len, BEHAVIOURS.values()))
    number = min(max(1, share), len(names))
    every = {at * len(names) // number for at in range(number)}
    slow = {at for at, name in enumerate(names) if "drip" in name or "silence" in name or "never" in name}
    every = every if TRIES > 100 else every - slow
    return sorted(every | {names.index(name) for name in MUST if name in names})


def started(place: Place, wire: str, url: str, settings: str = SETTINGS) -> Engine:
    place.configure(settings + ('api = "responses"\n' if wire == "responses" else ""))
    provider = "anthropic" if wire == "anthropic" else "openai"
    result = ("--provider", provider, "--base-url", url, "--model", "m", "--no-session")
    return place.started(*result, env=KEYS)


def turn(engine: Engine, prompt: str, id: str) -> list[Frame]:
    """Everything that is said to the prompt; meanwhile it is asked again and again whether it is there."""
    engine.send(message(prompt, id))
    frames: list[Frame] = []
    requested = 0.0
    latest = time.monotonic() + PATIENCE
    while not frames or frames[-1]["type"] != "stream_end" or requested:
        assert time.monotonic() < latest, frames[-5:]
        if not engine.says_something(0.05):
            if not requested:
                engine.send({"type": "ping"})
                requested = time.monotonic()
            continue
        frame = engine.frame()
        if frame["type"] == "pong":
            took, requested = time.monotonic() - requested, 0.0
            assert took < PING + SLACK or took < (PING + SLACK) * slowness(), f"deaf for {took:.1f} s"
        elif frame["type"] != "text_delta":
            frames.append(frame)
    return frames


@pytest.mark.parametrize("wire", BEHAVIOURS)
def test_every_turn_ends_once_by_the_fault_of_the_server_and_the_engine_hears(tmp_path: Path, wire: str) -> None:
    names = list(BEHAVIOURS[wire])
    with Place(tmp_path) as place, Server() as server:
        engine = started(place, wire, server.url)
        for number in chosen(wire):
            frames = turn(engine, f"behave:{number}.", f"m{number}")
            ends = [frame for frame in frames if frame["type"] == "stream_end"]
            faults = {frame["error"]["code"] for frame in frames if frame["type"] == "error"}
            assert len(ends) == 1, names[number]
            assert faults <= {"provider_error"}, (names[number], frames)
            assert all(len(frame["error"]["message"]) < 3000 for frame in frames if frame["type"] == "error")
            assert engine.peak < MOST_MEMORY, f"{names[number]}: {engine.peak >> 20} MiB"
            if engine.resident > MOST_MEMORY // 5:  # a long reply is told again with every request
                assert engine.finish()[1] == 0
                engine = started(place, wire, server.url)
        assert "stream_end" in [frame["type"] for frame in turn(engine, "Hello", "last")]
        assert engine.finish()[1] == 0


def test_headers_without_end_fill_no_memory(tmp_path: Path) -> None:
    """Here no time-out of the user's ends the wait for a reply."""
    number = list(BEHAVIOURS["anthropic"]).index("endless headers of other names")
    with Place(tmp_path) as place, Server() as server:
        engine = started(place, "anthropic", server.url, "")
        engine.send(message(f"behave:{number}."))
        frames: list[Frame] = []

        def ended() -> bool:
            assert engine.peak < 100 << 20, f"{engine.peak >> 20} MiB"
            frames.extend([engine.frame()] if engine.says_something(0.05) else [])
            return frames[-1:] != [] and frames[-1]["type"] == "stream_end"

        eventually(ended)
    assert [frame["error"]["code"] for frame in frames if frame["type"] == "error"] == ["provider_error"]


@pytest.mark.parametrize("after", ["inf", "1e400", "99999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_wait_without_end_is_capped_told_and_stopped(tmp_path: Path, after: str) -> None:
    vendor = VENDORS["anthropic"]
    with Place(tmp_path) as place, Service() as service:
        service.give(reply(b"{}", status=429, kind="application/json", retry_after=after))
        engine = vendor.engine(place, service.url)
        engine.send(message("hi"))
        waits = engine.until("info")[-1]["message"]
        assert "60" in waits, "however long it is asked to wait, it does not wait longer"
        engine.send({"type": "stop"})
        assert engine.until("stream_end")[-1]["finish_reason"] == "stop"
        assert engine.finish()[1] == 0
