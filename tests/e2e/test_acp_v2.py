"""A real agent of version 2 of ACP: `polylect --acp --acp-version 2`. Numbers are those of docs/acp.md."""

import asyncio
import sys
from base64 import b64decode
from collections.abc import Callable

import pytest

from e2e.acp_client import Client, Object
from engine_process import Engine, Place, Sleepers
from machine import PATIENCE
from polylect.dialects.acp.versions import VERSIONS
from polylect.host import connect

WRITES = """
[[reply]]
when.step = 1
say = ["I write.", { call = "Write", id = "c1", args = { file_path = "hello.txt", content = "hello" } }]

[[reply]]
text = "Done."
"""
SAYS = '[[reply]]\ntext = "You say {prompt}."\n'
RUNS = """
[[reply]]
when.step = 1
say = [{ call = "Bash", id = "c1", args.command = "echo out; exit 3" }]

[[reply]]
text = "Done."
"""
DELEGATES = """
[[reply]]
when = { prompt = "do one" }
text = "four"

[[reply]]
when = { prompt = "go", step = 1 }
say = [{ call = "Agent", id = "c1", args = { description = "one", prompt = "do one" } }]

[[reply]]
text = "It says so."
"""
Start = Callable[..., Client]


@pytest.fixture
def start(place: Place) -> Start:
    def start(script: str = SAYS, *flags: str, version: int = 2) -> Client:
        argv = [sys.executable, "-m", "polylect", "--acp", "--acp-version", "2", *place.script(script), *flags]
        agent = Engine(argv, place.folder, place.env)
        place.keep(agent)
        return Client(agent, version)

    return start


def opened(client: Client, place: Place, **capabilities: object) -> str:
    client.initialize(**capabilities)
    return client.open(place.workspace)


def reject(params: Object) -> Object:
    [option] = [one for one in params["options"] if one["kind"] == "reject_once"]
    return {"outcome": "selected", "optionId": option["optionId"]}


def updates(client: Client, kind: str) -> list[Object]:
    result = [one["params"]["update"] for one in client.seen if one.get("method") == "session/update"]
    return [one for one in result if one["sessionUpdate"] == kind]


# The version.


def test_a_client_that_asks_for_version_1_gets_it(place: Place, start: Start) -> None:
    """Requirement 53."""
    client = start(version=1)
    session = opened(client, place)
    client.prompt(1, session)
    assert client.answer(1)["result"]["stopReason"] == "end_turn"


def test_without_the_flag_version_2_is_not_offered(place: Place) -> None:
    """Requirements 7 and 53."""
    agent = Engine([sys.executable, "-m", "polylect", "--acp"], place.folder, place.env)
    place.keep(agent)
    agent.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 2}})
    assert agent.frame()["result"]["protocolVersion"] == 1


def test_a_version_that_there_is_not_is_refused(place: Place) -> None:
    """Requirement 53."""
    outcome = place.run("--acp", "--acp-version", "3")
    assert (outcome.code > 0, "choose one of 1, 2" in outcome.errors) == (True, True)


def test_who_can_log_in_can_log_out(place: Place) -> None:
    """Requirement 59."""
    argv = [sys.executable, "-m", "polylect", "--acp", "--acp-version", "2"]
    agent = Engine(argv, place.folder, {**place.env, "POLYLECT_PROVIDER": ""})
    place.keep(agent)
    client = Client(agent, 2)
    assert [one["methodId"] for one in client.initialize()["authMethods"]] == ["api-key"]
    error = client.call(1, "session/new", cwd=str(place.workspace))["error"]
    assert (error["code"], [one["methodId"] for one in error["data"]["authMethods"]]) == (-32000, ["api-key"])
    place.run("login", "anthropic", given=b"sk-ant-0123456789\n")
    assert client.call(2, "auth/login", methodId="api-key")["result"] == {}
    assert [client.call(id, "auth/logout")["result"] for id in (3, 4)] == [{}, {}]
    assert client.call(5, "auth/login", methodId="api-key")["error"]["code"] == -32000


IMPORTS = """
import asyncio
import sys
from polylect.dialects.acp.dialect import DIALECT
from polylect.dialects.base import Env
env = Env(lambda: 0, lambda: "x")
for version in ("1", "2"):
    engine, host = DIALECT.engine_side(env, version=version), DIALECT.host_side(env, version=version)
    host.start()
    engine.receive(host.data_to_send())
    print([name for name in sys.modules if name.endswith(".v2")] != [])
"""


def test_nothing_of_version_2_is_loaded_while_version_1_is_spoken(place: Place) -> None:
    """Requirement 63."""
    engine = Engine([sys.executable, "-c", IMPORTS], place.folder, place.env)
    place.keep(engine)
    assert [engine.line().strip() for _ in VERSIONS] == [b"False", b"True"]


# Turns.


def test_a_turn_is_told_by_states(place: Place, start: Start) -> None:
    """Requirements 54 and 55."""
    client = start()
    session = opened(client, place)
    client.prompt(1, session, "hi")
    message = client.answer(1)["result"]["messageId"]
    assert client.idle(session)["stopReason"] == "end_turn"
    assert [one["messageId"] for one in updates(client, "user_message")] == [message]
    assert [one["state"] for one in updates(client, "state_update")] == ["running", "idle"]
    assert client.text(session) == "You say hi."


@pytest.mark.parametrize("allowed", [True, False])
def test_a_call_is_asked_for(place: Place, start: Start, *, allowed: bool) -> None:
    """Requirements 32, 33, 55 and 57."""
    client = start(WRITES)
    if not allowed:
        client.choose = reject
    session = opened(client, place)
    client.prompt(1, session)
    assert client.idle(session)["stopReason"] == "end_turn"
    assert (place.workspace / "hello.txt").exists() == allowed
    first, *_, last = updates(client, "tool_call_update")
    assert (first["status"], last["status"]) == ("pending", "completed" if allowed else "failed")
    assert first["content"][0]["changes"] == [{"operation": "add", "path": str(place.workspace / "hello.txt")}]
    states = [one["state"] for one in updates(client, "state_update")]
    assert states == ["running", "requires_action", "running", "idle"]


def test_the_output_of_a_command_is_that_of_a_terminal(place: Place, start: Start) -> None:
    """Requirement 57."""
    client = start(RUNS)
    session = opened(client, place)
    client.prompt(1, session)
    client.idle(session)
    assert b"out\n" in b"".join(b64decode(one["data"]) for one in updates(client, "terminal_output_chunk"))
    first, *_, last = updates(client, "terminal_update")
    assert (first["command"], first["cwd"]) == ("echo out; exit 3", str(place.workspace))
    assert last["exitStatus"] == {"exitCode": 3}


def test_a_cancel_ends_what_runs_and_what_waits(place: Place, start: Start) -> None:
    """Requirements 35, 36, 55 and 56."""
    sleepers = Sleepers(place)
    client = start(f'[[reply]]\nsay = [{{ call = "Bash", args.command = "{sleepers.command()}" }}]\n')
    session = opened(client, place)
    client.prompt(1, session)
    client.until("tool_call_update", status="in_progress")
    client.prompt(2, session)
    client.notify("session/cancel", sessionId=session)
    client.until("tool_call_update", status="cancelled")
    assert client.idle(session)["stopReason"] == "cancelled"
    assert client.answer(2)["error"]["code"] == -32800
    sleepers.wait_until_gone()


def test_a_question_that_nobody_answers_is_withdrawn(place: Place, start: Start) -> None:
    """Requirements 35 and 36."""
    client = start(WRITES)
    client.choose = lambda params: None
    session = opened(client, place)
    client.prompt(1, session)
    client.until("state_update", state="requires_action")
    client.notify("session/cancel", sessionId=session)
    assert client.idle(session)["stopReason"] == "cancelled"
    assert "$/cancel_request" in [one.get("method") for one in client.seen]
    assert not (place.workspace / "hello.txt").exists()


def test_a_service_that_fails_is_an_error_of_the_state(place: Place, start: Start) -> None:
    """Requirement 56."""
    client = start('[[reply]]\nsay = [{ error = "bad_request", message = "it is broken" }]\n')
    session = opened(client, place)
    client.prompt(1, session)
    assert "result" in client.answer(1)
    idle = client.idle(session)
    assert (idle["stopReason"], "broken" in idle["error"]["message"]) == ("error", True)


def test_a_message_joins_the_running_turn(place: Place, start: Start) -> None:
    """Requirements 48 and 54."""
    sleepers = Sleepers(place)
    client = start(
        f'[[reply]]\nwhen.step = 1\nsay = [{{ call = "Bash", args.command = "{sleepers.command()}" }}]\n{SAYS}'
    )
    session = opened(client, place)
    client.prompt(1, session)
    client.until("tool_call_update", status="in_progress")
    blocks = [{"type": "text", "text": "faster"}]
    answer = client.call(2, "_session/steering", sessionId=session, prompt=blocks)
    assert answer["result"] == {"outcome": "injected"}
    client.notify("session/cancel", sessionId=session)
    client.idle(session)


# Sessions.


def test_two_sessions_run_at_the_same_time(place: Place, start: Start) -> None:
    client = start(WRITES)
    client.initialize()
    folders = [place.folder / "one", place.folder / "two"]
    for folder in folders:
        folder.mkdir()
    sessions = [client.open(folder, folder.name) for folder in folders]
    for session in sessions:
        client.prompt(session, session)
    open_ones = set(sessions)
    while open_ones:
        params = client.next().get("params", {})
        if params.get("update", {}).get("state") == "idle":
            open_ones.discard(params["sessionId"])
    assert [(folder / "hello.txt").read_text() for folder in folders] == ["hello"] * 2


def test_a_session_is_resumed_with_and_without_its_past_and_forked(place: Place, start: Start) -> None:
    """Requirement 58."""
    client = start(WRITES)
    session = opened(client, place)
    client.prompt(1, session)
    message = client.answer(1)["result"]["messageId"]
    client.idle(session)
    assert client.agent.finish()[1] == 0
    client = start()
    client.initialize()
    where = {"sessionId": session, "cwd": str(place.workspace)}
    del client.seen[:]
    assert "configOptions" in client.call(1, "session/resume", **where)["result"]
    assert [one["params"]["update"] for one in client.seen[:-1]] == [{"sessionUpdate": "state_update", "state": "idle"}]
    assert client.call(2, "session/close", sessionId=session)["result"] == {}
    del client.seen[:]
    client.call(3, "session/resume", **where, replayFrom={"type": "start"})
    replayed = [one["params"]["update"]["sessionUpdate"] for one in client.seen[:-1]]
    assert replayed[:3] == ["user_message_chunk", "agent_message_chunk", "tool_call_update"]
    assert replayed[-1] == "state_update"
    assert updates(client, "user_message_chunk")[0]["messageId"] == message
    fork = client.call(4, "session/fork", **where)["result"]["sessionId"]
    client.prompt(5, fork, "more")
    assert client.idle(fork)["stopReason"] == "end_turn"
    listed = client.call(6, "session/list")["result"]["sessions"]
    assert {one["sessionId"] for one in listed} == {session, fork}
    assert client.call(8, "session/set_title", sessionId=fork, title="One")["result"] == {"title": "One"}
    assert client.call(9, "session/status", sessionId=fork)["result"] == {"status": "open"}
    for id, method in enumerate(("session/close", "session/archive", "session/unarchive"), 20):
        assert client.call(id, method, sessionId=fork)["result"] == {}
    assert client.call(10, "auth/status")["result"] == {"state": "authenticated"}
    error = client.call(7, "session/resume", sessionId="no", cwd=str(place.workspace))["error"]
    assert (error["code"], error["data"]["sessionId"]) == (-32002, "no")


def test_a_close_ends_the_turn_first(place: Place, start: Start) -> None:
    """Requirement 23."""
    sleepers = Sleepers(place)
    client = start(f'[[reply]]\nsay = [{{ call = "Bash", args.command = "{sleepers.command()}" }}]\n')
    session = opened(client, place)
    client.prompt(1, session)
    client.until("tool_call_update", status="in_progress")
    assert client.call(2, "session/close", sessionId=session)["result"] == {}
    assert [one["state"] for one in updates(client, "state_update")] == [
        "running",
        "requires_action",
        "running",
        "idle",
    ]
    sleepers.wait_until_gone()


def test_a_sub_agent_is_one_call_for_a_client_that_does_not_show_them(place: Place, start: Start) -> None:
    """Requirement 49."""
    client = start(DELEGATES)
    session = opened(client, place)
    client.prompt(1, session)
    assert client.idle(session)["stopReason"] == "end_turn"
    assert {one["toolCallId"] for one in updates(client, "tool_call_update")} == {"c1"}
    assert updates(client, "subagent_update") == []
    assert client.text(session) == "It says so."


# Input.


@pytest.mark.parametrize("busy", [False, True])
def test_when_stdin_closes_it_is_gone_with_all_it_started(place: Place, start: Start, *, busy: bool) -> None:
    """Requirement 50."""
    sleepers = Sleepers(place)
    client = start(f'[[reply]]\nsay = [{{ call = "Bash", args.command = "{sleepers.command()}" }}]\n')
    session = opened(client, place)
    if busy:
        client.prompt(1, session)
        client.until("tool_call_update", status="in_progress")
    client.agent.close_input()
    assert client.agent.wait(2.0) == 0
    sleepers.wait_until_gone()


def test_bad_lines_do_not_end_the_connection(place: Place, start: Start) -> None:
    """Requirements 3, 5, 6, 22 and 59."""
    client = start()
    client.agent.send(b"{bad json\n\n[1]\n7\n")
    assert [client.next()["error"]["code"] for _ in range(3)] == [-32700, -32600, -32600]
    session = opened(client, place)
    client.notify("no/such/notification")
    client.agent.send({"jsonrpc": "2.0", "id": 99, "result": {}}, {"jsonrpc": "2.0", "id": 98, "error": {"code": 1}})
    wrong: list[tuple[str, Object, int]] = [
        ("no/such/request", {}, -32601),
        ("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []}, -32601),
        ("session/new", {"cwd": "relative"}, -32602),
        ("session/new", {"cwd": "/", "mcpServers": [{"name": "x"}]}, -32602),
        ("session/prompt", {"sessionId": session, "prompt": [{"type": "audio", "data": "", "mimeType": "x"}]}, -32602),
        ("session/prompt", {"sessionId": "no", "prompt": []}, -32002),
        ("session/set_config_option", {"sessionId": session, "configId": "mode", "type": "id", "value": "x"}, -32602),
    ]
    for id, (method, params, code) in enumerate(wrong):
        assert client.call(id, method, **params)["error"]["code"] == code
    client.prompt("last", session, "hi")
    assert client.idle(session)["stopReason"] == "end_turn"
    assert client.agent.finish()[1] == 0


# Other ends.


def test_version_2_is_spoken_before_a_bridge(place: Place) -> None:
    """Requirements 53 and 60."""
    front = [sys.executable, "-m", "polylect", "bridge", "--front", "acp", "--engine", "polylect", "--acp-version", "2"]
    words = [word for one in ("--provider", "scripted", *place.script(SAYS)) for word in ("--engine-arg", one)]
    lines: list[bytes] = []

    async def main() -> str:
        around: Object = {"cwd": str(place.workspace), "env": place.env, "tap": lambda way, data: lines.append(data)}
        async with connect([*front, *words], dialect="acp", version="2", **around) as agent:
            return (await agent.ask("hi")).text

    assert asyncio.run(asyncio.wait_for(main(), PATIENCE)) == "You say hi."
    assert b"state_update" in b"".join(lines)
