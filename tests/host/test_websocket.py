"""`connect("ws://...")` drives an agent that listens, also over a network that is lost now and then."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine_process import Engine, Place
from machine import PATIENCE
from polylect.dialects.acp.versions import VERSIONS
from polylect.host import Agent, Ask, EngineDied, HostError, TextDelta, connect

TOKEN = "a-token-that-is-long-enough"
SCRIPT = """
[[reply]]
when.prompt = "count"
say = [{ text = "{i} ", repeat = 20000 }]

[[reply]]
when.prompt = "write"
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "a.txt", content = "a" } }]

[[reply]]
text = "You said {prompt}."
"""
NUMBERS = "".join(f"{number} " for number in range(1, 20001))


class Network:
    """Passes bytes to an agent and back, until it is cut; then it is there again for the next connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self.down = False
        self.refused = asyncio.Event()
        """Set when somebody has tried to connect while it was down."""

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        self._server.close()
        self.cut()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            self.refused.set()
            return writer.transport.abort()
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._open |= {writer, back}
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    def cut(self, *, down: bool = False) -> None:
        """The network is lost: nothing more is passed, and neither end is told more than that."""
        self.down = down
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    except ConnectionError:
        pass
    finally:
        target.transport.abort()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def listen(place: Place, *flags: str) -> tuple[Engine, str]:
    """An agent that listens, and its address."""
    argv = [sys.executable, "-m", "polylect", "acp", "--listen", "127.0.0.1:0", *place.script(SCRIPT), *flags]
    engine = Engine(argv, place.folder, {**place.env, "POLYLECT_ACP_TOKEN": TOKEN})
    place.keep(engine)
    return engine, engine.frame()["url"]


def run(do: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(do(), 2 * PATIENCE)

    asyncio.run(main())


def remote(place: Place, url: str, **options: Any) -> Agent:
    return connect(url, cwd=place.workspace, token=TOKEN, **options)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_agent_that_listens_is_driven_as_any_other(place: Place, version: str) -> None:
    _, url = listen(place, "--acp-version", version)

    async def do() -> None:
        async with remote(place, url.removesuffix("/acp"), version=version) as agent:
            assert (await agent.ask("hello")).text == "You said hello."
            session = agent.session
            asks = 0
            async for event in agent.prompt("write"):
                if isinstance(event, Ask):
                    asks += 1
                    await event.allow()
            assert (asks, (place.workspace / "a.txt").read_text()) == (1, "a")
        async with remote(place, url, resume=session, mode="plan", version=version) as agent:
            assert (agent.session, agent.settings["mode"]) == (session, "plan")
            assert (await agent.ask("again")).text == "You said again."

    run(do)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    path = tmp_path_factory.mktemp("tls") / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=polylect", "-days", "2"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "/dev/stdout"]
    path.write_bytes(subprocess.run(words, capture_output=True, check=True).stdout)
    return path


def test_an_agent_behind_tls_is_driven_by_who_trusts_it(
    place: Place, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, url = listen(place, "--tls-cert", str(certificate))
    assert url.startswith("wss://")

    async def do() -> None:
        async with remote(place, url) as agent:
            text = "".join([event.text async for event in agent.prompt("count") if isinstance(event, TextDelta)])
            assert text == NUMBERS
            engine.signal(signal.SIGTERM)
            with pytest.raises(EngineDied, match="1001"):
                await agent.ask("again")

    with pytest.raises(EngineDied, match="certificate verify failed"):
        run(do)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    run(do)
    assert engine.wait() == 128 + signal.SIGTERM


def test_other_machines_need_a_certificate_or_a_flag(place: Place, certificate: Path) -> None:
    cert = ("--tls-cert", str(certificate))
    bad = place.folder / "bad.pem"
    bad.write_text("no certificate")
    for flags, why in (
        ((), "--tls-cert and --tls-key"),
        (("--tls-key", str(certificate)), "--tls-key has no meaning without --tls-cert FILE"),
        (("--tls-cert", "/no/such/file"), "--tls-cert /no/such/file: No such file or directory"),
        (("--tls-cert", str(bad)), f"--tls-cert {bad}: "),
    ):
        assert why in place.run("acp", "--listen", "0.0.0.0:0", *flags).errors
    argv = [sys.executable, "-m", "polylect", "acp", "--listen", "0.0.0.0:0", *place.script(SCRIPT), *cert]
    engine = Engine(argv, place.folder, place.env)
    place.keep(engine)
    assert engine.frame()["url"].startswith("wss://0.0.0.0:")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lost_network_is_not_noticed(place: Place, version: str) -> None:
    """In the middle of an answer, before a prompt, and with a network that is down for a while."""
    _, url = listen(place, "--acp-version", version)

    async def do() -> None:
        port = int(url.rpartition(":")[2].partition("/")[0])
        network = Network(port)
        async with remote(place, f"ws://127.0.0.1:{await network.start()}", version=version) as agent:
            text = ""
            async for event in agent.prompt("count"):
                if isinstance(event, TextDelta):
                    text += event.text
                    if text.endswith((" 5000 ", " 12000 ")):
                        network.cut()
            assert text == NUMBERS
            network.cut(down=True)
            asking = asyncio.create_task(agent.ask("one"))
            await network.refused.wait()
            network.down = False
            assert (await asking).text == "You said one."
            network.cut()
            assert (await agent.ask("two")).text == "You said two."
        network.close()

    run(do)


@pytest.mark.parametrize("flags", [(), ("--resume-seconds", "0")])
def test_an_agent_that_ends_is_gone(place: Place, flags: tuple[str, ...]) -> None:
    engine, url = listen(place, *flags)

    async def do() -> None:
        async with remote(place, url) as agent:
            await agent.ask("hello")
            engine.signal(signal.SIGKILL)
            with pytest.raises(EngineDied, match=r"ws://127\.0\.0\.1"):
                await agent.ask("again")

    run(do)


def test_what_cannot_be_reached_says_why(place: Place) -> None:
    engine, url = listen(place)

    async def start(**options: Any) -> None:
        async with connect(url, cwd=place.workspace, **options):
            raise AssertionError

    for token in ("", "wrong"):
        with pytest.raises(EngineDied, match=r"refuses the connection \(401\): the token is missing or wrong"):
            asyncio.run(start(token=token))
    engine.signal(signal.SIGKILL)
    with pytest.raises(EngineDied, match="cannot be reached"):
        asyncio.run(start(token=TOKEN))


@pytest.mark.parametrize(
    ("engine", "arguments", "why"),
    [
        ("ws://127.0.0.1:1", {"env": {}}, "env, args and spawn have no meaning"),
        ("ws://127.0.0.1:1", {"provider": "scripted"}, "cannot be told provider: it takes"),
        ("ws://127.0.0.1:1", {"dialect": "omp"}, "speaks acp, not omp"),
        ("polylect", {"token": "x"}, "token goes with an address"),
    ],
)
def test_what_makes_no_sense_is_refused(engine: str, arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(HostError, match=why):
        connect(engine, **arguments)
