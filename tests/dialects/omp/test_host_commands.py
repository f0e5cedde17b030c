"""What a host can ask of omp and pi, what goes over the wire for it, and what the answers are."""

from typing import Any

import pytest
from msgspec.structs import replace

from dialects.omp.host_talk import IDLE, START, USAGE, Frame, Talk, answer, call, reply, text
from polylect.vocab.answers import (
    CommandCard,
    ContextReport,
    Cycled,
    Exported,
    ForkPoint,
    Item,
    Ledger,
    ModelCard,
    Queue,
    SessionOpened,
    ShellResult,
    State,
    Stats,
)
from polylect.vocab.commands import (
    AddContext,
    AddServer,
    Answer,
    Authenticate,
    Cancel,
    ChangeServer,
    ChangeSteer,
    CloseSession,
    Command,
    Compact,
    Configure,
    Grant,
    Hello,
    HostSays,
    OpenSession,
    Prompt,
    Query,
    Quit,
    Rewind,
    RunShell,
    Steer,
)
from polylect.vocab.content import (
    Document,
    Failure,
    File,
    Image,
    Message,
    Server,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from polylect.vocab.events import (
    CompactionEnded,
    CompactionStarted,
    Failed,
    Reply,
    SettingChanged,
    ShellOutput,
    TurnEnded,
)

MODEL = {
    "id": "m2", "name": "M2", "api": "anthropic-messages", "provider": "p", "baseUrl": "http://x", "reasoning": True,
    "input": ["text", "image"], "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 1000, "maxTokens": 100,
}  # fmt: skip
CARD = ModelCard(
    "p", "m2", "anthropic-messages", "http://x", 1000, 100, thinking=True, images=True, prices=(1, 2, None, None)
)


def requested(talk: Talk, command: Command) -> list[Frame]:
    """What goes over the wire, without ids."""
    refused = talk.send(command)
    assert not [event for event in refused if isinstance(event, Reply) and event.failure], refused
    return [{key: value for key, value in frame.items() if key != "id"} for frame in talk.sent]


# Every command has its frame.


@pytest.mark.parametrize(
    ("command", "frame"),
    [
        (Prompt("t", "hi", (Image("image/gif", "R0lG"),)),
         {"type": "prompt", "message": "hi", "images": [{"type": "image", "data": "R0lG", "mimeType": "image/gif"}]}),
        (Prompt("t", "/help", verbatim=True), {"type": "prompt", "message": " /help"}),
        (Steer("x", when="last", idle="keep"), {"type": "follow_up", "message": "x"}),
        (Cancel("retry"), {"type": "abort_retry"}),
        (Cancel("shell"), {"type": "abort_bash"}),
        (Cancel("steers"), {"type": "clear_queue"}),
        (Configure({"model": "p/org/name"}), {"type": "set_model", "provider": "p", "modelId": "org/name"}),
        (Configure({"model": "m2"}), {"type": "set_model", "provider": "p", "modelId": "m2"}),
        (Configure({"model": "m2", "provider": "q"}), {"type": "set_model", "provider": "q", "modelId": "m2"}),
        (Configure({"thinking": "high"}), {"type": "set_thinking_level", "level": "high"}),
        (Configure({"cycle": "model"}), {"type": "cycle_model"}),
        (Configure({"cycle": "thinking"}), {"type": "cycle_thinking_level"}),
        (Configure({"steering_mode": "all"}), {"type": "set_steering_mode", "mode": "all"}),
        (Configure({"follow_up_mode": "all"}), {"type": "set_follow_up_mode", "mode": "all"}),
        (Configure({"interrupt_mode": "wait"}), {"type": "set_interrupt_mode", "mode": "wait"}),
        (Configure({"auto_compaction": False}), {"type": "set_auto_compaction", "enabled": False}),
        (Configure({"auto_retry": True}), {"type": "set_auto_retry", "enabled": True}),
        (Configure({"name": "A talk"}), {"type": "set_session_name", "name": "A talk"}),
        (Compact("briefly"), {"type": "compact", "customInstructions": "briefly"}),
        (RunShell("ls"), {"type": "bash", "command": "ls"}),
        (OpenSession(how="new", parent="/p"), {"type": "new_session", "parentSession": "/p"}),
        (OpenSession(how="resume", target="/s"), {"type": "switch_session", "sessionPath": "/s"}),
        (OpenSession(how="fork", at="e"), {"type": "branch", "entryId": "e"}),
        (Query("state"), {"type": "get_state"}),
        (Query("messages"), {"type": "get_messages"}),
        (Query("last_text"), {"type": "get_last_assistant_text"}),
        (Query("models"), {"type": "get_available_models"}),
        (Query("stats"), {"type": "get_session_stats"}),
        (Query("export", {"path": "a.html"}), {"type": "export_html", "outputPath": "a.html"}),
        (Query("fork_points"), {"type": "get_branch_messages"}),
        (Query("queue"), {"type": "get_queue"}),
    ],
)  # fmt: skip
def test_a_command_of_omp_13(command: Command, frame: Frame) -> None:
    assert requested(Talk(), command) == [frame]


@pytest.mark.parametrize(
    ("command", "frame"),
    [
        (OpenSession(how="fork", at="e"), {"type": "fork", "entryId": "e"}),
        (OpenSession(how="fork"), {"type": "clone"}),
        (Query("fork_points"), {"type": "get_fork_messages"}),
        (Query("commands"), {"type": "get_commands"}),
    ],
)
def test_what_pi_calls_differently(command: Command, frame: Frame) -> None:
    assert requested(Talk("pi"), command) == [frame]


@pytest.mark.parametrize(
    ("command", "frame"),
    [
        (Authenticate("anthropic"), {"type": "login", "providerId": "anthropic"}),
        (Configure({"fast": True}), {"type": "set_fast_mode", "enabled": True}),
        (Configure({"agent_events": "events"}), {"type": "set_subagent_subscription", "level": "events"}),
        (Configure({"event_filter": ["agent_end"]}), {"type": "set_event_filter", "events": ["agent_end"]}),
        (Configure({"todos": []}), {"type": "set_todos", "phases": []}),
        (Query("messages", {"limit": 5}), {"type": "get_messages_page", "limit": 5}),
        (Query("commands"), {"type": "get_available_commands"}),
        (Query("thinking_levels"), {"type": "get_available_thinking_levels"}),
        (Query("agents"), {"type": "get_subagents"}),
        (Query("context"), {"type": "get_state"}),
        (Query("entries", {"since": "e"}), {"type": "get_entries", "since": "e"}),
    ],
)
def test_what_omp_18_has_more(command: Command, frame: Frame) -> None:
    assert requested(Talk("18"), command) == [frame]


@pytest.mark.parametrize(
    ("version", "command", "frame"),
    [
        ("pi", Query("entries"), {"type": "get_entries"}),
        ("pi", RunShell("ls", private=True), {"type": "bash", "command": "ls", "excludeFromContext": True}),
        ("18", ChangeSteer("x", "soon"), {"type": "remove_queued_message", "message": "x", "queue": "steering"}),
        ("18", ChangeSteer("x", action="promote"), {"type": "promote_queued_message", "message": "x"}),
        ("18", Cancel("agent", "k"), {"type": "cancel_subagent", "subagentId": "k"}),
        ("18", Steer("x", idle="keep", to="k"), {"type": "steer_subagent", "subagentId": "k", "message": "x"}),
        ("18", OpenSession("resume", within="/a"), {"type": "open_session", "sessionDir": "/a"}),
    ],
)
def test_what_newer_ones_have_more(version: str, command: Command, frame: Frame) -> None:
    assert requested(Talk(version), command) == [frame]


@pytest.mark.parametrize(
    ("version", "command"),
    [("13", Steer("x", idle="keep", to="k")), ("pi", ChangeSteer("x")), ("pi", OpenSession("resume", within="/a"))],
)
def test_what_older_ones_have_no_word_for_is_refused(version: str, command: Command) -> None:
    talk = Talk(version)
    before = len(talk.sent)
    [reply] = talk.send(replace(command, ref="r"))
    assert isinstance(reply, Reply)
    assert reply.failure
    assert reply.failure.code == "unsaid"
    assert len(talk.sent) == before


@pytest.mark.parametrize("kind", ["entry_appended", "summarization_retry_scheduled"])
def test_frames_of_newer_pi_that_say_nothing_new_are_known(kind: str) -> None:
    assert Talk("pi").receive({"type": kind}) == []
    assert Talk("pi").receive({"type": "bash_execution_update", "id": "r", "delta": "a"}) == [ShellOutput("r", "a")]


def test_several_settings_are_one_command() -> None:
    talk = Talk()
    talk.send(Configure({"auto_retry": True, "auto_compaction": False}, ref="r"))
    one, two = talk.sent
    assert talk.receive(answer(two["id"], "set_auto_compaction")) == []
    assert talk.receive(answer(one["id"], "set_auto_retry", error="no")) == [
        Reply("r", failure=Failure("refused", "no", "engine"))
    ]


def test_context_goes_before_the_next_prompt() -> None:
    talk = Talk()
    assert talk.send(AddContext("Be brief.", ref="r")) == [Reply("r")]
    talk.send(Prompt("t", "hi"))
    assert talk.sent[0]["message"] == "Be brief.\n\nhi"


def test_a_host_introduces_itself_without_a_word() -> None:
    assert Talk().send(Hello(host="h", ref="r")) == [Reply("r")]


@pytest.mark.parametrize(
    ("version", "command"),
    [
        ("13", AddServer(Server("x"))),
        ("13", ChangeServer("x", "remove")),
        ("13", CloseSession()),
        ("13", Grant()),
        ("13", HostSays("x")),
        ("13", Quit()),
        ("13", Rewind("x")),
        ("13", Authenticate("x")),
        ("13", Hello(offers={"tools": [{"name": "x"}]})),
        ("13", Prompt("t", "x", (File("/a"),))),
        ("13", Prompt("t", "x", (Document("a", "text/plain", "x"),))),
        ("13", Prompt("t", "x", query=False)),
        ("13", Steer("x")),
        ("13", Cancel("compaction")),
        ("13", Cancel("agent", "a")),
        ("18", Cancel("steers")),
        ("13", Configure({"mode": "force"})),
        ("13", Configure({"thinking": 500})),
        ("13", Configure({"cycle": "mode"})),
        ("13", Configure({"auto_retry": "perhaps"})),
        ("13", Configure({"fast": True})),
        ("pi", Configure({"interrupt_mode": "wait"})),
        ("13", OpenSession(how="fork")),
        ("13", Query("weather")),
        ("13", Query("context")),
        ("13", Answer("d9", "allow")),
    ],
)
def test_what_cannot_be_said_is_refused_and_nothing_is_sent(version: str, command: Any) -> None:
    talk = Talk(version)
    [refused] = talk.send(command)
    assert isinstance(refused, Reply)
    assert refused.failure
    assert refused.failure.owner == "host"
    assert talk.sent == []


# Answers.


STATE = {
    "model": MODEL, "thinkingLevel": "high", "isStreaming": True, "isCompacting": True, "steeringMode": "all",
    "followUpMode": "all", "interruptMode": "wait", "sessionFile": "/f", "sessionId": "s", "sessionName": "n",
    "autoCompactionEnabled": False, "messageCount": 3, "queuedMessageCount": 2,
}  # fmt: skip
STATS = {
    "sessionFile": "/f", "sessionId": "s", "userMessages": 1, "assistantMessages": 2, "toolCalls": 3, "toolResults": 4,
    "tokens": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}, "cost": 0.5,
}  # fmt: skip
MESSAGES = [
    {"role": "user", "content": [text("hi")], "timestamp": 1},
    {**reply(text("yo"), call("c1", "bash", a=1), stop="toolUse", responseId="x", provider="p"), "timestamp": 2},
    {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "content": [text("a")], "isError": True},
    {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 1, "cancelled": False, "truncated": False},
    {"role": "compactionSummary", "summary": "short", "tokensBefore": 9},
    {"role": "weather", "content": "fine"},
]
SPENT = Usage(10, 5, 1, 2, 0.25)
ITEMS = (
    Item("", 1, Message("user", (Text("hi"),))),
    Item(
        "", 2,
        Message("assistant", (Text("yo"), ToolCall("c1", "bash", {"a": 1})), "calls", SPENT, "m", "p"),
        request="x",
    ),
    Item("", 0, Message("tool", (ToolResult("c1", "bash", "a", "error"),))),
    Item("", 0, Message("user", (Text("ls\na"),)), "shell", ShellResult("ls", "a", 1)),
    Item("", 0, Message("user", (Text("short"),)), "summary", before=9),
    Item("", 0, Message("user", (Text("fine"),))),
)  # fmt: skip


@pytest.mark.parametrize(
    ("version", "command", "data", "value"),
    [
        ("13", Query("state"), STATE,
         State("s", "m2", "", "high", True, True, 2, 3, "n", "p", CARD, "/f", "all", "all", "wait", False)),
        ("pi", Query("state"), {"pendingMessageCount": 4}, State(queued=4)),
        ("13", Query("state"), {}, State()),
        ("13", Query("stats"), STATS, Stats("s", 1, 2, 3, 4, Usage(1, 2, 3, 4, 0.5), "/f")),
        ("13", Query("cost"), STATS, Ledger(Usage(1, 2, 3, 4, 0.5))),
        ("13", Query("messages"), {"messages": MESSAGES}, ITEMS),
        ("13", Query("models"), {"models": [MODEL]}, (CARD,)),
        ("13", Query("last_text"), {"text": "yo"}, "yo"),
        ("13", Query("last_text"), {}, None),
        ("13", Query("fork_points"), {"messages": [{"entryId": "e", "text": "hi"}]}, (ForkPoint("e", "hi"),)),
        ("13", Query("export"), {"path": "a.html"}, Exported("a.html")),
        ("13", Query("queue"), {"steering": ["a"], "followUp": ["b"]}, Queue(soon=("a",), last=("b",))),
        ("18", Query("commands"), {"commands": [{"name": "x", "description": "d", "input": {"hint": "h"},
                                                 "source": "builtin"}]}, (CommandCard("x", "d", "h", True),)),
        ("18", Query("thinking_levels"), {"levels": ["off", "low"]}, ("off", "low")),
        ("18", Query("context"), {"contextUsage": {"tokens": 5, "contextWindow": 9}}, ContextReport(5, 9)),
        ("13", RunShell("ls"), {"output": "a", "exitCode": 0, "cancelled": False, "totalLines": 2, "totalBytes": 1},
         ShellResult("ls", "a", 0, lines=2, size=1)),
        ("13", RunShell("ls"), {"output": "", "cancelled": True}, ShellResult("ls", cancelled=True)),
        ("13", Configure({"cycle": "model"}), {"model": MODEL, "thinkingLevel": "low"}, Cycled(CARD, "low")),
        ("13", Configure({"cycle": "thinking"}), {"level": "low"}, Cycled(thinking="low")),
        ("13", Configure({"cycle": "thinking"}), None, None),
        ("13", Configure({"model": "p/m2"}), MODEL, None),
    ],
)  # fmt: skip
def test_an_answer_in_our_words(version: str, command: Any, data: Any, value: Any) -> None:
    talk = Talk(version)
    talk.send(replace(command, ref="r"))
    [frame] = talk.sent
    [received] = talk.receive(answer(frame["id"], frame["type"], data), only=Reply)
    assert received == Reply("r", value)


def test_an_answer_that_makes_no_sense_is_a_failure_and_not_silence() -> None:
    talk = Talk()
    talk.send(Query("stats", ref="r"))
    [received] = talk.receive(answer(talk.sent[0]["id"], "get_session_stats", {"tokens": 7}), only=Reply)
    assert isinstance(received, Reply)
    assert received.failure
    assert received.failure.code == "malformed"


def test_another_session_is_known_by_the_state_that_follows() -> None:
    talk = Talk()
    talk.send(OpenSession(how="fork", at="e", ref="r"))
    [frame] = talk.sent
    assert talk.receive(answer(frame["id"], "branch", {"text": "hi", "cancelled": False})) == []
    opened = SessionOpened("s2", "/s2", "hi")
    received = talk.state({**IDLE, "sessionId": "s2", "sessionFile": "/s2"})
    assert received == [SettingChanged("session", "s2"), Reply("r", opened)]


def test_a_hook_may_keep_the_session() -> None:
    talk = Talk()
    talk.send(OpenSession(how="new", ref="r"))
    talk.receive(answer(talk.sent[0]["id"], "new_session", {"cancelled": True}))
    assert talk.state(IDLE) == [Reply("r", SessionOpened("s", cancelled=True))]


def test_what_became_of_a_setting_is_asked_for() -> None:
    talk = Talk()
    talk.send(Configure({"thinking": "xhigh"}, ref="r"))
    assert talk.receive(answer(talk.sent[0]["id"], "set_thinking_level")) == [Reply("r")]
    assert talk.state({**IDLE, "thinkingLevel": "high"}) == [SettingChanged("thinking", "high")]


def test_pi_tells_of_a_compaction_itself() -> None:
    talk = Talk("pi")
    talk.send(Compact(ref="r"))
    [frame] = talk.sent
    result = {"summary": "short", "tokensBefore": 9}
    done = {"type": "compaction_end", "reason": "manual", "result": result, "aborted": False, "willRetry": False}
    received = talk.receive(
        {"type": "compaction_start", "reason": "manual"}, done, answer(frame["id"], "compact", result)
    )
    assert received == [CompactionStarted("manual"), CompactionEnded(True, "short", 9), Reply("r")]


# Failures, with an id and without.


def test_a_failure_without_an_id_is_that_of_the_command_it_names() -> None:
    talk = Talk()
    talk.send(Query("stats", ref="r1"))
    talk.send(Query("queue", ref="r2"))
    received = talk.receive(answer("", "get_queue", error="Unknown command: get_queue"))
    assert received == [Reply("r2", failure=Failure("refused", "Unknown command: get_queue", "engine"))]


def test_omp_13_fails_in_order_and_without_a_name() -> None:
    talk = Talk()
    talk.send(RunShell("sleep 9", ref="r0"))
    talk.send(Compact(ref="r1"))
    talk.send(Query("stats", ref="r2"))
    received = talk.receive(answer("", "parse", error="Nothing to compact"))
    assert received == [Reply("r1", failure=Failure("refused", "Nothing to compact", "engine"))]


@pytest.mark.parametrize("version", ["18", "pi"])
def test_others_name_what_failed(version: str) -> None:
    talk = Talk(version)
    talk.send(Query("stats", ref="r"))
    assert talk.receive(answer("", "extension_send", error="x")) == [Failed(Failure("refused", "x", "engine"))]


def test_an_answer_to_nobody_here_is_passed_on() -> None:
    assert Talk().receive(answer("z9", "set_auto_retry")) == [Reply("z9")]


# What was said by other means.


def test_what_is_overheard_counts_as_said() -> None:
    talk = Talk()
    talk.side.note_sent(b'{"type":"prompt","id":"t1","message":"hi"}\n{"type":"get_session_stats","id":"q"}\n')
    assert talk.sent == []
    received = talk.receive(answer("t1", "prompt"), answer("q", "get_session_stats", {"sessionId": "s"}), START)
    assert received[:2] == [Reply("t1"), Reply("q", Stats("s"))]
    assert talk.side.receive_eof()[-1] == TurnEnded(
        "error", failure=Failure("engine_gone", "the engine went away before the turn ended", "engine"), turn="t1"
    )


def test_an_answer_that_is_overheard_closes_its_ask() -> None:
    talk = Talk()
    talk.receive({"type": "extension_ui_request", "id": "d1", "method": "confirm", "title": "Sure?"})
    [closed] = talk.side.note_sent(b'{"type":"extension_ui_response","id":"d1","confirmed":false}\n')
    assert closed.how == "denied"  # type: ignore[union-attr]


def test_usage_of_an_unpriced_model_has_no_cost() -> None:
    talk = Talk()
    free = {**USAGE, "cost": {"total": 0}}
    talk.send(Query("messages", ref="r"))
    instructions = {"role": "system", "sections": [], "timestamp": 0}  # pi since 0.84
    data = {"messages": [instructions, {**reply(text("a")), "usage": free}]}
    [received] = talk.receive(answer(talk.sent[0]["id"], "get_messages", data))
    assert isinstance(received, Reply)
    assert [item.message.usage for item in received.data] == [Usage(10, 5, 1, 2)]
