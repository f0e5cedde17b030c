"""Version 2 of the protocol, as agents of others may speak it. Requirements are those of docs/acp.md."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialects.acp.host.talk import OPTIONS, Line, Talk, agent, shown, update, words
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.answers import SessionCard
from polylect.vocab.content import Failure, Image, PlanItem, Server, Text, Usage
from thoroughness import up_to

T: Line = {"turn": "t1"}
SESSION: Line = {
    "prompt": {"image": {}},
    "mcp": {"stdio": {}, "http": {}},
    "delete": {},
    "fork": {},
    "additionalDirectories": {},
}
MODES = {
    "configId": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "default",
    "options": [
        {"groupId": "g", "name": "All", "options": [{"value": "default", "name": "A"}, {"value": "plan", "name": "P"}]}
    ],
}


def second(session: Line | None = None, **more: Any) -> Line:
    """The answer to `initialize` in version 2."""
    capabilities = {"session": SESSION if session is None else session}
    return {"protocolVersion": 2, "info": {"name": "demo", "version": "2.0"}, "capabilities": capabilities, **more}


def opened(result: Line | None = None, **options: Any) -> Talk:
    """A talk whose session is open."""
    talk = Talk(version="2", **options)
    talk.answer("initialize", result or second())
    talk.answer("session/new", {"sessionId": "s-1", "configOptions": [MODES]})
    return talk


def running(**options: Any) -> tuple[Talk, int]:
    """A talk whose prompt was answered, and how many events there were."""
    talk = opened(**options)
    talk.prompt()
    talk.answer("session/prompt", {"messageId": "u1"})
    talk.update("user_message", messageId="u1", content=[words("hi")])
    talk.update("state_update", state="running")
    return talk, len(talk.events)


def ended(talk: Talk, reason: str = "end_turn", **fields: Any) -> list[e.Event]:
    return talk.update("state_update", state="idle", stopReason=reason, **fields)


# The connection.


def test_the_version_is_asked_for_and_spoken() -> None:
    """docs/acp.md, requirement 60."""
    talk = Talk(version="2", servers=(Server("a", "stdio", "/bin/a"), Server("b", "http", url="http://b")))
    assert talk.request("initialize")["params"] | {"info": None} == {
        "protocolVersion": 2,
        "info": None,
        "capabilities": {"elicitation": {"form": {}, "url": {}}},
    }
    talk.answer("initialize", second())
    assert talk.request("session/new")["params"] == {
        "cwd": "/w",
        "mcpServers": [
            {"name": "a", "type": "stdio", "command": "/bin/a", "args": [], "env": []},
            {"name": "b", "type": "http", "url": "http://b", "headers": []},
        ],
    }
    [ready] = talk.answer("session/new", {"sessionId": "s-1", "configOptions": [MODES]})
    assert isinstance(ready, e.Ready)
    assert (ready.version, ready.mode, ready.abilities.modes) == ("2.0", "default", ("default", "plan"))
    assert ready.abilities.extras["sessions"] == ("list", "resume", "close", "delete", "fork", "load")


@pytest.mark.parametrize("number", [1, 2])
def test_an_agent_that_answers_in_version_1_is_spoken_to_in_it(number: int) -> None:
    """docs/acp.md, requirements 8 and 60: goose echoes the number, and speaks version 1."""
    talk = Talk(version="2")
    talk.version = "1"
    talk.answer("initialize", agent() | {"protocolVersion": number})
    talk.answer("session/new", {"sessionId": "s-1"})
    talk.prompt()
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert [type(event) for event in talk.events[-3:]] == [e.UserMessage, e.TurnEnded, e.Settled]


def test_who_wants_version_1_does_not_speak_another() -> None:
    """docs/acp.md, requirement 8."""
    talk = Talk()
    [failed] = talk.answer("initialize", second())
    assert isinstance(failed, e.Failed)
    assert talk.host.start_failure == failed.failure


def test_servers_and_content_that_are_not_offered_are_not_sent() -> None:
    """docs/acp.md, requirement 19."""
    talk = Talk(version="2", servers=(Server("a", "stdio", "/bin/a"),))
    [changed] = talk.answer("initialize", second({}))
    assert changed == e.ServerChanged("a", "failed", reason="this agent connects to no stdio servers")
    talk.answer("session/new", {"sessionId": "s-1"})
    [reply] = talk.do(c.Prompt("t1", "hi", (Image("image/gif", "R0lG"),), ref="r"))
    assert isinstance(reply, e.Reply)
    assert reply.failure
    assert talk.methods() == ["initialize", "session/new"]


def test_sessions_are_listed_forked_resumed_deleted_and_set() -> None:
    talk = opened()
    talk.do(c.Query("sessions", ref="q"))
    [reply] = talk.answer("session/list", {"sessions": [{"sessionId": "old", "cwd": "/w"}]})
    assert reply == e.Reply("q", (SessionCard("old", "/w"),))
    talk.do(c.OpenSession("fork", "s-1", session="two", ref="f"))
    assert talk.request("session/fork")["params"] == {"cwd": "/w", "sessionId": "s-1"}
    talk.answer("session/fork", {"sessionId": "s-2"})
    talk.do(c.CloseSession("old", delete=True, ref="d"))
    talk.answer("session/delete", {})
    talk.do(c.Configure({"mode": "plan"}, ref="m"))
    params = {"sessionId": "s-1", "configId": "mode", "type": "id", "value": "plan"}
    assert talk.request("session/set_config_option")["params"] == params
    events = talk.answer("session/set_config_option", {"configOptions": [MODES | {"currentValue": "plan"}]})
    assert events == [e.SettingChanged("mode", "plan"), e.Reply("m")]
    assert talk.update("config_option_update", configOptions=[MODES]) == [e.SettingChanged("mode", "default")]


def test_logging_in_and_out_have_their_own_methods() -> None:
    methods = [{"methodId": "key", "name": "Key", "type": "agent"}]
    talk = Talk(version="2", login="key")
    talk.answer("initialize", second(authMethods=methods))
    assert talk.request("auth/login")["params"] == {"methodId": "key"}
    talk.answer("auth/login", {})
    talk.answer("session/new", {"sessionId": "s-1"})
    talk.do(c.Authenticate(ref="r"))
    assert talk.answer("auth/logout", {}) == [e.Reply("r")]


def test_a_session_is_loaded_by_a_resume_with_its_past() -> None:
    """docs/acp.md, requirement 62."""
    talk = Talk(version="2", how="load", session="s-1")
    talk.answer("initialize", second())
    params = {"cwd": "/w", "sessionId": "s-1", "replayFrom": {"type": "start"}}
    assert talk.request("session/resume")["params"] == params
    talk.update("user_message", messageId="u1")
    talk.update("user_message_chunk", messageId="u1", content=words("hi"))
    talk.update("agent_message", messageId="a1", content=[words("Hello.")])
    talk.update(
        "tool_call_update", toolCallId="c1", name="Read", rawInput={"a": 1}, status="completed", content=shown("x")
    )
    talk.update("state_update", state="idle", stopReason="end_turn")
    talk.answer("session/resume", {})
    talk.wait(80)
    kinds = [e.TurnStarted, e.UserMessage, e.TextDelta, e.ToolCalled, e.ToolFinished, e.TurnEnded, e.Settled, e.Ready]
    assert [type(event) for event in talk.of(*kinds)] == [*kinds[:6], e.Ready]
    assert next(event for event in talk.events if isinstance(event, e.UserMessage)).text == "hi"


# Turns.


def test_the_state_ends_the_turn_and_not_the_answer() -> None:
    """docs/acp.md, requirement 61."""
    talk, before = running()
    assert [type(event) for event in talk.events[1:before]] == [e.TurnStarted, e.UserMessage]
    talk.update("agent_message_chunk", messageId="a1", content=words("Hel"))
    talk.update("agent_message_chunk", messageId="a1", content=words("lo"))
    ended(talk, usage={"totalTokens": 15, "inputTokens": 10, "outputTokens": 5})
    assert talk.events[before:] == [
        e.StepStarted(**T),
        e.TextDelta("Hel", **T),
        e.TextDelta("lo", **T),
        e.BlockEnded(Text("Hello"), **T),
        e.ReplyEnded("end", **T),
        e.StepEnded(**T),
        e.TurnEnded("end", Usage(10, 5), 1, **T),
        e.Settled(),
    ]
    assert ended(talk) == []


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("max_tokens", "length"),
        ("max_turn_requests", "limit"),
        ("refusal", "refused"),
        ("cancelled", "cancelled"),
        ("_tired", "end"),
        (None, "end"),
    ],
)
def test_each_stop_reason_is_a_reason_of_ours(stop: Any, reason: Any) -> None:
    """docs/acp.md, requirements 46 and 61."""
    talk, _ = running()
    assert talk.update("state_update", state="idle", stopReason=stop)[0] == e.TurnEnded(reason, **T)


def test_a_turn_that_fails_has_the_error_of_the_state() -> None:
    """docs/acp.md, requirement 61."""
    talk, _ = running()
    error = {
        "code": -32603,
        "message": "Internal error",
        "data": {"details": "429 too many", "errorKind": "rate_limit"},
    }
    end = ended(talk, "error", error=error)[0]
    assert isinstance(end, e.TurnEnded)
    assert (end.reason, end.failure and end.failure.code) == ("error", "rate_limit")
    talk, _ = running()
    end = ended(talk, "error")[0]
    assert end == e.TurnEnded("error", failure=Failure("error", "The turn failed", "engine"), **T)


def test_a_prompt_that_is_refused_ends_its_turn() -> None:
    """docs/acp.md, requirement 61; the next one is sent then."""
    talk = opened()
    talk.prompt()
    talk.prompt("more", "t2")
    events = talk.answer("session/prompt", code=-32800, message="cancelled")
    assert [type(event) for event in events] == [e.TurnEnded, e.TurnStarted, e.UserMessage]
    assert events[0] == e.TurnEnded("cancelled", **T)
    talk.answer("session/prompt", {"messageId": "u2"})
    assert ended(talk)[0] == e.TurnEnded("end", turn="t2")


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_agent_may_become_idle_before_it_answers(goes_on: bool) -> None:
    """docs/acp.md, requirement 61."""
    talk = opened()
    talk.prompt()
    talk.update("state_update", state="running")
    assert ended(talk) == []
    if goes_on:
        talk.update("state_update", state="running")
    events = talk.answer("session/prompt", {"messageId": "u1"})
    assert events[:1] == ([] if goes_on else [e.TurnEnded("end", **T)])
    assert len(ended(talk)) == (2 if goes_on else 0)


def test_a_turn_that_the_agent_begins_is_a_turn_of_the_engine() -> None:
    """docs/acp.md, requirement 61."""
    talk = opened()
    [started] = talk.update("state_update", state="running")
    assert started == e.TurnStarted("engine", turn=started.turn)
    assert started.turn
    assert talk.update("state_update", state="requires_action") == []
    talk.update("agent_message_chunk", messageId="a1", content=words("By the way."))
    assert ended(talk, "max_tokens")[-2:] == [e.TurnEnded("length", steps=1, turn=started.turn), e.Settled()]
    assert ended(talk) == []


def test_what_ended_before_our_prompt_was_a_message_does_not_end_it() -> None:
    """docs/acp.md, requirement 61: the agent was at work of its own when the prompt came."""
    talk = opened()
    talk.prompt()
    talk.update("state_update", state="running")
    ended(talk)
    talk.update("user_message", messageId="u1", content=[words("hi")])
    assert talk.answer("session/prompt", {"messageId": "u1"}) == []
    talk.update("state_update", state="running")
    assert ended(talk)[0] == e.TurnEnded("end", **T)


def test_an_unknown_state_begins_and_ends_nothing() -> None:
    """docs/acp.md, requirement 61: a host would wait for its end for ever."""
    talk = opened()
    for state in ("unknown", "_busy", "", None, 7):
        assert talk.update("state_update", state=state) == []
    talk.prompt()
    talk.answer("session/prompt", {"messageId": "u1"})
    assert talk.update("state_update", state="unknown") == []
    assert ended(talk)[0] == e.TurnEnded("end", **T)


def test_a_turn_of_the_agents_own_may_fail() -> None:
    """docs/acp.md, requirement 61."""
    talk = opened()
    [started] = talk.update("state_update", state="running")
    failure = Failure("error", "it broke", "engine")
    assert ended(talk, "error", error={"code": -32603, "message": "it broke"})[0] == e.TurnEnded(
        "error", failure=failure, turn=started.turn
    )


def test_a_cancel_is_answered_by_the_state() -> None:
    """docs/acp.md, requirements 37 and 61."""
    talk, _ = running()
    talk.do(c.Cancel())
    assert talk.sent[-1]["method"] == "session/cancel"
    assert ended(talk, "cancelled") == [e.TurnEnded("cancelled", **T), e.Settled()]


# Messages.


def test_whole_messages_add_what_the_chunks_did_not_have() -> None:
    """docs/acp.md, requirement 62."""
    talk, before = running()
    talk.update("agent_message", messageId="a1")
    talk.update("agent_message_chunk", messageId="a1", content=words("Hel"))
    talk.update("agent_message", messageId="a1", content=[words("Hello")])
    talk.update("agent_message", messageId="a1", content=[words("Hello")])
    talk.update("agent_message", messageId="a1", content=[words("Other")])
    talk.update("agent_thought", messageId="b1", content=[words("hm")])
    talk.update("user_message", messageId="u2", content=[words("from elsewhere")])
    said = [event for event in talk.events[before:] if isinstance(event, e.TextDelta | e.ThinkingDelta | e.UserMessage)]
    assert said == [
        e.TextDelta("Hel", **T),
        e.TextDelta("lo", **T),
        e.ThinkingDelta("hm", **T),
        e.UserMessage("from elsewhere", "engine", **T),
    ]


@pytest.mark.parametrize("early", [False, True])
def test_a_steer_that_the_agent_repeats_is_told_once(early: bool) -> None:
    """docs/acp.md, requirement 62: codex repeats it after its answer."""
    talk, before = running(result=second(_meta={"steering": {"supported": True}}))
    talk.do(c.Steer("faster", ref="r"))
    lines = [
        {"id": talk.request("_session/steering")["id"], "result": {"outcome": "injected"}},
        update("user_message_chunk", messageId="u2", content=words("faster")),
    ]
    talk.receive(*(lines[::-1] if early else lines))
    assert talk.events[before:] == [e.UserMessage("faster", "steer", **T), e.Reply("r")]


# Calls.


def chunk(text: str | bytes) -> str:
    return b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def test_the_output_of_a_terminal_is_that_of_its_call() -> None:
    """docs/acp.md, requirement 62: chunks are cut anywhere."""
    talk, before = running()
    talk.update("terminal_update", terminalId="x", command="make", cwd="/w")
    call = {"toolCallId": "c1", "title": "make", "name": "Bash", "kind": "execute", "rawInput": {"command": "make"}}
    talk.update("tool_call_update", **call, status="in_progress", content=[{"type": "terminal", "terminalId": "x"}])
    talk.update("terminal_output_chunk", terminalId="x", data=chunk(b"caf\xc3"))
    talk.update("terminal_output_chunk", terminalId="x", data=chunk(b"\xa9\n"))
    talk.update("terminal_output_chunk", terminalId="x", data="not base64!")
    talk.update("terminal_update", terminalId="x", output={"data": chunk("café\nmore\n")})
    talk.update("terminal_update", terminalId="x", exitStatus={"exitCode": 2})
    talk.update("tool_call_update", toolCallId="c1", status="failed")
    assert talk.events[before + 1 :] == [
        e.ToolCalled("c1", "Bash", {"command": "make"}, "exec", "make", **T),
        e.ToolStarted("c1", "Bash", **T),
        e.ToolOutput("c1", "caf", **T),
        e.ToolOutput("c1", "é\n", **T),
        e.ToolOutput("c1", "more\n", **T),
        e.ToolFinished("c1", "Bash", "café\nmore\n", "error", metadata={"exit_code": 2}, **T),
    ]


def test_content_chunks_are_added_and_a_cancelled_call_is_cancelled() -> None:
    """docs/acp.md, requirements 30 and 62."""
    talk, before = running()
    talk.update("tool_call_update", toolCallId="c1", name="Read", rawInput={"a": 1}, status="in_progress")
    talk.wait(250)
    talk.update("tool_call_content_chunk", toolCallId="c1", content=shown("one")[0])
    talk.update("tool_call_content_chunk", toolCallId="c1", content=shown("two")[0])
    talk.update("tool_call_update", toolCallId="c1", status="paused")
    talk.update("tool_call_update", toolCallId="c1", status="cancelled")
    *_, finished = talk.events
    assert [event.text for event in talk.events[before:] if isinstance(event, e.ToolOutput)] == ["one", "\ntwo"]
    assert isinstance(finished, e.ToolFinished)
    assert (finished.outcome, finished.output) == ("cancelled", "one\ntwo")


@pytest.mark.parametrize(("patch", "output"), [({"format": "git_patch", "text": "@@"}, "@@"), (None, "/w/a\n/w/b")])
def test_a_diff_is_its_patch_or_the_files_that_it_names(patch: Line | None, output: str) -> None:
    """docs/acp.md, requirement 62."""
    talk, _ = running()
    changes = [{"operation": "modify", "path": "/w/a"}, {"operation": "move", "path": "/w/b", "oldPath": "/w/c"}]
    content = [{"type": "diff", "changes": changes, "patch": patch}]
    talk.update(
        "tool_call_update", toolCallId="c1", name="Edit", rawInput={"a": 1}, status="completed", content=content
    )
    *_, finished = talk.events
    assert isinstance(finished, e.ToolFinished)
    assert (finished.form, finished.output) == ("diff", output)


SUBJECTS: dict[str, tuple[Line, tuple[str, str, Line]]] = {
    "a call": (
        {"subject": {"type": "tool_call", "toolCall": {"toolCallId": "c1", "name": "Bash", "rawInput": {"a": 1}}}},
        ("c1", "Bash", {"a": 1}),
    ),
    "a command": (
        {"subject": {"type": "command", "command": "ls", "cwd": "/w", "toolCallId": "c2"}},
        ("c2", "execute", {"command": "ls", "cwd": "/w"}),
    ),
    "nothing": ({}, ("ask-7", "May I?", {})),
    "something new": ({"subject": {"type": "_own"}}, ("ask-7", "May I?", {})),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_permission_is_asked_for_whatever_it_is_about(name: str) -> None:
    """docs/acp.md, requirement 62."""
    about, (call, tool, args) = SUBJECTS[name]
    talk, _ = running()
    params = {"sessionId": "s-1", "title": "May I?", "description": "Because.", "options": OPTIONS, **about}
    *_, ask = talk.receive({"id": 7, "method": "session/request_permission", "params": params})
    assert isinstance(ask, e.Ask)
    assert (ask.call, ask.name, ask.args, ask.title, ask.reason) == (call, tool, args, "May I?", "Because.")
    talk.do(c.Answer(ask.ask, "allow"))
    assert talk.sent[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}


# Other updates.


def test_plans_and_sub_agents_and_what_is_not_known() -> None:
    """docs/acp.md, requirements 41, 46 and 62."""
    talk, _ = running()
    entries = [{"content": "first", "priority": "high", "status": "cancelled"}]
    assert talk.update("plan_update", plan={"type": "items", "planId": "p", "entries": entries}) == [
        e.PlanChanged((PlanItem("first", "completed", "high"),), **T)
    ]
    talk.update("subagent_update", sessionId="kid", title="scout", state={"state": "running"})
    talk.update("state_update", "kid", state="running")
    talk.update("agent_message_chunk", "kid", messageId="k1", content=words("Looking."))
    talk.update("state_update", "kid", state="idle", stopReason="end_turn")
    assert [type(event) for event in talk.of(e.AgentStarted, e.AgentEnded, e.TurnEnded)] == [
        e.AgentStarted,
        e.AgentEnded,
    ]
    talk.update("_new_kind", x=1)
    assert isinstance(talk.events[-1], e.UnknownEvent)
    assert [type(event) for event in ended(talk)] == [e.TurnEnded, e.Settled]


# Anything.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["", "s-1", "c1", "x", "text", "idle", "aGk="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "data", "a"]), inner),
    max_leaves=6,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "state": st.sampled_from(["running", "idle", "idle", "requires_action", "x"]),
    "stopReason": st.sampled_from(["end_turn", "error", "cancelled"]),
    "messageId": st.sampled_from(["u1", "a1"]),
    "toolCallId": st.sampled_from(["c1", "c2"]),
    "terminalId": st.sampled_from(["x", "y"]),
    "sessionId": st.sampled_from(["s-1", "kid"]),
    "status": st.sampled_from(["pending", "in_progress", "completed", "cancelled"]),
    "content": st.sampled_from([words("hi"), [words("hi")], shown("x"), [{"type": "terminal", "terminalId": "x"}]]),
    "data": st.just("aGk="),
    "output": st.just({"data": "aGk="}),
    "exitStatus": st.just({"exitCode": 1}),
    "error": st.just({"code": 1, "message": "x"}),
    "configOptions": st.just([MODES]),
    "_meta": st.just({"polylect": {"turn": {"id": "x", "state": "started"}}}),
}
KINDS = (
    *("user_message", "user_message_chunk", "agent_message", "agent_message_chunk", "agent_thought", "state_update"),
    *("tool_call_update", "tool_call_content_chunk", "terminal_update", "terminal_output_chunk", "subagent_update"),
    *("config_option_update", "plan_update", "x"),
)
UPDATE = st.builds(
    lambda kind, session, fields, odd: update(kind, session, **{**fields, **odd}),
    st.sampled_from([*KINDS, *["state_update"] * 5]),
    st.sampled_from(["s-1", "s-1", "s-1", "kid"]),
    st.fixed_dictionaries({}, optional=FIELDS),
    st.dictionaries(st.sampled_from(sorted(FIELDS)), JSON, max_size=1),
)


@given(lines=st.lists(UPDATE | st.sampled_from(["prompt", "answer", "refuse", "cancel"]), max_size=30))
@settings(max_examples=up_to(200), deadline=None)
def test_whatever_an_agent_says_the_events_are_in_order(lines: list[Any]) -> None:
    """docs/acp.md, requirements 46, 61 and 62: `Talk` checks the grammar of every event."""
    talk, number = opened(), 0
    for line in lines:
        prompts = [one["id"] for one in talk.sent if one.get("method") == "session/prompt"]
        match line:
            case "prompt":
                number += 1
                talk.prompt("hi", f"p{number}")
            case "cancel":
                talk.do(c.Cancel())
            case "answer" | "refuse" if prompts:
                error = {"error": {"code": -32800, "message": "no"}}
                talk.receive({"id": prompts[-1], **({"result": {"messageId": "u1"}} if line == "answer" else error)})
            case dict():
                talk.receive(line)
    talk.receive(update("session_info_update", _meta={"polylect": {"turn": {"id": "x", "state": "ended"}}}))
    for _ in range(number + 1):
        prompts = [one["id"] for one in talk.sent if one.get("method") == "session/prompt"]
        talk.receive(*[{"id": id, "result": {"messageId": "u1"}} for id in prompts[-1:]])
        ended(talk)
    over = [event.turn for event in talk.of(e.TurnEnded) if event.turn.startswith("p")]
    assert sorted(over) == sorted(f"p{one + 1}" for one in range(number))
