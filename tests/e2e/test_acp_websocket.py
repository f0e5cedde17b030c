"""`polylect acp --listen`: real clients on real sockets, good ones, bad ones, and ones that vanish.

Ports are chosen by the system. What a test waits for is an answer, the end of a socket, or the end of a process.
"""

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from e2e.acp_client import Client, Object
from engine_process import Engine, Place, Sleepers, eventually
from machine import PATIENCE

TOKEN = "a-token-that-is-long-enough"
YES = '[[reply]]\ntext = "Yes."\n'
WRITES = """
[[reply]]
when.step = 1
say = [{ text = "{i} ", repeat = 500 }, { call = "Write", id = "c1", args = { file_path = "a.txt", content = "a" } }]

[[reply]]
say = [{ text = "{i} ", repeat = 500 }]
"""


class Agent:
    """A listening agent, and its clients."""

    def __init__(self, engine: Engine, sockets: contextlib.ExitStack) -> None:
        self.engine = engine
        self.announced = engine.frame()
        self.url: str = self.announced["url"]
        self._sockets = sockets

    def socket(self, *, token: str = TOKEN, path: str = "", **options: Any) -> ClientConnection:
        """A socket of a client; with a token of "" none is presented."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        opened = connect(self.url + path, additional_headers=headers, max_size=None, compression=None, **options)
        return self._sockets.enter_context(opened)

    def refused(self, **options: Any) -> tuple[int, str]:
        """The status and the text with which a handshake is refused."""
        with pytest.raises(InvalidStatus) as refusal:
            self.socket(**options)
        response = refusal.value.response
        return response.status_code, (response.body or b"").decode()

    def client(self, version: int = 1, **options: Any) -> Client:
        return Client(Wire(self.socket(**options)), version)


class Wire:
    """Messages over a socket. `numbers` are those that the agent has put into its messages."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.numbers: list[int] = []

    def send(self, message: Object) -> None:
        self.socket.send(json.dumps(message))

    def frame(self) -> Object:
        message: Object = json.loads(self.socket.recv(PATIENCE))
        if meta := message.pop("_meta", None):
            self.numbers.append(meta["polylect"]["seq"])
        return message

    def break_off(self) -> None:
        """The network is gone: no close frame, and nothing more is read."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)

    def closed(self) -> int:
        """The code with which the agent closes the socket, after what it still says."""
        with pytest.raises(ConnectionClosed) as end:
            while True:
                self.socket.recv(PATIENCE)
        assert end.value.rcvd
        return end.value.rcvd.code


Listen = Callable[..., Agent]


@pytest.fixture
def listen(place: Place) -> Iterator[Listen]:
    with contextlib.ExitStack() as sockets:

        def listen(script: str = YES, *flags: str, env: dict[str, str] | None = None) -> Agent:
            argv = [sys.executable, "-m", "polylect", "acp", "--listen", "127.0.0.1:0", *place.script(script), *flags]
            engine = Engine(argv, place.folder, {**place.env, "POLYLECT_ACP_TOKEN": TOKEN, **(env or {})})
            place.keep(engine)
            return Agent(engine, sockets)

        yield listen


def emit(client: Client, place: Place, id: object = 1) -> str:
    """Opens a session, and returns what the agent says in it."""
    session = client.open(place.workspace, f"n{id}")
    client.prompt(id, session)
    assert client.answer(id)["result"]["stopReason"] == "end_turn"
    return client.text(session)


# Conversations.


def test_a_plain_client_has_a_turn_and_sees_no_numbers(place: Place, listen: Listen) -> None:
    agent = listen()
    port = agent.announced["port"]
    assert agent.announced == {
        "url": f"ws://127.0.0.1:{port}/acp",
        "host": "127.0.0.1",
        "port": port,
        "path": "/acp",
    }
    assert f"listening for clients of ACP on {agent.url}" in agent.engine.errors
    client = agent.client()
    assert client.agent.socket.response.headers["Acp-Connection-Id"]
    assert "polylect" not in client.initialize()["_meta"]
    assert emit(client, place) == "Yes."
    assert client.agent.numbers == []


def test_clients_do_not_see_each_other(place: Place, listen: Listen) -> None:
    agent = listen(WRITES)
    one, two = agent.client(), agent.client()
    one.initialize()
    two.initialize()
    first, second = one.open(place.workspace), two.open(place.workspace)
    one.prompt(1, first)
    two.prompt(1, second)
    assert one.answer(1)["result"]["stopReason"] == two.answer(1)["result"]["stopReason"] == "end_turn"
    numbers = "".join(f"{number} " for number in range(1, 501)) * 2
    assert (one.text(first), one.text(second)) == (numbers, "")
    assert (two.text(second), two.text(first)) == (numbers, "")
    refusal = two.call(2, "session/load", sessionId=first, cwd=str(place.workspace), mcpServers=[])
    assert "in use" in refusal["error"]["message"]


def test_a_message_may_have_several_lines_and_fragments_and_binary_ones_are_ignored(
    place: Place, listen: Listen
) -> None:
    client = listen().client()
    client.agent.socket.send(b'{"jsonrpc":"2.0","id":9,"method":"nothing"}')
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    client.agent.socket.send(iter(json.dumps(request, indent=2)))
    assert client.agent.frame()["id"] == 0
    assert emit(client, place) == "Yes."


def test_bad_messages_are_answered_and_the_connection_stays(place: Place, listen: Listen) -> None:
    client = listen().client()
    codes = []
    for bad in ("{bad", "[]"):
        client.agent.socket.send(bad)
        codes.append(client.agent.frame()["error"]["code"])
    assert codes == [-32700, -32600]
    client.agent.send({"jsonrpc": "2.0", "id": 7, "result": None})  # nobody has asked
    client.initialize()
    codes = []
    for bad in ("{bad", "[]", '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'):
        client.agent.socket.send(bad)
        codes.append(client.agent.frame()["error"]["code"])
    assert codes == [-32700, -32600, -32600]
    assert emit(client, place) == "Yes."


@pytest.mark.parametrize(
    "first",
    [
        '{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}',
        '{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1}}',
        '{"jsonrpc":"2.0","id":null,"method":"initialize","params":{"protocolVersion":1}}',
    ],
)
def test_the_first_message_has_to_be_initialize_with_an_id(listen: Listen, first: str) -> None:
    wire = Wire(listen().socket())
    wire.socket.send(first)
    assert wire.closed() == 1002


# Who is let in.


def test_a_token_is_needed_in_a_header_a_subprotocol_or_the_address(listen: Listen) -> None:
    agent = listen()
    for wrong in ({"token": ""}, {"token": "wrong"}, {"token": "", "path": "?token=wrong"}):
        assert agent.refused(**wrong) == (401, "the token is missing or wrong\n")
    agent.socket(token="", path=f"?token={TOKEN}")
    opened = agent.socket(token="", subprotocols=["acp", f"polylect.token.{TOKEN}"])
    assert opened.subprotocol == "acp"


def test_a_token_is_made_and_announced_if_none_is_set(listen: Listen) -> None:
    agent = listen(env={"POLYLECT_ACP_TOKEN": ""})
    token = agent.announced["token"]
    assert len(token) >= 32
    assert token in agent.engine.errors
    agent.socket(token=token)
    assert agent.refused(token=TOKEN)[0] == 401


def test_a_token_file_is_made_for_the_owner_alone_and_used_again(place: Place, listen: Listen) -> None:
    file = place.folder / "token"
    agent = listen(YES, "--token-file", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert "token" not in agent.announced
    agent.socket(token=file.read_text().strip())
    listen(YES, "--token-file", str(file)).socket(token=file.read_text().strip())


def test_a_token_that_others_can_read_or_guess_is_refused(place: Place) -> None:
    file = place.folder / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    done = place.run("acp", "--listen", "127.0.0.1:0", "--token-file", str(file))
    assert (done.code, "chmod 600" in done.errors) == (1, True)
    done = place.run("acp", "--listen", "127.0.0.1:0", env={"POLYLECT_ACP_TOKEN": "short"})
    assert (done.code, "16 characters" in done.errors) == (2, True)


def test_the_token_is_not_in_the_environment_of_the_process(listen: Listen) -> None:
    agent = listen()
    agent.socket()
    with contextlib.suppress(PermissionError):
        assert TOKEN.encode() not in Path(f"/proc/{agent.engine.pid}/environ").read_bytes()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_pages_of_other_origins_are_refused(listen: Listen, origin: str) -> None:
    agent = listen(YES, "--allow-origin", "https://editor.example")
    assert agent.refused(origin=origin) == (403, f"pages of ['{origin}'] may not connect; see --allow-origin\n")
    agent.socket(origin="https://editor.example")
    agent.socket(origin=agent.url.replace("ws:", "http:").removesuffix("/acp"))


def test_a_name_that_was_made_to_point_here_is_refused(listen: Listen) -> None:
    """DNS rebinding: for the browser, the page and the agent have the same origin."""
    agent = listen(YES, "--allow-host", "agent.example")

    def status(host: str) -> str:
        key = base64.b64encode(b"0123456789abcdef").decode()
        with socket.create_connection(("127.0.0.1", agent.announced["port"]), PATIENCE) as raw:
            raw.sendall(
                f"GET /acp HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nAuthorization: Bearer {TOKEN}\r\n"
                f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: {key}\r\n"
                "Sec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            return raw.recv(1024).split(b" ")[1].decode()

    hosts = ["evil.example", "evil.example:80", "localhost.evil.example", "[", ""]
    hosts += ["evil@127.0.0.1", "127.0.0.1/evil.example", "127.0.0.1?evil", "127.0.0.1#", "127.0.0.1:evil"]
    assert [status(host) for host in hosts] == ["403"] * 10
    assert [status(host) for host in ("agent.example", "localhost:9", "127.0.0.1", "[::1]:9")] == ["101"] * 4


def test_only_the_endpoint_is_served_and_only_as_websocket(listen: Listen) -> None:
    agent = listen()
    assert agent.refused(path="/other") == (404, "connect to /acp\n")
    assert agent.refused(headers={"Acp-Connection-Id": "unknown"})[0] == 404
    with socket.create_connection(("127.0.0.1", agent.announced["port"]), PATIENCE) as raw:
        raw.sendall(f"GET /acp?token={TOKEN} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert raw.recv(1024).startswith(b"HTTP/1.1 426 ")


def test_other_machines_are_let_in_only_by_a_flag(place: Place) -> None:
    for host in ("0.0.0.0", "[::]", "192.0.2.1", "agent.example"):
        done = place.run("acp", "--listen", f"{host}:0")
        assert (done.code, "--allow-remote" in done.errors) == (1, True)
    assert "HOST:PORT" in place.run("acp", "--listen", "127.0.0.1").errors
    assert "without --listen" in place.run("acp", "--allow-origin", "https://editor.example").errors


def test_garbage_harms_nobody_else(place: Place, listen: Listen) -> None:
    agent = listen()
    client = agent.client()
    client.initialize()
    upgrade = (
        f"GET /acp?token={TOKEN} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
    for bad in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),  # TLS
        b"GET //[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
        b"GET /" + b"a" * 100_000,
        b"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
        upgrade + b"\x81\x05hello",  # not masked
        upgrade + b"\x8f\x80\0\0\0\0",  # no such opcode
        upgrade + b"\x80\x80\0\0\0\0",  # a continuation of nothing
        upgrade + b"\x81\xff" + b"\xff" * 12,  # longer than anything
        upgrade + b"\x89\xfe\xff\xff\0\0\0\0",  # a ping that is too long
    ):
        with socket.create_connection(("127.0.0.1", agent.announced["port"]), PATIENCE) as raw:
            raw.sendall(bad)
            with contextlib.suppress(ConnectionResetError):
                while raw.recv(65536):
                    pass
    assert emit(client, place) == "Yes."
    assert "Traceback" not in agent.engine.errors


# Limits.


def test_a_message_that_is_too_long_ends_its_connection_and_no_other(place: Place, listen: Listen) -> None:
    agent = listen(YES, "--max-line", "100000")
    one, two = agent.client(), agent.client()
    one.initialize()
    two.initialize()
    one.agent.send({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"text": "x" * 100_000}})
    assert one.agent.closed() == 1009
    assert emit(two, place) == "Yes."


def test_there_is_a_limit_of_connections(listen: Listen) -> None:
    agent = listen(YES, "--max-connections", "2")
    one = agent.client()
    one.initialize()
    agent.socket()
    assert agent.refused() == (503, "there are 2 connections; see --max-connections\n")
    one.agent.socket.close()
    eventually(lambda: is_open(agent))


def is_open(agent: Agent, **options: Any) -> bool:
    try:
        agent.socket(**options)
    except InvalidStatus:
        return False
    return True


def test_a_client_that_reads_nothing_stops_its_own_sessions_alone(place: Place, listen: Listen) -> None:
    agent = listen('[[reply]]\nwhen.prompt = "flood"\nsay = [{ text = "{i} ", repeat = 60000 }]\n' + YES)
    slow, quick = agent.client(max_queue=1, ping_interval=None), agent.client()
    slow.initialize()
    quick.initialize()
    session = slow.open(place.workspace)
    slow.prompt(1, session, "flood")
    agent.engine.wait_until_stuck()
    assert emit(quick, place) == "Yes."
    assert not reply_is_stored(place)
    words = []
    while "id" not in (message := slow.agent.frame()):
        update = message["params"]["update"]
        if update["sessionUpdate"] == "agent_message_chunk":
            words.append(int(update["content"]["text"]))
    assert message["result"]["stopReason"] == "end_turn"
    assert words == list(range(1, 60001))
    assert reply_is_stored(place)


def reply_is_stored(place: Place) -> bool:
    """Whether the session of the flood has its last word."""
    return any(" 60000 " in file.read_text(errors="replace") for file in place.sessions.rglob("*") if file.is_file())


def test_a_client_that_answers_no_ping_is_gone(place: Place, listen: Listen) -> None:
    sleepers = Sleepers(place)
    agent = listen(sleeping(sleepers), "--ping-seconds", "0.2")
    with vanishing_client(agent, place) as process:
        sleepers.wait_until_started()
        process.send_signal(signal.SIGSTOP)
        sleepers.wait_until_gone()
        process.send_signal(signal.SIGCONT)


def test_a_client_that_answers_pings_stays(place: Place, listen: Listen) -> None:
    agent = listen('[[reply]]\nsay = [{ wait = 1.0 }, "Yes."]\n', "--ping-seconds", "0.1")
    client = agent.client()
    client.initialize()
    assert emit(client, place) == "Yes."


# Ends.


def sleeping(sleepers: Sleepers) -> str:
    return f'[[reply]]\nsay = [{{ call = "Bash", args.command = "{sleepers.command()}" }}]\n'


@contextlib.contextmanager
def vanishing_client(agent: Agent, place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """A client in a process of its own, that has begun a turn and allows everything."""
    program = textwrap.dedent(f"""
        import json
        from websockets.sync.client import connect
        socket = connect({agent.url!r}, additional_headers={{"Authorization": "Bearer {TOKEN}"}})
        def call(id, method, **params):
            socket.send(json.dumps({{"jsonrpc": "2.0", "id": id, "method": method, "params": params}}))
            while True:
                message = json.loads(socket.recv())
                if message.get("method") == "session/request_permission":
                    outcome = {{"outcome": "selected", "optionId": message["params"]["options"][0]["optionId"]}}
                    socket.send(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": {{"outcome": outcome}}}}))
                elif message.get("id") == id:
                    return message["result"]
        call("i", "initialize", protocolVersion=1)
        session = call("n", "session/new", cwd={str(place.workspace)!r}, mcpServers=[])["sessionId"]
        call("p", "session/prompt", sessionId=session, prompt=[{{"type": "text", "text": "go"}}])
    """)
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **place.env})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_client_that_is_killed_leaves_nothing_behind(place: Place, listen: Listen) -> None:
    sleepers = Sleepers(place)
    agent = listen(sleeping(sleepers))
    with vanishing_client(agent, place) as process:
        sleepers.wait_until_started()
        process.kill()
        sleepers.wait_until_gone()
    assert agent.client().initialize()


def test_a_signal_ends_all_sessions_and_the_process(place: Place, listen: Listen) -> None:
    sleepers = Sleepers(place)
    agent = listen(sleeping(sleepers))
    clients = [agent.client(), agent.client()]
    for client in clients:
        client.initialize()
        client.prompt(1, client.open(place.workspace))
        client.until("tool_call_update", status="in_progress")
    agent.engine.signal(signal.SIGTERM)
    assert agent.engine.wait(2.0) == 128 + signal.SIGTERM
    assert [client.agent.closed() for client in clients] == [1001, 1001]
    sleepers.wait_until_gone()


# A lost connection that is resumed.


def resumable(agent: Agent) -> Client:
    client = agent.client()
    client.request("i", "initialize", protocolVersion=1, _meta={"polylect": {"resume": True}})
    client.answer("i")
    return client


def come_back(agent: Agent, client: Client, cursor: object, **options: Any) -> Object:
    """Another socket for the same client. Returns the answer to its `initialize`."""
    id = client.agent.socket.response.headers["Acp-Connection-Id"]
    numbers = client.agent.numbers
    client.agent = Wire(agent.socket(**(options or {"headers": {"Acp-Connection-Id": id}})))
    client.agent.numbers = numbers
    return client.call("again", "initialize", protocolVersion=1, _meta={"polylect": {"cursor": cursor}})


def test_a_lost_connection_is_resumed_without_a_lost_or_doubled_message(place: Place, listen: Listen) -> None:
    agent = listen(WRITES)
    client = resumable(agent)
    session = client.open(place.workspace)
    client.prompt(1, session)
    for _ in range(3):
        client.until("agent_message_chunk")
        client.agent.break_off()
        last = client.agent.numbers[-1]
        answer = come_back(agent, client, last)["result"]
        assert answer["_meta"]["polylect"]["resumed"] is True
        assert answer["agentInfo"]["name"] == "polylect"
    assert client.answer(1)["result"]["stopReason"] == "end_turn"
    assert client.text(session) == "".join(f"{number} " for number in range(1, 501)) * 2
    assert (place.workspace / "a.txt").read_text() == "a"
    assert client.agent.numbers == list(range(1, len(client.agent.numbers) + 1))


def test_clients_of_both_versions_are_served_and_may_come_back(place: Place, listen: Listen) -> None:
    """Requirement 53."""
    agent = listen(YES, "--acp-version", "2")
    first, second = agent.client(), agent.client(2)
    first.initialize()
    info = {"name": "test", "version": "1"}
    second.call("i", "initialize", protocolVersion=2, info=info, _meta={"polylect": {"resume": True}})
    sessions = [client.open(place.workspace) for client in (first, second)]
    for client, session in zip((first, second), sessions, strict=True):
        client.prompt(1, session)
    second.agent.break_off()
    assert come_back(agent, second, second.agent.numbers[-1])["result"]["protocolVersion"] == 2
    assert first.answer(1)["result"]["stopReason"] == "end_turn"
    assert second.idle(sessions[1])["stopReason"] == "end_turn"
    assert [client.text(session) for client, session in zip((first, second), sessions, strict=True)] == ["Yes."] * 2
    assert second.agent.numbers == list(range(1, len(second.agent.numbers) + 1))


def test_a_session_works_while_its_client_is_away_and_asks_when_it_is_back(place: Place, listen: Listen) -> None:
    agent = listen(WRITES)
    client = resumable(agent)
    session = client.open(place.workspace)
    client.prompt(1, session)
    client.until("agent_message_chunk")
    client.agent.break_off()
    agent.engine.wait_until_stuck()
    answer = come_back(agent, client, client.agent.numbers[-1])["result"]
    assert answer["_meta"]["polylect"]["received"] == 3  # initialize, session/new and session/prompt
    assert client.answer(1)["result"]["stopReason"] == "end_turn"
    assert client.agent.numbers == list(range(1, len(client.agent.numbers) + 1))


def test_a_client_may_come_back_before_its_loss_is_noticed_and_without_headers(place: Place, listen: Listen) -> None:
    """A browser names the connection in the address; it knows it from the answer to `initialize`."""
    agent = listen()
    client = resumable(agent)
    old, own = client.agent, client.seen[0]["result"]["_meta"]["polylect"]
    assert own["resumeSeconds"] == 60
    come_back(agent, client, 1, path=f"?connection={own['connection']}")
    assert old.closed() == 1001
    assert emit(client, place) == "Yes."


def test_sessions_of_a_client_that_stays_away_end(place: Place, listen: Listen) -> None:
    sleepers = Sleepers(place)
    agent = listen(sleeping(sleepers), "--resume-seconds", "0.3")
    client = resumable(agent)
    client.prompt(1, client.open(place.workspace))
    client.until("tool_call_update", status="in_progress")
    sleepers.wait_until_started()
    client.agent.break_off()
    sleepers.wait_until_gone()
    id = client.agent.socket.response.headers["Acp-Connection-Id"]
    assert agent.refused(headers={"Acp-Connection-Id": id})[0] == 404


def test_sessions_of_a_client_that_says_goodbye_end_at_once(place: Place, listen: Listen) -> None:
    sleepers = Sleepers(place)
    agent = listen(sleeping(sleepers))
    client = resumable(agent)
    client.prompt(1, client.open(place.workspace))
    client.until("tool_call_update", status="in_progress")
    sleepers.wait_until_started()
    client.agent.socket.close()
    sleepers.wait_until_gone()


def test_a_cursor_that_cannot_be_served_is_refused_with_a_sentence(place: Place, listen: Listen) -> None:
    agent = listen()
    client = resumable(agent)
    session = client.open(place.workspace)
    for cursor in (None, "1", True, 99):
        answer = come_back(agent, client, cursor)
        assert answer["error"]["code"] == -32602
        assert client.agent.closed() == 1002
    anew = agent.client()
    anew.initialize()
    loaded: Callable[[], Object] = lambda: anew.call(  # noqa: E731
        "l", "session/load", sessionId=session, cwd=str(place.workspace), mcpServers=[]
    )
    eventually(lambda: "in use" not in str(loaded().get("error")))
