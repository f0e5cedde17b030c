"""What a person gets wrong about models, and what must never get out of the engine, through the real process."""

import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.vendors import RENDER
from e2e.vendors import sse as stream
from engine_process import PATIENCE, Engine, Frame, Place, eventually, message
from polylect.vocab.content import ToolCall
from providers.loopback import CUT, Loopback, Step, reply
from providers.wires import WIRES, Wire

TABLES = "\n".join(f"[providers.{name}]\nmax_retries = 0" for name in ("anthropic", "bedrock", "vertex", "openai"))
HTML = reply(b"<!doctype html><html><h1>It works!</h1></html>", kind="text/html")
KEY = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "bedrock": "AWS_ACCESS_KEY_ID",
    "vertex": "GOOGLE_APPLICATION_CREDENTIALS",
}


@contextmanager
def serving(*answers: list[Step]) -> Iterator[Loopback]:
    """A model server in a thread of its own."""
    server, started, loop = Loopback(list(answers)), threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with server:
            started.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(PATIENCE)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE)
        loop.close()


def refused(status: int, text: str) -> list[Step]:
    return reply(json.dumps({"error": {"message": text}}).encode(), status=status, kind="application/json")


def ask(engine: Engine, id: str) -> list[Frame]:
    engine.send(message("Hello", id))
    return engine.until("stream_end")


def said(frames: list[Frame]) -> str:
    return "".join(frame["text"] for frame in frames if frame["type"] == "text_delta")


def fault(frames: list[Frame]) -> str:
    (text,) = (frame["error"]["message"] for frame in frames if frame["type"] == "error")
    assert "\n" not in text
    return str(text)


# Bad input.


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_each_mistake_names_the_setting_and_the_conversation_goes_on(place: Place, wire: Wire) -> None:
    mistakes: dict[str, list[Step]] = {
        KEY[wire.provider]: refused(401, "invalid key"),
        "--model 'a.model-v1:0'": refused(404, "no such model"),
        "the server answered HTML, not a model's reply: check --base-url": HTML,
        "does not speak HTTP": [b"SSH-2.0-OpenSSH_9.6\r\n"],
        "closed the connection": [*wire.answer()[:1], CUT],
    }
    api = 'api = "responses"' if wire.extra else ""
    place.configure(f"{TABLES}\n{api}")
    with serving(*(answer for mistake in mistakes.values() for answer in (mistake, wire.answer()))) as server:
        flags = ("--provider", wire.provider, "--base-url", server.url, "--model", "a.model-v1:0")
        engine = place.started(*flags, env=wire.env)
        for result in mistakes:
            assert result in fault(ask(engine, "bad"))
            assert said(ask(engine, "good")) == "Hello"


@pytest.mark.parametrize(
    "base", ["localhost:80", "ftp://example.com", "http://", "http://a b", "http://localhost:http"]
)
def test_an_address_that_is_none_is_told_before_ready(place: Place, base: str) -> None:
    done = place.run("--json-stream", "--provider", "openai", "--base-url", base, "--model", "m")
    assert (done.code, done.out, done.errors.count("\n")) == (1, b"", 1)
    assert "--base-url" in done.errors


def test_where_nobody_listens_the_address_is_named_and_how_to_change_it(place: Place) -> None:
    place.configure(TABLES)
    with socket.socket() as taken:  # that does not listen, and keeps others from it
        taken.bind(("127.0.0.1", 0))
        place_of_none = f"127.0.0.1:{taken.getsockname()[1]}"
        engine = place.started("--provider", "openai", "--base-url", f"http://{place_of_none}", "--model", "m")
        text = fault(ask(engine, "m1"))
    assert f"cannot connect to {place_of_none} (Connection refused)" in text
    assert "--base-url" in text


def test_no_model_and_no_key_are_told_in_one_line_each(place: Place) -> None:
    done = place.run("--json-stream", "--provider", "anthropic", "--model", "m")
    assert (done.code, done.out) == (1, b"")
    assert "ANTHROPIC_API_KEY" in done.errors
    done = place.run("--json-stream", "--provider", "bedrock", env={"AWS_BEARER_TOKEN_BEDROCK": "k"})
    assert (done.code, done.out) == (78, b"")
    assert "--model" in done.errors


# The chain.


def test_another_model_answers_where_the_first_keeps_failing(place: Place) -> None:
    with serving(refused(503, "busy")) as first, serving(WIRES["chat"].answer()) as second:
        place.configure(
            f"[providers.anthropic]\nmax_retries = 0\n[providers.openai]\nbase_url = {second.url!r}\n"
            '[provider_chain]\nenabled = true\nfailure_threshold = 1\nfallbacks = ["openai:second"]\n'
        )
        flags = ("--provider", "anthropic", "--model", "first", "--base-url", first.url, "--api-key", "mine")
        engine = place.started(*flags)
        opened, skipped = ask(engine, "m1"), ask(engine, "m2")
        assert (said(opened), said(skipped), len(first.requests)) == ("Hello", "Hello", 1)
        assert "authorization" not in second.requests[0].headers, "a key is for the service it was given for"
    circuits = [frame for frame in (*opened, *skipped) if frame["type"] == "provider_circuit_event"]
    for frame in circuits:
        del frame["type"]
        frame.pop("msg_id", None)
    engaged = {"primary": "anthropic:first", "state": "open", "fallback": "openai:second"}
    assert circuits == [
        {"primary": "anthropic:first", "state": "open", "error": "anthropic: the service is overloaded (503): busy"},
        engaged,
        {**engaged, "error": "anthropic:first keeps failing and is skipped for now"},
        engaged,
    ]


@pytest.mark.parametrize(
    ("chain", "told"),
    [
        ("", "fallbacks"),
        ('fallbacks = ["openai"]', "openai:gpt-5"),
        ('fallbacks = ["nobody:m"]', "providers are"),
        ('fallbacks = ["openai:m"]', "OPENAI_API_KEY"),
        ("fallbacks = [1]", "list of texts"),
    ],
)
def test_a_chain_that_cannot_work_is_told_before_ready(place: Place, chain: str, told: str) -> None:
    place.configure(f"[provider_chain]\nenabled = true\n{chain}")
    done = place.run("--json-stream")
    assert (done.code, done.out, done.errors.count("\n")) == (1, b"", 1)
    assert told in done.errors


# Secrets.

PREFIX = "sk-ant-kept-"
LOOK = f"env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -a {PREFIX}; true"
"""A child that looks for keys wherever it may: its own environment, and what /proc shows of everybody."""


def keys() -> dict[str, str]:
    names = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
    return {name: PREFIX + os.urandom(12).hex() for name in [*names, "VERTEX_ACCESS_TOKEN"]}


def answers(wire: Wire, echoed: str) -> list[list[Step]]:
    """A call that looks for keys, an end, and a refusal that repeats the key it was sent, in two ways."""
    render = {"anthropic": "anthropic", "bedrock": "anthropic", "vertex": "anthropic"}.get(wire.provider)
    render = render or ("responses" if wire.extra else "chat")
    payloads = RENDER[render]([ToolCall("c1", "Bash", {"command": LOOK})], 1000, 5)
    if wire.provider == "bedrock":
        call = reply(*(wire.frame(json.dumps(payload)) for payload in payloads), kind=wire.kind)
    else:
        call = reply(*stream(payloads, last="[DONE]" if render == "chat" else ""))
    broken = reply(json.dumps({"error": {"message": f"not with {echoed}"}}).encode(), kind="application/json")
    return [call, wire.answer(), refused(403, f"bad key {echoed}"), refused(400, f"bad key {echoed}"), broken]


@pytest.mark.parametrize("flag", [False, True], ids=["from the environment", "from a flag"])
@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_p5_keys_reach_the_service_and_nobody_else(place: Place, wire: Wire, flag: bool) -> None:
    env = keys() | ({"COPY": PREFIX + os.urandom(12).hex()} if flag else {})
    used = env["COPY"] if flag else env[{**KEY, "vertex": "VERTEX_ACCESS_TOKEN"}[wire.provider]]
    echoed = used if flag or wire.provider != "bedrock" else env["AWS_SECRET_ACCESS_KEY"]
    place.configure(TABLES + ('\napi = "responses"' if wire.extra else ""))
    flags = ["--provider", wire.provider, "--model", "m", "--force", "--log-level", "debug"]
    with serving(*answers(wire, echoed)) as server:
        engine = place.started(
            *flags,
            "--base-url",
            server.url,
            *(["--api-key", used] if flag else []),
            env={**env, "VERTEX_PROJECT_ID": "p1"},
        )
        frames = [ask(engine, f"m{number}") for number in range(4)]
        rest, code = engine.finish()
        assert code == 0
        assert any(used in value for value in server.requests[0].headers.values()), "the service was asked with it"
        bodies = b"".join(request.body for request in server.requests).decode()
    assert "PATH=" in bodies
    assert "[secret]" in fault(frames[-1])
    stored = [path for path in place.folder.rglob("*") if path.is_file() and "state" in path.parts]
    assert stored
    result = json.dumps([frames, rest]) + engine.errors + bodies + "".join(path.read_text() for path in stored)
    assert not [name for name, value in env.items() if value in result]


def test_a_short_key_is_not_taken_out_of_other_words(place: Place) -> None:
    with serving(refused(404, "check the mock")) as server:
        flags = ("--provider", "openai", "--base-url", server.url, "--model", "m", "--api-key", "k")
        assert "check the mock" in fault(ask(place.started(*flags), "m1"))


AS_OTHERS = """
import ctypes, os, sys
for capability in (19, 21, 38):
    ctypes.CDLL(None).prctl(24, capability)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Starts a program that, even as root, has no right to look into others (CAP_SYS_PTRACE, _SYS_ADMIN, _PERFMON)."""


def test_p5_commands_cannot_read_the_memory_of_the_engine(place: Place) -> None:
    """Not even where there is no sandbox, in which they would not so much as see it."""
    place.configure('[sandbox]\nmode = "off"')
    look = "e=$PPID; for i in 1 2; do e=$(awk '/^PPid/ {print $2}' /proc/$e/status); done; "
    look += "tr '\\0' ' ' </proc/$e/cmdline; head -c 1 /proc/$e/maps; head -c 1 /proc/$e/environ; true"
    script = f'[[reply]]\nwhen.step = 1\nsay = [{{ call = "Bash", args.command = {json.dumps(look)} }}]\n'
    argv = [sys.executable, "-c", AS_OTHERS, *place.argv("--force", script=script + '[[reply]]\ntext = "Done."')]
    engine = Engine(argv, place.workspace, place.env)
    try:
        (result,) = (frame for frame in ask(engine, "m1") if frame["type"] == "tool_result")
    finally:
        engine.end()
    assert "--json-stream" in result["output"], "this is the engine"
    assert result["output"].count("Permission denied") == 2


# Speed.


def test_the_first_request_loads_nothing_that_could_be_loaded_before(place: Place) -> None:
    """What it needs was prepared while the host was thinking."""
    with serving(WIRES["anthropic"].answer()) as server:
        flags = ("--provider", "anthropic", "--model", "m", "--base-url", server.url, "--api-key", "k")
        python, *rest = place.argv(*flags)
        engine = Engine([python, "-X", "importtime", *rest], place.workspace, place.env)
        try:
            assert engine.frame()["type"] == "ready"
            eventually(lambda: "httptools" in engine.errors)
            engine.wait_until_stuck()
            before = len(engine.errors)
            assert said(ask(engine, "m1")) == "Hello"
            late = [line.rpartition("|")[2].strip() for line in engine.errors[before:].splitlines()]
        finally:
            engine.end()
    assert not [name for name in late if name.startswith(("polylect", "httptools", "_ssl", "ssl", "asyncio"))]
