"""Every command: what it means, and the data of its response."""

from typing import Any

import msgspec
import pytest

from dialects.omp.engine_talk import EngineTalk, Frame, kinds
from polylect.dialects.omp.frames.table import REQUESTS
from polylect.dialects.omp.host.chunks import Chunks
from polylect.vocab.answers import (
    AgentCard,
    CommandCard,
    Cycled,
    Exported,
    ForkPoint,
    Item,
    ModelCard,
    Queue,
    SessionOpened,
    ShellResult,
    State,
    Stats,
)
from polylect.vocab.commands import (
    AddContext,
    Authenticate,
    Cancel,
    ChangeSteer,
    Command,
    Compact,
    Configure,
    Hello,
    HostReply,
    OpenSession,
    Prompt,
    Query,
    RunShell,
    Steer,
)
from polylect.vocab.content import Failure, Image, Message, PlanItem, Text, ToolCall, ToolResult, Usage
from polylect.vocab.events import (
    BlockEnded,
    CompactionEnded,
    CompactionStarted,
    Display,
    HostCall,
    HostCallEnded,
    Notice,
    Reply,
    Settled,
    ShellOutput,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
)

R = {"ref": "new-1"}
GIF = {"type": "image", "data": "R0lG", "mimeType": "image/gif"}
TOOL = {"name": "look", "description": "Looks", "parameters": {"type": "object"}}
CARD = ModelCard("p", "m", "responses", "https://x", 1000, 100, True, ("low", "high"), False, (1.0, 2.0, None, 0.5))
MODEL = {
    "id": "m", "name": "m", "api": "openai-responses", "provider": "p", "baseUrl": "https://x", "reasoning": True,
    "input": ["text"], "cost": {"input": 1.0, "output": 2.0, "cacheRead": 0, "cacheWrite": 0.5},
    "contextWindow": 1000, "maxTokens": 100, "thinking": {"mode": "effort", "minLevel": "low", "maxLevel": "high"},
}  # fmt: skip
ITEMS = (
    Item("e1", 5, Message("user", (Text("hi"), Image("image/gif", "R0lG")))),
    Item("e2", 6, Message("assistant", (Text("yo"), ToolCall("c", "Read", {"a": 1})), "calls", Usage(1, 2), "m", "p")),
    Item("e3", 7, Message("tool", (ToolResult("c", "Read", "x"), ToolResult("d", "Read", "y", "error")))),
    Item("e4", 8, Message("user", ()), "shell", ShellResult("ls", "a\n", 1)),
    Item("e5", 9, Message("user", (Text("so far"),)), "summary", before=99),
)
OPENED = SessionOpened("s2", "/s2.jsonl", "hi")

MEANING: list[tuple[Frame, Command]] = [
    ({"type": "prompt", "message": "hi", "images": [GIF]},
     Prompt("new-2", "hi", (Image("image/gif", "R0lG"),), "refuse", **R)),
    ({"type": "steer", "message": "hi"}, Steer("hi", (), "soon", "keep", **R)),
    ({"type": "follow_up", "message": "hi", "images": None}, Steer("hi", (), "last", "keep", **R)),
    ({"type": "abort"}, Cancel("turn", queued="keep", **R)),
    ({"type": "abort_and_prompt", "message": "hi"}, Prompt("new-2", "hi", (), "interrupt", **R)),
    ({"type": "clear_queue"}, Cancel("steers", **R)),
    ({"type": "remove_queued_message", "message": "hi", "queue": "steering"}, ChangeSteer("hi", "soon", **R)),
    ({"type": "promote_queued_message", "message": "hi"}, ChangeSteer("hi", "last", "promote", **R)),
    ({"type": "get_queue"}, Query("queue", **R)),
    ({"type": "new_session", "parentSession": "/a.jsonl"}, OpenSession("new", parent="/a.jsonl", **R)),
    ({"type": "get_state"}, Query("state", **R)),
    ({"type": "get_messages"}, Query("messages", **R)),
    ({"type": "get_messages_page", "limit": 2}, Query("messages", **R)),
    ({"type": "get_entries"}, Query("messages", **R)),
    ({"type": "get_tree"}, Query("messages", **R)),
    ({"type": "get_last_assistant_text"}, Query("last_text", **R)),
    ({"type": "set_model", "provider": "p", "modelId": "m"}, Configure({"model": "m", "provider": "p"}, **R)),
    ({"type": "cycle_model"}, Configure({"cycle": "model"}, **R)),
    ({"type": "get_available_models"}, Query("models", **R)),
    ({"type": "set_thinking_level", "level": "high"}, Configure({"thinking": "high"}, **R)),
    ({"type": "cycle_thinking_level"}, Configure({"cycle": "thinking"}, **R)),
    ({"type": "get_available_thinking_levels"}, Query("thinking_levels", **R)),
    ({"type": "set_steering_mode", "mode": "all"}, Configure({"steering_mode": "all"}, **R)),
    ({"type": "set_follow_up_mode", "mode": "all"}, Configure({"follow_up_mode": "all"}, **R)),
    ({"type": "set_interrupt_mode", "mode": "wait"}, Configure({"interrupt_mode": "wait"}, **R)),
    ({"type": "compact", "customInstructions": "briefly"}, Compact("briefly", "interrupt", **R)),
    ({"type": "set_auto_compaction", "enabled": False}, Configure({"auto_compaction": False}, **R)),
    ({"type": "set_auto_retry", "enabled": False}, Configure({"auto_retry": False}, **R)),
    ({"type": "abort_retry"}, Cancel("retry", **R)),
    ({"type": "bash", "command": "ls"}, RunShell("ls", **R)),
    ({"type": "bash", "command": "ls", "excludeFromContext": True}, RunShell("ls", True, **R)),
    ({"type": "abort_bash"}, Cancel("shell", **R)),
    ({"type": "get_session_stats"}, Query("stats", **R)),
    ({"type": "export_html", "outputPath": "a.html"}, Query("export", {"path": "a.html"}, **R)),
    ({"type": "switch_session", "sessionPath": "/a.jsonl"}, OpenSession("resume", "/a.jsonl", **R)),
    ({"type": "open_session", "sessionDir": "/a"}, OpenSession("resume", within="/a", **R)),
    ({"type": "branch", "entryId": "e1"}, OpenSession("fork", at="e1", **R)),
    ({"type": "fork", "entryId": "e1"}, OpenSession("fork", at="e1", **R)),
    ({"type": "clone"}, OpenSession("fork", **R)),
    ({"type": "get_branch_messages"}, Query("fork_points", **R)),
    ({"type": "get_fork_messages"}, Query("fork_points", **R)),
    ({"type": "set_session_name", "name": "n"}, Configure({"name": "n"}, **R)),
    ({"type": "get_commands"}, Query("commands", **R)),
    ({"type": "get_available_commands"}, Query("commands", **R)),
    ({"type": "get_subagents"}, Query("agents", **R)),
    ({"type": "get_subagent_messages", "subagentId": "k"}, Query("agent_messages", {"agent": "k"}, **R)),
    ({"type": "cancel_subagent", "subagentId": "k"}, Cancel("agent", "k", **R)),
    ({"type": "steer_subagent", "subagentId": "k", "message": "hi"}, Steer("hi", to="k", **R)),
    ({"type": "handoff", "customInstructions": "briefly"}, Compact("briefly", **R)),
    ({"type": "set_todos", "phases": []}, Configure({"todos": []}, **R)),
    ({"type": "set_host_tools", "tools": [TOOL]}, Hello(offers={"tools": [TOOL]}, **R)),
    ({"type": "set_host_uri_schemes", "schemes": ["x"]}, Hello(offers={"uri_schemes": ["x"]}, **R)),
    ({"type": "get_login_providers"}, Query("login_methods", **R)),
    ({"type": "login", "providerId": "p"}, Authenticate("p", **R)),
]  # fmt: skip
ALONE = {
    "negotiate_protocol", "set_event_filter", "set_fast_mode", "set_subagent_subscription", "abort_and_restore_queue",
    "set_ask_dialog",
}  # fmt: skip

ANSWERS: list[tuple[Frame, Any, Any]] = [
    ({"type": "get_last_assistant_text"}, None, {"text": None}),
    ({"type": "get_last_assistant_text"}, "yo", {"text": "yo"}),
    ({"type": "cycle_model"}, None, None),
    ({"type": "cycle_model"}, Cycled(CARD, "low"), {"model": MODEL, "thinkingLevel": "low", "isScoped": False}),
    ({"type": "cycle_thinking_level"}, None, None),
    ({"type": "cycle_thinking_level"}, Cycled(thinking="low"), {"level": "low"}),
    ({"type": "get_available_models"}, (CARD,), {"models": [MODEL]}),
    ({"type": "get_available_thinking_levels"}, ("off", "low"), {"levels": ["off", "low"]}),
    ({"type": "get_branch_messages"}, (ForkPoint("e1", "hi"),), {"messages": [{"entryId": "e1", "text": "hi"}]}),
    ({"type": "get_fork_messages"}, (), {"messages": []}),
    ({"type": "export_html"}, Exported("/a.html"), {"path": "/a.html"}),
    ({"type": "new_session"}, OPENED, {"cancelled": False}),
    ({"type": "switch_session", "sessionPath": "x"}, OPENED, {"cancelled": False}),
    ({"type": "clone"}, OPENED, {"cancelled": False}),
    ({"type": "branch", "entryId": "e"}, OPENED, {"text": "hi", "cancelled": False}),
    ({"type": "fork", "entryId": "e"}, OPENED, {"text": "hi", "cancelled": False}),
    ({"type": "open_session", "sessionDir": "x"}, OPENED,
     {"cancelled": False, "resumed": False, "sessionId": "s2", "sessionFile": "/s2.jsonl"}),
    ({"type": "get_queue"}, Queue(("p",), ("a",), ("b",)), {"steering": ["a"], "followUp": ["b"]}),
    ({"type": "clear_queue"}, Queue((), ("a",), ("b",)), {"steering": ["a"], "followUp": ["b"]}),
    ({"type": "remove_queued_message", "message": "a", "queue": "followUp"}, False, {"removed": False}),
    ({"type": "promote_queued_message", "message": "a"}, True, {"promoted": True}),
    ({"type": "get_tree"}, (), {"tree": [], "leafId": None}),
    ({"type": "get_subagents"}, (AgentCard("k", "scout", "look"),),
     {"subagents": [{"id": "k", "index": 0, "agent": "scout", "task": "look", "status": "running"}]}),
    ({"type": "get_commands"}, (CommandCard("help", "Helps"),),
     {"commands": [{"name": "help", "description": "Helps", "source": "prompt"}]}),
    ({"type": "bash", "command": "ls"}, ShellResult("ls", "a\nb", 2, lines=2, size=3),
     {"output": "a\nb", "cancelled": False, "truncated": False, "exitCode": 2, "totalLines": 2, "totalBytes": 3,
      "outputLines": 2, "outputBytes": 3}),
    ({"type": "bash", "command": "ls"}, ShellResult("ls", "", None, cancelled=True, truncated=True, path="/all"),
     {"output": "", "cancelled": True, "truncated": True, "fullOutputPath": "/all", "totalLines": 0, "totalBytes": 0,
      "outputLines": 0, "outputBytes": 0}),
    ({"type": "set_host_tools", "tools": [TOOL]}, None, {"toolNames": ["look"]}),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "command"), MEANING, ids=[frame["type"] for frame, _ in MEANING])
def test_a_command_means_this(frame: Frame, command: Command) -> None:
    talk = EngineTalk()
    assert talk.receive(frame) == []
    assert talk.commands == [command]


def test_every_command_of_the_wire_is_known() -> None:
    assert {frame["type"] for frame, _ in MEANING} | ALONE == set(REQUESTS)


@pytest.mark.parametrize(("frame", "data", "answer"), ANSWERS, ids=[frame["type"] for frame, _, _ in ANSWERS])
def test_its_response_carries_this(frame: Frame, data: Any, answer: Any) -> None:
    response = {"type": "response", "id": 7, "command": frame["type"], "success": True, "data": answer}
    assert EngineTalk().ask({"id": 7, **frame}, data) == [response]


def test_a_command_without_data_is_answered_without_data() -> None:
    for frame, _ in MEANING:
        if frame["type"] in ("set_auto_retry", "abort_bash", "steer", "set_session_name", "clear_queue"):
            assert EngineTalk().ask(frame) == [{"type": "response", "command": frame["type"], "success": True}]


def test_pi_is_told_where_a_command_comes_from() -> None:
    [answer] = EngineTalk("pi").ask({"type": "get_commands"}, (CommandCard("help", "Helps"),))
    source = {"path": "<polylect:help>", "source": "polylect", "scope": "user", "origin": "top-level"}
    assert answer["data"]["commands"] == [
        {"name": "help", "description": "Helps", "source": "prompt", "sourceInfo": source}
    ]


def test_the_state_has_the_keys_of_the_seed_in_its_order() -> None:
    state = State("s", "m", thinking="low", name="n", card=CARD, file="/s.jsonl", messages=3, queued=1, busy=True)
    actual = EngineTalk().ask({"type": "get_state"}, state)[0]["data"]
    assert list(actual.items()) == [
        ("model", MODEL), ("thinkingLevel", "low"), ("isStreaming", True), ("isCompacting", False),
        ("steeringMode", "one-at-a-time"), ("followUpMode", "one-at-a-time"), ("interruptMode", "immediate"),
        ("sessionFile", "/s.jsonl"), ("sessionId", "s"), ("sessionName", "n"), ("autoCompactionEnabled", True),
        ("messageCount", 3), ("queuedMessageCount", 1),
    ]  # fmt: skip


def test_what_a_state_does_not_have_is_left_out_and_pi_counts_by_another_name() -> None:
    bare = EngineTalk().ask({"type": "get_state"}, State("s"))[0]["data"]
    assert {"model", "thinkingLevel", "sessionFile", "sessionName"}.isdisjoint(bare)
    pi = EngineTalk("pi").ask({"type": "get_state"}, State("s", queued=2))[0]["data"]
    assert pi["pendingMessageCount"] == 2
    assert {"queuedMessageCount", "interruptMode"}.isdisjoint(pi)


def test_18_tells_whether_all_is_settled_and_what_fills_the_window() -> None:
    state = State("s", card=CARD, settled=True, context=250, plan=(PlanItem("Look", "completed"),))
    actual = EngineTalk("18").ask({"type": "get_state"}, state)[0]["data"]
    assert {key: actual[key] for key in list(actual)[-7:]} == {
        "fastModeEnabled": False, "fastModeActive": False, "tokensPerSecond": None, "hasPendingAsyncWork": False,
        "isSettled": True, "todoPhases": [{"name": "Plan", "tasks": [{"content": "Look", "status": "completed"}]}],
        "contextUsage": {"tokens": 250, "contextWindow": 1000, "percent": 25.0},
    }  # fmt: skip
    assert "contextUsage" not in EngineTalk("18").ask({"type": "get_state"}, State("s"))[0]["data"]


def test_stats_are_counted_and_summed() -> None:
    stats = Stats("s", 1, 2, 3, 4, Usage(1, 2, 3, 4, 0.5), "/s.jsonl")
    assert EngineTalk().ask({"type": "get_session_stats"}, stats)[0]["data"] == {
        "sessionFile": "/s.jsonl", "sessionId": "s", "userMessages": 1, "assistantMessages": 2, "toolCalls": 3,
        "toolResults": 4, "totalMessages": 7,
        "tokens": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "total": 10}, "cost": 0.5,
        "premiumRequests": 0,
    }  # fmt: skip


def test_messages_have_their_roles_and_times() -> None:
    actual = EngineTalk(api="openai_chat").ask({"type": "get_messages"}, ITEMS)[0]["data"]["messages"]
    assert [(message["role"], message["timestamp"]) for message in actual] == [
        ("user", 5), ("assistant", 6), ("toolResult", 7), ("toolResult", 7), ("bashExecution", 8),
        ("compactionSummary", 9),
    ]  # fmt: skip
    assert actual[0]["content"] == [{"type": "text", "text": "hi"}, GIF]
    assert (actual[1]["api"], actual[1]["provider"], actual[1]["stopReason"]) == ("openai-completions", "p", "toolUse")
    assert [result["isError"] for result in actual[2:4]] == [False, True]
    assert actual[4]["exitCode"] == 1
    assert actual[5] == {"role": "compactionSummary", "summary": "so far", "tokensBefore": 99, "timestamp": 9}


def test_messages_come_page_by_page_and_a_stale_cursor_is_refused() -> None:
    talk = EngineTalk("18")
    ask: Frame = {"type": "get_messages_page", "limit": 4}
    first = talk.ask(ask, ITEMS)[0]["data"]
    assert (len(first["messages"]), first["nextCursor"], first["totalMessages"]) == (4, "4.6.e5", 6)
    last = talk.ask({**ask, "cursor": "4.6.e5"}, ITEMS)[0]["data"]
    assert (len(last["messages"]), "nextCursor" in last) == (2, False)
    for cursor, items in (("99.6.e5", ITEMS), ("4", ITEMS), ("4.6.e5", ITEMS[:-1])):
        refused = talk.ask({**ask, "cursor": cursor}, items)[0]
        assert (refused["success"], refused["code"]) == (False, "stale_cursor")


def test_a_page_fits_into_a_line_unless_one_message_does_not() -> None:
    long = tuple(Item("e", 5, Message("user", (Text("x" * 300_000),))) for _ in range(4))
    talk, counts, cursor = EngineTalk("18"), [], {}
    while "cursor" not in cursor or cursor["cursor"]:
        page = talk.ask({"type": "get_messages_page", **cursor}, long)[0]["data"]
        counts.append(len(page["messages"]))
        cursor = {"cursor": page.get("nextCursor", "")}
    assert counts == [2, 2]
    huge = (Item("e", 5, Message("user", (Text("x" * 900_000),))), *long)
    assert len(talk.ask({"type": "get_messages_page"}, huge)[0]["data"]["messages"]) == 1


def test_entries_are_a_chain_and_can_be_asked_for_since_one() -> None:
    talk = EngineTalk("18")
    actual = talk.ask({"type": "get_entries"}, ITEMS)[0]["data"]
    assert [(entry["id"], entry["parentId"]) for entry in actual["entries"]][:3] == [
        ("e1", None), ("e2", "e1"), ("e3", "e2"),
    ]  # fmt: skip
    assert actual["entries"][0]["timestamp"] == "1970-01-01T00:00:00.005Z"
    assert actual["leafId"] == "e5"
    since = talk.ask({"type": "get_entries", "since": "e4"}, ITEMS)[0]["data"]
    assert [entry["id"] for entry in since["entries"]] == ["e5"]
    assert talk.ask({"type": "get_entries", "since": "no"}, ITEMS)[0]["success"] is False


def test_the_tree_is_the_chain_nested_however_long_it_is() -> None:
    items = [Item(f"e{number}", 5, Message("user", (Text("hi"),))) for number in range(3000)]
    talk = EngineTalk("18")
    talk.receive({"id": "t", "type": "get_tree"})
    talk.side.send(Reply(talk.commands[0].ref, items[:2]))
    (answer,) = talk.frames()
    [root] = answer["data"]["tree"]
    [child] = root["children"]
    assert (root["entry"]["id"], child["entry"]["parentId"], child["children"]) == ("e0", "e0", [])
    assert answer["data"]["leafId"] == "e1"
    talk.receive({"id": "t", "type": "get_tree"})
    talk.side.send(Reply(talk.commands[0].ref, items))
    line = talk.side.data_to_send()
    assert (line.count(b'"entry":'), line.count(b"["), line.count(b"]")) == (3000, 6001, 6001)
    assert line.endswith(b',"leafId":"e2999"}}\n')
    many = [Item("e", 5, Message("user", (Text("x" * 2000),))) for _ in range(600)]
    assert talk.ask({"id": "t", "type": "get_tree"}, many)[0]["error"] == "RPC response exceeded the transport limit"


@pytest.mark.parametrize(("version", "data"), [("13", None), ("18", None), ("pi", "queued")])
def test_hosts_of_pi_are_told_what_became_of_a_text(version: str, data: str | None) -> None:
    talk, queued = EngineTalk(version), {"data": {"disposition": data}} if data else {}
    started = {"data": {"disposition": "started"}} if data else {}
    for kind, expected in (("steer", queued), ("follow_up", queued), ("prompt", started), ("prompt", queued)):
        frame = {"type": kind, "message": "hi", "streamingBehavior": "steer"}
        assert talk.ask(frame) == [{"type": "response", "command": kind, "success": True, **expected}]


def test_a_model_that_thinks_for_a_number_of_tokens_has_levels_too() -> None:
    (answer,) = EngineTalk().ask({"type": "get_available_models"}, (ModelCard("p", "m", thinking=True),))
    (model,) = answer["data"]["models"]
    assert model["reasoning"] is True
    assert model["thinking"] == {"mode": "budget", "minLevel": "minimal", "maxLevel": "xhigh"}


def test_set_model_is_answered_with_the_model_itself() -> None:
    talk = EngineTalk()
    talk.receive({"id": "m", "type": "set_model", "provider": "p", "modelId": "m"})
    assert talk.send(Reply(talk.commands[0].ref)) == []
    assert talk.commands == [Query("models", ref="new-2")]
    assert talk.send(Reply("new-2", (CARD,)))[0]["data"] == MODEL


def test_a_model_that_does_not_exist_is_refused_under_its_id() -> None:
    failure = Failure("unknown_model", "Model not found: p/x", "host")
    frame = {"id": "req_2", "type": "set_model", "provider": "p", "modelId": "x"}
    assert EngineTalk().ask(frame, failure=failure) == [
        {
            "type": "response", "id": "req_2", "command": "set_model", "success": False,
            "error": "Model not found: p/x",
        }
    ]  # fmt: skip


# Prompts.


def test_a_prompt_is_called_by_its_id_if_that_can_be_a_turn_and_is_free() -> None:
    talk = EngineTalk()
    turns = []
    for id in ("p1", "p1", 7, ""):
        talk.receive({"id": id, "type": "prompt", "message": "hi"})
        turns.append(talk.commands[0].turn)  # type: ignore[union-attr]
    assert turns == ["p1", "new-3", "new-5", "new-7"]


@pytest.mark.parametrize(("how", "when"), [("steer", "soon"), ("followUp", "last"), ("weird", "soon")])
def test_streaming_behavior_counts_only_while_a_turn_runs(how: str, when: Any) -> None:
    talk = EngineTalk()
    frame = {"id": "p2", "type": "prompt", "message": "more", "streamingBehavior": how}
    talk.receive(frame)
    assert isinstance(talk.commands[0], Prompt)
    talk = EngineTalk()
    talk.send(TurnStarted(turn="p1"))
    assert kinds(talk.ask(frame)) == ["response prompt"]
    assert talk.commands == [Steer("more", (), when, "keep", ref="new-1")]


@pytest.mark.parametrize("version", ["13", "18"])
def test_a_prompt_that_fails_is_acknowledged_first_and_fails_under_the_same_id(version: str) -> None:
    frame = {"id": "p2", "type": "prompt", "message": "more"}
    frames = EngineTalk(version).ask(frame, failure=Failure("busy", "a turn is running", "host"))
    assert kinds(frames) == ["response prompt", "response prompt failed"]
    assert [answer["id"] for answer in frames] == ["p2", "p2"]
    assert "streamingBehavior" in frames[1]["error"]


def test_pi_answers_a_prompt_once() -> None:
    frame = {"id": "p2", "type": "prompt", "message": ""}
    frames = EngineTalk("pi").ask(frame, failure=Failure("empty_prompt", "the prompt is empty", "host"))
    assert frames == [
        {"type": "response", "id": "p2", "command": "prompt", "success": False, "error": "the prompt is empty"}
    ]


def test_bash_is_answered_when_it_has_ended_and_others_do_not_wait_for_it() -> None:
    """L4."""
    talk = EngineTalk()
    talk.receive({"id": "b", "type": "bash", "command": "sleep 9"})
    (bash,) = talk.commands
    talk.receive({"id": "a", "type": "abort_bash"})
    (abort,) = talk.commands
    assert kinds(talk.send(Reply(abort.ref), Reply(bash.ref, ShellResult("sleep 9", cancelled=True)))) == [
        "response abort_bash", "response bash",
    ]  # fmt: skip


# What concerns the codec alone.


def test_protocol_2_cuts_long_frames_into_chunks_that_our_host_joins() -> None:
    talk = EngineTalk("18")
    refused = talk.receive({"id": "n", "type": "negotiate_protocol", "protocolVersion": 3})[0]
    assert refused["error"] == "Unsupported RPC protocol version: 3"
    long = tuple(Item("e", 5, Message("user", (Text(letter * 600_000),))) for letter in "abc")
    ask: Frame = {"id": "m", "type": "get_messages"}
    assert "left out" in str(talk.ask(ask, long)), "protocol 1 knows no longer line"
    for version in (1, 2):
        answer = talk.receive({"id": "n", "type": "negotiate_protocol", "protocolVersion": version})
        assert answer[0]["data"] == {"protocolVersion": version}
    talk.receive(ask)
    talk.side.send(Reply(talk.commands[0].ref, long))
    lines = talk.side.data_to_send().splitlines(keepends=True)
    parts = [msgspec.json.decode(line) for line in lines]
    size = parts[0]["byteLength"]
    assert [(part["type"], part["chunkId"], part["index"], part["count"], part["byteLength"]) for part in parts] == [
        ("rpc_chunk", "rpc-1", index, 7, size) for index in range(7)
    ]
    assert size > 1_800_000
    assert max(map(len, lines)) < 1024 * 1024
    chunks = Chunks(size)
    *none, whole = [chunks.add(part) for part in parts]
    assert (none, whole and len(whole)) == ([None] * 6, size)
    assert [len(message["content"][0]["text"]) for message in msgspec.json.decode(whole)["data"]["messages"]] == [
        600_000
    ] * 3
    assert kinds(talk.ask({"type": "get_state"}, State("s"))) == ["response get_state"], "short ones are whole"


def test_an_event_filter_lets_only_these_through_and_null_lets_all_through() -> None:
    talk = EngineTalk("18")
    assert talk.receive({"type": "set_event_filter", "events": ["agent_end"]})[0]["data"] == {"events": ["agent_end"]}
    ended = talk.send(TurnStarted(turn="t"), TurnEnded("end", turn="t"), Settled())
    assert kinds(ended) == ["agent_end", "prompt_result", "session_settled"], "somebody may wait for the last two"
    shown = talk.send(Display("notify", {"message": "hi"}), Notice("hm"))
    assert kinds(shown) == ["extension_ui_request"]
    assert kinds(talk.receive({"type": "get_state"}) + talk.send(Reply(talk.commands[0].ref))) == ["response get_state"]
    talk.receive({"type": "set_event_filter", "events": None})
    assert kinds(talk.send(TurnStarted(turn="u"))) == ["agent_start"]


def test_updates_can_do_without_the_message_so_far() -> None:
    talk = EngineTalk("18")
    (answer,) = talk.receive({"type": "set_event_filter", "events": None, "messageUpdates": "delta"})
    assert answer["data"] == {"events": None, "messageUpdates": "delta"}
    call = ToolCall("c", "Read", {"a": 1})
    frames = talk.send(
        TurnStarted(turn="t"), StepStarted(turn="t"), TextDelta("Hi", turn="t"), BlockEnded(call, turn="t")
    )
    updates = [frame for frame in frames if frame["type"] == "message_update"]
    assert [frame["message"] for frame in updates] == [{"role": "assistant"}] * 5
    assert updates[1]["assistantMessageEvent"] == {"type": "text_delta", "contentIndex": 0, "delta": "Hi"}
    assert updates[3]["assistantMessageEvent"] == {
        "type": "toolcall_start", "contentIndex": 1, "id": "c", "toolName": "Read",
    }  # fmt: skip
    assert {frame["messageId"] for frame in frames if "message" in frame} == {"msg-1"}


def test_a_level_that_does_not_exist_is_refused() -> None:
    assert EngineTalk().receive({"type": "set_subagent_subscription", "level": "loud"})[0]["success"] is False


def test_a_sub_agent_that_is_not_there_is_not_cancelled() -> None:
    frame = {"type": "cancel_subagent", "subagentId": "k"}
    gone = Failure("unknown_agent", "no agent 'k' is at work", "host")
    assert EngineTalk("18").ask(frame)[0]["data"] == {"cancelled": True}
    assert EngineTalk("18").ask(frame, failure=gone)[0]["data"] == {"cancelled": False}


def test_the_messages_of_a_sub_agent_are_read_on_from_a_byte() -> None:
    talk, ask = EngineTalk("18"), {"type": "get_subagent_messages", "subagentId": "k"}
    first = talk.ask(ask, ITEMS[:2])[0]["data"]
    assert ([message["role"] for message in first["messages"]], first["reset"]) == (["user", "assistant"], False)
    assert [entry["id"] for entry in first["entries"]] == ["e1", "e2"]
    later = talk.ask({**ask, "fromByte": first["nextByte"]}, ITEMS)[0]["data"]
    assert (later["entries"][0]["id"], later["fromByte"]) == ("e3", first["nextByte"])
    again = talk.ask({**ask, "fromByte": later["nextByte"] + 1}, ITEMS)[0]["data"]
    assert (again["reset"], again["fromByte"], len(again["entries"])) == (True, 0, 6)


def test_a_conversation_is_handed_off_to_a_new_session_that_begins_with_its_summary() -> None:
    talk = EngineTalk("18")
    assert talk.ask({"id": "h", "type": "handoff"}) == []
    assert talk.send(CompactionStarted("manual"), CompactionEnded(True, "So far.", 9)) == []
    assert talk.commands == [OpenSession("new", ref="new-2")]
    assert talk.send(Reply("new-2", OPENED)) == []
    [result] = talk.commands
    assert isinstance(result, AddContext)
    assert result.text.endswith("\n\nSo far.")
    answer = {"type": "response", "id": "h", "command": "handoff", "success": True, "data": None}
    assert talk.send(Reply(result.ref)) == [answer]
    for failure, error in (("busy", "Cannot hand off while a response is in progress"), ("nothing", "too short")):
        (answer,) = talk.ask({"id": "h", "type": "handoff"}, failure=Failure(failure, "too short", "host"))
        assert answer["error"] == error


def test_there_is_no_fast_mode() -> None:
    on, off = EngineTalk("18").receive(*({"type": "set_fast_mode", "enabled": expected} for expected in (True, False)))
    assert on["error"] == "Fast mode is unavailable for the current model."
    assert off["data"] == {"enabled": False, "active": False}


def test_a_turn_is_stopped_and_what_waits_comes_back() -> None:
    talk = EngineTalk("18")
    talk.send(TurnStarted(turn="t"))
    talk.receive({"id": "a", "type": "abort_and_restore_queue"})
    assert talk.commands == [Cancel("steers", ref="new-1"), Cancel("turn", queued="keep")]
    assert talk.send(Reply("new-1", Queue(soon=("x",)))) == []
    *_, answer = talk.send(TurnEnded("cancelled", turn="t"))
    assert (answer["id"], answer["data"]) == ("a", {"steering": ["x"], "followUp": []})


@pytest.mark.parametrize(("version", "updates"), [("13", []), ("18", []), ("pi", ["bash_execution_update"])])
def test_hosts_of_pi_hear_what_a_command_prints(version: str, updates: list[str]) -> None:
    talk = EngineTalk(version)
    talk.receive({"id": "b", "type": "bash", "command": "ls"})
    frames = talk.send(
        ShellOutput("new-1", "a\n"), Reply("new-1", ShellResult("ls", "a\n", 0)), ShellOutput("new-1", "b")
    )
    assert kinds(frames) == [*updates, "response bash"]
    assert [frame["delta"] for frame in frames if frame.get("id") == "b" and "delta" in frame] == ["a\n"] * len(updates)


# What a host does for the engine.


def test_a_tool_of_the_hosts_is_called_updated_and_answered() -> None:
    talk = EngineTalk("18")
    call = HostCall("h1", "tool", {"name": "look", "args": {"a": 1}, "call": "c1"})
    assert talk.send(call) == [
        {"type": "host_tool_call", "id": "h1", "toolCallId": "c1", "toolName": "look", "arguments": {"a": 1}}
    ]
    content = [{"type": "text", "text": "x"}]
    talk.receive({"type": "host_tool_update", "id": "h1", "partialResult": {"content": content}})
    assert talk.commands == [HostReply("h1", {"content": content}, partial=True)]
    answer = {"type": "host_tool_result", "id": "h1", "result": {"content": content}, "isError": True}
    talk.receive(answer)
    assert talk.commands == [HostReply("h1", {"content": content, "isError": True})]
    assert talk.receive(answer) == []
    assert talk.commands == []


def test_work_that_is_no_longer_wanted_is_taken_back() -> None:
    talk = EngineTalk("18")
    talk.send(HostCall("h1", "tool", {"name": "look"}), HostCall("h2", "uri", {"url": "x:1"}))
    frames = talk.send(HostCallEnded("h1"), HostCallEnded("h2"), HostCallEnded("h3"))
    assert [(frame["type"], frame["targetId"]) for frame in frames] == [
        ("host_tool_cancel", "h1"), ("host_uri_cancel", "h2"),
    ]  # fmt: skip
    assert talk.side.lost["HostCallEnded"] == 1


def test_work_that_an_omp_host_does_not_know_is_refused_for_it() -> None:
    talk = EngineTalk()
    assert talk.send(HostCall("h1", "hook", {})) == []
    assert talk.commands == [HostReply("h1", error="an omp host cannot be asked for hook")]
