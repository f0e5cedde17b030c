"""The RpcClients of omp and pi, old and new, drive polylect: all that they can call, and what comes of it."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.service import VENDORS, Service
from engine_process import Place, eventually
from interop.omp_clients import MODEL, CallFailed, Client, Json, Package, client, package
from polylect.vocab.content import Text, Thinking, ToolCall
from providers.loopback import STALL, WAIT, Step, reply

pytestmark = pytest.mark.interop
CLIENTS = ("omp 13", "omp 18.3", "pi", "pi 1.5")
VENDOR = VENDORS["anthropic"]
Begin = Callable[..., Client]


@pytest.fixture(scope="module", params=CLIENTS)
def peer(request: pytest.FixtureRequest) -> Package:
    return package(request.param)


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


@pytest.fixture
def begin(peer: Package, place: Place, service: Service) -> Begin:
    """A client that has started, speaking the version that it was written for."""

    def begin(*tools: Json) -> Client:
        host = client(peer, place, service.url, "--protocol", peer.protocol, tools=tools)
        assert host.call("start") is None
        return host

    return begin


def says(text: str) -> list[Step]:
    return VENDOR.says(Text(text))


def stuck(text: str, then: Step = STALL) -> list[Step]:
    """Says this much, then nothing until it is told to go on, or left."""
    steps = VENDOR.says(Text(text), width=100)
    shown = next(index for index, step in enumerate(steps) if text.encode() in step)
    return [*steps[: shown + 1], then, *steps[shown + 1 :]]


def kinds(events: list[Json]) -> list[str]:
    """Without what only some of them hear, and without the updates."""
    return [event["type"] for event in events if event["type"] in CORE]


CORE = (
    "agent_start", "turn_start", "message_start", "message_end", "tool_execution_start", "tool_execution_end",
    "turn_end", "agent_end",
)  # fmt: skip


def texts(messages: list[Json]) -> list[tuple[str, str]]:
    """Who said what, in words."""
    return [
        (message["role"], "".join(block.get("text", "") for block in message["content"]))
        for message in messages
        if "content" in message
    ]


def requested(service: Service) -> list[Json]:
    """The messages of the last request that reached the model."""
    messages: list[Json] = json.loads(service.requests[-1].body)["messages"]
    return messages


def last_request(service: Service) -> str:
    return service.requests[-1].body.decode()


def test_a_prompt_is_answered_and_the_session_can_be_asked_about(begin: Begin, service: Service, place: Place) -> None:
    host = begin()
    service.give(says("Hello there."))
    events = [event for event in host.ask("hi") if event["type"] in (*CORE, "message_update")]
    assert kinds(events) == [
        "agent_start", "turn_start", "message_start", "message_end", "message_start", "message_end", "turn_end",
        "agent_end",
    ]  # fmt: skip
    updates = [event["assistantMessageEvent"] for event in events if event["type"] == "message_update"]
    assert "".join(update.get("delta", "") for update in updates) == "Hello there."
    assert texts(events[-1]["messages"]) == [("user", "hi"), ("assistant", "Hello there.")]

    state = host.call("getState")
    assert (state["model"]["provider"], state["model"]["id"], state["thinkingLevel"]) == ("anthropic", MODEL, "off")
    assert (state["isStreaming"], state["isCompacting"], state["messageCount"]) == (False, False, 2)
    assert os.path.exists(state["sessionFile"])
    stats = host.call("getSessionStats")
    assert (stats["sessionId"], stats["sessionFile"]) == (state["sessionId"], state["sessionFile"])
    assert (stats["userMessages"], stats["assistantMessages"], stats["totalMessages"]) == (1, 1, 2)
    assert stats["tokens"] == {"input": 50, "output": 7, "cacheRead": 50, "cacheWrite": 0, "total": 107}
    assert stats["cost"] == pytest.approx((50 * 3 + 50 * 0.3 + 7 * 15) / 1e6)
    messages = host.call("getMessages")
    assert texts(messages) == [("user", "hi"), ("assistant", "Hello there.")]
    assert (messages[1]["api"], messages[1]["stopReason"]) == ("anthropic-messages", "stop")
    assert host.call("getLastAssistantText") == "Hello there."
    page = place.folder / "page.html"
    assert host.call("exportHtml", str(page)) == {"path": str(page)}
    assert "Hello there." in page.read_text()
    assert host.finish() == 0


@pytest.mark.parametrize("peer", CLIENTS[:3], indirect=True)  # pi 1.5 needs what omp does not have
def test_a_host_that_says_no_version_gets_its_answers_too(peer: Package, place: Place, service: Service) -> None:
    host = client(peer, place, service.url)
    host.call("start")
    service.give(VENDOR.says(Thinking("Hm.", "c2ln"), Text("Hello.")))
    assert texts(host.ask("hi")[-1]["messages"]) == [("user", "hi"), ("assistant", "Hello.")]
    assert host.call("getState")["messageCount"] == 2


def test_tools_run_and_their_results_reach_the_model(begin: Begin, service: Service) -> None:
    host = begin()
    calls = (ToolCall("t1", "Bash", {"command": "echo one"}), ToolCall("t2", "Bash", {"command": "exit 3"}))
    service.give(VENDOR.says(Text("Both."), *calls), says("Done."))
    events = host.ask("run")
    ends = {event["toolCallId"]: event for event in events if event["type"] == "tool_execution_end"}
    assert {id: event["isError"] for id, event in ends.items()} == {"t1": False, "t2": True}
    assert ends["t1"]["result"]["content"][0]["text"].split().count("one") == 1
    [first, _] = [event for event in events if event["type"] == "turn_end"]
    assert {result["toolCallId"] for result in first["toolResults"]} == {"t1", "t2"}
    assert [message["role"] for message in events[-1]["messages"]] == [
        "user", "assistant", "toolResult", "toolResult", "assistant",
    ]  # fmt: skip
    results = [block for block in requested(service)[-1]["content"] if block["type"] == "tool_result"]
    assert [result["tool_use_id"] for result in results] == ["t1", "t2"]


def test_models_levels_and_switches(begin: Begin, place: Place) -> None:
    other = "claude-opus-4-1"
    place.configure(f'[models."{other}"]\nwindow = 1000000\n')
    host = begin()
    models = {(model["provider"], model["id"]): model for model in host.call("getAvailableModels")}
    assert {("anthropic", MODEL), ("anthropic", other)} <= models.keys()
    assert models["anthropic", other]["contextWindow"] == 1_000_000
    assert host.call("setModel", "anthropic", other)["id"] == other
    with pytest.raises(CallFailed, match="nobody/nothing"):
        host.call("setModel", "nobody", "nothing")
    assert host.call("getState")["model"]["id"] == other
    cycled = host.call("cycleModel")
    assert (cycled["model"]["provider"], cycled["model"]["id"]) in models
    assert cycled["model"]["id"] != other
    assert host.call("getState")["model"]["id"] == cycled["model"]["id"]
    host.call("setModel", "anthropic", MODEL)

    host.call("setThinkingLevel", "high")
    assert host.call("getState")["thinkingLevel"] == "high"
    assert host.call("cycleThinkingLevel") == {"level": "xhigh"}
    assert host.call("cycleThinkingLevel") == {"level": "off"}
    assert host.call("getState")["thinkingLevel"] == "off"

    for name in ("setSteeringMode", "setFollowUpMode"):
        host.call(name, "all")
    host.call("setAutoCompaction", False)
    host.call("setAutoRetry", False)
    state = host.call("getState")
    result = (state["steeringMode"], state["followUpMode"], state["autoCompactionEnabled"])
    assert result == ("all", "all", False)


def test_what_is_said_during_a_turn_joins_it(begin: Begin, service: Service, peer: Package) -> None:
    host = begin()
    counted = "pendingMessageCount" if peer.is_pi else "queuedMessageCount"
    service.give(stuck("Working.", WAIT), says("Faster."), says("And that."))
    host.call("prompt", "work")
    host.until("message_update", lambda event: event["assistantMessageEvent"]["type"] == "text_delta")
    host.call("steer", "faster")
    host.call("followUp", "and that")
    state = host.call("getState")
    assert (state["isStreaming"], state[counted]) == (True, 2)
    service.go()
    events = host.until("agent_end")
    assert kinds(events).count("agent_start") == 0, "all of it is one run"
    assert texts(events[-1]["messages"]) == [
        ("user", "work"), ("assistant", "Working."),
        ("user", "faster"), ("assistant", "Faster."),
        ("user", "and that"), ("assistant", "And that."),
    ]  # fmt: skip
    assert host.call("getState")[counted] == 0


def test_a_turn_is_aborted_and_the_next_one_runs(begin: Begin, service: Service, peer: Package) -> None:
    host = begin()
    service.give(stuck("Working."))
    host.call("prompt", "work")
    host.until("message_update", lambda event: event["assistantMessageEvent"]["type"] == "text_delta")
    host.call("abort")
    last = host.until("agent_end")[-1]["messages"][-1]
    assert (last["stopReason"], last["content"][0]["text"]) == ("aborted", "Working.")
    assert last["errorMessage"] == ("Interrupted by user" if peer.protocol == "18" else "Request was aborted")
    eventually(lambda: service.left == 1)
    host.call("abort")  # nothing runs: that is no mistake
    service.give(says("Hello."))
    assert texts(host.ask("again")[-1]["messages"]) == [("user", "again"), ("assistant", "Hello.")]


@pytest.mark.parametrize("peer", CLIENTS[:2], indirect=True)  # pi's has no such call
def test_a_turn_makes_way_for_another(begin: Begin, service: Service) -> None:
    host = begin()
    service.give(stuck("Working."), says("Hello."))
    host.call("prompt", "work")
    host.until("message_update", lambda event: event["assistantMessageEvent"]["type"] == "text_delta")
    host.call("abortAndPrompt", "rather this")
    assert texts(host.until("agent_end")[-1]["messages"]) == [("user", "work"), ("assistant", "Working.")]
    assert texts(host.until("agent_end")[-1]["messages"]) == [("user", "rather this"), ("assistant", "Hello.")]


def test_a_command_of_the_user_runs_beside_a_turn_and_can_be_stopped(begin: Begin, service: Service) -> None:
    host = begin()
    service.give(stuck("Working.", WAIT), says("Fine."))
    host.call("prompt", "work")
    done = host.call("bash", "echo out; echo err >&2; exit 3")
    assert (done["exitCode"], done["cancelled"], done["truncated"]) == (3, False, False)
    assert sorted(done["output"].split()) == ["err", "out"]
    slow = host.begin("bash", "echo begun; sleep 60")
    assert host.call("getState")["isStreaming"]
    host.call("abortBash")
    stopped = host.result(slow)
    assert (stopped["cancelled"], "exitCode" in stopped) == (True, False)
    service.go()
    host.until("agent_end")
    host.ask("and?")
    said = last_request(service)
    assert "echo out" in said
    assert "err" in said
    executions = [message for message in host.call("getMessages") if message["role"] == "bashExecution"]
    assert [(one["command"], one["cancelled"]) for one in executions] == [
        ("echo out; echo err >&2; exit 3", False), ("echo begun; sleep 60", True),
    ]  # fmt: skip


def test_a_conversation_is_compacted(begin: Begin, service: Service) -> None:
    host = begin()
    for number in range(3):
        service.give(says(f"Answer {number}. " + "word " * 20_000))
        host.ask(f"question {number}")
    service.give(says("All was about numbers."))
    result = host.call("compact", "keep the numbers")
    assert "All was about numbers." in result["summary"]
    assert result["tokensBefore"] > 0
    assert result["firstKeptEntryId"]
    assert "keep the numbers" in last_request(service)
    roles = [message["role"] for message in host.call("getMessages")]
    assert roles[0] == "compactionSummary"
    assert len(roles) < 6
    service.give(says("Yes."))
    host.ask("do you remember?")
    assert "All was about numbers." in last_request(service)
    assert "question 0" not in last_request(service)


def test_sessions_are_begun_forked_and_returned_to(begin: Begin, service: Service, peer: Package) -> None:
    points, fork = ("getForkMessages", "fork") if peer.is_pi else ("getBranchMessages", "branch")
    host = begin()
    for number in range(2):
        service.give(says(f"Answer {number}."))
        host.ask(f"question {number}")
    first = host.call("getState")

    first_point, second_point = host.call(points)
    assert (first_point["text"], second_point["text"]) == ("question 0", "question 1")
    assert host.call(fork, second_point["entryId"]) == {"text": "question 1", "cancelled": False}
    forked = host.call("getState")
    assert forked["sessionId"] != first["sessionId"]
    assert texts(host.call("getMessages")) == [("user", "question 0"), ("assistant", "Answer 0.")]
    service.give(says("Otherwise."))
    host.ask("question 1, put differently")
    assert texts(host.call("getMessages"))[2:] == [
        ("user", "question 1, put differently"), ("assistant", "Otherwise."),
    ]  # fmt: skip
    with pytest.raises(CallFailed):
        host.call(fork, "no such entry")

    assert host.call("newSession", first["sessionFile"]) == {"cancelled": False}
    new = host.call("getState")
    assert new["sessionId"] not in (first["sessionId"], forked["sessionId"])
    assert (new["messageCount"], host.call("getMessages"), host.call("getLastAssistantText")) == (0, [], None)

    assert host.call("switchSession", first["sessionFile"]) == {"cancelled": False}
    assert host.call("getState")["sessionId"] == first["sessionId"]
    assert host.call("getLastAssistantText") == "Answer 1."
    service.give(says("Of course."))
    host.ask("do you remember?")
    assert [message["role"] for message in requested(service)] == ["user", "assistant", "user", "assistant", "user"]
    with pytest.raises(CallFailed):
        host.call("switchSession", "/nowhere/at/all.jsonl")
    assert host.call("getState")["sessionId"] == first["sessionId"]


def test_a_failure_of_the_service_is_tried_again_unless_that_is_switched_off(begin: Begin, service: Service) -> None:
    host = begin()
    fails = reply(b'{"error":{"message":"too much"}}', status=529, kind="application/json", retry_after="0.01")
    service.give(fails, says("At last."))
    host.call("prompt", "hi")
    assert host.until("agent_end")[-1]["messages"][-1]["stopReason"] == "error"
    assert texts(host.until("agent_end")[-1]["messages"])[-1] == ("assistant", "At last.")

    host.call("setAutoRetry", False)
    service.give(fails)
    before = len(service.requests)
    last = host.ask("again")[-1]["messages"][-1]
    assert (last["stopReason"], len(service.requests) - before) == ("error", 1)
    assert "too much" in last["errorMessage"]

    host.call("setAutoRetry", True)
    service.give(reply(b"{}", status=529, kind="application/json", retry_after="60"))
    host.call("prompt", "once more")
    host.until("agent_end")
    host.call("abortRetry")
    eventually(lambda: not host.call("getState")["isStreaming"])


# What only one of them can call.


@pytest.mark.parametrize("peer", ["omp 18.3"], indirect=True)
def test_a_tool_of_the_host_runs_in_the_host(begin: Begin, service: Service) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    host = begin({"name": "weather", "description": "What it is like outside", "parameters": schema})
    service.give(VENDOR.says(ToolCall("w1", "weather", {"city": "Oslo"})), says("Fine."))
    [end] = [event for event in host.ask("how is it?") if event["type"] == "tool_execution_end"]
    assert (end["isError"], end["result"]["content"][0]["text"]) == (False, 'was given {"city":"Oslo"}')
    assert "was given" in last_request(service)
    page = host.call("getMessagesPage", {"limit": 3})
    assert ([message["role"] for message in page["messages"]], page["totalMessages"]) == (
        ["user", "assistant", "toolResult"], 4,
    )  # fmt: skip
    assert texts(host.call("getMessagesPage", {"cursor": page["nextCursor"]})["messages"]) == [("assistant", "Fine.")]
    assert (host.call("getSubagents"), host.call("setSubagentSubscription", "off")) == ([], "off")
    assert "compact" in [command["name"] for command in host.call("getAvailableCommands")]


@pytest.mark.parametrize("peer", ["omp 18.3"], indirect=True)
def test_a_host_waits_for_its_own_prompt_behind_a_filter_and_long_frames_come_whole(
    begin: Begin, service: Service, place: Place
) -> None:
    host, question, answer = begin(), "y" * 100_000, "x" * 1_000_000
    host.call("waitForSettled", 5000)
    assert host.call("setEventFilter", ["agent_end"]) == ["agent_end"]
    service.give(VENDOR.says(Text(answer), width=100_000))
    [end] = host.call("promptAndWait", question)
    assert texts(end["messages"]) == [("user", question), ("assistant", answer)]
    host.call("waitForSettled", 5000)
    before = host.call("getState")
    assert host.call("setEventFilter", None) is None
    assert texts(host.call("getMessages")) == [("user", question), ("assistant", answer)]

    service.give(says("It was about letters."))
    assert host.call("handoff", "briefly") is None
    assert host.call("getState")["sessionId"] != before["sessionId"]
    service.give(says("Yes."))
    host.ask("do you remember?")
    assert "It was about letters." in last_request(service)
    opened = host.call("openSession", elsewhere := str(place.folder / "elsewhere"))
    assert (opened["cancelled"], opened["resumed"], opened["sessionFile"].startswith(elsewhere)) == (False, False, True)
    service.give(says("Hello."))
    host.ask("hi")
    assert host.call("openSession", elsewhere) == {**opened, "resumed": True}
    back = host.call("openSession", os.path.dirname(os.path.dirname(before["sessionFile"])))
    assert back["resumed"]
    again = host.call("openSession", elsewhere)
    assert (again["sessionId"], again["resumed"]) == (opened["sessionId"], True)


@pytest.mark.parametrize("peer", ["omp 18.3"], indirect=True)
def test_what_there_is_no_such_thing_of_is_refused_at_once(begin: Begin) -> None:
    host = begin()
    for method, *args in (("setFastMode", True), ("getLoginProviders",), ("handoff",)):  # nothing was said yet
        with pytest.raises(CallFailed):
            host.call(method, *args)


@pytest.mark.parametrize("peer", ["pi", "pi 1.5"], indirect=True)
def test_a_session_is_named_and_cloned(begin: Begin, service: Service) -> None:
    host = begin()
    service.give(says("Hello."))
    host.ask("hi")
    host.call("setSessionName", "A talk")
    before = host.call("getState")
    assert before["sessionName"] == "A talk"
    assert host.call("clone") == {"cancelled": False}
    assert host.call("getState")["sessionId"] != before["sessionId"]
    assert texts(host.call("getMessages")) == [("user", "hi"), ("assistant", "Hello.")]
    commands = {command["name"]: command for command in host.call("getCommands")}
    assert commands["compact"]["sourceInfo"]["path"] == "<polylect:compact>"


@pytest.mark.parametrize("peer", ["pi 1.5"], indirect=True)
def test_what_becomes_of_a_text_and_the_tree_of_a_session(begin: Begin, service: Service) -> None:
    host = begin()
    service.give(stuck("Working.", WAIT), says("Fine."))
    assert host.call("prompt", "work") == "started"
    host.until("message_update", lambda event: event["assistantMessageEvent"]["type"] == "text_delta")
    assert host.call("prompt", "faster", [], "steer") == "queued"
    assert (host.call("steer", "louder"), host.call("followUp", "and that")) == ("queued", "queued")
    assert host.call("clearQueue") == {"steering": ["faster", "louder"], "followUp": ["and that"]}
    assert host.call("clearQueue") == {"steering": [], "followUp": []}
    service.go()
    assert texts(host.until("agent_end")[-1]["messages"]) == [("user", "work"), ("assistant", "Working.")]
    entries, tree = host.call("getEntries"), host.call("getTree")
    [root] = tree["tree"]
    [child] = root["children"]
    assert ([root["entry"], child["entry"]], child["children"]) == (entries["entries"], [])
    assert tree["leafId"] == entries["leafId"] == child["entry"]["id"]
    assert host.call("getEntries", root["entry"]["id"])["entries"] == [child["entry"]]
    with pytest.raises(CallFailed, match="Entry not found"):
        host.call("getEntries", "nowhere")
    assert host.call("getAvailableThinkingLevels")[0] == "off"
    done = host.call("bash", "echo out")
    *_, printed = host.until("bash_execution_update")
    assert (printed["delta"], done["output"]) == ("out\n", "out\n")


def test_stop_ends_the_engine(begin: Begin, service: Service) -> None:
    host = begin()
    host.call("getState")
    engines = host.children()
    assert engines
    service.give([STALL])
    host.call("prompt", "hang")
    host.call("stop")
    eventually(lambda: not any(map(os.path.exists, engines)))
    assert host.finish() == 0
