"""A real agent of ACP: `polylect --acp` with several sessions, bad input and every kind of end.

Numbers are those of the requirements in docs/acp.md.
"""

import os
import signal
import sys
from collections.abc import Callable
from itertools import product

import pytest

from e2e.acp_client import Client, Object, allow
from engine_process import Engine, Place, Sleepers

WRITES = """
[[reply]]
when.step = 1
say = ["I write.", { call = "Write", id = "c1", args = { file_path = "hello.txt", content = "hello" } }]

[[reply]]
text = "Done."
"""


Start = Callable[..., Client]


@pytest.fixture
def start(place: Place) -> Start:
    def start(script: str = '[[reply]]\ntext = "Yes."\n', *flags: str, env: dict[str, str] | None = None) -> Client:
        argv = [sys.executable, "-m", "polylect", "--acp", *(place.script(script) if script else ()), *flags]
        agent = Engine(argv, place.folder, {**place.env, **(env or {})})
        place.keep(agent)
        return Client(agent)

    return start


# Sessions.


def test_two_sessions_run_at_the_same_time_each_in_its_folder(place: Place, start: Start) -> None:
    """Requirement 11: the folder of the session counts, not that of the process."""
    folders = [place.folder / "one", place.folder / "two"]
    client = start(WRITES)
    client.initialize()
    for folder in folders:
        folder.mkdir()
    sessions = [client.open(folder, folder.name) for folder in folders]
    for session in sessions:
        client.prompt(session, session)
    assert [client.answer(session)["result"]["stopReason"] for session in sessions] == ["end_turn"] * 2
    assert [(folder / "hello.txt").read_text() for folder in folders] == ["hello"] * 2
    assert [client.text(session) for session in sessions] == ["I write.Done."] * 2


def test_a_session_is_listed_closed_loaded_and_deleted(place: Place, start: Start) -> None:
    """Requirements 16, 18, 20, 21 and 22, over the life of one session and of two processes."""
    client = start(WRITES)
    client.initialize()
    session = client.open(place.workspace)
    client.prompt(1, session)
    client.answer(1)
    [listed] = client.call(2, "session/list", cwd=str(place.workspace))["result"]["sessions"]
    assert (listed["sessionId"], listed["cwd"], listed["title"]) == (session, str(place.workspace), "go")
    assert client.call(3, "session/list", cwd=str(place.folder))["result"]["sessions"] == []
    assert client.call(4, "session/close", sessionId=session)["result"] == {}
    assert client.agent.finish()[1] == 0

    client = start()
    client.initialize()
    where = {"cwd": str(place.workspace), "mcpServers": []}
    loaded = client.call(1, "session/load", sessionId=session, **where)
    replayed = [one["params"]["update"]["sessionUpdate"] for one in client.seen[1:-1]]
    assert replayed[:3] == ["user_message_chunk", "agent_message_chunk", "tool_call"]
    assert "modes" in loaded["result"]
    assert client.call(2, "session/close", sessionId=session)["result"] == {}
    del client.seen[:]
    assert "result" in client.call(3, "session/resume", sessionId=session, **where)
    assert client.text(session) == ""
    assert [client.call(id, "session/delete", sessionId=session)["result"] for id in (4, 5)] == [{}, {}]
    for id, method in enumerate(("session/load", "session/resume"), 6):
        error = client.call(id, method, sessionId=session, **where)["error"]
        assert (error["code"], error["data"]["sessionId"]) == (-32002, session)
    client.prompt(9, session)
    assert client.answer(9)["error"]["code"] == -32002


def test_a_fork_goes_on_from_the_conversation_of_another(place: Place, start: Start) -> None:
    client = start()
    client.initialize()
    session = client.open(place.workspace)
    client.prompt(1, session, "first")
    client.answer(1)
    fork = client.call(2, "session/fork", sessionId=session, cwd=str(place.workspace), mcpServers=[])["result"][
        "sessionId"
    ]
    assert fork != session
    client.prompt(3, fork, "second")
    client.answer(3)
    titles = {one["sessionId"] for one in client.call(4, "session/list")["result"]["sessions"]}
    assert titles == {session, fork}


@pytest.mark.parametrize("how", ["load", "resume", "fork"])
@pytest.mark.parametrize(("mode", "flags", "expected"), [
    ("plan", (), "plan"),
    ("force", (), "default"),
    ("auto_edit", ("--approval-mode", "plan"), "plan"),
])  # fmt: skip
def test_a_session_keeps_its_mode(
    place: Place, start: Start, how: str, mode: str, flags: tuple[str, ...], expected: str
) -> None:
    """A mode in which nothing is asked has to be chosen again, and a flag is stronger."""
    client = start()
    client.initialize()
    session = client.open(place.workspace)
    client.prompt(1, session)
    client.answer(1)
    client.call(2, "session/set_mode", sessionId=session, modeId=mode)
    assert client.agent.finish()[1] == 0
    client = start(WRITES, *flags)
    client.initialize()
    where = {"sessionId": session, "cwd": str(place.workspace), "mcpServers": []}
    result = client.call(3, f"session/{how}", **where)["result"]
    assert result["modes"]["currentModeId"] == expected
    assert result["configOptions"][0]["currentValue"] == expected


def test_a_session_has_a_status_and_gets_a_title_open_or_not(place: Place, start: Start) -> None:
    client = start()
    capabilities = client.initialize()["agentCapabilities"]["sessionCapabilities"]
    assert {"status", "title", "systemPrompt"} <= set(capabilities)
    session = client.open(place.workspace)
    client.prompt(1, session)
    client.answer(1)
    assert client.call(2, "session/status", sessionId=session)["result"] == {"status": "open"}
    assert client.call(3, "session/set_title", sessionId=session, title=" One ")["result"] == {"title": "One"}
    titles = [one["params"]["update"].get("title") for one in client.seen if one.get("method") == "session/update"]
    assert "One" in titles
    assert client.call(4, "session/set_title", sessionId=session, title=" ")["error"]["code"] == -32602
    other = start()
    other.initialize()
    assert other.call(1, "session/status", sessionId=session)["result"] == {"status": "open"}
    assert "error" in other.call(2, "session/set_title", sessionId=session, title="Two")
    client.call(5, "session/close", sessionId=session)
    assert other.call(3, "session/status", sessionId=session)["result"] == {"status": "saved"}
    assert other.call(4, "session/set_title", sessionId=session, title="Two")["result"] == {"title": "Two"}
    [listed] = client.call(6, "session/list")["result"]["sessions"]
    assert listed["title"] == "Two"
    for id, method in enumerate(("session/status", "session/set_title"), 7):
        error = client.call(id, method, sessionId="gone", title="x")["error"]
        assert (error["code"], error["data"]["sessionId"]) == (-32002, "gone")


def test_a_session_that_is_archived_is_closed_and_listed_only_on_request(place: Place, start: Start) -> None:
    client = start()
    client.initialize()
    one, two = client.open(place.workspace, "n1"), client.open(place.workspace, "n2")
    for session in (one, two):
        client.prompt(session, session)
        client.answer(session)

    def listed(id: object, **archived: str) -> list[tuple[str, bool]]:
        sessions = client.call(id, "session/list", **archived)["result"]["sessions"]
        return sorted((row["sessionId"], row.get("archived", False)) for row in sessions)

    assert client.call(1, "session/archive", sessionId=one)["result"] == {}
    assert client.call(2, "session/archive", sessionId=one)["result"] == {}
    assert client.call(3, "session/status", sessionId=one)["result"] == {"status": "saved"}
    assert listed(4) == [(two, False)]
    assert listed(5, archived="include") == sorted([(one, True), (two, False)])
    assert listed(6, archived="only") == [(one, True)]
    assert client.call(7, "session/list", archived="zzz")["error"]["code"] == -32602
    assert client.call(8, "session/unarchive", sessionId=one)["result"] == {}
    assert listed(9) == sorted([(one, False), (two, False)])
    assert client.call(10, "session/archive", sessionId="gone")["error"]["code"] == -32002


def test_a_system_prompt_of_the_client_is_told_to_the_model(place: Place, start: Start) -> None:
    script = """
    [[reply]]
    when.system = "Speak like a pirate"
    text = "Arr."
    [[reply]]
    text = "Yes."
    """
    client = start(script)
    client.initialize()
    text = {"type": "text", "text": "Speak like a pirate"}
    where = {"cwd": str(place.workspace), "mcpServers": []}
    for id, mode in enumerate(("override", "zzz")):
        bad = {"mode": mode, "content": [text]}
        assert client.call(id, "session/new", **where, systemPrompt=bad)["error"]["code"] == -32602
    prompt = {"mode": "append", "content": [text]}
    session = client.call(3, "session/new", **where, systemPrompt=prompt)["result"]["sessionId"]
    client.prompt(4, session)
    client.answer(4)
    assert client.text(session) == "Arr."


def test_a_server_inside_the_client_is_asked_over_the_connection(place: Place, start: Start) -> None:
    script = """
    [[reply]]
    when.prompt = "bad"
    when.step = 1
    say = [{ call = "mcp__ed__greet", id = "c2", args = { name = "nobody" } }]
    [[reply]]
    when.step = 1
    say = [{ call = "mcp__ed__greet", id = "c1", args = { name = "you" } }]
    [[reply]]
    text = "[{outcome}: {result}]"
    """
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    asked: list[str] = []

    def serve(method: str, params: Object) -> Object:
        asked.append(method)
        match method:
            case "initialize":
                info = {"name": "ed", "version": "1"}
                version = params["protocolVersion"]
                return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
            case "tools/list":
                return {"result": {"tools": [{"name": "greet", "inputSchema": schema}]}}
            case "tools/call" if params["arguments"]["name"] == "you":
                return {"result": {"content": [{"type": "text", "text": "Hello, you."}]}}
        return {"error": {"code": -32602, "message": "Nobody is here"}}

    client = start(script, "--approval-mode", "force")
    client.serve = serve
    assert client.initialize()["agentCapabilities"]["mcpCapabilities"]["acp"] is True
    server = {"type": "acp", "name": "ed", "serverId": "srv-1"}
    where = {"cwd": str(place.workspace)}
    session = client.call(1, "session/new", **where, mcpServers=[server])["result"]["sessionId"]
    client.prompt(2, session)
    client.answer(2)
    client.prompt(3, session, "bad")
    client.answer(3)
    assert client.text(session) == "[ok: Hello, you.][error: MCP server ed: Nobody is here]"
    assert asked == ["initialize", "tools/list", "tools/call", "tools/call"]
    ids = [one["params"]["serverId"] for one in client.seen if one.get("method") == "mcp/message"]
    assert ids == ["srv-1"] * 4
    bad = {"type": "acp", "name": "ed"}
    assert client.call(4, "session/new", **where, mcpServers=[bad])["error"]["code"] == -32602


@pytest.mark.parametrize("mode", ["default", "auto_edit"])
def test_a_file_that_is_replaced_is_shown_with_what_was_in_it(place: Place, start: Start, mode: str) -> None:
    """Requirement 31, in the question and in the call itself."""
    client = start(WRITES, "--approval-mode", mode)
    client.initialize()
    for old in (None, "what was there"):
        path = place.workspace / "hello.txt"
        path.unlink(missing_ok=True)
        if old:
            path.write_text(old)
        del client.seen[:]
        session = client.open(place.workspace, f"n{old}")
        client.prompt(f"p{old}", session)
        client.answer(f"p{old}")
        messages = [one["params"] for one in client.seen if "params" in one]
        asked = [one["toolCall"]["content"] for one in messages if "toolCall" in one]
        started = [one["update"] for one in messages if one.get("update", {}).get("status") == "in_progress"]
        diff = {"type": "diff", "path": str(path), "newText": "hello", **({"oldText": old} if old else {})}
        assert asked == ([[diff]] if mode == "default" else [])
        assert [one.get("content") for one in started] == [[diff] if old else None]


def test_a_session_without_a_prompt_is_not_kept_and_that_is_said(place: Place, start: Start) -> None:
    client = start()
    client.initialize()
    session = client.open(place.workspace)
    assert client.agent.finish()[1] == 0
    client = start()
    client.initialize()
    for how in ("load", "resume", "fork"):
        error = client.call(how, f"session/{how}", sessionId=session, cwd=str(place.workspace), mcpServers=[])["error"]
        assert (error["code"], error["data"]["sessionId"]) == (-32002, session)
        assert error["message"].endswith("A session without a prompt is not kept: begin another one with session/new")
    assert client.call(1, "session/list")["result"]["sessions"] == []


def test_without_a_key_a_session_is_refused_with_what_to_do(place: Place, start: Start) -> None:
    """Requirements 26 and 51: no key is -32000, and there is a way to log in."""
    client = start("", env={"POLYLECT_PROVIDER": ""})
    assert [one["id"] for one in client.initialize()["authMethods"]] == ["api-key"]
    error = client.call(1, "session/new", cwd=str(place.workspace), mcpServers=[])["error"]
    assert (error["code"], "ANTHROPIC_API_KEY" in error["message"]) == (-32000, True)
    assert [one["id"] for one in error["data"]["authMethods"]] == ["api-key"]
    assert client.call(2, "authenticate", methodId="api-key")["error"]["code"] == -32000
    assert client.call("s", "auth/status")["result"] == {"state": "unauthenticated"}
    place.run("login", "anthropic", given=b"sk-ant-0123456789\n")
    assert client.call(3, "authenticate", methodId="api-key")["result"] == {}
    assert client.call("t", "auth/status")["result"] == {"state": "authenticated"}
    assert "sessionId" in client.call(4, "session/new", cwd=str(place.workspace), mcpServers=[])["result"]


def test_a_terminal_is_offered_for_the_login_where_the_client_has_one(start: Start) -> None:
    """Requirement 9."""
    methods = start().initialize(auth={"terminal": True})["authMethods"]
    assert [(one["id"], one.get("args")) for one in methods] == [("api-key", None), ("login", ["login"])]


# Ends.


def sleeping(sleepers: Sleepers) -> str:
    return f'[[reply]]\nsay = [{{ call = "Bash", args.command = "{sleepers.command()}" }}]\n'


def test_a_cancel_ends_what_runs_and_the_next_prompt_works(place: Place, start: Start) -> None:
    """Requirements 28, 35, 36 and 38: by `session/cancel` and by `$/cancel_request`; nothing is left."""
    sleepers = Sleepers(place)
    client = start(sleeping(sleepers))
    client.initialize()
    session = client.open(place.workspace)
    client.notify("session/cancel", sessionId=session)
    ways: list[Callable[[], None]] = [
        lambda: client.notify("session/cancel", sessionId=session),
        lambda: client.notify("$/cancel_request", requestId=2),
    ]
    for id, cancel in enumerate(ways, 1):
        client.prompt(id, session)
        client.until("tool_call_update", status="in_progress")
        cancel()
        client.until("tool_call_update", status="failed")
        assert client.answer(id)["result"]["stopReason"] == "cancelled"
        sleepers.wait_until_gone()


def test_a_prompt_can_be_withdrawn_in_the_same_breath(place: Place, start: Start) -> None:
    """Requirement 38: the turn may not have begun when the prompt is withdrawn."""
    sleepers = Sleepers(place)
    client = start(sleeping(sleepers))
    client.initialize()
    session = client.open(place.workspace)
    for id in range(5):
        client.prompt(id, session)
        client.notify("$/cancel_request", requestId=id)
        assert client.answer(id)["result"]["stopReason"] == "cancelled"
    sleepers.wait_until_gone()


def test_a_question_that_nobody_answers_does_not_hold_up_a_cancel(place: Place, start: Start) -> None:
    """Requirements 33, 35 and 36: the request is withdrawn, and the call does not run."""
    client = start(WRITES)
    client.choose = lambda params: None
    client.initialize()
    session = client.open(place.workspace)
    client.prompt(1, session)
    while client.next().get("method") != "session/request_permission":
        pass
    requested = client.seen[-1]["id"]
    client.notify("session/cancel", sessionId=session)
    assert client.answer(1)["result"]["stopReason"] == "cancelled"
    assert requested in [
        one["params"].get("requestId") for one in client.seen if one.get("method") == "$/cancel_request"
    ]
    assert not (place.workspace / "hello.txt").exists()


def test_a_close_ends_the_turn_first(place: Place, start: Start) -> None:
    """Requirement 23."""
    sleepers = Sleepers(place)
    client = start(sleeping(sleepers))
    client.initialize()
    session = client.open(place.workspace)
    client.prompt(1, session)
    client.until("tool_call_update", status="in_progress")
    client.request(2, "session/close", sessionId=session)
    client.answer(2)
    assert client.answer(1)["result"]["stopReason"] == "cancelled"
    assert [one["id"] for one in client.seen if "result" in one][-2:] == [1, 2]
    sleepers.wait_until_gone()


@pytest.mark.parametrize("busy", [False, True])
def test_when_stdin_closes_it_is_gone_with_all_it_started(place: Place, start: Start, *, busy: bool) -> None:
    """Requirement 50."""
    sleepers = Sleepers(place)
    client = start(sleeping(sleepers))
    client.initialize()
    if busy:
        client.prompt(1, client.open(place.workspace))
        client.until("tool_call_update", status="in_progress")
    client.agent.close_input()
    assert client.agent.wait(2.0) == 0
    sleepers.wait_until_gone()


def test_a_signal_ends_it_too(place: Place, start: Start) -> None:
    sleepers = Sleepers(place)
    client = start(sleeping(sleepers))
    client.initialize()
    client.prompt(1, client.open(place.workspace))
    client.until("tool_call_update", status="in_progress")
    client.agent.signal(signal.SIGTERM)
    assert client.agent.wait(2.0) == 128 + signal.SIGTERM
    sleepers.wait_until_gone()


# Input.


def test_a_second_prompt_waits_for_the_first(place: Place, start: Start) -> None:
    """Requirement 39: each is answered at its own end, in order."""
    client = start('[[reply]]\nwhen.prompt = "one"\ntext = "1"\n\n[[reply]]\ntext = "2"\n')
    client.initialize()
    session = client.open(place.workspace)
    client.prompt(1, session, "one")
    client.prompt(2, session, "two")
    client.answer(2)
    assert [one["id"] for one in client.seen if "result" in one][-2:] == [1, 2]
    assert client.text(session) == "12"


def test_bad_lines_do_not_end_the_connection(start: Start) -> None:
    """Requirements 3, 4, 5 and 6."""
    client = start()
    client.agent.send(b"{bad json\n\n[1]\n7\n")
    assert [client.next()["error"]["code"] for _ in range(3)] == [-32700, -32600, -32600]
    client.notify("no/such/notification")
    client.agent.send({"jsonrpc": "2.0", "id": 99, "result": {}}, {"jsonrpc": "2.0", "id": None, "error": {"code": 1}})
    client.initialize()
    assert client.call("text id", "no/such/request")["error"]["code"] == -32601
    for wrong in ("relative", "", "/nowhere/at/all"):
        assert client.call(wrong, "session/new", cwd=wrong, mcpServers=[])["error"]["code"] in (-32602, -32603)
    assert client.agent.finish() == ([], 0)


def test_a_line_of_32_mib_passes_and_a_longer_one_is_refused(place: Place, start: Start) -> None:
    """Requirement 52."""
    client = start("", "--max-line", str(34 << 20), env={"POLYLECT_PROVIDER": "scripted"})
    client.initialize()
    session = client.open(place.workspace)
    client.prompt(1, session, "x" * (32 << 20))
    assert "result" in client.answer(1) or client.seen[-1]["error"]["code"] == -32603
    client.prompt(2, session, "x" * (35 << 20))
    assert client.answer(None)["error"]["code"] == -32600
    client.prompt(3, session, "short")
    assert client.answer(3)["result"]["stopReason"] == "end_turn"


def test_what_tools_and_libraries_print_does_not_reach_the_client(place: Place, start: Start) -> None:
    """Requirement 2."""
    extension = place.folder / "noisy.py"
    extension.write_text(
        "import os\nprint('noise')\nos.write(1, b'more noise')\ndef extend(polylect): print('again')\n"
    )
    client = start(WRITES, "--extension", str(extension))
    client.initialize()
    session = client.open(place.workspace)
    client.prompt(1, session)
    assert client.answer(1)["result"]["stopReason"] == "end_turn"
    assert client.seen[0]["id"] == "i"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--resume", "x"], "--resume has no meaning with --acp"),
        (["--trust-workspace"], "name the folder that is trusted with --workspace"),
        (["hello"], "'hello' is not a flag"),
        (["--on-eof", "never"], "choose one of finish, stop"),
    ],
)
def test_a_wrong_command_line_says_what_would_be_right(place: Place, flags: list[str], message: str) -> None:
    outcome = place.run("--acp", *flags)
    assert (outcome.code > 0, outcome.out, message in outcome.errors) == (True, b"", True)


def test_only_the_folder_that_is_named_is_trusted(place: Place, start: Start) -> None:
    trusted, other = place.workspace, place.folder / "other"
    for folder in (trusted, other):
        (folder / ".polylect").mkdir(parents=True)
        (folder / ".polylect" / "config.toml").write_text('[default]\napproval_mode = "force"\n')
    client = start(WRITES, "--workspace", str(trusted), "--trust-workspace")
    client.initialize()
    modes = [
        client.call(str(folder), "session/new", cwd=str(folder), mcpServers=[])["result"]["modes"]["currentModeId"]
        for folder in (trusted, other)
    ]
    assert modes == ["force", "default"]


def test_a_client_that_takes_no_more_stops_nothing_but_its_own(place: Place, start: Start) -> None:
    """One session whose question is open does not hold up another."""
    client = start(WRITES)
    client.choose = lambda params: None
    client.initialize()
    waiting, other = client.open(place.workspace, 1), client.open(place.workspace, 2)
    client.prompt(3, waiting)
    while client.next().get("method") != "session/request_permission":
        pass
    client.choose = allow
    client.prompt(4, other)
    assert client.answer(4)["result"]["stopReason"] == "end_turn"
    assert client.text(waiting) == "I write."


def test_the_engine_process_does_not_need_a_home(place: Place, start: Start) -> None:
    """Requirement 51: as the registry checks an agent."""
    empty = place.folder / "empty"
    empty.mkdir()
    env = {"HOME": str(empty), "TERM": "dumb", "XDG_CONFIG_HOME": str(empty / "c"), "POLYLECT_HOME": ""}
    client = start(env=env)
    assert client.initialize()["authMethods"] != []
    assert client.agent.finish() == ([], 0)
    assert os.listdir(empty) == []


# Several requests about one session at once.


def test_requests_that_overlap_are_each_answered(place: Place, start: Start) -> None:
    """Requirements 21 and 23: whatever is asked of a session while it is being closed."""
    sleepers = Sleepers(place)
    client = start(sleeping(sleepers))
    client.initialize()
    where = {"cwd": str(place.workspace), "mcpServers": []}
    for number, (first, second) in enumerate(product(("close", "delete"), ("close", "delete", "load", "resume"))):
        session = client.open(place.workspace, f"open-{number}")
        client.prompt(f"prompt-{number}", session)
        client.until("tool_call_update", status="in_progress")
        for place_in_line, method in enumerate((first, second)):
            params = where if method in ("load", "resume") else {}
            client.request(f"{number}-{place_in_line}", f"session/{method}", sessionId=session, **params)
        answers = [client.answer(f"{number}-{place_in_line}") for place_in_line in range(2)]
        assert "result" in answers[0]
        assert client.answer(f"prompt-{number}")["result"]["stopReason"] == "cancelled"
        sleepers.wait_until_gone()
        assert client.call(f"last-{number}", "session/close", sessionId=session)["result"] == {}


def test_a_session_that_is_opened_again_while_it_closes_can_be_closed_again(place: Place, start: Start) -> None:
    """Requirement 23."""
    sleepers = Sleepers(place)
    client = start(sleeping(sleepers))
    client.initialize()
    session = client.open(place.workspace)
    for number in range(5):
        client.prompt(f"a{number}", session)
        client.until("tool_call_update", status="in_progress")
        client.request(f"c{number}", "session/close", sessionId=session)
        client.request(f"l{number}", "session/load", sessionId=session, cwd=str(place.workspace), mcpServers=[])
        assert "result" in client.answer(f"l{number}")
        assert client.answer(f"c{number}")["result"] == {}
        assert client.answer(f"a{number}")["result"]["stopReason"] == "cancelled"
    assert client.call("end", "session/close", sessionId=session)["result"] == {}
    sleepers.wait_until_gone()


@pytest.mark.parametrize("method", ["new", "load", "list", "fork"])
def test_a_path_with_a_nul_is_refused(place: Place, start: Start, method: str) -> None:
    client = start()
    client.initialize()
    session = client.open(place.workspace)
    named = {"sessionId": session} if method in ("load", "fork") else {}
    client.call("c", "session/close", sessionId=session)
    answer = client.call(1, f"session/{method}", cwd="/tmp/\0", mcpServers=[], **named)
    assert answer["error"]["code"] in (-32602, -32603)
