"""The host's end: what it says, and what comes back."""

from typing import Any

import pytest

from dialects.claude.host_talk import INIT, RESULT, Frame, Host, assistant, brief, control, only, success, text, use
from dialects.pair import env
from polylect.dialects.claude.host.codec import HostSide
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.answers import (
    AgentCard,
    CommandCard,
    ContextPart,
    ContextReport,
    Ledger,
    ModelCard,
    Rewound,
    ServerCard,
    State,
)
from polylect.vocab.content import Document, Failure, File, Image, Link, Option, Rule, Server, Usage
from polylect.wire import jsonl


def requests(host: Host) -> list[Frame]:
    return [frame["request"] for frame in host.said()]


def ask(host: Host, command: c.Command, **answer: Any) -> tuple[Frame, Any]:
    """The one request that a command becomes, and the data of the reply to it."""
    host.send(command)
    [frame] = host.said()
    [reply] = only(host.receive(success(frame["request_id"], **answer)), e.Reply)
    assert reply.failure is None
    return frame["request"], reply.data


def running(**options: Any) -> Host:
    host = Host(**options)
    host.send(c.Prompt("t", "go"))
    host.receive(INIT)
    host.said()
    return host


def refusal(events: list[e.Event]) -> Failure:
    [reply] = only(events, e.Reply)
    assert reply.failure
    return reply.failure  # type: ignore[no-any-return]


# Prompts.


def test_a_prompt_with_all_that_may_go_with_it() -> None:
    host = Host()
    attached = (Image("image/gif", "R0lG"), Document("a.txt", "text/plain", "words"), File("/b.py"))
    host.send(c.Prompt("t", "look", attached, query=False, verbatim=True, ref="r"))
    [frame] = host.said()
    assert (frame["uuid"], frame["shouldQuery"], frame["client_composed"]) == ("t", False, True)
    assert frame["message"]["content"] == [
        {"type": "text", "text": "look\n@/b.py"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}},
        {"type": "document", "title": "a.txt", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
    ]
    assert only(host.received, e.Reply) == [e.Reply("r")]


def test_polylect_is_told_files_as_such() -> None:
    host = Host(greeted=False)
    host.receive(success(host.greeting[0]["request_id"], engine={"name": "polylect"}))
    host.send(c.Prompt("t", "look", (File("/b.py"), Link("file:///c.py"))))
    [frame] = host.said()
    assert frame["message"]["content"] == "look"
    assert frame["file_attachments"] == [{"path": "/b.py"}, {"path": "/c.py"}]


def test_a_link_that_is_no_file_is_refused() -> None:
    assert (
        "cannot attach" in refusal(Host().send(c.Prompt("t", "look", (Link("https://example.com"),), ref="r"))).message
    )


def test_a_prompt_that_may_not_wait_is_refused_while_a_turn_runs() -> None:
    assert refusal(running().send(c.Prompt("t2", "x", busy="refuse", ref="r"))).code == "busy"


def test_a_turn_that_is_under_way_is_no_name_for_another() -> None:
    assert refusal(running().send(c.Prompt("t", "x", ref="r"))).code == "duplicate_turn"


def test_a_prompt_that_interrupts_goes_out_at_once_and_ends_the_other() -> None:
    host = running()
    host.send(c.Prompt("t2", "now", busy="interrupt"))
    [frame] = host.said()
    assert (frame["uuid"], frame["priority"]) == ("t2", "now")
    cut = {**RESULT, "subtype": "error_during_execution", "terminal_reason": "aborted_streaming"}
    host.receive(cut, INIT, assistant(text("Here.")), RESULT)
    assert brief(host.received) == ["turn cancelled", "says Here.", "turn end"]
    assert [event.turn for event in only(host.received, e.TurnStarted)] == ["t", "t2"]


def test_a_steer_becomes_the_next_turn() -> None:
    host = running()
    host.send(c.Steer("faster", ref="r"))
    assert host.said() == []
    host.receive(RESULT)
    [frame] = host.said()
    assert frame["message"]["content"] == "faster"
    result = only(host.receive(INIT), e.TurnStarted, e.UserMessage)
    assert [getattr(event, "cause", "") or event.origin for event in result] == ["engine", "steer"]


def test_a_compaction_is_a_slash_command() -> None:
    host = Host()
    host.send(c.Compact("keep the names"))
    assert host.said()[0]["message"]["content"] == "/compact keep the names"
    assert refusal(running().send(c.Compact(ref="r"))).code == "busy"


def test_a_prompt_without_a_turn_gets_one() -> None:
    host = Host()
    host.send(c.Prompt("", "hi"))
    assert host.said()[0]["uuid"]


# Stopping.


def test_an_idle_engine_is_not_interrupted() -> None:
    host = Host()
    assert host.send(c.Cancel(ref="r")) == [e.Reply("r")]
    assert host.said() == []


def test_an_interrupt_ends_the_turn_and_those_that_wait_here() -> None:
    host = running()
    host.send(c.Prompt("t2", "later"))
    result = host.send(c.Cancel(ref="r"))
    assert result == [e.TurnEnded("cancelled", turn="t2")]
    [frame] = host.said()
    assert frame["request"] == {"subtype": "interrupt", "cancel_queued": True}
    assert only(host.receive(success("r", still_queued=[], cancelled=[])), e.Reply)
    old = {**RESULT, "subtype": "error_during_execution", "is_error": True}
    assert brief(host.receive(old)) == ["turn cancelled"], "the older engines do not say that it was stopped"


def test_an_interrupt_that_keeps_the_queue_keeps_ours() -> None:
    host = running()
    host.send(c.Prompt("t2", "later"), c.Cancel(queued="keep"))
    assert requests(host) == [{"subtype": "interrupt"}]
    host.receive(RESULT)
    assert [frame["uuid"] for frame in host.said()] == ["t2"]


def test_prompts_that_an_interrupt_took_from_the_engines_queue_are_cancelled() -> None:
    host = running(hold=False)
    host.send(c.Prompt("t2", "later"), c.Cancel(ref="r"))
    received = host.receive(success("r", cancelled=["t2"]))
    assert e.TurnEnded("cancelled", turn="t2") in received


def test_one_prompt_that_waits_is_dropped_here_or_there() -> None:
    host = running()
    host.send(c.Prompt("t2", "later"))
    assert host.send(c.Cancel("prompt", "t2", ref="r")) == [e.Reply("r"), e.TurnEnded("cancelled", turn="t2")]
    request, _ = ask(running(), c.Cancel("prompt", "t9", ref="r"), cancelled=True)
    assert request == {"subtype": "cancel_async_message", "message_uuid": "t9"}


def test_an_agent_is_stopped_by_its_task() -> None:
    host = running()
    task = {"task_id": "k1", "tool_use_id": "a1", "task_type": "local_agent", "subagent_type": "scout"}
    host.receive(assistant(use("a1", "Agent")), {"type": "system", "subtype": "task_started", **task, "prompt": "look"})
    host.send(c.Query("agents", ref="q"))
    assert host.received[-1] == e.Reply("q", (AgentCard("a1", "scout", "look"),))
    request, _ = ask(host, c.Cancel("agent", "a1", ref="r"))
    assert request == {"subtype": "stop_task", "task_id": "k1"}


@pytest.mark.parametrize("what", ["retry", "shell", "compaction", "steers"])
def test_what_cannot_be_stopped_alone_is_refused(what: Any) -> None:
    assert refusal(running().send(c.Cancel(what, ref="r"))).code == "unsaid"


# Asks.


def put(host: Host, id: str = "r1", **request: Any) -> list[e.Event]:
    host.receive(assistant(use("c1", "Bash", command="ls")))
    requested = {"tool_name": "Bash", "tool_use_id": "c1", "input": {"command": "ls"}, **request}
    return host.receive(control(id, "can_use_tool", **requested))


def answered(host: Host, *answers: c.Answer) -> Frame:
    host.send(*answers)
    [frame] = host.said()
    assert frame["type"] == "control_response"
    return frame["response"]["response"]  # type: ignore[no-any-return]


def test_a_yes_has_the_input_and_what_is_to_count_from_now_on() -> None:
    suggested = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}], "behavior": "allow"}
    host = running()
    [question] = put(host, permission_suggestions=[suggested], decision_reason="risky", title="Run ls?")
    assert isinstance(question, e.Ask)
    assert (question.title, question.reason, question.category) == ("Run ls?", "risky", "exec")
    assert question.options == (Option("0", "addRules: Bash(ls:*)", kind="allow_always"),)
    assert answered(host, c.Answer("r1", "allow", value="0", always=Rule("prefix", "git log"))) == {
        "behavior": "allow",
        "updatedInput": {"command": "ls"},
        "updatedPermissions": [
            suggested,
            {
                "type": "addRules",
                "rules": [{"toolName": "Bash", "ruleContent": "git log:*"}],
                "behavior": "allow",
                "destination": "session",
            },
        ],
    }
    assert host.received[-1] == e.AskClosed("r1", "allowed", turn="t")


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (Rule("category", "exec"), {"toolName": "Bash"}),
        (Rule("tool", "Read"), {"toolName": "Read"}),
        (Rule("command", "make test"), {"toolName": "Bash", "ruleContent": "make test"}),
        (Rule("path", "/a/b"), {"toolName": "Edit", "ruleContent": "//a/b"}),
        (Rule("path", "/a/b", write=False), {"toolName": "Read", "ruleContent": "//a/b"}),
        (Rule("domain", "example.com"), {"toolName": "WebFetch", "ruleContent": "domain:example.com"}),
    ],
)
def test_a_rule_is_never_wider_than_what_was_granted(rule: Rule, told: Frame) -> None:
    host = running()
    put(host)
    assert answered(host, c.Answer("r1", "allow", always=rule))["updatedPermissions"][0]["rules"] == [told]


def test_a_yes_may_change_the_arguments() -> None:
    host = running()
    put(host)
    result = answered(host, c.Answer("r1", "allow", args={"command": "ls -l"}))
    assert result["updatedInput"] == {"command": "ls -l"}


def test_a_no_may_end_the_turn() -> None:
    host = running()
    put(host)
    result = answered(host, c.Answer("r1", "deny", reason="stop it", interrupt=True))
    assert result == {"behavior": "deny", "message": "stop it", "interrupt": True}
    ended = {**RESULT, "subtype": "error_during_execution", "is_error": True}
    assert brief(host.receive(ended))[-1] == "turn cancelled"


def test_an_ask_of_an_agent_is_in_its_lane() -> None:
    host = running()
    host.receive(assistant(use("a1", "Agent")), assistant(use("c1"), parent="a1"))
    [question] = host.receive(control("r1", "can_use_tool", tool_name="Bash", tool_use_id="c1", input={}, agent_id="x"))
    assert (question.agent, question.turn) == ("a1", "t")


def test_an_ask_that_is_taken_back_is_closed_and_cannot_be_answered() -> None:
    host = running()
    put(host)
    assert host.receive({"type": "control_cancel_request", "request_id": "r1"}) == [
        e.AskClosed("r1", "cancelled", turn="t")
    ]
    assert refusal(host.send(c.Answer("r1", "allow", ref="x"))).code == "unknown_ask"


QUESTIONS = [
    {"question": "Which?", "options": [{"label": "red", "description": "warm"}, {"label": "blue"}]},
    {"question": "What else?", "options": [{"label": "a"}, {"label": "b"}], "multiSelect": True},
    {"question": "Why?", "options": []},
]


def test_each_question_is_an_ask_and_the_answer_goes_out_when_all_are_answered() -> None:
    host = running()
    host.receive(assistant(use("c1", "AskUserQuestion", questions=QUESTIONS)))
    supplied = {"questions": QUESTIONS}
    requested = control("r1", "can_use_tool", tool_name="AskUserQuestion", tool_use_id="c1", input=supplied)
    one, two, three = only(host.receive(requested), e.Ask)
    assert [question.ask for question in (one, two, three)] == ["r1#1", "r1#2", "r1#3"]
    assert (one.kind, one.title, one.options[0]) == ("choice", "Which?", Option("red", "red", "warm"))
    assert (two.multiple, three.kind) == (True, "text")
    host.send(c.Answer("r1#2", "allow", value=["a", "b"]), c.Answer("r1#1", "allow", value="blue"))
    assert host.said() == []
    result = answered(host, c.Answer("r1#3", "allow", value="because"))
    assert result["updatedInput"] == {
        **supplied,
        "answers": {"Which?": "blue", "What else?": "a, b", "Why?": "because"},
    }


def test_one_no_is_a_no_to_all_questions() -> None:
    host = running()
    host.receive(assistant(use("c1", "AskUserQuestion", questions=QUESTIONS)))
    supplied = {"questions": QUESTIONS}
    host.receive(control("r1", "can_use_tool", tool_name="AskUserQuestion", tool_use_id="c1", input=supplied))
    assert answered(host, c.Answer("r1#2", "deny"))["behavior"] == "deny"
    closed = [(event.ask, event.how) for event in only(host.received, e.AskClosed)]
    assert closed == [("r1#2", "denied"), ("r1#1", "cancelled"), ("r1#3", "cancelled")]


@pytest.mark.parametrize(
    ("request_", "kind", "value", "told"),
    [
        ({"properties": {"ok": {"type": "boolean"}}}, "confirm", None, {"ok": True}),
        ({"properties": {"name": {"type": "string"}}}, "text", "Ada", {"name": "Ada"}),
        ({"properties": {"c": {"type": "string", "enum": ["r", "b"]}}}, "choice", "b", {"c": "b"}),
        ({"properties": {"c": {"type": "array", "items": {"enum": ["r"]}}}}, "choice", ["r"], {"c": ["r"]}),
        ({"properties": {"a": {"type": "string"}, "b": {}}}, "form", {"a": "1"}, {"a": "1"}),
    ],
)
def test_what_a_server_asks_of_a_person(request_: Frame, kind: str, value: Any, told: Frame) -> None:
    host = Host()
    [question] = host.receive(control("r1", "elicitation", message="Please", requested_schema=request_))
    assert (question.kind, question.title) == (kind, "Please")
    assert answered(host, c.Answer("r1", "allow", value=value)) == {"action": "accept", "content": told}


def test_an_address_is_only_accepted_or_not() -> None:
    host = Host()
    [question] = host.receive(control("r1", "elicitation", message="Log in", mode="url", url="http://127.0.0.1/"))
    assert (question.kind, question.args) == ("url", {"url": "http://127.0.0.1/"})
    assert answered(host, c.Answer("r1", "cancelled")) == {"action": "cancel"}


# Work for the host.


def test_a_hook_is_called_back() -> None:
    host = running()
    received = host.receive(
        control("h1", "hook_callback", callback_id="cb", input={"tool_name": "Bash"}, tool_use_id="c1")
    )
    params = {"callback": "cb", "input": {"tool_name": "Bash"}, "call": "c1"}
    assert received == [e.HostCall("h1", "hook", params, turn="t")]
    host.send(c.HostReply("h1", {"decision": "block"}))
    assert host.said()[0]["response"] == {
        "subtype": "success",
        "request_id": "h1",
        "response": {"decision": "block"},
    }
    assert refusal(host.send(c.HostReply("h1", ref="r"))).code == "unknown_call"


def test_a_server_inside_the_host_speaks_before_the_greeting_is_answered() -> None:
    host = Host(greeted=False, offers={"servers": ["calc"]})
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
    received = host.receive(control("m1", "mcp_message", server_name="calc", message=message))
    assert received == [e.HostCall("m1", "mcp_message", {"server_name": "calc", "message": message})]
    host.send(c.HostReply("m1", {"id": 0, "result": {}}))
    assert host.said()[0]["response"]["response"] == {"mcp_response": {"id": 0, "result": {}}}


def test_a_notification_is_acknowledged_and_a_failure_told() -> None:
    host = Host()
    host.receive(
        control("m1", "mcp_message", server_name="x", message={}), control("m2", "mcp_message", server_name="x")
    )
    host.send(c.HostReply("m1"), c.HostReply("m2", error="no such server"))
    one, two = (frame["response"] for frame in host.said())
    assert one["response"] == {"mcp_response": {"jsonrpc": "2.0", "result": {}}}
    assert (two["subtype"], two["error"]) == ("error", "no such server")


def test_work_that_is_no_longer_wanted_ends() -> None:
    host = Host()
    host.receive(control("d1", "request_user_dialog", dialog_kind="trust", payload={}))
    assert host.receive({"type": "control_cancel_request", "request_id": "d1"}) == [e.HostCallEnded("d1")]


def test_how_far_work_has_come_cannot_be_said() -> None:
    host = Host()
    host.receive(control("h1", "hook_callback", callback_id="cb", input={}))
    assert refusal(host.send(c.HostReply("h1", partial=True, ref="r"))).code == "unsaid"


# Settings.


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"mode": "force"}, {"subtype": "set_permission_mode", "mode": "bypassPermissions"}),
        ({"model": "big"}, {"subtype": "set_model", "model": "big"}),
        ({"thinking_budget": 500}, {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 500}),
        ({"thinking": 700}, {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 700}),
        ({"thinking": "disabled"}, {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 0}),
        ({"thinking": "high"}, {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 20_000}),
        ({"name": "A talk"}, {"subtype": "rename_session", "title": "A talk"}),
        ({"effort": "low"}, {"subtype": "apply_flag_settings", "settings": {"effortLevel": "low"}}),
        (
            {"includeCoAuthoredBy": False},
            {"subtype": "apply_flag_settings", "settings": {"includeCoAuthoredBy": False}},
        ),
        ({"a": 1, "source": "user"}, {"subtype": "update_settings", "source": "user", "settings": {"a": 1}}),
    ],
)
def test_settings_are_requests(settings: Frame, told: Frame) -> None:
    request, data = ask(Host(), c.Configure(settings, ref="r"))
    assert (request, data) == (told, None)


def test_several_settings_have_one_reply_and_the_first_failure_counts() -> None:
    host = Host()
    host.send(c.Configure({"mode": "plan", "model": "big"}, ref="r"))
    one, two = host.said()
    assert only(host.receive(success(one["request_id"], mode="plan")), e.Reply) == []
    refused = {"subtype": "error", "request_id": two["request_id"], "error": "no such model"}
    received = host.receive({"type": "control_response", "response": refused})
    assert received == [e.Reply("r", failure=Failure("refused", "no such model", "engine"))]
    assert e.SettingChanged("mode", "plan") in host.received


def test_the_environment_needs_no_answer() -> None:
    host = Host()
    assert host.send(c.Configure({"environment": {"A": 1}}, ref="r")) == [e.Reply("r")]
    assert host.said() == [{"type": "update_environment_variables", "variables": {"A": "1"}}]


@pytest.mark.parametrize("settings", [{"mode": "sleepy"}, {"steering_mode": "all"}, {"thinking": "hard"}])
def test_a_setting_without_a_word_is_refused_and_nothing_is_said(settings: Frame) -> None:
    host = Host()
    assert refusal(host.send(c.Configure(settings, ref="r"))).code == "unsaid"
    assert host.said() == []


def test_the_model_that_came_of_it_is_told() -> None:
    host = Host()
    ask(host, c.Configure({"model": "big"}, ref="r"), model="big-2")
    assert e.SettingChanged("model", "big-2") in host.received


# Servers.


def test_servers_are_named_all_together() -> None:
    host = Host()
    ask(host, c.AddServer(Server("one", "stdio", "node", ("x",), {"A": "1"}), ref="r1"))
    request, _ = ask(host, c.AddServer(Server("two", "http", url="http://127.0.0.1/"), ref="r2"))
    one = {"type": "stdio", "command": "node", "args": ["x"], "env": {"A": "1"}}
    assert request["servers"] == {"one": one, "two": {"type": "http", "url": "http://127.0.0.1/", "headers": {}}}
    request, _ = ask(host, c.ChangeServer("one", "remove", ref="r3"))
    assert list(request["servers"]) == ["two"]
    assert refusal(host.send(c.ChangeServer("one", "remove", ref="r4"))).code == "unknown_server"


def test_a_server_that_does_not_start_is_a_failure() -> None:
    host = Host()
    host.send(c.AddServer(Server("one", command="nothing"), ref="r"))
    [frame] = host.said()
    assert (
        refusal(host.receive(success(frame["request_id"], errors={"one": "no such file"}))).message
        == "one: no such file"
    )


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("reconnect", {"subtype": "mcp_reconnect", "serverName": "x"}),
        ("enable", {"subtype": "mcp_toggle", "serverName": "x", "enabled": True}),
        ("disable", {"subtype": "mcp_toggle", "serverName": "x", "enabled": False}),
    ],
)
def test_a_server_is_changed(action: Any, told: Frame) -> None:
    assert ask(Host(), c.ChangeServer("x", action, ref="r"))[0] == told


def test_a_server_inside_the_host_may_speak_unasked() -> None:
    said = c.HostSays("mcp_message", {"server_name": "x", "message": {"method": "changed"}}, ref="r")
    request, _ = ask(Host(), said)
    assert request == {"subtype": "mcp_message", "server_name": "x", "message": {"method": "changed"}}
    assert refusal(Host().send(c.HostSays("sing", ref="r"))).code == "unsaid"


# Questions.


@pytest.mark.parametrize(
    ("what", "answer", "data"),
    [
        (
            "context",
            {
                "totalTokens": 9,
                "maxTokens": 100,
                "categories": [{"name": "Prompt", "tokens": 9, "kind": "used"}, {"name": "Free", "kind": "free"}],
            },
            ContextReport(9, 100, (ContextPart("Prompt", 9),)),
        ),
        (
            "servers",
            {"mcpServers": [{"name": "x", "status": "needs-auth", "tools": [{"name": "add"}]}]},
            (ServerCard("x", "failed", ("add",), "needs-auth"),),
        ),
        ("models", {"models": [{"value": "big", "supportedEffortLevels": ["low"]}]}, (
            ModelCard("anthropic", "big", effort_levels=("low",)),
        )),
        ("rules", {"state": {"rules": [{"toolName": "Read", "behavior": "allow"}, {}]}}, (Rule("tool", "Read"),)),
        ("version", {"version": "2.1.325"}, "2.1.325"),
        ("settings", {"effective": {"a": 1}}, {"effective": {"a": 1}}),
    ],
)  # fmt: skip
def test_answers_are_in_our_own_words(what: str, answer: Frame, data: Any) -> None:
    assert ask(Host(), c.Query(what, ref="r"), **answer)[1] == data


def test_what_is_known_here_is_not_asked_for() -> None:
    host = Host(greeted=False)
    greeting = {"commands": [{"name": "cost", "description": "What it cost", "builtin": True}]}
    host.receive(success(host.greeting[0]["request_id"], current_permission_mode="plan", **greeting))
    host.send(c.Prompt("t", "go"))
    used = {"inputTokens": 5, "costUSD": 0.5}
    host.receive({**INIT, "tools": ["Bash"]}, {**RESULT, "total_cost_usd": 0.5, "modelUsage": {"m": used}})
    host.said()
    result = [
        only(host.send(c.Query(what, ref="r")), e.Reply)[0].data for what in ("commands", "tools", "state", "cost")
    ]
    assert host.said() == []
    assert result[0] == (CommandCard("cost", "What it cost", builtin=True),)
    assert result[1:3] == [("Bash",), State("s", "m", "plan")]
    assert isinstance(result[3], Ledger)
    assert result[3].total == Usage(5, cost=0.5)


def test_a_question_nobody_knows_or_that_lacks_something_is_refused() -> None:
    assert refusal(Host().send(c.Query("weather", ref="r"))).code == "unsaid"
    assert refusal(Host().send(c.Query("file", ref="r"))).code == "bad_args"


def test_files_are_put_back_or_not() -> None:
    request, data = ask(Host(), c.Rewind("u1", dry_run=True, ref="r"), canRewind=True, filesChanged=["a"], insertions=2)
    assert request == {"subtype": "rewind_files", "user_message_id": "u1", "dry_run": True}
    assert data == Rewound(("a",), 2)
    host = Host()
    host.send(c.Rewind("u1", ref="r"))
    assert refusal(host.receive(success("r", canRewind=False, error="switched off"))).message == "switched off"


def test_a_conversation_is_taken_back_or_not() -> None:
    command = c.Rewind("u1", what="conversation", ref="r")
    request, data = ask(Host(), command, rewound=True, prefillText="Go")
    assert request == {"subtype": "rewind_conversation", "target_message_uuid": "u1"}
    assert data == Rewound(prompt="Go")
    host = Host()
    host.send(command)
    assert refusal(host.receive(success("r", rewound=False, error="not there"))).message == "not there"


def test_the_end_is_a_request_too() -> None:
    assert ask(Host(), c.Quit("enough", ref="r"))[0] == {"subtype": "end_session", "reason": "enough"}


# What has no word.


@pytest.mark.parametrize(
    "command",
    [
        c.Authenticate("key", ref="r"),
        c.OpenSession("new", ref="r"),
        c.CloseSession(ref="r"),
        c.RunShell("ls", ref="r"),
        c.Grant(Rule("tool", "Bash"), ref="r"),
        c.UnknownCommand("sing", ref="r"),
        c.Hello(offers={"tools": [{"name": "add"}]}, ref="r"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_what_the_wire_has_no_word_for_is_refused(command: c.Command) -> None:
    host = Host()
    assert refusal(host.send(command)).code == "unsaid"
    assert host.said() == []


def test_a_host_may_introduce_itself_later() -> None:
    host = Host()
    host.send(c.Hello(offers={"servers": ["calc"], "tools": [{"name": "add"}]}, ref="r"))
    [frame] = host.said()
    assert frame["request"]["sdkMcpServers"] == ["calc"]
    assert only(host.receive(success("r", commands=[])), e.Reply) == [e.Reply("r")]


# Said by other means.


def test_what_our_own_end_said_is_understood_from_a_tape() -> None:
    side = HostSide(env())
    said = [
        {"type": "control_request", "request_id": "g", "request": {"subtype": "initialize"}},
        {"type": "user", "uuid": "t", "message": {"role": "user", "content": "go"}},
    ]
    side.note_sent(b"".join(map(jsonl.dump, said)) + b"no json\n")
    result = [success("g", claude_code_version="2.1.325"), INIT, assistant(use("c1"))]
    requested = control("r1", "can_use_tool", tool_name="Bash", tool_use_id="c1", input={})
    received = side.receive(b"".join(map(jsonl.dump, [*result, requested])))
    assert [event.version for event in only(received, e.Ready)] == ["2.1.325"]
    assert [event.text for event in only(received, e.UserMessage)] == ["go"]
    yes = {"subtype": "success", "request_id": "r1", "response": {"behavior": "allow"}}
    assert side.note_sent(jsonl.dump({"type": "control_response", "response": yes})) == [
        e.AskClosed("r1", "allowed", turn="t")
    ]
    assert side.data_to_send() == b""
