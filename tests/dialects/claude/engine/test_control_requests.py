"""Control requests of the host: what each leads to, and its one answer (section 2.2)."""

from typing import Any

import pytest

from dialects.claude.engine_driver import EngineDriver
from polylect.vocab import answers
from polylect.vocab.commands import (
    AddContext,
    AddServer,
    Cancel,
    ChangeServer,
    Command,
    Configure,
    Grant,
    Hello,
    HostSays,
    MalformedCommand,
    Query,
    Quit,
    Rewind,
    UnknownCommand,
)
from polylect.vocab.content import Failure, Message, Rule, Server, ToolCall, Usage
from polylect.vocab.events import HostCall, QueueChanged, Reply, SettingChanged, TurnStarted

REPORT = answers.ContextReport(50, 200, (answers.ContextPart("tools", 20),))
LEDGER = answers.Ledger(Usage(10, 5, cost=0.25), ({},))
CARD = answers.ServerCard("team", "failed", ("one",), "gone", "http", "Team Server 1.2")
SERVERS = {"team": {"type": "http", "url": "http://127.0.0.1/"}, "calc": {"type": "sdk", "name": "calc"}}
PLANNED = Message("assistant", (ToolCall("c1", "ExitPlanMode", {"plan": "First this."}),))
OURS = {"source": "session", "editability": "session"}

ASKED: list[tuple[str, dict[str, Any], list[Command], Any, Any]] = [
    ("set_model", {"model": "m2"}, [Configure({"model": "m2"})], None, {"model": "m2"}),
    ("set_model", {"model": None}, [Configure({"model": "m"})], None, {"model": "m"}),
    ("set_max_thinking_tokens", {"max_thinking_tokens": 9}, [Configure({"thinking": 9})], None, None),
    ("set_max_thinking_tokens", {"max_thinking_tokens": None}, [Configure({"thinking": "disabled"})], None, None),
    ("mcp_status", {}, [Query("servers")], (CARD,), {
        "mcpServers": [
            {
                "name": "team", "status": "failed", "tools": [{"name": "one"}],
                "transport": "http", "source": "dynamic", "serverInfo": {"name": "Team Server", "version": "1.2"},
                "error": "gone",
            }
        ]
    }),
    ("mcp_reconnect", {"serverName": "team"}, [ChangeServer("team", "reconnect")], None, None),
    ("mcp_toggle", {"serverName": "team", "enabled": False}, [ChangeServer("team", "disable")], None, None),
    ("mcp_toggle", {"serverName": "team", "enabled": True}, [ChangeServer("team", "enable")], None, None),
    ("mcp_message", {"server_name": "calc", "message": {"a": 1}}, [
        HostSays("mcp_message", {"server_name": "calc", "message": {"a": 1}})
    ], None, None),
    ("rewind_files", {"user_message_id": "u"}, [Rewind("u")], answers.Rewound(("/a",), 1, 2), {
        "canRewind": True, "filesChanged": ["/a"], "insertions": 1, "deletions": 2,
    }),
    ("get_context_usage", {}, [Query("context"), Query("state")], REPORT, {
        "categories": [{"id": "system_tools", "name": "tools", "tokens": 20, "color": "", "kind": "used"}],
        "totalTokens": 50, "maxTokens": 200, "rawMaxTokens": 200, "percentage": 25, "model": "m",
        "isAutoCompactEnabled": True,
        "gridRows": [], "memoryFiles": [], "mcpTools": [], "agents": [], "apiUsage": None,
    }),
    ("rewind_conversation", {"target_message_uuid": "u", "expires_at": 5}, [Rewind("u", what="conversation")],
     answers.Rewound(prompt="Go"),
     {"rewound": True, "targetMessageUuid": "u", "prefillText": "Go", "precedingAssistantUuid": None}),
    ("reload_plugins", {}, [Query("commands"), Query("personas"), Query("servers")], (), {
        "commands": [], "agents": [], "plugins": [], "mcpServers": [], "error_count": 0,
    }),
    ("reload_skills", {}, [Query("skills")], (answers.CommandCard("bake", "Bakes."),), {
        "skills": [{"name": "bake", "description": "Bakes.", "argumentHint": "", "builtin": False}]
    }),
    ("get_status", {}, [Query("state")], answers.State(session="s", model="m3"), {"sections": [{
        "title": "Session",
        "rows": [
            {"label": "Version", "value": "2.1.325"}, {"label": "Session ID", "value": "s"},
            {"label": "cwd", "value": "/w"}, {"label": "Model", "value": "m3"},
            {"label": "Permission mode", "value": "default"},
        ],
    }]}),
    ("get_settings", {}, [Query("state")], answers.State(model="m3"), {
        "effective": {"model": "m3", "permissions": {"defaultMode": "default"}},
        "sources": [], "applied": {"model": "m3", "effort": None},
    }),
    ("apply_flag_settings", {"settings": {"model": "m2", "permissions": {"defaultMode": "plan"}, "x": 1}}, [
        Configure({"model": "m2", "mode": "plan"})
    ], None, None),
    ("apply_flag_settings", {
        "settings": {"permissions": {"allow": ["Read"], "deny": ["Write"], "additionalDirectories": ["/b"]}}
    }, [Configure({"rules": {"allow": ["Read"], "deny": ["Write"]}}), Grant(rule=Rule("path", "/b"))], None, None),
    ("update_settings", {"source": "user", "settings": {"effortLevel": "low"}}, [
        Configure({"effort": "low"})
    ], None, None),
    ("get_session_cost", {}, [Query("cost")], LEDGER, {
        "text": "Total cost: $0.2500 for 1 requests, 10 tokens in, 5 out, 0 from the cache, 0 into it"
    }),
    ("get_usage", {}, [Query("cost")], LEDGER, {
        "session": {"total_cost_usd": 0.25, "model_usage": {}}, "rate_limits": None,
    }),
    ("stop_task", {"task_id": "k"}, [Cancel("agent", "k")], None, {}),
    ("cancel_async_message", {"message_uuid": "u"}, [Cancel("prompt", "u")], None, {"cancelled": False}),
    ("list_models", {}, [Query("models")], (answers.ModelCard("p", "m", effort_levels=("low",)),), {
        "models": [{
            "value": "m", "displayName": "m", "description": "m of p", "resolvedModel": "m",
            "supportsEffort": True, "supportedEffortLevels": ["low"],
        }]
    }),
    ("list_permission_rules", {}, [Query("rules")], (Rule("prefix", "git log"), Rule("path", "/b", effect="deny")), {
        "state": {
            "rules": [
                {"toolName": "Bash", "ruleContent": "git log:*", "behavior": "allow",
                 "rule": "Bash(git log:*)", **OURS},
                {"toolName": "Edit", "ruleContent": "//b", "behavior": "deny", "rule": "Edit(//b)", **OURS},
            ],
            "workspaceDirectories": [{"path": "/w", "source": "session"}],
            "originalCwd": "/w",
            "managedOnly": False,
        }
    }),
    ("get_binary_version", {}, [Query("version")], "0.1.0", {"version": "2.1.325", "engine": "0.1.0"}),
    ("read_file", {"path": "a"}, [Query("file", {"path": "a", "most": 163840})], answers.FileContent("/w/a", b"x\xff"),
     {"contents": "x\ufffd", "absPath": "/w/a", "lossy": True}),
    ("read_file", {"path": "a", "max_bytes": 1, "encoding": "base64"}, [Query("file", {"path": "a", "most": 1})],
     answers.FileContent("/w/a", b"x", True),
     {"contents": "eA==", "absPath": "/w/a", "truncated": True, "encoding": "base64"}),
    ("seed_read_state", {"path": "a", "mtime": 5}, [Configure({"seen": {"a": 5}})], None, None),
    ("get_plan", {}, [Query("messages")], (), {"exists": False}),
    ("get_plan", {}, [Query("messages")], (answers.Item("e", 1, PLANNED),), {"exists": True, "content": "First this."}),
    ("export_conversation", {}, [Query("transcript")], "# Talk",
     {"text": "# Talk", "default_filename": "conversation-s.md"}),
    ("get_task_output", {"task_id": "b"}, [Query("agent_output", {"task": "b"})], answers.TaskOutput("x", 9, True),
     {"output": "x", "total_bytes": 9, "truncated": True}),
]  # fmt: skip


def strip(commands: list[Command]) -> list[dict[str, Any]]:
    return [
        {"do": type(one).__name__} | {key: getattr(one, key) for key in one.__struct_fields__ if key != "ref"}
        for one in commands
    ]


@pytest.mark.parametrize(("subtype", "fields", "commands", "data", "payload"), ASKED, ids=[case[0] for case in ASKED])
def test_a_request_leads_to_commands_and_gets_one_answer(
    subtype: str, fields: dict[str, Any], commands: list[Command], data: Any, payload: Any
) -> None:
    driver = EngineDriver()
    received = driver.request(subtype, **fields)
    assert strip(received) == strip(commands)
    assert driver.frames == []
    driver.send(*(Reply(command.ref, data) for command in received))
    success = {"subtype": "success", "request_id": "r"} | ({} if payload is None else {"response": payload})
    assert driver.frames == [{"type": "control_response", "response": success}]


def refusal(driver: EngineDriver) -> tuple[str, str]:
    [frame] = driver.frames
    assert frame["response"]["subtype"] == "error"
    return frame["response"]["error"], frame["response"].get("error_code", "")


def test_what_the_engine_refuses_is_refused() -> None:
    driver = EngineDriver()
    [command] = driver.request("mcp_reconnect", serverName="x")
    driver.send(Reply(command.ref, failure=Failure("mcp", "there is no MCP server 'x'", "host")))
    assert refusal(driver) == ("there is no MCP server 'x'", "mcp")
    [command] = driver.request("export_conversation")
    driver.send(Reply(command.ref, failure=Failure("unsupported", "cannot", "host")))
    assert refusal(driver) == ("cannot", "unsupported_request")


@pytest.mark.parametrize(
    ("subtype", "payload"),
    [
        ("background_tasks", {"backgrounded": False}),
        ("reload_output_styles", {"available_output_styles": ["default"]}),
        ("set_has_subscribers", {}),
    ],
)
def test_what_needs_no_engine_is_answered_at_once(subtype: str, payload: dict[str, Any]) -> None:
    driver = EngineDriver()
    assert driver.request(subtype) == []
    [frame] = driver.frames
    assert frame["response"]["response"] == payload


def test_what_is_not_served_is_refused_with_what_to_do_instead() -> None:
    driver = EngineDriver()
    [unknown] = driver.request("side_question", question="why?")
    assert isinstance(unknown, UnknownCommand)
    message = "Unsupported control request subtype: side_question. Send it as a prompt."
    assert refusal(driver) == (message, "unsupported_request")


def test_what_nobody_knows_is_answered_as_such() -> None:
    driver = EngineDriver()
    [unknown] = driver.request("dance")
    assert isinstance(unknown, UnknownCommand)
    assert unknown.kind == "control_request/dance"
    assert refusal(driver) == ("Unsupported control request subtype: dance", "unsupported_request")
    [malformed] = driver.request("mcp_toggle", serverName="x")
    assert isinstance(malformed, MalformedCommand)
    assert refusal(driver)[1] == "invalid_request"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"permissions": 5}, "permissions"),
        ({"permissions": {"deny": "Write"}}, "deny"),
        ({"permissions": {"allow": [5]}}, "allow"),
        ({"permissions": {"defaultMode": "zz"}}, "zz"),
        ({"permissions": {"defaultMode": 5}}, "defaultMode"),
        ({"permissions": {"additionalDirectories": ["b"]}}, "additionalDirectories"),
        ({"permissions": {"deny": ["Write"], "neverAsk": True}}, "neverAsk"),
        ({"hooks": {}, "model": "m2"}, "hooks"),
        ({"model": 5}, "model"),
    ],
)
def test_settings_that_would_not_hold_are_refused_by_name_and_none_is_taken(settings: Any, named: str) -> None:
    driver = EngineDriver()
    [malformed] = driver.request("apply_flag_settings", settings=settings)
    assert isinstance(malformed, MalformedCommand)
    assert named in refusal(driver)[0]


@pytest.mark.parametrize("request_", [None, 5, [], {}, {"subtype": 5}, {"subtype": None}])
def test_a_request_that_names_itself_and_asks_for_nothing_is_answered(request_: Any) -> None:
    driver = EngineDriver()
    [malformed] = driver.receive({"type": "control_request", "request_id": "r", "request": request_})
    assert isinstance(malformed, MalformedCommand)
    assert refusal(driver) == ("control_request: expected a request with a subtype", "invalid_request")


def test_a_task_that_is_over_can_be_stopped() -> None:
    driver = EngineDriver()
    [command] = driver.request("stop_task", task_id="k")
    driver.send(Reply(command.ref, failure=Failure("unknown_agent", "no agent", "host")))
    assert driver.frames[0]["response"]["response"] == {}


def test_files_that_cannot_be_put_back_are_an_error_but_for_a_trial() -> None:
    driver = EngineDriver()
    failure = Failure("unsupported", "there are no checkpoints", "host")
    [command] = driver.request("rewind_files", user_message_id="u", dry_run=True)
    driver.send(Reply(command.ref, failure=failure))
    payload = driver.frames[0]["response"]["response"]
    assert payload == {"canRewind": False, "error": "there are no checkpoints"}
    [command] = driver.request("rewind_files", user_message_id="u")
    driver.send(Reply(command.ref, failure=failure))
    assert refusal(driver)[0] == "there are no checkpoints"


def test_a_prompt_that_waits_can_be_taken_back() -> None:
    driver = EngineDriver()
    first = driver.prompt()
    driver.send(TurnStarted(turn=first))
    driver.send(QueueChanged((driver.prompt(uuid="u-2"),)))
    [command] = driver.request("cancel_async_message", message_uuid="u-2")
    driver.send(Reply(command.ref))
    assert driver.frames[-1]["response"]["response"] == {"cancelled": True}


def test_a_new_mode_is_told_after_the_answer() -> None:
    driver = EngineDriver()
    [command] = driver.request("set_permission_mode", mode="bypassPermissions")
    assert strip([command]) == strip([Configure({"mode": "force"})])
    driver.send(SettingChanged("mode", "force"), Reply(command.ref))
    answer, status = driver.frames
    assert answer["response"]["response"] == {"mode": "bypassPermissions"}
    assert (status["subtype"], status["status"], status["permissionMode"]) == ("status", None, "bypassPermissions")
    driver.send(SettingChanged("mode", "default"))
    assert driver.frames[0]["permissionMode"] == "default"


def test_a_mode_that_does_not_exist_is_refused() -> None:
    driver = EngineDriver()
    driver.request("set_permission_mode", mode="dance")
    assert refusal(driver)[1] == "invalid_mode"


def test_servers_are_set_by_the_difference_to_those_set_before() -> None:
    driver = EngineDriver()
    team, calc = Server("team", "http", url="http://127.0.0.1/"), Server("calc", "host")
    received = driver.request("mcp_set_servers", servers=SERVERS)
    assert strip(received) == strip([AddServer(team), AddServer(calc)])
    driver.send(Reply(received[0].ref), Reply(received[1].ref, failure=Failure("mcp", "no", "host")))
    assert driver.frames[0]["response"]["response"] == {"added": ["team"], "removed": [], "errors": {"calc": "no"}}
    received = driver.request("mcp_set_servers", servers={})
    assert strip(received) == strip([ChangeServer("team", "remove")])
    driver.send(Reply(received[0].ref))
    assert driver.frames[0]["response"]["response"] == {"added": [], "removed": ["team"], "errors": {}}
    assert driver.request("mcp_set_servers", servers={}) == []
    assert driver.frames[0]["response"]["subtype"] == "success"
    driver.request("mcp_set_servers", servers={"x": {"type": "carrier pigeon"}})
    assert refusal(driver)[1] == "invalid_request"


def test_the_end_is_answered_before_it_comes() -> None:
    driver = EngineDriver()
    received = driver.request("end_session", reason="done")
    assert received == [Quit("done")]
    assert driver.frames[0]["response"] == {"subtype": "success", "request_id": "r"}


# The greeting.


def test_initialize_is_one_answer_to_many_commands() -> None:
    driver = EngineDriver(pid=7)
    received = driver.request(
        "initialize",
        hooks={"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["h1"], "timeout": 5}]},
        agents={"scout": {"prompt": "look"}},
        systemPrompt=["Be brief.", ""],
        appendSystemPrompt="Be kind.",
        sdkMcpServers=["calc"],
        jsonSchema={"type": "object"},
        title="A talk",
        somethingNew=True,
    )
    offers = {"hooks": {"PreToolUse": [{"matcher": "Bash", "ids": ["h1"], "timeout": 5}]}, "servers": ["calc"]}
    assert strip(received) == strip(
        [
            Hello(offers=offers),
            Configure({"agents": {"scout": {"prompt": "look"}}}),
            Configure({"json_schema": {"type": "object"}}),
            Configure({"name": "A talk"}),
            Configure({"system_prompt": "Be brief."}),
            AddContext("Be kind."),
            Query("personas"),
            Query("commands"),
            Query("models"),
        ]
    )
    driver.send(SettingChanged("agents", ["scout", "other"]), *(Reply(command.ref) for command in received[:-3]))
    driver.send(Reply(received[-3].ref, (answers.CommandCard("scout", "Looks around"),)))
    assert driver.frames == []
    driver.send(Reply(received[-2].ref, (answers.CommandCard("cost", "Tells", "[x]", True),)), Reply(received[-1].ref))
    [frame] = driver.frames
    payload = frame["response"]["response"]
    assert payload["commands"] == [{"name": "cost", "description": "Tells", "argumentHint": "[x]", "builtin": True}]
    agents = [{"name": "scout", "description": "Looks around"}, {"name": "other", "description": ""}]
    assert payload["agents"] == agents
    assert (payload["pid"], payload["current_permission_mode"], payload["models"]) == (7, "default", [])
    assert payload["hooks_applied"] is True


def test_a_new_name_is_told_before_the_answer() -> None:
    driver = EngineDriver()
    [configure] = driver.request("rename_session", title="A talk")
    assert strip([configure]) == strip([Configure({"name": "A talk"})])
    driver.send(Reply(configure.ref))
    changed, answer = driver.frames
    assert (changed["subtype"], changed["title"]) == ("session_title_changed", "A talk")
    assert answer["response"] == {"subtype": "success", "request_id": "r"}


def test_a_conversation_that_cannot_be_taken_back_is_an_answer_and_no_error() -> None:
    driver = EngineDriver()
    [rewind] = driver.request("rewind_conversation", target_message_uuid="u")
    driver.send(Reply(rewind.ref, failure=Failure("target_not_found", "there is no prompt 'u'", "host")))
    [frame] = driver.frames
    assert frame["response"]["response"] == {
        "rewound": False,
        "prefillText": None,
        "precedingAssistantUuid": None,
        "error": "there is no prompt 'u'",
        "reason": "target_not_found",
    }


def test_what_has_no_effect_in_a_greeting_is_named() -> None:
    driver = EngineDriver()
    received = driver.request(
        "initialize", hooks=None, toolAliases={"Grep": "Find"}, plugins=[{"path": "/p"}], promptSuggestions=False
    )
    driver.send(*(Reply(command.ref) for command in received))
    notice, answer = driver.frames
    assert notice["content"] == "initialize: these have no effect here: toolAliases, plugins"
    payload = answer["response"]["response"]
    assert (payload["plugins_applied"], "hooks_applied" in payload) == (False, False)


def test_a_setting_that_the_engine_does_not_take_is_told_and_the_greeting_stands() -> None:
    driver = EngineDriver()
    hello, configure, *rest = driver.request("initialize", hooks=None, agents={"a": {}})
    failure = Failure("bad_setting", "there is no setting 'agents'", "host")
    driver.send(Reply(hello.ref), Reply(configure.ref, failure=failure), *(Reply(one.ref) for one in rest))
    notice, answer = driver.frames
    assert (notice["content"], answer["response"]["subtype"]) == ("there is no setting 'agents'", "success")


def test_servers_inside_the_host_are_spoken_to_before_it_is_greeted() -> None:
    """Section 4.5: the host serves requests while it waits."""
    driver = EngineDriver()
    hello, *rest = driver.request("initialize", sdkMcpServers=["calc"])
    driver.send(HostCall("h1", "mcp_message", {"server_name": "calc", "message": {"id": 0}}))
    assert driver.names == ["control_request/mcp_message"]
    driver.send(*(Reply(command.ref) for command in (hello, *rest)))
    assert driver.names == ["control_response"]


def test_a_greeting_may_come_late_and_again_and_takes_no_offer_back() -> None:
    driver = EngineDriver()
    driver.prompt()
    for number in (1, 2):
        received = driver.request("initialize", id=f"r{number}")
        assert isinstance(received[0], Hello) == (number == 1)
        driver.send(*(Reply(command.ref) for command in received))
    assert [frame["response"]["request_id"] for frame in driver.frames] == ["r1", "r2"]


def test_the_words_of_agents_can_be_asked_for_with_the_greeting() -> None:
    driver = EngineDriver()
    driver.request("initialize", forwardSubagentText=True)
    assert driver.codec._writer.tasks.forward
